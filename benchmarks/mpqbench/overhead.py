"""What multipath costs on loopback: switched off against stock quiche, and two paths against one."""

import json
import statistics
import subprocess

from mpqnet.bulk import make_bulk, sha256_of
from mpqnet.process import CommandError

from . import loopback
from .figures import Figure, Goal
from .setting import MIB

RUNS = 10

BULK_BYTES = 1 << 30
GET_BYTES = 192 * MIB
TIMEOUT_S = 120


def run(setting):
    return [*_against_stock(setting), *_two_paths_against_one(setting)]


def _against_stock(setting):
    """Pairs in turn, so that what else the machine does hits both alike."""
    rates = {name: Figure(f"overhead {name}", "throughput", "Gbit/s") for name in ("stock", "patched")}
    costs = {name: Figure(f"overhead {name}", "CPU time per GB", "s") for name in rates}
    ratio = Figure("overhead multipath off", "throughput / stock quiche's", "", Goal(">=", 0.98))
    cost = Figure("overhead multipath off", "CPU per byte / stock quiche's", "")
    status = setting.status("overhead, stock against patched")
    for i in range(setting.runs):
        # Either goes first every other time.
        for name in sorted(rates, reverse=i % 2 == 0):
            bulk = _bulk(setting.rest[name])
            rates[name].values.append(BULK_BYTES * 8 / bulk["seconds"] / 1e9)
            costs[name].values.append(bulk["cpu_seconds"] / (BULK_BYTES / 1e9))
        ratio.values.append(rates["patched"].values[-1] / rates["stock"].values[-1])
        cost.values.append(costs["patched"].values[-1] / costs["stock"].values[-1])
        status.show(f"pair {i + 1} of {setting.runs}: {ratio.values[-1]:.3f}, CPU {cost.values[-1]:.3f}, medians "
                    f"{statistics.median(ratio.values):.3f}, {statistics.median(cost.values):.3f}",
                    final=i + 1 == setting.runs)
    return [ratio, cost, *rates.values(), *costs.values()]


def _bulk(program):
    """Runs the loopback benchmark once; returns its report."""
    done = subprocess.run([program, str(BULK_BYTES)], capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    if done.returncode != 0:
        raise CommandError(f"{program} failed ({done.returncode}): {done.stderr.strip()}")
    return json.loads(done.stdout)


def _two_paths_against_one(setting):
    bulk = setting.out / "www" / "bulk.bin"
    make_bulk(bulk, GET_BYTES, seed=1)
    sha256 = sha256_of(bulk)
    costs = {paths: Figure(f"overhead {paths} path{'s' * (paths > 1)}", "CPU time per GB, client and server", "s")
             for paths in (1, 2)}
    ratio = Figure("overhead two paths", "CPU per byte / one path's", "", Goal("<=", 1.10))
    share = Figure("overhead two paths", "bytes on the lesser path / all", "")
    status = setting.status("overhead, two paths against one")
    for i in range(setting.runs):
        for paths in sorted(costs, reverse=i % 2 == 1):
            cpu, received = loopback.get(setting, bulk, sha256, paths)
            costs[paths].values.append(cpu / (GET_BYTES / 1e9))
            if paths == 2:
                share.values.append(min(received) / sum(received))
        ratio.values.append(costs[2].values[-1] / costs[1].values[-1])
        status.show(f"pair {i + 1} of {setting.runs}: {ratio.values[-1]:.3f}, median "
                    f"{statistics.median(ratio.values):.3f}", final=i + 1 == setting.runs)
    return [ratio, share, *costs.values()]
