"""An emulated link for Mininet: a hidden middle namespace between two nodes.

    client --veth-- [ middle: link-a | link-b ] --veth-- server

Two backends do the same work. `netem`: a bridge in the middle; rate and queue by TBF on the hosts'
egress, delay and loss by netem behind it. `wire`: one `mpq-wire` process moves the frames; for kernels
without netem. On such kernels Mininet's own TCLink logs an error and leaves the link unshaped, so here
the result of every command is checked and the finished link is measured.
"""

import contextlib
import json
import re
import select
import statistics
import subprocess
import sys
from pathlib import Path

from mininet.link import Link

from . import process
from .node import BoundedNode
from .process import CommandError, run

PROBE = str(Path(__file__).with_name("probe.py"))
PROBE_PORT = 9
UNLIMITED_BPS = 1e9  # what a link without a rate is prepared for
ETHERNET_HEADER = 14

# A plain packet socket cannot carry superframes or unfinished checksums: the feature each
# `ethtool -K` word controls, as `ethtool -k` shows it.
OFFLOADS = {
    "tso": "tcp-segmentation-offload",
    "gso": "generic-segmentation-offload",
    "gro": "generic-receive-offload",
    "tx-udp-segmentation": "tx-udp-segmentation",
    "tx": "tx-checksumming",
    "rx": "rx-checksumming",
}


class LinkError(Exception):
    """A link that could not be made, or is not what was asked for."""


def netem_works():
    """Whether this kernel has netem: tried in a namespace of its own, and read back."""
    script = "tc qdisc add dev lo root netem delay 5ms && tc qdisc show dev lo"
    result = subprocess.run(["unshare", "--net", "sh", "-c", script], capture_output=True, text=True, timeout=15,
                            check=False)
    return result.returncode == 0 and "netem" in result.stdout and "delay 5ms" in result.stdout


def choose_backend(wanted="auto"):
    """ "netem" or "wire"; raises LinkError where netem was asked for and is missing."""
    if wanted == "wire":
        return "wire"
    works = netem_works()
    if wanted == "netem" and not works:
        raise LinkError("this kernel has no netem (module sch_netem); use the wire backend")
    return "netem" if works else "wire"


def disable_offloads(node, interface):
    """Turns the offloads off and checks that they are. A feature the driver lacks counts as off."""
    words = [word for name in OFFLOADS for word in (name, "off")]
    run(node, "ethtool", "-K", interface, *words)
    shown = run(node, "ethtool", "-k", interface)
    for name, feature in OFFLOADS.items():
        if re.search(rf"^\s*{feature}: on", shown, re.MULTILINE):
            raise LinkError(f"{interface}: offload {name} stays on although it was turned off")


class EmulatedLink(Link):
    """A link shaped like `shape` (scenario.Link), both directions alike.

    `wire` is the path of the mpq-wire program (wire backend); `report` a directory for its counters.
    Call `start` when both ends have their addresses; `stop` undoes all of it.
    """

    def __init__(self, node1, node2, shape, backend, seed=1, wire=None, report=None, **params):
        self.shape, self.backend, self.seed, self.wire, self.report = shape, backend, seed, wire, report
        self.child = None
        self.middle = BoundedNode(f"{shape.name}-mid", inNamespace=True)
        try:
            super().__init__(node1, node2, intfName1=f"{shape.name}-c", intfName2=f"{shape.name}-s", **params)
            for intf in (self.intf1, self.intf2):
                disable_offloads(intf.node, intf.name)
        except BaseException:
            self.middle.terminate()
            raise

    def makeIntfPair(self, intfname1, intfname2, addr1=None, addr2=None, node1=None, node2=None,
                     deleteIntfs=True):
        """Makes the two veth pairs; called by Link.__init__."""
        middle = self.middle
        # No IPv6 here, or its neighbour discovery would show up on the link.
        run(middle, "sysctl", "-qw", "net.ipv6.conf.all.disable_ipv6=1", "net.ipv6.conf.default.disable_ipv6=1")
        for name, node, inner in ((intfname1, node1, "link-a"), (intfname2, node2, "link-b")):
            run(middle, "ip", "link", "add", "dev", inner, "type", "veth", "peer", "name", name, "netns", node.pid)
            disable_offloads(middle, inner)
            run(middle, "ip", "link", "set", "dev", inner, "up")

    def start(self):
        """Starts shaping."""
        if self.backend == "wire":
            self._start_wire()
        elif self.shape.mark:
            raise LinkError(f"link {self.shape.name}: only the wire backend marks")
        else:
            self._start_netem()

    def _start_wire(self):
        shape, queue = self.shape, self.shape.queue
        command = [
            str(self.wire), "--a", "link-a", "--b", "link-b", "--name", shape.name, "--seed", str(self.seed),
            "--delay", f"{shape.delay_s * 1e6:.3f}us", "--loss", f"{shape.loss * 100:.9f}%", "--control",
        ]
        if shape.rate_bps:
            limit = f"{queue.packets}packets" if queue.packets else f"{queue.bytes}bytes"
            command += ["--rate", f"{shape.rate_bps}bit", "--queue", limit]
        if shape.mark:
            command += ["--mark", f"{shape.mark.packets}packets" if shape.mark.packets else f"{shape.mark.bytes}bytes"]
        if self.report:
            command += ["--json", str(Path(self.report) / f"wire-{shape.name}.json")]
        # The wire ends with its standard input, so not even a killed script leaves one behind.
        self.child = process.start(self.middle, command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0,
                                       stderr=subprocess.DEVNULL if self.report else None)
        if self._answer() != "ready":
            raise LinkError(f"link {shape.name}: {self.wire} did not start; run it by hand with --help")

    def _answer(self, timeout_s=10):
        """The next line of the wire, or "" when it has ended or is silent. The pipe is unbuffered, so
        `select` sees every byte that is left."""
        ready, _, _ = select.select([self.child.stdout], [], [], timeout_s)
        return self.child.stdout.readline().decode().strip() if ready else ""

    def command(self, text):
        """Sends one live command to the wire, such as "rate 2mbit" or "a-to-b loss 1%"."""
        if self.backend != "wire":
            raise LinkError(f'"{text}": live commands need the wire backend')
        self.child.stdin.write(text.encode() + b"\n")
        self.child.stdin.flush()
        answer = self._answer()
        if not answer.startswith("ok"):
            raise LinkError(f'link {self.shape.name}: "{text}" was refused: {answer or "no answer"}')

    def down(self):
        """Silence: nothing passes, and neither end sees its carrier change."""
        self._silence("down", 1.0)

    def up(self):
        """Ends what `down` began."""
        self._silence("up", self.shape.loss)

    def _silence(self, command, loss):
        if self.backend == "wire":
            self.command(command)
        else:
            for inner in ("link-a", "link-b"):
                self._netem("change", inner, loss)

    def _start_netem(self):
        middle = self.middle
        run(middle, "ip", "link", "add", "name", "bridge", "type", "bridge", "stp_state", "0", "mcast_snooping", "0")
        for inner in ("link-a", "link-b"):
            run(middle, "ip", "link", "set", "dev", inner, "master", "bridge")
            self._netem("add", inner, self.shape.loss)
        run(middle, "ip", "link", "set", "dev", "bridge", "up")
        if self.shape.rate_bps:
            for intf in (self.intf1, self.intf2):
                shape_egress(intf.node, intf.name, self.shape)

    def _netem(self, verb, inner, loss):
        """Delay and loss on one side of the middle; the queue was before, so the limit must never bind."""
        shape = self.shape
        limit = max(1000, int(1.5 * (shape.rate_bps or UNLIMITED_BPS) * shape.delay_s / 8 / 60) + 1)
        words = ["netem", "limit", limit, "delay", f"{shape.delay_s * 1e6:.0f}us"]
        if loss:
            words += ["loss", "random", f"{loss * 100:.6f}%"]
        run(self.middle, "tc", "qdisc", verb, "dev", inner, "root", "handle", "1:", *words)
        check_qdisc(self.middle, inner, "netem")

    def measure(self, attempts=3):
        """Checks RTT, loss and rate against the shape and returns them. Raises LinkError with the figures
        if they are wrong in each of `attempts`: a busy machine is late at times, a wrong link always."""
        for _ in range(attempts - 1):
            with contextlib.suppress(LinkError):
                return self._measure_once()
        return self._measure_once()

    def _measure_once(self):
        client, server = self.intf1, self.intf2
        figures = {"rtt_ms": self._median_rtt_ms(client, server)}
        wanted_ms = self.shape.rtt_s * 1e3
        if not wanted_ms - 0.3 <= figures["rtt_ms"] <= wanted_ms * 1.1 + 1:
            self._fail(f"the median RTT is {figures['rtt_ms']:.2f} ms where {wanted_ms:g} ms was asked for")
        if not self.shape.rate_bps:
            return figures
        for way, source, sink in (("up", client, server), ("down", server, client)):
            below = self._udp(source, sink, 0.9)
            lost = 1 - below["received"] / below["sent"]
            if lost > self.shape.loss * 1.5 + 0.02:
                self._fail(f"{lost:.1%} of full-size UDP sent {way} at 0.9 of the rate is lost")
            above = self._udp(source, sink, 1.3)
            if not 0.93 <= above["rate_bps"] / self.shape.rate_bps / (1 - self.shape.loss) <= 1.05:
                self._fail(f"the rate {way} is {above['rate_bps'] / 1e6:.2f} Mbit/s where "
                           f"{self.shape.rate_bps / 1e6:g} Mbit/s was asked for")
            figures[f"{way}_bps"] = above["rate_bps"]
        return figures

    def _fail(self, what):
        raise LinkError(f"link {self.shape.name} ({self.backend}): {what}. A busy machine shows this too: see the "
                        "load with `uptime` and run again; if it stays, the backend does not work here")

    def _median_rtt_ms(self, client, server):
        try:
            out = run(client.node, "ping", "-n", "-c", 21, "-i", "0.02", "-W", 3, "-I", client.name, server.IP())
        except CommandError as error:
            raise LinkError(f"link {self.shape.name}: ping does not pass: {error}") from error
        times = [float(time) for time in re.findall(r"time=([\d.]+) ms", out)]
        if len(times) < 11:
            self._fail(f"only {len(times)} of 21 pings came back")
        return statistics.median(times[1:])

    def _udp(self, source, sink, share, duration_s=0.5):
        """Full-size UDP at `share` of the rate: datagrams sent and received, rate of arrival."""
        idle_s = self.shape.rtt_s + 0.5
        wait_s = duration_s + idle_s + 10
        python = sys.executable
        receiver = process.start(sink.node, [python, "-I", PROBE, "receive", sink.IP(), PROBE_PORT, wait_s, idle_s])
        try:
            if receiver.stdout.readline().strip() != b"ready":
                raise LinkError(f"{sink.node.name}: the UDP probe did not start: {receiver.stderr.read().decode()}")
            sent = run(source.node, python, "-I", PROBE, "send", sink.IP(), PROBE_PORT,
                       self.shape.rate_bps * share, duration_s)
            out, _ = receiver.communicate(timeout=wait_s + 10)
        finally:
            process.stop(receiver)
        return json.loads(sent) | json.loads(out)

    def stop(self):
        """Ends the backend, removes the interfaces and the middle namespace."""
        try:
            if self.child:
                with contextlib.suppress(OSError):
                    self.child.stdin.close()
                with contextlib.suppress(subprocess.TimeoutExpired):
                    self.child.wait(3)  # writes its counters
                process.stop(self.child)
            super().stop()
        finally:
            self.middle.terminate()


def shape_egress(node, interface, shape):
    """Rate and queue of a link, by TBF on an end host's egress. Rate and queue count IP bytes."""
    burst = 2 * (1500 + ETHERNET_HEADER)
    limit = shape.queue.bytes or 1 << 24
    run(node, "tc", "qdisc", "add", "dev", interface, "root", "handle", "1:",
        "stab", "overhead", -ETHERNET_HEADER, "linklayer", "ethernet",
        "tbf", "rate", f"{shape.rate_bps}bit", "burst", burst, "limit", limit)
    check_qdisc(node, interface, "tbf")
    if shape.queue.packets:
        run(node, "tc", "qdisc", "add", "dev", interface, "parent", "1:", "handle", "10:",
            "pfifo", "limit", shape.queue.packets)
        check_qdisc(node, interface, "pfifo")


def check_qdisc(node, interface, kind):
    """Raises LinkError unless `kind` is among the queueing disciplines of the interface."""
    shown = json.loads(run(node, "tc", "-j", "qdisc", "show", "dev", interface))
    if kind not in [qdisc["kind"] for qdisc in shown]:
        raise LinkError(f"{node.name}: tc reported no error, but {interface} has no {kind}: {shown}")
