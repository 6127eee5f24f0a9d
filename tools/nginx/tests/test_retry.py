"""Retry, tokens and what they are bound to."""
import contextlib
import os
import signal
import subprocess
import time

import h3
from hostile import RawClient, drive, metric
from raw import OnceClient, fetch_once, stopped, waiting_octets
from upstream import Download

RETRY = "quic_retry on;"


def retried(client) -> bool:
    return client.quic._retry_count > 0


def until_retry(client: OnceClient) -> None:
    """The Retry has come, and the answer to it waits."""
    client.hold = True
    client.release_first()
    drive([client], lambda c: retried(c) and c.held)
    assert len(client.held) == 1


class RetriedClient(OnceClient):
    """Goes on after the Retry only when told."""

    def release_first(self) -> None:
        self.hold = True
        for data in self.first:
            self.socket.sendto(data, self.peer)

    def __init__(self, *args, **options):
        self.first = None
        super().__init__(*args, **options)

    def once(self, flight):
        out = super().once(flight)
        if self.first is None:
            self.first = out
            return []
        return out


def test_retry_before_a_reload(make_nginx):
    # Without quic_host_key, and with an old worker that has nothing to do: it is gone before the client is back.
    nginx = make_nginx(server=RETRY)
    old = nginx.workers()
    client = RetriedClient(nginx.port)
    until_retry(client)
    nginx.reload()
    nginx.wait_for(lambda: not set(old) & set(nginx.workers()), "the old worker stays")
    client.release()
    fetch_once(nginx, client)
    assert client.quic._retry_count == 1


def test_retry_before_an_upgrade(make_nginx):
    nginx = make_nginx(server=RETRY, daemon=True)
    old = nginx.pid()
    client = RetriedClient(nginx.port)
    until_retry(client)
    new = nginx.upgrade()
    try:
        os.kill(old, signal.SIGQUIT)
        nginx.wait_until_gone(old)
        client.release()
        fetch_once(nginx, client)
    finally:
        nginx.end(old, new)


def test_retry_of_a_worker_that_drains(make_nginx, mpq, held, tmp_path):
    # The connection ID of the Retry leads to the old worker, which lives on; the connection is the new one's.
    key = tmp_path / "host.key"
    key.write_bytes(bytes(range(64)))
    nginx = make_nginx(server=f"{RETRY} quic_host_key {key};" + held.location)
    old = nginx.workers()
    download = Download(mpq, nginx, held)
    client = RetriedClient(nginx.port)
    until_retry(client)
    nginx.reload()
    assert set(old) <= set(nginx.workers()), "the download does not keep its worker"
    new = set(nginx.workers()) - set(old)
    with stopped(new):
        # The old worker reads it, and hands it over.
        client.release()
        nginx.wait_for(lambda: max(waiting_octets(nginx.port)) == 0, "the old worker reads nothing")
    drive([client], lambda c: c.quic._handshake_complete)
    for _ in range(5):
        # Short packets that the old worker reads.
        with stopped(new):
            client.status, client.ended = 0, False
            client.request("/hello.txt")
            nginx.wait_for(lambda: max(waiting_octets(nginx.port)) == 0, "the old worker reads nothing")
        drive([client], lambda c: c.ended)
        assert client.status == 200
    assert metric(nginx, "nginx_quic_stateless_resets_total") == 0
    assert metric(nginx, "nginx_quic_handed_over_total") >= 6
    assert download.is_whole()


def test_retry_token_is_bound_to_its_connection_id(make_nginx, tmp_path):
    # Two hosts of a fleet with one quic_host_key. The reset token of a connection at the one must not be had by asking
    # the other for a connection with the same ID.
    key = tmp_path / "host.key"
    key.write_bytes(bytes(range(64)))
    ours, theirs = (make_nginx(server=f"{RETRY} quic_host_key {key};") for _ in range(2))
    victim = RawClient(theirs.port)
    fetch_once(theirs, victim)
    secret = victim.quic._peer_cid_available[0]
    assert len(secret.cid) == 20 and len(secret.stateless_reset_token) == 16
    # Workers of one host find each other; those of two hosts do not.
    theirs.stop()
    attacker = RetriedClient(ours.port)
    until_retry(attacker)
    # As if that had been the ID in the Retry.
    quic = attacker.quic
    attacker.held = []
    quic._peer_cid.cid = secret.cid
    quic._retry_source_connection_id = secret.cid
    attacker.hold = False
    quic._initialize(secret.cid)
    quic._connect(now=time.monotonic())
    attacker.transmit()
    # It is told why not.
    drive([attacker], lambda c: c.quic._handshake_complete or c.quic._close_event)
    assert quic._peer_cid.stateless_reset_token != secret.stateless_reset_token
    assert quic._peer_cid.cid != secret.cid or not quic._handshake_complete
    assert not quic._handshake_complete


def test_connection_after_a_retry_has_an_id_of_its_own(make_nginx):
    nginx = make_nginx(server=RETRY)
    client = RetriedClient(nginx.port)
    until_retry(client)
    given = client.quic._peer_cid.cid
    client.release()
    fetch_once(nginx, client)
    assert client.quic._peer_cid.cid != given and len(given) == 20


def big_certificate(directory):
    names = ",".join(f"DNS:name{n:04}.example.net" for n in range(400))
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
                    "-days", "2", "-subj", "/CN=big", "-addext", f"subjectAltName={names}",
                    "-keyout", directory / "big.key", "-out", directory / "big.pem"], check=True, capture_output=True)


class SilentClient(RawClient):
    """Sends its first datagram, and no other."""

    def __init__(self, *args, **options):
        self.sent = 0
        super().__init__(*args, mangle=self.first, **options)

    def first(self, flight):
        if self.sent or not flight:
            return []
        self.sent = sum(map(len, flight))
        return flight

    def octets(self) -> int:
        """What the server has sent since the last time."""
        got = 0
        with contextlib.suppress(BlockingIOError):
            while True:
                got += len(self.socket.recv(65536))
        return got


def test_token_of_an_earlier_connection_lifts_the_limit(make_nginx):
    nginx = make_nginx(start=False)
    big_certificate(nginx.content)
    nginx.write(server=RETRY)
    nginx.config.write_text(nginx.config.read_text().replace("server.pem", "big.pem").replace("server.key", "big.key"))
    nginx.start()
    tokens = []

    async def conversation():
        async with h3.connection(nginx.port, tokens=tokens) as client:
            await client.request("/hello.txt")
    h3.run(conversation())
    assert tokens
    with_token = SilentClient(nginx.port, token=tokens[-1])
    # The whole flight of more than 10 KB, and not three times what the client has sent.
    got = []
    nginx.wait_for(lambda: got.append(with_token.octets()) or sum(got) >= 10_000, "not the whole flight")
    assert metric(nginx, "nginx_quic_retries_total") >= 1
    nginx.write()
    nginx.config.write_text(nginx.config.read_text().replace("server.pem", "big.pem").replace("server.key", "big.key"))
    nginx.reload()
    without = SilentClient(nginx.port)
    # Whatever it sends of its own accord, it has sent before the answer to one who comes later.
    h3.fetch(nginx.port, "/hello.txt")
    assert 0 < without.octets() <= 3 * without.sent
