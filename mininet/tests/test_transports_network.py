"""One session of `mpq play` from nginx by each transport, over two links, of which the first is silent for some seconds.
Needs root, and mpq, mpq-wire and nginx as test_nginx_network.py."""

import json
import struct
from pathlib import Path

import pytest

from built import find, in_namespaces
from mpqnet import mptcp, scenario, units
from test_nginx_network import NGINX

MPQ, WIRE = find("mpq"), find("mpq-wire")

pytestmark = in_namespaces

LINKS = (scenario.Link("wifi", 6_000_000, 0.02, units.Queue(bytes=30_000), 0.0),
         scenario.Link("lte", 4_000_000, 0.05, units.Queue(bytes=40_000), 0.0))
SEGMENTS, SEGMENT_BYTES = 6, 250_000
# The silence begins in the second segment. At most 3 s are there then, and nobody plays on for longer over wifi alone.
GOAL_S, SILENCE_S = 2, 3.5
MPD = f"""<?xml version="1.0"?>
<MPD xmlns="urn:mpeg:dash:schema:mpd:2011" type="static" mediaPresentationDuration="PT{SEGMENTS}S" minBufferTime="PT1S">
  <Period><AdaptationSet contentType="video" mimeType="video/mp4">
    <SegmentTemplate duration="1" startNumber="1" media="$Number$.m4s"/>
    <Representation id="0" bandwidth="{8 * SEGMENT_BYTES}"/>
  </AdaptationSet></Period>
</MPD>
"""


@pytest.fixture(scope="module")
def played(tmp_path_factory):
    """The report of a session by each transport, one after the other over the same links."""
    from mpqnet import viewing
    from mpqnet.nginx import Nginx
    from mpqnet.server import PORT
    from mpqnet.topology import DisjointPaths

    for program in (MPQ, WIRE, NGINX):
        assert program and program.is_file(), "`cargo build -p mpq -p mpq-wire` and tools/nginx/build make all three"
    folder = tmp_path_factory.mktemp("transports")
    www = folder / "www"
    www.mkdir()
    (www / "manifest.mpd").write_text(MPD)
    # Two boxes of ISO BMFF, of which the second is all the rest.
    boxes = struct.pack(">I4s8xI4s", 16, b"styp", SEGMENT_BYTES - 16, b"mdat")
    for number in range(1, SEGMENTS + 1):
        (www / f"{number}.m4s").write_bytes(boxes.ljust(SEGMENT_BYTES, b"\0"))
    transports = [name for name in viewing.TRANSPORTS if name != "mptcp" or not mptcp.missing()]
    reports = {}
    with DisjointPaths(LINKS, "wire", wire=WIRE, report=folder) as net:
        if "mptcp" in transports:
            mptcp.allow(net)
        addresses = [f"{net.server_address(link)}:{PORT}" for link in net.links]
        with Nginx(net.server, NGINX, folder / "nginx", www, addresses, "quic_multipath on;",
                   tcp="multipath" if "mptcp" in transports else "") as server:
            for name in transports:
                report, log = folder / f"{name}.json", folder / f"{name}.log"
                words = viewing.command(MPQ, net, server, list(net.links), "manifest.mpd", report, name)
                words += ["--quiet", "--buffer-goal", GOAL_S, "--buffer-goal-at-top", GOAL_S]
                has_begun = wifi_has_received(net, 3 * SEGMENT_BYTES // 2)
                status = viewing.watch(net, words, [(0, "wifi", "down"), (SILENCE_S, "wifi", "up")], 120, log, has_begun)
                assert status == 0, (name, log.read_text())
                reports[name] = json.loads(report.read_text())
    return reports


def wifi_has_received(net, count):
    """Whether the client has received so many bytes from now on."""
    def total():
        lines = Path(f"/proc/{net.client.pid}/net/dev").read_text().splitlines()
        [line] = [line for line in lines if line.strip().startswith("wifi-c:")]
        return int(line.partition(":")[2].split()[0])

    before = total()
    return lambda: total() >= before + count


def report_of(played, transport):
    if transport not in played:
        pytest.skip(mptcp.missing())
    return played[transport]


def received(report):
    """By the client's address."""
    found = {}
    for path in report["paths"]:
        local = path["local"].rpartition(":")[0]
        found[local] = found.get(local, 0) + path["recv_bytes"]
    return found


@pytest.mark.parametrize("transport", ["h3-multipath", "h3", "tcp", "mptcp"])
def test_every_transport_plays_it(played, transport):
    report = report_of(played, transport)
    assert report["transport"] == {"asked": transport, "used": transport}
    assert [segment["bytes"] for segment in report["segments"]] == [SEGMENT_BYTES] * SEGMENTS
    assert sum(received(report).values()) > SEGMENTS * SEGMENT_BYTES


@pytest.mark.parametrize("transport", ["h3", "tcp"])
def test_over_one_path_the_silence_is_seen(played, transport):
    report = report_of(played, transport)
    assert set(received(report)) == {"10.1.0.1"}
    # A little more of the silence than is buffered, and without it all would be there in half of that.
    assert report["startup_ms"] + report["stall_ms"] > 1000 * (SILENCE_S - GOAL_S - 1), report["buffer"]


@pytest.mark.parametrize("transport", ["h3-multipath", "mptcp"])
def test_over_both_the_other_link_carries_it(played, transport):
    found = received(report_of(played, transport))
    assert set(found) == {"10.1.0.1", "10.2.0.1"}
    # During the silence, if not before.
    assert min(found.values()) > SEGMENT_BYTES / 2, found
