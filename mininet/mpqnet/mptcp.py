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
    """Lets a connection from the client's first address have a subflow from each of the others."""
    further = [(net.client_address(name), net.links[name].intf1.name) for name in list(net.links)[1:]]
    allow_from(net.client, net.server, further)


def allow_from(client, server, further):
    """Lets a connection of the client have a subflow from each of `further`, [(address, interface)], besides that from
    where it began, as an owner of both hosts would: limits on both, and endpoints of the client."""
    for host in (client, server):
        run(host, "sysctl", "-qw", "net.mptcp.enabled=1")
        run(host, "ip", "mptcp", "limits", "set", "subflows", len(further) + 1, "add_addr_accepted", 0)
        run(host, "ip", "mptcp", "endpoint", "flush")
    for address, interface in further:
        run(client, "ip", "mptcp", "endpoint", "add", address, "dev", interface, "subflow")
        if address not in (shown := run(client, "ip", "mptcp", "endpoint", "show")):
            raise CommandError(f"ip mptcp reported no error, but has no endpoint {address}: {shown}")
