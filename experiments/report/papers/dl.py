"""DC-LEDBAT: low priority over several paths."""

from ..claims import Measured
from ..figures import Bar, Bars, Curve, Figure, Panel
from ..spread import Spread

TITLE = "Low Priority Congestion Control for Multipath TCP (DC-LEDBAT; Zhang, Li, Yang, Xing, Zhuang and Xue)"

_SINGLE = Curve("flow 1", "single")
_P1, _P2 = Curve("path 1", "mp", ("p1",)), Curve("path 2", "mp", ("p2",))
_A, _B = Curve("path 1", "mp", ("a",)), Curve("path 2", "mp", ("b",))
_QUEUES = ("1000 packets", "3000 packets")
_LATECOMERS = (("published", "latecomer at 10 s, slow start"), ("additive", "latecomer at 10 s, no slow start"),
               ("queue-stands", "latecomer at 70 s, no slow start"))
_READINGS = (("published", "slow start"), ("additive", "no slow start"), ("one-period", "the last phase alone"),
             ("gentle", "zeta 0.1"))
# DL-1: a latecomer that has this much more has an advantage that nobody would call noise.
_DOMINATES = 1.5


def _latecomer(case_name, queue):
    def measure(results):
        case = results.case(f"case={case_name},queue={queue}")
        ratios = []
        for seed in results.seeds(case):
            late = results.metric(case, seed, "window.late.flow.mp.path.p1.goodput_mbps")
            first = results.metric(case, seed, "window.late.flow.single.path.p1.goodput_mbps")
            if late is None or not first:
                continue
            ratios.append(late / first)
        if not ratios:
            return None
        dominates = any(ratio >= _DOMINATES for ratio in ratios)
        return ({"path 1 / flow 1": Spread(tuple(ratios)),
                 f"runs above {_DOMINATES}": Spread((float(sum(ratio >= _DOMINATES for ratio in ratios)),))},
                dominates if case_name == "published" else None)
    return measure


def _taken_for_one(*selections):
    """Part of the time for which links are taken for one, which no paper counts: reported."""
    def measure(results):
        ours = {}
        for selection in selections:
            case = results.case(selection)
            values = [max(results.metric(case, seed, f"flow.mp.path.{path}.cc.set_paths") or 0.0 for path in ("p1", "p2")) - 1
                      for seed in results.seeds(case)]
            if not values:
                return None
            ours[selection] = Spread(tuple(values))
        return ours, None
    return measure


FIGURES = (
    Figure("dl-fig3ab", "dl-1", "Figures 3a and 3b: the latecomer's unfairness of fLEDBAT (the first seed alone)", tuple(
        panel for case, words in _LATECOMERS for queue in _QUEUES[-1:] for panel in (
            Panel(words, "rate", (_SINGLE, _P1, _P2), f"case={case},queue={queue}", seed=1),
            Panel(f"{words}: queueing delay on each path", "queueing", (Curve("flow 1", "single", ("p1",)), _P1, _P2),
                  f"case={case},queue={queue}", seed=1))),
           caption="The buffer is of 3000 packets."),
    Figure("dl-fig3c", "dl-2", "Figure 3c: uncoupled fLEDBAT at one bottleneck of 8 Mbit/s", (
        Panel("rates", "rate", (_SINGLE, Curve("both paths", "mp", ("a", "b")), _A, _B)),)),
    Figure("dl-fig4", "dl-3", "Figure 4: CUBIC comes for 25 s", (
        Panel("link 1", "rate", (Curve("CUBIC", "cubic1", ("p1",)), _P1), "case=both"),
        Panel("link 2", "rate", (Curve("CUBIC", "cubic2", ("p2",)), Curve("path 2", "mp", ("p2",))), "case=both"),
    )),
    Figure("dl-fig5", "dl-4", "Figure 5: one to five connections of DC-LEDBAT", (
        Bars("Jain's index of the connections", "", tuple(
            Bar(str(n), "window.steady.total.jain", f"count={n}") for n in range(1, 6))),
        Bars("use of link 1", "", tuple(
            Bar(str(n), "window.steady.link.p1.down.utilisation", f"count={n}") for n in range(1, 6))),
        Bars("part of the time for which the links are taken for one", "", tuple(
            Bar(str(n), "max(flow.mp.path.p1.cc.set_paths, flow.mp.path.p2.cc.set_paths) - 1", f"count={n}")
            for n in range(1, 6))),
    )),
    Figure("dl-fig6", "dl-5", "Figure 6: fLEDBAT first, DC-LEDBAT at 15 s", tuple(
        Panel(f"{words}, {queue}", "rate", (_SINGLE, _P1), f"case={case},queue={queue}")
        for case, words in _READINGS for queue in _QUEUES), columns=2),
    Figure("dl-table1", "dl-6", "Table I: what Probe-OWD costs", (
        Bars("mean rates", "Mbit/s", (
            Bar("fLEDBAT, path 1", "flow.mp.path.p1.goodput_mbps", "cc=fledbat:slow-start=on", 94.00),
            Bar("path 2", "flow.mp.path.p2.goodput_mbps", "cc=fledbat:slow-start=on", 93.94),
            Bar("DC-LEDBAT, path 1", "flow.mp.path.p1.goodput_mbps", "cc=dc-ledbat:slow-start=on", 91.92),
            Bar("path 2", "flow.mp.path.p2.goodput_mbps", "cc=dc-ledbat:slow-start=on", 91.86))),
        Panel("judgements of the first seed", "set", (_P1, _P2), "cc=dc-ledbat:slow-start=on", seed=1)),
           caption="2: the path is taken to share its bottleneck with the other one, which it does not."),
    Figure("dl-fig7", "dl-7", "Figure 7: DC-LEDBAT and fLEDBAT at one bottleneck of 8 Mbit/s", (
        Panel("rates", "rate", (_SINGLE, Curve("both paths", "mp", ("a", "b")), _A, _B)),
        Bars("mean from 40 to 100 s", "Mbit/s", (
            Bar("path 1", "window.steady.flow.mp.path.a.goodput_mbps", "", 236.14 * 8e-3),
            Bar("path 2", "window.steady.flow.mp.path.b.goodput_mbps", "", 263.11 * 8e-3),
            Bar("both", "window.steady.flow.mp.goodput_mbps", "", 499.25 * 8e-3),
            Bar("fLEDBAT", "window.steady.flow.single.goodput_mbps", "", 475.73 * 8e-3))),
        Panel("judgements", "set", (_A, _B)),
    )),
    Figure("dl-fig8", "dl-8", "Figure 8: DC-LEDBAT over two links of 8 Mbit/s, fLEDBAT on the first", (
        Panel("rates", "rate", (_SINGLE, _P1, _P2)), Panel("judgements", "set", (_P1, _P2))),
           caption="1: a path is taken to share its bottleneck with none other."),
)

MEASURED = tuple(
    Measured("dl-1", f"DL-1: several runs show obvious latecomer's unfairness ({words}, {queue})",
             f"path 1 gets {_DOMINATES} times what flow 1 gets, from 40 s after its start on, in one run or more",
             _latecomer(case, queue))
    for case, words in _LATECOMERS for queue in _QUEUES) + (
    Measured("dl-4", "how often two alike links are taken for one", "reported: the paper counts no judgements here",
             _taken_for_one(*(f"count={n}" for n in range(1, 6)))),
    Measured("dl-6", "how often two alike links are taken for one", "reported: the paper counts no judgements here",
             _taken_for_one("cc=dc-ledbat:slow-start=on")),
)

WHY = {
    "DL-1: several runs show obvious latecomer's unfairness (latecomer at 10 s, 1000 packets)":
        "At 10 s there is no queue that a latecomer could mistake for the base delay: fLEDBAT has no slow start and "
        "gains a packet per round trip, so after 10 s it has 260 packets of a BDP of 333. Still path 1 overtakes at "
        "85 s and has 1.5 times flow 1's rate at 160 s, too late for the judgement: in equilibrium W = alpha "
        "delta/(zeta (q - delta)), where q - delta is 0.2 ms at 480 packets, so a base delay that is wrong by 0.1 "
        "ms makes 60:40.",
    "DL-1: several runs show obvious latecomer's unfairness (latecomer at 10 s, 3000 packets)":
        "At 10 s there is no queue that a latecomer could mistake for the base delay: fLEDBAT has no slow start and "
        "gains a packet per round trip, so after 10 s it has 260 packets of a BDP of 333. Still path 1 overtakes at "
        "85 s and has 1.5 times flow 1's rate at 160 s, too late for the judgement: in equilibrium W = alpha "
        "delta/(zeta (q - delta)), where q - delta is 0.2 ms at 480 packets, so a base delay that is wrong by 0.1 "
        "ms makes 60:40.",
    "DL-1: several runs show obvious latecomer's unfairness (latecomer at 70 s, 1000 packets)":
        "The mechanism is there: the latecomer takes the standing queue of 83 ms for part of the base delay (the "
        "figure: it sees 17 ms where flow 1 sees 100) and takes flow 1's rate away until the end of the run. But it "
        "gains a packet per round trip of 140 ms, so it overtakes only after 80 s.",
    "DL-1: several runs show obvious latecomer's unfairness (latecomer at 70 s, 3000 packets)":
        "The mechanism is there: the latecomer takes the standing queue of 83 ms for part of the base delay (the "
        "figure: it sees 17 ms where flow 1 sees 100) and takes flow 1's rate away until the end of the run. But it "
        "gains a packet per round trip of 140 ms, so it overtakes only after 80 s.",
    "as DL-8: the paths are not taken to share a bottleneck":
        "By the paper's rule two paths that both begin to decrease within one round trip share a bottleneck. Here all begin "
        "together, on links that are alike, and do the same at the same time. With one connection alone both paths have "
        "their Probe-OWD phases within 0.3 s of each other and reach the target of 100 ms within a round trip of each "
        "other, first at 90 s; then they are coupled until a phase tells them apart, 16 s in one run, to the end in "
        "another. With several connections each phase empties a little of both queues. With 60 ms on the second link "
        "instead of 40 ms it never happens with up to four connections, and for 37 % of the time with five; in figure 8, "
        "where one link has other traffic, never. The rates hardly suffer: coupled or not, alike links fill.",
    "DL-5: no latecomer's unfairness, the last 20 s":
        "The mean from 50 s on is even, but by crossing: DC-LEDBAT's path 1 grows from 20 to 70 Mbit/s. A Probe-OWD "
        "phase takes its own packets from the queue, not flow 1's, whose window of 700 packets is above the BDP of "
        "333 and keeps the queue standing, so the base delay stays wrong; and W = alpha delta/(zeta (q - delta)) "
        "with q - delta of 0.2 ms at 480 packets makes 60:40 of 0.1 ms.",
}
