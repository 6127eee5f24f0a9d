"""quic_path: what a path may be used for, by where it comes from; and why there is no second one."""
import select
import socket
import threading

import pytest

import h3
from relay import Relay
from test_handover import status

APPLICATION_ABANDON_PATH = 0x3e

# A path that is refused is so once it is validated. Until then it carries up to three times what its client sent on it
# (RFC 9000, 8.1), which is some packets of a window of 10.
USED_BYTES = 150_000


def watch(nginx, mpq, **get):
    """Downloads 3 MB, and returns mpq's report and what the status page said of that connection while it lasted."""
    seen = []
    done = threading.Event()

    def poll():
        while not done.is_set():
            # Of those with several paths or several requests; not the one that asks.
            seen.extend(c for c in status(nginx)["connections"] if c["multipath"])
            done.wait(0.1)

    poller = threading.Thread(target=poll)
    poller.start()
    try:
        with Relay(nginx.port) as relay:
            body, report = mpq.get(relay.url("3m.bin"), paths=("127.0.0.1", "127.0.0.3"), **get)
            stats = relay.stats()
    finally:
        done.set()
        poller.join()
    assert body == (nginx.content / "www/3m.bin").read_bytes()
    assert seen
    return report, stats, seen


def test_refuse(make_nginx, mpq):
    nginx = make_nginx(server="quic_multipath on; quic_path refuse 127.0.0.3;")
    report, stats, seen = watch(nginx, mpq)
    assert stats["127.0.0.3"]["down_bytes"] < USED_BYTES, stats
    why, = {c["why_one_path"] for c in seen[-3:]}
    assert why.startswith("quic_path refused the one from 127.0.0.3:")
    # And the client says so.
    assert any("abandoned" in unused and f"0x{APPLICATION_ABANDON_PATH:x}" in unused
               for unused in map(str, report["unused_paths"])), report["unused_paths"]
    assert status(nginx)["workers"][0]["paths_refused"] >= 1
    assert 'refused by "quic_path"' in (nginx.directory / "logs/error.log").read_text()


def test_the_last_path_is_not_refused(make_nginx, mpq):
    nginx = make_nginx(server="quic_multipath on; quic_path refuse all;")
    _, stats, _ = watch(nginx, mpq)
    assert sum(link["down_bytes"] > USED_BYTES for link in stats.values()) == 1, stats


def test_standby(make_nginx, mpq):
    nginx = make_nginx(server="quic_multipath on; quic_path standby 127.0.0.0/30; quic_path use 127.0.0.1;")
    # Both match the first rule: nothing is there that works without standing by, so the first goes on.
    _, stats, seen = watch(nginx, mpq)
    # At its end: a path is there for a moment before it is ruled on.
    both = [c for c in seen if len(c["paths"]) == 2]
    assert [p["our_status"] for p in both[-1]["paths"]] == ["backup", "backup"]
    assert stats["127.0.0.1"]["down_bytes"] > USED_BYTES

    nginx = make_nginx(server="quic_multipath on; quic_path use 127.0.0.1; quic_path standby 127.0.0.0/30;")
    report, stats, seen = watch(nginx, mpq)
    assert stats["127.0.0.3"]["down_bytes"] < USED_BYTES, stats
    both = [c for c in seen if len(c["paths"]) == 2]
    assert [p["our_status"] for p in both[-1]["paths"]] == ["available", "backup"]
    assert both[-1]["why_one_path"] == ""
    assert len(report["paths"]) == 2


def test_rules_of_a_server_replace_those_of_http(make_nginx, mpq):
    nginx = make_nginx(http="quic_path refuse all;", server="quic_multipath on; quic_path use 127.0.0.0/8;")
    _, stats, _ = watch(nginx, mpq)
    assert all(link["down_bytes"] > USED_BYTES for link in stats.values()), stats


@pytest.mark.parametrize("server, why", [
    ("", "quic_multipath is off"),
    ("quic_multipath on;", "the client does not do multipath"),
])
def test_why_one_path(make_nginx, server, why):
    nginx = make_nginx(server=server)
    h3.fetch(nginx.port, "/6.txt")
    assert why in {c["why_one_path"] for c in status(nginx)["connections"]}


@pytest.mark.parametrize("server, why", [
    ("quic_multipath on; quic_max_paths 1;", "quic_max_paths allows one"),
    ("quic_multipath on;", "the client opened no other"),
])
def test_why_a_client_that_can_has_one_path(make_nginx, mpq, server, why):
    nginx = make_nginx(server=server, location="limit_rate 1m;")
    seen = []
    done = threading.Event()

    def poll():
        while not done.wait(0.1):
            seen.extend(c["why_one_path"] for c in status(nginx)["connections"] if c["multipath"])

    poller = threading.Thread(target=poll)
    poller.start()
    try:
        mpq.get(f"https://127.0.0.1:{nginx.port}/3m.bin", paths=("127.0.0.1",))
    finally:
        done.set()
        poller.join()
    assert why in seen, seen


class Forger(threading.Thread):
    """Carries datagrams to nginx by the addresses that clients have, but some of `victim`'s as if from `forged`, where
    nothing that comes back is read."""

    EVERY = 3

    def __init__(self, port: int, victim: str, forged: str):
        super().__init__()
        self.server = ("127.0.0.1", port)
        self.victim = victim
        self.front = bound("127.0.0.9")
        self.forged = bound(forged)
        self.back: dict[tuple[str, int], socket.socket] = {}
        self.count = self.forgeries = 0
        self.done = threading.Event()
        self.start()

    def run(self):
        while not self.done.is_set():
            for ready in select.select([self.front, *self.back.values()], [], [], 0.1)[0]:
                data, sender = ready.recvfrom(65536)
                if ready is self.front:
                    self.carry(data, sender)
                else:
                    client = next(client for client, back in self.back.items() if back is ready)
                    self.front.sendto(data, client)

    def carry(self, data: bytes, client: tuple[str, int]):
        if client not in self.back:
            self.back[client] = bound(client[0])
        out = self.back[client]
        if client[0] == self.victim:
            self.count += 1
            if self.count % self.EVERY == 0:
                self.forgeries += 1
                out = self.forged
        out.sendto(data, self.server)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.done.set()
        self.join()
        for each in (self.front, self.forged, *self.back.values()):
            each.close()


def bound(address: str) -> socket.socket:
    out = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    out.bind((address, 0))
    return out


def test_a_forged_address_is_not_judged(make_nginx, mpq):
    """Who sends on a datagram of somebody else from a refused address does not end that client's path."""
    nginx = make_nginx(server="quic_multipath on; quic_path refuse 127.0.0.5;", location="limit_rate 1m;")
    with Forger(nginx.port, victim="127.0.0.3", forged="127.0.0.5") as forger:
        url = f"https://127.0.0.9:{forger.front.getsockname()[1]}/3m.bin"
        body, report = mpq.get(url, paths=("127.0.0.1", "127.0.0.3"))
    assert body == (nginx.content / "www/3m.bin").read_bytes()
    assert forger.forgeries > 0
    assert status(nginx)["workers"][0]["paths_refused"] == 0
    assert len(report["paths"]) == 2
