"""Runs a scenario of `mpq sim` in Mininet: real processes over emulated links, in real time. Needs root.

The results are laid out as those of `mpq sim` (docs/scenarios.md), which also judges the rules. What is finished is
kept: the same command goes on where it was interrupted.
"""

import argparse
import os
import platform
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

from mpqnet import experiment
from mpqnet.folder import Folder
from mpqnet.results import ResultError
from mpqnet.scenario import ScenarioError


def parse_arguments(words=None):
    parser = argparse.ArgumentParser(
        prog="run.py", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="examples:\n  sudo .venv/bin/python mininet/run.py experiments/scenarios/sim-two-links.toml\n"
               "  sudo .venv/bin/python mininet/run.py SCENARIO.toml --seeds 1,2 --set flow.mp.cc=olia --out results\n"
               "  .venv/bin/python mininet/run.py SCENARIO.toml --check      # whether Mininet can express it; no root\n\n"
               "exit status: as of `mpq sim`: 0 all rules hold, 1 the scenario cannot be run, 2 the links could not be made,\n"
               "6 a file cannot be written, 7 a run failed, 8 a rule does not hold, 130 interrupted")
    parser.add_argument("scenario", type=Path, metavar="SCENARIO.toml")
    parser.add_argument("--out", type=Path, help="folder for the results [default: out/mininet/ and the scenario's name]")
    parser.add_argument("--seeds", metavar="N,N...", help="seeds in place of the scenario's own")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="change a key; may be repeated")
    parser.add_argument("--check", action="store_true", help="only say what would be run, or why it cannot be")
    parser.add_argument("--backend", choices=("auto", "netem", "wire"), default="auto", help="who emulates the links")
    target = Path(os.environ.get("CARGO_TARGET_DIR", "target")) / "release"
    parser.add_argument("--mpq", type=Path, default=target / "mpq", help="the mpq program [default: %(default)s]")
    parser.add_argument("--wire", type=Path, default=target / "mpq-wire", help="the mpq-wire program [default: %(default)s]")
    arguments = parser.parse_args(words)
    for name in ("scenario", "mpq", "wire"):
        file = getattr(arguments, name)
        if not file.is_file() and not (name == "wire" and arguments.check):
            hint = "" if name == "scenario" else "; `cargo build --release -p mpq -p mpq-wire` makes it"
            parser.error(f"{file} is missing{hint}")
        # Children run in the directory of their node's shell, so paths must not be relative.
        setattr(arguments, name, file.resolve())
    return arguments


def simulator_words(arguments):
    """The words that make `mpq sim` read the scenario as it is meant here."""
    words = [str(arguments.scenario)]
    for change in arguments.set:
        words += ["--set", change]
    return words + (["--seeds", arguments.seeds] if arguments.seeds else [])


def run_all(plan, specs, out, mpq, wire, backend="auto"):
    """Makes every run that is not finished, into the folder `out`. `specs` are the plan's runs as experiment.read has
    them; `mpq` and `wire` are programs, by absolute paths."""
    # Only now: these need the mininet module, which --check does not.
    from mpqnet.link import choose_backend
    from mpqnet.live import Status
    from mpqnet.network import Network
    from mpqnet.topology import measure_links
    from mpqnet.trial import Trial

    backend = choose_backend(backend)
    live = [event for spec in specs for event in spec.events if event.command not in ("up", "down")]
    if backend == "netem" and live:
        raise ScenarioError(f'link "{live[0].link}": the schedule\'s "{live[0].command}" needs the wire backend: '
                            "--backend wire")
    folder = Folder(out, plan, {"mininet-backend": backend, "linux": platform.release()})
    measured = {}
    with tempfile.TemporaryDirectory() as www:
        for number, (planned, spec) in enumerate(zip(plan["runs"], specs, strict=True), 1):
            if folder.is_finished(planned):
                continue
            partial = folder.begin(planned)
            status = Status(f"[{number}/{len(specs)}] {spec.label} seed {spec.seed}", sys.stderr)
            with Network(spec, backend, wire=wire, report=partial) as net:
                # Once for each set of links: it takes longer than many a run.
                if spec.links not in measured:
                    measured[spec.links] = measure_links(net, sys.stderr)
                trial = Trial(net, mpq, Path(www), partial)
                failure = trial.run(status.show)
            trial.write_series()
            folder.finish(planned, partial, trial.simulated_s, trial.metrics(), failure, {"links": measured[spec.links]})
            status.show(failure or "done", final=True)


def main(words=None):
    arguments = parse_arguments(words)
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.default_int_handler)
    try:
        plan = experiment.load(arguments.mpq, simulator_words(arguments))
        specs = [experiment.read(planned) for planned in plan["runs"]]
        if arguments.check:
            for spec in specs:
                print(f"{spec.label} seed {spec.seed}: {spec.duration_s:g} s")
            return 0
        if os.geteuid() != 0:
            print("run: network namespaces need root; run this under sudo", file=sys.stderr)
            return 2
        return judged(arguments, plan, specs)
    except ScenarioError as error:
        print(f"run: {error}", file=sys.stderr)
        return 1
    except (ResultError, OSError) as error:
        print(f"run: {error}", file=sys.stderr)
        return 6
    except KeyboardInterrupt:
        print("\nrun: interrupted; the same command goes on from there", file=sys.stderr)
        return 130


def judged(arguments, plan, specs):
    """Runs everything and lets `mpq sim` judge what is then finished; returns its exit status."""
    from mpqnet.link import LinkError
    from mpqnet.process import CommandError

    out = (arguments.out or Path("out/mininet") / plan["scenario"]).resolve()
    try:
        run_all(plan, specs, out, arguments.mpq, arguments.wire, arguments.backend)
    except (LinkError, CommandError) as error:
        print(f"run: {error}", file=sys.stderr)
        return 2
    return subprocess.run([arguments.mpq, "sim", *simulator_words(arguments), "--out", out, "--quiet"], check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
