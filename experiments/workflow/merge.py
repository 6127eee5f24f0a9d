"""Puts results of the same scenario with different seeds into one folder, and has `mpq sim` judge them together."""

import argparse
import shutil
import subprocess
import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[2] / "mininet"))

from mpqnet import experiment
from mpqnet.folder import Folder
from mpqnet.results import ResultError
from mpqnet.scenario import ScenarioError


def merge(mpq, scenario, seeds, out, sources):
    """Copies every run of the scenario from the folders `sources`, which are left as they are."""
    plan = experiment.load(mpq, [str(scenario), "--seeds", seeds])
    folder = Folder(out, plan, {})
    for planned in plan["runs"]:
        if folder.is_finished(planned):
            continue
        found = [source / planned["folder"] for source in sources if (source / planned["folder"] / "summary.json").exists()]
        if not found:
            raise ResultError(f"{planned['folder']} is in none of {', '.join(map(str, sources))}")
        partial = folder.begin(planned)
        shutil.copytree(found[0], partial, dirs_exist_ok=True)
        partial.rename(folder.run(planned))


def main(words=None):
    parser = argparse.ArgumentParser(
        prog="merge.py", description=__doc__,
        epilog="example:\n  merge.py --mpq target/release/mpq --scenario x.toml --seeds 1,2 --out out/x out/x-1 out/x-2",
        formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sources", nargs="+", type=Path, help="folders that `mpq sim --seeds` wrote")
    parser.add_argument("--mpq", type=Path, required=True, help="the mpq program")
    parser.add_argument("--scenario", type=Path, required=True)
    parser.add_argument("--seeds", required=True, metavar="N,N...", help="all seeds")
    parser.add_argument("--out", type=Path, required=True, help="the folder for all of them")
    arguments = parser.parse_args(words)
    # As a program of this folder, not one of the PATH.
    mpq = arguments.mpq.resolve()
    try:
        merge(mpq, arguments.scenario, arguments.seeds, arguments.out, arguments.sources)
    except (ResultError, ScenarioError, OSError) as error:
        print(f"merge: {error}", file=sys.stderr)
        return 1
    judged = subprocess.run([mpq, "sim", arguments.scenario, "--seeds", arguments.seeds, "--out", arguments.out, "--quiet"],
                            check=False)
    return judged.returncode if judged.returncode not in (7, 8) else 0


if __name__ == "__main__":
    sys.exit(main())
