"""A download over two paths with every congestion controller there is. Needs root, mpq and mpq-wire: those that
MPQ and MPQ_WIRE name, or the newest that cargo has built."""

import functools
import json
import os
import subprocess

from built import find, in_namespaces
from mpqnet import scenario
from mpqnet.bulk import make_bulk, sha256_of
from mpqnet.units import Queue

MPQ, WIRE = find("mpq"), find("mpq-wire")

BYTES = 4_000_000  # 0.8 s at the rate of both links

# Queues of four bandwidth-delay products.
LINKS = (scenario.Link("wifi", 20_000_000, 0.02, Queue(bytes=200_000), 0.0),
         scenario.Link("lte", 20_000_000, 0.03, Queue(bytes=300_000), 0.0))

# The handshake and a few packets do not make a path used.
LEAST_SHARE = 0.05

# A hang is a failure, and slowness is none: on an idle machine nobody needs a thirtieth of it.
TIMEOUT_S = 60

pytestmark = in_namespaces


@functools.cache
def names():
    """What `mpq cc` lists."""
    said = subprocess.run([MPQ, "cc", "--json"], check=True, capture_output=True, text=True, timeout=TIMEOUT_S).stdout
    return [controller["name"] for controller in json.loads(said)]


def test_every_controller_delivers_over_both_paths(tmp_path):
    from mpqnet.process import CommandError, run
    from mpqnet.results import load_get
    from mpqnet.server import Server, client_command
    from mpqnet.topology import DisjointPaths

    for program in ("mpq", "mpq-wire"):
        assert find(program), f"no {program}: `cargo build -p {program}`"
    assert {"lia", "dc-ledbat", "uncoupled-reno", "cubic"} < set(names())

    bulk = tmp_path / "www" / "bulk.bin"
    bulk.parent.mkdir()
    make_bulk(bulk, BYTES, seed=1)
    sha256 = sha256_of(bulk)

    problems = []
    with DisjointPaths(LINKS, "wire", wire=WIRE) as net:
        for name in names():
            report = tmp_path / f"{name}.json"
            with Server(net, MPQ, bulk.parent, ["--cc", name]) as server:
                command = client_command(MPQ, "get", net, server, list(net.links), bulk.name, report)
                try:
                    run(net.client, *command, "-o", os.devnull, "--cc", name, timeout_s=TIMEOUT_S)
                except CommandError as error:
                    problems.append(f"{name}: {error}")
                    continue
            problems += _problems(name, load_get(report), sha256)
    assert not problems, "\n".join(problems)


def _problems(name, got, sha256):
    """What is wrong with a download, a line each."""
    if got.sha256 != sha256:
        yield f"{name}: SHA-256 {got.sha256}, not {sha256}"
    carried = {path.local: path.recv_bytes for path in got.paths}
    if len(carried) != len(LINKS) or min(carried.values()) < LEAST_SHARE * BYTES:
        yield f"{name}: the paths carried {carried}"
