"""`listen ... multipath`: the same files over the kernel's MPTCP, beside QUIC."""
import json
import os
import struct
import subprocess
from pathlib import Path

import pytest

from conftest import LIMIT_SECONDS, NGINX

ENABLED = Path("/proc/sys/net/mptcp/enabled")
HAS_MPTCP = ENABLED.exists() and ENABLED.read_text().strip() == "1"
needs_mptcp = pytest.mark.skipif(not HAS_MPTCP, reason="the kernel has no MPTCP, or net.mptcp.enabled is 0")

PORT = "127.0.0.1:{port}"
BOTH = [f"{PORT} quic reuseport", f"{PORT} ssl multipath"]
SEGMENT_BYTES = 100_000
MPD = """<?xml version="1.0"?>
<MPD xmlns="urn:mpeg:dash:schema:mpd:2011" type="static" mediaPresentationDuration="PT1S" minBufferTime="PT1S">
  <Period><AdaptationSet contentType="video" mimeType="video/mp4">
    <SegmentTemplate duration="1" startNumber="1" media="$Number$.m4s"/><Representation id="0" bandwidth="800000"/>
  </AdaptationSet></Period>
</MPD>
"""


@pytest.fixture
def movie(content):
    folder = content / "www/movie"
    folder.mkdir(exist_ok=True)
    (folder / "stream.mpd").write_text(MPD)
    # Two boxes of ISO BMFF, of which the second is all the rest.
    boxes = struct.pack(">I4s8xI4s", 16, b"styp", SEGMENT_BYTES - 16, b"mdat")
    (folder / "1.m4s").write_bytes(boxes.ljust(SEGMENT_BYTES, b"\0"))
    return "movie/stream.mpd"


def played(mpq, nginx, movie, transport):
    """The report of a session."""
    report = mpq.directory / f"{transport}.json"
    run = subprocess.run([mpq.binary, "play", "-q", "--no-verify", "--transport", transport, f"--json={report}",
                          f"https://127.0.0.1:{nginx.port}/{movie}"], capture_output=True, text=True, timeout=LIMIT_SECONDS)
    assert run.returncode == 0, run.stderr
    report = json.loads(report.read_text())
    assert [segment["bytes"] for segment in report["segments"]] == [SEGMENT_BYTES]
    return report


def used(mpq, nginx, movie, transport):
    return played(mpq, nginx, movie, transport)["transport"]["used"]


@needs_mptcp
def test_one_server_by_four_transports(make_nginx, mpq, movie):
    nginx = make_nginx(listen=BOTH, server="quic_multipath on; http2 on;")
    for transport in ("h3-multipath", "h3", "tcp", "mptcp"):
        assert used(mpq, nginx, movie, transport) == transport
    segments = [line for line in nginx.access() if ".m4s" in line]
    # $http3 and $quic_multipath, which are empty without QUIC.
    assert [line.split()[4:6] for line in segments] == [["h3", "1"], ["h3", "0"], [], []], segments


@needs_mptcp
def test_who_listens_without_is_asked_in_vain(make_nginx, mpq, movie):
    nginx = make_nginx(listen=[BOTH[0], f"{PORT} ssl"], server="http2 on;")
    transport = played(mpq, nginx, movie, "mptcp")["transport"]
    assert transport["used"] == "tcp" and "did not answer" in transport["why"]


@needs_mptcp
def test_a_socket_stays_what_it_is(make_nginx, mpq, movie):
    nginx = make_nginx(listen=BOTH, server="http2 on;")
    nginx.config.write_text(nginx.config.read_text().replace("ssl multipath", "ssl"))
    nginx.reload()
    said = f'127.0.0.1:{nginx.port} is inherited, "multipath" changes when nginx is stopped and started'
    assert nginx.errors().count(said) == 1
    assert used(mpq, nginx, movie, "mptcp") == "mptcp"
    # The next cycle knows it, too.
    nginx.reload()
    assert nginx.errors().count(said) == 2


@needs_mptcp
def test_a_new_binary_takes_it_over(make_nginx, mpq, movie):
    nginx = make_nginx(listen=BOTH, server="http2 on;", daemon=True)
    old = nginx.pid()
    new = nginx.upgrade()
    try:
        os.kill(old, 15)
        nginx.wait_until_gone(old)
        assert used(mpq, nginx, movie, "mptcp") == "mptcp"
        assert "is inherited" not in nginx.errors()
    finally:
        nginx.end(old, new)


@pytest.mark.parametrize("listen, message", [
    (f"{PORT} quic multipath", '"multipath" parameter is incompatible with "quic", see "quic_multipath"'),
    ("unix:/tmp/mpq-test.sock multipath", '"multipath" parameter is incompatible with unix sockets'),
])
def test_mistakes(make_nginx, listen, message):
    run = make_nginx(start=False, listen=[listen]).test()
    assert run.returncode != 0
    assert message in run.stderr


@needs_mptcp
@pytest.mark.skipif(os.geteuid() != 0, reason="network namespaces need root")
def test_a_kernel_without_it_is_named(make_nginx):
    nginx = make_nginx(start=False, listen=BOTH)
    run = subprocess.run(["unshare", "--net", "sh", "-c", 'echo 0 >/proc/sys/net/mptcp/enabled && exec "$@"', "sh",
                          NGINX, "-t", "-p", nginx.directory, "-c", nginx.config],
                         capture_output=True, text=True, timeout=LIMIT_SECONDS)
    assert run.returncode != 0
    assert f"multipath 127.0.0.1:{nginx.port} failed, it needs net.mptcp.enabled=1" in run.stderr
