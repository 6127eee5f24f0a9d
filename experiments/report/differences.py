"""How far the metrics of one experiment, run in two ways, are apart: goodput, and each path's share."""

from dataclasses import dataclass

# How far apart they may be, as parts of one.
GOODPUT_GOAL = 0.05
SHARE_GOAL = 0.10


@dataclass(frozen=True)
class Difference:
    """One metric of a scenario; spreads are {"median": ..., "min": ..., "max": ..., "n": ...}."""
    scenario: str
    what: str  # "goodput of mp"
    unit: str  # "Mbit/s", or "" for a share
    simulated: dict
    emulated: dict
    goal: float | None  # none where chance decides

    @property
    def relative(self):
        """|Mininet / simulator - 1| of the medians."""
        return abs(self.emulated["median"] / self.simulated["median"] - 1)

    def meets(self):
        """Whether the goal is met; None without one."""
        return None if self.goal is None else self.relative <= self.goal


def differences(scenario, simulated, emulated):
    """The goodput of each flow, and the share of each path where there are several, from all metrics of a scenario.

    Where the simulator's own seeds are farther apart than twice the goal, chance decides, and there is no goal.
    """
    found = []
    for metric in sorted(emulated):
        parts = metric.split(".")
        if metric.startswith("flow.") and len(parts) == 3 and parts[2] == "goodput_mbps":
            what, unit, goal = f"goodput of {parts[1]}", "Mbit/s", GOODPUT_GOAL
        elif metric.startswith("flow.") and metric.endswith(".share") and emulated[metric]["median"] < 1:
            what, unit, goal = f"share of {parts[3]} in {parts[1]}", "", SHARE_GOAL
        else:
            continue
        ours = simulated[metric]
        by_chance = (ours["max"] - ours["min"]) / ours["median"] > 2 * goal
        found.append(Difference(scenario, what, unit, ours, emulated[metric], None if by_chance else goal))
    return found
