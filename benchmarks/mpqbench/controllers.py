"""What an acknowledged packet costs in each congestion controller: criterion's samples, beside quiche's own CUBIC in
the same run."""

import json
import os
import statistics
import subprocess
import sys

from mpqnet.process import CommandError

from .figures import Figure, Goal

RUNS = 1
PATHS = (1, 2, 4, 8)
TIMEOUT_S = 1800


def run(setting):
    """`setting.runs` is how often the whole is repeated; n is the number of samples of all."""
    samples = {}
    for i in range(setting.runs):
        print(f"controllers: run {i + 1} of {setting.runs}, about 3 minutes", file=sys.stderr)
        for name, values in _measure(setting).items():
            samples.setdefault(name, []).extend(values)
    return figures(samples)


def figures(samples):
    """`samples`: nanoseconds for each acknowledgment, by (group, controller, paths)."""
    cubic = statistics.median(samples["quiche", "cubic", 1])
    names = list(dict.fromkeys(name for group, name, _ in samples if group == "ack"))
    of_all = Figure("controllers, 2 paths", "median controller's cost / quiche's CUBIC", "", Goal("<=", 1.5))
    most = Figure("controllers, 2 paths", "dearest controller's cost / quiche's CUBIC", "", Goal("<=", 3.0))
    growth = Figure("controllers", "cost of 8 paths / cost of 1, dearest growth", "", Goal("<=", 8.0))
    at_two = [statistics.median(samples["ack", name, 2]) / cubic for name in names]
    of_all.values.append(statistics.median(at_two))
    most.values.append(max(at_two))
    growth.values.append(max(statistics.median(samples["ack", name, 8]) / statistics.median(samples["ack", name, 1])
                             for name in names))
    result = [of_all, most, growth]
    for name in ("reno", "cubic"):
        result.append(Figure(f"quiche's {name}", "time for an acknowledged packet", "ns",
                             values=samples["quiche", name, 1]))
    for name in names:
        for paths in PATHS:
            result.append(Figure(name, f"time for an acknowledged packet, {paths} path{'s' * (paths > 1)}", "ns",
                                 values=samples["ack", name, paths]))
    return result


def _measure(setting):
    home = setting.out / "criterion"
    environment = {**os.environ, "CRITERION_HOME": str(home)}
    # A folder of an earlier run would be compared with, and may hold controllers that are no more.
    for old in home.glob("*/*/*/new/sample.json"):
        old.unlink()
    done = subprocess.run([setting.rest["acks"], "--bench"], env=environment, timeout=TIMEOUT_S, check=False,
                          stdout=sys.stderr.fileno())
    if done.returncode != 0:
        raise CommandError(f"{setting.rest['acks']} failed ({done.returncode})")
    samples = {}
    for file in sorted(home.glob("*/*/*/new/sample.json")):
        group, name, paths = file.parts[-5:-2]
        sample = json.loads(file.read_text(encoding="utf-8"))
        samples[group, name, int(paths)] = [time / iterations for time, iterations
                                            in zip(sample["times"], sample["iters"], strict=True)]
    if not samples:
        raise CommandError(f"{home} has no samples")
    return samples
