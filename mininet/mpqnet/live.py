"""Runs a long command in a node's namespace and shows what it says while it runs."""

import os
import pty
import re
import select
import sys
import termios
import time

from . import process
from .process import CommandError

_ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
_COLUMNS = 100


class Status:
    """One line that is rewritten in place on a terminal, and printed now and then elsewhere."""

    def __init__(self, label, out=sys.stdout, every_s=None):
        self.label, self.out, self.start = label, out, time.monotonic()
        self.terminal = out.isatty()
        self.every_s = every_s or (0.2 if self.terminal else 5.0)
        self.shown_at = 0.0 if self.terminal else self.start

    def show(self, text, final=False):
        """Shows `text` unless the last one was shown a moment ago; the final one always."""
        now = time.monotonic()
        if not final and now - self.shown_at < self.every_s:
            return
        self.shown_at = now
        line = f"{self.label}  {now - self.start:5.1f} s  {text}"
        if self.terminal:
            end = "\n" if final else ""
            self.out.write(f"\r\x1b[K{line[:_COLUMNS]}{end}")
        else:
            self.out.write(line + "\n")
        self.out.flush()


def last_line(output):
    """The last line with something on it, as a terminal would show it."""
    lines = [line.strip() for line in re.split(r"[\r\n]", _ESCAPES.sub("", output))]
    return next((line for line in reversed(lines) if line), "")


def run_live(node, command, label, timeout_s, log):
    """Runs `command` to its end, its live line after `label`, all it says in the file `log`. Raises
    CommandError if it fails or takes longer than `timeout_s`."""
    status = Status(label)
    # Programs show their progress to a terminal only, so they get one.
    ours, theirs = pty.openpty()
    termios.tcsetwinsize(theirs, (24, _COLUMNS))
    child, output = None, ""
    try:
        child = process.start(node, command, stdin=theirs, stdout=theirs, stderr=theirs)
        os.close(theirs)
        theirs = None
        deadline = time.monotonic() + timeout_s
        with open(log, "wb") as file:
            while True:
                ready, _, _ = select.select([ours], [], [], 0.1)
                data = _read(ours) if ready else b""
                file.write(data)
                output = (output + data.decode(errors="replace"))[-8192:]
                status.show(last_line(output))
                if not data and child.poll() is not None:
                    break
                if time.monotonic() > deadline:
                    raise CommandError(f"{command[0]} {command[1]} took longer than {timeout_s:g} s; see {log}")
        if child.returncode != 0:
            raise CommandError(f"`{' '.join(map(str, command))}` failed ({child.returncode}): "
                               f"{last_line(output) or 'it said nothing'}; see {log}")
        status.show("done", final=True)
    except BaseException:
        status.show("failed", final=True)
        raise
    finally:
        if child:
            process.stop(child)
        for fd in (ours, theirs):
            if fd is not None:
                os.close(fd)


def _read(fd):
    try:
        return os.read(fd, 65536)
    except OSError:  # EIO: the other end of the pseudo-terminal is closed
        return b""
