"""Films and clips over two networks from life: one path, the other, one at a time, both. What does the viewer get?

    viewers.py run     draws and simulates the scenes, which may be interrupted and goes on, judges and writes the page
    viewers.py judge   does that with what there is
"""

import argparse
import sys
from pathlib import Path

import simulator
from qoe import links, scene, sessions, study

# What draws shares its looks with the demonstration.
sys.path.append(str(Path(__file__).resolve().parents[1] / "mininet"))

EXAMPLES = """\
examples:
  python3 experiments/viewers.py run --mpq target/release/mpq
  python3 experiments/viewers.py run --scene train --scene bus --seeds 101,102 --mpq target/release/mpq
  python3 experiments/viewers.py judge --picture docs/qoe.svg
  python3 experiments/viewers.py judge --also out/emulated/sessions.csv

exit status: 0 every goal is met by some judged arm; 1 one is met by none; 2 it could not run; 130 interrupted"""


def write(arguments, scenes, plan):
    """Writes the scenario of each scene, viewer and seed; returns their files, seed by seed.

    One for each viewer, so that another viewer needs no other session again.
    """
    arguments.out.mkdir(parents=True, exist_ok=True)
    files = []
    # So that an interrupted run has some of every scene.
    for seed in plan.seeds:
        for one in scenes:
            for viewer in plan.viewers:
                file = study.folder(arguments.out, one.name, viewer.name, seed).with_suffix(".toml")
                arms = [session for session in plan.sessions if session.viewer == viewer]
                file.write_text(scene.scenario(one, seed, plan.content, arms), encoding="utf-8")
                files.append(file)
    return files


def parse_arguments(words=None):
    parser = argparse.ArgumentParser(prog="viewers.py", description=__doc__, epilog=EXAMPLES,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("verb", choices=("run", "judge"))
    parser.add_argument("--full", action="store_true", help="all viewers, schedulers and controllers, and 20 seeds")
    parser.add_argument("--scene", dest="scenes", action="append", choices=scene.names(), metavar="NAME",
                        help=f"of {', '.join(scene.names())}; may be repeated [default: all]")
    parser.add_argument("--seeds", type=lambda text: tuple(map(int, text.split(","))), metavar="N,N...",
                        help="in place of the study's own")
    parser.add_argument("--also", type=Path, action="append", default=[], metavar="FILE.csv",
                        help="sessions that were measured elsewhere, as in sessions.csv")
    parser.add_argument("--picture", type=Path, metavar="FILE.svg", help="draw the summary there")
    simulator.add_arguments(parser, "out/qoe/reduced")
    arguments = parser.parse_args(words)
    simulator.check(parser, arguments)
    return arguments


def main(words=None):
    arguments = parse_arguments(words)
    return simulator.guarded("viewers", (links.LinkError, sessions.ResultError), lambda: work(arguments))


def work(arguments):
    plan = study.load(arguments.full, seeds=arguments.seeds)
    scenes = [scene.load(name) for name in arguments.scenes or scene.names()]
    if arguments.verb == "run":
        # 7: a session failed, which is a result.
        if not simulator.run_all(arguments, write(arguments, scenes, plan), fine=(0, 7)):
            return 130
    # Only now: the help needs none of the modules that draw.
    from qoe import report
    return 0 if report.write(arguments, scenes, plan) else 1


if __name__ == "__main__":
    sys.exit(main())
