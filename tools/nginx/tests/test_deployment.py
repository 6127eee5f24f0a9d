"""The example configuration and the systemd unit of conf/, as docs/nginx.md tells an administrator to use them."""
import random
import re
import shutil
import socket
import subprocess

import pytest

import h3
from conftest import LIMIT_SECONDS, NGINX, ROOT

CONF = ROOT / "tools/nginx/conf"
SEGMENTS, SEGMENT_BYTES = 4, 100_000
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


def has_ipv6() -> bool:
    try:
        with socket.socket(socket.AF_INET6, socket.SOCK_DGRAM) as s:
            s.bind(("::1", 0))
    except OSError:
        return False
    return True


@pytest.fixture
def dash(make_nginx):
    """An nginx with conf/dash.conf: only its places, its port and its user are others."""
    nginx = make_nginx(start=False)
    www = nginx.directory / "dash"
    www.mkdir()
    noise = random.Random(1)
    for name in ("init.mp4", *(f"{i + 1}.m4s" for i in range(SEGMENTS))):
        # One box, by which mpq knows a segment.
        kind = b"ftyp" if name == "init.mp4" else b"styp"
        (www / name).write_bytes(SEGMENT_BYTES.to_bytes(4) + kind + noise.randbytes(SEGMENT_BYTES - 8))
    (www / "manifest.mpd").write_text(MPD)
    text = (CONF / "dash.conf").read_text()
    # Each must be there, or this is not the example any more.
    for pattern, other in {
        # The default is there everywhere.
        r"user +www-data;": "",
        r"worker_processes auto;": "worker_processes 2; daemon off;",
        r"/run/nginx\.pid": f"{nginx.directory}/nginx.pid",
        r"/var/log/nginx/": f"{nginx.directory}/logs/",
        r"/etc/nginx/fullchain\.pem": f"{nginx.content}/server.pem",
        r"/etc/nginx/privkey\.pem": f"{nginx.content}/server.key",
        r"/srv/dash": str(www),
        r"(listen \S*)443 ": rf"\g<1>{nginx.port} ",
        r'h3=":443"': f'h3=":{nginx.port}"',
        r"\n *listen \[::\].*": r"\g<0>" if has_ipv6() else "",
    }.items():
        text, n = re.subn(pattern, other, text)
        assert n, f"dash.conf has no {pattern}"
    nginx.config.write_text(text)
    return nginx


def curl(nginx, path: str, *options: str) -> tuple[str, dict[str, str]]:
    """The protocol and the header that curl gets, over TCP."""
    if not shutil.which("curl"):
        pytest.skip("no curl here: ci/setup nginx installs it")
    run = subprocess.run(
        ["curl", "-sS", "-k", "-o", "/dev/null", "-D", "-", *options, f"https://127.0.0.1:{nginx.port}/{path}"],
        capture_output=True, text=True, timeout=LIMIT_SECONDS)
    assert run.returncode == 0, run.stderr
    first, *lines = run.stdout.strip().splitlines()
    return first.strip(), {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}


def test_example_is_accepted(dash):
    run = dash.test()
    assert run.returncode == 0, run.stderr
    # A missing privilege for quic_bpf is a warning only.
    assert [line for line in run.stderr.splitlines() if re.search(r"\[(error|crit|alert|emerg)\]", line)] == []


def test_example_over_tcp(dash):
    dash.start()
    status, header = curl(dash, "manifest.mpd", "--http2")
    assert status == "HTTP/2 200"
    assert header["alt-svc"] == f'h3=":{dash.port}"; ma=86400'
    assert header["content-type"] == "application/dash+xml"
    assert header["cache-control"] == "max-age=1"
    assert header["access-control-allow-origin"] == "*"
    status, header = curl(dash, "1.m4s", "--http1.1", "-r", "10-19")
    assert status == "HTTP/1.1 206 Partial Content"
    assert header["content-range"] == f"bytes 10-19/{SEGMENT_BYTES}"
    assert header["content-type"] == "video/mp4"
    assert header["cache-control"] == "max-age=31536000"
    assert curl(dash, "quic-status", "--http2")[1]["content-type"] == "application/json"


def test_example_over_http3(dash):
    dash.start()
    response = h3.fetch(dash.port, "/2.m4s")
    assert response.status == 200
    assert response.body == (dash.directory / "dash/2.m4s").read_bytes()
    assert response.headers["cache-control"] == "max-age=31536000"
    if has_ipv6():
        assert h3.fetch(dash.port, "/manifest.mpd", host="::1").body == MPD.encode()


def test_example_plays(dash, mpq):
    dash.start()
    run = subprocess.run(
        [mpq.binary, "play", "-q", "--no-verify", "--buffer-goal=1", "--buffer-goal-at-top=1",
         "--path=127.0.0.1", "--path=127.0.0.3", f"https://127.0.0.1:{dash.port}/manifest.mpd"],
        capture_output=True, text=True, timeout=LIMIT_SECONDS)
    assert run.returncode == 0, run.stderr
    lines = [line for line in dash.access() if ".m4s " in line]
    assert len(lines) == SEGMENTS
    # With so small a buffer the last segment comes seconds after the first, and the second path before it.
    assert "proto=HTTP/3.0 mp=1 paths=2" in lines[-1] and "cc=sbd-bbr sched=ecf" in lines[-1]


def test_unit(tmp_path):
    if not shutil.which("systemd-analyze"):
        pytest.skip("no systemd-analyze here: systemd has it")
    text = (CONF / "nginx-quic.service").read_text()
    assert "/usr/local/nginx/sbin/nginx " in text
    # Under ProtectSystem=full nginx could not make its folders there.
    assert "\nReadWritePaths=/usr/local/nginx\n" in text
    unit = tmp_path / "nginx-quic.service"
    unit.write_text(text.replace("/usr/local/nginx/sbin/nginx ", f"{NGINX} "))
    run = subprocess.run(["systemd-analyze", "verify", unit], capture_output=True, text=True, timeout=LIMIT_SECONDS)
    # Other units of the machine may have faults of their own.
    assert [line for line in run.stderr.splitlines() if "nginx" in line] == []
    assert run.returncode == 0, run.stderr
