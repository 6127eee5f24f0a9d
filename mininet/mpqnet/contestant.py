"""One download over all paths of a Network, by `mpq`, by the kernel's MPTCP or TCP, or by noq.

A contestant is called KIND:CC, with the congestion controller of its server: mpq:olia, mptcp:cubic, tcp:reno,
noq:bbr3.
"""

import json
import os
import select
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from . import mptcp, process
from .process import CommandError, run
from .server import wait_for_fingerprint

STREAM = str(Path(__file__).with_name("stream.py"))
KINDS = ("mpq", "mptcp", "noq", "tcp")


@dataclass(frozen=True)
class Programs:
    mpq: Path
    noq: Path


def interface(net, path):
    """The client's, of a path that enters no link with another."""
    return net.entries[net.spec.paths[path][0]].intf1.name


def received(net, path):
    """Bytes of frames that the client has had over a path of its own so far."""
    lines = Path(f"/proc/{net.client.pid}/net/dev").read_text(encoding="ascii").splitlines()
    [line] = [line for line in lines if line.strip().startswith(f"{interface(net, path)}:")]
    return int(line.partition(":")[2].split()[0])


class Contestant:
    """A context manager: its server is there inside `with`, and all of its processes are gone after it. `paths` are
    names of the Network's, the handshake's first; `out` is a folder for what it says, and `name` its own there."""

    def __init__(self, net, who, paths, port, programs, out, name):
        self.net, self.paths, self.port, self.programs, self.out, self.name = net, paths, port, programs, out, name
        self.kind, _, self.cc = who.partition(":")
        if self.kind not in KINDS or not self.cc:
            raise ValueError(f"{who}: a contestant is {', '.join(KINDS)}, a colon and a congestion controller")
        self.address = net.servers[paths[0]]
        self.locals = [net.addresses[path] for path in paths]
        self.server = self.client = self.fingerprint = None
        self.count = 0

    def __enter__(self):
        try:
            getattr(self, f"_serve_{self.kind}")()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        for child in (self.client, self.server):
            if child:
                process.stop(child)
        self._file("bin").unlink(missing_ok=True)

    def _start_server(self, *command, said):
        streams = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        self.server = process.start(self.net.server, command, bufsize=0, **{**streams, said: subprocess.PIPE})

    def _wait_until_ready(self):
        there = select.select([self.server.stdout], [], [], 15)[0]
        if not there or self.server.stdout.readline().strip() != b"ready":
            raise CommandError(f"the server of {self.name} ({self.kind}, {self.cc}) did not start")

    def _serve_mpq(self):
        self._start_server(self.programs.mpq, "serve", self.out, "--quiet", "--grace", 1, "--cc", self.cc,
                           "--name", self.address, "--listen", f"{self.address}:{self.port}", said="stderr")
        self.fingerprint = wait_for_fingerprint(self.server)

    def _serve_tcp(self):
        self._start_server(sys.executable, "-I", STREAM, "serve", self.address, self.port, self.kind, self.cc,
                           said="stdout")
        self._wait_until_ready()

    def _serve_mptcp(self):
        further = [(self.net.addresses[path], interface(self.net, path)) for path in self.paths[1:]]
        mptcp.allow_from(self.net.client, self.net.server, further)
        self._serve_tcp()

    def _serve_noq(self):
        # Its first path goes the way of all that is not bound.
        entry = self.net.entries[self.net.spec.paths[self.paths[0]][0]]
        run(self.net.client, "ip", "route", "replace", "default", "via", entry.intf2.IP(), "dev", entry.intf1.name,
            "src", self.locals[0])
        self._start_server(self.programs.noq, "serve", f"{self.address}:{self.port}",
                           "--certificate", self._file("der"), "--cc", self.cc, said="stdout")
        self._wait_until_ready()

    def _file(self, kind):
        return self.out / f"{self.name}.{kind}"

    def start(self, count):
        """Starts the download of `count` bytes."""
        self.count = count
        if self.kind == "mpq":
            # Zeros that take no room.
            with open(self._file("bin"), "wb") as body:
                body.truncate(count)
            command = [self.programs.mpq, "get", f"https://{self.address}:{self.port}/{self.name}.bin", "--quiet",
                       f"--json={self._file('json')}", "--pin", self.fingerprint, "-o", os.devnull,
                       "--attempt-delay", "10000"]
            command += [word for address in self.locals for word in ("--path", address)]
        elif self.kind == "noq":
            command = [self.programs.noq, "get", f"{self.address}:{self.port}", "--certificate", self._file("der"),
                       "--bytes", count, *(word for address in self.locals[1:] for word in ("--path", address))]
        else:
            command = [sys.executable, "-I", STREAM, "get", self.locals[0], self.address, self.port, self.kind, count]
        with open(self._file("json"), "wb") as report, open(self._file("log"), "wb") as log:
            self.client = process.start(self.net.client, command, stdin=subprocess.DEVNULL, stdout=report, stderr=log)

    def seconds(self, limit_s):
        """How long it took from before the handshake to the last byte, by its own clock. Raises CommandError if it
        fails, is not there after `limit_s`, or had fewer bytes than it asked for."""
        try:
            status = self.client.wait(limit_s)
        except subprocess.TimeoutExpired:
            raise CommandError(f"not finished after {limit_s:g} s") from None
        if status != 0:
            raise CommandError(self._why(status))
        report = json.loads(self._file("json").read_text(encoding="utf-8"))
        body = report["files"][0] if self.kind == "mpq" else report
        if body["bytes"] != self.count:
            raise CommandError(f"{body['bytes']} of {self.count} bytes came")
        if self.kind == "mptcp" and not report["mptcp"]:
            raise CommandError("it fell back to TCP")
        return report["seconds"]

    def check(self):
        """Raises CommandError if the download has ended."""
        if (status := self.client.poll()) is not None:
            raise CommandError(self._why(status))

    def _why(self, status):
        said = self._file("log").read_text(encoding="utf-8", errors="replace").strip().splitlines()
        return f"it ended with {status}: {said[-1] if said else 'it said nothing'}"
