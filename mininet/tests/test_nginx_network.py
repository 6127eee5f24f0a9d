"""A download from nginx over two emulated links. Needs root, mpq and mpq-wire as the other tests here, and nginx: the one
that MPQ_NGINX names, or what tools/nginx/build has installed."""

import json
import os
from pathlib import Path

import pytest

from built import find
from mpqnet import scenario, units

MPQ, WIRE = find("mpq"), find("mpq-wire")
NGINX = Path(os.environ.get("MPQ_NGINX") or Path(__file__).parents[2] / "out/nginx/install/sbin/nginx").resolve()

pytestmark = [
    pytest.mark.netns,
    pytest.mark.skipif(os.geteuid() != 0, reason="network namespaces need root"),
]

# Some 2 s over both, and neither link alone carries all of it sooner than the other comes into use.
BODY_BYTES = 3_000_000
LINKS = (scenario.Link("wifi", 8_000_000, 0.02, units.Queue(bytes=30_000), 0.0),
         scenario.Link("lte", 6_000_000, 0.04, units.Queue(bytes=40_000), 0.0))


def test_both_links_carry_a_download(tmp_path):
    from mpqnet.bulk import make_bulk, sha256_of
    from mpqnet.nginx import Nginx
    from mpqnet.process import run
    from mpqnet.server import PORT, client_command
    from mpqnet.topology import DisjointPaths

    for program in (MPQ, WIRE, NGINX):
        assert program and program.is_file(), "`cargo build -p mpq -p mpq-wire` and tools/nginx/build make all three"
    www, report, body = tmp_path / "www", tmp_path / "report.json", tmp_path / "body"
    www.mkdir()
    make_bulk(www / "bulk.bin", BODY_BYTES, seed=1)
    with DisjointPaths(LINKS, "wire", wire=WIRE, report=tmp_path) as net:
        addresses = [f"{net.server_address(link)}:{PORT}" for link in net.links]
        with Nginx(net.server, NGINX, tmp_path / "nginx", www, addresses, "quic_multipath on;") as server:
            run(net.client, *client_command(MPQ, "get", net, server, list(net.links), "bulk.bin", report), "-o", body,
                timeout_s=60)
    assert sha256_of(body) == sha256_of(www / "bulk.bin")
    shares = {path["local"].rsplit(":", 1)[0]: path["recv_bytes"] for path in json.loads(report.read_text())["paths"]}
    assert set(shares) == {"10.1.0.1", "10.2.0.1"}
    # The slower link is 3/7 of both; what shows that it is used is a tenth.
    assert min(shares.values()) > BODY_BYTES / 10, shares
