"""A download from nginx over two emulated links. Needs root, mpq and mpq-wire as the other tests here, and nginx: the one
that MPQ_NGINX names, or what tools/nginx/build has installed."""

import contextlib
import dataclasses
import json
import os
import struct
from pathlib import Path

import pytest

from built import find, in_namespaces
from mpqnet import scenario, units

MPQ, WIRE = find("mpq"), find("mpq-wire")
NGINX = Path(os.environ.get("MPQ_NGINX") or Path(__file__).parents[2] / "out/nginx/install/sbin/nginx").resolve()

pytestmark = in_namespaces

# Some 2 s over both, and neither link alone carries all of it sooner than the other comes into use.
BODY_BYTES = 3_000_000
LINKS = (scenario.Link("wifi", 8_000_000, 0.02, units.Queue(bytes=30_000), 0.0),
         scenario.Link("lte", 6_000_000, 0.04, units.Queue(bytes=40_000), 0.0))
# The slow one holds up whoever sends it what the other one waits for.
UNLIKE_LINKS = (scenario.Link("wifi", 8_000_000, 0.02, units.Queue(bytes=30_000), 0.0),
                scenario.Link("sat", 3_000_000, 0.3, units.Queue(bytes=150_000), 0.0))
# Neither of the unlike links alone carries this in the time that it takes to play.
SEGMENTS, SEGMENT_BYTES = 8, 1_100_000
MPD = f"""<?xml version="1.0"?>
<MPD xmlns="urn:mpeg:dash:schema:mpd:2011" type="static" mediaPresentationDuration="PT{SEGMENTS}S" minBufferTime="PT1S"
     profiles="urn:mpeg:dash:profile:isoff-live:2011">
  <Period>
    <AdaptationSet contentType="video" mimeType="video/mp4">
      <SegmentTemplate timescale="1" duration="1" startNumber="1" initialization="init.mp4" media="$Number$.m4s"/>
      <Representation id="0" bandwidth="{8 * SEGMENT_BYTES}" codecs="avc1.42c01e" width="320" height="180"/>
    </AdaptationSet>
  </Period>
</MPD>
"""
# The slower link's share is more than a third; what shows that it is used is a tenth.
USED_SHARE = 0.1


@contextlib.contextmanager
def served(tmp_path, links, options, files):
    """nginx with so many files of so many bytes at one end of the links. Gives what runs `mpq` at the other end."""
    from mpqnet.bulk import make_bulk
    from mpqnet.nginx import Nginx
    from mpqnet.process import run
    from mpqnet.server import PORT, client_command
    from mpqnet.topology import DisjointPaths

    for program in (MPQ, WIRE, NGINX):
        assert program and program.is_file(), "`cargo build -p mpq -p mpq-wire` and tools/nginx/build make all three"
    www, report = tmp_path / "www", tmp_path / "report.json"
    www.mkdir()
    for name, size in files.items():
        make_bulk(www / name, size, seed=len(name))
    with DisjointPaths(links, "wire", wire=WIRE, report=tmp_path) as net:
        addresses = [f"{net.server_address(link)}:{PORT}" for link in net.links]
        with Nginx(net.server, NGINX, tmp_path / "nginx", www, addresses, f"quic_multipath on; {options}") as server:
            def client(verb, resources, *words):
                base = f"https://{addresses[0]}/"
                command = client_command(MPQ, verb, net, server, list(net.links), resources[0], report)
                others = [base + name for name in resources[1:]]
                run(net.client, *command[:2], *words, *others, *command[2:], timeout_s=60)
                return json.loads(report.read_text())
            yield client
    # Not all who may run this may have more files.
    errors = [line for line in (tmp_path / "nginx/error.log").read_text().splitlines() if "RLIMIT_NOFILE" not in line]
    assert not [line for line in errors if "[alert]" in line or "[crit]" in line], errors


def carried(report, direction):
    """Bytes of each of the client's addresses."""
    shares = {path["local"].rsplit(":", 1)[0]: path[f"{direction}_bytes"] for path in report["paths"]}
    assert set(shares) == {"10.1.0.1", "10.2.0.1"}
    return shares


def same(one, other):
    return one.read_bytes() == other.read_bytes()


def test_both_links_carry_a_download(tmp_path):
    with served(tmp_path, LINKS, "", {"bulk.bin": BODY_BYTES}) as client:
        report = client("get", ["bulk.bin"], "-o", tmp_path / "body")
    assert same(tmp_path / "body", tmp_path / "www/bulk.bin")
    assert min(carried(report, "recv").values()) > BODY_BYTES * USED_SHARE, report


def marks(tmp_path, link, direction):
    """What the wire marked, and what found its queue full."""
    counters = json.loads((tmp_path / f"wire-{link}.json").read_text())[direction]
    return counters["marked"], counters["queue_drop"]


@pytest.mark.parametrize("verb, direction", [("get", "b_to_a"), ("put", "a_to_b")])
@pytest.mark.parametrize("on", [True, False])
def test_links_that_mark(tmp_path, verb, direction, on):
    """Where a queue marks in place of losing, whoever sends holds it short, and nothing is lost."""
    links = [dataclasses.replace(link, queue=units.Queue(bytes=400_000), mark=units.Queue(bytes=15_000)) for link in LINKS]
    taken = tmp_path / "taken"
    taken.mkdir()
    location = f"location /up/ {{ root {taken}; dav_methods PUT; create_full_put_path on; client_max_body_size 64m; }}"
    # One that fills any queue unless something tells it not to.
    options = f"quic_congestion_control olia; quic_ecn {'on' if on else 'off'}; {location}"
    words = ["--cc", "olia", *([] if on else ["--no-ecn"])]
    with served(tmp_path, links, options, {"bulk.bin": 2 * BODY_BYTES}) as client:
        if verb == "get":
            report = client("get", ["bulk.bin"], *words, "-o", tmp_path / "body")
        else:
            report = client("put", ["up/film"], *words, tmp_path / "www/bulk.bin")
    assert same(tmp_path / "body" if verb == "get" else taken / "up/film", tmp_path / "www/bulk.bin")
    found = [marks(tmp_path, link.name, direction) for link in links]
    if not on:
        assert [marked for marked, _ in found] == [0, 0]
        return
    assert all(marked > 0 and drops == 0 for marked, drops in found), found
    if verb == "put":
        assert {path["ecn"]["state"] for path in report["paths"]} == {"capable"}, report
        assert sum(path["ecn"]["congested"] for path in report["paths"]) == sum(marked for marked, _ in found), (report, found)
        assert sum(path["lost"] for path in report["paths"]) == 0, report


def test_both_links_carry_an_upload(tmp_path):
    """nginx stores it as it does what comes over TCP."""
    taken = tmp_path / "taken"
    taken.mkdir()
    location = f"location /up/ {{ root {taken}; dav_methods PUT; create_full_put_path on; client_max_body_size 64m; }}"
    with served(tmp_path, LINKS, location, {"bulk.bin": BODY_BYTES}) as client:
        report = client("put", ["up/film"], tmp_path / "www/bulk.bin")
    assert same(taken / "up/film", tmp_path / "www/bulk.bin")
    assert min(carried(report, "sent").values()) > BODY_BYTES * USED_SHARE, report


@pytest.mark.parametrize("scheduler, is_eager", [
    ("min-rtt", True), ("round-robin", True), ("redundant", True),
    ("min-rtt:opportunistic=on", True),
    # These may do without the slow link.
    ("ecf", False), ("blest", False), ("otias", False), ("xlink", False), ("cost-aware", False),
    ("ecf:opportunistic=on", False), ("xlink:opportunistic=on", False),
])
def test_many_streams_over_unlike_links(tmp_path, scheduler, is_eager):
    """Requests share the links, and each answer is whole, whatever the scheduler sends where."""
    files = {f"part-{n}.bin": n * 4001 for n in range(1, 33)}
    out = tmp_path / "out"
    out.mkdir()
    with served(tmp_path, UNLIKE_LINKS, f"quic_scheduler {scheduler};", files) as client:
        report = client("get", list(files), "-o", out)
    for name in files:
        assert same(out / name, tmp_path / "www" / name), name
    assert len(report["files"]) == len(files)
    least = sum(files.values()) * USED_SHARE if is_eager else 0
    assert min(carried(report, "recv").values()) > least, report


@pytest.mark.parametrize("scheduler, is_eager", [
    ("min-rtt", True), ("redundant", True), ("min-rtt:opportunistic=on", True), ("ecf", False), ("cost-aware", False),
])
def test_many_streams_up_over_unlike_links(tmp_path, scheduler, is_eager):
    """Uploads share the links, and nginx has each file whole."""
    files = {f"part-{n}.bin": n * 4001 for n in range(1, 33)}
    taken = tmp_path / "taken"
    taken.mkdir()
    location = f"location /up/ {{ root {taken}; dav_methods PUT; create_full_put_path on; client_max_body_size 64m; }}"
    with served(tmp_path, UNLIKE_LINKS, location, files) as client:
        report = client("put", ["up/"], "--sched", scheduler, *(tmp_path / "www" / name for name in files))
    for name in files:
        assert same(taken / "up" / name, tmp_path / "www" / name), name
    assert len(report["files"]) == len(files)
    least = sum(files.values()) * USED_SHARE if is_eager else 0
    assert min(carried(report, "sent").values()) > least, report


@pytest.mark.parametrize("params, is_used", [("", False), (":without-deadline=use", True)])
def test_a_backup_link_costs_what_the_scheduler_allows(tmp_path, params, is_used):
    """Nothing has a deadline here."""
    options = f"quic_path standby 10.2.0.0/16; quic_scheduler cost-aware{params};"
    with served(tmp_path, LINKS, options, {"bulk.bin": BODY_BYTES}) as client:
        report = client("get", ["bulk.bin"], "-o", tmp_path / "body")
    assert same(tmp_path / "body", tmp_path / "www/bulk.bin")
    share = carried(report, "recv")["10.2.0.1"] / BODY_BYTES
    assert (share > USED_SHARE) == is_used, report


@pytest.mark.parametrize("scheduler", ["ecf", "xlink"])
def test_a_video_over_unlike_links(tmp_path, scheduler):
    """The player tells nginx its buffer with each request, and every segment comes."""
    files = {f"{n}.m4s": SEGMENT_BYTES for n in range(1, SEGMENTS + 1)} | {"init.mp4": 800}
    with served(tmp_path, UNLIKE_LINKS, f"quic_scheduler {scheduler};", files) as client:
        (tmp_path / "www/manifest.mpd").write_text(MPD)
        for name, size in files.items():
            # Two boxes of ISO BMFF, of which the second is all the rest.
            with (tmp_path / "www" / name).open("r+b") as file:
                file.write(struct.pack(">I4s8xI4s", 16, b"styp", size - 16, b"mdat"))
        report = client("play", ["manifest.mpd"])
    assert [segment["bytes"] for segment in report["segments"]] == [SEGMENT_BYTES] * SEGMENTS
    assert min(carried(report, "recv").values()) > SEGMENTS * SEGMENT_BYTES * USED_SHARE, report["paths"]
