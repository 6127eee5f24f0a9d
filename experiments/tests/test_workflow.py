"""The Snakemake workflow: what it would run, and that it finds what `mpq sim` alone finds. Needs snakemake: in
.venv-workflow, in PATH, or named by MPQ_SNAKEMAKE."""

import json
import os
import shutil
import subprocess
from pathlib import Path

import built
import pytest

ROOT = Path(__file__).parents[2]
MPQ = built.find("mpq")
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


@needs_snakemake
@built.needs_mpq
def test_a_workflow_has_the_results_of_one_command(tmp_path):
    # A paper's scenario with fewer cases and a tenth of the time.
    text = (ROOT / "experiments/scenarios/papers/mc-3.toml").read_text()
    file = tmp_path / "part.toml"
    file.write_text(text.replace('"300 s"', '"12 s"').replace('from = "30 s"', 'from = "3 s"'))
    assert '"12 s"' in file.read_text() and 'from = "3 s"' in file.read_text()
    words = ["--seeds", "1,2", "--quiet"]
    alone = subprocess.run([MPQ, "sim", file, *words, "--out", tmp_path / "alone"], capture_output=True, text=True, check=False)
    assert alone.returncode in (0, 8), alone.stderr
    done = subprocess.run(
        [SNAKEMAKE, "-s", WORKFLOW / "Snakefile", "--profile", WORKFLOW / "profiles/local", "--directory", tmp_path, "--config",
         f"mpq={MPQ}", f"out={tmp_path / 'out'}", f"scenarios=[{file}]", "seeds=[1,2]"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    summaries = [json.loads((folder / "summary.json").read_text()) for folder in (tmp_path / "alone", tmp_path / "out/part")]
    assert summaries[0]["runs"] and summaries[0] == summaries[1]
    for run in summaries[0]["runs"]:
        one, other = ((folder / run["folder"] / "paths.csv").read_bytes() for folder in (tmp_path / "alone", tmp_path / "out/part"))
        assert one == other
