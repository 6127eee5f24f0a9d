"""Every way to use the two paths, for every viewer, over all scenes: a row of the page and of `ways.csv` for each."""

from dataclasses import dataclass

import numpy

from . import spread, story
from .study import Arm, Viewer


@dataclass(frozen=True)
class Way:
    """Means over the scenes; `chunk_p99` is the time of 99 % of the chunks over the better path's, nan without chunks."""
    viewer: Viewer
    arm: Arm
    qoe_lin: spread.Interval
    told: story.Told
    live: story.ToldLive | None
    startup_s: float
    chunk_p99: float


def over(sessions, scenes, plan):
    """A `Way` for each viewer of the plan and each arm that was run, in the order in which they came."""
    viewers = {viewer.name: viewer for viewer in plan.viewers}
    for name, arm in sessions.cases():
        if viewer := viewers.get(name):
            yield _way(sessions, [scene for scene in scenes if sessions.of(scene.name, name, arm)], viewer, plan, arm)


def _way(sessions, scenes, viewer, plan, arm):
    confidence = plan.goals["confidence"]

    def by_scene(metric):
        return [sessions.values(scene.name, viewer.name, arm, metric) for scene in scenes]

    return Way(viewer, plan.arm(arm), spread.interval(numpy.mean(by_scene("qoe_lin"), axis=0), confidence),
               story.tell(sessions, scenes, viewer.name, arm, viewer.hours, confidence),
               story.tell_live(sessions, scenes, viewer, arm, confidence) if viewer.is_live else None,
               float(numpy.nanmean(by_scene("startup_s"))), _chunk_p99(sessions, scenes, viewer.name, arm))


def _chunk_p99(sessions, scenes, viewer, arm):
    ratios = []
    for scene in scenes:
        better = min(sessions.chunk_p99_s(scene.name, viewer, alone) for alone in ("first", "second"))
        ratios.append(sessions.chunk_p99_s(scene.name, viewer, arm) / better)
    return float(numpy.mean(ratios))
