"""What a benchmark runs with, and the timed download that several of them make."""

import os
import select
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from mpqnet import process, results
from mpqnet.live import Status, last_line
from mpqnet.process import CommandError
from mpqnet.scenario import Link
from mpqnet.server import client_command
from mpqnet.units import queue

MIB = 1 << 20
EXPERIMENTS = Path(__file__).resolve().parents[2] / "experiments"


@dataclass(frozen=True)
class Setting:
    """Programs, places and how often; `rest` are programs that only one benchmark needs, by name."""
    mpq: Path
    wire: Path
    out: Path
    backend: str
    runs: int
    rest: dict[str, Path]

    @staticmethod
    def status(label):
        """A live line on standard error: standard output is for the figures."""
        return Status(label, sys.stderr)


def link(name, rate_mbps, rtt_ms):
    """A link without loss whose queue holds one bandwidth-delay product."""
    rate_bps, rtt_s = round(rate_mbps * 1e6), rtt_ms / 1e3
    return Link(name, rate_bps, rtt_s, queue("1bdp", rate_bps, rtt_s), 0.0)


@dataclass(frozen=True)
class Download:
    """One `mpq get`."""
    seconds: float  # from the start of the process to its exit
    whole: bool     # exit code 0 and the right SHA-256
    problem: str    # "" if whole
    report: results.Get | None


def download(setting, net, server, resource, sha256, options=(), during=None, timeout_s=60, links=None):
    """Runs `mpq get` over all links, or those of `links`, and times it. `during(began)` runs meanwhile, `began`
    being the time.monotonic() of the start."""
    report, log = setting.out / "get.json", setting.out / "get.log"
    report.unlink(missing_ok=True)
    command = client_command(setting.mpq, "get", net, server, list(links or net.links), resource, report)
    with open(log, "wb") as output:
        began = time.monotonic()
        child = process.start(net.client, [*command, "-o", os.devnull, *options], stdin=subprocess.DEVNULL,
                              stdout=output, stderr=output)
        try:
            if during:
                during(began)
            wait_for_exit(child, timeout_s)
        finally:
            seconds = time.monotonic() - began
            process.stop(child)
    if child.returncode != 0:
        said = last_line(log.read_text(encoding="utf-8", errors="replace"))
        return Download(seconds, False, f"mpq get ended with {child.returncode} after {seconds:.1f} s: {said}", None)
    got = results.load_get(report)
    problem = "" if got.sha256 == sha256 else f"SHA-256 {got.sha256}, not {sha256}"
    return Download(seconds, not problem, problem, got)


def wait_for_exit(child, timeout_s):
    """Returns when the child has ended, or after `timeout_s`. Popen.wait polls every 50 ms, which is too coarse."""
    descriptor = os.pidfd_open(child.pid)
    try:
        select.select([descriptor], [], [], timeout_s)
    finally:
        os.close(descriptor)


def cpu_seconds(usage):
    """User and system time of a resource usage."""
    return usage.ru_utime + usage.ru_stime


def wait_with_usage(child, timeout_s):
    """Waits for a child and returns (exit code, resource usage). Raises CommandError if it takes longer."""
    wait_for_exit(child, timeout_s)
    pid, status, usage = os.wait4(child.pid, os.WNOHANG)
    if not pid:
        raise CommandError(f"`{' '.join(map(str, child.args))}` took longer than {timeout_s} s")
    child.returncode = os.waitstatus_to_exitcode(status)
    return child.returncode, usage
