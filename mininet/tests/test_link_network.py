"""The link class in real namespaces. Needs root, and mpq-wire: the one that MPQ_WIRE names, or the newest
that cargo has built."""

import os
from pathlib import Path

import pytest

from built import find, in_namespaces
from mpqnet import scenario, units

WIRE = find("mpq-wire")

pytestmark = in_namespaces

LINKS = (scenario.Link("wifi", 12_000_000, 0.02, units.Queue(bytes=30_000), 0.0),
         scenario.Link("lte", 8_000_000, 0.05, units.Queue(packets=30), 0.0))


@pytest.fixture(autouse=True)
def wire_is_built():
    assert WIRE and WIRE.is_file(), "no mpq-wire: `cargo build -p mpq-wire`, or name one by MPQ_WIRE"


def interfaces():
    return set(os.listdir("/sys/class/net"))


def running(program):
    return {entry for entry in os.listdir("/proc") if entry.isdigit()
            and os.path.basename(_first_argument(entry)) == program}


def _first_argument(pid):
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")[0].decode(errors="replace")
    except OSError:
        return ""


def test_links_are_what_was_asked_for_and_leave_nothing_behind(tmp_path):
    from mpqnet.link import LinkError
    from mpqnet.process import CommandError, run
    from mpqnet.topology import DisjointPaths

    before, wires = interfaces(), running("mpq-wire")
    with DisjointPaths(LINKS, "wire", wire=WIRE, report=tmp_path) as net:
        figures = net.links["wifi"].measure(attempts=30)
        assert 19.7 <= figures["rtt_ms"] <= 23
        assert net.client_address("lte") == "10.2.0.1" and net.server_address("lte") == "10.2.0.2"
        # Traffic from an address leaves by its link, even to the server's other address.
        route = run(net.client, "ip", "route", "get", "10.1.0.2", "from", "10.2.0.1")
        assert "lte-c" in route

        wifi, ping = net.links["wifi"], ("ping", "-n", "-q", "-c", 1, "-W", 1, "10.1.0.2")
        wifi.down()
        with pytest.raises(CommandError):
            run(net.client, *ping)
        assert "state UP" in run(net.client, "ip", "link", "show", "dev", "wifi-c"), "the outage must be silent"
        wifi.up()
        run(net.client, *ping)

        wifi.command("rate 3mbit")
        with pytest.raises(LinkError, match="wifi"):
            wifi.measure()
        with pytest.raises(LinkError, match="unit is missing"):
            wifi.command("rate 3")
    assert interfaces() == before
    assert running("mpq-wire") == wires
    assert '"realtime"' in (tmp_path / "wire-wifi.json").read_text()


def test_a_failure_inside_leaves_nothing_behind():
    from mpqnet.topology import DisjointPaths

    before, wires = interfaces(), running("mpq-wire")
    with pytest.raises(ZeroDivisionError):
        with DisjointPaths(LINKS, "wire", wire=WIRE):
            raise ZeroDivisionError
    assert interfaces() == before
    assert running("mpq-wire") == wires


def test_a_wire_that_does_not_start_is_an_error():
    from mpqnet.link import LinkError
    from mpqnet.topology import DisjointPaths

    before = interfaces()
    with pytest.raises(LinkError, match="did not start"):
        with DisjointPaths(LINKS, "wire", wire="/bin/false"):
            pass
    assert interfaces() == before


def test_rate_and_queue_stage_of_the_netem_backend():
    """TBF is everywhere, so the first stage can be tested where netem itself is missing."""
    from mininet.link import Link

    from mpqnet.link import check_qdisc, LinkError, shape_egress
    from mpqnet.node import new_network
    from mpqnet.process import run

    net = new_network()
    try:
        one, two = net.addHost("one", ip=None), net.addHost("two", ip=None)
        net.addLink(one, two, cls=Link, intfName1="tbf-c", intfName2="tbf-s")
        for shape in LINKS:
            shape_egress(one, "tbf-c", shape)
            shown = run(one, "tc", "qdisc", "show", "dev", "tbf-c")
            assert f"rate {shape.rate_bps // 1_000_000}Mbit" in shown
            with pytest.raises(LinkError, match="no netem"):
                check_qdisc(one, "tbf-c", "netem")
            run(one, "tc", "qdisc", "del", "dev", "tbf-c", "root")
    finally:
        net.stop()


def test_a_missing_netem_is_refused_by_name():
    from mpqnet.link import choose_backend, LinkError, netem_works

    if netem_works():
        assert choose_backend("auto") == "netem"
    else:
        assert choose_backend("auto") == "wire"
        with pytest.raises(LinkError, match="sch_netem"):
            choose_backend("netem")
    assert choose_backend("wire") == "wire"
