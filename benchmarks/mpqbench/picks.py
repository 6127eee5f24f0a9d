"""What a scheduler's pick costs, over four paths: while it knows nothing of the stream, and with all that it may look at."""

import statistics
import sys

from . import criterion
from .figures import Figure

RUNS = 1
PATHS = 4
# As criterion has them in names of files.
BARE, FULL = "pick", "pick for a stream"


def run(setting):
    """`setting.runs` is how often the whole is repeated; n is the number of samples of all."""
    samples = {}
    for i in range(setting.runs):
        print(f"picks: run {i + 1} of {setting.runs}, about 3 minutes", file=sys.stderr)
        for name, values in criterion.measure(setting.rest["picks"], setting.out / "criterion-picks", "pick").items():
            samples.setdefault(name, []).extend(values)
    return figures(samples)


def figures(samples):
    """`samples`: nanoseconds for each pick, by (group, scheduler, paths)."""
    names = list(dict.fromkeys(name for _, name, _ in samples))

    def cost(group, name):
        return statistics.median(samples[group, name, PATHS])

    dearest = max(names, key=lambda name: cost(FULL, name))
    result = [Figure("picks for a stream", f"dearest ({dearest}) / min-rtt without", "",
                     values=[cost(FULL, dearest) / cost(BARE, "min-rtt")])]
    for group in (BARE, FULL):
        result += [Figure(name, f"time for a {group}", "ns", values=samples[group, name, PATHS]) for name in names]
    return result
