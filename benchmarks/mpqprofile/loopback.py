"""The instructions of both ends of a bulk transfer in one process: benchmarks/loopback."""

import json
import subprocess

from mpqnet.process import CommandError

from . import callgrind

LIMIT_S = 900


def profile(program, out, few_bytes, many_bytes):
    """(Profile, datagrams of the sender) of what `many_bytes` take more than `few_bytes`."""
    out.mkdir(parents=True, exist_ok=True)
    (few, datagrams), (many, more) = (_run(program, out, size) for size in (few_bytes, many_bytes))
    return many.minus(few), more - datagrams


def _run(program, out, size):
    file = out / f"callgrind.out.{size}"
    done = subprocess.run(["valgrind", "--tool=callgrind", "--compress-strings=no", "--compress-pos=no",
                           f"--callgrind-out-file={file}", program, str(size)],
                          capture_output=True, text=True, timeout=LIMIT_S, check=False)
    if done.returncode != 0:
        raise CommandError(f"{program} failed under valgrind ({done.returncode}): {done.stderr.strip()[-500:]}")
    return callgrind.load(file), json.loads(done.stdout)["datagrams"]
