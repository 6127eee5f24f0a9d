"""The results of all runs of a scenario, as `mpq sim` lays them out (docs/scenarios.md)."""

import json
import shutil
import sys

from .results import ResultError


class Folder:
    """The folder of a plan (experiment.load), which is made if it is not there. `versions` are of parts that the plan
    does not know. Raises ResultError for a folder of something else."""

    def __init__(self, path, plan, versions):
        self.path = path
        self.manifest = {"command": sys.argv, "commit": plan["commit"], "patch_series": plan["patch_series"],
                         "versions": {**plan["versions"], **versions},
                         "scenario": plan["scenario"], "scenario_sha256": plan["scenario_sha256"]}
        manifest = path / "manifest.json"
        if manifest.exists():
            there = json.loads(manifest.read_text(encoding="utf-8"))
            if there.get("scenario_sha256") != plan["scenario_sha256"]:
                raise ResultError(f"{path} holds results of another scenario or another state of this one; choose another "
                                  "folder with --out, or move that one away")
            return
        if path.exists() and any(path.iterdir()):
            raise ResultError(f"{path} is not empty and holds no results; choose another folder with --out")
        (path / "runs").mkdir(parents=True, exist_ok=True)
        (path / "scenario.toml").write_text(plan["text"], encoding="utf-8")
        _write(manifest, self.manifest)

    def run(self, planned):
        """Where a run of the plan is, or will be."""
        return self.path / planned["folder"]

    def is_finished(self, planned):
        return (self.run(planned) / "summary.json").exists()

    def begin(self, planned):
        """An empty folder for a run under way."""
        run = self.run(planned)
        partial = run.with_name(f".{run.name}.partial")
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir(parents=True)
        return partial

    def finish(self, planned, partial, simulated_s, metrics, failure, notes):
        """Completes the folder of a run, and gives it its name. `notes` go into its manifest."""
        (partial / "scenario.toml").write_text(planned["text"], encoding="utf-8")
        _write(partial / "manifest.json",
               {**self.manifest, "case": planned["case"]["label"], "seed": planned["seed"], **notes})
        _write(partial / "summary.json",
               {"status": "failed" if failure else "ok", "reason": failure, "case": planned["case"],
                "seed": planned["seed"], "simulated_s": simulated_s, "metrics": metrics})
        partial.rename(self.run(planned))


def _write(file, data):
    file.write_text(json.dumps(data, indent=2) + "\n", encoding="utf-8")
