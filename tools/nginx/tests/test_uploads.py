"""Request bodies: as fast as the network is, and no more in memory than an upstream that is slow leaves there."""
import collections
import http.server
import re
import threading
import time

import pytest

import h3
import hostile
from upstream import Server

BODY = bytes(range(256)) * 4096 * 8     # 8 MiB


class Upstream:
    """An HTTP/1.1 server that reads bodies; no more than `at_first` octets of each until `go` is set."""

    def __init__(self, path, at_first: float = float("inf")):
        upstream = self
        self.received = 0
        self.whole = []
        self.go = threading.Event()

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                length, digest = int(self.headers["content-length"]), hostile.hashlib.sha256()
                left = length
                while left:
                    if length - left >= at_first:
                        upstream.go.wait()
                    part = self.rfile.read1(min(left, 16384))
                    if not part:
                        return
                    digest.update(part)
                    left -= len(part)
                    upstream.received += len(part)
                upstream.whole.append(digest.hexdigest())
                self.send_response(200)
                self.send_header("content-length", "2")
                self.end_headers()
                self.wfile.write(b"ok")

            def log_message(self, *_):
                pass
        self.path = path
        self.server = Server(path, Handler)


@pytest.fixture
def upstream(base):
    made = []

    def make(**options):
        made.append(Upstream(base / f"upstream{len(made)}.sock", **options))
        return made[-1]
    yield make
    for item in made:
        item.go.set()
        item.server.close()


def proxied(upstream, buffering: str) -> str:
    return (f"client_max_body_size 0; location = /upload {{ proxy_pass http://unix:{upstream.path}; "
            f"proxy_request_buffering {buffering}; proxy_http_version 1.1; }}")


@pytest.mark.parametrize("buffering", ["on", "off"])
def test_whole(make_nginx, upstream, buffering):
    back = upstream()
    nginx = make_nginx(server=proxied(back, buffering))
    answer = h3.fetch(nginx.port, "/upload", method="POST", body=BODY, headers={"content-length": str(len(BODY))})
    assert (answer.status, answer.body) == (200, b"ok")
    assert back.whole == [hostile.hashlib.sha256(BODY).hexdigest()]


class FarClient(hostile.RawClient):
    """Its datagrams take their time, so that the round trip is no matter of the processor's speed."""

    DELAY_S = 0.1

    def __init__(self, port: int):
        self.on_the_way = collections.deque()
        super().__init__(port, mangle=self.delay)

    def delay(self, flight):
        now = time.monotonic()
        self.on_the_way.extend((now + self.DELAY_S, data) for data in flight)
        due = []
        while self.on_the_way and self.on_the_way[0][0] <= now:
            due.append(self.on_the_way.popleft()[1])
        return due


def granted(nginx, size: int) -> int:
    """The largest window that a client sees while it uploads: what it may send beyond what has been read."""
    client = FarClient(nginx.port)
    hostile.drive([client], lambda client: client.quic._handshake_complete)
    stream = client.quic.get_next_available_stream_id()
    client.http.send_headers(stream, [
        (b":method", b"POST"), (b":scheme", b"https"), (b":authority", b"localhost"), (b":path", b"/upload"),
        (b"content-length", str(size).encode())])
    client.http.send_data(stream, bytes(size), end_stream=True)
    largest = 0

    def step(client):
        nonlocal largest
        sender = client.quic._streams.get(stream)
        if sender is not None:
            largest = max(largest, sender.max_stream_data_remote - sender.sender.highest_offset)
        return client.ended
    hostile.drive([client], step)
    assert client.status == 200
    return largest


@pytest.mark.parametrize("directive, low, high", [
    ("", 1_000_000, 4 * 1024 * 1024 + 65536),
    ("quic_receive_window 256k;", 100_000, 256 * 1024),
    # Never less than http3_stream_buffer_size, which is 64 KB.
    ("quic_receive_window 1k;", 50_000, 65536),
    ("quic_receive_window 1k; http3_stream_buffer_size 512k;", 400_000, 512 * 1024),
])
def test_window(make_nginx, upstream, directive, low, high):
    """It grows from http3_stream_buffer_size to quic_receive_window while nginx takes what comes."""
    back = upstream()
    nginx = make_nginx(server=directive + proxied(back, "off"))
    window = granted(nginx, len(BODY))
    assert low <= window <= high, window


def test_slow_upstream_holds_back_the_client(make_nginx, upstream):
    """Without buffering, what the upstream has not read is bounded by the window, and others are not held up."""
    back = upstream(at_first=200_000)
    nginx = make_nginx(server="quic_receive_window 256k;" + proxied(back, "off"))
    h3.fetch(nginx.port, "/8m.bin")
    before = hostile.heap_kb(nginx)
    clients = []
    for _ in range(10):
        client = hostile.RawClient(nginx.port)
        hostile.drive([client], lambda client: client.quic._handshake_complete)
        stream = client.quic.get_next_available_stream_id()
        client.http.send_headers(stream, [
            (b":method", b"POST"), (b":scheme", b"https"), (b":authority", b"localhost"), (b":path", b"/upload"),
            (b"content-length", str(len(BODY)).encode())])
        client.http.send_data(stream, BODY, end_stream=True)
        clients.append((client, stream))

    seen = []

    def is_over() -> bool:
        """Whether the windows are used, and nothing has come of it that nginx answered others."""
        h3.fetch(nginx.port, "/hello.txt")
        for client, stream in clients:
            client.step()
            sender = client.quic._streams[stream]
            hostile.drive([client], lambda _: sender.sender.highest_offset == sender.max_stream_data_remote)
        # What the clients have sent and the upstream has not read.
        seen.append(sum(client.quic._streams[stream].sender.highest_offset for client, stream in clients) - back.received)
        return len(seen) >= 5 and len(set(seen[-5:])) == 1
    nginx.wait_for(is_over, "the clients go on")
    # Each has used its first window, and may have its last one in nginx and what the socket to the upstream holds.
    assert 10 * 65536 <= seen[-1] < 10 * 600_000, seen
    # It has a window of each, and what it takes to keep a connection.
    held = hostile.heap_kb(nginx) - before
    assert held < 10 * 500, held
    assert len(h3.fetch(nginx.port, "/8m.bin").body) == 8_000_000
    for client, _ in clients:
        client.quic.close()
        client.transmit()


def test_mistakes(make_nginx):
    run = make_nginx(start=False, server="quic_receive_window much;").test()
    assert run.returncode != 0 and re.search(r'"quic_receive_window" directive invalid value', run.stderr)
