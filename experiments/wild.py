"""Controllers on links as people have them: is the first as fast as the second, and does it hold the queue as short?

Each link of the study's scenes (qoe/scenes: LTE, 5G, Wi-Fi, satellites in low orbit, with the statistics' sources) alone, and
the two of a scene together, for a minute of an endless download.

    wild.py run     draws and simulates them, which may be interrupted and goes on, and judges
    wild.py judge   judges what there is
"""

import argparse
import json
import statistics
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import simulator
from qoe import scene as scenes

DEFAULT_CCS = ("sbd-bbr", "bbr2_gcongestion")
SECONDS = 60
# Of the first controller over the second, medians of all links and seeds.
LEAST_GOODPUT, MOST_DELAY = 0.95, 1.1


class ResultError(Exception):
    """What was simulated does not answer the question."""


@dataclass(frozen=True)
class Run:
    """`delay_ms` is the mean smoothed RTT of the paths, each by the share of the data that came over it."""
    goodput_mbps: float
    delay_ms: float


class Compared(NamedTuple):
    """A controller on a link, medians of the seeds: its goodput and delay over the base's, and themselves."""
    goodput: float
    delay: float
    goodput_mbps: float
    delay_ms: float

    @property
    def meets(self):
        return self.goodput >= LEAST_GOODPUT and self.delay <= MOST_DELAY


def ways(scene):
    """[(name, paths)] of a scene: each link by itself, and both."""
    first, second = scene.paths
    return [(first, [first]), (second, [second]), ("both", [first, second])]


def folder(arguments, scene, seed):
    return arguments.out / f"{scene.name}-{seed}"


def write(arguments, scene, seed):
    """Writes the scenario of a scene and a seed; returns its file."""
    lines = [f'question = "{scene.title}: what does a download have, and how long do its packets take?"',
             'expected = "see experiments/wild.py"', f'duration = "{SECONDS} s"', f"seeds = [{seed}]"]
    drawn = scene.drawn(seed)
    for name, link in scene.links.items():
        lines += ["", *scenes.link_lines(name, link, drawn[name])]
    lines += ["", "[[flow]]", 'name = "mp"', f"paths = {json.dumps(list(scene.paths))}", 'attempt_delay = "20 ms"', "ack_frequency = true",
              "", "[sweep]", f'"flow.mp.cc" = {json.dumps(arguments.ccs)}']
    for name, paths in ways(scene):
        lines += ["", "[[case]]", f'name = "{name}"', f'set = {{ "flow.mp.paths" = {json.dumps(paths)} }}']
    arguments.out.mkdir(parents=True, exist_ok=True)
    file = folder(arguments, scene, seed).with_suffix(".toml")
    file.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return file


def read(arguments, scene, seed):
    """{(way, controller): Run}"""
    file = folder(arguments, scene, seed) / "summary.json"
    if not file.is_file():
        raise ResultError(f"{file} is not there: `wild.py run` makes it")
    found = {}
    for run in json.loads(file.read_text(encoding="utf-8"))["runs"]:
        if run["status"] != "ok":
            raise ResultError(f"{run['folder']} failed: {run['reason']}")
        metrics, case = run["metrics"], run["set"]
        paths = case["flow.mp.paths"]
        way = paths[0] if len(paths) == 1 else "both"
        shares = {path: metrics.get(f"flow.mp.path.{path}.share", 0.0) for path in paths}
        delay = sum(share * metrics[f"flow.mp.path.{path}.mean_srtt_ms"] for path, share in shares.items() if share)
        found[way, case["flow.mp.cc"]] = Run(metrics["flow.mp.goodput_mbps"], delay / sum(shares.values()))
    return found


def compare(arguments):
    """[(scene, way, {controller: Compared})], with the second controller as base."""
    rows = []
    base = arguments.ccs[1]
    for scene in map(scenes.load, arguments.scenes):
        by_seed = [read(arguments, scene, seed) for seed in arguments.seeds]
        for way, _ in ways(scene):
            found = {}
            for cc in arguments.ccs:
                pairs = [(runs[way, cc], runs[way, base]) for runs in by_seed]
                found[cc] = Compared(*map(statistics.median, zip(*(
                    (ours.goodput_mbps / theirs.goodput_mbps, ours.delay_ms / theirs.delay_ms, ours.goodput_mbps, ours.delay_ms)
                    for ours, theirs in pairs))))
            rows.append((scene.name, way, found))
    return rows


def table(rows, ccs):
    """Markdown: goodput in Mbit/s and delay in ms of each, and the first's over the second's."""
    lines = [f"| scene | link | {' | '.join(f'`{cc}`: Mbit/s, ms' for cc in ccs)} | goodput, ratio | delay, ratio |",
             "| --- | --- |" + " --- |" * (len(ccs) + 2)]
    for scene, way, found in rows:
        cells = [f"{found[cc].goodput_mbps:.1f}, {found[cc].delay_ms:.0f}" for cc in ccs]
        first = found[ccs[0]]
        lines.append(f"| {scene} | {way} | {' | '.join(cells)} | {first.goodput:.2f} | {first.delay:.2f} |")
    return "\n".join(lines)


def judge(arguments):
    """Prints and writes the table; returns whether the medians meet the goals."""
    rows = compare(arguments)
    first = arguments.ccs[0]
    all_of_first = [found[first] for _, _, found in rows]
    goodput, delay = (statistics.median(of_all) for of_all in list(zip(*all_of_first))[:2])
    missed = [f"{scene} {way}" for scene, way, found in rows if not found[first].meets]
    result = {"controllers": arguments.ccs, "seeds": arguments.seeds, "goodput": goodput, "delay": delay, "missed": missed,
              "rows": [{"scene": scene, "link": way, "controllers": {cc: one._asdict() for cc, one in found.items()}}
                       for scene, way, found in rows]}
    (arguments.out / "summary.json").write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")
    print(json.dumps(result, indent=2) if arguments.json else table(rows, arguments.ccs))
    if not arguments.json:
        print(f"\n{first} over {arguments.ccs[1]}, medians of {len(rows)}: goodput {goodput:.2f} (goal {LEAST_GOODPUT}), "
              f"delay {delay:.2f} (goal {MOST_DELAY}); outside of either: {', '.join(missed) or 'none'}")
    return goodput >= LEAST_GOODPUT and delay <= MOST_DELAY


def parse_arguments(words=None):
    parser = argparse.ArgumentParser(
        prog="wild.py", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="example:\n  python3 experiments/wild.py run --mpq target/release/mpq\n\n"
               "exit status: 0 the medians meet the goals; 1 they do not; 2 it could not run; 130 interrupted")
    parser.add_argument("verb", choices=("run", "judge"))
    parser.add_argument("--seeds", default="1,2,3,4,5", metavar="N,N...", help="[default: %(default)s]")
    parser.add_argument("--scenes", default=",".join(scenes.names()), metavar="NAME,NAME...", help="[default: all]")
    parser.add_argument("--cc", default=",".join(DEFAULT_CCS), metavar="NAME,NAME...",
                        help="controllers, with ; for a comma in one: the first is compared with the second [default: %(default)s]")
    simulator.add_arguments(parser, "out/wild")
    parser.add_argument("--json", action="store_true", help="JSON in place of the table")
    arguments = parser.parse_args(words)
    try:
        arguments.seeds = [int(word) for word in arguments.seeds.split(",")]
    except ValueError:
        parser.error("--seeds: whole numbers with commas")
    arguments.scenes = arguments.scenes.split(",")
    if unknown := set(arguments.scenes) - set(scenes.names()):
        parser.error(f"--scenes: there is no {', '.join(sorted(unknown))}; there are {', '.join(scenes.names())}")
    arguments.ccs = [cc.replace(";", ",") for cc in arguments.cc.split(",")]
    if len(arguments.ccs) < 2:
        parser.error("--cc: at least two")
    simulator.check(parser, arguments)
    return arguments


def work(arguments):
    if arguments.verb == "run":
        files = [write(arguments, scene, seed) for scene in map(scenes.load, arguments.scenes) for seed in arguments.seeds]
        if not simulator.run_all(arguments, files):
            return 130
    return 0 if judge(arguments) else 1


def main(words=None):
    arguments = parse_arguments(words)
    return simulator.guarded("wild", (ResultError,), lambda: work(arguments))


if __name__ == "__main__":
    sys.exit(main())
