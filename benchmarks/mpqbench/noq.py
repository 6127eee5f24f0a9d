"""A download by `mpq get` from `mpq serve` over loopback, in turn with one from noq to noq: seconds, and CPU time per
GB of each end. `mpq serve` sends a file, noq what it has in memory; both clients throw away what they receive."""

import json
import statistics
import subprocess

from mpqnet import process
from mpqnet.bulk import make_bulk, sha256_of
from mpqnet.process import CommandError

from . import loopback
from .figures import Figure, Goal

RUNS = 5

GET_BYTES = 2 << 30
# Of all that noq needs.
GOAL = Goal("<=", 0.6)

NOQ_PORT = 47_777

# Loopback carries jumbo frames, which noq does not look for.
OURS = {"mpq": (), "mpq, datagrams as large as noq's": ("--max-datagram", "1452")}


def run(setting):
    bulk = setting.out / "www" / "bulk-2g.bin"
    make_bulk(bulk, GET_BYTES, seed=1)
    try:
        # What is timed below is not looked at.
        loopback.get(setting, bulk, sha256_of(bulk), paths=2)
        return [figure for paths in (1, 2) for figure in _downloads(setting, bulk, paths)]
    finally:
        bulk.unlink()


def _downloads(setting, bulk, paths):
    label = f"noq {paths} path{'s' * (paths > 1)}"
    names = ("noq", *OURS)
    measured = {name: (Figure(f"{label}, {name}", "download", "s"), Figure(f"{label}, {name}", "CPU time per GB, client", "s"),
                       Figure(f"{label}, {name}", "CPU time per GB, server", "s")) for name in names}
    ratios = {name: [Figure(f"{label}, {name}", f"{what} / noq's", "", GOAL) for what in ("seconds", "client's CPU", "server's CPU")]
              for name in names[1:]}
    status = setting.status(label)
    for i in range(setting.runs):
        # Each goes first in its turn.
        turn = i % len(names)
        for name in names[turn:] + names[:turn]:
            seconds, *cpu_s = _noq(setting, paths) if name == "noq" else loopback.timed(setting, bulk, paths, OURS[name])
            for figure, value in zip(measured[name], (seconds, *(s / (GET_BYTES / 1e9) for s in cpu_s))):
                figure.values.append(value)
        for name, figures in ratios.items():
            for figure, ours, theirs in zip(figures, measured[name], measured["noq"]):
                figure.values.append(ours.values[-1] / theirs.values[-1])
        medians = ", ".join(f"{statistics.median(figures[0].values):.2f}" for figures in ratios.values())
        status.show(f"round {i + 1} of {setting.runs}: medians of seconds / noq's {medians}", final=i + 1 == setting.runs)
    return [figure for group in (*ratios.values(), *measured.values()) for figure in group]


def _noq(setting, paths):
    """One download from noq to noq: what `loopback.timed` returns."""
    program, certificate = setting.rest["noq"], setting.out / "noq.der"
    address = f"127.0.0.1:{NOQ_PORT}"
    server = subprocess.Popen([program, "serve", address, "--certificate", certificate], stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    report = setting.out / "noq.json"
    try:
        if server.stdout.readline() != b"ready\n":
            raise CommandError(f"{program} does not serve at {address}")
        command = [program, "get", address, "--certificate", certificate, "--bytes", str(GET_BYTES)]
        for number in range(1, paths):
            command += ["--path", f"127.0.0.{number + 1}"]
        with open(report, "wb") as output:
            took = loopback.against(server, command, output)
    finally:
        process.stop(server)
        server.stdout.close()
    got = json.loads(report.read_text(encoding="utf-8"))
    # Something came on each path.
    if got["bytes"] != GET_BYTES or len([size for size in got["of_paths"] if size]) != paths:
        raise CommandError(f"noq: {got}; expected {GET_BYTES} bytes over {paths} paths")
    return took
