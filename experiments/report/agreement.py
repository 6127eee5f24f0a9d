"""The section "Simulator and Mininet", from what `ci/bench agreement` left."""

import json

from matplotlib import pyplot
from mpqnet.page import COLOURS

from . import markup
from .differences import GOODPUT_GOAL, SHARE_GOAL, differences
from .results import ResultsError
from .spread import number

NAME = "agreement"
_ABSENT = ('<p class="none">Not compared: <code>ci/bench agreement</code> (root, ten minutes after the build) runs the same '
           "scenarios in both, and this page shows it from then on.</p>")


def load(file):
    """The differences of all scenarios; None if the file is not there."""
    try:
        compared = json.loads(file.read_text(encoding="utf-8"))
        return [one for scenario, spreads in compared.items()
                for one in differences(scenario, spreads["simulator"], spreads["mininet"])]
    except FileNotFoundError:
        return None
    except (OSError, ValueError, TypeError, AttributeError, KeyError) as e:
        raise ResultsError(f"{file}: {e!r}; run ci/bench agreement again") from e


def section(file, out):
    """The section as HTML; a PNG goes into the folder `out`."""
    found = load(file)
    heading = '<h2 id="agreement">Simulator and Mininet</h2>'
    if found is None:
        return heading + _ABSENT
    runs = sorted({spread["n"] for one in found for spread in (one.simulated, one.emulated)})
    rows = [_row(one) for one in found]
    verdicts = [one.meets() for one in found]
    table = markup.table(("scenario", "quantity", "simulator", "Mininet", "difference of the medians", "goal", "met?"), rows)
    caption = ("Medians with least and most, as parts of the simulator's median. Grey: the goals, "
               f"{_percent(GOODPUT_GOAL)} for goodput and {_percent(SHARE_GOAL)} for shares.")
    return (f"{heading}<p>The same scenarios with the same controllers, in virtual time and with processes on emulated links: "
            f"{verdicts.count(True)} of {len(verdicts) - verdicts.count(None)} differences meet their goal. Where the "
            "simulator's own seeds are farther apart than twice the goal, chance decides, and there is none. Runs of each: "
            f"{', '.join(map(str, runs))}.</p>{table}"
            + markup.figure(_draw(found), NAME, "Simulator and Mininet", caption, out))


def _row(one):
    goal = "none: chance" if one.goal is None else f"≤ {_percent(one.goal)}"
    cells = (one.scenario, one.what, _spread(one.simulated, one.unit), _spread(one.emulated, one.unit),
             _percent(one.relative, 1), goal)
    return "".join(map(markup.cell, cells)) + markup.verdict(one.meets())


def _spread(spread, unit):
    words = f"{number(spread['median'])} ({number(spread['min'])} to {number(spread['max'])})"
    return f"{words} {unit}".strip()


def _percent(part, digits=0):
    return f"{100 * part:.{digits}f} %"


def _draw(found):
    kinds = (("goodput", GOODPUT_GOAL, [one for one in found if one.unit]),
             ("share of a path", SHARE_GOAL, [one for one in found if not one.unit]))
    most = max(len(ones) for _, _, ones in kinds)
    drawing, axes_of = pyplot.subplots(1, 2, figsize=(11.2, 1.2 + 0.34 * most))
    for axes, (title, goal, ones) in zip(axes_of, kinds):
        axes.axvspan(1 - goal, 1 + goal, color="#dddddd", zorder=0)
        whole = [one.simulated["median"] for one in ones]
        for side, label, colour, offset in (("simulated", "simulator", COLOURS[0], -0.15),
                                            ("emulated", "Mininet", COLOURS[1], 0.15)):
            spreads = [getattr(one, side) for one in ones]
            medians = [spread["median"] / of for spread, of in zip(spreads, whole)]
            ends = [[abs(spread[end] / of - median) for spread, of, median in zip(spreads, whole, medians)]
                    for end in ("min", "max")]
            axes.errorbar(medians, [row + offset for row in range(len(ones))], xerr=ends, fmt="o", markersize=4, capsize=3,
                          color=colour, label=label)
        axes.set_yticks(range(len(ones)), [f"{one.scenario}: {one.what.partition(' of ')[2]}" for one in ones],
                        fontsize="small")
        axes.invert_yaxis()
        axes.set_title(title, fontsize="medium")
        axes.set_xlabel("of the simulator's median")
        axes.grid(axis="x", alpha=0.3)
        axes.legend(fontsize="small")
    drawing.tight_layout()
    return drawing
