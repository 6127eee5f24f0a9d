"""The section on the grid of De Coninck and Bonaventure, from a folder of `grid.py run`."""

from matplotlib import pyplot
from mpqnet.page import COLOURS
from wsp import benefit, settings

from .. import markup
from ..results import ResultsError

NAME = "grid-eben"
# Curves of a figure, if these are there; else the first ones.
_DRAWN = ("lia", "olia", "balia", "coupled-cubic", "cubic")
_HEADING = '<h2 id="grid">The grid of De Coninck and Bonaventure</h2>'
_ABSENT = ('<p class="none">Not run: <code>python3 experiments/grid.py run --mpq target/release/mpq --out FOLDER</code> simulates '
           "it, and <code>--grid FOLDER</code> shows it here.</p>")


def load(folder):
    """[(class, points, controller of the single paths, {controller: cases})] of the classes that the folder holds."""
    found = []
    for kind in settings.CLASSES.values():
        place = folder / kind.name
        summaries = sorted(place.glob("p*/summary.json"))
        if not summaries:
            continue
        try:
            single, ccs = benefit.controllers(summaries[0])
            found.append((kind, len(summaries), single, benefit.load(place, ccs)))
        except benefit.ResultError as e:
            raise ResultsError(f"{e}; run grid.py again, into another folder") from e
    return found


def section(folder, out):
    """The section as HTML; a PNG goes into the folder `out`."""
    found = load(folder)
    if not found:
        return _HEADING + _ABSENT
    rows = []
    for kind, points, single, cases in found:
        judged = benefit.judge(kind, cases)
        for cc, row in judged["controllers"].items():
            met = None if kind.goal is None else row["share"] >= kind.goal
            goal, published = ("" if part is None else _percent(part, 0) for part in (kind.goal, kind.published))
            quartiles = " / ".join(f"{row[key]:.2f}" for key in ("low", "median", "high"))
            cells = (kind.name, points, single, cc, row["n"], quartiles, _percent(row["share"], 1),
                     goal, published)
            rows.append("".join(map(markup.cell, cells)) + markup.verdict(met))
    table = markup.table(("class", "points", "single paths", "controller", "transfers", "EBen: quartiles", "with a benefit",
                          "goal", "best published", "met?"), rows)
    caption = ("How many of the transfers have at most such a benefit. 0: the goodput of the better single path; 1: the sum "
               "of both; below 0 two paths are slower than one.")
    return (f"{_HEADING}<p>Transfers of {settings.TRANSFER} over pairs of links that are spread over capacity, RTT, queuing "
            "delay and loss, with either path first. A benefit is an EBen (experimental aggregation benefit) above 0 "
            "against the better path alone.</p>" + table
            + markup.figure(_draw(found), NAME, "EBen by class", caption, out))


def _percent(part, digits):
    return f"{100 * part:.{digits}f} %"


def _drawn(ccs):
    known = [cc for cc in _DRAWN if cc in ccs]
    return (known + [cc for cc in ccs if cc not in known])[:len(COLOURS)]


def _draw(found):
    drawing, grid = pyplot.subplots(-(-len(found) // 2), 2, figsize=(11.2, 3.2 * -(-len(found) // 2)), squeeze=False)
    for axes, (kind, points, single, cases) in zip(grid.flat, found):
        for cc, colour in zip(_drawn(tuple(cases)), COLOURS):
            values = sorted(case.eben for case in cases[cc])
            axes.step([-1, *values], [i / len(values) for i in range(len(values) + 1)], where="post", color=colour, label=cc,
                      linewidth=1)
        axes.axvline(0, color="#444444", linewidth=0.8)
        if kind.goal is not None:
            axes.axhline(1 - kind.goal, color="#444444", linewidth=0.8, linestyle="--", label="goal at 0")
        axes.set_title(f"{kind.name}: {points} points, single paths with {single}", fontsize="medium")
        axes.set_xlabel("EBen")
        axes.set_ylabel("part of the transfers")
        axes.set_xlim(-1, 1.25)
        axes.set_ylim(0, 1)
        axes.grid(alpha=0.3)
        axes.legend(fontsize="small")
    for axes in grid.flat[len(found):]:
        axes.set_visible(False)
    drawing.tight_layout()
    return drawing
