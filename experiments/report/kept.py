"""What full-scale runs found, kept in the tree: claims.csv, so that a reduced run can say it beside its own, bars.csv with the
numbers of the figures, and the page without the runs' data."""

import csv
from dataclasses import astuple, dataclass, fields, replace

from . import page as pages
from .figures import Bars
from .results import ResultsError
from .spread import number


@dataclass(frozen=True)
class Kept:
    """One claim in one case, as a run at the papers' own rates and durations judged it."""
    scenario: str
    claim: str
    case: str
    accepted: str  # "yes", "no" or "not judged"
    ours: str  # medians of what is judged, with spaces between
    seeds: str  # "1 2 3"
    commit: str

    @property
    def key(self):
        return self.scenario, self.claim, self.case

    @property
    def words(self):
        n = len(self.seeds.split())
        return f"{self.accepted}, {self.ours or 'no value'} (n = {n}, commit {self.commit})"


_WORDS = {True: "yes", False: "no", None: "not judged"}


@dataclass(frozen=True)
class KeptBar:
    """A bar of a figure at the papers' own rates and durations."""
    scenario: str
    figure: str
    panel: str
    bar: str
    metric: str
    case: str
    unit: str
    ours: str  # median, and all runs from least to most
    least: str
    most: str
    n: int
    paper: str
    commit: str

    @property
    def key(self):
        return self.scenario, self.figure, self.panel, self.bar, self.case


def load(folder):
    """{(scenario, claim, case): Kept}; empty if there is no claims.csv."""
    return _load(folder / "claims.csv", Kept)


def save(folder, page, sections):
    """Puts the claims and bars of runs without `--set` into the tables, in place of what these have of their scenarios, and
    writes the page if every scenario of it was run so. Returns whether it did."""
    full = {name: (section, results) for section in sections for name, results in section.results.items()
            if "--set" not in results.manifest["command"]}
    claims = [_row(claim, results) for name, (section, results) in full.items() for claim in section.claims
              if claim.scenario == name]
    bars = [bar for name, (section, results) in full.items() for figure in section.figures if figure.scenario == name
            for bar in _bars(figure, results)]
    folder.mkdir(parents=True, exist_ok=True)
    drawn = {figure.scenario for module in page.modules for figure in module.FIGURES}
    _renew(folder / "claims.csv", Kept, drawn - full.keys(), claims)
    _renew(folder / "bars.csv", KeptBar, drawn - full.keys(), bars)
    if not drawn <= full.keys():
        return False
    pages.write(folder, replace(page, data=False, extras=()), {name: results for name, (_, results) in full.items()})
    return True


def _load(file, kind):
    columns = [field.name for field in fields(kind)]
    try:
        with file.open(newline="", encoding="utf-8") as lines:
            rows = [kind(**row) for row in csv.DictReader(lines)]
    except FileNotFoundError:
        return {}
    except (OSError, TypeError, ValueError) as e:
        raise ResultsError(f"{file}: {e}; its columns are {', '.join(columns)}") from e
    return {row.key: row for row in rows}


def _renew(file, kind, others, found):
    """Writes what was found, and what the file has of other scenarios; those that are gone go."""
    rows = {key: row for key, row in _load(file, kind).items() if row.scenario in others}
    rows |= {row.key: row for row in found}
    with file.open("w", newline="", encoding="utf-8") as lines:
        table = csv.writer(lines, lineterminator="\n")
        table.writerow(field.name for field in fields(kind))
        table.writerows(astuple(rows[key]) for key in sorted(rows))


def _bars(figure, results):
    commit = str(results.manifest.get("commit"))
    for panel in figure.panels:
        for bar in panel.bars if isinstance(panel, Bars) else ():
            if spread := bar.spread(results):
                yield KeptBar(figure.scenario, figure.name, panel.title, " ".join(bar.label.split()), bar.metric, bar.case, panel.unit,
                              number(spread.median), number(min(spread.values)), number(max(spread.values)), len(spread.values),
                              "" if bar.paper is None else number(bar.paper), commit)


def _row(claim, results):
    case = claim.case or next(iter(dict.fromkeys(run.case for run in results.runs)), "")
    seeds = results.seeds(case)
    ours = " ".join(number(spread.median) for spread in claim.ours.values())
    return Kept(claim.scenario, claim.paper or claim.criterion, claim.case, _WORDS[claim.accepted], ours,
                " ".join(map(str, seeds)), str(results.manifest.get("commit")))
