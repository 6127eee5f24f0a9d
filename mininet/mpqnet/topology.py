"""Two hosts joined by disjoint paths, one link each.

    client  10.1.0.1 --wifi-- 10.1.0.2  server
            10.2.0.1 --lte--- 10.2.0.2
"""

import contextlib
import sys

from .link import EmulatedLink, LinkError
from .live import Status
from .node import new_network
from .process import CommandError, run

FIRST_TABLE = 101


class DisjointPaths:
    """A context manager: the topology stands inside `with` and is gone after it, whatever happens.

    `links` are scenario.Link; the other arguments are those of EmulatedLink.
    """

    def __init__(self, links, backend, seed=1, wire=None, report=None):
        self.shapes = links
        self.options = {"backend": backend, "seed": seed, "wire": wire, "report": report}
        self.net = self.client = self.server = None
        self.links = {}

    def __enter__(self):
        self.net = new_network()
        try:
            self.client = self.net.addHost("client", ip=None)
            self.server = self.net.addHost("server", ip=None)
            for host in (self.client, self.server):
                prepare_host(host)
            for index, shape in enumerate(self.shapes, 1):
                self._add(index, shape)
            self._check_paths()
        except BaseException:
            self.net.stop()
            raise
        return self

    def __exit__(self, *_):
        self.net.stop()

    def client_address(self, name):
        """The client's address on the link `name`."""
        return self.links[name].intf1.IP()

    def server_address(self, name):
        """The server's address on the link `name`."""
        return self.links[name].intf2.IP()

    def _add(self, index, shape):
        link = self.net.addLink(self.client, self.server, cls=EmulatedLink, shape=shape, **self.options)
        self.links[shape.name] = link
        client, server = link.intf1, link.intf2
        set_addresses(link, f"10.{index}.0")
        # What leaves from an address leaves by its link, wherever it goes. The server needs no such
        # rule: each client address is on the subnet of its link.
        table = FIRST_TABLE + index - 1
        run(self.client, "ip", "route", "add", "default", "via", server.IP(), "dev", client.name, "table", table)
        run(self.client, "ip", "rule", "add", "from", client.IP(), "table", table)
        link.start()

    def _check_paths(self):
        """Each client address must reach each server address."""
        for source in self.links:
            for target in self.links:
                address, peer = self.client_address(source), self.server_address(target)
                try:
                    run(self.client, "ping", "-n", "-q", "-c", 1, "-W", 3, "-I", address, peer)
                except CommandError:
                    # One lost ping may be the link's own loss.
                    try:
                        run(self.client, "ping", "-n", "-q", "-c", 5, "-i", "0.2", "-W", 3, "-I", address, peer)
                    except CommandError as error:
                        raise LinkError(f"no path from {address} ({source}) to {peer} ({target}): {error}") from error


def prepare_host(host):
    """Settings of an end host, or of a router."""
    run(host, "ip", "link", "set", "dev", "lo", "up")
    # Any host address may be reached over any path, so no reverse-path filter.
    run(host, "sysctl", "-qw", "net.ipv4.conf.all.rp_filter=0", "net.ipv4.conf.default.rp_filter=0")
    # Not every kernel has these per namespace; then the system's own limits hold.
    for name in ("rmem_max", "wmem_max"):
        with contextlib.suppress(CommandError):
            run(host, "sysctl", "-qw", f"net.core.{name}=8388608")


def set_addresses(link, subnet):
    """Gives the ends of a link .1 and .2 of a subnet ("10.1.0"), and tells each the other's MAC address."""
    for intf, side in ((link.intf1, 1), (link.intf2, 2)):
        intf.setIP(f"{subnet}.{side}/24")
        run(intf.node, "sysctl", "-qw", f"net.ipv4.conf.{intf.name}.rp_filter=0")
        intf.updateAddr()
        if not intf.IP() or not intf.MAC():
            raise LinkError(f"{intf.name}: the address was not set")
    for intf, peer in ((link.intf1, link.intf2), (link.intf2, link.intf1)):
        run(intf.node, "ip", "neigh", "replace", peer.IP(), "lladdr", peer.MAC(), "dev", intf.name, "nud", "permanent")


def measure_links(net, out=sys.stdout):
    """Measures every link; returns a line about each."""
    notes = []
    for index, (name, link) in enumerate(net.links.items(), 1):
        status = Status(f"measuring link {name} ({index} of {len(net.links)})", out)
        status.show("RTT, loss and rate of full-size UDP, both ways")
        figures = link.measure()
        text, asked = f"RTT {figures['rtt_ms']:.1f} ms", f"RTT {link.shape.rtt_s * 1e3:g} ms"
        if link.shape.rate_bps:
            text += f", {figures['up_bps'] / 1e6:.2f} Mbit/s up, {figures['down_bps'] / 1e6:.2f} Mbit/s down"
            asked = f"{link.shape.rate_bps / 1e6:g} Mbit/s, {asked}"
        status.show(text, final=True)
        notes.append(f"{name}: asked for {asked}; measured {text} ({link.backend} backend)")
    return notes
