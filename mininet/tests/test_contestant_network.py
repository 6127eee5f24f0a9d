"""A short download by each kind of contestant over two links: both carry it. Needs root, mpq, mpq-wire and noq-bulk."""

import pytest

from built import find, in_namespaces
from mpqnet import experiment, mptcp, scenario, units

MPQ, WIRE, NOQ = find("mpq"), find("mpq-wire"), find("noq-bulk")
SIZE = 2_000_000
LINKS = tuple(scenario.Link(name, 10_000_000, 0.02, units.Queue(bytes=30_000), 0.0) for name in ("near", "far"))
SPEC = experiment.Run("both", 1, 60, LINKS, {"near": ("near",), "far": ("far",)}, (), (), {})

pytestmark = in_namespaces


@pytest.fixture(scope="module")
def net(tmp_path_factory):
    from mpqnet.network import Network

    for program in (MPQ, WIRE, NOQ):
        assert program and program.is_file(), "`cargo build -p mpq -p mpq-wire -p mpq-interop` makes all three"
    with Network(SPEC, "wire", wire=WIRE, report=tmp_path_factory.mktemp("wire")) as net:
        yield net


@pytest.mark.parametrize("who", ["mpq:sbd-bbr", "mptcp:reno", "noq:cubic"])
def test_both_links_carry_it(net, tmp_path, who):
    from mpqnet.contestant import Contestant, Programs, received

    if who.startswith("mptcp") and (why := mptcp.missing()):
        pytest.skip(why)
    before = {path: received(net, path) for path in SPEC.paths}
    with Contestant(net, who, list(SPEC.paths), 4433, Programs(MPQ, NOQ), tmp_path, "ours") as one:
        one.start(SIZE)
        seconds = one.seconds(30)
    found = {path: received(net, path) - before[path] for path in SPEC.paths}
    assert sum(found.values()) > SIZE and min(found.values()) > SIZE / 10, found
    # One link alone would take 1.6 s; more is a slow machine.
    assert 0.8 < seconds < 15


def test_a_download_that_ends_early_says_why(net, tmp_path):
    from mpqnet.contestant import Contestant, Programs
    from mpqnet.process import CommandError

    with Contestant(net, "tcp:reno", ["near"], 4433, Programs(MPQ, NOQ), tmp_path, "ours") as one:
        one.start(1 << 32)
        one.check()
        with pytest.raises(CommandError, match="not finished after 0.5 s"):
            one.seconds(0.5)
        one.client.kill()
        one.client.wait()
        with pytest.raises(CommandError, match="it ended with"):
            one.check()
