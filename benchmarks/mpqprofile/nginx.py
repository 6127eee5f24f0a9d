"""The instructions of nginx's worker for a fixed amount of work that h2load asks for."""

import subprocess
import time
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from mpqnet import h2load, process
from mpqnet.bulk import make_bulk
from mpqnet.nginx import Nginx
from mpqnet.node import new_network
from mpqnet.process import CommandError

from . import callgrind

# Over loopback's own MTU of 65536, nginx's own QUIC sends datagrams that no network carries.
MTU_BYTES = 1500
PORT = 4433

# Under valgrind everything takes some fifty times as long.
START_LIMIT_S = 120
LOAD_LIMIT_S = 900


@dataclass(frozen=True)
class Load:
    """What h2load asks for: so many requests at a time on so many connections."""
    body_bytes: int
    connections: int
    streams: int
    requests: int

    @property
    def file(self):
        return f"{self.body_bytes}.bin"


class ProfiledNginx(Nginx):
    """nginx under callgrind; each `cut` ends a part of its worker's profile."""

    def __init__(self, node, program, folder, root, addresses, options=""):
        super().__init__(node, program, folder, root, addresses, options)
        for old in self.folder.glob("callgrind.out.*"):
            old.unlink()
        # Following children is what lets vgdb reach the worker, which is forked.
        self.wrapper = ["valgrind", "--tool=callgrind", "--trace-children=yes", "--compress-strings=no", "--compress-pos=no",
                        f"--callgrind-out-file={self.folder}/callgrind.out.%p"]
        self.parts = 0

    def _wait_for_worker(self, timeout_s=START_LIMIT_S):
        deadline = time.monotonic() + timeout_s
        children = Path(f"/proc/{self.child.pid}/task/{self.child.pid}/children")
        while time.monotonic() < deadline and self.child.poll() is None:
            # Its title is valgrind's, and its sockets are the master's: what comes early waits in them.
            if pids := children.read_text().split():
                self.worker = int(pids[0])
                return
            time.sleep(0.1)
        said = (self.folder / "stderr.log").read_text(errors="replace").strip()
        raise CommandError(f"{self.program} did not start under valgrind; it said: {said[-500:] or 'nothing'}")

    def cut(self):
        """The Profile since the last one."""
        done = subprocess.run(["vgdb", f"--pid={self.worker}", "--wait=30", "dump"], capture_output=True, text=True,
                              timeout=START_LIMIT_S, check=False)
        self.parts += 1
        file = self.folder / f"callgrind.out.{self.worker}.{self.parts}"
        if done.returncode != 0 or not file.exists():
            raise CommandError(f"vgdb had no profile written ({done.returncode}): {done.stderr.strip()}")
        return callgrind.load(file)


@contextmanager
def _loopback():
    net = new_network()
    try:
        node = net.addHost("server", ip=None)
        process.run(node, "ip", "link", "set", "dev", "lo", "mtu", MTU_BYTES, "up")
        yield node
    finally:
        net.stop()


def profile(program, h2load_program, out, few, many, options=""):
    """What nginx does for Load `many` more than for `few`, so without its start and what is filled once."""
    www = out / "www"
    www.mkdir(parents=True, exist_ok=True)
    file = www / many.file
    if not file.exists() or file.stat().st_size != many.body_bytes:
        make_bulk(file, many.body_bytes, seed=1)
    with _loopback() as node, ProfiledNginx(node, program, out / "nginx", www, [f"127.0.0.1:{PORT}"], options) as server:
        parts = []
        for load in (few, few, many):
            _ask(node, h2load_program, load)
            parts.append(server.cut())
        return parts[2].minus(parts[1])


def _ask(node, program, load):
    words = h2load.command(program, f"https://127.0.0.1:{PORT}/{load.file}", load.connections, load.streams, load.requests)
    done = h2load.run(node, words, LOAD_LIMIT_S)
    if done.succeeded != load.requests:
        raise CommandError(f"{done.succeeded} of {load.requests} requests succeeded under valgrind")
