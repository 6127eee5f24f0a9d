"""Datagrams at the wrong worker: none is lost without a counter, whoever is slow, new, old or dead; and nobody else
listens or talks."""
import contextlib
import errno
import json
import os
import re
import signal
import socket
import stat
import time
from pathlib import Path

import pytest

import h3
import hostile
from hostile import RawClient, drive, metric
from conftest import LIMIT_SECONDS
from raw import OnceClient, fetch_once, settled, stopped, waiting_octets
from upstream import Download, Held


def status(nginx) -> dict:
    return json.loads(h3.fetch(nginx.port, "/status").body)


def directory(nginx) -> Path:
    return nginx.directory / "nginx.pid.quic"


def established(nginx, client: RawClient) -> None:
    fetch_once(nginx, client)


def owner_of(nginx, client: RawClient) -> int:
    """The process that has the client's connection, and the others with none of its packets."""
    port = client.socket.getsockname()[1]
    # The tables are written once a second.
    end = time.monotonic() + LIMIT_SECONDS
    while time.monotonic() < end:
        client.step()
        found = [c["pid"] for c in status(nginx)["connections"]
                 if any(path["peer"].endswith(f":{port}") for path in c["paths"])]
        if found:
            return found[0]
        time.sleep(0.1)
    raise AssertionError("the status page does not know the client")


def short_packets(client: RawClient, count: int, size: int):
    """Noise with a connection ID of the client's connection."""
    cid = client.quic._peer_cid.cid
    for _ in range(count):
        yield b"\x40" + cid + os.urandom(size - 1 - len(cid))


def new_clients(nginx, others) -> list[OnceClient]:
    """Clients whose first flights are read while the processes `others` do not run."""
    with stopped(others):
        clients = [OnceClient(nginx.port) for _ in range(5)]
        nginx.wait_for(lambda: max(waiting_octets(nginx.port)) == 0, "the old worker reads nothing")
    return clients


def assert_served(nginx, clients: list[OnceClient]) -> None:
    drive(clients, lambda c: c.quic._handshake_complete)
    for client in clients:
        fetch_once(nginx, client)
    assert metric(nginx, "nginx_quic_dropped_total") == 0
    assert metric(nginx, "nginx_quic_stateless_resets_total") == 0


def test_a_burst_for_a_busy_worker_is_not_lost(make_nginx):
    nginx = make_nginx(workers=2)
    client = RawClient(nginx.port)
    established(nginx, client)
    owner = owner_of(nginx, client)
    before = settled(nginx, "handed_over", "handover_received")
    sockets = [socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(200)]
    with stopped([owner]):
        # Many ports: about half of them lead to the other worker, which has to hand over.
        for s, data in zip(sockets, short_packets(client, len(sockets), 100)):
            s.sendto(data, ("127.0.0.1", nginx.port))
        nginx.wait_for(lambda: min(waiting_octets(nginx.port)) == 0, "the other worker reads nothing")
    for s in sockets:
        s.close()
    fetch_once(nginx, client)
    assert "handover to another worker failed" not in nginx.errors()
    after = settled(nginx, "handed_over", "handover_received", "handover_dropped")
    assert after["handed_over"] - before["handed_over"] > 50
    assert after["handover_received"] == after["handed_over"]
    assert after["handover_dropped"] == 0


def test_what_is_too_much_for_a_worker_is_counted(make_nginx):
    nginx = make_nginx(workers=2)
    client = RawClient(nginx.port)
    established(nginx, client)
    owner = owner_of(nginx, client)
    # From the socket of a client of the other worker, so that this one has to hand over.
    while True:
        other = RawClient(nginx.port)
        established(nginx, other)
        if owner_of(nginx, other) != owner:
            break
    before = settled(nginx, "handover_received", "handover_dropped")
    sent = 0
    with stopped([owner]):
        while sent < 8000:
            for data in short_packets(client, 50, 1200):
                other.socket.sendto(data, other.peer)
                sent += 1
            nginx.wait_for(lambda: max(waiting_octets(nginx.port)) == 0, "the other worker reads nothing")
    fetch_once(nginx, client)
    after = settled(nginx, "handover_received", "handover_dropped")
    received = after["handover_received"] - before["handover_received"]
    dropped = after["handover_dropped"] - before["handover_dropped"]
    assert dropped > 0 and received > 2000
    # The client's own, and those of the connections that asked for the counters, may be among them.
    assert sent <= received + dropped <= sent + 200


def test_new_clients_at_a_draining_worker(make_nginx, mpq, held):
    nginx = make_nginx(workers=1, server="quic_multipath on;" + held.location)
    download = Download(mpq, nginx, held, "127.0.0.1")
    old = set(nginx.workers())
    nginx.reload()
    new = set(nginx.workers()) - old
    assert_served(nginx, new_clients(nginx, new))
    assert download.is_whole()


def test_draining_workers_are_on_the_status_page(make_nginx, mpq, held):
    def downloading(page) -> list[int]:
        return [c["pid"] for c in page["connections"] if c["paths"][0]["sent_bytes"] > Held.BEGINNING / 2]
    nginx = make_nginx(workers=2, server="quic_multipath on;" + held.location)
    download = Download(mpq, nginx, held, "127.0.0.1")
    nginx.wait_for(lambda: downloading(status(nginx)), "the download is not shown")
    owner, = downloading(status(nginx))
    nginx.reload()
    # The page comes from a new worker, the download goes on in an old one.
    nginx.wait_for(lambda: any(w["pid"] == owner and w["draining"] == 1 for w in status(nginx)["workers"]),
                   "the old worker is not shown")
    now = status(nginx)
    worker = next(w for w in now["workers"] if w["pid"] == owner)
    assert worker["connections"] == 1 and worker["generation"] < max(w["generation"] for w in now["workers"])
    assert downloading(now) == [owner]
    text = h3.fetch(nginx.port, "/status?format=prometheus").body.decode()
    assert re.search(rf'^nginx_quic_draining{{worker="\d+",pid="{owner}"}} 1$', text, re.MULTILINE)
    assert download.is_whole()
    nginx.wait_for(lambda: owner not in [w["pid"] for w in status(nginx)["workers"]], "it is there for ever")
    assert not [w for w in status(nginx)["workers"] if w["draining"]]


def test_binary_upgrade_loses_no_client(make_nginx, mpq, held):
    nginx = make_nginx(workers=1, server="quic_multipath on;" + held.location, daemon=True)
    download = Download(mpq, nginx, held, "127.0.0.1")
    old, old_workers = nginx.pid(), set(nginx.workers())
    new = nginx.upgrade()
    try:
        # The new worker's event loop: it is there when it has its socket.
        nginx.wait_for(lambda: len([w for w in status(nginx)["workers"]]) == 2, "the new worker is not there")
        os.kill(old, signal.SIGWINCH)
        nginx.wait_for(lambda: any(w["draining"] for w in status(nginx)["workers"]), "the old worker goes on")
        assert {w["pid"] for w in status(nginx)["workers"] if w["draining"]} == old_workers
        assert_served(nginx, new_clients(nginx, nginx.workers()))
        assert download.is_whole()
        os.kill(old, signal.SIGQUIT)
        nginx.wait_until_gone(old)
    finally:
        nginx.end(old, new)


def test_last_datagrams_of_a_worker_that_is_not_replaced(make_nginx):
    # With reuseport each worker has a socket. That of a worker which a reload leaves out is lost with the worker, and
    # so must not have anything in it.
    nginx = make_nginx(workers=2)
    old = nginx.workers()
    nginx.config.write_text(nginx.config.read_text().replace("worker_processes 2", "worker_processes 1"))
    with stopped(old):
        clients = [OnceClient(nginx.port) for _ in range(20)]
        os.kill(nginx.pid(), signal.SIGHUP)
        nginx.wait_for(lambda: len(set(nginx.workers()) - set(old)) == 1, "no new worker")
        # It is there when it has its socket.
        nginx.wait_for(lambda: len([p for p in directory(nginx).iterdir() if re.fullmatch("[0-9a-f]{6}", p.name)]) == 3,
                       "the new worker has no socket")
    drive(clients, lambda c: c.quic._handshake_complete)


def test_flights_of_two_datagrams_without_reuseport(make_nginx, monkeypatch):
    # All workers read one socket; the datagrams of a first flight must find one of them. Names of protocols that
    # nobody knows make this one long.
    nginx = make_nginx(workers=4, listen=["127.0.0.1:{port} quic"])
    monkeypatch.setattr(hostile, "H3_ALPN", ["h3"] + [f"{n:03}" * 60 for n in range(12)])
    clients = []
    for _ in range(20):
        with stopped(nginx.workers()):
            clients.append(OnceClient(nginx.port))
    assert all(c.sent_at_first > 1 for c in clients)
    drive(clients, lambda c: c.quic._handshake_complete)
    # And those that ask for the counters.
    assert settled(nginx, "dropped")["dropped"] == 0


def errno_as_somebody_else(where: Path, name: str) -> int:
    """What connecting to a socket in `where` gives another user, who stands there already: only the directory's own
    mode counts."""
    child = os.fork()
    if child == 0:
        # No exec: what is above the interpreter may be closed to others.
        code = 255
        try:
            os.chdir(where)
            os.setgroups([])
            os.setgid(12345)
            os.setuid(12345)
            code = socket.socket(socket.AF_UNIX).connect_ex(name)
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def test_only_the_workers_user_may_enter(make_nginx):
    nginx = make_nginx(workers=2)
    # Nothing by name in the network namespace.
    inodes = {os.readlink(fd)[8:-1] for pid in nginx.workers() for fd in Path(f"/proc/{pid}/fd").iterdir()
              if os.readlink(fd).startswith("socket:[")}
    names = [line.split()[-1] for line in Path("/proc/net/unix").read_text().splitlines()
             if len(line.split()) == 8 and line.split()[6] in inodes]
    assert names and not [name for name in names if name.startswith("@")]
    path = directory(nginx)
    info = path.stat()
    worker = Path(f"/proc/{nginx.workers()[0]}/status").read_text()
    user = int(re.search(r"Uid:\s+(\d+)", worker)[1])
    assert stat.S_IMODE(info.st_mode) == 0o700 and info.st_uid == user
    names = sorted(p for p in path.iterdir() if p.is_socket())
    assert len(names) == 2
    if os.geteuid() != 0:
        pytest.skip("no other user to try without root")
    assert errno_as_somebody_else(path, names[0].name) == errno.EACCES
    # root may enter, but is not heard.
    with socket.socket(socket.AF_UNIX) as s:
        s.settimeout(LIMIT_SECONDS)
        s.connect(str(names[0]))
        try:
            assert s.recv(1) == b""
        except ConnectionResetError:
            pass
    assert h3.fetch(nginx.port, "/hello.txt").status == 200


def test_a_directory_open_to_others_is_refused(make_nginx):
    nginx = make_nginx(start=False)
    directory(nginx).mkdir(mode=0o755)
    directory(nginx).chmod(0o755)
    run = nginx.test()
    assert run.returncode != 0 and "only its owner may enter" in run.stderr
    directory(nginx).chmod(0o700)
    assert nginx.test().returncode == 0


def test_path_of_the_directory(make_nginx):
    nginx = make_nginx(start=False)
    where = nginx.directory / "elsewhere"
    nginx.write(main=f"quic_handover_path {where};", workers=2)
    nginx.start()
    assert [p for p in where.iterdir() if p.is_socket()] and not directory(nginx).exists()
    assert h3.fetch(nginx.port, "/hello.txt").status == 200
    nginx = make_nginx(start=False)
    nginx.write(main=f"quic_handover_path {'/x' * 60};")
    run = nginx.test()
    assert run.returncode != 0 and "too long" in run.stderr


@pytest.mark.skipif(os.geteuid() != 0, reason="needs another user")
def test_who_takes_a_dead_workers_name_gets_nothing(make_nginx):
    nginx = make_nginx(workers=2)
    client = RawClient(nginx.port)
    established(nginx, client)
    owner = owner_of(nginx, client)
    number = next(w["worker"] for w in status(nginx)["workers"] if w["pid"] == owner)
    name = next(p for p in directory(nginx).iterdir() if p.is_socket() and int(p.name, 16) >> 12 == number)
    before = metric(nginx, "nginx_quic_stateless_resets_total")
    with socket.socket(socket.AF_UNIX) as thief:
        os.kill(owner, signal.SIGKILL)
        nginx.wait_for(lambda: owner not in nginx.workers() and len(nginx.workers()) == 2, "no new worker")
        name.unlink(missing_ok=True)
        thief.bind(str(name))
        name.chmod(0o777)
        thief.listen()
        # Its client goes on from many ports, until a worker has come to the name and answered for itself.
        for _ in range(100):
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
                s.sendto(next(short_packets(client, 1, 100)), ("127.0.0.1", nginx.port))
        nginx.wait_for(lambda: "another user refused" in nginx.errors(), "nobody came to the name")
        thief.setblocking(False)
        taken = b""
        # All that have come so far; each has gone again.
        with contextlib.suppress(BlockingIOError):
            while True:
                other, _ = thief.accept()
                other.settimeout(LIMIT_SECONDS)
                with contextlib.suppress(ConnectionResetError):
                    while data := other.recv(65536):
                        taken += data
                other.close()
        assert taken == b""
    name.unlink(missing_ok=True)
    assert metric(nginx, "nginx_quic_stateless_resets_total") > before
    log = nginx.directory / "logs/error.log"
    log.write_text(log.read_text().replace("[alert]", "[expected]").replace("exited on signal 9", "killed"))


def test_nothing_is_left_of_the_dead(make_nginx):
    nginx = make_nginx(workers=2)
    before = {p.name for p in directory(nginx).iterdir()}
    for pid in nginx.workers():
        os.kill(pid, signal.SIGKILL)
    nginx.wait_for(lambda: len(nginx.workers()) == 2, "no new workers")
    nginx.wait_for(lambda: h3.fetch(nginx.port, "/hello.txt").status == 200, "no answer")
    nginx.reload()
    nginx.wait_for(lambda: not ({p.name for p in directory(nginx).iterdir()} & before) - {"state"},
                   "dead workers' files stay")
    log = nginx.directory / "logs/error.log"
    log.write_text(log.read_text().replace("[alert]", "[expected]").replace("exited on signal 9", "killed"))
    nginx.stop()
    assert {p.name for p in directory(nginx).iterdir()} == {"state"}


def test_handshake_during_a_reload(make_nginx):
    # Between the server's first flight and the client's second one.
    nginx = make_nginx(workers=1)
    old = nginx.workers()
    client = OnceClient(nginx.port)
    client.hold = True
    drive([client], lambda c: c.held)
    nginx.reload()
    client.release()
    fetch_once(nginx, client)
    assert metric(nginx, "nginx_quic_stateless_resets_total") == 0
    # GOAWAY has told the client to leave, and then the worker may go.
    client.quic.close()
    client.transmit()
    nginx.wait_for(lambda: not set(old) & set(nginx.workers()), "the old worker stays")
