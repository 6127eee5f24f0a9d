"""Runs a benchmark and prints its figures with their spread.

Run it by `ci/bench`, which builds what it needs. Needs root, but for --list.
"""

import argparse
import os
import signal
import sys
from pathlib import Path

from mpqbench import SUMMARIES

# What they measure on and with.
sys.path += [str(Path(__file__).resolve().parents[1] / folder) for folder in ("mininet", "experiments")]

PROGRAMS = ("mpq", "wire", "stock", "patched", "nginx", "native", "h2load", "acks", "picks", "noq")


def parse_arguments(words=None):
    parser = argparse.ArgumentParser(
        prog="ci/bench", description="Runs a benchmark and prints its figures: n, least, median, most, and the goal.",
        epilog="examples:\n  ci/bench aggregation\n  ci/bench handover -n 3 --json >handover.json\n\n"
               "exit status: 0 every goal is met, 1 one is not, 2 the benchmark could not run",
        formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", choices=SUMMARIES, nargs="?", metavar="NAME", help="which one; see --list")
    parser.add_argument("--list", action="store_true", help="the benchmarks, and no more")
    parser.add_argument("--json", action="store_true", help="figures as JSON on standard output; progress goes to standard error")
    parser.add_argument("-n", "--runs", type=int, metavar="RUNS", help="how often [default: the benchmark's own choice]")
    parser.add_argument("--out", type=Path, default=Path("out/bench"), help="for reports and logs [default: %(default)s]")
    parser.add_argument("--backend", choices=("auto", "netem", "wire"), default="auto")
    for program in PROGRAMS:
        parser.add_argument(f"--{program}", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args(words)
    if not arguments.list and not arguments.name:
        parser.error(f"which benchmark? One of {', '.join(SUMMARIES)}")
    if arguments.runs is not None and arguments.runs < 1:
        parser.error("-n: at least one run")
    return arguments


def main():
    arguments = parse_arguments()
    if arguments.list:
        for name, summary in SUMMARIES.items():
            print(f"{name:<14}{summary}")
        return 0
    if os.geteuid() != 0:
        print("bench: network namespaces need root; run ci/bench, or this under sudo", file=sys.stderr)
        return 2
    # Only now: these need the mininet module, which the help does not.
    from mpqbench import runner
    # A request to end takes the same way out as Ctrl-C, past every `finally`.
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.default_int_handler)
    try:
        return runner.run(arguments, PROGRAMS)
    except KeyboardInterrupt:
        print("\nbench: interrupted", file=sys.stderr)
        return 130


if __name__ == "__main__":
    sys.exit(main())
