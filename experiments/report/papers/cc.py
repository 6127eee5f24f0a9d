"""Coupled CUBIC: Lee, Kim, Kwon and Han, 2023."""

from ..figures import Bar, Bars, Curve, Figure, Panel

TITLE = "Coupled CUBIC Congestion Control for MPTCP in Broadband Networks (Lee, Kim, Kwon and Han, 2023)"

SUMMARY = ("Coupled CUBIC runs CUBIC on paths of a large bandwidth-delay product and LIA on the others, coupled by what Reno's "
           "windows would be. It is said to use more than 80 % of a link of 500 Mbit/s and 100 ms of which LIA uses a fifth, and "
           "no more than LIA of a short one.")

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
               "CUBIC's reaches the maximum of 8332 at once.",
           published="0 to 1000 s; path 1 of LIA to 1290 packets, of Coupled CUBIC to 8332"),
    Figure("cc-fig7", "cc-1-4", "Figure 7: mean rates", (
        _bars("p1", None, 95 / 500, 397 / 500, 402 / 500), _bars("p2", None, 20 / 100, 17 / 100, 21 / 100),
    ), caption="The paper's rates, over the 500 and 100 Mbit/s of its links. For alpha1 on path 2 it says both 17 and "
               "25 Mbit/s. CUBIC's bar has no number.", published="LIA 95 + 20, alpha1 397 + 25 or 17, alpha2 402 + 21 Mbit/s"),
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
}
