"""Several paths of one connection."""
import json
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

import h3
from relay import Relay

# More than the handshake of a path and its probes of the MTU: it carried a part of the body.
USED_BYTES = 50_000


def check(nginx, mpq, paths=("127.0.0.1", "127.0.0.3"), routes=None):
    """A download that takes a second and more over all paths, so that each is needed."""
    with Relay(nginx.port, routes=routes) as relay:
        # One attempt at a handshake, however slow: connections are counted.
        body, report = mpq.get(relay.url("3m.bin"), "--attempt-delay=10000", paths=paths)
        stats = relay.stats()
    assert body == (nginx.content / "www/3m.bin").read_bytes()
    used = [p for p in report["paths"] if p["recv_bytes"] > USED_BYTES]
    assert len(used) == len(paths), (report, stats)
    return stats


def test_two_paths(nginx, mpq):
    began = time.monotonic()
    check(nginx, mpq)
    all_ms = 1000 * (time.monotonic() - began)
    fields = nginx.access()[-1].split()
    assert fields[4:7] == ["h3", "1", "2"]
    assert [int(item.split(":")[0]) for item in fields[7].split(",")] == [0, 1]
    assert sum(int(item.split(":")[1]) for item in fields[7].split(",")) > 3_000_000
    assert all(0 < float(item.split(":")[1]) < all_ms for item in fields[8].split(","))


@pytest.mark.parametrize("listen", [
    ["127.0.0.1:{port} quic reuseport"],
    ["{port} quic reuseport"],
    ["127.0.0.1:{port} quic reuseport", "127.0.0.2:{port} quic reuseport"],
])
@pytest.mark.parametrize("gso", ["on", "off"])
def test_listeners(make_nginx, mpq, listen, gso):
    nginx = make_nginx(listen=listen, server=f"quic_multipath on; quic_gso {gso};")
    check(nginx, mpq, paths=("127.0.0.1", "127.0.0.3", "127.0.0.4"))
    # As fast as the machine, in large batches; which paths that takes does not matter.
    body, _ = mpq.get(f"https://127.0.0.1:{nginx.port}/8m.bin", paths=("127.0.0.1", "127.0.0.3", "127.0.0.4"))
    assert body == (nginx.content / "www/8m.bin").read_bytes()


def test_ipv6(make_nginx, mpq):
    nginx = make_nginx(listen=["[::]:{port} quic reuseport"], server="quic_multipath on;")
    body, report = mpq.get(f"https://[::1]:{nginx.port}/8m.bin", paths=("::1",))
    assert len(body) == 8_000_000
    assert report["paths"][0]["local"].startswith("[::1]:")


@pytest.mark.parametrize("controller", [
    "lia", "olia", "cubic", "reno", "bbr2_gcongestion", "dc-ledbat:ret=10s,zeta=1",
])
def test_controllers(make_nginx, mpq, controller):
    nginx = make_nginx(server=f"quic_multipath on; quic_congestion_control {controller};")
    check(nginx, mpq)
    assert f" {controller} " in nginx.access()[-1]


def connection_ids(qlog, event):
    """{path ID: sequence numbers} of the PATH_NEW_CONNECTION_ID frames that a client sent, or received, by its log."""
    found = {}
    for record in qlog.read_text(encoding="utf-8").split("\x1e")[1:]:
        entry = json.loads(record)
        if entry.get("name", "").endswith(event):
            for frame in entry["data"].get("frames", []):
                # Type 0x3e78; both numbers are below 64 here, so take an octet.
                if frame.get("frame_type_bytes") == 0x3e78:
                    path, sequence = bytes.fromhex(frame["raw"]["data"])[2:4]
                    found.setdefault(path, set()).add(sequence)
    return found


def test_connection_ids_for_what_is_unused(make_nginx, mpq, tmp_path):
    # One for each path ID that may be used next, and a spare one for the path in use (RFC 10069, section 3.2.1).
    nginx = make_nginx(server="quic_multipath on; quic_max_paths 4;")
    body, report = mpq.get(f"https://127.0.0.1:{nginx.port}/3m.bin", f"--qlog={tmp_path}", paths=("127.0.0.1",))
    assert len(body) == 3_000_000 and len(report["paths"]) == 1
    qlog, = tmp_path.glob("client-*.sqlog")
    expected = {0: {1}} | {path: {0} for path in range(1, 4)}
    assert connection_ids(qlog, "packet_received") == expected
    assert connection_ids(qlog, "packet_sent") == expected


def test_off_is_off(make_nginx, mpq):
    nginx = make_nginx()
    with Relay(nginx.port) as relay:
        body, report = mpq.get(relay.url("3m.bin"), paths=("127.0.0.1", "127.0.0.3"))
    assert len(body) == 3_000_000
    assert [p["path_id"] for p in report["paths"]] == [0]


def test_max_paths(make_nginx, mpq):
    nginx = make_nginx(server="quic_multipath on; quic_max_paths 2;")
    with Relay(nginx.port) as relay:
        body, report = mpq.get(relay.url("3m.bin"), paths=("127.0.0.1", "127.0.0.3", "127.0.0.4"))
    assert len(body) == 3_000_000
    assert sorted(p["path_id"] for p in report["paths"]) == [0, 1]


def test_status(nginx, mpq):
    async def conversation():
        async with h3.connection(nginx.port) as client:
            check_json = json.loads((await client.request("/status")).body)
            text = (await client.request("/status?format=prometheus")).body.decode()
            accept = (await client.request("/status", headers={"accept": "text/plain"})).body
            return check_json, text, accept
    check(nginx, mpq)
    status, text, accept = h3.run(conversation())

    worker, = status["workers"]
    assert worker["accepted"] == worker["established"] == 2
    assert worker["connections"] >= 1
    mine = status["connections"][-1]
    assert mine["congestion_control"] == "sbd-bbr" and mine["scheduler"] == "min-rtt"
    path, = mine["paths"]
    assert path["local"] == f"127.0.0.1:{nginx.port}"
    assert path["health"] == "healthy" and path["sent_bytes"] > 0
    assert path["bottleneck"] is None

    metrics = dict(line.rsplit(" ", 1) for line in text.splitlines() if line[0] != "#")
    assert metrics['nginx_quic_accepted_total{worker="0"}'] == "2"
    assert int(metrics['nginx_quic_sent_bytes_total{worker="0",path_id="0"}']) > 0
    assert accept.startswith(b"# HELP nginx_quic_connections ")


def test_status_shows_all_parameters(make_nginx):
    controller = "coupled-cubic:variant=alpha1,f=linear,clock=plain,class=large"
    nginx = make_nginx(server=f"quic_congestion_control {controller};")

    async def conversation():
        async with h3.connection(nginx.port) as client:
            return json.loads((await client.request("/status")).body)
    mine, = h3.run(conversation())["connections"]
    assert mine["congestion_control"] == controller


@pytest.mark.parametrize(("detect", "bottlenecks"), [("all", {0: 0, 1: 0}), ("none", {0: None, 1: None})])
def test_status_shows_who_shares_a_bottleneck(make_nginx, mpq, detect, bottlenecks):
    nginx = make_nginx(server=f"quic_multipath on; quic_congestion_control sbd-bbr:detect={detect};")
    seen = []
    with Relay(nginx.port) as relay, ThreadPoolExecutor(1) as pool:
        # Some three seconds: the table is written once in one.
        download = pool.submit(mpq.get, relay.url("8m.bin"), paths=("127.0.0.1", "127.0.0.3"))
        while not download.done():
            connections = json.loads(h3.fetch(nginx.port, "/status").body)["connections"]
            seen += [{path["id"]: path["bottleneck"] for path in connection["paths"]} for connection in connections]
            time.sleep(0.05)
    download.result()
    assert bottlenecks in seen, seen


@pytest.mark.parametrize("listen", [
    ["127.0.0.1:{port} quic reuseport", "127.0.0.2:{port} quic reuseport"],
    ["{port} quic reuseport"],
])
@pytest.mark.parametrize("workers", [1, 4])
def test_path_to_another_address_of_the_server(make_nginx, mpq, listen, workers):
    nginx = make_nginx(listen=listen, server="quic_multipath on;", workers=workers)
    # Whose client's datagrams go where: the NAT is between.
    stats = check(nginx, mpq, routes={"127.0.0.3": "127.0.0.2"})
    assert all(link["down_bytes"] > USED_BYTES for link in stats.values()), stats
