"""Several workers, and changes of the guard."""
import asyncio
import os
import signal
from concurrent.futures import ThreadPoolExecutor

import pytest

import h3
from conftest import LIMIT_SECONDS
from relay import Relay
from upstream import Download


def metric(nginx, name: str) -> int:
    text = h3.fetch(nginx.port, "/status?format=prometheus").body.decode()
    return sum(int(line.split()[1]) for line in text.splitlines()
               if line.startswith(f"nginx_quic_{name}{{"))


@pytest.mark.parametrize("bpf", ["on", "off"])
@pytest.mark.parametrize("reuseport", ["reuseport", ""])
def test_paths_from_new_4_tuples(make_nginx, mpq, bpf, reuseport):
    nginx = make_nginx(main=f"quic_bpf {bpf};", workers=4, listen=["{port} quic " + reuseport],
                       server="quic_multipath on;")
    for _ in range(8):
        # Slow enough for all paths to be used.
        with Relay(nginx.port, bytes_per_second=500_000) as relay:
            body, report = mpq.get(relay.url("1m.bin"), paths=("127.0.0.1", "127.0.0.3", "127.0.0.4", "127.0.0.5"))
        assert len(body) == 1_000_000
        assert len(report["paths"]) == 4, report
        assert all(p["recv_bytes"] > 0 for p in report["paths"]), report
    assert metric(nginx, "stateless_resets_total") == 0
    if bpf == "on" and reuseport:
        if "does not work here" in nginx.errors():
            pytest.skip("no eBPF here: workers hand over")
        assert metric(nginx, "handed_over_total") == 0
    else:
        assert metric(nginx, "handed_over_total") > 0


def test_many_connections_that_change_ports(make_nginx):
    nginx = make_nginx(workers=4)

    async def conversation():
        async def one():
            async with h3.connection(nginx.port) as client:
                await client.request("/hello.txt")
                await h3.rebind(client)
                return len((await client.request("/1m.bin")).body)
        return await asyncio.gather(*(one() for _ in range(20)))
    assert h3.run(conversation()) == [1_000_000] * 20


@pytest.mark.parametrize("bpf", ["on", "off"])
def test_reload_during_a_download(make_nginx, mpq, held, bpf):
    nginx = make_nginx(main=f"quic_bpf {bpf};", workers=2,
                       server="quic_multipath on;" + held.location)
    download = Download(mpq, nginx, held, "127.0.0.1", "127.0.0.3")
    old = set(nginx.workers())
    nginx.reload()
    assert old & set(nginx.workers()), "the download does not keep its worker"

    # New clients all the time, none is lost to the old workers.
    for _ in range(20):
        assert h3.fetch(nginx.port, "/hello.txt").status == 200

    assert download.is_whole()
    nginx.wait_for(lambda: not old & set(nginx.workers()), "the old workers stay")


def test_reload_with_fewer_workers(make_nginx, mpq, held):
    nginx = make_nginx(workers=4, server="quic_multipath on;" + held.location)
    downloads = [Download(type(mpq)(mpq.directory / str(n)), nginx, held, "127.0.0.1", "127.0.0.3")
                 for n in range(4) if not (mpq.directory / str(n)).mkdir()]
    nginx.config.write_text(nginx.config.read_text().replace("worker_processes 4", "worker_processes 1"))
    nginx.reload()
    # Sockets of workers that are not replaced are gone, although old workers go on.
    for _ in range(20):
        assert h3.fetch(nginx.port, "/hello.txt").status == 200
    for download in downloads:
        assert download.is_whole()


def test_quit_waits_for_downloads(make_nginx, mpq, held):
    nginx = make_nginx(server="quic_multipath on;" + held.location)
    download = Download(mpq, nginx, held, "127.0.0.1", "127.0.0.3")
    nginx.master.send_signal(signal.SIGQUIT)
    nginx.wait_for(lambda: nginx.workers("is shutting down"), "nginx does not begin to end")
    assert download.is_whole()
    assert nginx.master.wait(LIMIT_SECONDS) == 0


def test_worker_shutdown_timeout(make_nginx, mpq):
    nginx = make_nginx(main="worker_shutdown_timeout 1s;", server="limit_rate 100k;")

    async def conversation():
        async with h3.connection(nginx.port) as client:
            stream = await client.begin("/8m.bin")
            nginx.master.send_signal(signal.SIGQUIT)
            with pytest.raises(ConnectionError):
                await client.waiters[stream]
    h3.run(conversation())
    assert nginx.master.wait(LIMIT_SECONDS) == 0


def test_worker_crash(make_nginx):
    nginx = make_nginx(workers=1)

    async def conversation():
        async with h3.connection(nginx.port) as client:
            await client.request("/hello.txt")
            worker, = nginx.workers()
            os.kill(worker, signal.SIGKILL)
            nginx.wait_for(lambda: nginx.workers() not in ([], [worker]), "no new worker")
            # The new worker has never heard of the connection, and says so. (aioquic does not
            # understand a stateless reset.)
            client.start("/hello.txt")
            client.transmit()
            nginx.wait_for(lambda: metric_of(nginx) > 0, "no stateless reset")

    def metric_of(nginx):
        with ThreadPoolExecutor() as pool:
            return pool.submit(metric, nginx, "stateless_resets_total").result()
    h3.run(conversation())
    text = (nginx.directory / "logs/error.log").read_text()
    assert "exited on signal 9" in text
    # Expected here.
    (nginx.directory / "logs/error.log").write_text(text.replace("exited on signal 9", "killed")
                                                    .replace("[alert]", "[expected]"))
    assert h3.fetch(nginx.port, "/hello.txt").status == 200


def test_binary_upgrade(make_nginx, mpq, held):
    # An nginx that is no daemon cannot be upgraded.
    nginx = make_nginx(workers=2, server="quic_multipath on;" + held.location, daemon=True)
    download = Download(mpq, nginx, held, "127.0.0.1", "127.0.0.3")
    old, new = nginx.pid(), nginx.upgrade()
    try:
        os.kill(old, signal.SIGWINCH)
        assert download.is_whole()
        for _ in range(10):
            assert h3.fetch(nginx.port, "/hello.txt").status == 200
        os.kill(old, signal.SIGQUIT)
        nginx.wait_until_gone(old)
        for _ in range(10):
            assert h3.fetch(nginx.port, "/hello.txt").status == 200
    finally:
        nginx.end(old, new)
