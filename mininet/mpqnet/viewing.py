"""A player as a process, while links change at their times."""

import os
import select
import subprocess
import time

from . import process
from .process import CommandError
from .server import client_command

# What each transport of `mpq play` is told to go out by: with MPTCP the kernel adds the others.
TRANSPORTS = ("h3-multipath", "h3", "tcp", "mptcp")


def command(mpq, net, server, links, mpd, report, transport):
    """The words of `mpq play` by `transport`: over all of `links` if it can, else over the first."""
    used = links if transport == "h3-multipath" else links[:1]
    return [*client_command(mpq, "play", net, server, used, mpd, report), "--transport", transport]


def watch(net, words, events, timeout_s, log, since=None):
    """Runs a player to its end, and each of `events`, (s from its start, link, command of the wire), at its time. With
    `since`, times count from when that, which is asked again and again, says yes. Returns its exit status; all it says is in the file `log`. Raises CommandError if it takes longer than `timeout_s`."""
    agenda = sorted(events)
    with open(log, "wb") as said:
        child = process.start(net.client, words, stdin=subprocess.DEVNULL, stdout=said, stderr=said)
        try:
            began = zero = time.monotonic()
            while child.poll() is None:
                now = time.monotonic()
                if now - began > timeout_s:
                    raise CommandError(f"`{' '.join(map(str, words))}` took longer than {timeout_s:g} s; see {log}")
                if since and not since():
                    _wait(child, 0.02)
                    continue
                zero, since = (now, None) if since else (zero, None)
                while agenda and agenda[0][0] <= now - zero:
                    _, link, command_of_wire = agenda.pop(0)
                    net.links[link].command(command_of_wire)
                until = min(zero + agenda[0][0], began + timeout_s) if agenda else began + timeout_s
                _wait(child, until + 0.01 - now)
        finally:
            process.stop(child)
    return child.returncode


def _wait(child, seconds):
    """Until the child ends, or that time is over."""
    descriptor = os.pidfd_open(child.pid)
    try:
        select.select([descriptor], [], [], max(0.0, seconds))
    finally:
        os.close(descriptor)
