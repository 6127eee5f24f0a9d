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

# Ours does what both can do, and what it alone can.
CONTESTANTS = ("stock", "patched", "patched --trains")
AGAINST_STOCK = {
    "patched": ("overhead multipath off", Goal(">=", 0.98), None),
    "patched --trains": ("overhead multipath off, in trains", Goal(">=", 1.3), Goal("<=", 0.75)),
}


def run(setting):
    return [*_against_stock(setting), *_two_paths_against_one(setting)]


def _against_stock(setting):
    """In turn, so that what else the machine does hits all alike."""
    rates = {name: Figure(f"overhead {name}", "throughput", "Gbit/s") for name in CONTESTANTS}
    costs = {name: Figure(f"overhead {name}", "CPU time per GB", "s") for name in CONTESTANTS}
    ratios = {name: (Figure(label, "throughput / stock quiche's", "", rate), Figure(label, "CPU per byte / stock quiche's", "", cost))
              for name, (label, rate, cost) in AGAINST_STOCK.items()}
    status = setting.status("overhead, stock against patched")
    for i in range(setting.runs):
        # Each goes first in its turn.
        turn = i % len(CONTESTANTS)
        for name in CONTESTANTS[turn:] + CONTESTANTS[:turn]:
            program, *options = name.split()
            bulk = _bulk(setting.rest[program], *options)
            rates[name].values.append(BULK_BYTES * 8 / bulk["seconds"] / 1e9)
            costs[name].values.append(bulk["cpu_seconds"] / (BULK_BYTES / 1e9))
        for name, (rate, cost) in ratios.items():
            rate.values.append(rates[name].values[-1] / rates["stock"].values[-1])
            cost.values.append(costs[name].values[-1] / costs["stock"].values[-1])
        medians = ", ".join(f"{statistics.median(figure.values):.3f}" for pair in ratios.values() for figure in pair)
        status.show(f"round {i + 1} of {setting.runs}: medians {medians}", final=i + 1 == setting.runs)
    return [*(figure for pair in ratios.values() for figure in pair), *rates.values(), *costs.values()]


def _bulk(program, *options):
    """Runs the loopback benchmark once; returns its report."""
    done = subprocess.run([program, str(BULK_BYTES), *options], capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
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
            cpu, received = loopback.get(setting, bulk, sha256, paths, loopback.ETHERNET)
            costs[paths].values.append(cpu / (GET_BYTES / 1e9))
            if paths == 2:
                share.values.append(min(received) / sum(received))
        ratio.values.append(costs[2].values[-1] / costs[1].values[-1])
        status.show(f"pair {i + 1} of {setting.runs}: {ratio.values[-1]:.3f}, median "
                    f"{statistics.median(ratio.values):.3f}", final=i + 1 == setting.runs)
    return [ratio, share, *costs.values()]
