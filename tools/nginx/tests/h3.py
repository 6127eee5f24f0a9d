"""HTTP/3 with aioquic, for the tests: a client that knows nothing of multipath."""
import asyncio
import socket
import ssl
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from aioquic.asyncio.client import connect
from aioquic.asyncio.protocol import QuicConnectionProtocol
from aioquic.h3.connection import H3_ALPN, H3Connection
from aioquic.h3.events import DataReceived, HeadersReceived
from aioquic.quic.configuration import QuicConfiguration
from aioquic.quic.events import ConnectionTerminated, StreamReset

from conftest import LIMIT_SECONDS


@dataclass
class Response:
    status: int = 0
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""


class Client(QuicConnectionProtocol):
    """An HTTP/3 connection."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.http = H3Connection(self._quic)
        self.responses: dict[int, Response] = {}
        self.waiters: dict[int, asyncio.Future] = {}
        self.terminated: ConnectionTerminated | None = None

    def start(self, path: str, method: str = "GET", headers: dict[str, str] | None = None,
              end: bool = True) -> int:
        """Send a request's header; returns the stream."""
        stream = self._quic.get_next_available_stream_id()
        if method == "HEAD":
            # aioquic would miss the body that content-length announces.
            self.http._check_content_length = lambda stream: None
        self.responses[stream] = Response()
        self.waiters[stream] = self._loop.create_future()
        self.http.send_headers(stream, [
            (b":method", method.encode()),
            (b":scheme", b"https"),
            (b":authority", b"localhost"),
            (b":path", path.encode()),
            *((name.encode(), value.encode()) for name, value in (headers or {}).items()),
        ], end_stream=end)
        return stream

    async def request(self, path: str, method: str = "GET", headers: dict[str, str] | None = None,
                      body: bytes | None = None) -> Response:
        stream = self.start(path, method, headers, end=body is None)
        if body is not None:
            self.http.send_data(stream, body, end_stream=True)
        self.transmit()
        return await self.waiters[stream]

    async def begin(self, path: str, **request) -> int:
        """Send a request, and wait for the first bytes of its response; returns the stream."""
        stream = self.start(path, **request)
        self.transmit()
        while not self.responses[stream].body:
            await asyncio.sleep(0.01)
        return stream

    def reset(self, stream: int) -> None:
        """Cancel a request, in both directions."""
        self._quic.reset_stream(stream, 0x10c)
        self._quic.stop_stream(stream, 0x10c)
        self.transmit()

    @property
    def quic(self):
        return self._quic

    def quic_event_received(self, event):
        if isinstance(event, ConnectionTerminated):
            self.terminated = event
            self._fail(f"connection closed: {event.error_code:#x} {event.reason_phrase}")
        elif isinstance(event, StreamReset):
            waiter = self.waiters.get(event.stream_id)
            if waiter and not waiter.done():
                waiter.set_exception(ConnectionError(f"stream reset: {event.error_code:#x}"))

        for http_event in self.http.handle_event(event):
            stream = getattr(http_event, "stream_id", None)
            if stream not in self.responses:
                continue
            response = self.responses[stream]
            if isinstance(http_event, HeadersReceived):
                headers = {name.decode(): value.decode() for name, value in http_event.headers}
                # Trailers have none.
                response.status = int(headers.pop(":status", response.status))
                response.headers |= headers
            elif isinstance(http_event, DataReceived):
                response.body += http_event.data
            if http_event.stream_ended and not self.waiters[stream].done():
                self.waiters[stream].set_result(response)

    def _fail(self, why: str) -> None:
        for waiter in self.waiters.values():
            if not waiter.done():
                waiter.set_exception(ConnectionError(why))
                # Nobody may be waiting for it.
                waiter.exception()


@asynccontextmanager
async def connection(port: int, host: str = "127.0.0.1", name: str = "localhost",
                     wait_connected: bool = True, tickets: list | None = None,
                     tokens: list | None = None, **options):
    """A Client of the server at host and port, whose certificate is not checked. `tickets` and `tokens` gather what
    the server gives for the next connection."""
    configuration = QuicConfiguration(
        is_client=True, alpn_protocols=H3_ALPN, server_name=name, verify_mode=ssl.CERT_NONE,
        **options,
    )
    async with connect(
        host, port, configuration=configuration, create_protocol=Client,
        wait_connected=wait_connected,
        session_ticket_handler=tickets.append if tickets is not None else None,
        token_handler=tokens.append if tokens is not None else None,
    ) as client:
        yield client


class _Forward(asyncio.DatagramProtocol):
    def __init__(self, client: Client):
        self.client = client

    def datagram_received(self, data, addr):
        self.client.datagram_received(data, addr)


async def rebind(client: Client, host: str | None = None) -> None:
    """Go on from another port, as behind a NAT that has forgotten, or from another IPv4 address."""
    # As aioquic's own: IPv6, for IPv4 too.
    sock = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
    sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
    sock.bind((f"::ffff:{host}" if host else "::", 0, 0, 0))
    client._transport, _ = await asyncio.get_running_loop().create_datagram_endpoint(
        lambda: _Forward(client), sock=sock)


def run(conversation):
    """Run a coroutine within the time limit."""
    return asyncio.run(asyncio.wait_for(conversation, LIMIT_SECONDS))


def fetch(port: int, path: str = "/", host: str = "127.0.0.1", name: str = "localhost",
          **request) -> Response:
    """One request on a connection of its own."""
    async def conversation():
        async with connection(port, host, name) as client:
            return await client.request(path, **request)
    return run(conversation())
