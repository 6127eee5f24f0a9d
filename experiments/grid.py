"""Two paths over the link parameters of De Coninck and Bonaventure: how often, and how much, do they beat one?

    grid.py write   writes the scenario of each point
    grid.py run     also simulates them, which may be interrupted and goes on, and judges
    grid.py judge   judges what there is
"""

import argparse
import json
import sys

import simulator
from wsp import benefit, settings


def write(out, kind, count, ccs, single_cc):
    """Writes the scenarios of a class; returns their files."""
    folder = out / kind.name
    folder.mkdir(parents=True, exist_ok=True)
    files = []
    for number, pair in enumerate(settings.design(kind, count), 1):
        file = folder / f"p{number:03}.toml"
        file.write_text(settings.scenario(kind, number, pair, ccs, single_cc), encoding="utf-8")
        files.append(file)
    return files


def judge(out, kinds, ccs, as_json):
    """Prints what the classes come to, and writes it; returns whether every goal is met by some controller."""
    judged = [benefit.judge(kind, benefit.load(out / kind.name, ccs)) for kind in kinds]
    text = json.dumps({"classes": judged}, indent=2) + "\n"
    (out / "summary.json").write_text(text, encoding="utf-8")
    print(text if as_json else "\n\n".join(map(benefit.table, judged)))
    return all(kind.goal is None or max(row["share"] for row in of_kind["controllers"].values()) >= kind.goal
               for kind, of_kind in zip(kinds, judged, strict=True))


def parse_arguments(words=None):
    parser = argparse.ArgumentParser(
        prog="grid.py", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="examples:\n  python3 experiments/grid.py run --points 16 --cc lia,olia --mpq target/release/mpq\n"
               "  python3 experiments/grid.py run --class low-bdp --mpq target/release/mpq      # all 253 points, all controllers\n"
               "  python3 experiments/grid.py run --points 40 --cc olia --sched ecf,min-rtt --mpq target/release/mpq\n"
               "  python3 experiments/grid.py judge --class low-bdp --json\n\n"
               "exit status: 0 done, and for each class some controller meets the goal; 1 none does; 2 it could not run; "
               "130 interrupted")
    parser.add_argument("verb", choices=("write", "run", "judge"))
    parser.add_argument("--class", dest="classes", action="append", choices=settings.CLASSES,
                        help="a class; may be repeated [default: all four]")
    parser.add_argument("--points", type=int, default=settings.PUBLISHED_POINTS, help="[default: %(default)s]")
    parser.add_argument("--cc", default=",".join(settings.DEFAULT_CCS), metavar="NAME,NAME...",
                        help="controllers [default: all coupled ones, and cubic]")
    parser.add_argument("--sched", metavar="NAME,NAME...",
                        help="schedulers, each with each controller [default: the one that scenarios have]")
    parser.add_argument("--single", default=settings.SINGLE_CC, metavar="NAME",
                        help="controller of the single paths [default: %(default)s]")
    simulator.add_arguments(parser, "out/grid")
    parser.add_argument("--json", action="store_true", help="JSON in place of the table")
    arguments = parser.parse_args(words)
    if arguments.points < 2:
        parser.error("--points: at least 2")
    simulator.check(parser, arguments)
    return arguments


def main(words=None):
    arguments = parse_arguments(words)
    return simulator.guarded("grid", (benefit.ResultError,), lambda: work(arguments))


def work(arguments):
    kinds = [settings.CLASSES[name] for name in arguments.classes or settings.CLASSES]
    ccs = settings.senders(arguments.cc.split(","), arguments.sched.split(",") if arguments.sched else [])
    if arguments.verb != "judge":
        written = [write(arguments.out, kind, arguments.points, ccs, arguments.single) for kind in kinds]
    if arguments.verb == "write":
        print(f"{sum(map(len, written))} scenarios in {arguments.out}")
        return 0
    if arguments.verb == "run":
        # A failed transfer (7) is a result without benefit, and a rule that does not hold (8) is what is counted.
        files = [file for of_kind in written for file in of_kind]
        if not simulator.run_all(arguments, files, fine=(0, 7, 8), words=lambda file: f"{file.parent.name}, {file.stem}"):
            return 130
    return 0 if judge(arguments.out, kinds, ccs, arguments.json) else 1


if __name__ == "__main__":
    sys.exit(main())
