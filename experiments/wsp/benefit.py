"""EBen, the experimental aggregation benefit (Paasch, Khalili and Bonaventure, "On the Benefits of Applying
Experimental Design to Improve Multipath TCP", CoNEXT 2013), from results of `mpq sim`."""

import json
import math
import statistics
from dataclasses import dataclass
from pathlib import Path

from . import settings


class ResultError(Exception):
    """Results that are missing or not those of the design."""


def eben(goodput, singles):
    """0 where `goodput` is that of the best single path, 1 where it is the sum of all, -1 where nothing arrives."""
    best, total = max(singles), sum(singles)
    return (goodput - best) / (total - best) if goodput >= best else (goodput - best) / best


# No case may be slower than the better single path by more than this part of its time.
MOST_SLOWER = 0.03


@dataclass(frozen=True)
class Case:
    """One transfer over both paths. A transfer that failed has the goodput 0. `slower` is its time over that of the
    better single path, less 1."""
    point: int
    order: str
    eben: float
    best_first: bool
    slower: float = 0.0


def _share(cases):
    cases = list(cases)
    return sum(case.eben > 0 for case in cases) / len(cases) if cases else None


def of_point(number, summary, ccs):
    """The cases of a point by controller, from the `summary.json` of its scenario."""
    goodput = {}
    for run in summary["runs"]:
        name = run["case"].removeprefix("case=").split(",")[0]
        goodput[name] = run["metrics"]["flow.mp.goodput_mbps"] if run["status"] == "ok" else 0.0
    try:
        singles = {paths[0]: goodput[name] for name, paths in settings.SINGLES.items()}
        if not max(singles.values()) > 0:
            raise ResultError(f"point {number}: nothing arrived over either path alone")
        best = max(singles, key=singles.get)

        def case(cc, order, first):
            both = goodput[settings.case_name(cc, order)]
            slower = singles[best] / both - 1 if both > 0 else math.inf
            return Case(number, order, eben(both, singles.values()), first == best, slower)

        return {cc: [case(cc, order, paths[0]) for order, paths in settings.ORDERS.items()] for cc in ccs}
    except KeyError as error:
        raise ResultError(f"point {number}: no result of the case {error}") from error


def controllers(file):
    """The controller of the single paths, and the senders over two, from the `summary.json` of a point."""
    single, ccs = None, []
    for run in _read(file)["runs"]:
        cc, paths = run["set"]["flow.mp.cc"], run["set"]["flow.mp.paths"]
        if sched := run["set"].get("flow.mp.scheduler"):
            cc += settings.WITH + sched
        if len(paths) == 1:
            single = cc
        elif cc not in ccs:
            ccs.append(cc)
    return single, ccs


def _read(file):
    try:
        return json.loads(file.read_text(encoding="utf-8"))
    except (OSError, json.JSONDecodeError) as error:
        raise ResultError(f"{file}: {error}") from error


def load(folder, ccs):
    """All cases below `folder`, which has a folder `pNNN` for each point, by controller."""
    files = sorted(Path(folder).glob("p*/summary.json"))
    if not files:
        raise ResultError(f"{folder}: no results; `grid.py run` makes them")
    cases = {cc: [] for cc in ccs}
    for file in files:
        for cc, of_cc in of_point(int(file.parent.name[1:]), _read(file), ccs).items():
            cases[cc] += of_cc
    return cases


def judge(kind, cases):
    """What a class comes to: for each controller n, the share of cases with a benefit, quartiles of EBen, the cases
    without a benefit, worst first, and those slower than the better single path by more than `MOST_SLOWER`, slowest
    first."""
    judged = {}
    for cc, of_cc in cases.items():
        values = sorted(case.eben for case in of_cc)
        low, middle, high = statistics.quantiles(values, n=4, method="inclusive")
        slow = sorted((case for case in of_cc if case.slower > MOST_SLOWER), key=lambda case: -case.slower)
        without = sorted((case for case in of_cc if case.eben <= 0), key=lambda case: case.eben)
        judged[cc] = {
            "n": len(values), "share": 1 - len(without) / len(values), "low": low, "median": middle, "high": high,
            "best_first_share": _share(case for case in of_cc if case.best_first),
            "worst_first_share": _share(case for case in of_cc if not case.best_first),
            "slowest": max(case.slower for case in of_cc),
            "slower": [{"point": case.point, "order": case.order, "slower": case.slower} for case in slow],
            "best_first_median": _median(case.eben for case in of_cc if case.best_first),
            "worst_first_median": _median(case.eben for case in of_cc if not case.best_first),
            "without": [{"point": case.point, "order": case.order, "eben": case.eben} for case in without],
        }
    return {"class": kind.name, "goal": kind.goal, "published": kind.published, "controllers": judged}


def _median(values):
    values = list(values)
    return statistics.median(values) if values else None


def table(judged):
    """One class as text for a terminal, best controller first."""
    head = f"{judged['class']}: share of cases with EBen > 0"
    wide = max(18, 2 + max(map(len, judged["controllers"])))
    if judged["goal"] is not None:
        head += f"; goal {judged['goal']:.0%}, best published {judged['published']:.0%}"
    lines = [head, f"{'controller':<{wide}}{'n':>5}{'share':>8}{'met':>6}{'best 1st':>10}{'worse 1st':>10}{'EBen 25 %':>11}"
                   f"{'median':>9}{'75 %':>8}{'slowest':>9}  slower than one path by more than {MOST_SLOWER:.0%}, or worst"]
    rows = sorted(judged["controllers"].items(), key=lambda row: (-row[1]["share"], -row[1]["median"]))
    for cc, row in rows:
        met = "" if judged["goal"] is None else "yes" if row["share"] >= judged["goal"] else "NO"
        worst = ", ".join(f"p{case['point']:03}-{case['order']} {case['eben']:.2f}" for case in row["without"][:3])
        slow = ", ".join(f"p{case['point']:03}-{case['order']} {case['slower']:+.1%}" for case in row["slower"])
        shares = "".join(f"{'-' if share is None else format(share, '.1%'):>10}"
                         for share in (row["best_first_share"], row["worst_first_share"]))
        lines.append(f"{cc:<{wide}}{row['n']:>5}{row['share']:>8.1%}{met:>6}{shares}{row['low']:>11.2f}{row['median']:>9.2f}"
                     f"{row['high']:>8.2f}{row['slowest']:>+9.1%}  {slow or worst}".rstrip())
    return "\n".join(lines)
