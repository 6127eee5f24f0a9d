"""The topology of a run: disjoint paths, or paths that share their last link.

    client ==wifi=== server            client --left-- router ==core== server
           ==lte====                          --right--
                                              --------- (a path over the core alone)

Each path has a client address of its own, so several paths may pass one link.
"""

from mininet.link import Link as PlainLink

from .link import EmulatedLink, LinkError, disable_offloads
from .node import new_network
from .process import CommandError, run
from .topology import FIRST_TABLE, prepare_host, set_addresses


class Network:
    """A context manager: the topology stands inside `with` and is gone after it, whatever happens. `spec` is an
    experiment.Run; the other arguments are those of EmulatedLink."""

    def __init__(self, spec, backend, wire=None, report=None):
        self.spec = spec
        self.options = {"backend": backend, "seed": spec.seed, "wire": wire, "report": report}
        self.shapes = {shape.name: shape for shape in spec.links}
        self.net = self.client = self.server = None
        self.links = {}      # emulated links in use, by name
        self.routers = {}    # by the shared link behind each
        self.entries = {}    # the client's interface for each first link, and for paths over a shared link alone
        self.addresses = {}  # client's address of each path
        self.servers = {}    # server's address of each path

    def __enter__(self):
        self.net = new_network()
        try:
            self.client = self._host("client")
            self.server = self._host("server")
            shared = {links[1] for links in self.spec.paths.values() if len(links) == 2}
            for name in shared:
                self._add_shared(name)
            for number, (name, links) in enumerate(self.spec.paths.items()):
                self._add_path(number, name, links)
            for link in self.links.values():
                link.start()
            for name in self.spec.paths:
                self._check(name)
        except BaseException:
            self.net.stop()
            raise
        return self

    def __exit__(self, *_):
        self.net.stop()

    def _host(self, name):
        host = self.net.addHost(name, ip=None)
        prepare_host(host)
        return host

    def _connect(self, one, two, name):
        """An emulated link of the scenario between two nodes."""
        self.links[name] = self.net.addLink(one, two, cls=EmulatedLink, shape=self.shapes[name], **self.options)
        return self.links[name]

    def _add_shared(self, name):
        number = len(self.routers) + 1
        router = self._host(f"r{number}")
        run(router, "sysctl", "-qw", "net.ipv4.ip_forward=1")
        self.routers[name] = router
        link = self._connect(router, self.server, name)
        set_addresses(link, f"10.{200 + number}.0")

    def _add_path(self, number, name, links):
        shared = links[-1] if links[-1] in self.routers else None
        entry = links[0] if len(links) == 2 or not shared else f"{shared}-alone"
        if entry not in self.entries:
            self._add_entry(entry, shared)
        link = self.entries[entry]
        subnet, table = link.intf1.IP().rsplit(".", 1)[0], FIRST_TABLE + number
        address = f"{subnet}.{10 + number}"
        run(self.client, "ip", "addr", "add", f"{address}/24", "dev", link.intf1.name)
        run(self.client, "ip", "route", "add", "default", "via", link.intf2.IP(), "dev", link.intf1.name, "table", table)
        run(self.client, "ip", "rule", "add", "from", address, "table", table)
        run(link.intf2.node, "ip", "neigh", "replace", address, "lladdr", link.intf1.MAC(), "dev", link.intf2.name,
            "nud", "permanent")
        self.addresses[name] = address
        self.servers[name] = self.links[shared].intf2.IP() if shared else link.intf2.IP()

    def _add_entry(self, entry, shared):
        """The client's link to the server, or to the router before a shared link."""
        far = self.routers[shared] if shared else self.server
        number = len(self.entries) + 1
        if entry in self.shapes:
            link = self._connect(self.client, far, entry)
        else:
            link = self.net.addLink(self.client, far, cls=PlainLink, intfName1=f"alone{number}-c", intfName2=f"alone{number}-s")
            for intf in (link.intf1, link.intf2):
                disable_offloads(intf.node, intf.name)
        set_addresses(link, f"10.{number}.0")
        if shared:
            back = self.links[shared]
            run(self.server, "ip", "route", "add", f"10.{number}.0.0/24", "via", back.intf1.IP(), "dev", back.intf2.name)
        self.entries[entry] = link

    def _check(self, name):
        """Each client address must reach the server's."""
        address, peer = self.addresses[name], self.servers[name]
        try:
            run(self.client, "ping", "-n", "-q", "-c", 3, "-i", "0.2", "-W", 3, "-I", address, peer)
        except CommandError as error:
            raise LinkError(f"no path from {address} ({name}) to {peer}: {error}") from error

