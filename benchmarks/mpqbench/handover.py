"""A link dies silently in the middle of a download."""

import time

from mpqnet.bulk import make_bulk, sha256_of
from mpqnet.server import Server
from mpqnet.topology import DisjointPaths, measure_links

from .figures import Figure, Goal
from .setting import MIB, download, link

RUNS = 10

LINKS = (link("fast", 30, 20), link("slow", 20, 50))
SIZE = 20 * MIB
DIES_AFTER_S = 2.0
CONTROLLER = "olia"


def run(setting):
    bulk = setting.out / "www" / "bulk.bin"
    make_bulk(bulk, SIZE, seed=1)
    sha256 = sha256_of(bulk)
    gap = Figure("handover", "longest pause of in-order body bytes", "ms", Goal("<", 250))
    seconds = Figure("handover", "process start to exit", "s", Goal("<=", 6.8))
    whole = Figure("handover", "whole and right", "", Goal(">=", 1), every=True)
    status = setting.status("handover")
    with DisjointPaths(LINKS, setting.backend, wire=setting.wire, report=setting.out) as net:
        measure_links(net, status.out)
        better = net.links["fast"]

        def cut(began):
            time.sleep(max(0.0, began + DIES_AFTER_S - time.monotonic()))
            better.down()

        for i in range(setting.runs):
            # A server for each run: it must know nothing of the link.
            with Server(net, setting.mpq, bulk.parent, ["--cc", CONTROLLER]) as server:
                try:
                    got = download(setting, net, server, bulk.name, sha256, ["--cc", CONTROLLER], cut)
                finally:
                    better.up()
            whole.values.append(float(got.whole))
            if got.whole:
                gap.values.append(got.report.longest_gap_ms)
                seconds.values.append(got.seconds)
            status.show(f"run {i + 1} of {setting.runs}: " + (
                got.problem or f"pause {got.report.longest_gap_ms:.0f} ms, {got.seconds:.2f} s"),
                final=i + 1 == setting.runs)
    return [gap, seconds, whole]
