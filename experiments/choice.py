"""Every controller on two questions: how fast is it over two links of its own that lose packets, and what does it take
where its paths meet another flow in a bottleneck?

    choice.py run     simulates scenarios/choice with each, which may be interrupted and goes on, and judges
    choice.py judge   judges what there is
"""

import argparse
import json
import statistics
import subprocess
import sys
from dataclasses import asdict, dataclass
from pathlib import Path

import scatter
import simulator

HERE = Path(__file__).resolve().parent
SCENARIOS = HERE / "scenarios/choice"
# Of scenarios/choice/apart.toml, where it is derived.
LIMIT_S = 3.55
RIVALS = {"reno": "Reno", "cubic": "CUBIC"}


class ResultError(Exception):
    """What was simulated does not answer the questions."""


@dataclass(frozen=True)
class Answer:
    """Of one controller, medians over the seeds."""
    cc: str
    scope: str  # "each-path", "coupled" or "quiche", as `mpq cc --json` has it
    seeds: int
    seconds: float  # of 20 MiB over links that lose 1 %
    shares: dict[str, float]  # by rival: of what both have in the common bottleneck


def controllers(mpq):
    """[(name, scope)] of all that the program has."""
    done = subprocess.run([str(mpq), "cc", "--json"], capture_output=True, text=True, check=True)
    return [(entry["name"], entry["scope"]) for entry in json.loads(done.stdout)]


def folder(arguments, question, cc):
    return arguments.out / f"{question}-{cc.replace(':', '-').replace(',', '-')}"


def simulate(arguments, ccs):
    """Asks both questions of each. Returns False when it was to stop."""
    todo = [(question, cc) for cc, _ in ccs for question in ("apart", "together")]
    steps = simulator.Progress(len(todo))
    for question, cc in todo:
        out = folder(arguments, question, cc)
        there = (out / "summary.json").is_file()
        more = ["--set", f"flow.mp.cc={cc}", *(["--seeds", arguments.seeds] if arguments.seeds else [])]
        if not simulator.run(arguments, SCENARIOS / f"{question}.toml", out=out, more=more):
            return False
        steps.step(f"{cc}, {question}", new=not there)
    return True


def answer(arguments, cc, scope):
    """What the results of a controller say."""
    def runs(question, case=""):
        file = folder(arguments, question, cc) / "summary.json"
        if not file.is_file():
            raise ResultError(f"{file} is not there: `choice.py run` makes it")
        found = [run["metrics"] for run in json.loads(file.read_text(encoding="utf-8"))["runs"] if run["case"].startswith(case)]
        if not found:
            raise ResultError(f"{file} has no runs of {case or 'the scenario'}")
        return found

    def share(metrics):
        ours, rivals = (metrics[f"window.steady.flow.{flow}.goodput_mbps"] for flow in ("mp", "rival"))
        return ours / (ours + rivals)

    apart = [metrics.get("flow.mp.completion_s") for metrics in runs("apart")]
    if None in apart:
        raise ResultError(f"{cc} did not carry 20 MiB within the duration of {SCENARIOS / 'apart.toml'}")
    return Answer(cc, scope, len(apart), statistics.median(apart),
                  {rival: statistics.median(map(share, runs("together", f"case={rival},"))) for rival in RIVALS})


def table(answers):
    """The answers in Markdown, the fastest first."""
    lines = ["| controller | paths | 20 MiB, 1 % lost, s | to the limit | share beside Reno | beside CUBIC |", "| --- " * 6 + "|"]
    for one in sorted(answers, key=lambda one: one.seconds):
        lines.append(f"| `{one.cc}` | {one.scope} | {one.seconds:.2f} | {one.seconds / LIMIT_S:.2f} "
                     f"| {one.shares['reno']:.2f} | {one.shares['cubic']:.2f} |")
    return "\n".join(lines)


def draw(answers):
    """The picture: speed up, share to the right; a line from the share beside one rival to that beside the other."""
    dots = [scatter.Dot(one.cc, one.scope, tuple(one.shares.values()), LIMIT_S / one.seconds) for one in answers]
    return scatter.svg(dots, scatter.Words(
        title="Speed over two links of their own that lose 1 %, and the share that two paths take of a common bottleneck, of "
              "each controller",
        up="speed where both links lose 1 %, of what they carry",
        right="share of a common bottleneck that two paths take: beside one Reno, and beside one CUBIC",
        kinds={"coupled": "coupled over the paths", "each-path": "each path by itself", "quiche": "quiche's own"},
        maker="experiments/choice.py"), numbers={one.cc: asdict(one) for one in answers})


def judge(arguments, ccs):
    answers = [answer(arguments, *cc) for cc in ccs]
    print(json.dumps([asdict(one) for one in answers], indent=2) if arguments.json else table(answers))
    if arguments.picture:
        arguments.picture.write_text(draw(answers), encoding="utf-8")


def parse_arguments(words=None):
    parser = argparse.ArgumentParser(
        prog="choice.py", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="example:\n  python3 experiments/choice.py run --mpq target/release/mpq --picture docs/choice.svg\n\n"
               "exit status: 0 judged; 2 it could not run; 130 interrupted")
    parser.add_argument("verb", choices=("run", "judge"))
    parser.add_argument("--cc", metavar="NAME,NAME...", help="these only, with ; for a comma in one [default: all]")
    parser.add_argument("--seeds", metavar="N,N...", help="[default: those of the scenarios]")
    simulator.add_arguments(parser, "out/choice")
    parser.add_argument("--picture", type=Path, metavar="FILE.svg", help="draw it there")
    parser.add_argument("--json", action="store_true", help="JSON in place of the table")
    arguments = parser.parse_args(words)
    # `judge` asks it which controllers there are.
    simulator.check(parser, arguments, always=True)
    return arguments


def work(arguments):
    ccs = controllers(arguments.mpq)
    if arguments.cc:
        wanted, scopes = [cc.replace(";", ",") for cc in arguments.cc.split(",")], dict(ccs)
        unknown = [cc for cc in wanted if cc.split(":")[0] not in scopes]
        if unknown:
            raise ResultError(f"no controller is called {', '.join(unknown)}: `mpq cc` lists them")
        ccs = [(cc, scopes[cc.split(":")[0]]) for cc in wanted]
    if arguments.verb == "run" and not simulate(arguments, ccs):
        return 130
    judge(arguments, ccs)
    return 0


def main(words=None):
    arguments = parse_arguments(words)
    return simulator.guarded("choice", (ResultError, subprocess.CalledProcessError), lambda: work(arguments))


if __name__ == "__main__":
    sys.exit(main())
