"""Claims of the papers, and whether they came out."""

import statistics
from dataclasses import dataclass

from . import rules
from .spread import number

# A rule that is for more cases than this is one row of the table, not one for each case.
MOST_ROWS = 4


@dataclass(frozen=True)
class Claim:
    """One line of the table."""
    scenario: str
    paper: str  # as the scenario words it: "CC-1: less than 20 %"
    case: str
    criterion: str
    ours: dict  # what is judged: Spread
    accepted: bool | None  # None: reported, not judged
    problem: str | None = None
    rule: bool = True  # whether the criterion is a rule of the scenario, not a sentence about `Measured`


@dataclass(frozen=True)
class Group:
    """Claims that are one row of the table: one alone, or one rule in many cases."""
    claims: tuple[Claim, ...]

    @property
    def accepted(self):
        """Whether all are accepted that were judged; None if none was."""
        verdicts = [claim.accepted for claim in self.claims if claim.accepted is not None]
        return all(verdicts) if verdicts else None

    @property
    def cases(self):
        """Words for the cases; empty for the only one."""
        if len(self.claims) > 1:
            return f"{len(self.claims)} cases"
        case = self.claims[0].case
        return "" if case in ("", "base") else case

    @property
    def missed(self):
        """Labels of the cases that are not accepted."""
        return [claim.case for claim in self.claims if claim.accepted is False]

    @property
    def ours(self):
        """{what is judged: words}: a median with its interval, or the range of many cases' medians."""
        if len(self.claims) == 1:
            return {what: str(spread) for what, spread in self.claims[0].ours.items()}
        n = sorted({len(spread.values) for claim in self.claims for spread in claim.ours.values()})
        runs = " or ".join(map(str, n))
        return {what: f"medians from {number(min(medians))} to {number(max(medians))} (n = {runs} each)"
                for what, medians in self._medians().items()}

    @property
    def numbers(self):
        """The median of each, over the cases if there are many, as text."""
        return [number(statistics.median(medians)) for medians in self._medians().values()]

    def _medians(self):
        medians = {}
        for claim in self.claims:
            for what, spread in claim.ours.items():
                medians.setdefault(what, []).append(spread.median)
        return medians


def grouped(claims):
    """The claims as groups, in order."""
    same = {}
    for claim in claims:
        same.setdefault((claim.scenario, claim.paper, claim.criterion), []).append(claim)
    groups = []
    for members in same.values():
        groups += [Group(tuple(members))] if len(members) > MOST_ROWS else [Group((claim,)) for claim in members]
    return groups


@dataclass(frozen=True)
class Measured:
    """A claim that needs the series, or all runs one by one, so that no rule can say it."""
    scenario: str
    paper: str
    criterion: str
    measure: object  # of Results: (ours, accepted), or None where the runs for it are missing

    def claims(self, results):
        found = self.measure(results)
        if found is None:
            return [Claim(self.scenario, self.paper, "", self.criterion, {}, None, "runs for this are missing", rule=False)]
        ours, accepted = found
        return [Claim(self.scenario, self.paper, "", self.criterion, ours, accepted, rule=False)]


def of_rules(results):
    """A claim for every rule of the scenario, in every case that it is for."""
    claims = []
    for verdict in results.acceptance:
        ours = rules.judged(verdict["rule"], results, verdict["case"])
        # A case without a run that went well proves nothing either way.
        ran = bool(results.seeds(verdict["case"]))
        claims.append(Claim(results.name, verdict["paper"] or "", verdict["case"], verdict["rule"], ours,
                            verdict["holds"] if ran else None, verdict["problem"]))
    return claims


def of(results, measured):
    """All claims that are judged by these results."""
    return of_rules(results) + [claim for one in measured if one.scenario == results.name
                                for claim in one.claims(results)]
