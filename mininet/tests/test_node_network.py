"""Hosts that cannot start: why is said, in bounded time, and nothing stays. Needs root."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from built import find, in_namespaces

HERE = Path(__file__).parent
# Without the programs that these would run: none comes so far.
SCENARIO = HERE.parents[1] / "experiments/scenarios/sim-two-links.toml"

pytestmark = in_namespaces

START = "from mpqnet.topology import DisjointPaths\nwith DisjointPaths((), 'wire'): print('started')\n"


def run(command, **options):
    # What waits for ever here would wait for ever without a test too.
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, cwd=HERE.parent, **options)


def fake_mnexec(tmp_path, script):
    program = tmp_path / "mnexec"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    return {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}


def without_rights(*words):
    return ["setpriv", "--bounding-set", "-sys_admin", "--inh-caps", "-sys_admin", *words]


def test_hosts_start_here():
    done = run([sys.executable, "-c", START])
    assert (done.returncode, done.stdout) == (0, "started\n"), done.stderr


def test_without_the_right_to_make_namespaces():
    done = run(without_rights(sys.executable, "-c", START))
    assert done.returncode != 0
    last = done.stderr.splitlines()[-1]
    assert "client: no host could be started" in last and "ot permitted" in last and "CAP_SYS_ADMIN" in last, done.stderr


def test_the_runner_says_it_and_ends(tmp_path):
    mpq, wire = find("mpq"), find("mpq-wire")
    assert mpq and wire, "`cargo build -p mpq -p mpq-wire` makes both"
    done = run(without_rights(sys.executable, "run.py", str(SCENARIO), "--mpq", mpq, "--wire", wire, "--backend", "wire",
                              "--out", tmp_path / "out"))
    assert done.returncode == 2
    assert "run: client: no host could be started" in done.stderr and "Traceback" not in done.stderr, done.stderr


def test_in_a_chroot(tmp_path):
    # What mnexec says there, and with a message that comes long before its end.
    done = run([sys.executable, "-c", START],
               env=fake_mnexec(tmp_path, "echo 'mount remount: Invalid argument' >&2; sleep 1; exit 1"))
    assert done.returncode != 0
    last = done.stderr.splitlines()[-1]
    assert "Invalid argument" in last and "exit status 1" in last and "chroot" in last, done.stderr


def test_a_shell_that_never_comes(tmp_path):
    begun = time.monotonic()
    done = run([sys.executable, "-c", "from mpqnet import node; node.START_LIMIT_S = 2\n" + START],
               env=fake_mnexec(tmp_path, f"echo $$ >{tmp_path}/pid; echo hm; exec sleep 1000"))
    assert done.returncode != 0
    last = done.stderr.splitlines()[-1]
    assert "not there within 2 s" in last and "it said: hm" in last, done.stderr
    assert time.monotonic() - begun >= 2
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "pid").read_text()), 0)
