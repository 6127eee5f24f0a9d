"""What full-scale runs found, kept in the tree, so that a reduced run can say it beside its own."""

import csv
from dataclasses import astuple, dataclass, fields

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


_COLUMNS = tuple(field.name for field in fields(Kept))
_WORDS = {True: "yes", False: "no", None: "not judged"}


def load(file):
    """{(scenario, claim, case): Kept}; empty if the file is not there."""
    try:
        with file.open(newline="", encoding="utf-8") as lines:
            rows = [Kept(**row) for row in csv.DictReader(lines)]
    except FileNotFoundError:
        return {}
    except (OSError, TypeError, ValueError) as e:
        raise ResultsError(f"{file}: {e}; its columns are {', '.join(_COLUMNS)}") from e
    return {row.key: row for row in rows}


def save(file, sections):
    """Puts the claims of runs without `--set` into the file, in place of what it has of their scenarios."""
    rows = load(file)
    for section in sections:
        for name, results in section.results.items():
            if "--set" in results.manifest["command"]:
                continue
            rows = {key: row for key, row in rows.items() if key[0] != name}
            for claim in section.claims:
                if claim.scenario == name:
                    row = _row(claim, results)
                    rows[row.key] = row
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("w", newline="", encoding="utf-8") as lines:
        table = csv.writer(lines, lineterminator="\n")
        table.writerow(_COLUMNS)
        table.writerows(astuple(rows[key]) for key in sorted(rows))


def _row(claim, results):
    case = claim.case or next(iter(dict.fromkeys(run.case for run in results.runs)), "")
    seeds = results.seeds(case)
    ours = " ".join(number(spread.median) for spread in claim.ours.values())
    return Kept(claim.scenario, claim.paper or claim.criterion, claim.case, _WORDS[claim.accepted], ours,
                " ".join(map(str, seeds)), str(results.manifest.get("commit")))
