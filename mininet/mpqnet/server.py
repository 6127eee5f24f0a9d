"""`mpq serve` on the server host of a topology."""

import re
import select
import subprocess
import time

from . import process
from .process import CommandError

PORT = 4433


class Server:
    """A context manager: inside `with` the server listens on its address of every link. `options` are
    further options of `mpq serve`; `fingerprint` is what its clients must demand."""

    def __init__(self, net, mpq, directory, options=()):
        self.net, self.mpq, self.directory, self.options = net, mpq, directory, options
        self.child = None
        self.fingerprint = None

    def __enter__(self):
        addresses = [self.net.server_address(name) for name in self.net.links]
        command = [str(self.mpq), "serve", str(self.directory), "--quiet", *self.options]
        for address in addresses:
            command += ["--listen", f"{address}:{PORT}", "--name", address]
        self.child = process.start(self.net.server, command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                   stderr=subprocess.PIPE, bufsize=0)
        try:
            self.fingerprint = wait_for_fingerprint(self.child)
            self._wait_for_sockets(len(addresses))
        except BaseException:
            process.stop(self.child)
            raise
        return self

    def _wait_for_sockets(self, count, timeout_s=15):
        deadline = time.monotonic() + timeout_s
        while time.monotonic() < deadline:
            shown = process.run(self.net.server, "ss", "-Hlun", f"sport = :{PORT}")
            if len(shown.splitlines()) >= count:
                return
            time.sleep(0.05)
        raise CommandError(f"mpq serve does not listen on port {PORT} of {count} addresses")

    def __exit__(self, *_):
        process.stop(self.child)


def wait_for_fingerprint(child, timeout_s=15):
    """`mpq serve` prints its self-signed certificate's SHA-256 on standard error, an unbuffered pipe here."""
    said, deadline = "", time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        if not select.select([child.stderr], [], [], 0.2)[0]:
            continue
        data = child.stderr.read(4096)
        said += data.decode(errors="replace")
        if match := re.search(r"SHA-256 ([0-9a-fA-F:]{64,95})\s", said):
            return match[1]
        if not data:
            break
    raise CommandError(f"mpq serve did not start; it said: {said.strip() or 'nothing'}")


def client_command(mpq, verb, net, server, links, resource, report):
    """The words of `mpq play` or `mpq get` over the paths of `links`, the first for the handshake."""
    url = f"https://{net.server_address(links[0])}:{PORT}/{resource}"
    # On the first path, however long its round trip is.
    command = [mpq, verb, url, f"--json={report}", "--pin", server.fingerprint, "--attempt-delay", "10000"]
    for link in links:
        command += ["--path", net.client_address(link)]
    return command
