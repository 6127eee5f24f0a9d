"""Fixtures: an nginx with a configuration, and mpq to talk to it."""
import json
import os
import random
import re
import resource
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
FILES = {"1m.bin": 1_000_000, "3m.bin": 3_000_000, "8m.bin": 8_000_000, "30m.bin": 30_000_000, "hello.txt": 6}

# A hang is a failure, and slowness is none: on an idle machine nothing that is waited for takes a tenth of this.
LIMIT_SECONDS = 180

# What nginx must never say: broken invariants, crashes, sanitizers.
BAD_LINES = re.compile(
    r"\[alert\]|\[emerg\]|\[crit\]|exited on signal|AddressSanitizer|runtime error:|LeakSanitizer"
)

# nginx's own code says this loudly before ours takes it as a warning: only root, or CAP_BPF, may.
NOT_ROOT = "failed to create BPF map (1: Operation not permitted)" if os.geteuid() != 0 else None

# Ordinary users begin with 1,024 files, of which nginx would warn.
SOFT, HARD = resource.getrlimit(resource.RLIMIT_NOFILE)
resource.setrlimit(resource.RLIMIT_NOFILE, (max(SOFT, min(HARD, 65536)), HARD))


def binary(variable: str, *candidates: Path) -> str:
    if variable in os.environ:
        return os.environ[variable]
    # The newest, as a stale build would be tested otherwise.
    if found := [path for path in candidates if path.exists()]:
        return str(max(found, key=lambda path: path.stat().st_mtime))
    pytest.exit(f"none of {', '.join(map(str, candidates))} is there, and {variable} is not set", 2)


NGINX = binary("MPQ_NGINX", ROOT / "out/nginx/install/sbin/nginx")
# Freed memory is kept for a while then, so its amount says nothing.
SANITIZED = "sanitized" in subprocess.run([NGINX, "-V"], capture_output=True, text=True).stderr
ENVIRONMENT = {
    "ASAN_OPTIONS": "detect_leaks=0:abort_on_error=1", "UBSAN_OPTIONS": "print_stacktrace=1",
} | os.environ
TARGET = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))


def is_running(pid: int) -> bool:
    """A process that has ended may stay in /proc for ever: the first process of a container need not be an init."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


def free_port() -> int:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        s.bind(("0.0.0.0", 0))
        return s.getsockname()[1]


@pytest.fixture(scope="session")
def base():
    """Where all users, and so nginx's workers, may look; pytest keeps its own folders private."""
    directory = Path(tempfile.mkdtemp(prefix="mpq-nginx-"))
    directory.chmod(0o755)
    yield directory
    shutil.rmtree(directory, ignore_errors=True)


@pytest.fixture(scope="session")
def content(base) -> Path:
    """Files to serve, and certificates."""
    directory = base / "content"
    directory.mkdir()
    www = directory / "www"
    www.mkdir()
    for name, size in FILES.items():
        (www / name).write_bytes(random.Random(name).randbytes(size))
    for name in ("server", "other", "client"):
        subprocess.run(
            ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt",
             "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2", "-subj", f"/CN={name}",
             "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1",
             "-keyout", directory / f"{name}.key", "-out", directory / f"{name}.pem"],
            check=True, capture_output=True,
        )
    return directory


class Nginx:
    """A running nginx with one server, or several."""

    def __init__(self, directory: Path, content: Path, port: int):
        self.directory = directory
        self.content = content
        self.port = port
        self.master: subprocess.Popen | None = None
        self.daemon = False
        (directory / "logs").mkdir()
        self.config = directory / "nginx.conf"

    def write(self, *, listen: list[str] | None = None, server: str = "", http: str = "",
              main: str = "", workers: int = 1, location: str = "", servers: str = "",
              daemon: bool = False) -> None:
        listen = listen or ["127.0.0.1:{port} quic reuseport"]
        listens = "\n".join(f"        listen {item.format(port=self.port)};" for item in listen)
        self.daemon = daemon
        self.config.write_text(f"""
daemon {"on" if daemon else "off"};
worker_processes {workers};
pid {self.directory}/nginx.pid;
error_log {self.directory}/logs/error.log info;
{main}
events {{ worker_connections 4096; }}
http {{
    log_format quic '$request_method $uri $status $body_bytes_sent $http3 $quic_multipath '
                    '$quic_paths $quic_path_bytes $quic_path_rtt $quic_congestion_control '
                    '$quic_scheduler';
    access_log {self.directory}/logs/access.log quic;
    client_body_temp_path {self.directory}/body;
    proxy_temp_path {self.directory}/proxy;
    fastcgi_temp_path {self.directory}/fastcgi;
    uwsgi_temp_path {self.directory}/uwsgi;
    scgi_temp_path {self.directory}/scgi;
    keepalive_requests 1000000;
    {http}
    server {{
{listens}
        server_name localhost;
        http3 on;
        ssl_certificate {self.content}/server.pem;
        ssl_certificate_key {self.content}/server.key;
        root {self.content}/www;
        location = /status {{ quic_status; }}
        {server}
        location / {{ {location} }}
    }}
    {servers}
}}
""")

    def test(self) -> subprocess.CompletedProcess:
        return subprocess.run([NGINX, "-t", "-p", self.directory, "-c", self.config],
                              capture_output=True, text=True, timeout=LIMIT_SECONDS, env=ENVIRONMENT)

    def start(self) -> None:
        self.stderr = open(self.directory / "logs/stderr.log", "ab")
        self.master = subprocess.Popen([NGINX, "-p", self.directory, "-c", self.config],
                                       stderr=self.stderr, env=ENVIRONMENT)
        # nginx makes the file before it writes into it.
        pid = self.directory / "nginx.pid"
        self.wait_for(lambda: pid.exists() and pid.read_text() and len(self.workers()) == self.configured_workers(),
                      "nginx did not start")

    def wait_for(self, condition, why: str) -> None:
        end = time.monotonic() + LIMIT_SECONDS
        while not condition():
            assert self.daemon or self.master is None or self.master.poll() is None, self.errors()
            assert time.monotonic() < end, f"{why}\n{self.errors()}"
            time.sleep(0.05)

    def pid(self) -> int:
        return int((self.directory / "nginx.pid").read_text())

    def configured_workers(self) -> int:
        return int(re.search(r"^worker_processes (\d+);", self.config.read_text(), re.MULTILINE)[1])

    def workers(self, title: str = "worker process") -> list[int]:
        """The worker processes of the newest master, draining ones included. They get their title when they are ready
        to serve."""
        out = subprocess.run(["ps", "-ww", "-o", "pid=,args=", "--ppid", str(self.pid())],
                             capture_output=True, text=True).stdout
        return [int(line.split()[0]) for line in out.splitlines() if title in line]

    def reload(self) -> None:
        """Returns when new workers serve, and the old ones are gone or know that they are to go: until then they take
        new clients, by the old configuration."""
        before = set(self.workers())
        os.kill(self.pid(), signal.SIGHUP)
        self.wait_for(lambda: len(set(self.workers()) - before) == self.configured_workers(),
                      "no new workers after a reload")
        self.wait_for(lambda: before & set(self.workers()) <= set(self.workers("is shutting down")),
                      "old workers go on after a reload")

    def upgrade(self) -> int:
        """Starts the binary again, beside the master that there is. Returns the new master, whose workers serve then."""
        old, path = self.pid(), self.directory / "nginx.pid"
        os.kill(old, signal.SIGUSR2)
        self.wait_for(lambda: (self.directory / "nginx.pid.oldbin").exists() and path.exists() and path.stat().st_size
                      and self.pid() != old and len(self.workers()) == self.configured_workers(), "no new master")
        return self.pid()

    def wait_until_gone(self, *masters: int) -> None:
        for pid in masters:
            self.wait_for(lambda: not is_running(pid), f"nginx's master {pid} stays")

    def end(self, *masters: int) -> None:
        """Ends those that still run, whatever the state of an upgrade."""
        for pid in masters:
            if is_running(pid):
                os.kill(pid, signal.SIGTERM)
        self.wait_until_gone(*masters)

    def errors(self) -> str:
        text = ""
        for name in ("error.log", "stderr.log"):
            path = self.directory / "logs" / name
            if path.exists():
                text += path.read_text(errors="replace")[-6000:]
        return text

    def access(self) -> list[str]:
        return (self.directory / "logs/access.log").read_text().splitlines()

    def rss_kb(self) -> int:
        """Resident memory of all workers."""
        return sum(int(re.search(r"VmRSS:\s+(\d+)", Path(f"/proc/{pid}/status").read_text())[1])
                   for pid in self.workers())

    def stop(self) -> None:
        if self.master is None:
            return
        if self.daemon and self.master.wait() == 0 and (self.directory / "nginx.pid").exists():
            os.kill(self.pid(), signal.SIGTERM)
            self.wait_for(lambda: not (self.directory / "nginx.pid").exists(), "nginx did not stop")
        elif self.master.poll() is None:
            self.master.send_signal(signal.SIGTERM)
            try:
                self.master.wait(LIMIT_SECONDS)
            except subprocess.TimeoutExpired:
                self.master.kill()
                self.master.wait()
                raise AssertionError("nginx did not stop") from None
            finally:
                self.stderr.close()
        self.master = None
        bad = [line for line in self.errors().splitlines() if BAD_LINES.search(line) and not (NOT_ROOT and NOT_ROOT in line)]
        assert not bad, "\n".join(bad)


@pytest.fixture
def make_nginx(base, content):
    """Makes servers; each is stopped, and its log is checked, at the end."""
    made = []

    def make(start: bool = True, **options) -> Nginx:
        directory = Path(tempfile.mkdtemp(prefix="nginx-", dir=base))
        directory.chmod(0o755)
        server = Nginx(directory, content, free_port())
        server.write(**options)
        made.append(server)
        if start:
            server.start()
        return server

    try:
        yield make
    finally:
        for server in made:
            server.stop()


@pytest.fixture
def nginx(make_nginx):
    """One server on 127.0.0.1 with multipath."""
    return make_nginx(server="quic_multipath on;")


class Mpq:
    """The command mpq."""

    def __init__(self, directory: Path):
        self.directory = directory
        self.binary = binary("MPQ", TARGET / "release/mpq", TARGET / "debug/mpq")

    def get(self, url: str, *options, paths: tuple[str, ...] = (), timeout: float = LIMIT_SECONDS):
        """Downloads; returns the bytes and mpq's report."""
        out, report = self.directory / "download", self.directory / "report.json"
        out.unlink(missing_ok=True)
        run = subprocess.run(
            [self.binary, "get", "-q", "--no-verify", f"--json={report}", "-o", out,
             *(f"--path={path}" for path in paths), *options, url],
            capture_output=True, text=True, timeout=timeout,
        )
        assert run.returncode == 0, run.stderr
        return out.read_bytes(), json.loads(report.read_text())


@pytest.fixture
def held(base):
    """A response that ends when it is let go."""
    # It needs LIMIT_SECONDS.
    from upstream import Held
    made = Held(base / "held.sock")
    yield made
    made.close()


@pytest.fixture
def mpq(tmp_path) -> Mpq:
    return Mpq(tmp_path)
