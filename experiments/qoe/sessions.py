"""One row for each session, from the folders that `mpq sim` left."""

import csv
import itertools
import json
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import numpy

from . import study
from .scene import FLOW

# Of live sessions; of the others there is no latency, and what they miss is what stalls.
LIVE = ("latency_s", "latency_p95_s", "skipped_s", "missed_s")
# Columns of sessions.csv after scene, seed, viewer and arm. Those marked in `BETTER` are better when they are higher.
METRICS = ("qoe_lin", "stall_s", "stalls", "startup_s", "bitrate_mbps", "switches", "top_share", "chunk_p50_s", "chunk_p95_s",
           "chunk_p99_s", "buffer_s", "metered_mb", "all_mb", "copied_mb", "delivered_mb", "wasted_mb", "played_s", *LIVE)
BETTER = {"qoe_lin": 1, "bitrate_mbps": 1, "top_share": 1, "buffer_s": 1, "delivered_mb": 1, "played_s": 1}


class ResultError(Exception):
    """Results that cannot be read."""


@dataclass(frozen=True)
class Row:
    """A session. `chunks` are (request in s, seconds until the last byte, bytes) of each; empty for rows of another file."""
    scene: str
    seed: int
    viewer: str
    arm: str
    values: dict
    chunks: tuple = ()
    folder: Path | None = None

    @property
    def times(self):
        """Of its chunks, from request to last byte, s."""
        return [time for _, time, _ in self.chunks]


@dataclass
class Sessions:
    """All rows, found by scene, viewer and arm."""
    rows: list = field(default_factory=list)
    failed: list = field(default_factory=list)

    @cached_property
    def _by_case(self):
        found = {}
        for row in self.rows:
            found.setdefault((row.scene, row.viewer, row.arm), {})[row.seed] = row
        return found

    def of(self, scene, viewer, arm):
        """{seed: Row}."""
        return self._by_case.get((scene, viewer, arm), {})

    def values(self, scene, viewer, arm, metric):
        """Of every seed, in their order."""
        return [row.values[metric] for _, row in sorted(self.of(scene, viewer, arm).items())]

    def better(self, scene, viewer, metric):
        """Which of "first" and "second" has the better mean."""
        sign = BETTER.get(metric, -1)
        means = {arm: sign * float(numpy.mean(self.values(scene, viewer, arm, metric))) for arm in ("first", "second")}
        return max(means, key=means.get)

    def chunk_p99_s(self, scene, viewer, arm):
        """99th percentile of the times of the chunks of all seeds together; nan without chunks."""
        times = [time for row in self.of(scene, viewer, arm).values() for time in row.times]
        return float(numpy.percentile(times, 99)) if times else float("nan")

    def paired(self, scene, viewer, arm, other, metric):
        """Differences arm - other of the seeds that both have."""
        mine, theirs = self.of(scene, viewer, arm), self.of(scene, viewer, other)
        return [mine[seed].values[metric] - theirs[seed].values[metric] for seed in sorted(mine.keys() & theirs.keys())]

    def cases(self):
        """(viewer, arm) that there are, in the order in which they came."""
        return list(dict.fromkeys((row.viewer, row.arm) for row in self.rows))


def _chunks(file):
    with open(file, newline="", encoding="utf-8") as lines:
        return tuple((float(row["request_s"]), round(float(row["arrival_s"]) - float(row["request_s"]), 6), int(row["bytes"]))
                     for row in csv.DictReader(lines) if row["flow"] == FLOW)


def _values(metrics, chunks, scene):
    def get(name, default=0.0):
        return metrics.get(f"flow.{FLOW}.{name}", default)

    p50, p95, p99 = numpy.percentile([time for _, time, _ in chunks], [50, 95, 99]) if chunks else (float("nan"),) * 3
    values = {
        "qoe_lin": get("qoe_lin", float("nan")), "stall_s": get("stall_ms") / 1e3, "stalls": get("stalls"),
        "startup_s": get("startup_ms", float("nan")) / 1e3, "bitrate_mbps": get("mean_bitrate_mbps", float("nan")),
        "switches": get("switches"), "top_share": get("top_level_share"), "chunk_p50_s": p50, "chunk_p95_s": p95,
        "chunk_p99_s": p99, "buffer_s": get("median_buffer_s"),
        "metered_mb": get(f"path.{scene.metered}.sent_bytes") / 1e6,
        "all_mb": sum(get(f"path.{path}.sent_bytes") for path in scene.paths) / 1e6,
        "copied_mb": get("copied_bytes") / 1e6, "delivered_mb": get("delivered_bytes") / 1e6,
        "wasted_mb": get("wasted_bytes") / 1e6, "played_s": get("played_s"),
        "latency_s": get("latency_mean_ms", float("nan")) / 1e3, "latency_p95_s": get("latency_p95_ms", float("nan")) / 1e3,
        "skipped_s": get("skipped_ms") / 1e3, "missed_s": (get("stall_ms") + get("skipped_ms")) / 1e3}
    # As many digits as the tables show, so that a table says all that verdicts go by.
    return {name: round(float(values[name]), 6) for name in METRICS}


def _lost(viewer, content):
    """Of a session that failed: all of the media is waited for, and none is seen."""
    length, segment = (float(text.split()[0]) for text in (viewer.dash["length"], viewer.dash.get("segment", content["segment"])))
    top_mbps = float(content["video"][-1].split()[0]) / 1e6
    latency = length if viewer.is_live else float("nan")
    return dict.fromkeys(METRICS, 0.0) | {"qoe_lin": -top_mbps * segment, "stall_s": length, "stalls": 1.0, "missed_s": length} \
        | dict.fromkeys(("latency_s", "latency_p95_s"), latency) \
        | dict.fromkeys(("startup_s", "chunk_p50_s", "chunk_p95_s", "chunk_p99_s"), float("nan"))


def load(folder, scenes, plan):
    """The rows of a run of `viewers.py`; what has not run is left out."""
    found = Sessions()
    wanted = {session.name for session in plan.sessions}  # so that the reduced plan is found in a full run, too
    for scene, viewer, seed in itertools.product(scenes, plan.viewers, plan.seeds):
        place = study.folder(Path(folder), scene.name, viewer.name, seed)
        try:
            summary = json.loads((place / "summary.json").read_text(encoding="utf-8"))
        except FileNotFoundError:
            continue
        except (OSError, json.JSONDecodeError) as e:
            raise ResultError(f"{place}: {e}; remove it and run again") from e
        for run in summary["runs"]:
            name = run["case"].split(",")[0].removeprefix("case=")
            if name not in wanted:
                continue
            arm = name.rpartition("--")[2]
            if run["status"] != "ok":
                found.failed.append((scene.name, seed, viewer.name, arm, run["reason"]))
                found.rows.append(Row(scene.name, seed, viewer.name, arm, _lost(viewer, plan.content)))
                continue
            chunks = _chunks(place / run["folder"] / "segments.csv")
            found.rows.append(Row(scene.name, seed, viewer.name, arm, _values(run["metrics"], chunks, scene), chunks,
                                  place / run["folder"]))
    if not found.rows:
        raise ResultError(f"{folder}: no finished sessions; `viewers.py run` makes them")
    return found


def live(row):
    """The columns LIVE of a row that may not have them."""
    return {name: float(row.get(name, "nan")) for name in ("latency_s", "latency_p95_s")} | {
        "skipped_s": float(row.get("skipped_s", 0)), "missed_s": float(row.get("missed_s", row["stall_s"]))}


def read(file):
    """Rows of a table as `tables.py` writes it; one that knows nothing of live sessions has none."""
    try:
        with open(file, newline="", encoding="utf-8") as lines:
            return [Row(row["scene"], int(row["seed"]), row["viewer"], row["arm"],
                        {name: float(row[name]) for name in METRICS if name not in LIVE} | live(row))
                    for row in csv.DictReader(lines)]
    except (KeyError, ValueError, OSError) as e:
        raise ResultError(f"{file}: {e}; its columns are scene, seed, viewer, arm, {', '.join(METRICS)}") from e
