"""A result folder of `mpq sim`: see docs/scenarios.md for what is in one."""

import json
import tomllib
from dataclasses import dataclass
from pathlib import Path

import pandas


class ResultsError(Exception):
    """A folder that holds no results, and what to do about it."""


@dataclass(frozen=True)
class Run:
    case: str
    set: dict
    seed: int
    status: str
    reason: str | None
    folder: Path
    metrics: dict


class Results:
    """All runs of one scenario."""

    def __init__(self, folder):
        self.folder = Path(folder)
        self._summary = self._json("summary.json")
        self.manifest = self._json("manifest.json")
        try:
            self.scenario = tomllib.loads((self.folder / "scenario.toml").read_text())
        except (OSError, tomllib.TOMLDecodeError) as e:
            raise ResultsError(f"{self.folder}: {e}; run mpq sim again, into another folder") from e
        self.name = self._summary["scenario"]
        self.runs = [Run(run["case"], run["set"], run["seed"], run["status"], run["reason"],
                         self.folder / run["folder"], run["metrics"]) for run in self._summary["runs"]]
        self.acceptance = self._summary["acceptance"]
        self._by_case = {}
        for run in self.runs:
            self._by_case.setdefault(run.case, {})[run.seed] = run

    def _json(self, name):
        path = self.folder / name
        try:
            return json.loads(path.read_text())
        except FileNotFoundError as e:
            raise ResultsError(f"{path} is missing: let mpq sim finish, with --out {self.folder}") from e
        except (OSError, json.JSONDecodeError) as e:
            raise ResultsError(f"{path}: {e}; run mpq sim again, into another folder") from e

    @property
    def failed(self):
        return [run for run in self.runs if run.status != "ok"]

    @property
    def command(self):
        """The command line that began the folder, without the program's own path."""
        program, *words = self.manifest["command"]
        # Seeds that were run apart are put together by a program of the tree.
        return " ".join(["python3 " + program if program.endswith(".py") else "mpq", *words])

    def cases(self, selection=""):
        """The labels of the cases that have all values of the selection, such as "cc=lia,case=scaled"."""
        wanted = _pairs(selection)
        return [label for label in self._by_case
                if all(_value(label, self._settings(label), key) == value for key, value in wanted)]

    def case(self, selection=""):
        """The label of the only case with the selection; None if there is none. Several are an error."""
        labels = self.cases(selection)
        if len(labels) > 1:
            raise ResultsError(f'{self.folder}: "{selection}" selects {len(labels)} cases: {"; ".join(labels)}')
        return labels[0] if labels else None

    def case_with(self, label, selection):
        """The case with the values of the selection, and all else as in the case `label`; None if there is none.

        As in `mpq sim`, a selection that names a `[[case]]` leaves nothing to be the same.
        """
        keys = [key for key, _ in _pairs(selection)]
        for other in self.cases(selection):
            if "case" in keys:
                return other
            here, there = self._settings(label), self._settings(other)
            same_name = _value(label, here, "case") == _value(other, there, "case")
            if same_name and all(here.get(full) == value for full, value in there.items()
                                 if not any(_is_key(full, key) for key in keys)):
                return other
        return None

    def _settings(self, label):
        return next(iter(self._by_case[label].values())).set

    def seeds(self, label):
        """Seeds of the runs of a case that went well."""
        return sorted(seed for seed, run in self._by_case.get(label, {}).items() if run.status == "ok")

    def metric(self, label, seed, name):
        """A metric of one run, or None."""
        run = self._by_case.get(label, {}).get(seed)
        return None if run is None or run.status != "ok" else run.metrics.get(name)

    def series(self, label, seed, what):
        """`paths`, `flows`, `links` or `decisions` of one run as a table."""
        path = self._by_case[label][seed].folder / f"{what}.csv"
        try:
            return pandas.read_csv(path)
        except (OSError, ValueError) as e:
            raise ResultsError(f"{path}: {e}; run mpq sim again, into another folder") from e


def _pairs(selection):
    return [tuple(part.strip() for part in pair.split("=", 1)) for pair in selection.split(",")] if selection else []


def _is_key(full, key):
    return key in (full, full.rsplit(".", 1)[-1])


def _value(label, settings, key):
    """The value of a case for a key, which may be the last part of one, as text."""
    if key == "case":
        head = label.split(",")[0]
        return head.removeprefix("case=") if head.startswith("case=") else None
    for full, value in settings.items():
        if _is_key(full, key):
            return value if isinstance(value, str) else json.dumps(value)
    return None


def load(folder):
    """{name: Results} of every result folder in `folder` that is finished, or of `folder` itself."""
    folder = Path(folder)
    if not folder.is_dir():
        raise ResultsError(f"{folder} is no folder: run ci/papers, or mpq sim with --out {folder}/NAME")
    if (folder / "manifest.json").exists():
        places = [folder]
    else:
        # mpq sim writes the summary last.
        places = sorted(path.parent for path in folder.glob("*/summary.json"))
    if not places:
        raise ResultsError(f"{folder} holds no finished results: run ci/papers, or mpq sim with --out {folder}/NAME")
    found = [Results(place) for place in places]
    return {results.name: results for results in found}
