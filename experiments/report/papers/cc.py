"""Coupled CUBIC: Lee, Kim, Kwon and Han, 2023."""

from ..figures import Bar, Bars, Curve, Figure, Panel

TITLE = "Coupled CUBIC Congestion Control for MPTCP in Broadband Networks (Lee, Kim, Kwon and Han, 2023)"

_P1, _P2 = Curve("path 1", "mp", ("p1",)), Curve("path 2", "mp", ("p2",))


def _bars(path, *numbers):
    names = (("cubic", "CUBIC on P1"), ("lia", "LIA"), ("alpha1", "alpha1"), ("alpha2", "alpha2"))
    bars = (Bar(label, f"flow.mp.path.{path}.utilisation", f"case={case}", paper)
            for (case, label), paper in zip(names, numbers) if not (path == "p2" and case == "cubic"))
    return Bars({"p1": "path 1", "p2": "path 2"}[path], "part of the link's rate", tuple(bars))


FIGURES = (
    Figure("cc-fig5-6", "cc-1-4", "Figures 5 and 6: windows of LIA and of Coupled CUBIC", (
        Panel("LIA, path 1", "window", (_P1,), "case=lia"),
        Panel("LIA, path 2", "window", (_P2,), "case=lia"),
        Panel("Coupled CUBIC (alpha2), path 1", "window", (_P1,), "case=alpha2"),
        Panel("Coupled CUBIC (alpha2), path 2", "window", (_P2,), "case=alpha2"),
    ), caption="In the paper LIA's window on path 1 grows from a few hundred packets to 1290 in 240 s, and Coupled "
               "CUBIC's reaches the maximum of 8332 at once."),
    Figure("cc-fig7", "cc-1-4", "Figure 7: mean rates", (
        _bars("p1", None, 95 / 500, 397 / 500, 402 / 500), _bars("p2", None, 20 / 100, 17 / 100, 21 / 100),
    ), caption="The paper's rates, over the 500 and 100 Mbit/s of its links. For alpha1 on path 2 it says both 17 and "
               "25 Mbit/s. CUBIC's bar has no number."),
)

MEASURED = ()

WHY = {
    "CC-2: 397 of 500 Mbit/s on path 1":
        "Reduced runs only: rates are a fifth, and the loss is scaled so that Reno keeps its part of the BDP. "
        "CUBIC's window then is 1.054 (0.1/2.5e-5)^(3/4) = 530 packets of a BDP of 833, 63 %, so three quarters "
        "cannot be reached; at the paper's rates and 1e-6 it is 5930 packets, above the BDP of 4167.",
    "CC-3: 402 of 500 Mbit/s on path 1":
        "Reduced runs only: rates are a fifth, and the loss is scaled so that Reno keeps its part of the BDP. "
        "CUBIC's window then is 1.054 (0.1/2.5e-5)^(3/4) = 530 packets of a BDP of 833, 63 %, so three quarters "
        "cannot be reached; at the paper's rates and 1e-6 it is 5930 packets, above the BDP of 4167.",
    "CC-1: 95 of 500 Mbit/s on path 1, less than 15 to 20 %":
        "A matter of chance at 30 %. Where losses come at random Reno's law is 1.31/sqrt(p) (Ott, Kemperman and Mathis "
        "1996), for 1e-6 31 % of the BDP, and LIA, which grows by some 0.8 packets a round trip here, has 28 %. But 1000 s "
        "have some 13 losses on path 1, one in 24 s while slow start's full link decays; the paper's window begins at a few "
        "hundred packets. AIMD of that kind has a median of 31 % and 25 to 39 % in nine of ten runs, and the median of "
        "five runs is below 30 % once in three times. Reduced, ten seeds have 22 to 39 %, median 29 %, six of them below "
        "30 %. Five at the paper's rates have 24 to 44 %, median 32 %, and from 240 s on 22 to 39 %, median 28.5 %. The "
        "published 95 Mbit/s need a loss of 2.4e-6.",
    "CC-3: 21 Mbit/s on path 2, and 20 with LIA":
        "Path 2 of LIA depends on what LIA has on path 1, which decays slowly from slow start on, and path 2 of "
        "Coupled CUBIC on the window VR that equation 10 makes of CUBIC's: 1.183 W^(2/3)/sqrt(rtt), 1064 packets of "
        "6500, where LIA itself had some 1500. The smaller one leaves more for path 2.",
}
