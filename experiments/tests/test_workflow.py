"""The Snakemake workflow, as far as it can be tried without simulating. Needs snakemake: in .venv-workflow, in PATH, or
named by MPQ_SNAKEMAKE."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
WORKFLOW = ROOT / "experiments/workflow"
SNAKEMAKE = os.environ.get("MPQ_SNAKEMAKE") or next(
    filter(None, (shutil.which(ROOT / ".venv-workflow/bin/snakemake"), shutil.which("snakemake"))), None)

needs_snakemake = pytest.mark.skipif(not SNAKEMAKE, reason="no snakemake: ci/setup net installs it")


def dry_run(tmp_path, *words, profile="local"):
    mpq = tmp_path / "mpq"
    mpq.touch()
    command = [SNAKEMAKE, "-s", WORKFLOW / "Snakefile", "--profile", WORKFLOW / "profiles" / profile,
               "--dry-run", "--directory", tmp_path, "--config", f"mpq={mpq}", f"out={tmp_path / 'out'}", *words]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@needs_snakemake
@pytest.mark.parametrize("profile", ["local", "slurm"])
def test_there_is_a_job_for_each_scenario_and_seed(tmp_path, profile):
    done = dry_run(tmp_path, f"scenarios=[{ROOT}/experiments/scenarios/beyond/picoquic-*.toml]", "seeds=[1,2]", profile=profile)
    said = done.stdout + done.stderr
    assert done.returncode == 0, said
    scenarios = len(list((ROOT / "experiments/scenarios/beyond").glob("picoquic-*.toml")))
    for rule, count in (("simulate", 2 * scenarios), ("merge", scenarios), ("all", 1)):
        assert any(line.split() == [rule, str(count)] for line in said.splitlines()), said


@needs_snakemake
def test_what_is_missing_is_named(tmp_path):
    done = dry_run(tmp_path, "scenarios=[nowhere/*.toml]")
    assert done.returncode != 0 and "no scenario matches" in done.stdout + done.stderr
    done = dry_run(tmp_path, "mpq=nowhere")
    assert done.returncode != 0 and "cargo build --release -p mpq" in done.stdout + done.stderr
