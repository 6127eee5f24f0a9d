"""Runs one benchmark and prints its figures."""

import importlib
import json
import os
import platform
import sys

from mpqnet.link import LinkError, choose_backend
from mpqnet.process import CommandError
from mpqnet.results import ResultError

from . import SUMMARIES
from .figures import table
from .setting import Setting


def run(arguments, programs):
    """Runs what the command line asks for; returns the exit status. `programs` are the options that name one."""
    try:
        benchmark = importlib.import_module(f".{arguments.name}", __package__)
        setting = _setting(arguments, programs, benchmark.RUNS)
        print(f"{arguments.name}: {SUMMARIES[arguments.name]}\nLinux {platform.release()}, {os.cpu_count()} processors, "
              f"load {os.getloadavg()[0]:.1f}, {setting.backend} backend, {setting.runs} runs", file=sys.stderr)
        figures = benchmark.run(setting)
    except (LinkError, CommandError, ResultError, OSError) as error:
        print(f"bench: {error}", file=sys.stderr)
        return 2
    print(json.dumps([figure.as_json() for figure in figures], indent=2) if arguments.json else "\n" + table(figures))
    return 1 if any(figure.meets() is False for figure in figures) else 0


def _setting(arguments, names, runs):
    out = arguments.out.resolve()
    (out / "www").mkdir(parents=True, exist_ok=True)
    programs = {}
    for name in names:
        if file := getattr(arguments, name):
            programs[name] = file.resolve()
            if not programs[name].is_file():
                raise CommandError(f"{file} is missing; ci/bench builds all that is needed")
    return Setting(mpq=programs.pop("mpq"), wire=programs.pop("wire"), out=out, rest=programs,
                   backend=choose_backend(arguments.backend), runs=arguments.runs or runs)
