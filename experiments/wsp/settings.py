"""The four classes of the design, and the scenario of each point.

Ranges: De Coninck and Bonaventure, "Multipath QUIC: Design and Evaluation", CoNEXT 2017, Table 1. Buffers are as their
emulator (minitopo) makes them: the bandwidth-delay product, and what the rate carries in the queuing delay, and never
less than the 15 kB that its token bucket lets pass at once.
"""

import re
from dataclasses import dataclass

from . import points

PUBLISHED_POINTS = 253
SEED = 1
TRANSFER = "20 MB"
# Of the handshake, as `mpq get` has it.
ATTEMPT_DELAY = "20 ms"
LEAST_QUEUE_BYTES = 15_000
CAPACITY_MBPS = (0.1, 100.0)
LOSS_PERCENT = (0.0, 2.5)

# What the benefit is measured against: one path, by the controller that a connection has unless told otherwise.
SINGLE_CC = "cubic"
ORDERS = {"ab": ("a", "b"), "ba": ("b", "a")}
SINGLES = {"single-a": ("a",), "single-b": ("b",)}

DEFAULT_CCS = ("ewtcp", "coupled", "lia", "olia", "balia", "wvegas", "mpcubic", "mpsqrt", "mpiiad", "mpfast",
               "coupled-cubic", "mcompound", "mpmtp", "dc-ledbat", "cubic")


@dataclass(frozen=True)
class Class:
    """One class of environments; `goal` is the least share of cases with a benefit, `published` the best
    published one."""
    name: str
    rtt_ms: float
    queuing_ms: float
    lossy: bool
    goal: float | None = None
    published: float | None = None

    @property
    def dimensions(self):
        return 8 if self.lossy else 6


CLASSES = {each.name: each for each in (
    Class("low-bdp", 50, 100, False, goal=0.98, published=0.77),
    Class("high-bdp", 400, 2000, False, goal=0.93, published=0.58),
    Class("low-bdp-lossy", 50, 100, True),
    Class("high-bdp-lossy", 400, 2000, True),
)}


@dataclass(frozen=True)
class Link:
    """One link of a point, rounded to what a scenario file says."""
    rate_mbps: float
    rtt_ms: float
    queue_bytes: int
    loss_percent: float


def links(kind, point):
    """The links "a" and "b" of a point of the unit cube."""
    made = []
    for i in range(2):
        rate = round(_within(CAPACITY_MBPS, point[i]), 2)
        rtt = round(_within((0, kind.rtt_ms), point[2 + i]), 1)
        queuing = _within((0, kind.queuing_ms), point[4 + i])
        loss = round(_within(LOSS_PERCENT, point[6 + i]), 2) if kind.lossy else 0.0
        queue = max(LEAST_QUEUE_BYTES, round(rate * 125 * (rtt + queuing)))
        made.append(Link(rate, rtt, queue, loss))
    return made


def _within(limits, share):
    low, high = limits
    return low + (high - low) * share


def design(kind, count):
    """The links of `count` points of a class, in order. All classes of the same dimensions share their points."""
    return [links(kind, point) for point in points.design(count, kind.dimensions, SEED)]


# Between a controller and a scheduler in the name of a sender.
WITH = "/"


def senders(ccs, scheds):
    """What is compared: each controller with each scheduler, or with the simulator's where none is named."""
    return [f"{cc}{WITH}{sched}" for cc in ccs for sched in scheds] if scheds else list(ccs)


def case_name(sender, order):
    """The name of the case of a sender, whose controller and scheduler may have parameters, and an order of paths."""
    return re.sub(r"[^A-Za-z0-9_]+", "-", sender).strip("-") + f"-{order}"


def scenario(kind, number, pair, ccs, single_cc=SINGLE_CC):
    """The text of the scenario of point `number`, whose links are `pair`, for some senders; `single_cc` is for the single
    paths."""
    single_a, single_b = (f"flow.mp.goodput_mbps@case={name}" for name in SINGLES)
    lines = [
        f'question = "Point {number} of the class {kind.name}: do two paths beat the better of them, whichever is first?"',
        'expected = """',
        "Yes: EBen = (goodput - the better path's) / the lesser path's is above 0; 1 is the sum. The single paths' goodputs",
        f'are those of {single_cc}."""',
        'source = "De Coninck and Bonaventure, Multipath QUIC: Design and Evaluation, CoNEXT 2017, section 4.1"',
        "",
        'duration = "5000 s"',
        'sample = "1 s"',
    ]
    for name, link in zip("ab", pair, strict=True):
        lines += ["", "[[link]]", f'name = "{name}"', f'rate = "{link.rate_mbps} Mbit/s"', f'rtt = "{link.rtt_ms} ms"',
                  f'queue = "{link.queue_bytes} bytes"']
        if link.loss_percent:
            lines.append(f'loss = "{link.loss_percent} %"')
    lines += ["", "[[flow]]", 'name = "mp"', 'paths = ["a", "b"]', f'size = "{TRANSFER}"',
              f'attempt_delay = "{ATTEMPT_DELAY}"']
    for name, paths in SINGLES.items():
        lines += _case(name, single_cc, paths)
    for cc in ccs:
        for order, paths in ORDERS.items():
            lines += _case(case_name(cc, order), cc, paths)
    for cc in ccs:
        for order in ORDERS:
            lines += ["", "[[accept]]", f'rule = "flow.mp.goodput_mbps > max({single_a} , {single_b})"',
                      'paper = "a benefit: EBen above 0"', f'cases = "case={case_name(cc, order)}"']
    return "\n".join(lines) + "\n"


def _case(name, cc, paths):
    listed = ", ".join(f'"{path}"' for path in paths)
    cc, _, sched = cc.partition(WITH)
    scheduler = f'"flow.mp.scheduler" = "{sched}", ' if sched else ""
    return ["", "[[case]]", f'name = "{name}"',
            f'set = {{ "flow.mp.cc" = "{cc}", {scheduler}"flow.mp.paths" = [{listed}] }}']
