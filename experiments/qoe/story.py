"""The figures that a reader who knows nothing of networks is told: waiting, picture, what it costs."""

from dataclasses import dataclass

import numpy

from . import spread

# Who is compared; "better" is the better of the two paths alone, in each scene the one that is better there.
WAYS = ("first", "better", "migration", "backup", "ecf", "xlink")
WORDS = {"first": "the usual network alone", "better": "the better network alone", "migration": "one network at a time",
         "backup": "the second one stands by", "ecf": "both at once", "xlink": "both at once, xlink",
         "cost-aware": "the second only when needed"}


@dataclass(frozen=True)
class Told:
    """Of a way, over all scenes of one viewer. Waiting is in seconds per hour of media."""
    waits: spread.Interval
    mbps: spread.Interval
    clean: spread.Interval
    metered_mb: float  # per hour of media
    copied: float  # part of what was delivered


def of_scene(sessions, scene, viewer, way, metric):
    """The values of a metric in a scene, by seed."""
    arm = sessions.better(scene, viewer, metric) if way == "better" else way
    return sessions.values(scene, viewer, arm, metric)


def tell(sessions, scenes, viewer, way, hours, confidence=0.95):
    """`hours` is the length of what the viewer watches. Means over the scenes, drawn by seed."""
    def over(metric, change=lambda values: values):
        rows = numpy.array([change(numpy.array(of_scene(sessions, scene.name, viewer, way, metric))) for scene in scenes])
        return spread.interval(rows.mean(axis=0), confidence)

    def mean(metric):
        return numpy.mean([numpy.mean(of_scene(sessions, scene.name, viewer, way, metric)) for scene in scenes])

    return Told(over("stall_s", lambda stalls: stalls / hours), over("bitrate_mbps"),
                over("stalls", lambda stalls: (stalls == 0).astype(float)), mean("metered_mb") / hours,
                mean("copied_mb") / mean("delivered_mb"))


def sentences(sessions, scenes, viewer, hours):
    """The summary, as text."""
    told = {way: tell(sessions, scenes, viewer, way, hours) for way in WAYS}
    first, better, one, both = (told[way] for way in ("first", "better", "migration", "ecf"))
    n = sum(len(sessions.values(scene.name, viewer, "ecf", "stall_s")) for scene in scenes)
    return [
        f"Who watches films over the usual network of {len(scenes)} scenes from life waits {first.waits.value:.0f} seconds in an "
        f"hour for a picture that stands still; over the better of the two networks, if somebody could tell beforehand which it "
        f"is, {better.waits.value:.0f}; with a phone that changes from one to the other when it has to, {one.waits.value:.0f}; "
        f"with both at once, {both.waits.value:.1f} (95 % interval {both.waits.low:.1f} to {both.waits.high:.1f}).",
        f"{100 * both.clean.value:.0f} % of the films over both play to their end without a stop; "
        f"{100 * better.clean.value:.0f} % over the better network, {100 * first.clean.value:.0f} % over the usual one.",
        f"The picture has {both.mbps.value:.1f} Mbit/s on average, where the better network alone has {better.mbps.value:.1f} and "
        f"changing between them {one.mbps.value:.1f}.",
        f"It costs {both.metered_mb:.0f} MB of mobile data in an hour of film, and {one.metered_mb:.0f} MB with changing; "
        f"{100 * both.copied:.1f} % of what is delivered was sent twice.",
        f"{n} films over both, and as many over each of the other ways, in a simulation of the networks with the real player and "
        f"the real transport; the same seeds for all."]
