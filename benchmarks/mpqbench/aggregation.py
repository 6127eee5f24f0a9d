"""One download over two links against what the links together can carry."""

from mpqnet.bulk import make_bulk, sha256_of
from mpqnet.server import Server
from mpqnet.topology import DisjointPaths, measure_links

from .figures import Figure, Goal
from .setting import MIB, download, link

RUNS = 10

CONTROLLERS = ("lia", "olia", "uncoupled-cubic", "uncoupled-bbr", "sbd-bbr")

# Links, bytes, and the completion time wanted. For scale: the first pair alone takes 3.36 s for the
# bytes without any header, the second 1.32 s.
CASES = {
    "30+20mbit": ((link("fast", 30, 20), link("slow", 20, 50)), 20 * MIB, Goal("<=", 3.64)),
    "300+80mbit": ((link("fast", 300, 10), link("slow", 80, 30)), 60 * MIB, Goal("<=", 1.47)),
}
SHARE_GOAL = Goal(">=", 0.92)

UDP_PAYLOAD = 1472  # what path MTU discovery finds on these links
IP_AND_UDP = 20 + 8


def payload_share():
    """Stream bytes in a full packet / its IP bytes.

    A packet has a short header (1 byte, the connection ID of 8, a packet number of 2), a STREAM frame's
    header (type 1, stream ID 1, offset 4, length 2) and the AEAD's tag of 16. HTTP/3 adds a few bytes to the
    whole stream, acknowledgments travel the other way; both are neglected.
    """
    return (UDP_PAYLOAD - (1 + 8 + 2) - (1 + 1 + 4 + 2) - 16) / (UDP_PAYLOAD + IP_AND_UDP)


def run(setting):
    figures = []
    for name, (links, size, goal) in CASES.items():
        with DisjointPaths(links, setting.backend, wire=setting.wire, report=setting.out) as net:
            measure_links(net, setting.status("").out)
            figures += _case(setting, net, name, size, goal)
    return figures


def _case(setting, net, name, size, goal):
    bulk = setting.out / "www" / "bulk.bin"
    make_bulk(bulk, size, seed=1)
    sha256, rate_bps = sha256_of(bulk), sum(link.shape.rate_bps for link in net.links.values())
    figures = []
    for controller in CONTROLLERS:
        label = f"aggregation {name} {controller}"
        share = Figure(label, "goodput / (link rates x payload share)", "", SHARE_GOAL)
        seconds = Figure(label, "process start to exit", "s", goal)
        whole = Figure(label, "whole and right", "", Goal(">=", 1), every=True)
        status = setting.status(label)
        with Server(net, setting.mpq, bulk.parent, ["--cc", controller]) as server:
            for i in range(setting.runs):
                got = download(setting, net, server, bulk.name, sha256, ["--cc", controller])
                whole.values.append(float(got.whole))
                if got.whole:
                    seconds.values.append(got.seconds)
                    share.values.append(got.report.goodput_bps / (rate_bps * payload_share()))
                status.show(f"run {i + 1} of {setting.runs}: " + (got.problem or f"{got.seconds:.2f} s"),
                            final=i + 1 == setting.runs)
        figures += [share, seconds, whole]
    return figures
