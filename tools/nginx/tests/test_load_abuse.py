"""Clients that misbehave in numbers: memory stays bounded, the log tells at the right level, others get their files."""
import asyncio
import random
import subprocess
import time

import pytest

import h3
import hostile
from hostile import RawClient, assert_flat, bystander, drive, heap_kb, left_behind, loud_lines, metric

CONFIGURATION = "quic_multipath on;"


@pytest.fixture
def server(make_nginx):
    return make_nginx(listen=["127.0.0.1:{port} quic reuseport rcvbuf=8m sndbuf=8m"], server=CONFIGURATION)


def until_left_alone(nginx) -> None:
    """Waits until no connection is left but that of the question and, twice, of a bystander: one goes, one comes."""
    nginx.wait_for(lambda: metric(nginx, "nginx_quic_connections") <= 3, "connections stay")


def test_garbage(server, mpq):
    established = metric(server, "nginx_quic_established_total")

    def attack(n):
        assert hostile.flood(server.port, hostile.datagrams(seed=n, count=25_000)) > 24_700
    with bystander(server, mpq) as downloads:
        for n in range(4):
            attack(n)
    # None of it became a connection: those are downloads and the question for the figure.
    assert metric(server, "nginx_quic_established_total") - established == len(downloads) + 1
    # 7 bytes of each datagram.
    assert_flat(left_behind(server, attack, 4))
    assert loud_lines(server) == []


def initials(count: int) -> list[bytes]:
    """First flights of true clients that are never heard of again."""
    made = []
    for _ in range(count):
        quic = hostile.QuicConnection(configuration=hostile.configuration())
        quic.connect(("127.0.0.1", 1), now=0.0)
        made += [data for data, _ in quic.datagrams_to_send(now=0.0)]
    return made


@pytest.mark.parametrize("retry", ["off", "on"])
def test_flood_of_true_initials(make_nginx, mpq, retry):
    nginx = make_nginx(listen=["127.0.0.1:{port} quic reuseport rcvbuf=8m sndbuf=8m"],
                       server=f"{CONFIGURATION} quic_retry {retry};", http="client_header_timeout 10s;")
    flights = initials(1000)
    began, grown, before = [], [], heap_kb(nginx)

    def attack(_):
        accepted = metric(nginx, "nginx_quic_accepted_total")
        hostile.flood(nginx.port, flights)
        # Each question is a connection.
        began.append(metric(nginx, "nginx_quic_accepted_total") - accepted - 1)
        grown.append(heap_kb(nginx) - before)
        # Handshakes that do not go on are forgotten when their time is up.
        nginx.wait_for(lambda: metric(nginx, "nginx_quic_connections") <= 1, "handshakes stay for ever")
    # 250 bytes of each datagram.
    assert_flat(left_behind(nginx, attack, 3))
    print("handshakes begun:", began, "and the heap meanwhile:", grown)
    if retry == "on":
        assert began == [0] * 3, f"{began} connections for clients that proved nothing"
    else:
        assert min(began) > 0
    # A handshake needs its TLS state and its flight.
    assert max(grown) < 1_000 + 100 * max(began), (grown, began)
    with bystander(nginx, mpq):
        hostile.flood(nginx.port, flights)
    assert loud_lines(nginx) == []


def reordered(seed: int):
    shuffle = random.Random(seed)

    def mangle(flight):
        shuffle.shuffle(flight)
        # Some come twice.
        return flight + [item for item in flight if shuffle.random() < 0.3]
    return mangle


def truncated(seed: int):
    """The first three flights end too early; what is sent again comes whole."""
    cut = random.Random(seed)
    flights = 0

    def mangle(flight):
        nonlocal flights
        flights += bool(flight)
        return [item[:cut.randrange(1, len(item))] for item in flight] if flights <= 3 else flight
    return mangle


def corrupted(seed: int):
    """One bit of every third datagram is wrong."""
    noise = random.Random(seed)

    def mangle(flight):
        for i, item in enumerate(flight):
            if noise.random() < 1 / 3:
                broken = bytearray(item)
                broken[noise.randrange(len(broken))] ^= 1 << noise.randrange(8)
                flight[i] = bytes(broken)
        return flight
    return mangle


@pytest.mark.parametrize("mangled", [reordered, truncated, corrupted])
def test_handshakes_come_through(server, mpq, mangled):
    def attack(n):
        # Few at a time: each waits for its timers, which begin at the RTT that the others leave it.
        for first in range(0, 60, 6):
            clients = [RawClient(server.port, mangled(60 * n + first + seed)) for seed in range(6)]
            for client in clients:
                client.request("/hello.txt")
            drive(clients, lambda client: client.ended)
            assert [client.status for client in clients] == [200] * 6
            for client in clients:
                client.mangle = lambda flight: flight
                client.quic.close()
                client.transmit()
    # Fifteen of 180 connections.
    assert_flat(left_behind(server, attack, 4, lambda: bystander(server, mpq)))
    assert loud_lines(server) == []


def test_handshakes_that_stop_anywhere(make_nginx, mpq):
    nginx = make_nginx(server=CONFIGURATION, http="client_header_timeout 2s; keepalive_timeout 2s;")

    class Stopping(RawClient):
        """Sends no more than so many flights."""

        def __init__(self, flights: int):
            self.flights, self.held_back = flights, 0
            super().__init__(nginx.port, self.mangle_)

        def mangle_(self, flight):
            if not flight:
                return []
            self.flights -= 1
            self.held_back += self.flights < 0
            return flight if self.flights >= 0 else []

    def attack(_):
        clients = [Stopping(n % 5) for n in range(200)]
        for client in clients:
            client.request("/8m.bin")
        # What is not sent is sent again, so all come to where they stop, or the server gives up a slow one.
        drive(clients, lambda client: client.held_back or client.quic._close_event)
        for client in clients:
            client.vanish()
        until_left_alone(nginx)
    # A fifth of the connections that stays is 3 MB a round.
    assert_flat(left_behind(nginx, attack, 4, lambda: bystander(nginx, mpq)))
    assert loud_lines(nginx) == []


def test_slow_readers(make_nginx, mpq):
    """They grant 64 KB and no more, so the server can neither send nor forget, until send_timeout."""
    nginx = make_nginx(server=CONFIGURATION + "send_timeout 10s;", http="keepalive_timeout 10s;")

    grown, before = [], heap_kb(nginx)

    def attack(_):
        clients = [RawClient(nginx.port, max_data=65536, max_stream_data=65536) for _ in range(40)]
        for client in clients:
            client.quic._write_connection_limits = lambda **_: None
            client.quic._write_stream_limits = lambda **_: None
            for _ in range(4):
                client.request("/8m.bin")
        drive(clients, lambda client: len(client.body) > 50_000)
        assert metric(nginx, "nginx_quic_connections") >= 40
        assert all(len(client.body) <= 65536 for client in clients)
        grown.append(heap_kb(nginx) - before)
        drive(clients, lambda client: client.quic._close_event is not None)
        until_left_alone(nginx)
    assert_flat(left_behind(nginx, attack, 3, lambda: bystander(nginx, mpq)))
    # Of each stream, what nginx has read and what the transport has taken and may not send; of each connection, what
    # it may send.
    print("heap meanwhile:", grown)
    assert max(grown) < 40 * (4 * (64 + 64 + 32) + 64 + 100), grown
    # 408 is what nginx logs for a client that timed out.
    assert sum(" 408 " in line or " 200 " in line for line in nginx.access() if "/8m.bin" in line) >= 3 * 160
    assert loud_lines(nginx) == []


def test_ten_thousand_resets(server, mpq):
    async def resets(count):
        async with h3.connection(server.port) as client:
            for n in range(count):
                while client.quic._local_next_stream_id_bidi // 4 >= client.quic._remote_max_streams_bidi:
                    # Until the server has seen resets and allows more.
                    await asyncio.sleep(0.005)
                stream = client.start("/8m.bin")
                client.waiters[stream].add_done_callback(lambda waiter: waiter.exception())
                if n % 2:
                    # With the request on its way; else both go in one datagram.
                    client.transmit()
                client.reset(stream)
            return (await client.request("/hello.txt")).status

    def attack(_):
        assert h3.run(resets(1000)) == 200
    # 60 bytes of each request.
    assert_flat(left_behind(server, attack, 10, lambda: bystander(server, mpq)))
    assert loud_lines(server) == []


def test_many_requests_beside_a_long_one(make_nginx):
    """What a request needs is given back at its end, not when the connection has nothing more to do."""
    server = make_nginx(server=CONFIGURATION)

    async def conversation():
        async with h3.connection(server.port, max_stream_data=65536) as client:
            # The window of this one never opens again.
            client.quic._write_stream_limits = lambda **_: None
            client.start("/8m.bin")
            client.transmit()

            async def requests(count):
                for _ in range(count // 20):
                    answers = await asyncio.gather(*(client.request("/hello.txt") for _ in range(20)))
                    assert [answer.status for answer in answers] == [200] * 20
                    client.responses = {0: client.responses[0]}
                    client.waiters = {0: client.waiters[0]}
            await requests(1000)
            before = await heap()
            await requests(8000)
            return await heap() - before

    async def heap():
        return await asyncio.to_thread(heap_kb, server)
    # 40 bytes of each request.
    grown = h3.run(conversation())
    assert grown <= 320, grown


def test_all_paths_open_and_gone(make_nginx, mpq, held):
    nginx = make_nginx(server=f"{CONFIGURATION} quic_max_paths 8; {held.location}", http="keepalive_timeout 3s;")

    def attack(_):
        clients = [subprocess.Popen(
            [mpq.binary, "get", "-q", "--no-verify", "-o", "/dev/null",
             *(f"--path=127.0.0.{n}" for n in range(1, 9)), f"https://127.0.0.1:{nginx.port}/held"],
            stderr=subprocess.DEVNULL) for _ in range(15)]
        try:
            nginx.wait_for(lambda: metric(nginx, "nginx_quic_paths") >= 15 * 8, "paths do not open")
        finally:
            for client in clients:
                client.kill()
                client.wait()
        with bystander(nginx, mpq, "hello.txt"):
            pass
        until_left_alone(nginx)
    # 60 connections of dead clients, with eight paths each.
    assert_flat(left_behind(nginx, attack, 3))
    assert loud_lines(nginx) == []


def test_oversize_headers(server, mpq):
    async def refused(size, count):
        async with h3.connection(server.port) as client:
            outcomes = []
            for n in range(count):
                headers = {f"x-{i}": "v" * 4000 for i in range(size // 4000)} or {"x": "v" * size}
                try:
                    outcomes.append((await client.request("/hello.txt", headers=headers)).status)
                except ConnectionError as error:
                    outcomes.append(str(error))
            return outcomes

    def attack(_):
        assert h3.run(refused(3_000, 3)) == [200] * 3
        for size in (40_000, 200_000, 1_000_000):
            for _ in range(5):
                outcomes = h3.run(refused(size, 1))
                assert outcomes[0] != 200, size
    # All of it is more than 6 MB a round.
    assert_flat(left_behind(server, attack, 4, lambda: bystander(server, mpq)))
    text = server.errors()
    assert "client sent too large" in text or "client sent too long" in text or "header" in text
    assert loud_lines(server) == []
