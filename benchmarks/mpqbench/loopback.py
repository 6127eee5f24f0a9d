"""Downloads over loopback, by `mpq get` from `mpq serve`."""

import os
import subprocess
import time

from mpqnet import process, results
from mpqnet.process import CommandError
from mpqnet.server import PORT, wait_for_fingerprint

from .setting import cpu_seconds, wait_with_usage

TIMEOUT_S = 120

# Options of both ends, for what is held against a network of Ethernet: loopback carries jumbo frames.
ETHERNET = ("--max-datagram", "1472")


def get(setting, bulk, sha256, paths, options=()):
    """One download over so many loopback addresses: CPU seconds of `mpq get` and `mpq serve` together, and the
    bytes received on each path. Raises ResultError unless all of it arrived over all of them."""
    report = setting.out / "get.json"
    report.unlink(missing_ok=True)
    _, *cpu_s = timed(setting, bulk, paths, options, [f"--json={report}"])
    got = results.load_get(report)
    received = [path.recv_bytes for path in got.paths]
    if got.sha256 != sha256 or len(received) != paths:
        raise results.ResultError(f"{report}: SHA-256 {got.sha256}, {len(received)} paths; expected {sha256} and {paths}")
    return sum(cpu_s), received


def timed(setting, bulk, paths, options=(), client_options=()):
    """The same without a look at what arrived, which takes time: seconds from the start of the client to its end, CPU
    seconds of the client, and of the server. Both ends are given `options`."""
    server = subprocess.Popen(
        [setting.mpq, "serve", bulk.parent, "--quiet", "--listen", f"127.0.0.1:{PORT}", "--name", "127.0.0.1", *options],
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, bufsize=0)
    try:
        fingerprint = wait_for_fingerprint(server)
        command = [setting.mpq, "get", f"https://127.0.0.1:{PORT}/{bulk.name}", "--quiet", "--pin", fingerprint, "-o", os.devnull,
                   *options, *client_options]
        for number in range(paths):
            command += ["--path", f"127.0.0.{number + 1}"]
        return against(server, command, subprocess.DEVNULL)
    finally:
        process.stop(server)


def against(server, command, output):
    """Runs a client to its end, then ends the server: seconds of the client, CPU seconds of the client, and of the
    server. `output` takes what the client prints."""
    began = time.monotonic()
    client = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.DEVNULL)
    try:
        code, client_usage = wait_with_usage(client, TIMEOUT_S)
    finally:
        process.stop(client)
    seconds = time.monotonic() - began
    if code != 0:
        raise CommandError(f"`{' '.join(map(str, command))}` failed ({code})")
    server.terminate()
    _, server_usage = wait_with_usage(server, TIMEOUT_S)
    return seconds, cpu_seconds(client_usage), cpu_seconds(server_usage)
