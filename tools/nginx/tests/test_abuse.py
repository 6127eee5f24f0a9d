"""Clients that mean no good, or are broken: memory stays bounded and others unharmed."""
import asyncio
import os
import random
import socket
import struct
from pathlib import Path

import pytest

import h3
from conftest import SANITIZED

GARBAGE = random.Random(7)


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
    before = nginx.rss_kb()
    for _ in range(5):
        flood(nginx.port, (initial(GARBAGE.randbytes(8)) for _ in range(2000)))
        assert h3.fetch(nginx.port, "/hello.txt").status == 200
    assert SANITIZED or nginx.rss_kb() - before < 8_000
    status = h3.fetch(nginx.port, "/status?format=prometheus").body.decode()
    assert 'nginx_quic_connections{worker="0"} 1\n' in status \
        or 'nginx_quic_connections{worker="0"} 2\n' in status, status[:300]


def test_quick_connections_leave_memory_flat(make_nginx, mpq):
    nginx = make_nginx(server="quic_multipath on;")

    async def batch(count):
        async def one():
            async with h3.connection(nginx.port) as client:
                return (await client.request("/hello.txt")).status
        return await asyncio.gather(*(one() for _ in range(count)))

    def rounds(count):
        for _ in range(count):
            assert h3.run(batch(25)) == [200] * 25
    rounds(8)
    before = nginx.rss_kb()
    rounds(12)
    assert SANITIZED or nginx.rss_kb() - before < 2_000


def test_handshakes_that_stop(make_nginx):
    nginx = make_nginx(http="client_header_timeout 1s;")

    async def conversation():
        clients = []
        for _ in range(30):
            connection = h3.connection(nginx.port, wait_connected=False)
            client = await connection.__aenter__()
            # Only the first flight gets through.
            client._transport.close()
            clients.append(client)
        await asyncio.sleep(2.5)
    h3.run(conversation())
    text = h3.fetch(nginx.port, "/status?format=prometheus").body.decode()
    assert 'nginx_quic_connections{worker="0"} 1\n' in text, text[:200]


def test_clients_that_vanish_with_all_paths_open(make_nginx, mpq):
    import subprocess
    nginx = make_nginx(server="quic_multipath on; limit_rate 100k;", http="keepalive_timeout 3s;")
    clients = [subprocess.Popen(
        [mpq.binary, "get", "-q", "--no-verify", "-o", "/dev/null",
         *(f"--path=127.0.0.{n}" for n in range(1, 8)),
         f"https://127.0.0.1:{nginx.port}/8m.bin"]) for _ in range(5)]
    try:
        nginx.wait_for(lambda: b'nginx_quic_paths{worker="0"} 36' in h3.fetch(
            nginx.port, "/status?format=prometheus").body, "not all paths are open")
    finally:
        for client in clients:
            client.kill()
            client.wait()
    nginx.wait_for(lambda: b'nginx_quic_connections{worker="0"} 1\n' in h3.fetch(
        nginx.port, "/status?format=prometheus").body, "connections of dead clients stay", 40)


def test_nobody_else_can_hand_over(nginx):
    # The names of the workers' sockets are no secret; only their user may send.
    if os.getuid() != 0:
        pytest.skip("cannot change the user")
    # Those of this nginx: others may be under test.
    inodes = {os.stat(file).st_ino for pid in nginx.workers() for file in Path(f"/proc/{pid}/fd").iterdir()}
    sockets = [line.split() for line in open("/proc/net/unix") if "@nginx-quic-" in line]
    names = [name for *_, inode, name in sockets if int(inode) in inodes]
    assert len(names) == 1
    pid = os.fork()
    if pid == 0:
        try:
            os.setuid(12345)
            s = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
            for name in names:
                s.sendto(bytes(2000), "\0" + name[1:])
        finally:
            os._exit(0)
    os.waitpid(pid, 0)
    nginx.wait_for(lambda: "from a process of another user" in nginx.errors(), "no warning")
    assert h3.fetch(nginx.port, "/hello.txt").status == 200
