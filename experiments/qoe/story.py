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


@dataclass(frozen=True)
class ToldLive:
    """Of a way, over all scenes of one live viewer."""
    misses: spread.Interval  # s in an hour
    latency_s: spread.Interval
    mbps: spread.Interval


def tell_live(sessions, scenes, viewer, way, confidence=0.95):
    """The same of a live viewer."""
    def over(metric, scale=1):
        rows = numpy.array([of_scene(sessions, scene.name, viewer.name, way, metric) for scene in scenes])
        return spread.interval(scale * rows.mean(axis=0), confidence)

    return ToldLive(over("missed_s", 1 / viewer.hours), over("latency_s"), over("bitrate_mbps"))


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


def _live_sentence(sessions, scenes, viewers):
    parts = []
    for viewer in viewers:
        told = {way: tell_live(sessions, scenes, viewer, way) for way in ("first", "better", "migration", "ecf")}
        target_s = float(viewer.dash["target_latency"].split()[0])
        misses = ", ".join(f"{told[way].misses.value:.{1 if way == 'ecf' else 0}f}" for way in told)
        parts.append(f"{misses} seconds in an hour of what is to be seen {target_s:g} seconds after it happens, which is "
                     f"{told['ecf'].latency_s.value:.2f} with both and {told['better'].latency_s.value:.2f} over the better one")
    return ("Who watches live misses, over the usual network, the better one, with changing, and with both at once, "
            f"{'; '.join(parts)}.")


def sentences(sessions, scenes, plan):
    """The summary, as text: the clip waits, the film looks better or worse."""
    film, clip = plan.viewers[:2]
    clips, films = ({way: tell(sessions, scenes, viewer.name, way, viewer.hours) for way in WAYS} for viewer in (clip, film))

    def waits(way):
        return f"{clips[way].waits.value:.0f}"

    def clean(way):
        return f"{100 * clips[way].clean.value:.0f} %"

    both = clips["ecf"]
    lines = [
        f"Who watches clips, with six seconds in the buffer, over the usual network of {len(scenes)} scenes from life looks at a "
        f"picture that stands still for {waits('first')} seconds in an hour; over the better of two networks, if somebody could "
        f"tell beforehand which it is, for {waits('better')}; with a phone that changes to the other one when it has to, for "
        f"{waits('migration')}; with both at once, for {both.waits.value:.1f} (95 % interval {both.waits.low:.1f} to "
        f"{both.waits.high:.1f}). {clean('ecf')} of the clips over both play to their end without a stop, {clean('better')} over the "
        f"better network, {clean('migration')} with changing, {clean('first')} over the usual one."]
    n = sum(len(sessions.values(scene.name, clip.name, "ecf", "stall_s")) for scene in scenes)
    shown = f"{films['ecf'].mbps.value:.1f} Mbit/s, {films['better'].mbps.value:.1f} over the better network alone, and " \
            f"{films['migration'].mbps.value:.1f} with changing"
    other = next((viewer for viewer in plan.viewers[2:] if (viewer.name, "ecf") in sessions.cases() and not viewer.is_live), None)
    more = ""
    if other:
        rates = [tell(sessions, scenes, other.name, way, other.hours).mbps.value for way in ("ecf", "better", "migration")]
        more = f" ({other.label}: {rates[0]:.1f}, {rates[1]:.1f} and {rates[2]:.1f})"
    live = [viewer for viewer in plan.viewers if viewer.is_live and (viewer.name, "ecf") in sessions.cases()]
    if live:
        lines.append(_live_sentence(sessions, scenes, live))
    lines += [
        f"Films have up to half a minute in the buffer, and stop over the usual network ({films['first'].waits.value:.0f} seconds in "
        f"an hour) but hardly over any other way. What they gain is the picture: {shown}{more}.",
        f"It costs mobile data: {films['ecf'].metered_mb:.0f} MB in an hour of film over both, {films['migration'].metered_mb:.0f} with "
        f"changing. {100 * films['ecf'].copied:.1f} % of what is delivered was sent twice.",
        f"{n} clips and {n} films over each way, in a simulation of the networks with the real player and the real transport; the "
        "same seeds for all."]
    return lines
