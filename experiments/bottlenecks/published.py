"""Published ways to find shared bottlenecks, as test doubles: what they would have said of a flow that does not
listen."""

import csv
from collections import defaultdict
from dataclasses import dataclass

from . import cmpbbr, rfc8382, topologies
from .verdicts import JUDGED_S, ResultError, Verdict, runs

# RFC 8382 says nothing at `JUDGED_S`.
LATE_S = 30
RUN_S = LATE_S + 2
# From one packet of a path to the next whose delay counts.
DELAYS_APART = "1 ms"
# Of our BBR's `phase`: Down, Cruise, Refill, Up.
PROBE_BW = range(2, 6)


@dataclass(frozen=True)
class Double:
    """Its name, the sender it watches, and what it says: times and whether paths are one group, from a run's folder."""
    name: str
    over: str
    says: object

    @property
    def label(self):
        return f"{self.name} over {self.over}"


def verdict(double, kind, said, at_s):
    """What a double `said`, judged at that time; it is watched for two seconds more, as controllers are."""
    said = [(time_s, joined) for time_s, joined in said if time_s <= at_s + RUN_S - LATE_S]
    first = next((time_s for time_s, joined in said if joined), None)
    last = next((joined for time_s, joined in reversed(said) if time_s <= at_s), False)
    return Verdict(kind, double.label, first, last)


def read(folder, topology, doubles):
    """The verdicts of the doubles on a topology: of each the one at `JUDGED_S` and the one at `LATE_S`."""
    for run_folder, over in runs(folder):
        for double in doubles:
            if double.over == over:
                said = list(double.says(run_folder))
                yield tuple(verdict(double, topology.kind, said, at_s) for at_s in (JUDGED_S, LATE_S))


def _rows(folder, name):
    """Of the flow that is asked about, with the time since it began."""
    try:
        with open(folder / name, newline="", encoding="utf-8") as file:
            for row in csv.DictReader(file):
                if row["flow"] == "mp":
                    yield float(row["time_s"]) - topologies.START_S, row
    except OSError as error:
        raise ResultError(str(error)) from error


def intervals(folder):
    """RFC 8382's intervals of the two paths, those that are complete, from delays.csv and paths.csv."""
    delays, counts = defaultdict(list), defaultdict(lambda: [0, 0])
    last_s = 0.0
    for since, row in _rows(folder, "delays.csv"):
        delays[row["path"], rfc8382.interval_of(since)].append(float(row["delay_ms"]))
    for since, row in _rows(folder, "paths.csv"):
        # A row is about the time before it.
        count = counts[row["path"], rfc8382.interval_of(since - 1e-3)]
        count[0] += int(row["lost_packets"])
        count[1] += int(row["sent_packets"])
        last_s = max(last_s, since)
    of_both = range(rfc8382.interval_of(last_s + 1e-3))
    return [[rfc8382.Interval(tuple(delays[path, i]), *counts[path, i]) for i in of_both] for path in "ab"]


def bandwidths(folder):
    """The times, and what BBR shows of both paths then, from decisions.csv."""
    shown = defaultdict(lambda: defaultdict(dict))
    for since, row in _rows(folder, "decisions.csv"):
        shown[since][row["path"]][row["symbol"]] = float(row["value"])
    for since, paths in shown.items():
        if len(paths) == 2 and all("max_bw" in values for values in paths.values()):
            yield since, *(_shown(paths[path]) for path in "ab")


def _shown(values):
    return cmpbbr.Shown(values["max_bw"], values["min_rtt_s"], values["phase"] in PROBE_BW)


def _rfc8382(folder):
    return rfc8382.says(*intervals(folder))


def _cmpbbr(folder):
    return cmpbbr.says(bandwidths(folder))


DOUBLES = (
    Double("rfc8382", "sbd-cubic:detect=none", _rfc8382),
    Double("rfc8382", "sbd-bbr:detect=none", _rfc8382),
    Double("c-mpbbr", "sbd-bbr:detect=none", _cmpbbr),
)
NAMES = tuple(dict.fromkeys(double.name for double in DOUBLES))
