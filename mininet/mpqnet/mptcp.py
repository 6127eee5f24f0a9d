"""The kernel's MPTCP between the hosts of a topology."""

from pathlib import Path

from .process import CommandError, run

ENABLED = Path("/proc/sys/net/mptcp/enabled")


def missing():
    """Why this kernel has no MPTCP; None if it has."""
    if not ENABLED.exists():
        return "the kernel has no MPTCP (CONFIG_MPTCP)"
    # New namespaces have the default, 1, whatever it is here.
    return None


def allow(net):
    """Lets a connection from the client's first address have a subflow from each of the others, as an owner of both
    hosts would: limits on both, and endpoints of the client."""
    names = list(net.links)
    for host in (net.client, net.server):
        run(host, "sysctl", "-qw", "net.mptcp.enabled=1")
        run(host, "ip", "mptcp", "limits", "set", "subflows", len(names), "add_addr_accepted", 0)
        run(host, "ip", "mptcp", "endpoint", "flush")
    for name in names[1:]:
        link = net.links[name]
        run(net.client, "ip", "mptcp", "endpoint", "add", net.client_address(name), "dev", link.intf1.name, "subflow")
        if net.client_address(name) not in (shown := run(net.client, "ip", "mptcp", "endpoint", "show")):
            raise CommandError(f"ip mptcp reported no error, but has no endpoint {net.client_address(name)}: {shown}")
