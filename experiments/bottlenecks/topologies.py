"""Two paths that share a bottleneck or do not, drawn by a seed, as scenarios of `mpq sim`.

The flow that is asked about begins at `START_S`, over two paths, beside cross traffic that is there before it or comes
later. Half of the topologies share, half do not; of those a good part are impostors: paths that look as if they shared.
"""

import math
import random
from dataclasses import dataclass

START_S = 2
RUN_S = 12  # from then on

# Of 500 Mbit/s few: they take as long as all the others.
RATES_MBPS = (5, 100)
FAST_MBPS = (100, 500)
FAST_SHARE = 0.08
RTTS_MS = (10, 80)
MOST_RATIO = 5
QUEUES_BDP = (0.5, 1, 2, 4)
CODEL_SHARE = 0.25
FAIR_SHARE = 0.15          # of the links of their own: queues by flow
JITTERS_MS = (0, 0, 0, 1, 3, 10)
RIVALS = ("reno", "uncoupled-cubic", "bbr2_gcongestion")

# How the two paths are laid, and whether that is sharing.
KINDS = {
    "shared": True,            # one core, any cross traffic in it
    "disjoint": False,         # a bottleneck each, any cross traffic in either
    "twins": False,            # two equal links, nobody else
    "twin rivals": False,      # two equal links, on each a Reno of the same RTT
    "in step": False,          # two equal links, the same bursts on both at the same time
    "wide core": False,        # a bottleneck each, and a common link with room for both
    "fair core": False,        # one core with queues by flow, any cross traffic in it: neither path waits for the other
}
IMPOSTORS = ("twins", "twin rivals", "in step", "wide core", "fair core")
_IN_TURN = IMPOSTORS[:4]


@dataclass(frozen=True)
class Topology:
    """One of them: its kind, and the text of its links, paths and cross traffic."""
    number: int
    kind: str
    text: str

    @property
    def shared(self):
        return KINDS[self.kind]


def kind_of(number):
    """Every second one shares; of the others every second one is an impostor, of each sort but the last in turn. That one
    came later, and has every fourth place of the rest, so that all others are as they were drawn before."""
    if number % 2 == 0:
        return "shared"
    if number % 4 == 3:
        return _IN_TURN[number // 4 % len(_IN_TURN)]
    return "fair core" if number % 16 == 13 else "disjoint"


def _log_uniform(draws, low, high):
    return math.exp(draws.uniform(math.log(low), math.log(high)))


class _Drawn:
    """What a topology consists of, as it is drawn."""

    def __init__(self, draws, fair_draws):
        self.draws = draws
        self.fair_draws = fair_draws  # apart: what came later moves no other draw
        self.lines = []

    def rate(self):
        fast = self.draws.random() < FAST_SHARE
        return round(_log_uniform(self.draws, *(FAST_MBPS if fast else RATES_MBPS)), 1)

    def rtts(self):
        """Of both paths; either may be the longer one."""
        near = _log_uniform(self.draws, *RTTS_MS)
        far = near * _log_uniform(self.draws, 1, MOST_RATIO)
        both = [round(near, 1), round(far, 1)]
        self.draws.shuffle(both)
        return both

    def queue(self, rtt):
        lines = [f'queue = "{self.draws.choice(QUEUES_BDP)} BDP:rtt={rtt}ms"']
        if self.draws.random() < CODEL_SHARE:
            lines.append('aqm = "codel"')
        return lines

    def fair(self, queue):
        """The same queue, by flow."""
        return [queue[0], 'aqm = "fq-codel"']

    def perhaps_fair(self, queue):
        return self.fair(queue) if self.fair_draws.random() < FAIR_SHARE else queue

    def jitter(self):
        jitter = self.draws.choice(JITTERS_MS)
        return [f'jitter = "{jitter} ms"'] if jitter else []

    def link(self, name, rtt, rate=None, more=()):
        self.lines += ["", "[[link]]", f'name = "{name}"', f'rtt = "{round(rtt, 1)} ms"']
        self.lines += [f'rate = "{rate} Mbit/s"'] if rate else []
        self.lines += more

    def path(self, name, links):
        listed = ", ".join(f'"{link}"' for link in links)
        self.lines += ["", "[[path]]", f'name = "{name}"', f"links = [{listed}]"]

    def flow(self, name, path, cc, more=()):
        self.lines += ["", "[[flow]]", f'name = "{name}"', f'paths = ["{path}"]', f'cc = "{cc}"', *more]

    def rivals(self, name, path, rate):
        """None, one or two flows, endless or in bursts, from the beginning or later."""
        for i in range(self.draws.choice((0, 1, 1, 2))):
            more = [f'start = "{round(self.draws.choice((0.0, self.draws.uniform(0, START_S + 4))), 2)} s"']
            if self.draws.random() < 0.3:
                size = round(rate * self.draws.uniform(20, 120))  # kB: 0.16 to 1 s of the link
                pause = round(self.draws.uniform(0.3, 2), 2)
                more.append(f'requests = {{ response = "{size} kB", pause = "{pause} s" }}')
            self.flow(f"{name}{i}", path, self.draws.choice(RIVALS), more)


def _shared(drawn, fair=False):
    rate, (a, b) = drawn.rate(), drawn.rtts()
    core = round(min(a, b) * drawn.draws.uniform(0.1, 0.9), 1)
    drawn.link("left", a - core, more=drawn.jitter())
    drawn.link("right", b - core, more=drawn.jitter())
    queue = drawn.queue(round((a + b) / 2, 1))
    drawn.link("core", core, rate, drawn.fair(queue) if fair else queue)
    drawn.path("a", ["left", "core"])
    drawn.path("b", ["right", "core"])
    drawn.link("side", drawn.draws.uniform(0, 30))
    drawn.path("rivals", ["side", "core"])
    drawn.rivals("rival", "rivals", rate)


def _disjoint(drawn, core=(), queued=lambda queue: queue):
    (a, b), rates = drawn.rtts(), (drawn.rate(), drawn.rate())
    for name, rtt, rate in zip("ab", (a, b), rates, strict=True):
        drawn.link(f"link-{name}", rtt, rate, queued(drawn.queue(rtt)) + drawn.jitter())
        drawn.path(name, [f"link-{name}", *core])
        drawn.rivals(f"rival-{name}", name, rate)
    return sum(rates)


def _twins(drawn, rival):
    rate, (rtt, _) = drawn.rate(), drawn.rtts()
    more = drawn.queue(rtt) + drawn.jitter()
    for name in "ab":
        drawn.link(f"link-{name}", rtt, rate, more)
        drawn.path(name, [f"link-{name}"])
        if rival == "reno":
            drawn.flow(f"rival-{name}", name, "reno")
        elif rival == "bursts":
            requests = f'requests = {{ response = "{round(rate * 40)} kB", pause = "500 ms" }}'
            drawn.flow(f"rival-{name}", name, "reno", [requests])


def _wide_core(drawn):
    rate = _disjoint(drawn, ["core"])
    drawn.link("core", 2, round(3 * rate, 1))


def draw(seed, number):
    """Topology `number` of the seed."""
    draws = random.Random(f"{seed}/{number}")
    drawn, kind = _Drawn(draws, random.Random(f"{seed}/{number}/fair")), kind_of(number)
    match kind:
        case "shared":
            _shared(drawn)
        case "disjoint":
            _disjoint(drawn, queued=drawn.perhaps_fair)
        case "fair core":
            _shared(drawn, fair=True)
        case "wide core":
            _wide_core(drawn)
        case "twins":
            _twins(drawn, None)
        case "twin rivals":
            _twins(drawn, "reno")
        case "in step":
            _twins(drawn, "bursts")
    return Topology(number, kind, "\n".join(drawn.lines))


def scenario(topology, ccs, run_s=RUN_S, more=()):
    """Its text: a case for each controller, `run_s` from the flow's start on, `more` lines of the flow."""
    listed = ", ".join(f'"{cc}"' for cc in ccs)
    answer = "Yes" if topology.shared else "No"
    return "\n".join([
        f'question = "Topology {topology.number} ({topology.kind}): does the sender say that its paths share a bottleneck?"',
        f'expected = "{answer}, {run_s - 2} s after it began."',
        "",
        f'duration = "{START_S + run_s} s"',
        f"seeds = [{topology.number + 1}]",
        topology.text,
        "",
        "[[flow]]",
        'name = "mp"',
        'paths = ["a", "b"]',
        f'start = "{START_S} s"',
        "cc_trace = true",
        *more,
        "",
        "[sweep]",
        f'"flow.mp.cc" = [{listed}]',
        ""])
