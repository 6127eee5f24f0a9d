"""Clients that mean no good, or are broken: memory stays bounded and others unharmed."""
import asyncio
import random
import socket
import struct
import subprocess

import pytest

import h3
import hostile

GARBAGE = random.Random(7)


def connections(nginx) -> int:
    """With that of the question."""
    return hostile.metric(nginx, "nginx_quic_connections")


def initial(dcid: bytes, payload: int = 1200) -> bytes:
    """What looks like an Initial and cannot be decrypted."""
    head = struct.pack("!BI", 0xc3, 1) + bytes([len(dcid)]) + dcid + b"\x04abcd" + b"\x00"
    length = payload - len(head) - 2
    return head + struct.pack("!H", 0x4000 | length) + GARBAGE.randbytes(length)


def flood(port: int, datagrams) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        s.connect(("127.0.0.1", port))
        for datagram in datagrams:
            try:
                s.send(datagram)
            except ConnectionRefusedError:
                pytest.fail("nginx is gone")


def test_garbage(nginx):
    def datagrams():
        for n in range(5000):
            size = GARBAGE.choice([0, 1, 5, 6, 7, 20, 21, 22, 40, 100, 1200, 1500])
            yield GARBAGE.randbytes(size)
    flood(nginx.port, datagrams())
    assert h3.fetch(nginx.port, "/hello.txt").status == 200


def test_truncated_long_headers(nginx):
    whole = initial(b"12345678")
    flood(nginx.port, (whole[:n] for n in range(60)))
    flood(nginx.port, (bytes([first]) + GARBAGE.randbytes(1300)
                       for first in range(256) for _ in range(4)))
    assert h3.fetch(nginx.port, "/hello.txt").status == 200


@pytest.mark.parametrize("retry", ["on", "off"])
def test_flood_of_initials(make_nginx, retry):
    nginx = make_nginx(server=f"quic_retry {retry};")
    h3.fetch(nginx.port, "/hello.txt")

    def attack(_):
        flood(nginx.port, (initial(GARBAGE.randbytes(8)) for _ in range(2000)))
        assert h3.fetch(nginx.port, "/hello.txt").status == 200
    # 60 bytes of each datagram.
    hostile.assert_flat(hostile.left_behind(nginx, attack, 5))
    nginx.wait_for(lambda: connections(nginx) == 1, "connections stay")


def test_initials_that_cannot_be_decrypted_are_counted(nginx):
    before = hostile.metric(nginx, "nginx_quic_dropped_total")
    flood(nginx.port, (initial(GARBAGE.randbytes(8)) for _ in range(20)))
    nginx.wait_for(lambda: hostile.metric(nginx, "nginx_quic_dropped_total") == before + 20,
                   "20 datagrams are not counted")
    nginx.wait_for(lambda: connections(nginx) == 1, "connections stay")


def test_quick_connections_leave_memory_flat(make_nginx, mpq):
    nginx = make_nginx(server="quic_multipath on;")

    async def batch(count):
        async def one():
            async with h3.connection(nginx.port) as client:
                return (await client.request("/hello.txt")).status
        return await asyncio.gather(*(one() for _ in range(count)))

    def attack(_):
        for _ in range(4):
            assert h3.run(batch(25)) == [200] * 25
            # Else their number would depend on how fast they come and go.
            nginx.wait_for(lambda: connections(nginx) == 1, "connections stay")
    # 1 KB of each connection.
    hostile.assert_flat(hostile.left_behind(nginx, attack, 5))


def test_handshakes_that_stop(make_nginx):
    """client_header_timeout ends them, and nothing else does before."""
    quick, patient = (make_nginx(http=f"keepalive_timeout 1h; client_header_timeout {time};") for time in ("1s", "1h"))

    # They send their first flight, and never anything again.
    clients = [hostile.RawClient(nginx.port) for nginx in (patient, quick) for _ in range(30)]
    quick.wait_for(lambda: connections(quick) == 1, "handshakes stay")
    assert connections(patient) == 31
    for client in clients:
        client.vanish()


def test_clients_that_vanish_with_all_paths_open(make_nginx, mpq, held):
    nginx = make_nginx(server="quic_multipath on;" + held.location, http="keepalive_timeout 3s;")
    clients = [subprocess.Popen(
        [mpq.binary, "get", "-q", "--no-verify", "-o", "/dev/null",
         *(f"--path=127.0.0.{n}" for n in range(1, 8)),
         f"https://127.0.0.1:{nginx.port}/held"]) for _ in range(5)]
    try:
        nginx.wait_for(lambda: hostile.metric(nginx, "nginx_quic_paths") == 5 * 7 + 1, "not all paths are open")
    finally:
        for client in clients:
            client.kill()
            client.wait()
    nginx.wait_for(lambda: connections(nginx) == 1, "connections of dead clients stay")
