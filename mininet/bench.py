"""Runs a benchmark and prints its figures with their spread.

Run it by `ci/bench`, which builds what it needs. Needs root, but for --list.
"""

import argparse
import json
import os
import platform
import signal
import sys
from pathlib import Path

from benchmarks import BENCHMARKS
from benchmarks.figures import table
from benchmarks.setting import Setting
from mpqnet.link import LinkError, choose_backend
from mpqnet.process import CommandError
from mpqnet.results import ResultError

PROGRAMS = ("mpq", "wire", "stock", "patched")


def parse_arguments(words=None):
    parser = argparse.ArgumentParser(
        prog="ci/bench", description="Runs a benchmark and prints its figures: n, least, median, most, and the goal.",
        epilog="examples:\n  ci/bench aggregation\n  ci/bench handover -n 3 --json >handover.json\n\n"
               "exit status: 0 every goal is met, 1 one is not, 2 the benchmark could not run",
        formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", choices=BENCHMARKS, nargs="?", metavar="NAME", help="which one; see --list")
    parser.add_argument("--list", action="store_true", help="the benchmarks, and no more")
    parser.add_argument("--json", action="store_true", help="figures as JSON on standard output; progress goes to standard error")
    parser.add_argument("-n", "--runs", type=int, metavar="RUNS", help="how often [default: the benchmark's own choice]")
    parser.add_argument("--out", type=Path, default=Path("out/bench"), help="for reports and logs [default: %(default)s]")
    parser.add_argument("--backend", choices=("auto", "netem", "wire"), default="auto")
    for program in PROGRAMS:
        parser.add_argument(f"--{program}", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args(words)
    if not arguments.list and not arguments.name:
        parser.error(f"which benchmark? One of {', '.join(BENCHMARKS)}")
    if arguments.runs is not None and arguments.runs < 1:
        parser.error("-n: at least one run")
    return arguments


def setting_of(arguments, benchmark):
    out = arguments.out.resolve()
    (out / "www").mkdir(parents=True, exist_ok=True)
    programs = {}
    for name in PROGRAMS:
        if file := getattr(arguments, name):
            programs[name] = file.resolve()
            if not programs[name].is_file():
                raise CommandError(f"{file} is missing; ci/bench builds all that is needed")
    return Setting(mpq=programs.pop("mpq"), wire=programs.pop("wire"), out=out, rest=programs,
                   backend=choose_backend(arguments.backend), runs=arguments.runs or benchmark.RUNS)


def main():
    arguments = parse_arguments()
    if arguments.list:
        for name, benchmark in BENCHMARKS.items():
            print(f"{name:<14}{benchmark.SUMMARY}")
        return 0
    if os.geteuid() != 0:
        print("bench: network namespaces need root; run ci/bench, or this under sudo", file=sys.stderr)
        return 2
    # A request to end takes the same way out as Ctrl-C, past every `finally`.
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.default_int_handler)
    benchmark = BENCHMARKS[arguments.name]
    try:
        setting = setting_of(arguments, benchmark)
        print(f"{arguments.name}: {benchmark.SUMMARY}\nLinux {platform.release()}, {os.cpu_count()} processors, load "
              f"{os.getloadavg()[0]:.1f}, {setting.backend} backend, {setting.runs} runs", file=sys.stderr)
        figures = benchmark.run(setting)
    except (LinkError, CommandError, ResultError, OSError) as error:
        print(f"bench: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("\nbench: interrupted", file=sys.stderr)
        return 130
    print(json.dumps([figure.as_json() for figure in figures], indent=2) if arguments.json else "\n" + table(figures))
    return 1 if any(figure.meets() is False for figure in figures) else 0


if __name__ == "__main__":
    sys.exit(main())
