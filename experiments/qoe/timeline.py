"""One session over time: what the links could carry and what came over them, the buffer, the level, the stalls."""

import csv

from . import draw
from .scene import FLOW

WIDTH, HEIGHT = 760, 130


def _rows(file):
    with open(file, newline="", encoding="utf-8") as lines:
        return [row for row in csv.DictReader(lines) if row["flow"] == FLOW]


def _played(row):
    """(s, buffer in s), (s, Mbit/s of the level) and spans of stalls of a session."""
    rows = _rows(row.folder / "dash.csv")
    buffer = [(float(one["time_s"]), float(one["buffer_s"])) for one in rows]
    level = [(float(one["time_s"]), float(one["bitrate_mbps"])) for one in rows if one["bitrate_mbps"]]
    stalls, since = [], None
    for one in rows:
        t = float(one["time_s"])
        if one["state"] == "stalled" and since is None:
            since = t
        elif one["state"] != "stalled" and since is not None:
            stalls.append((since, t))
            since = None
    if since is not None:
        stalls.append((since, buffer[-1][0]))
    return buffer, level, stalls


def svg(scene, row, beside, content):
    """The drawing of a session, with `beside`, the same seed over the better path alone."""
    drawn = scene.drawn(row.seed)
    buffer, level, stalls = _played(row)
    other_buffer, other_level, other_stalls = _played(beside)
    end = max(buffer[-1][0], other_buffer[-1][0])
    rates = {}
    for one in _rows(row.folder / "paths.csv"):
        rates.setdefault(one["path"], {})[float(one["time_s"])] = float(one["goodput_mbps"])
    times = sorted({t for of_path in rates.values() for t in of_path})
    below, layers = [(t, 0.0) for t in times], []
    for path in scene.paths:
        above = [(t, low + rates.get(path, {}).get(t, 0.0)) for t, low in below]
        layers.append((below, above))
        below = above
    top = 1.15 * max([1.0, *(value for _, value in below)])
    first = draw.Plot(WIDTH, HEIGHT, end, top)
    for (low, high), colour in zip(layers, draw.COLOURS):
        first.area(low, high, colour)
    for name, colour in zip(scene.paths, draw.COLOURS):
        first.steps([(t, mbps) for t, mbps in drawn[name].steps() if t <= end], colour, 1, "2 2", end)
    second = draw.Plot(WIDTH, HEIGHT, end, max(10.0, *(s for _, s in buffer + other_buffer)))
    third = draw.Plot(WIDTH, HEIGHT, end, float(content["video"][-1].split()[0]) / 1e6)
    for plot in (second, third):
        for span in other_stalls:
            plot.band(*span, "var(--c4)")
        for span in stalls:
            plot.band(*span, "var(--bad)")
    second.line(other_buffer, "var(--c4)", 1.5, "5 3")
    second.line(buffer, "var(--c3)")
    third.steps(other_level, "var(--c4)", 1.5, "5 3")
    third.steps(level, "var(--c3)")
    return (first.svg("Mbit/s: came over each path; dotted: what the link could carry", x_unit=" s")
            + second.svg("buffer, s; shaded: stalls", x_unit=" s") + third.svg("level, Mbit/s", x_unit=" s"))


def key(scene, beside):
    """What the colours of `svg` are."""
    return draw.key([*((path, colour, False) for path, colour in zip(scene.paths, draw.COLOURS)),
                     ("both", "var(--c3)", False), (f"{beside} alone, same seed", "var(--c4)", True),
                     ("stall", "var(--bad)", False)])
