"""The same figures as tables: every session, every mean, every verdict."""

import csv

import numpy

from . import bound, spread, ways
from .sessions import METRICS

# Of the distribution over the seeds.
QUANTILES = (5, 50, 95, 99)
# Of ways.csv, with their ends.
INTERVALS = ("qoe_lin", "stall_s_per_hour", "without_stall_share", "bitrate_mbps", "missed_s_per_hour", "latency_s")


def _write(file, head, rows):
    with open(file, "w", newline="", encoding="utf-8") as lines:
        table = csv.writer(lines, lineterminator="\n")
        table.writerow(head)
        table.writerows(rows)


def write(out, sessions, scenes, plan, verdicts):
    """sessions.csv, summary.csv, ways.csv, chunks.csv and goals.csv in the folder `out`."""
    confidence = plan.goals["confidence"]
    _write(out / "chunks.csv", ("scene", "viewer", "arm", "n", *(f"p{quantile}_s" for quantile in QUANTILES), "floor_p99_s"),
           list(_chunks(sessions, scenes)))
    _write(out / "sessions.csv", ("scene", "seed", "viewer", "arm", *METRICS),
           [(row.scene, row.seed, row.viewer, row.arm, *(row.values[name] for name in METRICS))
            for row in sorted(sessions.rows, key=lambda row: (row.scene, row.viewer, row.arm, row.seed))])
    _write(out / "summary.csv", ("scene", "viewer", "arm", "metric", "n", "mean", "low", "high",
                                 *(f"p{quantile}" for quantile in QUANTILES)), list(_summary(sessions, confidence)))
    _write(out / "ways.csv", ("viewer", "arm", "seeds", *(f"{name}{end}" for name in INTERVALS for end in ("", "_low", "_high")),
                              "startup_s", "chunk_p99_to_better", "copied_share", "metered_mb_per_hour"),
           list(_ways(sessions, scenes, plan)))
    _write(out / "goals.csv", ("goal", "words", "arm", "value", "low", "high", "n", "met"),
           [(one.goal, one.words, one.arm, *_ends(one.value), one.value.n,
             {True: "yes", False: "no", None: ""}[one.met]) for one in verdicts])


def _ends(interval):
    """Value, low and high of an interval, as the tables write them."""
    return tuple(f"{x:.6g}" for x in (interval.value, interval.low, interval.high))


def _ways(sessions, scenes, plan):
    for one in ways.over(sessions, scenes, plan):
        live = (one.live.misses, one.live.latency_s) if one.live else (None, None)
        whole = (one.qoe_lin, one.told.waits, one.told.clean, one.told.mbps, *live)
        ends = [end for interval in whole for end in (_ends(interval) if interval else ("", "", ""))]
        yield (one.viewer.name, one.arm.name, one.qoe_lin.n, *ends, f"{one.startup_s:.6g}", f"{one.chunk_p99:.6g}",
               f"{one.told.copied:.6g}", f"{one.told.metered_mb:.6g}")


def _summary(sessions, confidence):
    for scene, viewer, arm in sorted({(row.scene, row.viewer, row.arm) for row in sessions.rows}):
        for metric in METRICS:
            values = sessions.values(scene, viewer, arm, metric)
            if numpy.isnan(values).all():
                continue
            whole = spread.interval(values, confidence)
            yield (scene, viewer, arm, metric, whole.n, *_ends(whole),
                   *(f"{x:.6g}" for x in numpy.percentile(values, QUANTILES)))


def _chunks(sessions, scenes):
    """Of the chunks of all seeds together; the floor is what both links could have done with them."""
    for scene in scenes:
        both = {}
        for viewer, arm in sorted(sessions.cases()):
            rows = [row for _, row in sorted(sessions.of(scene.name, viewer, arm).items()) if row.chunks]
            if not rows:
                continue
            floor = []
            for row in rows:
                if row.seed not in both:
                    both[row.seed] = bound.Both(scene, row.seed)
                floor += [both[row.seed].time_s(request, size) for request, _, size in row.chunks]
            times = [time for row in rows for time in row.times]
            yield (scene.name, viewer, arm, len(times), *(f"{x:.4g}" for x in numpy.percentile(times, QUANTILES)),
                   f"{numpy.percentile(floor, 99):.4g}")
