"""TLS and connection establishment: what nginx's configuration says about it still holds."""
import asyncio
import socket
import struct

import pytest

import h3
import hostile
from conftest import LIMIT_SECONDS


async def until(condition) -> None:
    """Within the limit of all conversations."""
    while not condition():
        await asyncio.sleep(0.01)


def retried(quic) -> bool:
    """Whether a client was sent a Retry. How many, the server's figure, depends on how often it had to ask."""
    return quic._retry_source_connection_id is not None


def test_retry(make_nginx, mpq):
    nginx = make_nginx(server="quic_multipath on; quic_retry on;", workers=2)
    assert h3.fetch(nginx.port, "/1m.bin").status == 200
    body, report = mpq.get(f"https://127.0.0.1:{nginx.port}/1m.bin",
                           paths=("127.0.0.1", "127.0.0.3"))
    assert len(body) == 1_000_000
    status = h3.fetch(nginx.port, "/status?format=prometheus").body.decode()
    retries = [line for line in status.splitlines() if line.startswith("nginx_quic_retries_total{")]
    assert sum(int(line.split()[1]) for line in retries) >= 2


def test_forged_token(make_nginx):
    nginx = make_nginx(server="quic_retry on;")

    async def conversation():
        async with h3.connection(nginx.port, token=b"forged" * 12) as client:
            return await client.request("/hello.txt")
    assert h3.run(conversation()).status == 200
    assert "quic garbage token" in nginx.errors()


def test_token_spares_the_retry(make_nginx):
    nginx = make_nginx(server="quic_retry on; quic_multipath on;", workers=2)
    tokens = []

    async def conversation(**options):
        async with h3.connection(nginx.port, tokens=tokens, **options) as client:
            response = await client.request("/hello.txt")
            await until(lambda: tokens)
            return response.status, retried(client.quic)

    assert h3.run(conversation()) == (200, True)
    assert len(tokens) == 1
    assert h3.run(conversation(token=tokens[0])) == (200, False)
    # One byte of it is wrong.
    forged = bytes([*tokens[0][:-1], tokens[0][-1] ^ 1])
    assert h3.run(conversation(token=forged)) == (200, True)


def test_token_is_for_one_address(make_nginx):
    nginx = make_nginx(server="quic_retry on;")
    tokens = []

    async def conversation():
        async with h3.connection(nginx.port, tokens=tokens) as client:
            response = await client.request("/hello.txt")
            await until(lambda: tokens)
            return response.status

    assert h3.run(conversation()) == 200
    elsewhere = hostile.RawClient(nginx.port, host="127.0.0.5", token=tokens[0])
    elsewhere.request("/hello.txt")
    hostile.drive([elsewhere], lambda client: client.ended)
    assert elsewhere.status == 200
    assert retried(elsewhere.quic)
    assert "quic invalid token" in nginx.errors()


def test_token_after_migration(make_nginx):
    nginx = make_nginx(server="quic_retry on;")
    tokens = []

    async def conversation():
        async with h3.connection(nginx.port, tokens=tokens) as client:
            await client.request("/hello.txt")
            await h3.rebind(client, "127.0.0.5")
            response = await client.request("/hello.txt")
            # One for either address.
            await until(lambda: len(tokens) >= 2)
            return response.status

    def needs_retry(token):
        client = hostile.RawClient(nginx.port, host="127.0.0.5", token=token)
        client.request("/hello.txt")
        hostile.drive([client], lambda client: client.ended)
        assert client.status == 200
        return retried(client.quic)

    assert h3.run(conversation()) == 200
    assert not needs_retry(tokens[1])
    assert needs_retry(tokens[0])


def test_no_token_without_retry(make_nginx):
    nginx = make_nginx()
    tokens = []

    async def conversation():
        async with h3.connection(nginx.port, tokens=tokens) as client:
            await client.request("/hello.txt")
            # Sent after the handshake, so it would be here before a second answer.
            await client.request("/hello.txt")

    h3.run(conversation())
    assert tokens == []


@pytest.mark.parametrize("early_data", ["on", "off"])
def test_resumption_and_early_data(make_nginx, early_data):
    nginx = make_nginx(
        server=f"ssl_early_data {early_data}; ssl_session_cache shared:tls:1m;"
               'location = /early { add_header x-early "$ssl_early_data"; '
               'add_header x-reused "$ssl_session_reused"; try_files /hello.txt =404; }')
    tickets = []

    async def first():
        async with h3.connection(nginx.port, tickets=tickets) as client:
            response = await client.request("/early")
            await until(lambda: tickets)
            return response

    async def second():
        async with h3.connection(nginx.port, session_ticket=tickets[-1], tickets=tickets,
                                 wait_connected=False) as client:
            return await client.request("/early")

    response = h3.run(first())
    assert response.status == 200 and tickets
    assert response.headers.get("x-reused", ".") == "."
    assert (tickets[-1].max_early_data_size or 0) == (0xffffffff if early_data == "on" else 0)

    response = h3.run(second())
    assert response.headers["x-reused"] == "r"
    assert response.headers.get("x-early", "") == ("1" if early_data == "on" else "")


def test_early_data_is_refused_after_limits_changed(make_nginx):
    # The tickets' key must outlive the reload.
    key = "ssl_early_data on; ssl_session_ticket_key {0}/ticket.key;"
    nginx = make_nginx(start=False)
    (nginx.directory / "ticket.key").write_bytes(bytes(range(80)))
    nginx.write(server=key.format(nginx.directory) + 'add_header x-early "$ssl_early_data";')
    nginx.start()
    tickets = []

    async def fetch(**options):
        async with h3.connection(nginx.port, tickets=tickets, wait_connected=False,
                                 **options) as client:
            response = await client.request("/hello.txt")
            await until(lambda: tickets)
            return response
    h3.run(fetch())
    assert h3.run(fetch(session_ticket=tickets[-1])).headers["x-early"] == "1"

    nginx.config.write_text(nginx.config.read_text().replace(
        "http3 on;", "http3 on; http3_max_concurrent_streams 7;"))
    nginx.reload()
    response = h3.run(fetch(session_ticket=tickets[-1]))
    assert response.status == 200 and "x-early" not in response.headers


def test_sni(make_nginx):
    nginx = make_nginx(start=False)
    nginx.write(
        listen=["127.0.0.1:{port} quic reuseport"],
        server='add_header x-server first;',
        servers=f"""server {{
            listen 127.0.0.1:{nginx.port} quic;
            server_name other.test;
            ssl_certificate {nginx.content}/other.pem; ssl_certificate_key {nginx.content}/other.key;
            add_header x-server second;
            location / {{ root {nginx.content}/www; }}
        }}""")
    nginx.start()

    async def conversation(name):
        async with h3.connection(nginx.port, name=name) as client:
            response = await client.request("/hello.txt")
            return client.quic.tls._peer_certificate.subject.rfc4514_string()
    assert h3.run(conversation("localhost")) == "CN=server"
    assert h3.run(conversation("other.test")) == "CN=other"


def test_client_certificate(make_nginx):
    nginx = make_nginx(start=False)
    nginx.write(server=f"ssl_verify_client on; ssl_client_certificate {nginx.content}/client.pem;"
                       'add_header x-client "$ssl_client_s_dn" always;')
    nginx.start()

    async def conversation(with_certificate):
        from aioquic.quic.configuration import QuicConfiguration
        configuration = QuicConfiguration()
        if with_certificate:
            configuration.load_cert_chain(nginx.content / "client.pem",
                                          nginx.content / "client.key")
        async with h3.connection(
                nginx.port, certificate=configuration.certificate,
                private_key=configuration.private_key) as client:
            return await client.request("/hello.txt")

    assert h3.run(conversation(False)).status == 400
    response = h3.run(conversation(True))
    assert (response.status, response.headers["x-client"]) == (200, "CN=client")


def test_version_negotiation(nginx):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        s.settimeout(LIMIT_SECONDS)
        s.connect(("127.0.0.1", nginx.port))

        def head(source):
            return struct.pack("!BIB8sB4s", 0xc0, 0x1a2a3a4a, 8, b"destinat", 4, source)
        s.send(head(b"from").ljust(1200, b"\0"))
        answer = s.recv(1500)
        assert answer[0] & 0x80 and answer[1:5] == bytes(4)
        assert answer[5:] [:5] == b"\x04from" and b"\x08destinat" in answer
        assert bytes([0, 0, 0, 1]) in answer[19:]
        # Not for datagrams that are smaller than an Initial: the next answer is to the one after it.
        s.send(head(b"tiny"))
        s.send(head(b"last").ljust(1200, b"\0"))
        assert s.recv(1500)[5:10] == b"\x04last"


def test_stateless_reset(nginx):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        s.settimeout(LIMIT_SECONDS)
        s.connect(("127.0.0.1", nginx.port))
        s.send(bytes([0x41]) + b"unknown connection id" + bytes(80))
        answer = s.recv(1500)
        assert 21 <= len(answer) < 102 and answer[0] & 0xc0 == 0x40


def test_keepalive_timeout(make_nginx):
    quick, patient = (make_nginx(http=f"keepalive_timeout {time};") for time in ("1s", "1h"))

    async def conversation():
        async with h3.connection(patient.port, idle_timeout=2 * LIMIT_SECONDS) as longer, \
                h3.connection(quick.port, idle_timeout=2 * LIMIT_SECONDS) as client:
            for each in (longer, client):
                await each.request("/hello.txt")
            await client.wait_closed()
            # What began to be idle before is not closed by anything else.
            assert (await longer.request("/hello.txt")).status == 200
    h3.run(conversation())


def test_rebinding(nginx):
    async def conversation():
        async with h3.connection(nginx.port) as client:
            assert (await client.request("/hello.txt")).status == 200
            await h3.rebind(client)
            return [await client.request("/1m.bin") for _ in range(3)]
    assert all(len(r.body) == 1_000_000 for r in h3.run(conversation()))
