"""DC-LEDBAT: low priority over several paths."""

from ..claims import Measured
from ..figures import Bar, Bars, Curve, Figure, Panel
from ..spread import Spread

TITLE = "Low Priority Congestion Control for Multipath TCP (DC-LEDBAT; Zhang, Li, Yang, Xing, Zhuang and Xue)"

SUMMARY = ("DC-LEDBAT is fLEDBAT on each path, which empties its queue now and then to measure the base delay, and couples the paths "
           "whose queues fall together. It is said to yield to CUBIC, to have 97.8 % of fLEDBAT's rate without a latecomer's advantage, "
           "and to take one share of a bottleneck that its paths share.")

_SINGLE = Curve("flow 1", "single")
_P1, _P2 = Curve("path 1", "mp", ("p1",)), Curve("path 2", "mp", ("p2",))
_A, _B = Curve("path 1", "mp", ("a",)), Curve("path 2", "mp", ("b",))
_QUEUES = ("1000 packets", "3000 packets")
_LATECOMERS = (("published", "latecomer at 10 s, slow start"), ("additive", "latecomer at 10 s, no slow start"),
               ("queue-stands", "latecomer at 70 s, no slow start"))
_READINGS = (("published", "slow start"), ("exact", "the same, delays exact"), ("additive", "no slow start"),
             ("one-period", "the last phase alone"), ("gentle", "zeta 0.1"))
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
           caption="The buffer is of 3000 packets.",
           published="rates of 0 to 100 Mbit/s and delays of 20 ms to twice the target; the latecomer is ahead from 50 s on"),
    Figure("dl-fig3c", "dl-2", "Figure 3c: uncoupled fLEDBAT at one bottleneck of 8 Mbit/s", (
        Panel("rates", "rate", (_SINGLE, Curve("both paths", "mp", ("a", "b")), _A, _B)),),
           published="8 Mbit/s, 1000 KB/s; both paths twice the single flow"),
    Figure("dl-fig4", "dl-3", "Figure 4: CUBIC comes for 25 s", (
        Panel("link 1", "rate", (Curve("CUBIC", "cubic1", ("p1",)), _P1), "case=both"),
        Panel("link 2", "rate", (Curve("CUBIC", "cubic2", ("p2",)), Curve("path 2", "mp", ("p2",))), "case=both"),
    ), published="8 Mbit/s, 1000 KB/s; CUBIC has the links for 25 s"),
    Figure("dl-fig5", "dl-4", "Figure 5: one to five connections of DC-LEDBAT", (
        Bars("Jain's index of the connections", "", tuple(
            Bar(str(n), "window.steady.total.jain", f"count={n}") for n in range(1, 6))),
        Bars("use of link 1", "", tuple(
            Bar(str(n), "window.steady.link.p1.down.utilisation", f"count={n}") for n in range(1, 6))),
        Bars("part of the time for which the links are taken for one", "", tuple(
            Bar(str(n), "max(flow.mp.path.p1.cc.set_paths, flow.mp.path.p2.cc.set_paths) - 1", f"count={n}")
            for n in range(1, 6))),
    ), published="links of 10 Mbit/s, one to five connections; utilisation decreases slightly"),
    Figure("dl-fig6", "dl-5", "Figure 6: fLEDBAT first, DC-LEDBAT at 15 s", tuple(
        Panel(f"{words}, {queue}", "rate", (_SINGLE, _P1), f"case={case},queue={queue}")
        for case, words in _READINGS for queue in _QUEUES), columns=2,
           published="links of 100 Mbit/s; no latecomer's unfairness"),
    Figure("dl-table1", "dl-6", "Table I: what Probe-OWD costs", (
        Bars("mean rates", "Mbit/s", (
            Bar("fLEDBAT, path 1", "flow.mp.path.p1.goodput_mbps", "cc=fledbat:slow-start=on", 94.00),
            Bar("path 2", "flow.mp.path.p2.goodput_mbps", "cc=fledbat:slow-start=on", 93.94),
            Bar("DC-LEDBAT, path 1", "flow.mp.path.p1.goodput_mbps", "cc=dc-ledbat:slow-start=on", 91.92),
            Bar("path 2", "flow.mp.path.p2.goodput_mbps", "cc=dc-ledbat:slow-start=on", 91.86))),
        Panel("judgements of the first seed", "set", (_P1, _P2), "cc=dc-ledbat:slow-start=on", seed=1)),
           caption="2: the path is taken to share its bottleneck with the other one, which it does not.",
           published="94.00 + 93.94 and 91.92 + 91.86 Mbit/s over 200 s, means of ten runs"),
    Figure("dl-fig7", "dl-7", "Figure 7: DC-LEDBAT and fLEDBAT at one bottleneck of 8 Mbit/s", (
        Panel("rates", "rate", (_SINGLE, Curve("both paths", "mp", ("a", "b")), _A, _B), "case=published"),
        Bars("mean from 40 to 100 s", "Mbit/s", (
            Bar("path 1", "window.steady.flow.mp.path.a.goodput_mbps", "case=published", 236.14 * 8e-3),
            Bar("path 2", "window.steady.flow.mp.path.b.goodput_mbps", "case=published", 263.11 * 8e-3),
            Bar("both", "window.steady.flow.mp.goodput_mbps", "case=published", 499.25 * 8e-3),
            Bar("fLEDBAT", "window.steady.flow.single.goodput_mbps", "case=published", 475.73 * 8e-3))),
        Panel("judgements", "set", (_A, _B), "case=published"),
        Bars("both paths / fLEDBAT, by how exactly delays are known", "", tuple(
            Bar(label, "window.steady.flow.mp.goodput_mbps / window.steady.flow.single.goodput_mbps", f"case={case}", paper)
            for case, label, paper in (("exact", "exactly", None), ("fine", "0.1 ms", None),
                                       ("published", "1 ms", 499.25 / 475.73), ("coarse", "4 ms", None)))),
    ), published="8 Mbit/s, 1000 KB/s; from 40 s on in balance, means in the bars"),
    Figure("dl-fig8", "dl-8", "Figure 8: DC-LEDBAT over two links of 8 Mbit/s, fLEDBAT on the first", (
        Panel("rates", "rate", (_SINGLE, _P1, _P2), "case=published"),
        Panel("judgements", "set", (_P1, _P2), "case=published"),
        Bars("part of the time for which the links are taken for one", "", tuple(
            Bar(label, "max(flow.mp.path.p1.cc.set_paths, flow.mp.path.p2.cc.set_paths) - 1", f"case={case}")
            for case, label in (("published", "40 and 40 ms"), ("slow-start", "slow start"), ("unlike", "40 and 50 ms"))))),
           caption="1: a path is taken to share its bottleneck with none other.",
           published="8 Mbit/s, 1000 KB/s; path 1 and flow 1 alike, path 2 at the rate of its link"),
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

# What brings two flows to equal shares: their windows w lose w (q - target)/target of a packet for the packet that they gain in
# a round trip, so the delay q stays above the target of 100 ms by target/w.
WHY = {
    "DL-5: no latecomer's unfairness, the last 20 s":
        "What brings both to the same rate is how far the delay is above the target, target/w in equilibrium: 0.17 ms for windows "
        "of 590 packets. Timestamps of 1 ms do not show that, so rates drift past each other in straight lines (the figure), and "
        "where the lines are in the last 20 s decides. Exact delays do not make them equal in two minutes either.",
    "DL-7: 499.25 and 475.73 KB/s":
        "What brings both to the same rate is how far the delay is above the target, target/w in equilibrium: 2 ms for windows of 48 "
        "packets. The base delay that the single flow found in its first round trip may be a tick of 1 ms off, which is half of it. "
        "The bars show it: with exact delays it comes out, with ticks of 4 ms less than with 1 ms. Single runs with 1 ms have 0.59 to "
        "1.16; the published 1.05 is among them.",
    "DL-8: the paths are not taken to share a bottleneck":
        "In three of five runs both links' queues, which are alike, empty at the same time, and nothing else is looked at. Paths of 40 "
        "and 50 ms are never taken for one, nor are paths that begin with a slow start (the bars). The published rates come out all "
        "the same.",
}
