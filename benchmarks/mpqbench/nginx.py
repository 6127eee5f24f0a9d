"""Our nginx against stock nginx with its native QUIC, in pairs; and over two paths against `mpq serve`.

The pairs run over the loopback interface of a namespace of its own, with an MTU of 1500: over one of 65536, nginx's
own QUIC sends datagrams that no network carries."""

import os
import statistics
import subprocess
import sys
import threading
import time
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from mpqnet import h2load, process
from mpqnet.bulk import make_bulk, sha256_of
from mpqnet.nginx import Nginx
from mpqnet.node import new_network
from mpqnet.process import CommandError
from mpqnet.server import PORT, Server
from mpqnet.topology import DisjointPaths, measure_links

from .figures import Figure, Goal
from .setting import MIB, download, link

RUNS = 5

MTU_BYTES = 1500

# Multipath is to cost nothing where it is not used.
RATIO_GOAL = Goal(">=", 1)
COST_GOAL = Goal("<=", 1)
# Handshakes are cryptography, the same for both: this only asks that nothing is added to it that can be measured.
CONNECT_GOAL = Goal("<=", 1.1)
MEMORY_GOAL = Goal("<=", 0.75)

MULTIPATH = "quic_multipath on;"


@dataclass(frozen=True)
class Case:
    """One load: so many requests in all, or as many as fit into a time."""
    name: str
    body_bytes: int
    connections: int
    streams: int
    requests: int | None = None
    duration_s: int | None = None

    @property
    def file(self):
        return f"{self.body_bytes}.bin"


REQUESTS = (
    Case("10x10 6 B", 6, 10, 10, requests=400_000),
    Case("10x10 1 KB", 1000, 10, 10, requests=400_000),
    Case("50x10 for 10 s", 6, 50, 10, duration_s=10),
)
BODIES = (
    Case("4x2 1 MB", 1_000_000, 4, 2, requests=3000),
    Case("1x1 16 MB", 16_000_000, 1, 1, requests=120),
)
CROWDS = (500, 5000)
CROWD_HOLD_S = 5
# Crowds take their time, and their spread is small.
CROWD_RUNS = 3

# Two links, bytes.
AGGREGATION = ((link("fast", 30, 20), link("slow", 20, 50)), 20 * MIB)
CONTROLLER, SCHEDULER = "lia", "min-rtt"

# What two paths cost: one link against two of half its rate, so that each has half of the bytes.
COST_LINKS, COST_BYTES = {1: ("whole",), 2: ("left", "right")}, 100 * MIB
# They differ by less than one run does from the next.
COST_RUNS = 2
# Runs where nothing else wants to.
IDLER = """import os, sys
os.sched_setaffinity(0, {int(sys.argv[1])})
os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
while True:
    pass
"""
COST_NET = (link("whole", 200, 20), link("left", 100, 20), link("right", 100, 20))


def run(setting):
    for name in ("nginx", "native", "h2load"):
        if name not in setting.rest:
            raise CommandError(f"--{name} is missing: ci/bench builds it and names it")
    figures = []
    with _loopback() as node:
        for case in REQUESTS:
            figures += _requests(setting, node, case)
        for case in BODIES:
            figures += _bodies(setting, node, case)
        for connections in CROWDS:
            figures += _crowd(setting, node, connections)
    return [*figures, *_two_paths(setting), *_paths_cost(setting)]


@contextmanager
def _loopback():
    """A node whose loopback interface has the MTU of an Ethernet."""
    net = new_network()
    try:
        node = net.addHost("server", ip=None)
        process.run(node, "ip", "link", "set", "dev", "lo", "mtu", MTU_BYTES, "up")
        yield node
    finally:
        net.stop()


def _nginx(setting, node, name, port):
    www = setting.out / "www"
    for case in (*REQUESTS, *BODIES):
        file = www / case.file
        if not file.exists() or file.stat().st_size != case.body_bytes:
            make_bulk(file, case.body_bytes, seed=1)
    return Nginx(node, setting.rest[name], setting.out / f"{name}-{port}", www, [f"127.0.0.1:{port}"],
                 MULTIPATH if name == "nginx" else "")


class Pairs:
    """Values of both servers, and of their ratio, that one run after the other adds to."""

    def __init__(self, label, figure, unit, goal):
        self.each = {name: Figure(f"{label}, {name}", figure, unit) for name in ("nginx", "native")}
        self.ratio = Figure(label, f"{figure} / native", "", goal)

    def add(self, values):
        for name, value in values.items():
            self.each[name].values.append(value)
        # Whatever could not be measured on the native side has no ratio.
        if values["native"] > 0:
            self.ratio.values.append(values["nginx"] / values["native"])

    def median(self):
        return statistics.median(self.ratio.values) if self.ratio.values else float("nan")

    def figures(self):
        return [self.ratio, *self.each.values()]


def _order(i):
    """Either goes first every other time, so that what else the machine does hits both alike."""
    return ("nginx", "native") if i % 2 == 0 else ("native", "nginx")


@contextmanager
def _servers(setting, node):
    """Both servers, begun anew for each pair: with the same two processes for all pairs, medians of one build were
    0.89, 1.03 and 1.11 from one command to the next, as if each process kept its luck for life. Their workers have a
    processor that the client does not run on."""
    with ExitStack() as stack:
        left = stack.enter_context(_one_processor_left())
        servers = {name: stack.enter_context(_nginx(setting, node, name, PORT + i))
                   for i, name in enumerate(("nginx", "native"))}
        for server in servers.values():
            os.sched_setaffinity(server.worker, left)
        yield servers


def _load(setting, node, server, case):
    """One run: its Load, and the CPU seconds of the worker meanwhile."""
    words = h2load.command(setting.rest["h2load"], f"https://{server.addresses[0]}/{case.file}", case.connections,
                           case.streams, case.requests, case.duration_s, warm_up_s=1 if case.duration_s else 0)
    before = server.cpu_seconds()
    load = h2load.run(node, words)
    cpu = server.cpu_seconds() - before
    if load.failed or (case.requests and load.succeeded != case.requests):
        raise CommandError(f"{case.name}: {load.failed} requests failed, {load.succeeded} succeeded; see {server.folder}/error.log")
    return load, cpu


def _requests(setting, node, case):
    label = f"nginx {case.name}"
    rate = Pairs(label, "requests/s", "1/s", RATIO_GOAL)
    cost = Pairs(label, "CPU per request", "us", COST_GOAL)
    status = setting.status(label)
    for i in range(setting.runs):
        rates, costs = {}, {}
        with _servers(setting, node) as servers:
            for name in _order(i):
                load, cpu = _load(setting, node, servers[name], case)
                rates[name], costs[name] = load.requests_per_second, cpu / load.succeeded * 1e6
        rate.add(rates)
        # While warming up the worker works too, for answers that are not counted.
        if case.requests:
            cost.add(costs)
        status.show(f"pair {i + 1} of {setting.runs}: {rate.ratio.values[-1]:.2f}, median {rate.median():.2f}",
                    final=i + 1 == setting.runs)
    return [*rate.figures(), *(cost.figures() if case.requests else [])]


def _bodies(setting, node, case):
    label = f"nginx {case.name}"
    goodput = Pairs(label, "goodput", "MB/s", RATIO_GOAL)
    cost = Pairs(label, "CPU per GB", "s", COST_GOAL)
    status = setting.status(label)
    for i in range(setting.runs):
        rates, costs = {}, {}
        with _servers(setting, node) as servers:
            for name in _order(i):
                load, cpu = _load(setting, node, servers[name], case)
                rates[name] = load.body_bytes / load.seconds / 1e6
                costs[name] = cpu / (load.body_bytes / 1e9)
        goodput.add(rates)
        cost.add(costs)
        status.show(f"pair {i + 1} of {setting.runs}: {goodput.ratio.values[-1]:.2f}, medians {goodput.median():.2f}, "
                    f"CPU {cost.median():.2f}", final=i + 1 == setting.runs)
    return [*goodput.figures(), *cost.figures()]


def _crowd(setting, node, connections):
    """Connections opened all at once, then held with a request a second each."""
    label = f"nginx {connections} at once"
    connect = Pairs(label, "longest connect time", "s", CONNECT_GOAL)
    memory = Pairs(label, "memory per connection", "KB", MEMORY_GOAL)
    status = setting.status(label)
    runs = min(setting.runs, CROWD_RUNS)
    for i in range(runs):
        connects, sizes = {}, {}
        for name in _order(i):
            # Anew: what an allocator keeps of earlier connections would hide what these need.
            with _nginx(setting, node, name, PORT) as server:
                load = h2load.run(node, h2load.command(
                    setting.rest["h2load"], f"https://{server.addresses[0]}/6.bin", connections, 1, requests=connections))
                if load.succeeded != connections:
                    raise CommandError(f"{label}, {name}: {load.succeeded} requests succeeded; see {server.folder}/error.log")
                connects[name] = load.connect_max_s
            with _nginx(setting, node, name, PORT) as server:
                sizes[name] = _held_memory(setting, node, server, connections) / connections / 1e3
        connect.add(connects)
        memory.add(sizes)
        status.show(f"pair {i + 1} of {runs}: connect {connects['nginx']:.2f} s, {connects['native']:.2f} s; memory "
                    f"{sizes['nginx']:.0f} KB, {sizes['native']:.0f} KB", final=i + 1 == runs)
    return [*connect.figures(), *memory.figures()]


def _held_memory(setting, node, server, connections):
    """What the worker's memory grows by while all connections are open."""
    # Warm: the first connection fills tables that are there once.
    h2load.run(node, h2load.command(setting.rest["h2load"], f"https://{server.addresses[0]}/6.bin", 1, 1, requests=1))
    before = server.memory_bytes()
    # Enough for all to connect on a slow machine; the hold begins after it.
    hold_s = CROWD_HOLD_S + connections // 500
    child = h2load.start(node, h2load.command(setting.rest["h2load"], f"https://{server.addresses[0]}/6.bin", connections, 1,
                                              duration_s=hold_s, rate=1))
    sizes = []
    over = threading.Event()

    def watch():
        while not over.wait(0.2):
            sizes.append(server.memory_bytes())

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        load = h2load.finish(child)
    finally:
        over.set()
        watcher.join()
    if load.succeeded < connections:
        raise CommandError(f"only {load.succeeded} requests of {connections} connections were answered in {hold_s} s")
    return max(sizes) - before


def _two_paths(setting):
    """The same download from our nginx and from `mpq serve`, over two links."""
    links, size = AGGREGATION
    bulk = setting.out / "www" / "bulk.bin"
    make_bulk(bulk, size, seed=1)
    sha256 = sha256_of(bulk)
    label = "nginx two paths 30+20mbit"
    ratio = Figure(label, "goodput / mpq serve's", "", Goal(">=", 0.97))
    goodput = {name: Figure(f"{label}, {name}", "goodput", "Mbit/s") for name in ("nginx", "mpq serve")}
    whole = Figure(label, "whole and right", "", Goal(">=", 1), every=True)
    status = setting.status(label)
    with DisjointPaths(links, setting.backend, wire=setting.wire, report=setting.out) as net:
        measure_links(net, setting.status("").out)
        addresses = [f"{net.server_address(name)}:{PORT}" for name in net.links]
        for i in range(setting.runs):
            got = {}
            for name in ("nginx", "mpq serve") if i % 2 == 0 else ("mpq serve", "nginx"):
                server = Nginx(net.server, setting.rest["nginx"], setting.out / "nginx-paths", bulk.parent, addresses,
                               f"{MULTIPATH} quic_congestion_control {CONTROLLER}; quic_scheduler {SCHEDULER};") \
                    if name == "nginx" else \
                    Server(net, setting.mpq, bulk.parent, ["--cc", CONTROLLER, "--sched", SCHEDULER])
                with server:
                    got[name] = download(setting, net, server, bulk.name, sha256, ["--cc", CONTROLLER])
                # The port is free again.
                time.sleep(0.2)
                whole.values.append(float(got[name].whole))
            if all(one.whole for one in got.values()):
                for name, one in got.items():
                    goodput[name].values.append(one.report.goodput_bps / 1e6)
                ratio.values.append(got["nginx"].report.goodput_bps / got["mpq serve"].report.goodput_bps)
            problems = "; ".join(one.problem for one in got.values() if one.problem)
            status.show(f"pair {i + 1} of {setting.runs}: " + (problems or f"{ratio.values[-1]:.3f}"),
                        final=i + 1 == setting.runs)
    return [ratio, *goodput.values(), whole]


def _paths_cost(setting):
    """CPU per byte of our nginx over two links, both of them used, against one of their sum."""
    bulk = setting.out / "www" / "bulk-cost.bin"
    make_bulk(bulk, COST_BYTES, seed=1)
    sha256 = sha256_of(bulk)
    label = "nginx 100+100mbit"
    ratio = Figure(label, "CPU per byte / 200mbit's", "", Goal("<=", 1.05))
    share = Figure(label, "bytes on the lesser path / all", "", Goal(">=", 0.3), every=True)
    costs = {paths: Figure(f"{label}, {paths} path{'s' * (paths > 1)}", "CPU per GB", "s") for paths in COST_LINKS}
    status = setting.status(label)
    with _one_processor_left(is_awake=True) as left, \
            DisjointPaths(COST_NET, setting.backend, wire=setting.wire, report=setting.out) as net:
        addresses = [f"{net.server_address(name)}:{PORT}" for name in net.links]
        pairs = COST_RUNS * setting.runs
        for i in range(pairs):
            for paths in sorted(COST_LINKS, reverse=i % 2 == 1):
                with Nginx(net.server, setting.rest["nginx"], setting.out / "nginx-cost", bulk.parent, addresses,
                           MULTIPATH) as server:
                    os.sched_setaffinity(server.worker, left)
                    before = server.cpu_seconds()
                    got = download(setting, net, server, bulk.name, sha256, links=COST_LINKS[paths])
                    costs[paths].values.append((server.cpu_seconds() - before) / (COST_BYTES / 1e9))
                if not got.whole:
                    raise CommandError(f"{label}: {got.problem}")
                if paths == 2:
                    received = [path.recv_bytes for path in got.report.paths]
                    share.values.append(min(received) / sum(received) if len(received) == 2 else 0)
                # The port is free again.
                time.sleep(0.2)
            ratio.values.append(costs[2].values[-1] / costs[1].values[-1])
            status.show(f"pair {i + 1} of {pairs}: {ratio.values[-1]:.3f}, median "
                        f"{statistics.median(ratio.values):.3f}", final=i + 1 == pairs)
    return [ratio, share, *costs.values()]


@contextmanager
def _one_processor_left(is_awake=False):
    """Gives a processor that nothing else which is started within runs on, if there are several: the interrupts of
    timers, as those of the emulated links, count as time of whatever they interrupt.

    If it is to be awake, something runs there whenever nothing else would: what a virtual processor takes to come back from
    sleep, and the clock it comes back with, differ from process to process by more than what is to be seen."""
    mine = os.sched_getaffinity(0)
    left = {max(mine)}
    os.sched_setaffinity(0, mine - left or mine)
    child = subprocess.Popen([sys.executable, "-c", IDLER, *map(str, left)]) if is_awake else None
    try:
        yield left
    finally:
        if child:
            child.kill()
            child.wait()
        os.sched_setaffinity(0, mine)
