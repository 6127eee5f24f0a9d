"""The result page: one self-contained HTML file with its figures inline."""

import html
import io
import re

import matplotlib
matplotlib.use("svg")
matplotlib.rcParams["svg.fonttype"] = "none"  # letters stay letters: shorter, and found by a search
from matplotlib import pyplot  # noqa: E402  (the backend comes first)

COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00")
BIN_MS = 500

STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; max-width: 72rem; margin: 2rem auto; padding: 0 1rem; color: #222 }
table { border-collapse: collapse } th, td { padding: .25rem .8rem; border-bottom: 1px solid #ccc; text-align: right }
th:first-child, td:first-child { text-align: left } svg { width: 100%; height: auto } pre { white-space: pre-wrap }
"""


def rates(samples, bin_ms=BIN_MS):
    """(seconds, Mbit/s) in steps of `bin_ms` from cumulative (ms, bytes), interpolated between them."""
    if not samples:
        return [], []
    points = [(0.0, 0), *samples]
    times, values, index, before = [], [], 0, 0.0
    end = points[-1][0]
    count = max(1, -(-int(end) // bin_ms))
    for step in range(1, count + 1):
        t = min(step * bin_ms, end)
        while index + 1 < len(points) - 1 and points[index + 1][0] < t:
            index += 1
        (t0, b0), (t1, b1) = points[index], points[index + 1]
        now = b1 if t1 <= t0 else b0 + (b1 - b0) * min(1.0, max(0.0, (t - t0) / (t1 - t0)))
        width = t - (step - 1) * bin_ms
        if width > 0:
            times.append(t / 1e3)
            values.append((now - before) * 8 / width / 1e3)
        before = now
    return times, values


def _throughput(axes, paths, link_of, colours):
    for path in paths:
        link = link_of.get(path.local, path.local)
        axes.plot(*rates(path.samples), label=link, color=colours.get(link), linewidth=1.2)
    axes.set_ylabel("Mbit/s")
    if paths:
        axes.legend(loc="upper right", fontsize="small")


def draw(plays, gets, link_of):
    """One column a run; rows: throughput per path, buffer and level of the player, throughput of the download."""
    colours = dict(zip(dict.fromkeys(link_of.values()), COLOURS))
    names = list(plays)
    drawing, grid = pyplot.subplots(4, len(names), figsize=(4.6 * len(names), 9.6), sharey="row", squeeze=False)
    for column, name in enumerate(names):
        play, get = plays[name], gets[name]
        throughput, buffer, level, bulk = (grid[row][column] for row in range(4))
        throughput.set_title(f"player: {name}")
        _throughput(throughput, play.paths, link_of, colours)
        buffer.plot([t / 1e3 for t, _ in play.buffer], [b / 1e3 for _, b in play.buffer], color="#444444")
        buffer.set_ylabel("buffer, s of media")
        level.step([t / 1e3 for t, _ in play.levels], [rate / 1e6 for _, rate in play.levels], where="post",
                   color="#444444")
        level.set_ylabel("level, Mbit/s")
        bulk.set_title(f"download: {name}")
        _throughput(bulk, get.paths, link_of, colours)
    # Limits come last: rows share them, and setting one ends the fitting to what is drawn later.
    for axes in grid.flat:
        axes.set_ylim(bottom=0)
        axes.grid(alpha=0.3)
        axes.set_xlabel("s")
        axes.tick_params(labelleft=True)
    drawing.tight_layout()
    return drawing


def inline_svg(drawing):
    """The drawing as an element for an HTML page; closes it."""
    out = io.StringIO()
    drawing.savefig(out, format="svg", metadata={"Date": None, "Creator": None})
    pyplot.close(drawing)
    svg = out.getvalue()
    svg = svg[svg.index("<svg"):]
    # Inside HTML, SVG needs neither metadata nor name spaces: so the page holds no address at all.
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    # A tenth of a point is what a screen shows; six digits make a page twice as long.
    svg = re.sub(r'(?<= d=")[^"]*', lambda path: re.sub(r"(\.\d)\d+", r"\1", path[0]), svg)
    return re.sub(r' xmlns(:xlink)?="[^"]*"', "", svg)


def page(scenario, data, plays, gets, link_of, notes):
    """The whole page; `notes` are lines such as the versions used."""
    text = html.escape
    links = list(dict.fromkeys(link_of.values()))
    head = ["paths", "startup, ms", "stalls", "stall time, ms", "mean bitrate, Mbit/s", "switches",
            "download goodput, Mbit/s", *(f"of it {link}, MB" for link in links)]
    rows = []
    for name, play in data["play"].items():
        bulk = data["bulk"][name]
        cells = [name, f"{play['startup_ms']:.0f}", play["stalls"], f"{play['stall_ms']:.0f}",
                 f"{play['mean_bitrate_bps'] / 1e6:.2f}", play["switches"], f"{bulk['goodput_bps'] / 1e6:.2f}",
                 *(f"{bulk['path_bytes'][link] / 1e6:.1f}" for link in links)]
        rows.append("".join(f"<td>{text(str(cell))}</td>" for cell in cells))
    return f"""<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>Multipath QUIC: video and download over two paths</title>
<style>{STYLE}</style></head><body>
<h1>Multipath QUIC: video and download over two paths</h1>
<p><b>Question.</b> {text(scenario.question)}</p>
<p><b>Expected.</b> {text(scenario.expected)}</p>
<table><tr>{"".join(f"<th>{text(cell)}</th>" for cell in head)}</tr>
{"".join(f"<tr>{row}</tr>" for row in rows)}</table>
<p>One run each: an illustration, not a measurement with spread.</p>
{inline_svg(draw(plays, gets, link_of))}
<h2>Links</h2>
<ul>{"".join(f"<li>{text(note)}</li>" for note in notes)}</ul>
</body></html>
"""
