"""MPCOA: path manager, controller and buffer together."""

from ..figures import Bar, Bars, Figure

TITLE = "MPCOA: multi-parameter comprehensive optimized algorithm for MPTCP"

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
}
