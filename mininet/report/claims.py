"""Claims of the papers, and whether they came out."""

from dataclasses import dataclass

from . import rules


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
            return [Claim(self.scenario, self.paper, "", self.criterion, {}, None, "runs for this are missing")]
        ours, accepted = found
        return [Claim(self.scenario, self.paper, "", self.criterion, ours, accepted)]


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
