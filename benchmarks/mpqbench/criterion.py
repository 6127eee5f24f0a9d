"""Runs a benchmark that criterion measures, and reads its samples."""

import json
import os
import subprocess
import sys

from mpqnet.process import CommandError

TIMEOUT_S = 1800


def measure(program, home, only=None):
    """Nanoseconds for each iteration, by (group, name, paths); `only` those whose names have this in them."""
    environment = {**os.environ, "CRITERION_HOME": str(home)}
    # A folder of an earlier run would be compared with, and may hold what is no more.
    for old in home.glob("*/*/*/new/sample.json"):
        old.unlink()
    done = subprocess.run([program, "--bench", *([only] if only else [])], env=environment, timeout=TIMEOUT_S, check=False,
                          stdout=sys.stderr.fileno())
    if done.returncode != 0:
        raise CommandError(f"{program} failed ({done.returncode})")
    samples = {}
    for file in sorted(home.glob("*/*/*/new/sample.json")):
        group, name, paths = file.parts[-5:-2]
        sample = json.loads(file.read_text(encoding="utf-8"))
        samples[group, name, int(paths)] = [time / iterations for time, iterations
                                            in zip(sample["times"], sample["iters"], strict=True)]
    if not samples:
        raise CommandError(f"{home} has no samples")
    return samples
