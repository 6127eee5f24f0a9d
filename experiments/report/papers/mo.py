"""MPCOA: path manager, controller and buffer together."""

from ..figures import Bar, Bars, Figure

TITLE = "MPCOA: multi-parameter comprehensive optimized algorithm for MPTCP"

SUMMARY = ("MPCOA chooses path manager, controller and buffer together from measurements over up to eight paths. It is said that "
           "buffers far below the usual rule suffice, and which controller is ahead.")

_NAMES = (("uncoupled-cubic", "CUBIC"), ("uncoupled-reno", "Reno"), ("scalable", "Scalable"), ("vegas", "Vegas"),
          ("olia", "OLIA"), ("hybla", "Hybla"))


def _by_controller(buffer, numbers=(None,) * 6):
    return Bars(f"buffer of {buffer}", "Mbit/s", tuple(
        Bar(label, "flow.mp.goodput_mbps", f"cc={cc},flow_control={buffer}", paper)
        for (cc, label), paper in zip(_NAMES, numbers)))


FIGURES = (
    Figure("mo-srl-hu", "mo-1", "SRL to HU, FullMesh: goodput by controller and buffer", (
        _by_controller("0.5MiB"), _by_controller("4MiB"), _by_controller("12MiB"),
        _by_controller("30MiB", (26.7, 30.8, 27.5, 29.2, 43.0, 41.7)))),
    Figure("mo-unis-hin", "mo-2", "UNIS to HiN, FullMesh: goodput by controller and buffer", tuple(
        map(_by_controller, ("0.5MiB", "2MiB", "9MiB", "30MiB")))),
    Figure("mo-uit-haw", "mo-3", "UiT to HAW, FullMesh: goodput by controller and buffer", (
        _by_controller("0.5MiB", (None, None, 0.82, None, None, None)),
        *map(_by_controller, ("2MiB", "8MiB", "30MiB")))),
)

MEASURED = ()

WHY = {
    "MO-1: 12.36 MiB is the optimum; eq. 1 would be above 25 MiB":
        "Until a packet that a modem path lost is repaired, all the others fill the buffer: two to three RTTs of 1.1 to 1.5 s. "
        "ecf leaves a path alone that would block the buffer, and then 12 MiB are as good as 30 for Hybla, Scalable and CUBIC, "
        "and OLIA loses a tenth to a fifth, a tenth with opportunistic retransmission. With min-rtt they are not, although "
        "what blocks is sent again on a fast path.",
    "MO-1, FullMesh, 30 MiB: Hybla 41.7, Vegas 29.2, Reno 30.8, Scalable 27.5, CUBIC 26.7 Mbit/s":
        "Losses are not published, and 0.01 % is assumed. With it Scalable's law, 0.08/p = 800 packets, is 35 Mbit/s on one path "
        "of 250 ms, as it has here, and CUBIC's 1.054 (rtt/p)^(3/4) 16: the published 27.5 and 26.7 Mbit/s over all eight need "
        "more losses. Reno's 28.2 and Vegas' 36.2 Mbit/s are nearer to the published ones. Hybla overshoots the modems.",
}
