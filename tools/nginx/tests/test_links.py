"""Addresses that come and go under a running nginx, in a network namespace of its own. That takes root."""
import os
import subprocess

import pytest

import conftest

SERVER_4, SERVER_6 = "192.0.2.1", "2001:db8::1"


def run(*words: str) -> subprocess.CompletedProcess:
    return subprocess.run(words, capture_output=True, text=True, timeout=20)


@pytest.fixture
def namespace(monkeypatch):
    """A namespace where nginx and mpq run, with two addresses on its loopback interface; `ip(...)` works there."""
    name = f"mpq-nginx-{os.getpid()}"
    made = run("ip", "netns", "add", name)
    if made.returncode:
        pytest.skip(f"needs a network namespace: {made.stderr.strip()}")

    def inside(*words):
        done = run("ip", "-n", name, *words)
        assert done.returncode == 0, f"ip {words}: {done.stderr}"
    try:
        # Loopback's MTU would let no train be longer than one datagram of it.
        inside("link", "set", "lo", "mtu", "1500", "up")
        inside("addr", "add", f"{SERVER_4}/32", "dev", "lo")
        inside("-6", "addr", "add", f"{SERVER_6}/128", "dev", "lo", "nodad")
        inside.enter = ["ip", "netns", "exec", name]
        yield inside
    finally:
        run("ip", "netns", "del", name)


class Namespaced(conftest.Nginx):
    """nginx in the namespace. `ip netns exec` becomes it, so signals and process numbers are as always."""

    def start(self, enter) -> None:
        self.stderr = open(self.directory / "logs/stderr.log", "ab")
        self.master = subprocess.Popen([*enter, conftest.NGINX, "-p", self.directory, "-c", self.config],
                                       stderr=self.stderr, env=conftest.ENVIRONMENT)
        pid = self.directory / "nginx.pid"
        # Workers get their title when they are ready to serve.
        self.wait_for(lambda: pid.exists() and pid.read_text() and self.workers(), "nginx did not start")


@pytest.fixture
def served(base, content, namespace):
    """nginx on all addresses of the namespace, with multipath and GSO."""
    directory = base / "links"
    directory.mkdir()
    directory.chmod(0o755)
    server = Namespaced(directory, content, 4433)
    server.write(listen=["{port} quic reuseport", "[::]:{port} quic reuseport"],
                 server="quic_multipath on; quic_gso on;", location="limit_rate 40k; limit_rate_after 2m;")
    server.start(namespace.enter)
    try:
        yield server
    finally:
        server.stop()
        conftest.shutil.rmtree(directory)


def download(mpq, namespace, host, *paths):
    """A download of 8 MB, under way; it takes 150 s."""
    return subprocess.Popen(
        [*namespace.enter, mpq.binary, "get", "-q", "--no-verify", f"--json={mpq.directory}/report.json",
         "-o", mpq.directory / "download", *(f"--path={path}" for path in paths), f"https://{host}:4433/8m.bin"],
        stderr=subprocess.PIPE, text=True)


def wait_for_bytes(server, count: int) -> None:
    """Until the interface of the namespace has carried so much."""
    def carried():
        text = run("ip", "-n", f"mpq-nginx-{os.getpid()}", "-s", "-s", "link", "show", "lo").stdout
        return int(text.splitlines()[text.splitlines().index(
            next(line for line in text.splitlines() if line.strip().startswith("TX:"))) + 1].split()[0])
    server.wait_for(lambda: carried() >= count, "no data")


@pytest.mark.parametrize("host, removed", [
    (SERVER_4, ("addr", "del", f"{SERVER_4}/32", "dev", "lo")),
    (f"[{SERVER_6}]", ("-6", "addr", "del", f"{SERVER_6}/128", "dev", "lo")),
], ids=["IPv4", "IPv6"])
def test_a_removed_address_ends_no_segmentation(served, namespace, mpq, host, removed):
    """The kernel says EINVAL to a train from an address that is gone, which says nothing about trains. The error is
    that of the address, so that its paths are given up."""
    client = download(mpq, namespace, host)
    try:
        wait_for_bytes(served, 2_000_000)
        namespace(*removed)
        # For IPv6 it is EINVAL, for IPv4 EINVAL or ENETUNREACH, by kernel.
        served.wait_for(lambda: "quic sendmmsg() failed" in served.errors(), "the removed address is still in use")
    finally:
        client.kill()
        client.communicate()
    assert "segmentation offload does not work" not in served.errors()
