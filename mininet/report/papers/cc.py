"""Coupled CUBIC: Lee, Kim, Kwon and Han, 2023."""

from ..figures import Bar, Bars, Curve, Figure, Panel

TITLE = "Coupled CUBIC Congestion Control for MPTCP in Broadband Networks (Lee, Kim, Kwon and Han, 2023)"

_P1, _P2 = Curve("path 1", "mp", ("p1",)), Curve("path 2", "mp", ("p2",))


def _bars(path, *numbers):
    metric = f"flow.mp.path.{path}.goodput_mbps" if path else "flow.mp.goodput_mbps"
    names = (("cubic", "CUBIC on P1"), ("lia", "LIA"), ("alpha1", "Coupled CUBIC, alpha1"),
             ("alpha2", "Coupled CUBIC, alpha2"))
    bars = (Bar(label, metric, f"case={case}", paper)
            for (case, label), paper in zip(names, numbers) if not (path == "p2" and case == "cubic"))
    return Bars({"p1": "path 1", "p2": "path 2"}.get(path, "both"), "Mbit/s", tuple(bars))


FIGURES = (
    Figure("cc-fig5-6", "cc-1-4", "Figures 5 and 6: windows of LIA and of Coupled CUBIC", (
        Panel("LIA, path 1", "window", (_P1,), "case=lia"),
        Panel("LIA, path 2", "window", (_P2,), "case=lia"),
        Panel("Coupled CUBIC (alpha2), path 1", "window", (_P1,), "case=alpha2"),
        Panel("Coupled CUBIC (alpha2), path 2", "window", (_P2,), "case=alpha2"),
    ), caption="In the paper LIA's window on path 1 grows from a few hundred packets to 1290 in 240 s, and Coupled "
               "CUBIC's reaches the maximum of 8332 at once."),
    Figure("cc-fig7", "cc-1-4", "Figure 7: mean rates", (
        _bars("p1", None, 95, 397, 402), _bars("p2", None, 20, 17, 21), _bars(None, None, 115, 422, 423),
    ), columns=3, caption="For alpha1 on path 2 the paper says both 17 and 25 Mbit/s. CUBIC's bar has no number."),
)

MEASURED = ()

WHY = {}
