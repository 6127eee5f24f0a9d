"""MCompound: the hybrid of loss and delay, from Compound TCP."""

from ..claims import Measured
from ..figures import QUANTITIES, Bar, Bars, Curve, Figure, Panel, over_time
from ..spread import Spread

TITLE = "MCompound: hybrid multipath congestion control extended from Compound TCP"

_CC = "cc=mcompound:w_low=0"


def _seconds_nearly_full(results, case, cc):
    """For each seed, how long both paths together are at 90 % of 400 Mbit/s or more; None without runs."""
    table = over_time(results, results.case(f"case={case},cc={cc}"), Curve("", "mp", ("p1", "p2")),
                      QUANTITIES["rate"][1], thin=False)
    if table is None:
        return None
    step = table.index[1] - table.index[0]
    return Spread(tuple(float((table[seed] >= 0.9 * 400).sum() * step) for seed in table))


def _four_times_as_long(case):
    def measure(results):
        ours = {cc: _seconds_nearly_full(results, case, cc) for cc in ("mcompound:w_low=0", "lia", "olia")}
        if None in ours.values():
            return None
        best, *others = (spread.median for spread in ours.values())
        return {f"{cc}, s": spread for cc, spread in ours.items()}, all(best >= 4 * other for other in others)
    return measure


FIGURES = (
    Figure("mc-fig3", "mc-1", "Figure 3: traffic leaves links 2 and 3 when others join there at 70 s", (
        Panel("MCompound", "rate", (Curve("path 1 (link 1)", "mp", ("link1",)),
                                    Curve("path 2 (links 2 and 3)", "mp", ("sub2",)))),
        Panel("Compound", "rate", (Curve("on link 1", "ctcp1"), Curve("on link 2", "ctcp2"),
                                   Curve("on link 3", "ctcp3"))),
    )),
    Figure("mc-fig4", "mc-2", "Figure 4: MCompound beside MPTCP over two links of 200 Mbit/s", tuple(
        Panel(f"{cc.split(':')[0]}, {words}", "rate", (Curve("both paths", "mp", ("p1", "p2")),), f"case={case},cc={cc}")
        for case, words in (("one-way", "40 ms one way"), ("round-trip", "RTT 40 ms"))
        for cc in ("mcompound:w_low=0", "lia", "olia")
    ), columns=3, share_y=True),
    Figure("mc-fig5", "mc-3", "Figure 5: MCompound and Compound at one bottleneck of 100 Mbit/s", (
        Panel("rates", "rate", (Curve("MCompound, path 1", "mp", ("a",)), Curve("MCompound, path 2", "mp", ("b",)),
                                Curve("MCompound, both", "mp", ("a", "b")), Curve("Compound", "ctcp", ("core",)))),
        Bars("mean from 30 s on", "Mbit/s", (
            Bar("path 1", "window.steady.flow.mp.path.a.goodput_mbps"),
            Bar("path 2", "window.steady.flow.mp.path.b.goodput_mbps"),
            Bar("both", "window.steady.flow.mp.goodput_mbps"),
            Bar("Compound", "window.steady.flow.ctcp.goodput_mbps"))),
    )),
)

MEASURED = tuple(
    Measured("mc-2", f"MC-2: MCompound holds the peak nearly 400 s, MPTCP about 80 s ({words})",
             "time at 90 % of 400 Mbit/s or more: MCompound at least 4 times as long as LIA and as OLIA",
             _four_times_as_long(case))
    for case, words in (("one-way", "40 ms one way"), ("round-trip", "RTT 40 ms")))

WHY = {}
