"""Figures of a paper, said in a few lines each: curves over time, and bars beside the paper's numbers."""

from dataclasses import dataclass, field

import pandas
from matplotlib import pyplot
from mpqnet.page import COLOURS

from . import definitions, rules
from .spread import Spread

# More points than a line of a figure can show.
MOST_POINTS = 200

# Full-size datagrams; the papers count windows in packets.
PACKET_BYTES = 1472

# As many packets as this, lost within a sample on one path, are a burst.
BURST = 4


def _rate(rows):
    return rows.goodput_mbps


def _window(rows):
    return rows.cwnd_bytes / PACKET_BYTES


def _losses(rows):
    return rows.lost_packets.cumsum()


def _bursts(rows):
    return (rows.lost_packets >= BURST).cumsum()


def _queueing(rows):
    return rows.srtt_ms - rows.srtt_ms[rows.srtt_ms > 0].min()


def _set_paths(rows):
    return rows.value[rows.symbol == "set_paths"]


@dataclass(frozen=True)
class Quantity:
    """What is drawn over time: the label of its axis, what that is, its series of the rows of one path (or flow) in `table`,
    and what the axis shows at least."""
    label: str
    meaning: str
    series: object
    table: str = "paths"
    least_top: float = 0.0


QUANTITIES = {
    "rate": Quantity("Mbit/s", "what was received in each sample: UDP payload of a path, stream bytes of a flow", _rate),
    "window": Quantity("window, packets", f"congestion window in packets of {PACKET_BYTES} bytes", _window),
    "losses": Quantity("lost packets so far", "packets that their sender took for lost, from the beginning", _losses),
    "bursts": Quantity("bursts so far", f"samples in which a path lost {BURST} packets or more, from the beginning", _bursts),
    "queueing": Quantity("smoothed RTT above its least, ms", "the sender's smoothed RTT, less the least that it had", _queueing),
    "set": Quantity("paths taken to share a bottleneck", "paths of the set that the controller has the path in", _set_paths,
                    "decisions", 2.1),
}


@dataclass(frozen=True)
class Curve:
    """What one flow does over time, on one path, or on several together; without a path, as its application sees it."""
    label: str
    flow: str
    paths: tuple[str, ...] = ()


@dataclass(frozen=True)
class Panel:
    """Curves of one quantity in one case. All seeds are drawn: the median line, and a band from least to most."""
    title: str
    quantity: str
    curves: tuple[Curve, ...]
    case: str = ""
    seed: int | None = None  # this one only, where runs differ so much that a median shows none of them

    def meanings(self, _):
        """What is drawn, in words."""
        quantity = QUANTITIES[self.quantity]
        return [f"{quantity.label}: {quantity.meaning} ({quantity.table if self.curves[0].paths else 'flows'}.csv of each run)"]

    def draw(self, axes, results):
        quantity = QUANTITIES[self.quantity]
        axes.set_ylabel(quantity.label)
        axes.set_xlabel("s")
        axes.set_title(self.title, fontsize="medium")
        case = results.case(self.case)
        for curve, colour in zip(self.curves, COLOURS):
            table = over_time(results, case, curve, quantity, self.seed)
            if table is None:
                continue
            axes.plot(table.index, table.median(axis=1), color=colour, linewidth=1, label=curve.label)
            axes.fill_between(table.index, table.min(axis=1), table.max(axis=1), color=colour, alpha=0.2, linewidth=0)
        if axes.lines:
            # Only if it must: a limit that is set ends the fitting to what is drawn later on a shared axis.
            if quantity.least_top > axes.get_ylim()[1]:
                axes.set_ylim(top=quantity.least_top)
            axes.legend(fontsize="small", loc="best")
        else:
            axes.text(0.5, 0.5, "not run", ha="center", transform=axes.transAxes)


def over_time(results, case, curve, quantity, only_seed=None, thin=True):
    """A column for each seed, a row for each point of time, or for several if `thin`; None without runs."""
    columns = {}
    for seed in results.seeds(case):
        if only_seed is not None and seed != only_seed:
            continue
        rows = results.series(case, seed, quantity.table if curve.paths else "flows")
        rows = rows[rows.flow == curve.flow]
        if curve.paths:
            parts = [quantity.series(rows[rows.path == path].set_index("time_s")) for path in curve.paths]
            columns[seed] = sum(parts[1:], parts[0])
        else:
            columns[seed] = quantity.series(rows.set_index("time_s"))
    if not columns:
        return None
    table = pandas.DataFrame(columns)
    return thinned(table) if thin else table


def thinned(table):
    """At most `MOST_POINTS` rows, each the mean of those it stands for."""
    step = -(-len(table) // MOST_POINTS)
    return table if step == 1 else table.groupby(
        [table.index[i // step * step] for i in range(len(table))]).mean()


@dataclass(frozen=True)
class Bar:
    """One bar: a metric in one case, or an expression of metrics as in a rule, and what the paper has there."""
    label: str
    metric: str
    case: str = ""
    paper: float | None = None

    def spread(self, results):
        """Its values in all runs; None if there is none."""
        case = results.case(self.case)
        values = [value for seed in results.seeds(case)
                  if (value := rules.evaluate(self.metric, results, case, seed)) is not None]
        return Spread(tuple(values)) if values else None


@dataclass(frozen=True)
class Bars:
    """Medians with all runs as points, and the paper's values beside them. `lines` are values to compare with, by name."""
    title: str
    unit: str
    bars: tuple[Bar, ...]
    lines: tuple[tuple[str, float], ...] = ()

    def meanings(self, scenario):
        """What is drawn, in words: each metric of the bars."""
        return [words for bar in self.bars for words in definitions.of(bar.metric, scenario)]

    def draw(self, axes, results):
        axes.set_title(self.title, fontsize="medium")
        axes.set_ylabel(self.unit)
        shift = 0.2 if any(bar.paper is not None for bar in self.bars) else 0.0
        for x, bar in enumerate(self.bars):
            if spread := bar.spread(results):
                axes.bar(x - shift, spread.median, 0.6 - shift, color=COLOURS[0], label="ours, median")
                axes.plot([x - shift] * len(spread.values), spread.values, ".", color="#222222", label="ours, each run")
            if bar.paper is not None:
                axes.bar(x + shift, bar.paper, 0.4, color=COLOURS[1], label="paper")
        for (name, value), colour in zip(self.lines, COLOURS[2:]):
            axes.axhline(value, color=colour, linewidth=1, linestyle="--", label=name)
        axes.set_xticks(range(len(self.bars)), [bar.label for bar in self.bars], fontsize="small",
                        rotation=30 if len(self.bars) > 4 else 0, ha="right" if len(self.bars) > 4 else "center")
        unique = dict(zip(*reversed(axes.get_legend_handles_labels())))
        if unique:
            axes.legend(unique.values(), unique.keys(), fontsize="small")


@dataclass(frozen=True)
class Figure:
    """A figure of a paper, drawn from one scenario."""
    name: str
    scenario: str
    title: str
    panels: tuple
    columns: int = 2
    caption: str = ""
    published: str = ""  # what the paper's axes and numbers are, for the eye to compare with
    share_y: bool = field(default=False)

    def meanings(self, scenario):
        """What is drawn, in words, each once; `scenario` as a dict."""
        return list(dict.fromkeys(words for panel in self.panels for words in panel.meanings(scenario)))

    def draw(self, results):
        columns = min(self.columns, len(self.panels))
        rows = -(-len(self.panels) // columns)
        drawing, grid = pyplot.subplots(rows, columns, figsize=(5.6 * columns, 3.2 * rows), squeeze=False,
                                        sharey=self.share_y)
        for axes, panel in zip(grid.flat, self.panels):
            panel.draw(axes, results)
            axes.grid(alpha=0.3)
        for axes in grid.flat:
            axes.set_ylim(bottom=0)
        for axes in grid.flat[len(self.panels):]:
            axes.set_visible(False)
        drawing.tight_layout()
        return drawing
