"""Nodes of Mininet that say why they cannot start.

A node is a shell in namespaces of its own, which `mnexec` makes. Where it may not make them, or cannot, Mininet's own
class waits for ever for the shell's prompt.
"""

import os
import re
import select
import time

from mininet.net import Mininet
from mininet.node import Node

from .process import CommandError

# What Mininet makes the shell print when it waits for a command.
PROMPT = chr(127)
# A shell is there in some milliseconds; this is for a machine that does much else.
START_LIMIT_S = 30


class NodeError(CommandError):
    """A node that could not start; the text says why."""


class BoundedNode(Node):
    """A node whose shell is there within START_LIMIT_S, or NodeError is raised."""

    _started = False

    def startShell(self, mnopts=None):
        self._deadline = time.monotonic() + START_LIMIT_S
        try:
            super().startShell(mnopts)
        except BaseException:
            self._end()
            raise
        self._started = True

    def read(self, size=1024):
        if self._started:
            return super().read(size)
        # All up to the prompt at once: between two reads the base class waits without a limit. The end of the shell
        # cannot be read, as this process has both ends of the terminal open.
        said = ""
        while not said.endswith(PROMPT):
            if select.select([self.stdout], [], [], 0.05)[0]:
                said += os.read(self.stdout.fileno(), 4096).decode(errors="replace")
            elif self.shell.poll() is not None:
                self._refuse(f"`mnexec` ended with exit status {self.shell.returncode}", said)
            elif time.monotonic() > self._deadline:
                self._refuse(f"its shell was not there within {START_LIMIT_S} s", said)
        return said

    def _refuse(self, what, said):
        said = " ".join(re.sub(r"[^ -~]", " ", said).split())
        raise NodeError(f"{self.name}: no host could be started in a network namespace: {what}"
                        f"{f', and it said: {said}' if said else ''}. It takes root with the right to make network and mount "
                        "namespaces (CAP_SYS_ADMIN), which containers mostly withhold, and a root directory that is a mount, "
                        "which that of a chroot is not")

    def _end(self):
        """Ends what a start that failed has left."""
        if self.shell:
            if self.shell.poll() is None:
                self.shell.kill()
            self.shell.wait()
            self.outToNode.pop(self.stdout.fileno(), None)
            self.inToNode.pop(self.stdin.fileno(), None)
            self.stdin.close()
            os.close(self.slave)
            self.shell = None


def new_network():
    """An empty network of Mininet, whose hosts are bounded."""
    return Mininet(controller=None, host=BoundedNode)
