#!/usr/bin/env python3
"""Fetch URLs over HTTP/3 with aioquic, on one connection, one after the other.

One line of JSON per URL goes to standard output: status, headers, size and
SHA-256 of the body.

example:
  aioquic_get.py --ca cert.pem https://localhost:4433/a https://localhost:4433/b
"""
import argparse
import asyncio
import hashlib
import json
import sys
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from aioquic.asyncio.client import connect
from aioquic.asyncio.protocol import QuicConnectionProtocol
from aioquic.h3.connection import H3_ALPN, H3Connection
from aioquic.h3.events import DataReceived, HeadersReceived
from aioquic.quic.configuration import QuicConfiguration
from aioquic.quic.events import ConnectionTerminated, StreamReset


@dataclass
class Response:
    status: int = 0
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""

    @property
    def sha256(self) -> str:
        return hashlib.sha256(self.body).hexdigest()


class Client(QuicConnectionProtocol):
    """An HTTP/3 connection."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.http = H3Connection(self._quic)
        self.responses: dict[int, Response] = {}
        self.waiters: dict[int, asyncio.Future] = {}

    async def get(self, url: str, byte_range: str | None = None) -> Response:
        """Fetch a URL, or of it a range such as "0-99"."""
        parts = urlsplit(url)
        headers = [
            (b":method", b"GET"),
            (b":scheme", b"https"),
            (b":authority", parts.netloc.encode()),
            (b":path", (parts.path or "/").encode()),
        ]
        if byte_range:
            headers.append((b"range", f"bytes={byte_range}".encode()))

        stream_id = self._quic.get_next_available_stream_id()
        self.responses[stream_id] = Response()
        self.waiters[stream_id] = self._loop.create_future()
        self.http.send_headers(stream_id, headers, end_stream=True)
        self.transmit()
        return await self.waiters[stream_id]

    def quic_event_received(self, event):
        if isinstance(event, ConnectionTerminated):
            self._fail(f"connection closed: {event.error_code:#x} {event.reason_phrase}")
        elif isinstance(event, StreamReset):
            self._fail(f"stream {event.stream_id} reset: {event.error_code:#x}")

        for http_event in self.http.handle_event(event):
            if http_event.stream_id not in self.responses:
                continue
            response = self.responses[http_event.stream_id]
            if isinstance(http_event, HeadersReceived):
                headers = {name.decode(): value.decode() for name, value in http_event.headers}
                response.status = int(headers.pop(":status"))
                response.headers = headers
            elif isinstance(http_event, DataReceived):
                response.body += http_event.data
            if http_event.stream_ended and not self.waiters[http_event.stream_id].done():
                self.waiters[http_event.stream_id].set_result(response)

    def _fail(self, why: str) -> None:
        for waiter in self.waiters.values():
            if not waiter.done():
                waiter.set_exception(ConnectionError(why))


@asynccontextmanager
async def connection(url: str, ca: str):
    """A Client for the server of a URL, whose certificate `ca` vouches for."""
    configuration = QuicConfiguration(is_client=True, alpn_protocols=H3_ALPN)
    configuration.load_verify_locations(cafile=ca)
    parts = urlsplit(url)
    async with connect(
        parts.hostname, parts.port or 443, configuration=configuration, create_protocol=Client
    ) as client:
        yield client


async def run(options: argparse.Namespace) -> None:
    async with connection(options.urls[0], options.ca) as client:
        for url in options.urls:
            response = await client.get(url, options.range)
            print(json.dumps({
                "url": url,
                "status": response.status,
                "headers": response.headers,
                "bytes": len(response.body),
                "sha256": response.sha256,
            }))


def main() -> int:
    summary, _, examples = __doc__.partition("\n\nexample:")
    parser = argparse.ArgumentParser(
        description=summary,
        epilog="example:" + examples,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("urls", nargs="+", metavar="URL", help="all of one server")
    parser.add_argument("--ca", required=True, metavar="FILE", help="certificate to trust, PEM")
    parser.add_argument("--range", metavar="FIRST-LAST", help="only these bytes")
    parser.add_argument("--timeout", type=float, default=30, metavar="SECONDS",
                        help="for all URLs together (default: %(default)s)")
    options = parser.parse_args()

    try:
        asyncio.run(asyncio.wait_for(run(options), options.timeout))
    except TimeoutError:
        print(f"aioquic_get: no answer within {options.timeout} s; does the server listen there?",
              file=sys.stderr)
        return 1
    except OSError as error:
        print(f"aioquic_get: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
