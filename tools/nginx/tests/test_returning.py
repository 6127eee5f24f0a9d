"""quic_careful_resume: clients that come back, with what was seen of their paths in a token that they keep."""
import asyncio
import json
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

import h3
from hostile import RawClient, drive
from relay import BYTES_PER_SECOND, Relay
from test_handover import status

RESUMES = "quic_multipath on; quic_congestion_control olia; quic_careful_resume 10m;"
TWO = ("127.0.0.1", "127.0.0.3")

COUNTERS = ("resume_tokens", "paths_resumed", "paths_unknown", "paths_expired", "paths_used", "resume_tokens_garbage")


def counted(nginx) -> dict[str, int]:
    workers = status(nginx)["workers"]
    return {name: sum(worker[name] for worker in workers) for name in COUNTERS}


def until(nginx, **counters) -> None:
    nginx.wait_for(lambda: counted(nginx).items() >= counters.items(), f"{counters}, but {counted(nginx)}")


class Client:
    """mpq get over links of 8 Mbit/s, 25 ms away, with a file for what it keeps."""

    def __init__(self, nginx, mpq, relay):
        self.nginx, self.mpq, self.relay = nginx, mpq, relay
        self.kept = mpq.directory / "kept"

    def learn(self) -> dict:
        """A visit that lasts until the server has said what it knows of both paths."""
        log = self.nginx.directory / "logs/error.log"
        with ThreadPoolExecutor(1) as pool:
            visit = pool.submit(self.get, "30m.bin")
            self.nginx.wait_for(lambda: visit.done() or "windows of 2 paths in it" in log.read_text(), "no token")
            assert not visit.done(), visit.result()
            self.set_rates(100 * BYTES_PER_SECOND)
            report = visit.result()
        self.set_rates(BYTES_PER_SECOND)
        return report

    def set_rates(self, bytes_per_second: int) -> None:
        for client in TWO:
            self.relay.set_rate(client, bytes_per_second)

    def get(self, name: str = "3m.bin", paths=TWO, *options):
        # One attempt at a handshake, however slow: a second one would begin with the same token, which is good for one.
        kept = f"--session={self.kept}", "--attempt-delay=10000"
        body, report = self.mpq.get(self.relay.url(name), *kept, *options, paths=paths)
        assert body == (self.nginx.content / "www" / name).read_bytes()
        return report

    @property
    def entry(self):
        """What is kept of the only server."""
        entry, = json.loads(self.kept.read_text())["servers"].values()
        return entry

    def put_token(self, token: str) -> None:
        kept = json.loads(self.kept.read_text())
        for entry in kept["servers"].values():
            entry["token"] = token
        self.kept.write_text(json.dumps(kept))


@pytest.fixture
def visit(make_nginx, mpq):
    relays = []

    def make(server: str = RESUMES, **options) -> Client:
        nginx = make_nginx(server=server, **options)
        relays.append(Relay(nginx.port, delay_ms=25))
        return Client(nginx, mpq, relays[-1])

    yield make
    for relay in relays:
        relay.close()


def test_both_paths_resume_once(visit):
    client = visit()
    assert not client.learn()["connections"][0]["resumed"]
    assert counted(client.nginx)["paths_resumed"] == 0
    first = client.entry["token"]
    assert client.get()["connections"][0]["resumed"]
    until(client.nginx, paths_resumed=2, paths_unknown=0, paths_used=0)
    assert 'quic path 1 resumes' in (client.nginx.directory / "logs/error.log").read_text()

    # The same token again, as if somebody had kept it.
    assert client.entry["token"] != first
    client.put_token(first)
    client.get("hello.txt")
    until(client.nginx, paths_resumed=2)
    assert counted(client.nginx)["paths_used"] >= 1


def test_another_network(visit):
    client = visit()
    client.learn()
    client.get(paths=("127.0.0.3", "127.0.0.4"))
    until(client.nginx, paths_resumed=1, paths_unknown=1)


def test_expired(visit):
    client = visit("quic_multipath on; quic_congestion_control olia; quic_careful_resume 1s;")
    client.get()
    time.sleep(2.1)
    client.get("hello.txt", TWO[:1])
    until(client.nginx, paths_expired=1, paths_resumed=0)


def test_changed_token(visit):
    # The last token of a visit may arrive when the client has left; the one before is worth nothing if it says more.
    for _ in range(5):
        client = visit()
        client.kept.unlink(missing_ok=True)
        client.get()
        token = client.entry["token"]
        for at in (0, len(token) // 2, len(token) - 1):
            client.put_token(token[:at] + ("1" if token[at] == "0" else "0") + token[at + 1:])
            client.get("hello.txt", TWO[:1])
        until(client.nginx, resume_tokens_garbage=3, paths_resumed=0)
        client.put_token(token)
        client.get("hello.txt", TWO[:1])
        client.nginx.wait_for(lambda: sum(counted(client.nginx)[name] for name in ("paths_resumed", "paths_used")), "no answer")
        if counted(client.nginx)["paths_resumed"]:
            return
    raise AssertionError(counted(client.nginx))


def test_reload_and_workers(visit):
    # The table is that of all workers, of both generations.
    client = visit(workers=2)
    client.learn()
    client.nginx.reload()
    client.get()
    until(client.nginx, resume_tokens_garbage=0)
    assert counted(client.nginx)["paths_resumed"] == 2, counted(client.nginx)


def test_off(visit):
    client = visit("quic_multipath on; quic_congestion_control olia;")
    client.get()
    assert client.entry["token"] is None
    client.put_token("ab" * 262)
    client.get("hello.txt")
    assert not any(counted(client.nginx).values())


@pytest.mark.parametrize("key", [False, True])
def test_retry_is_spared(make_nginx, tmp_path, key):
    # One token does both: of each address that the connection had, and what was seen there.
    (tmp_path / "host.key").write_bytes(bytes(range(64)))
    host_key = f"quic_host_key {tmp_path}/host.key;" if key else ""
    nginx = make_nginx(server=f"quic_retry on; {RESUMES} {host_key}")
    tokens = []

    async def conversation():
        async with h3.connection(nginx.port, tokens=tokens) as client:
            await client.request("/hello.txt")
            while not tokens:
                await asyncio.sleep(0.01)

    h3.run(conversation())
    assert len(tokens[-1]) == 262
    for token, retries in ((tokens[-1], 0), (tokens[-1][:-1] + bytes([tokens[-1][-1] ^ 1]), 1), (None, 1)):
        client = RawClient(nginx.port, token=token or b"")
        drive([client], lambda c: c.quic._handshake_complete)
        assert client.quic._retry_count == retries


def test_early_data_and_a_second_path(visit):
    client = visit(f"{RESUMES} ssl_early_data on;")
    client.learn()
    report = client.get()
    assert report["connections"][0]["early_data"] == "accepted"
    until(client.nginx, paths_resumed=2)
    assert min(path["recv_bytes"] for path in report["paths"]) > 300_000, report["paths"]


def test_early_data_refused_and_a_second_path(visit):
    client = visit(f"{RESUMES} ssl_early_data on;")
    client.learn()
    # Other tickets, and the memory remains.
    client.nginx.reload()
    report = client.get()
    assert report["connections"][0]["early_data"] == "rejected"
    until(client.nginx, paths_resumed=2)
    assert min(path["recv_bytes"] for path in report["paths"]) > 300_000, report["paths"]
