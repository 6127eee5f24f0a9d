"""What the commands share that run `mpq sim` on many scenarios: their options, the runs, progress."""

import subprocess
import sys
import time
from pathlib import Path


class SimulatorError(Exception):
    """`mpq sim` could not do it."""


def add_arguments(parser, out):
    """`--mpq`, `--jobs` and `--out` with the default `out`."""
    parser.add_argument("--mpq", type=Path, help="the mpq program")
    parser.add_argument("--jobs", type=int, help="runs at a time [default: as many as processors]")
    parser.add_argument("--out", type=Path, default=Path(out), help="[default: %(default)s]")


def check(parser, arguments, always=False):
    """`run` needs the program, or all verbs do."""
    if (always or arguments.verb == "run") and (arguments.mpq is None or not arguments.mpq.is_file()):
        parser.error(f"{arguments.verb} needs --mpq PROGRAM: cargo build --release -p mpq makes target/release/mpq")


def run(arguments, file, fine=(0,), out=None, more=()):
    """Runs `mpq sim` on a scenario with `more` options, into the folder `out`, or that beside it. Returns False when it was
    to stop.

    What has run before is kept. Exit statuses that are not in `fine` are an error.
    """
    command = [str(arguments.mpq), "sim", str(file), "--out", str(out or file.with_suffix("")), "--quiet", *more]
    if arguments.jobs:
        command += ["--jobs", str(arguments.jobs)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode == 130:
        return False
    if done.returncode not in fine:
        raise SimulatorError(f"{' '.join(command)} ended with {done.returncode}: {done.stderr.strip()}")
    return True


def left(done, of, spent_s):
    """How long the rest takes if it goes on like this, in words."""
    if not done:
        return "?"
    seconds = spent_s / done * (of - done)
    return f"{seconds / 60:.0f} min" if seconds >= 90 else f"{seconds:.0f} s"


class Progress:
    """Says on stderr how far a command is with its `count` steps, and how long the rest takes."""

    def __init__(self, count):
        self.count, self.done, self.new, self.begun = count, 0, 0, time.monotonic()

    def step(self, words, new):
        """One is done. What was there before says nothing about how long the rest takes."""
        self.done += 1
        self.new += new
        rest = left(self.new, self.new + self.count - self.done, time.monotonic() - self.begun)
        print(f"{words}: {self.done} of {self.count}, {rest} left", file=sys.stderr, flush=True)


def run_all(arguments, files, fine=(0,), words=lambda file: file.stem):
    """Runs each of the scenarios, with progress. Returns False when it was to stop."""
    progress = Progress(len(files))
    for file in files:
        before = (file.with_suffix("") / "summary.json").is_file()
        if not run(arguments, file, fine):
            return False
        progress.step(words(file), new=not before)
    return True


def guarded(name, errors, work):
    """`work()`, a command's: its status, 2 if it could not run, 130 if it was interrupted."""
    try:
        return work()
    except (SimulatorError, OSError, *errors) as error:
        print(f"{name}: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print(f"\n{name}: interrupted; the same command goes on from there", file=sys.stderr)
        return 130
