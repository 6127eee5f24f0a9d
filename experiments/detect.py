"""Do two paths share a bottleneck, and does the sender say so? On topologies that are drawn by a seed.

    detect.py run     draws and simulates them, which may be interrupted and goes on, and judges
    detect.py judge   judges what there is

With `--published`, so are published ways to find out: they watch flows that do not listen to them, for longer, and are
judged at 10 s and at 30 s.
"""

import argparse
import json
import sys
from pathlib import Path

import simulator
from bottlenecks import published, topologies, verdicts

DEFAULT_CCS = ("sbd-bbr", "sbd-cubic", "dc-ledbat")


def write(arguments, ccs):
    """Writes the scenarios of each topology; returns their files."""
    arguments.out.mkdir(parents=True, exist_ok=True)
    files = []
    senders = list(dict.fromkeys(double.over for double in arguments.published))
    for number in range(arguments.topologies):
        topology = topologies.draw(arguments.seed, number)
        texts = {"t": topologies.scenario(topology, ccs)}
        if senders:
            delays = [f'delays = "{published.DELAYS_APART}"']
            texts["p"] = topologies.scenario(topology, senders, published.RUN_S, delays)
        for kind, text in texts.items():
            file = arguments.out / f"{kind}{number:03}.toml"
            file.write_text(text, encoding="utf-8")
            files.append(file)
    return files


def judge_published(arguments):
    """What the doubles' verdicts come to, by the time at which they are judged."""
    times = (verdicts.JUDGED_S, published.LATE_S)
    found = {at_s: {double.label: [] for double in arguments.published} for at_s in times}
    for number in range(arguments.topologies):
        topology = topologies.draw(arguments.seed, number)
        for both in published.read(arguments.out / f"p{number:03}", topology, arguments.published):
            for at_s, verdict in zip(found, both, strict=True):
                found[at_s][verdict.cc].append(verdict)
                say(arguments, f"p{number:03} at {at_s} s", verdict)
    return {at_s: {label: verdicts.judge(said) for label, said in found[at_s].items()} for at_s in times}


def say(arguments, what, verdict):
    """Names what was misjudged, with `--verbose`."""
    if arguments.verbose and verdict.joined != verdict.shared:
        print(f"{what} {verdict}", file=sys.stderr)


def judge(arguments, ccs):
    """Prints and writes what the verdicts come to; returns whether the first controller meets the goals."""
    by_cc = {cc: [] for cc in ccs}
    for number in range(arguments.topologies):
        topology = topologies.draw(arguments.seed, number)
        for verdict in verdicts.read(arguments.out / f"t{number:03}", topology):
            if verdict.cc in by_cc:
                by_cc[verdict.cc].append(verdict)
                say(arguments, f"t{number:03}", verdict)
    judged = {cc: verdicts.judge(of_cc) for cc, of_cc in by_cc.items()}
    summary, tables = {"seed": arguments.seed, "controllers": judged}, [verdicts.table(judged)]
    drawn, until_s = judged, verdicts.JUDGED_S
    if arguments.published:
        doubles = summary["published"] = judge_published(arguments)
        tables += [verdicts.table(rows, at_s) for at_s, rows in doubles.items()]
        drawn, until_s = judged | doubles[published.LATE_S], published.LATE_S
    text = json.dumps(summary, indent=2) + "\n"
    (arguments.out / "summary.json").write_text(text, encoding="utf-8")
    print(text if arguments.json else "\n\n".join(tables))
    if arguments.figure:
        count = next(iter(judged.values()))["shared"]
        words = f"Shared bottlenecks that have been found, of {count}, over the time since the flow began"
        watched_s = dict.fromkeys(judged, topologies.RUN_S)
        arguments.figure.write_text(verdicts.figure(drawn, words, until_s, watched_s), encoding="utf-8")
    return verdicts.meets(judged[ccs[0]])


def parse_arguments(words=None):
    parser = argparse.ArgumentParser(
        prog="detect.py", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="examples:\n"
               "  python3 experiments/detect.py run --seed 2 --mpq target/release/mpq --figure docs/detection.svg\n"
               "  python3 experiments/detect.py run --seed 2 --mpq target/release/mpq --published rfc8382,c-mpbbr\n\n"
               "exit status: 0 the first controller meets the goals: at 10 s less than 3 % of the disjoint ones joined and "
               "less than 5 % of the shared ones not; 1 it does not; 2 it could not run; 130 interrupted")
    parser.add_argument("verb", choices=("run", "judge"))
    parser.add_argument("--topologies", type=int, default=240, metavar="N", help="[default: %(default)s]")
    parser.add_argument("--seed", type=int, default=1, help="[default: %(default)s]")
    parser.add_argument("--cc", default=",".join(DEFAULT_CCS), metavar="NAME,NAME...",
                        help="controllers that say `set_paths`, with ; for a comma in one [default: %(default)s]")
    parser.add_argument("--published", default="", metavar="NAME,NAME...",
                        help=f"published ways that are judged as well: {', '.join(published.NAMES)} [default: none]")
    simulator.add_arguments(parser, "out/detect")
    parser.add_argument("--figure", type=Path, help="draw it there, as SVG")
    parser.add_argument("--json", action="store_true", help="JSON in place of the table")
    parser.add_argument("--verbose", action="store_true", help="name the topologies that were misjudged")
    arguments = parser.parse_args(words)
    if arguments.topologies < 16:
        parser.error("--topologies: at least 16, so that each kind is there")
    names = [name for name in arguments.published.split(",") if name]
    if unknown := set(names) - set(published.NAMES):
        parser.error(f"--published {', '.join(sorted(unknown))}: one of {', '.join(published.NAMES)}")
    arguments.published = [double for double in published.DOUBLES if double.name in names]
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
