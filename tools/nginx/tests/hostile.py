"""What misbehaving clients are made of, and what must hold while they do."""
import contextlib
import hashlib
import random
import re
import socket
import ssl
import threading
import time

from aioquic.h3.connection import H3_ALPN, H3Connection
from aioquic.h3.events import DataReceived, HeadersReceived
from aioquic.quic.configuration import QuicConfiguration
from aioquic.quic.connection import QuicConnection
from aioquic.quic.events import StreamReset

import h3
from conftest import LIMIT_SECONDS
from relay import Relay

# What clients can bring about is worth a line at "info"; these levels are for the administrator.
LOUD = re.compile(r"\[(warn|error|crit|alert|emerg)\]")


def loud_lines(nginx) -> list[str]:
    text = (nginx.directory / "logs/error.log").read_text(errors="replace")
    return [line for line in text.splitlines() if LOUD.search(line)]


@contextlib.contextmanager
def bystander(nginx, mpq, name: str = "1m.bin"):
    """Downloads run, one after the other, meanwhile; each must be whole. Their links have a fixed rate, so that what the
    server holds for them is the same on every machine: less than 1 MB. Yields the list of their seconds."""
    want = hashlib.sha256((nginx.content / "www" / name).read_bytes()).hexdigest()
    over, taken, problems = threading.Event(), [], []

    def download(relay):
        while not (over.is_set() and taken) and not problems:
            began = time.monotonic()
            try:
                # One attempt at a handshake, however slow, for those who count connections.
                body, _ = mpq.get(relay.url(name), "--attempt-delay=10000", paths=("127.0.0.1", "127.0.0.3"))
                if hashlib.sha256(body).hexdigest() != want:
                    problems.append("a download came with the wrong SHA-256")
            except Exception as error:
                problems.append(str(error))
            taken.append(time.monotonic() - began)

    with Relay(nginx.port) as relay:
        thread = threading.Thread(target=download, args=(relay,))
        thread.start()
        try:
            yield taken
        finally:
            over.set()
            thread.join()
    print("downloads of a bystander, s:", *(f"{seconds:.1f}" for seconds in taken))
    assert not problems, f"{problems}\n{nginx.errors()}"


def heap_kb(nginx) -> int:
    """What the workers have allocated. Unlike resident memory it does not depend on what the allocator keeps, nor on when
    it came to keep it. AddressSanitizer's does not count: 0."""
    return metric(nginx, "nginx_quic_heap_bytes") // 1024


def left_behind(nginx, attack, rounds: int, beside=contextlib.nullcontext) -> list[int]:
    """Runs attack(n) for round n = 0, 1 ..., each within beside(); returns what the heap has more than before the first
    after each, when no connection is left, in KB."""
    def when_alone() -> int:
        # The question itself is one, and is closed at once.
        nginx.wait_for(lambda: metric(nginx, "nginx_quic_connections") <= 1, "connections stay")
        return heap_kb(nginx)
    before, kept = when_alone(), []
    for n in range(rounds):
        with beside():
            attack(n)
        kept.append(when_alone() - before)
    print(f"heap: {before} KB before, then after rounds", *(f"{kb:+}" for kb in kept))
    return kept


# Between equal states: tables that have grown, what the allocator keeps by the size. One connection is 35 KB.
SLACK_KB = 500


def assert_flat(kept: list[int]) -> None:
    """Equal rounds leave nothing behind, whatever the first does."""
    assert kept[-1] - kept[0] <= SLACK_KB, f"equal rounds leave something behind, KB: {kept}"


def metric(nginx, name: str) -> int:
    """A figure of the status page, all workers together."""
    text = h3.fetch(nginx.port, "/status?format=prometheus").body.decode()
    values = re.findall(rf"^{name}(?:{{.*}})? (\d+)$", text, re.MULTILINE)
    assert values, f"no {name} in {text[:500]}"
    return sum(map(int, values))


def configuration(**options) -> QuicConfiguration:
    return QuicConfiguration(is_client=True, alpn_protocols=H3_ALPN, server_name="localhost",
                             verify_mode=ssl.CERT_NONE, **options)


class RawClient:
    """A connection on a socket of its own, whose every datagram the caller sees before it goes out.

    `mangle(flight)` takes the datagrams that are to be sent, and returns those that will be; `host` is the client's
    address; `prepare(quic)` changes aioquic's connection before it begins."""

    def __init__(self, port: int, mangle=lambda flight: flight, host: str = "127.0.0.1", prepare=lambda quic: None,
                 **options):
        self.peer = ("127.0.0.1", port)
        self.mangle = mangle
        self.quic = QuicConnection(configuration=configuration(**options))
        prepare(self.quic)
        self.http = H3Connection(self.quic)
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.bind((host, 0))
        self.socket.setblocking(False)
        self.status, self.headers, self.body, self.ended, self.was_reset = 0, {}, b"", False, False
        self.quic.connect(self.peer, now=time.monotonic())
        self.transmit()

    def transmit(self) -> None:
        flight = [data for data, _ in self.quic.datagrams_to_send(now=time.monotonic())]
        for data in self.mangle(flight):
            # A full buffer is a loss.
            with contextlib.suppress(BlockingIOError, ConnectionRefusedError):
                self.socket.sendto(data, self.peer)

    def step(self) -> None:
        """Take what has come, let timers expire, answer."""
        with contextlib.suppress(BlockingIOError, ConnectionRefusedError):
            while True:
                data, _ = self.socket.recvfrom(65535)
                self.quic.receive_datagram(data, self.peer, now=time.monotonic())
        timer = self.quic.get_timer()
        if timer is not None and timer <= time.monotonic():
            self.quic.handle_timer(now=time.monotonic())
        while event := self.quic.next_event():
            self.was_reset = self.was_reset or isinstance(event, StreamReset)
            for item in self.http.handle_event(event):
                if isinstance(item, HeadersReceived):
                    # Trailers come the same way.
                    self.headers |= dict(item.headers)
                    self.status = int(self.headers[b":status"])
                elif isinstance(item, DataReceived):
                    self.body += item.data
                self.ended = self.ended or getattr(item, "stream_ended", False)
        self.transmit()

    def request(self, path: str) -> None:
        self.http.send_headers(self.quic.get_next_available_stream_id(), [
            (b":method", b"GET"), (b":scheme", b"https"), (b":authority", b"localhost"),
            (b":path", path.encode())], end_stream=True)
        self.transmit()

    def vanish(self) -> None:
        """As when the power goes."""
        self.socket.close()


def drive(clients: list[RawClient], done) -> None:
    """Run all until done(client) holds for each. A connection that has ended before that is an error."""
    end = time.monotonic() + LIMIT_SECONDS
    while waiting := [client for client in clients if not done(client)]:
        closed = [client.quic._close_event for client in waiting if client.quic._close_event]
        assert not closed, f"{len(closed)} of {len(clients)} connections have ended: {closed[0]}"
        assert time.monotonic() < end, f"{len(waiting)} of {len(clients)} clients hang"
        for client in waiting:
            client.step()
        time.sleep(0.001)


def pause(clients: list[RawClient], seconds: float) -> None:
    """Run all for so long at least, for what time alone brings about."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        for client in clients:
            client.step()
        time.sleep(0.001)


def until_quiet(clients: list[RawClient]) -> None:
    """Run all until they have acknowledged what has come: who has not, is not idle to the server."""
    for client in clients:
        client.step()
    drive(clients, lambda client: client.quic._close_event or all(
        space.ack_at is None for space in client.quic._spaces.values()))


def datagrams(seed: int, count: int):
    """Noise of all sizes; half of it begins like a packet of this or another version."""
    noise = random.Random(seed)
    sizes = (0, 1, 5, 6, 7, 20, 21, 22, 40, 100, 1200, 1500)
    heads = (b"\xc3\0\0\0\x01\x08", b"\xc3\0\0\0\x01\xff", b"\xe3\0\0\0\x01\x14", b"\xf3\0\0\0\x01\x08",
             b"\xd3\0\0\0\x01\x08", b"\xc0\0\0\0\0\x08", b"\xcf\xba\xba\xba\xba\x08", b"\x40", b"\x7f")
    for _ in range(count):
        head = noise.choice(heads) if noise.random() < 0.5 else b""
        yield head + noise.randbytes(noise.choice(sizes))


def flood(port: int, items) -> int:
    """Send as fast as the kernel takes it; returns how many it took."""
    sent = 0
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        s.connect(("127.0.0.1", port))
        for item in items:
            with contextlib.suppress(ConnectionRefusedError):
                s.send(item)
                sent += 1
    return sent
