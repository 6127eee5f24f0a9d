"""The same scenarios in the simulator and in Mininet: goodput, and each path's share."""

import json
import subprocess
import sys
from pathlib import Path

import run as mininet
from mpqnet import experiment
from mpqnet.process import CommandError
from mpqnet.scenario import ScenarioError

from .figures import Figure, Goal

RUNS = 3

SCENARIOS = Path(__file__).resolve().parents[1] / "scenarios" / "agreement"
GOODPUT_GOAL = Goal("<=", 0.05)
SHARE_GOAL = Goal("<=", 0.10)


def run(setting):
    """`setting.runs` seeds of each scenario, in place of its own."""
    figures, compared = [], {}
    for scenario in sorted(SCENARIOS.glob("*.toml")):
        try:
            spreads = _both(setting, scenario)
        except ScenarioError as error:
            raise CommandError(str(error)) from error
        compared[scenario.stem] = spreads
        figures += differences(scenario.stem, spreads["simulator"], spreads["mininet"])
    # For the report.
    (setting.out / "agreement.json").write_text(json.dumps(compared, indent=2) + "\n", encoding="utf-8")
    return figures


def _both(setting, scenario):
    """Median, min and max of all metrics in both, by their name."""
    words = [str(scenario), "--seeds", ",".join(str(seed) for seed in range(1, setting.runs + 1))]
    plan = experiment.load(setting.mpq, words)
    folder = setting.out / "agreement" / f"{scenario.stem}-{plan['scenario_sha256'][:12]}-{plan['commit']}"
    simulated, emulated = folder / "simulator", folder / "mininet"
    print(f"{scenario.stem}: {plan['question']}", file=sys.stderr)
    _judge(setting, words, simulated)
    mininet.run_all(plan, [experiment.read(planned) for planned in plan["runs"]], emulated, setting.mpq, setting.wire,
                    setting.backend)
    _judge(setting, words, emulated)
    return {name: _spreads(out) for name, out in (("simulator", simulated), ("mininet", emulated))}


def _judge(setting, words, out):
    """Makes what is missing in virtual time, and the summary."""
    command = [str(setting.mpq), "sim", *words, "--out", str(out), "--quiet"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise CommandError(f"`{' '.join(command)}` ended with {done.returncode}: {done.stderr.strip()}")


def _spreads(out):
    [case] = json.loads((out / "summary.json").read_text(encoding="utf-8"))["cases"]
    return case["metrics"]


def differences(name, simulated, emulated):
    """Relative differences of the median goodput of each flow, and of the share of each path where there are several.
    Where the simulator's own seeds are farther apart than twice the goal, chance decides, and there is no goal."""
    figures = []
    for metric in sorted(emulated):
        parts = metric.split(".")
        if metric.startswith("flow.") and len(parts) == 3 and parts[2] == "goodput_mbps":
            what, goal = f"goodput of {parts[1]}", GOODPUT_GOAL
        elif metric.startswith("flow.") and metric.endswith(".share") and emulated[metric]["median"] < 1:
            what, goal = f"share of {parts[3]} in {parts[1]}", SHARE_GOAL
        else:
            continue
        theirs, ours = simulated[metric], emulated[metric]
        by_chance = (theirs["max"] - theirs["min"]) / theirs["median"] > 2 * goal.value
        figure = Figure(f"agreement {name}", f"|Mininet / simulator - 1|, {what}", "", None if by_chance else goal)
        figure.values.append(abs(ours["median"] / theirs["median"] - 1))
        figures.append(figure)
    return figures
