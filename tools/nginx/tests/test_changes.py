"""What nginx's change log says of HTTP/3 and QUIC, from 1.25.0 to 1.28.3, side by side with nginx's own QUIC.

docs/nginx-parity.md goes through the entries and names the cases here and elsewhere. As in test_parity.py, both must
come to the same; cases of `DIFFERENT` do not, and say why; those of `OPEN` do not yet."""
import asyncio
import contextlib
import signal
import socket
import time

import pytest
from aioquic.buffer import Buffer
from aioquic.quic.crypto import CryptoPair
from aioquic.quic.packet import pull_quic_header
from aioquic.tls import Epoch

import h3
import hostile
from conftest import LIMIT_SECONDS
from hostile import RawClient, drive, pause
from raw import stopped
# Fixtures too.
from test_parity import (OTHER, answered, answers, assert_same, both, certificate_of, checked, get,  # noqa: F401
                         graceful_quit, show, stock)

REQUEST = [(b":method", b"GET"), (b":scheme", b"https")]


def end_of(client) -> int | None:
    """The error with which a connection was closed."""
    event = client.quic._close_event
    return event and int(event.error_code)


def asked(client, path="/hello.txt", headers=((b":authority", b"localhost"),)):
    """One more request: its status, or how the connection ended instead, and the header that tells what was seen."""
    client.status, client.headers, client.body, client.ended = 0, {}, b"", False
    client.http.send_headers(client.quic.get_next_available_stream_id(),
                             [*REQUEST, (b":path", path.encode()), *headers], end_stream=True)
    client.transmit()
    drive([client], lambda client: client.ended or client.quic._close_event)
    return client.status or end_of(client), client.headers.get(b"x-seen", b"").decode()


def named(name: str):
    """Another server name in the handshake."""
    def prepare(quic):
        quic.configuration.server_name = name
    return prepare


# What clients see.

def false_key_update(server):
    """A packet that looks as if its keys had been updated, and has the old ones, is lost, and nothing else is."""
    client = RawClient(server.port)
    seen = [asked(client)]
    crypto = client.quic._cryptos[Epoch.ONE_RTT]
    crypto.recv.key_phase ^= 1
    client.quic.send_ping(1)
    client.transmit()
    crypto.recv.key_phase ^= 1
    return [*seen, asked(client, "/1m.bin"), len(client.body)]


def negotiation_by_a_client(server):
    """A Version Negotiation packet is not answered, as a packet of an unknown version is."""
    head = b"\x08destinat\x04from"
    negotiation = (b"\xc0\0\0\0\0" + head + b"\0\0\0\x01").ljust(1200, b"\0")
    unknown = (b"\xc0\x1a\x2a\x3a\x4a" + head).ljust(1200, b"\0")
    nothing, something = answers(server.port, negotiation, unknown)
    return nothing, something[1:5]


def with_parameters(change):
    """How a connection ends whose client changes its transport parameters; and how often nginx complains of itself."""
    def see(server):
        def prepare(quic):
            original = quic._serialize_transport_parameters
            quic._serialize_transport_parameters = lambda: change(original())
        client = RawClient(server.port, prepare=prepare)
        # A request shows whether the connection lasts.
        asked(client)
        log = server.directory / "logs/error.log"
        alerts = log.read_text().count("[alert]")
        log.write_text(log.read_text().replace("[alert]", "[counted]"))
        return end_of(client), client.quic._handshake_complete, alerts
    return see


def large(parameters: bytes) -> bytes:
    """With one that nobody knows (RFC 9000, 18.1), so that the client's first flight is two datagrams."""
    return parameters + b"\x5a\x9a\x44\xb0" + bytes(1200)


def to_first_packet(frames: bytes):
    """The error that answers a client whose first packet has these frames."""
    def see(server):
        destination, overhead = b"destinat", 16
        crypto = CryptoPair()
        crypto.setup_initial(cid=destination, is_client=True, version=1)
        size = 1200 - 26 - overhead
        head = (b"\xc3\0\0\0\x01\x08" + destination + b"\x04from\0"
                + (0x4000 | (4 + size + overhead)).to_bytes(2, "big") + bytes(4))
        answer, = answers(server.port, crypto.encrypt_packet(head, frames.ljust(size, b"\0"), 0))
        if not answer:
            return None
        buffer = Buffer(data=answer)
        header = pull_quic_header(buffer, host_cid_length=4)
        _, payload, _ = crypto.decrypt_packet(answer[:header.packet_length], buffer.tell(), 0)
        frame = Buffer(data=payload.lstrip(b"\0"))
        return frame.pull_uint_var() == 0x1c and frame.pull_uint_var()
    return see


def late_crypto(epoch: Epoch, message: bytes):
    """TLS messages after the handshake: with the client's Finished, or in a 1-RTT packet."""
    def see(server):
        def prepare(quic):
            push = quic._push_crypto_data

            def pushed():
                finished = quic._crypto_buffers[Epoch.HANDSHAKE].tell() > 0
                push()
                if finished and epoch is Epoch.HANDSHAKE:
                    quic._crypto_streams[epoch].sender.write(message)
            quic._push_crypto_data = pushed
        client = RawClient(server.port, prepare=prepare)
        drive([client], lambda client: client.quic._handshake_complete)
        if epoch is Epoch.ONE_RTT:
            asked(client)
            client.quic._crypto_streams[epoch].sender.write(message)
            client.transmit()
        return asked(client)
    return see


def frame(kind: int, *fields: int, during: str | None = None):
    """How a connection ends in which the client sends a frame of its own making, after a request, or while the response
    to one for `during` has only begun: nobody need know a stream for longer."""
    def see(server):
        client = RawClient(server.port)
        if during:
            drive([client], lambda client: client.quic._handshake_complete)
            client.request(during)
        else:
            asked(client)

        written = []

        def write(builder, uids):
            written.append(kind)
            buffer = builder.start_frame(kind, capacity=8 * len(fields) + 8)
            for field in fields:
                buffer.push_uint_var(field)
        client.quic._write_ping_frame = write
        client.quic.send_ping(0)
        client.transmit()
        # The client's pacer may hold it back.
        drive([client], lambda client: written)
        del client.quic._write_ping_frame
        status, _ = asked(client)
        # The status may be that of the response under way.
        return end_of(client) or status
    return see


def ticket_of(server, **options):
    tickets = []

    async def conversation():
        async with h3.connection(server.port, tickets=tickets, **options) as client:
            await client.request("/hello.txt")
            while not tickets:
                await asyncio.sleep(0.01)
    h3.run(conversation())
    return tickets[-1]


def requests_after_early_data(server):
    """The time limit of handshakes ends with this one, and keys of early data take nothing else with them."""
    client = RawClient(server.port, session_ticket=ticket_of(server))
    seen = [asked(client)]
    pause([client], 4)
    return [*seen, client.quic.tls.early_data_accepted, asked(client), asked(client, "/1m.bin"), len(client.body)]


def late_early_data(server):
    """A packet of early data that comes when that is long over, with a frame that is an error wherever it is read."""
    client = RawClient(server.port, session_ticket=ticket_of(server))
    crypto = client.quic._cryptos[Epoch.ZERO_RTT]
    crypto.send.teardown = lambda: None
    seen = [asked(client), asked(client)]
    peer, own, number = client.quic._peer_cid.cid, client.quic.host_cid, client.quic._packet_number + 100
    payload = b"\x2f".ljust(64, b"\0")
    head = (b"\xd3\0\0\0\x01" + bytes([len(peer)]) + peer + bytes([len(own)]) + own
            + (0x4000 | (4 + len(payload) + 16)).to_bytes(2, "big") + number.to_bytes(4, "big"))
    client.socket.sendto(crypto.encrypt_packet(head, payload, number), client.peer)
    return seen, asked(client)


def ticket_at_another_server(server):
    """A ticket is worth nothing where client certificates are asked for, if it is not from there."""
    ticket = ticket_of(server)
    again = asked(RawClient(server.port, session_ticket=ticket))
    # aioquic would not use it.
    ticket.server_name = "other.test"
    client = RawClient(server.port, session_ticket=ticket, prepare=named("other.test"))
    return again, asked(client, headers=[(b":authority", b"other.test")])


def lost_response(server):
    """All that nginx sends is lost while keepalive_timeout passes, the end of a response too: it comes nevertheless."""
    client = RawClient(server.port)
    drive([client], lambda client: client.quic._handshake_complete)
    # Its own patience is longer.
    client.quic._remote_max_idle_timeout = None
    asked(client)
    client.status, client.headers, client.ended = 0, {}, False
    client.http.send_headers(client.quic.get_next_available_stream_id(), [
        *REQUEST, (b":authority", b"localhost"), (b":path", b"/1m.bin"), (b"range", b"bytes=0-4999")], end_stream=True)
    end = time.monotonic() + 4
    while time.monotonic() < end:
        client.quic.send_ping(0)
        client.transmit()
        time.sleep(0.1)
        with contextlib.suppress(BlockingIOError):
            while True:
                client.socket.recv(65535)
    client.body = b""
    while not client.ended and not client.quic._close_event:
        # Never idle.
        client.quic.send_ping(0)
        pause([client], 0.2)
    return client.status, len(client.body), end_of(client)


def datagrams_grow(server):
    """Beyond what every path takes (RFC 9000, 14)."""
    sizes = []

    def prepare(quic):
        receive = quic.receive_datagram

        def received(data, *rest, **options):
            sizes.append(len(data))
            receive(data, *rest, **options)
        quic.receive_datagram = received
    client = RawClient(server.port, prepare=prepare)
    return asked(client, "/8m.bin"), max(sizes) > 1200


def hosts(*requests):
    """What a server takes for the host, with these headers."""
    def see(server):
        return [asked(RawClient(server.port), headers=headers) for headers in requests]
    return see


def trailers(server):
    client = RawClient(server.port)
    return asked(client), client.headers.get(b"x-end")


def resets(*sizes):
    """Which of the datagrams, of these sizes, of an unknown connection are answered with a shorter one."""
    def see(server):
        got = answers(server.port, *(b"\x41" + bytes([n]) * (size - 1) for n, size in enumerate(sizes)))
        return [bool(answer) and answer[0] & 0xc0 == 0x40 and 21 <= len(answer) < size
                for size, answer in zip(sizes, got)]
    return see


def resets_at_once(server):
    """How many answers one address gets for many datagrams that are read at once: few enough for some seconds."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        s.connect(("127.0.0.1", server.port))
        with stopped(server.workers()):
            for n in range(50):
                s.send(b"\x41" + bytes([n]) * 99)
        h3.fetch(server.port, "/hello.txt")
        count = len(list(iter(lambda: answered(s), b"")))
    return 1 <= count <= 3


def quit_then_stop(server):
    """Told to stop while it waits for a response to end, nginx does, and finds nothing that it forgot."""
    async def conversation():
        async with h3.connection(server.port) as client:
            stream = await client.begin("/8m.bin")
            server.master.send_signal(signal.SIGQUIT)
            server.wait_for(lambda: server.workers("is shutting down"), "it does not wait")
            server.master.send_signal(signal.SIGTERM)
            return await asyncio.to_thread(server.master.wait, LIMIT_SECONDS)
    return h3.run(conversation()), "open socket" in server.errors()


def unanswered(server):
    """A request's status and how the connection ends, or neither where nginx says that its time is up."""
    client = RawClient(server.port)
    client.request("/hello.txt")
    drive([client], lambda client: client.quic._close_event or "client timed out" in server.errors())
    return client.status, end_of(client)


PORT, NO_PORT = b"localhost:8443", b"localhost"
VERIFIES = OTHER.replace("root", "ssl_verify_client on; ssl_client_certificate {content}/client.pem; root").replace(
    show("other"), show("$ssl_client_verify", "$ssl_session_reused"))
BY_NAME = ("ssl_certificate {content}/$ssl_server_name.pem; ssl_certificate_key {content}/$ssl_server_name.key;"
           "ssl_certificate_cache max=10;")

# name: (configuration, what to see)
CASES = {
    # 1.25.2
    "datagrams grow": (dict(), datagrams_grow),
    # 1.25.4
    "listen backlog": (dict(listen="127.0.0.1:{port} quic backlog=10"), checked),
    "listen fastopen": (dict(listen="127.0.0.1:{port} quic fastopen=10"), checked),
    "listen deferred": (dict(listen="127.0.0.1:{port} quic deferred"), checked),
    "listen so_keepalive": (dict(listen="127.0.0.1:{port} quic so_keepalive=on"), checked),
    "false key update": (dict(), false_key_update),
    "aio, quit": (dict(server="aio threads;"), graceful_quit),
    "quit, then stop": (dict(server="limit_rate 100k;"), quit_then_stop),
    # 1.25.5, 1.27.4
    "requests after early data": (dict(server="client_header_timeout 3s; ssl_early_data on;"),
                                  requests_after_early_data),
    # 1.27.0
    "right parameters": (dict(), with_parameters(lambda parameters: parameters)),
    "right parameters, two datagrams": (dict(), with_parameters(large)),
    "TLS after Finished": (dict(), late_crypto(Epoch.HANDSHAKE, 3 * b"\x18\0\0\x01\0")),
    "TLS in the first packet": (dict(), to_first_packet(b"\x06\0\x04\x09\0\0\0")),
    # 1.27.2
    "ssl_verify_client alone": (dict(server="ssl_verify_client on; ssl_trusted_certificate {content}/client.pem;"),
                                get("/hello.txt")),
    "trailers": (dict(server="add_trailer x-end done;"), trailers),
    # 1.27.4
    "negotiation by a client": (dict(), negotiation_by_a_client),
    "ticket at another server": (dict(server=show("$ssl_session_reused"), servers=VERIFIES), ticket_at_another_server),
    # As root, as nobody else may read the keys.
    "ssl_certificate_cache": (dict(main="user root;", tls=False, server=BY_NAME + show("$ssl_server_name")),
                              certificate_of("other")),
    # 1.27.5
    "response lost at keepalive_timeout": (dict(server="keepalive_timeout 3s;"), lost_response),
    # 1.28.1
    "port of the host": (dict(server=show("$host", "$http_host")), hosts(
        [(b":authority", PORT)], [(b":authority", PORT), (b"host", PORT)], [(b"host", PORT)],
        [(b":authority", NO_PORT), (b"host", NO_PORT)], [(b":authority", b"[::1]:8443"), (b"host", b"[::1]:8443")],
        [(b":authority", NO_PORT), (b"host", PORT)], [(b":authority", b"one"), (b"host", b"other")],
        [(b":authority", b"")], [])),
    # 1.28.3
    "stateless resets by size": (dict(), resets(22, 40, 41, 42, 43, 44, 100, 1200, 1400)),
    "stateless resets at once": (dict(), resets_at_once),
    # 1.27.1: keys of early data are thrown away when the first packet with others has come (RFC 9001, 4.9.3).
    "early data after the handshake": (dict(server="ssl_early_data on;"), late_early_data),
    # 1.25.3: the client is told of an error that is found while its first flight is read.
    "STREAM in the first packet": (dict(), to_first_packet(b"\x0a\0\x01x")),
    "unknown frame in the first packet": (dict(), to_first_packet(b"\x2f")),
    # 1.27.0
    "parameter of servers": (dict(), with_parameters(lambda parameters: parameters + b"\0\x08abcdefgh")),
    "parameter of servers, two datagrams": (dict(), with_parameters(
        lambda parameters: large(parameters) + b"\0\x08abcdefgh")),
    "parameter beyond the end": (dict(), with_parameters(lambda parameters: parameters + b"\x40\x99\x04\x01")),
    "parameter too large": (dict(), with_parameters(
        lambda parameters: parameters.replace(b"\x0a\x01\x03", b"\x0a\x01\x15"))),
    # 1.31.4; before, nginx knows while a stream is open, and nobody need know it for longer (RFC 9000, 4.5)
    "other final size": (dict(), frame(0x04, 0, 0, 10, during="/8m.bin")),
}

# name: (configuration, what to see, what comes of it here, and with nginx's own QUIC)
DIFFERENT = {
    # RFC 9001, 6: a KeyUpdate message is an error. nginx does not look at TLS messages after the handshake.
    "TLS in 1-RTT": (dict(), late_crypto(Epoch.ONE_RTT, b"\x18\0\0\x01\0"), (0x10a, ""), (200, "")),
    # A connection is worth one request, which nginx does not answer.
    "keepalive_timeout 0": (dict(server="keepalive_timeout 0;"), unanswered, (200, 0x100), (0, None)),
}


@pytest.mark.parametrize("case", CASES)
def test_same_as_stock(both, case):
    assert_same(both, *CASES[case])


@pytest.mark.parametrize("case", DIFFERENT)
def test_different_from_stock(both, case):
    configuration, see, here, there = DIFFERENT[case]
    assert both(configuration, see) == [here, there]


def test_no_transport_parameters(both):
    """RFC 9000, 7.3 and 18.2: a client's must have its connection ID. 8 is as good as TLS's missing_extension."""
    ours, stocks = both(dict(), with_parameters(lambda parameters: b""))
    assert {ours[0], stocks[0]} <= {0x08, 0x16d}


def test_one_connection_for_all_that_follow_a_retry(make_nginx):
    """1.25.3: what a client sends again after a Retry leads to the connection that it has begun."""
    nginx = make_nginx(server="quic_retry on;")
    client = RawClient(nginx.port, mangle=lambda flight: [data for data in flight for _ in range(3)])
    assert asked(client)[0] == 200
    client.quic.close()
    client.transmit()
    # And the one that asks, and is sent a Retry too.
    assert hostile.metric(nginx, "nginx_quic_accepted_total") == 2
