"""Beside the kernel's MPTCP and noq: choice.py's two questions of those that cannot run in virtual time, on emulated
links in real time.

    rivals.py run     asks both questions of each, which may be interrupted and goes on, and prints the table
    rivals.py table   prints the table of what there is, and writes sessions.csv

Who is asked is called KIND:CC, with the congestion controller of the sender:
    mpq:CC     `mpq serve` and `mpq get`, HTTP/3 over multipath QUIC
    mptcp:CC   the kernel's MPTCP, sockets without TLS; CC is each subflow's by itself: the kernel has no coupled one
    noq:CC     noq, another multipath QUIC (tools/interop's noq-bulk), with its own defaults

apart: how long take 20 MiB over two links of their own, 30 Mbit/s with 20 ms and 20 Mbit/s with 50 ms, queues of
1 BDP, that lose 0, 0.1, 1 or 2 % of the packets, each way? Seconds of the client's own clock, from before the handshake
to the last byte (MPTCP's is a round trip shorter, as it has no TLS); not there after 300 s is a failure. Medians of
five seeds, which draw the losses. A path carried data if the client received 2 % of all or more over its interface.

together: which share of a bottleneck (20 Mbit/s, 42 ms of which 2 ms are before it, a queue of 0.5, 1 or 2 BDP, nothing
lost otherwise) do two paths through it take beside one TCP flow of the kernel's, Reno or CUBIC? Bytes of frames that
the client receives over the paths' interfaces from 10 s to 40 s, over those and the TCP flow's; both flows are endless,
and begin within half a second, which the seed draws. Medians of three seeds. A half is fair to that flow; two thirds
are two flows'.

A session in which one of a hundred timers was more than 10 ms late says something about the machine, and does not
count; the same command runs it again. `idle` is what was left of all processors. Needs root.
"""

import argparse
import csv
import json
import os
import random
import signal
import statistics
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import children
import simulator

# What emulates is Mininet's.
sys.path.append(str(Path(__file__).resolve().parents[1] / "mininet"))

EXAMPLES = """\
examples:
  sudo .venv/bin/python experiments/rivals.py run
  sudo .venv/bin/python experiments/rivals.py run --question apart --who mpq:sbd-bbr --who noq:cubic --seeds 1
  .venv/bin/python experiments/rivals.py table --json

exit status: 0 done; 2 it could not run; 130 interrupted: the same command goes on"""
ROOT = Path(__file__).resolve().parents[1]
SCENARIOS = ROOT / "experiments/scenarios/choice"
WHO = ("mpq:sbd-bbr", "mptcp:bbr", "mptcp:cubic", "noq:cubic", "noq:bbr3", "mpq:olia", "mpq:uncoupled-cubic",
       "mpq:cubic", "mpq:bbr2_gcongestion")
TITLES = {"apart": "20 MiB over links of their own, s", "together": "share of a common bottleneck beside one flow"}
SEEDS = {"apart": (1, 2, 3, 4, 5), "together": (1, 2, 3)}
LOSSES = ("0", "0.1", "1", "2")  # %
QUEUES = ("0.5", "1", "2")  # BDP
RIVALS = {"reno": "Reno", "cubic": "CUBIC"}
PROGRAMS = {"mpq": "mpq", "wire": "mpq-wire", "noq": "noq-bulk"}

BYTES = 20 << 20
ENDLESS = 1 << 32
LIMIT_S = 300
WINDOW_S = (10, 40)
SPREAD_S = 0.5
PORT, RIVAL_PORT = 4433, 4434
# Of all that came; a path's own acknowledgments and probes are less.
CARRIED = 0.02


class ResultError(Exception):
    """What there is does not make a table."""


@dataclass(frozen=True)
class Session:
    """One of them. `condition` is the loss in % (apart), or the queue in BDP and the rival, "1-reno" (together)."""
    question: str
    condition: str
    who: str
    seed: int

    @property
    def folder(self):
        return f"{self.question}-{self.condition}/{self.who.replace(':', '-')}-{self.seed}"


def conditions(question):
    return LOSSES if question == "apart" else tuple(f"{queue}-{rival}" for rival in RIVALS for queue in QUEUES)


def sessions(arguments):
    """All that are asked for, seed by seed, and side by side those that are compared."""
    questions = arguments.questions
    seeds = {question: arguments.seeds or SEEDS[question] for question in questions}
    return [Session(question, condition, who, seed) for seed in sorted(set().union(*seeds.values()))
            for question in questions if seed in seeds[question]
            for condition in conditions(question) for who in arguments.who]


def read(out, session):
    """What a session left; None if it has not been run."""
    file = out / session.folder / "session.json"
    return json.loads(file.read_text(encoding="utf-8")) if file.is_file() else None


def plan(session):
    """Its links and paths, as mpqnet.experiment has a run."""
    from mpqnet import units
    from mpqnet.experiment import Run
    from mpqnet.scenario import Link

    def link(name, rate, rtt_s, queue, loss=0.0):
        return Link(name, rate, rtt_s, units.queue(queue, rate, rtt_s) if rate else None, loss)

    if session.question == "apart":
        loss = float(session.condition) / 100
        links = (link("near", 30_000_000, 0.02, "1bdp", loss), link("far", 20_000_000, 0.05, "1bdp", loss))
        paths, duration_s = {"near": ("near",), "far": ("far",)}, LIMIT_S
    else:
        # Each path has an interface of its own, whose counters say what it took.
        links = (*(link(name, None, 0.002, None) for name in ("left", "right", "side")),
                 link("core", 20_000_000, 0.04, f"{session.condition.split('-')[0]}bdp"))
        paths, duration_s = {"a": ("left", "core"), "b": ("right", "core"), "c": ("side", "core")}, WINDOW_S[1]
    return Run(session.condition, session.seed, duration_s, links, paths, (), (), {})


def _processor():
    """Time that all processors were idle, and all time, in ticks."""
    ticks = list(map(int, Path("/proc/stat").read_text(encoding="ascii").splitlines()[0].split()[1:9]))
    return ticks[3] + ticks[4], sum(ticks)


def measure(arguments, session, out):
    """Runs a session into the folder `out`; returns what is to be kept of it."""
    # Only here: the table needs no Mininet.
    from mpqnet.contestant import Contestant, Programs, received
    from mpqnet.network import Network
    from mpqnet.process import CommandError
    from qoe.emulated import Lateness

    programs = Programs(arguments.mpq, arguments.noq)
    found = {"question": session.question, "condition": session.condition, "who": session.who, "seed": session.seed}
    spec = plan(session)
    with Network(spec, "wire", wire=arguments.wire, report=out) as net:
        ours = [path for path in spec.paths if path != "c"]

        def counters():
            return {path: received(net, path) for path in spec.paths}

        idle, ticks = _processor()
        with Lateness() as lateness, Contestant(net, session.who, ours, PORT, programs, out, "ours") as one:
            try:
                if session.question == "apart":
                    before = counters()
                    one.start(BYTES)
                    found["seconds"] = one.seconds(LIMIT_S)
                    after = counters()
                else:
                    rival = f"tcp:{session.condition.split('-')[1]}"
                    with Contestant(net, rival, ["c"], RIVAL_PORT, programs, out, "rival") as other:
                        before, after = compete(one, other, session, counters)
                found["received"] = {path: after[path] - before[path] for path in spec.paths}
            except CommandError as error:
                found["failed"] = str(error)
        idle, ticks = (now - then for now, then in zip(_processor(), (idle, ticks), strict=True))
    return found | {"late_p99_ms": lateness.p99_ms, "idle": round(idle / max(ticks, 1), 3),
                    "load": round(os.getloadavg()[0], 2)}


def compete(one, other, session, counters):
    """Starts both, and returns the counters at the begin and the end of the window."""
    draws = random.Random(f"{session.seed} start")
    agenda = sorted([(draws.random() * SPREAD_S, 0, lambda: one.start(ENDLESS)),
                     (draws.random() * SPREAD_S, 1, lambda: other.start(ENDLESS)),
                     *((at, 2, counters) for at in WINDOW_S)])
    began, said = time.monotonic(), []
    for at, _, work in agenda:
        time.sleep(max(0.0, began + at - time.monotonic()))
        said.append(work())
    one.check()
    other.check()
    return said[2:]


def is_late(data):
    from qoe.emulated import is_late
    return is_late(data)


def session(arguments):
    """Runs the one session that is named."""
    [question], [who], [seed] = arguments.questions, arguments.who, arguments.seeds
    one = Session(question, arguments.condition, who, seed)
    out = arguments.out / one.folder
    out.mkdir(parents=True, exist_ok=True)
    data = measure(arguments, one, out)
    # Whole or not there: it says that the session is done.
    (out / "part").write_text(json.dumps(data) + "\n", encoding="utf-8")
    (out / "part").rename(out / "session.json")
    return 0


def run(arguments):
    """Runs what has not been run."""
    from mpqnet import mptcp
    kernels = {who.partition(":")[2] for who in arguments.who if who.startswith("mptcp:")} | set(RIVALS)
    has = Path("/proc/sys/net/ipv4/tcp_available_congestion_control").read_text(encoding="ascii").split()
    if missing := kernels - set(has):
        raise ResultError(f"the kernel has no {', '.join(sorted(missing))}, but {', '.join(has)}; --who names who is "
                          "asked")
    if any(who.startswith("mptcp:") for who in arguments.who) and (why := mptcp.missing()):
        raise ResultError(f"{why}; --who names who is asked")
    todo = [one for one in sessions(arguments)
            if (data := read(arguments.out, one)) is None or is_late(data)]

    def words(one):
        return ["session", "--question", one.question, "--condition", one.condition, "--who", one.who, "--seeds", one.seed,
                "--out", arguments.out, *(word for name in PROGRAMS for word in (f"--{name}", getattr(arguments, name)))]

    children.run_all(arguments.jobs, todo, words, lambda one: one.folder, ResultError)
    return table(arguments)


def value_of(data):
    """Seconds (apart), or the share (together)."""
    if data["question"] == "apart":
        return data["seconds"]
    ours = data["received"]["a"] + data["received"]["b"]
    return ours / (ours + data["received"]["c"])


def used(data):
    """How many paths carried data."""
    mine = [count for path, count in data["received"].items() if path != "c"]
    return sum(count >= CARRIED * sum(mine) for count in mine)


def cells(arguments):
    """{(question, who, condition): figures} of what has been run, and what is to be said about it."""
    found, notes = {}, []
    for one in sessions(arguments):
        if (data := read(arguments.out, one)) is None:
            continue
        cell = found.setdefault((one.question, one.who, one.condition), {"values": [], "failed": 0, "idle": []})
        if is_late(data):
            notes.append(f"{one.folder}: does not count, as timers were {data['late_p99_ms']:.0f} ms late; "
                         "`rivals.py run` runs it again")
        elif "failed" in data:
            cell["failed"] += 1
            notes.append(f"{one.folder}: failed: {data['failed']}")
        else:
            cell["values"].append(value_of(data))
            cell["idle"].append(data["idle"])
            if used(data) < 2:
                notes.append(f"{one.folder}: only one path carried data: {data['received']}")
    for cell in found.values():
        values = cell["values"]
        cell["n"] = len(values)
        if values:
            cell |= {"median": statistics.median(values), "least": min(values), "most": max(values)}
    return found, notes


def _text(cell):
    if cell is None or not cell["n"]:
        return f"failed {cell['failed']}" if cell and cell["failed"] else ""
    span = f"{cell['median']:.2f} ({cell['least']:.2f} to {cell['most']:.2f})"
    return span + (f", failed {cell['failed']}" if cell["failed"] else "")


def markdown(found, question, who):
    """The table of a question: medians, and from which to which."""
    if question == "apart":
        heads = [f"{loss} % lost" for loss in LOSSES]
    else:
        heads = [f"{words}, {queue} BDP" for words in RIVALS.values() for queue in QUEUES]
    lines = ["| " + " | ".join(["who", *heads, "n"]) + " |", "| --- " * (len(heads) + 2) + "|"]
    for name in who:
        row = [found.get((question, name, condition)) for condition in conditions(question)]
        if any(row):
            counts = sorted({cell["n"] for cell in row if cell})
            n = f"{counts[0]}" if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
            lines.append("| " + " | ".join([f"`{name}`", *map(_text, row), n]) + " |")
    return "\n".join(lines)


def table(arguments):
    found, notes = cells(arguments)
    if not found:
        raise ResultError(f"{arguments.out}: nothing has been run; `rivals.py run` does")
    with open(arguments.out / "sessions.csv", "w", newline="", encoding="utf-8") as file:
        rows = csv.writer(file, lineterminator="\n")
        machine = ("late_p99_ms", "idle", "load")
        rows.writerow(("question", "condition", "who", "seed", "value", "received", "failed", *machine))
        for one in sessions(arguments):
            if data := read(arguments.out, one):
                rows.writerow((one.question, one.condition, one.who, one.seed,
                               "" if "failed" in data else f"{value_of(data):.6f}",
                               " ".join(f"{path}={count}" for path, count in data.get("received", {}).items()),
                               data.get("failed", ""), *(data[name] for name in machine)))
    if arguments.json:
        print(json.dumps([{"question": question, "who": who, "condition": condition, **cell}
                          for (question, who, condition), cell in found.items()], indent=2))
        return 0
    for question in arguments.questions:
        print(f"{TITLES[question]}\n\n{markdown(found, question, arguments.who)}\n")
    idle = [value for cell in found.values() for value in cell["idle"]]
    if idle:
        print(f"idle: {statistics.median(idle):.0%} of all processors in the median session, {min(idle):.0%} in the "
              "busiest")
    print("\n".join(notes))
    print(arguments.out / "sessions.csv")
    return 0


def parse_arguments(words=None):
    parser = argparse.ArgumentParser(prog="rivals.py", description=__doc__, epilog=EXAMPLES,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("verb", choices=("run", "table", "session"), help="session is one of them, for run itself")
    parser.add_argument("--question", dest="questions", action="append", choices=tuple(SEEDS),
                        help="may be repeated [default: both]")
    parser.add_argument("--who", action="append", type=_who, metavar="KIND:CC",
                        help=f"may be repeated [default: {', '.join(WHO)}]")
    parser.add_argument("--seeds", type=lambda text: tuple(map(int, text.split(","))), metavar="N,N...",
                        help="[default: 1 to 5 apart, 1 to 3 together]")
    parser.add_argument("--condition", help=argparse.SUPPRESS)
    parser.add_argument("--jobs", type=int, default=1,
                        help="sessions at a time, each on links of its own [default: %(default)s]")
    parser.add_argument("--out", type=Path, default=ROOT / "out/rivals", help="[default: out/rivals]")
    parser.add_argument("--json", action="store_true", help="JSON in place of the tables")
    target = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "release"
    for name, file in PROGRAMS.items():
        default = target / file
        parser.add_argument(f"--{name}", type=Path, default=default, metavar="PROGRAM",
                            help=f"[default: {os.path.relpath(default)}]")
    arguments = parser.parse_args(words)
    arguments.questions = arguments.questions or list(SEEDS)
    arguments.who = arguments.who or list(WHO)
    arguments.out = arguments.out.resolve()
    if arguments.verb != "table":
        for name in PROGRAMS:
            # Children run in the directory of their node's shell.
            setattr(arguments, name, getattr(arguments, name).resolve())
            if not getattr(arguments, name).is_file():
                parser.error(f"--{name}: {getattr(arguments, name)} is missing; `cargo build --release -p mpq "
                             "-p mpq-wire -p mpq-interop` makes all three")
        if os.geteuid() != 0:
            parser.error("network namespaces need root: sudo")
    return arguments


def _who(text):
    kind, _, cc = text.partition(":")
    if kind not in ("mpq", "mptcp", "noq") or not cc:
        raise argparse.ArgumentTypeError(f"{text}: mpq, mptcp or noq, a colon and a congestion controller")
    return text


def main(words=None):
    arguments = parse_arguments(words)
    if arguments.verb != "table":
        # A request to end takes the same way out as Ctrl-C.
        signal.signal(signal.SIGTERM, signal.default_int_handler)
    from mpqnet.link import LinkError
    from mpqnet.process import CommandError
    work = {"run": run, "table": table, "session": session}[arguments.verb]
    return simulator.guarded("rivals", (ResultError, LinkError, CommandError), lambda: work(arguments))


if __name__ == "__main__":
    sys.exit(main())
