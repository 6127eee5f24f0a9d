"""The simulator: simulated seconds in a second, CPU time for each simulated byte beside the same download over
loopback, and the memory of a long run.

Either side has both ends of a connection over two paths, TLS and all. The simulator has the links besides, and what
is lost on them; loopback has sockets, a file that is read, and its SHA-256. Datagrams are those of Ethernet on both."""

import json
import shutil
import statistics
import subprocess
import time
from pathlib import Path

from mpqnet import process
from mpqnet.bulk import make_bulk, sha256_of
from mpqnet.process import CommandError

from . import loopback
from .figures import Figure, Goal
from .setting import MIB, cpu_seconds, wait_with_usage

RUNS = 5

# Mbit/s of both links together, and what is downloaded.
TRANSFERS = ((50, 64 * MIB), (200, 128 * MIB), (600, 240 * MIB))
COST_GOAL = Goal("<=", 1.3)

MEMORY_MBPS = 50
MEMORY_SECONDS = (100, 1000)
# Room for what an allocator keeps.
MEMORY_GOAL = Goal("<=", 1.1)

TIMEOUT_S = 1800
# Between two looks at its memory.
WATCH_S = 0.02

SCENARIO = """question = "What does it cost to simulate this?"
expected = "Less than to do it."
duration = "{duration_s} s"
[[link]]
name = "fast"
rate = "{fast_kbps} kbit/s"
rtt = "20 ms"
[[link]]
name = "slow"
rate = "{slow_kbps} kbit/s"
rtt = "40 ms"
[[flow]]
name = "f"
paths = ["fast", "slow"]
# As `mpq get` does it.
ack_frequency = true
"""


def run(setting):
    return [*_beside_loopback(setting), *_memory(setting)]


def _beside_loopback(setting):
    figures = []
    for mbps, size in TRANSFERS:
        label = f"sim {mbps} Mbit/s"
        bulk = setting.out / "www" / f"{size}.bin"
        make_bulk(bulk, size, seed=1)
        sha256 = sha256_of(bulk)
        speed = Figure(label, "simulated seconds per second", "")
        ratio = Figure(label, "CPU per byte / loopback's", "", COST_GOAL)
        costs = {name: Figure(label, f"CPU time per GB, {name}", "s") for name in ("simulated", "loopback")}
        status = setting.status(label)
        for i in range(setting.runs):
            # Either goes first every other time, so that what else the machine does hits both alike.
            for name in sorted(costs, reverse=i % 2 == 0):
                if name == "loopback":
                    cpu, _ = loopback.get(setting, bulk, sha256, paths=2, options=loopback.ETHERNET)
                else:
                    simulated = _simulate(setting, mbps, duration_s=600, size=size)
                    cpu = cpu_seconds(simulated.usage)
                    speed.values.append(simulated.speed)
                costs[name].values.append(cpu / (size / 1e9))
            ratio.values.append(costs["simulated"].values[-1] / costs["loopback"].values[-1])
            status.show(f"pair {i + 1} of {setting.runs}: {ratio.values[-1]:.2f}, medians "
                        f"{statistics.median(ratio.values):.2f}, {statistics.median(speed.values):.1f} s/s",
                        final=i + 1 == setting.runs)
        figures += [ratio, speed, *costs.values()]
    return figures


def _memory(setting):
    label = f"sim {MEMORY_MBPS} Mbit/s"
    peaks = {seconds: Figure(label, f"peak memory of {seconds} s", "MB") for seconds in MEMORY_SECONDS}
    growth = Figure(label, "peak memory, {1} s / {0} s".format(*MEMORY_SECONDS), "", MEMORY_GOAL)
    status = setting.status(f"{label}, memory")
    # It hardly varies, and takes a minute.
    status.show("a run of 1000 s")
    for seconds, figure in peaks.items():
        figure.values.append(_simulate(setting, MEMORY_MBPS, duration_s=seconds).peak_bytes / 1e6)
    short, long = (figure.values[0] for figure in peaks.values())
    growth.values.append(long / short)
    status.show(f"{short:.0f} MB, {long:.0f} MB", final=True)
    return [growth, *peaks.values()]


class Simulated:
    """A run: its resource usage, its peak memory, and how many simulated seconds went by in one."""

    def __init__(self, usage, peak_bytes, folder):
        summary, manifest = (json.loads((folder / name).read_text(encoding="utf-8"))
                             for name in ("summary.json", "manifest.json"))
        if summary["status"] != "ok":
            raise CommandError(f"{folder}: the run failed: {summary['reason']}")
        self.usage = usage
        self.peak_bytes = peak_bytes
        self.speed = summary["simulated_s"] / manifest["wall_s"]


def _simulate(setting, mbps, duration_s, size=None):
    """Runs `mpq sim` once, with a download of `size` bytes or without an end."""
    scenario, out = setting.out / "sim.toml", setting.out / "sim"
    text = SCENARIO.format(duration_s=duration_s, fast_kbps=mbps * 800, slow_kbps=mbps * 200)
    scenario.write_text(text + (f'size = "{size} bytes"\n' if size else ""), encoding="utf-8")
    shutil.rmtree(out, ignore_errors=True)
    command = [setting.mpq, "sim", scenario, "--out", out, "--quiet"]
    child = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        peak_bytes = _watch_memory(child)
        code, usage = wait_with_usage(child, TIMEOUT_S)
    finally:
        process.stop(child)
    if code != 0:
        raise CommandError(f"`{' '.join(map(str, command))}` failed ({code})")
    return Simulated(usage, peak_bytes, out / "runs" / "base" / "seed-1")


def _watch_memory(child):
    """The largest resident memory of a child until it ends. Its resource usage does not tell: `ru_maxrss` begins with
    what this process had when it forked."""
    peak_bytes = 0
    status = Path(f"/proc/{child.pid}/status")
    end = time.monotonic() + TIMEOUT_S
    while time.monotonic() < end:
        # A process that has ended has no memory, but it is there until it is waited for.
        lines = [line for line in status.read_text(encoding="ascii").splitlines() if line.startswith("VmHWM:")]
        if not lines:
            break
        peak_bytes = int(lines[0].split()[1]) * 1024
        time.sleep(WATCH_S)
    return peak_bytes
