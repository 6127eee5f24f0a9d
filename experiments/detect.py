"""Do two paths share a bottleneck, and does the sender say so? On topologies that are drawn by a seed.

    detect.py run     draws and simulates them, which may be interrupted and goes on, and judges
    detect.py judge   judges what there is
"""

import argparse
import json
import sys
from pathlib import Path

import simulator
from bottlenecks import topologies, verdicts

DEFAULT_CCS = ("sbd-bbr", "sbd-cubic", "dc-ledbat")


def write(arguments, ccs):
    """Writes the scenario of each topology; returns their files."""
    arguments.out.mkdir(parents=True, exist_ok=True)
    files = []
    for number in range(arguments.topologies):
        file = arguments.out / f"t{number:03}.toml"
        file.write_text(topologies.scenario(topologies.draw(arguments.seed, number), ccs), encoding="utf-8")
        files.append(file)
    return files


def judge(arguments, ccs):
    """Prints and writes what the verdicts come to; returns whether the first controller meets the goals."""
    by_cc = {cc: [] for cc in ccs}
    for number in range(arguments.topologies):
        topology = topologies.draw(arguments.seed, number)
        for verdict in verdicts.read(arguments.out / f"t{number:03}", topology):
            if verdict.cc in by_cc:
                by_cc[verdict.cc].append(verdict)
                if arguments.verbose and verdict.joined != verdict.shared:
                    print(f"t{number:03} {verdict}", file=sys.stderr)
    judged = {cc: verdicts.judge(of_cc) for cc, of_cc in by_cc.items()}
    text = json.dumps({"seed": arguments.seed, "controllers": judged}, indent=2) + "\n"
    (arguments.out / "summary.json").write_text(text, encoding="utf-8")
    print(text if arguments.json else verdicts.table(judged))
    if arguments.figure:
        count = next(iter(judged.values()))["shared"]
        words = f"Shared bottlenecks that are known to be shared, of {count}, over the time since the flow began"
        arguments.figure.write_text(verdicts.figure(judged, words), encoding="utf-8")
    return verdicts.meets(judged[ccs[0]])


def parse_arguments(words=None):
    parser = argparse.ArgumentParser(
        prog="detect.py", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="example:\n  python3 experiments/detect.py run --seed 2 --mpq target/release/mpq --figure docs/detection.svg\n\n"
               "exit status: 0 the first controller meets the goals: at 10 s less than 3 % of the disjoint ones joined and "
               "less than 5 % of the shared ones not; 1 it does not; 2 it could not run; 130 interrupted")
    parser.add_argument("verb", choices=("run", "judge"))
    parser.add_argument("--topologies", type=int, default=240, metavar="N", help="[default: %(default)s]")
    parser.add_argument("--seed", type=int, default=1, help="[default: %(default)s]")
    parser.add_argument("--cc", default=",".join(DEFAULT_CCS), metavar="NAME,NAME...",
                        help="controllers that say `set_paths`, with ; for a comma in one [default: %(default)s]")
    simulator.add_arguments(parser, "out/detect")
    parser.add_argument("--figure", type=Path, help="draw it there, as SVG")
    parser.add_argument("--json", action="store_true", help="JSON in place of the table")
    parser.add_argument("--verbose", action="store_true", help="name the topologies that were misjudged")
    arguments = parser.parse_args(words)
    if arguments.topologies < 16:
        parser.error("--topologies: at least 16, so that each kind is there")
    simulator.check(parser, arguments)
    return arguments


def main(words=None):
    arguments = parse_arguments(words)
    return simulator.guarded("detect", (verdicts.ResultError,), lambda: work(arguments))


def work(arguments):
    ccs = [cc.replace(";", ",") for cc in arguments.cc.split(",")]
    if arguments.verb == "run" and not simulator.run_all(arguments, write(arguments, ccs)):
        return 130
    return 0 if judge(arguments, ccs) else 1


if __name__ == "__main__":
    sys.exit(main())
