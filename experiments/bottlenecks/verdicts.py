"""What the controllers said about drawn topologies: `set_paths` in decisions.csv is 2 while two paths are one group."""

import csv
import json
import statistics
from dataclasses import dataclass

from . import topologies

# When verdicts are judged, from the flow's start.
JUDGED_S = 10
# The goals.
MOST_FALSE_SHARED, MOST_FALSE_DISJOINT = 0.03, 0.05

INK, GRID = "#7d8590", "#7d859040"
COLOURS = ("#2f7fd6", "#d9730d", "#e64980", "#2da44e", "#8250df", "#bf8700")


class ResultError(Exception):
    """Results are missing or unreadable."""


@dataclass(frozen=True)
class Verdict:
    """Of one run: when two paths were first one group, and whether they are at the time that counts."""
    kind: str
    cc: str
    first_s: float | None
    joined: bool

    @property
    def shared(self):
        return topologies.KINDS[self.kind]


def runs(folder):
    """The folders of a topology's runs, and the controller of each."""
    try:
        summary = json.loads((folder / "summary.json").read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ResultError(f"{folder}: {error}") from error
    for run in summary["runs"]:
        if run["status"] != "ok":
            raise ResultError(f"{folder / run['folder']}: {run['reason']}")
        yield folder / run["folder"], run["set"]["flow.mp.cc"]


def read(folder, topology):
    """The verdicts on a topology, of all its controllers."""
    for run_folder, cc in runs(folder):
        yield _of_run(run_folder, topology.kind, cc)


def _of_run(folder, kind, cc):
    paths, first, joined = set(), None, False
    with open(folder / "decisions.csv", newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            if row["symbol"] != "set_paths":
                continue
            paths.add(row["path"])
            since = float(row["time_s"]) - topologies.START_S
            together = float(row["value"]) >= 2
            first = since if together and first is None else first
            if since <= JUDGED_S:
                joined = together
    if len(paths) < 2:
        raise ResultError(f"{folder}: verdicts on {len(paths)} paths")
    return Verdict(kind, cc, first, joined)


def judge(verdicts):
    """Errors and times of one controller's verdicts."""
    shared = [verdict for verdict in verdicts if verdict.shared]
    disjoint = [verdict for verdict in verdicts if not verdict.shared]
    times = sorted(verdict.first_s for verdict in shared if verdict.first_s is not None)
    kinds = {kind: _share([v for v in verdicts if v.kind == kind], lambda v: v.joined != v.shared)
             for kind in topologies.KINDS}
    return {
        "n": len(verdicts),
        "false_shared": _share(disjoint, lambda verdict: verdict.joined),
        "ever_false_shared": _share(disjoint, lambda verdict: verdict.first_s is not None),
        "false_disjoint": _share(shared, lambda verdict: not verdict.joined),
        "median_s": statistics.median(times) if times else None,
        # Of all that share, those that were never found included.
        "p90_s": times[_rank(len(shared))] if len(times) > _rank(len(shared)) else None,
        "wrong_by_kind": kinds,
        "times_s": times,
        "shared": len(shared),
    }


def _rank(count):
    return max(0, -(-9 * count // 10) - 1)


def _share(verdicts, wrong):
    return sum(map(wrong, verdicts)) / len(verdicts) if verdicts else 0.0


def meets(judged):
    return judged["false_shared"] < MOST_FALSE_SHARED and judged["false_disjoint"] < MOST_FALSE_DISJOINT


def table(by_cc, at_s=JUDGED_S):
    """As Markdown, of verdicts at that time."""
    lines = [f"| controller | shared, not known at {at_s} s | disjoint, joined at {at_s} s | ever joined "
             "| decided after, median | 90 % | wrong: " + " | ".join(topologies.IMPOSTORS) + " |",
             "| --- " * (6 + len(topologies.IMPOSTORS)) + "|"]
    for cc, judged in by_cc.items():
        kinds = judged["wrong_by_kind"]
        cells = [f"`{cc}`", _percent(judged["false_disjoint"]), _percent(judged["false_shared"]),
                 _percent(judged["ever_false_shared"]), _seconds(judged["median_s"]), _seconds(judged["p90_s"]),
                 *(_percent(kinds[kind]) for kind in topologies.IMPOSTORS)]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _percent(share):
    return f"{100 * share:.1f} %"


def _seconds(value):
    return "never" if value is None else f"{value:.1f} s"


def figure(by_cc, words, until_s=JUDGED_S, watched_s=None):
    """Share of the shared bottlenecks that are known, over the time since the flow began, as SVG; `words` say of what.

    Lines of those in `watched_s` end after so long.
    """
    width, left, right, top, bottom = 640, 52, 12, 16, 44 + 18 * len(by_cc)
    height = 220 + bottom

    def x(t):
        return round(left + t / until_s * (width - left - right), 1)

    def y(share):
        return round(height - bottom - share * (height - top - bottom), 1)

    def text(at_x, at_y, label, colour=INK, anchor="start"):
        return f'<text x="{at_x}" y="{at_y}" fill="{colour}" text-anchor="{anchor}">{label}</text>'

    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img" '
             'font-family="system-ui, sans-serif" font-size="13">', f"<title>{words}</title>",
             "<!-- drawn by experiments/detect.py, in virtual time -->"]
    for share in (0, 0.25, 0.5, 0.75, 1):
        parts.append(f'<line x1="{left}" x2="{width - right}" y1="{y(share)}" y2="{y(share)}" stroke="{GRID}"/>')
        parts.append(text(left - 8, y(share) + 4, f"{100 * share:.0f} %", anchor="end"))
    parts += [text(x(t), height - bottom + 18, f"{t} s", anchor="middle") for t in range(0, until_s + 1, until_s // 5)]
    for i, ((cc, judged), colour) in enumerate(zip(by_cc.items(), COLOURS, strict=False)):
        points, end_s = [(0, 0)], min(until_s, (watched_s or {}).get(cc, until_s))
        for count, t in enumerate((t for t in judged["times_s"] if t <= end_s), 1):
            points += [(t, (count - 1) / judged["shared"]), (t, count / judged["shared"])]
        points.append((end_s, points[-1][1]))
        line = " ".join(f"{x(t)},{y(share)}" for t, share in points)
        parts.append(f'<polyline points="{line}" fill="none" stroke="{colour}" stroke-width="2"/>')
        at = height - bottom + 40 + 18 * i
        parts.append(f'<line x1="{left}" x2="{left + 30}" y1="{at - 4}" y2="{at - 4}" stroke="{colour}" stroke-width="3"/>')
        parts.append(text(left + 38, at, cc))
    return "\n".join([*parts, "</svg>"]) + "\n"
