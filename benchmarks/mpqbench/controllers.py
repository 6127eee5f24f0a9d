"""What an acknowledged packet costs in each congestion controller: criterion's samples, beside quiche's own CUBIC in
the same run."""

import statistics
import sys

from . import criterion
from .figures import Figure, Goal

RUNS = 1
PATHS = (1, 2, 4, 8)


def run(setting):
    """`setting.runs` is how often the whole is repeated; n is the number of samples of all."""
    samples = {}
    for i in range(setting.runs):
        print(f"controllers: run {i + 1} of {setting.runs}, about 3 minutes", file=sys.stderr)
        for name, values in criterion.measure(setting.rest["acks"], setting.out / "criterion").items():
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
