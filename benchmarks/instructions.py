"""Counts instructions and calls by callgrind and prints where they go.

Run it by `ci/profile`, which builds what it needs. Needs root for nginx, but not for --list.
"""

import argparse
import json
import os
import shutil
import statistics
import sys
from dataclasses import dataclass
from pathlib import Path

# What the targets run with.
sys.path.append(str(Path(__file__).resolve().parents[1] / "mininet"))

RUNS = 3

# System calls by the names of the C library, and its allocator.
CALLS = {
    "sendmmsg, sendmsg": ("sendmmsg", "sendmsg"),
    "recvmmsg, recvmsg": ("recvmmsg", "recvmsg"),
    "epoll_wait": ("epoll_wait",),
    "open, fstat, close": ("open", "open64", "fstat", "fstat64", "fstatat", "close"),
    "pread": ("pread", "pread64"),
    "clock_gettime": ("clock_gettime",),
    "malloc and its kind": ("malloc", "calloc", "realloc", "posix_memalign"),
}


@dataclass(frozen=True)
class Programs:
    """What a target may run, and where files go."""
    out: Path
    nginx: Path | None
    native: Path | None
    h2load: Path | None
    patched: Path | None
    stock: Path | None


def parse_arguments(words=None):
    parser = argparse.ArgumentParser(
        prog="ci/profile", formatter_class=argparse.RawDescriptionHelpFormatter,
        description="Counts instructions by callgrind for a fixed amount of work, and prints which part of the program they "
                    "belong to: the median of some runs. Start, and what is done once, are subtracted. The kernel's are not "
                    "counted; how often it is called is.",
        epilog="examples:\n  ci/profile nginx nginx-stock        side by side\n  ci/profile nginx-requests --functions 40\n"
               "  ci/profile loopback -n 1 --json\n\n"
               "callgrind shows programs a processor without AVX-512, so that encryption takes more instructions\n"
               "than on one that has it. What differs from run to run is how many acknowledgments arrive.\n\n"
               "exit status: 0, or 2 if it could not run")
    parser.add_argument("names", nargs="*", metavar="NAME", help="which; see --list")
    parser.add_argument("--list", action="store_true", help="the names, and no more")
    parser.add_argument("-n", "--runs", type=int, default=RUNS, metavar="RUNS", help="how often each [default: %(default)s]")
    parser.add_argument("--functions", type=int, default=0, metavar="N", help="also the N functions with most instructions")
    parser.add_argument("--json", action="store_true", help="as JSON on standard output")
    parser.add_argument("--out", type=Path, default=Path("out/profile"), help="for files [default: %(default)s]")
    for program in ("nginx", "native", "h2load", "patched", "stock"):
        parser.add_argument(f"--{program}", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args(words)
    if not arguments.list and not arguments.names:
        parser.error("which? --list names them")
    if arguments.runs < 1:
        parser.error("-n: at least one run")
    return arguments


def calls_of(profile, names):
    # Symbols of the C library have their version behind an @.
    return sum(count for name, count in profile.calls.items() if name.partition("@")[0] in names)


def measure(target, programs, runs, divide, progress=lambda text: None):
    """A dict of what one target's runs showed, per unit."""
    totals, units, rooms, calls, profiles = [], [], [], [], []
    for i in range(runs):
        profile, count = target.run(programs)
        totals.append(profile.total / count)
        units.append(count)
        rooms.append({room: n / count for room, n in divide(profile, target.is_stock).items()})
        calls.append({label: calls_of(profile, names) / count for label, names in CALLS.items()})
        profiles.append(profile)
        progress(f"run {i + 1} of {runs}: {totals[-1]:.0f} instructions a {target.unit}")

    middle = totals.index(statistics.median_low(totals))
    functions = {}
    for place, n in profiles[middle].instructions.items():
        functions[place.function] = functions.get(place.function, 0) + n
    return {
        "unit": target.unit, "n": runs, "units": units[middle],
        "all": {"min": min(totals), "median": totals[middle], "max": max(totals)},
        # Those of the run in the middle, so that they add up.
        "rooms": rooms[middle], "calls": calls[middle],
        "functions": [{"function": name, "instructions": n / units[middle],
                       "calls": profiles[middle].calls[name] / units[middle]}
                      for name, n in sorted(functions.items(), key=lambda item: -item[1])],
    }


def table(results, rooms, functions=0):
    """Text with one column for each target."""
    rows = [["instructions", *results], ["for each", *(r["unit"] for r in results.values())],
            ["all", *(f"{r['all']['median']:.0f}" for r in results.values())],
            [f"  of n={next(iter(results.values()))['n']}, least and most",
             *(f"{r['all']['min']:.0f}-{r['all']['max']:.0f}" for r in results.values())]]
    for room in rooms:
        if any(r["rooms"].get(room, 0) >= 0.5 for r in results.values()):
            rows.append([room, *(f"{r['rooms'].get(room, 0):.0f}" for r in results.values())])
    rows.append(["calls", *("" for _ in results)])
    for label in CALLS:
        if any(r["calls"][label] >= 0.0005 for r in results.values()):
            rows.append([label, *(f"{r['calls'][label]:.3f}" for r in results.values())])
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    lines = ["  ".join([row[0].ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(row[1:], widths[1:]))]).rstrip()
             for row in rows]
    text = "\n".join([*lines[:2], "-" * max(map(len, lines)), *lines[2:]])
    for name, result in results.items() if functions else ():
        text += f"\n\n{name}: function, calls and instructions for each {result['unit']}"
        for one in result["functions"][:functions]:
            text += f"\n{one['instructions']:10.1f} {one['calls']:9.3f}  {one['function'][:100]}"
    return text


def main():
    arguments = parse_arguments()
    from mpqprofile.rooms import ROOMS, divide
    if not arguments.list:
        for tool in ("valgrind", "vgdb"):
            if not shutil.which(tool):
                print(f"profile: {tool} is missing: apt-get install valgrind libc6-dbg", file=sys.stderr)
                return 2
    try:
        from mpqprofile.targets import TARGETS
    except ModuleNotFoundError as error:
        print(f"profile: the Python module {error.name} is missing: ci/setup net", file=sys.stderr)
        return 2
    from mpqnet.process import CommandError

    if arguments.list:
        for name, target in TARGETS.items():
            print(f"{name:<24}{target.summary}")
        return 0
    if unknown := [name for name in arguments.names if name not in TARGETS]:
        print(f"profile: there is no {', '.join(unknown)}; --list names them", file=sys.stderr)
        return 2
    if os.geteuid() != 0 and any(name.startswith("nginx") for name in arguments.names):
        print("profile: network namespaces need root; run ci/profile, or this under sudo", file=sys.stderr)
        return 2

    out = arguments.out.resolve()
    out.mkdir(parents=True, exist_ok=True)
    programs = Programs(out, *(file and file.resolve() for file in (
        arguments.nginx, arguments.native, arguments.h2load, arguments.patched, arguments.stock)))
    results = {}
    try:
        for name in arguments.names:
            results[name] = measure(TARGETS[name], programs, arguments.runs, divide,
                                    lambda text, name=name: print(f"{name}: {text}", file=sys.stderr))
    except (CommandError, OSError) as error:
        print(f"profile: {error}", file=sys.stderr)
        return 2
    print(json.dumps(results, indent=2) if arguments.json else "\n" + table(results, ROOMS, arguments.functions))
    return 0


if __name__ == "__main__":
    sys.exit(main())
