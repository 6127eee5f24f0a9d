"""Viewers over emulated links in real time, by HTTP/3 over both, HTTP/3, TCP and MPTCP: who waits how long?

Real nginx and real players, as processes. The same scenes, seeds and viewers as in virtual time (viewers.py), which is run
beside it for both kinds of HTTP/3, so that one sees how far they agree. Needs root.
"""

import argparse
import csv
import dataclasses
import json
import os
import signal
import sys
from pathlib import Path

import numpy

import children
import simulator
from qoe import links, scene, sessions, study

# What emulates is Mininet's.
sys.path.append(str(Path(__file__).resolve().parents[1] / "mininet"))

EXAMPLES = """\
examples:
  sudo .venv/bin/python experiments/emulated.py run
  sudo .venv/bin/python experiments/emulated.py run --scene train --seeds 1,2 --transport tcp --transport mptcp
  .venv/bin/python experiments/emulated.py table --out out/qoe/emulated
  ci/qoe --also out/qoe/emulated/also.csv

exit status: 0 done; 2 it could not run; 130 interrupted: the same command goes on"""
ROOT = Path(__file__).resolve().parents[1]
TRANSPORTS = ("h3-multipath", "h3", "tcp", "mptcp")
# Of those that Mininet's links can express: a steady one, and three with silences.
SCENES = ("bus", "dsl", "train", "walk-out")
# What in virtual time is the same.
SIMULATED = {"h3-multipath": "ecf", "h3": "first"}


def parse_arguments(words=None):
    parser = argparse.ArgumentParser(prog="emulated.py", description=__doc__, epilog=EXAMPLES,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("verb", choices=("run", "table", "session"), help="session is one of them, for run itself")
    parser.add_argument("--scene", dest="scenes", action="append", choices=scene.names(), metavar="NAME",
                        help=f"may be repeated [default: {', '.join(SCENES)}]")
    parser.add_argument("--seeds", type=lambda text: tuple(map(int, text.split(","))), default=(1, 2, 3, 4, 5), metavar="N,N...",
                        help="[default: 1 to 5]")
    parser.add_argument("--viewer", choices=("clip", "film", "film-rate", "live", "low-latency"), default="clip",
                        help="[default: %(default)s]")
    parser.add_argument("--transport", dest="transports", action="append", choices=TRANSPORTS, help="may be repeated [default: all]")
    parser.add_argument("--all-acks", action="store_true",
                        help="nginx with quic_ack_frequency off, to compare, with another --out")
    parser.add_argument("--jobs", type=int, default=4, help="sessions at a time, each on links of its own [default: %(default)s]")
    parser.add_argument("--out", type=Path, default=ROOT / "out/qoe/emulated", help="[default: out/qoe/emulated]")
    target = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "release"
    for name, file in (("mpq", target / "mpq"), ("wire", target / "mpq-wire"),
                       ("nginx", ROOT / "out/nginx/install/sbin/nginx")):
        parser.add_argument(f"--{name}", type=Path, default=file, metavar="PROGRAM", help=f"[default: {os.path.relpath(file)}]")
    arguments = parser.parse_args(words)
    arguments.out = arguments.out.resolve()
    arguments.scenes = arguments.scenes or list(SCENES)
    arguments.transports = arguments.transports or list(TRANSPORTS)
    if arguments.verb != "table":
        for name in ("mpq", "wire", "nginx"):
            if not getattr(arguments, name).is_file():
                parser.error(f"--{name}: {getattr(arguments, name)} is missing; ci/qoe --real makes all that is needed")
        if os.geteuid() != 0:
            parser.error("network namespaces need root: sudo, or ci/qoe --real")
    return arguments


def place(arguments, name, seed, transport):
    """The folder of a session."""
    return arguments.out / f"{name}-{arguments.viewer}-{seed}" / transport


def read(arguments, name, seed, transport):
    """What a session left; None if it has not been played."""
    file = place(arguments, name, seed, transport) / "session.json"
    return json.loads(file.read_text(encoding="utf-8")) if file.is_file() else None


def session(arguments):
    """Plays the one session that is named."""
    # Only here: the table needs no Mininet.
    from qoe import emulated
    plan = study.load(True)
    [name], [seed], [transport] = arguments.scenes, arguments.seeds, arguments.transports
    out = place(arguments, name, seed, transport)
    programs = {name: getattr(arguments, name).resolve() for name in ("mpq", "wire", "nginx")}
    data = emulated.play(scene.load(name), seed, plan.viewer(arguments.viewer), transport, plan.content, programs,
                         arguments.out / f"www-{arguments.viewer}", out, not arguments.all_acks)
    # Whole or not there: it says that the session is done.
    (out / "part").write_text(json.dumps(data), encoding="utf-8")
    (out / "part").rename(out / "session.json")
    return 0


def run(arguments):
    """Plays what has not been played, and simulates the same."""
    from mpqnet import mptcp
    from mpqnet.scenario import ScenarioError
    from qoe import emulated
    if "mptcp" in arguments.transports and (why := mptcp.missing()):
        raise emulated.EmulationError(f"{why}; --transport leaves MPTCP out")
    plan = study.load(True)
    viewer = plan.viewer(arguments.viewer)
    for name in arguments.scenes:
        try:
            emulated.plan_of(scene.load(name), arguments.seeds[0], plan.content)
        except ScenarioError as error:
            raise emulated.EmulationError(f"scene {name}: {error}") from error
    emulated.make_content(arguments.out / f"www-{arguments.viewer}", plan.content, viewer)
    # The ways of one seed side by side, so that what else the machine does is the same for them.
    todo = [(name, seed, transport) for seed in arguments.seeds for name in arguments.scenes for transport in arguments.transports
            if (data := read(arguments, name, seed, transport)) is None or emulated.is_late(data)]

    def words(job):
        name, seed, transport = job
        programs = (word for program in ("mpq", "wire", "nginx") for word in (f"--{program}", getattr(arguments, program)))
        return ["session", "--scene", name, "--seeds", seed, "--transport", transport, "--viewer", arguments.viewer,
                "--out", arguments.out, *(["--all-acks"] if arguments.all_acks else []), *programs]

    children.run_all(arguments.jobs, todo, words, lambda job: f"{job[0]}, seed {job[1]}, {job[2]}", emulated.EmulationError)
    simulate(arguments, plan)
    return table(arguments)


def simulate(arguments, plan):
    """The same sessions in virtual time, by both kinds of HTTP/3."""
    viewer = plan.viewer(arguments.viewer)
    wanted = [one for one in plan.sessions if one.viewer == viewer and one.arm.name in SIMULATED.values()]
    folder = arguments.out / "simulated"
    folder.mkdir(exist_ok=True)
    files = []
    for name in arguments.scenes:
        for seed in arguments.seeds:
            file = study.folder(folder, name, viewer.name, seed).with_suffix(".toml")
            file.write_text(scene.scenario(scene.load(name), seed, plan.content, wanted), encoding="utf-8")
            files.append(file)
    simulator.run_all(argparse.Namespace(mpq=arguments.mpq, jobs=None), files, fine=(0, 7))


def rows_of(arguments):
    """All sessions that count, those of virtual time, which controller TCP had, what of nginx's worker's time went to an hour of
    media by each transport, and what is to be said."""
    from qoe import emulated
    plan = study.load(True)
    viewer = plan.viewer(arguments.viewer)
    rows, controllers, cpu, notes = [], set(), {}, []
    for name in arguments.scenes:
        for seed in arguments.seeds:
            for transport in arguments.transports:
                data = read(arguments, name, seed, transport)
                if data and emulated.is_late(data):
                    notes.append(f"{name}, seed {seed}, {transport}: does not count, as the machine was busy (timers "
                                 f"{data['late_p99_ms']:.0f} ms late); the same command plays it again")
                elif data:
                    controllers.add(data["controller"])
                    rows.append(emulated.row_of(data, scene.load(name), seed, viewer, transport, plan.content))
                    notes += [f"{name}, seed {seed}, {transport}: failed: {data['failed']}"] if "failed" in data else []
                    if "failed" not in data and "server_cpu_s" in data:
                        cpu.setdefault(transport, []).append(data["server_cpu_s"] / viewer.hours)
    if not rows:
        raise sessions.ResultError(f"{arguments.out}: no finished sessions; `emulated.py run` makes them")
    simulated = dataclasses.replace(plan, viewers=(viewer,), seeds=tuple(arguments.seeds))
    try:
        found = sessions.load(arguments.out / "simulated", [scene.load(name) for name in arguments.scenes], simulated).rows
    except sessions.ResultError:
        found = []
    return rows, found, controllers, cpu, notes


def figures(rows):
    """n, and means over the sessions; the 99th percentile is that of all their chunks."""
    times = [time for row in rows for time in row.times]
    # Of a session that failed, there is no startup.
    known = [[x for row in rows if not numpy.isnan(x := row.values[name])]
             for name in ("missed_s", "stalls", "startup_s", "latency_s", "bitrate_mbps")]
    means = [sum(values) / len(values) if values else float("nan") for values in known]
    without = sum(row.values["missed_s"] == 0 for row in rows)
    return len(rows), without, *means, float(numpy.percentile(times, 99)) if times else float("nan")


def table(arguments):
    """Prints the figures, and writes sessions.csv, and also.csv for `ci/qoe --also`."""
    rows, simulated, controllers, cpu, notes = rows_of(arguments)
    for name, of in (("sessions.csv", TRANSPORTS), ("also.csv", ("tcp", "mptcp"))):
        with open(arguments.out / name, "w", newline="", encoding="utf-8") as lines:
            out = csv.writer(lines, lineterminator="\n")
            out.writerow(("scene", "seed", "viewer", "arm", *sessions.METRICS))
            out.writerows((row.scene, row.seed, row.viewer, row.arm, *(row.values[metric] for metric in sessions.METRICS))
                          for row in rows if row.arm in of)
    print(f"viewer {arguments.viewer}, seeds {', '.join(map(str, arguments.seeds))}, TCP with {', '.join(sorted(controllers))}\n")
    print(f"{'scene':<10}{'transport':<26}{'n':>3}{'without a stall':>17}{'missed s':>11}{'stalls':>8}{'startup s':>11}"
          f"{'behind s':>10}{'Mbit/s':>8}{'p99 chunk s':>13}")
    groups = [(name, [name]) for name in arguments.scenes] + ([("all", arguments.scenes)] if len(arguments.scenes) > 1 else [])
    for label, of in groups:
        for transport in arguments.transports:
            kinds = [(transport, [row for row in rows if row.arm == transport])]
            if transport in SIMULATED:
                # Only what was played, too.
                played = {(row.scene, row.seed) for row in rows if row.arm == transport}
                kinds.append((f"{transport}, virtual time", [row for row in simulated if row.arm == SIMULATED[transport]
                                                             and (row.scene, row.seed) in played]))
            for words, some in kinds:
                if some := [row for row in some if row.scene in of]:
                    n, without, missed, stalls, startup, behind, mbps, p99 = figures(some)
                    late = "" if numpy.isnan(behind) else f"{behind:.2f}"
                    print(f"{label:<10}{words:<26}{n:>3}{without:>17}{missed:>11.2f}{stalls:>8.1f}{startup:>11.2f}{late:>10}{mbps:>8.2f}"
                          f"{p99:>13.2f}")
    both, other = ([row for row in rows if row.arm == name] for name in ("h3-multipath", "mptcp"))
    if both and other:
        waits = [figures(some)[2] for some in (both, other)]
        ratio = f"{waits[0] / waits[1]:.2f}" if waits[1] > 0 else "neither misses anything" if waits[0] == 0 else "MPTCP misses nothing"
        print(f"\nmissed time / MPTCP's: {ratio} (goal: <= 0.5; stalls, and what is left out of live media)")
    if cpu:
        of_each = ", ".join(f"{transport} {sum(values) / len(values):.2f} s" for transport, values in cpu.items())
        print(f"\nnginx's worker for an hour of media: {of_each} (what the kernel does elsewhere is not in it)")
    print("\n".join(notes))
    print(f"{arguments.out / 'sessions.csv'}")
    return 0


def main(words=None):
    arguments = parse_arguments(words)
    work = {"run": run, "table": table, "session": session}[arguments.verb]
    if arguments.verb != "table":
        # A request to end takes the same way out as Ctrl-C.
        signal.signal(signal.SIGTERM, signal.default_int_handler)
    from mpqnet.link import LinkError
    from mpqnet.process import CommandError
    from qoe.emulated import EmulationError
    errors = (links.LinkError, sessions.ResultError, LinkError, CommandError, EmulationError)
    return simulator.guarded("emulated", errors, lambda: work(arguments))


if __name__ == "__main__":
    sys.exit(main())
