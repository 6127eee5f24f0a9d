"""MPMTP: a transport protocol for media over several paths."""

from ..claims import Measured
from ..figures import BURST, QUANTITIES, Bar, Bars, Curve, Figure, Panel, over_time
from ..spread import Spread

TITLE = "MPMTP: Multipath Multimedia Transport Protocol for high-quality streaming"

SUMMARY = ("MPMTP climbs back to the window of the last loss in a concave curve, searches beyond it in a convex one, and creeps as soon "
           "as the RTT rises. It is said to raise the rate 33 % faster than MPCUBIC with 39 % fewer losses, to leave congested paths, "
           "and to be fair to CUBIC.")

_P1, _P2 = Curve("path 1", "mp", ("p1",)), Curve("path 2", "mp", ("p2",))
_BOTH = Curve("both paths", "mp", ("p1", "p2"))
_RATES = ("5 Mbit/s", "25 Mbit/s", "50 Mbit/s")
_RIVALS = (("mpmtp", "MPMTP"), ("mpmtp:fair=off", "without delta"), ("mpcubic", "MPCUBIC"), ("uncoupled-reno", "UNCOUPLED"), ("coupled", "COUPLED"),
           ("lia", "Linked Increase"))

# Slow start ends with a burst whatever comes after it.
_SLOW_START_S = 10
# MM-3: when the background ends; by what the rate is smoothed before it is compared.
_FREE_S, _SMOOTHING_S = 20, 1


def _bursts(results, case):
    table = []
    for seed in results.seeds(case):
        rows = results.series(case, seed, "paths")
        rows = rows[(rows.flow == "mp") & (rows.time_s > _SLOW_START_S)]
        table.append(float((rows.lost_packets >= BURST).sum()))
    return Spread(tuple(table)) if table else None


def _loses_in_bursts(results):
    ours = {f"bursts at 2 x {rate}": _bursts(results, results.case(f"case=paced,rate={rate}")) for rate in _RATES}
    return None if None in ours.values() else (ours, all(spread.median > 0 for spread in ours.values()))


def _seconds_to_fill(results, cc):
    """For each seed, from the end of the background to the first second at 90 % of 100 Mbit/s; None if in none."""
    table = over_time(results, results.case(f"cc={cc}"), _BOTH, QUANTITIES["rate"], thin=False)
    if table is None:
        return None
    smooth = table.rolling(round(_SMOOTHING_S / (table.index[1] - table.index[0]))).mean()
    after = smooth[smooth.index >= _FREE_S + _SMOOTHING_S]
    # A run that never gets there is counted with the whole time.
    firsts = [(after[seed] >= 90).idxmax() if (after[seed] >= 90).any() else after.index[-1] for seed in after]
    return Spread(tuple(float(first - _FREE_S) for first in firsts))


def _lost(results, cc):
    case = results.case(f"cc={cc}")
    values = [results.metric(case, seed, "flow.mp.lost_packets") for seed in results.seeds(case)]
    return Spread(tuple(values)) if values and None not in values else None


def _fills_sooner(results):
    ours = {cc: _seconds_to_fill(results, cc) for cc in ("mpmtp", "mpcubic", "lia", "mpmtp:fair=off")}
    if None in ours.values():
        return None
    return {f"{cc}, s": spread for cc, spread in ours.items()}, ours["mpmtp"].median < ours["mpcubic"].median


def _overall(results):
    seconds = [_seconds_to_fill(results, cc) for cc in ("mpmtp", "mpcubic")]
    losses = [_lost(results, cc) for cc in ("mpmtp", "mpcubic")]
    if None in seconds or None in losses or not seconds[0].median or not losses[1].median:
        return None
    faster, fewer = seconds[1].median / seconds[0].median - 1, 1 - losses[0].median / losses[1].median
    return {"rate grows faster by": Spread((faster,)), "fewer losses by": Spread((fewer,))}, faster >= 0.33 and fewer >= 0.39


def _side_by_side(cases, quantity, curves):
    return tuple(Panel(label, quantity, curves, f"cc={cc}") for cc, label in cases)


_THREE = (("lia", "MPTCP (LIA)"), ("mpcubic", "MPCUBIC"), ("mpmtp", "MPMTP"))

FIGURES = (
    Figure("mm-fig2", "mm-0", "Figure 2 and table 1: windows and losses of LIA, MPSQRT and MPIIAD", (
        *_side_by_side((("lia", "MPTCP (LIA)"), ("mpsqrt:step=ack", "MPSQRT"), ("mpiiad:step=ack", "MPIIAD")), "window", (_P1, _P2)),
        Bars("lost packets", "", (
            Bar("MPTCP (LIA)", "flow.mp.lost_packets", "cc=lia", 384),
            Bar("MPSQRT", "flow.mp.lost_packets", "cc=mpsqrt:step=ack", 6460),
            Bar("MPIIAD", "flow.mp.lost_packets", "cc=mpiiad:step=ack", 1544))),
    ), published="384 packets lost with MPTCP, 6460 with MPSQRT, 1544 with MPIIAD"),
    Figure("mm-fig3-4", "mm-1", "Figures 3 and 4: windows and losses of MPCUBIC, by capacity", (
        *(Panel(f"2 x {rate}", "window", (_P1, _P2), f"case=paced,rate={rate}") for rate in _RATES),
        Panel("2 x 50 Mbit/s", "losses", (_BOTH,), "case=paced,rate=50 Mbit/s"),
        Panel("2 x 50 Mbit/s", "bursts", (_BOTH,), "case=paced,rate=50 Mbit/s"),
        Panel("2 x 50 Mbit/s, hosts that do not pace", "bursts", (_BOTH,), "case=at-once,rate=50 Mbit/s"),
    ), published="10, 50 and 100 Mbit/s for both paths together; burst losses at 100, no number"),
    Figure("mm-fig17", "mm-2", "Figure 17: beside 10 flows on each link", (
        *_side_by_side(_THREE, "window", (_P1, _P2)), *_side_by_side(_THREE, "losses", (_BOTH,)),
    ), columns=3, published="ten flows on each path; MPMTP smooth and with the fewest losses, no number"),
    Figure("mm-fig18", "mm-3", "Figure 18: 10 flows on each link until 20 s", (
        *_side_by_side(_THREE, "window", (_P1, _P2)), *_side_by_side(_THREE, "losses", (_BOTH,)),
    ), columns=3, published="paths of 50 Mbit/s, background until 20 s, no loss with MPMTP after it"),
    Figure("mm-fig19", "mm-4", "Figure 19 and table 2: with and without load balancing", (
        Panel("without load balancing", "window", (_P1, _P2), "cc=mpmtp:balance=off"),
        Panel("with load balancing", "window", (_P1, _P2), "cc=mpmtp"),
        Bars("lost of the packets sent on path 1", "", (
            Bar("without", "flow.mp.path.p1.loss", "cc=mpmtp:balance=off", 3.19e-5),
            Bar("with", "flow.mp.path.p1.loss", "cc=mpmtp", 8.3e-6))),
        Bars("lost packets on path 1", "", (
            Bar("without", "flow.mp.path.p1.lost_packets", "cc=mpmtp:balance=off"),
            Bar("with", "flow.mp.path.p1.lost_packets", "cc=mpmtp"))),
    ), published="paths of 10 Mbit/s; loss of path 1 3.19e-5 without, 8.3e-6 with load balancing, 1e-7 on path 2"),
    Figure("mm-fig20", "mm-5", "Figure 20: losses and mean rates", (
        Bars("lost packets", "", tuple(Bar(label, "flow.mp.lost_packets", f"cc={cc}") for cc, label in _RIVALS)),
        Bars("goodput", "Mbit/s", tuple(Bar(label, "flow.mp.goodput_mbps", f"cc={cc}") for cc, label in _RIVALS)),
    ), published="losses like those of the AIMD-based ones, and the highest throughput, no number"),
    Figure("mm-fig22", "mm-6", "Figure 22: MPMTP and CUBIC at one bottleneck", (
        Panel("MPMTP, both paths together, and CUBIC", "window", (
            Curve("MPMTP", "mp", ("a", "b")), Curve("CUBIC", "cubic", ("core",)))),
        Panel("the paths of MPMTP", "window", (Curve("path 1", "mp", ("a",)), Curve("path 2", "mp", ("b",)))),
    ), published="50 Mbit/s; both windows together like CUBIC's, and alike, no number"),
)

MEASURED = (
    Measured("mm-1", "MM-1: the convex growth overshoots, which leads to burst losses",
             f"samples of 0.1 s after {_SLOW_START_S} s with {BURST} losses or more on a path: above 0", _loses_in_bursts),
    Measured("mm-3", "MM-3: MPMTP increases its window faster than MPCUBIC",
             f"from {_FREE_S} s to 90 % of 100 Mbit/s, mean of 1 s: MPMTP sooner", _fills_sooner),
    Measured("mm-3", "MM-S: the rate grows 33 % faster than with MPCUBIC, with 39 % fewer losses",
             "the paper does not say in which experiment; figure 18 alone has growth and losses of both: time from "
             f"{_FREE_S} s to 90 % of 100 Mbit/s, MPCUBIC / MPMTP >= 1.33; losses of the whole run, MPMTP / MPCUBIC <= 0.61",
             _overall),
)

WHY = {
    "MM-1: quickly increases up to the available bandwidth":
        "Up to 2 x 25 Mbit/s it does. Buffers of 50 packets, which are assumed, are 6 % of the BDP of 2 x 50 Mbit/s and 200 ms, so that the mean of "
        "a window that falls to 0.7 is 0.88 of it. It is there within 3 s of the beginning (figure 3).",
    "MM-1: the convex growth overshoots, which leads to burst losses":
        "It overshoots by what a cubic gains in a round trip, up to six packets of 2 x 50 Mbit/s. Ours are paced, and so are lost in ones, twos and threes within "
        "100 ms, in one run of five in a four. Hosts that do not pace (pacing = false of the flow) lose up to seven within 100 ms, four "
        "or five times in a run of 2 x 50 Mbit/s (the figure), twice of 2 x 25 Mbit/s, and never of 2 x 5 Mbit/s, where a cubic gains less than a packet in a round trip.",
    "MM-4: 30 % fewer losses on path 1 (table 2: 3.19e-5 to 8.3e-6)":
        "23 % fewer, by the medians of forty runs that nobody had seen before (bootstrapped, 95 %: 14 to 34 % fewer, so the published 30 % may be). With five seeds, as it "
        "was judged until then, it was a matter of chance: forty others had 31 % fewer, and five of them come out in 55 of 100 draws.",
    "MM-3: no loss after 20 s":
        "One packet in the median of five runs, 0 to 3 in single ones, where MPCUBIC loses 11: the means that delta is made of are "
        "smoothed, which made MM-6 come out, and path and path come to the full link at different times.",
}
