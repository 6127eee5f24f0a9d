"""The same scenarios in the simulator and in Mininet: goodput, and each path's share."""

import json
import subprocess
import sys

import run as mininet
from mpqnet import experiment
from mpqnet.process import CommandError
from mpqnet.scenario import ScenarioError
from report.differences import differences

from .figures import Figure, Goal
from .setting import EXPERIMENTS

RUNS = 3

SCENARIOS = EXPERIMENTS / "scenarios" / "agreement"


def run(setting):
    """`setting.runs` seeds of each scenario, in place of its own."""
    figures, compared = [], {}
    for scenario in sorted(SCENARIOS.glob("*.toml")):
        try:
            spreads = _both(setting, scenario)
        except ScenarioError as error:
            raise CommandError(str(error)) from error
        compared[scenario.stem] = spreads
        figures += figures_of(differences(scenario.stem, spreads["simulator"], spreads["mininet"]))
    # For `ci/papers`.
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


def figures_of(found):
    """The differences as figures of a benchmark."""
    return [Figure(f"agreement {one.scenario}", f"|Mininet / simulator - 1|, {one.what}", "",
                   None if one.goal is None else Goal("<=", one.goal), values=[one.relative]) for one in found]
