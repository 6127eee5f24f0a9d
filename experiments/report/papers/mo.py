"""MPCOA: path manager, controller and buffer together."""

from ..claims import Measured
from ..figures import Bar, Bars, Figure
from ..spread import Spread

TITLE = "MPCOA: multi-parameter comprehensive optimized algorithm for MPTCP"

SUMMARY = ("MPCOA chooses path manager, controller and buffer together from measurements over up to eight paths. It is said that "
           "buffers far below the usual rule suffice, and which controller is ahead.")

_NAMES = (("uncoupled-cubic", "CUBIC"), ("uncoupled-reno", "Reno"), ("scalable", "Scalable"), ("vegas", "Vegas"),
          ("olia", "OLIA"), ("hybla", "Hybla"))


def _by_controller(buffer, numbers=(None,) * 6):
    return Bars(f"buffer of {buffer}", "Mbit/s", tuple(
        Bar(label, "flow.mp.goodput_mbps", f"cc={cc},flow_control={buffer}", paper)
        for (cc, label), paper in zip(_NAMES, numbers)))


def _both(buffer, policy, published):
    return Bars(f"buffer of {buffer}", "Mbit/s", tuple(
        Bar(f"{label}\n{name}", "window.chosen.flow.mp.goodput_mbps", f"cc={cc},path_policy={of},flow_control={buffer}",
            published.get((cc, of)))
        for cc, label in _NAMES for of, name in (("full-mesh", "FullMesh"), (policy, "PCDC"))))


def _impacts(policy, paths, published):
    return tuple(Bars(f"impact factors, {label}", "", tuple(
        Bar(path.upper(), f"flow.mp.path.{path}.impact", f"cc={cc},path_policy={policy},flow_control=30MiB", paper)
        for path, paper in zip(paths, published[cc]))) for cc, label in _NAMES)


def _ahead_for_most(policy):
    """Counts the controllers with which PCDC has at least FullMesh's rate, on the medians over the seeds."""
    def measure(results):
        ratios = []
        for cc, _ in _NAMES:
            medians = []
            for of in (policy, "full-mesh"):
                case = results.case(f"cc={cc},path_policy={of},flow_control=30MiB")
                rates = [rate for seed in results.seeds(case)
                         if (rate := results.metric(case, seed, "window.chosen.flow.mp.goodput_mbps")) is not None]
                if not rates:
                    return None
                medians.append(Spread(tuple(rates)).median)
            ratios.append(medians[0] / medians[1])
        ahead = sum(ratio >= 1 for ratio in ratios)
        return ({"PCDC / FullMesh, controllers": Spread(tuple(ratios)), "ahead with": Spread((float(ahead),))},
                2 * ahead > len(ratios))
    return measure


_CC = tuple(cc for cc, _ in _NAMES)
_SRL_RATES = {"full-mesh": (26.7, 30.8, 27.5, 29.2, 43.0, 41.7), "pcdc:t=10s": (32.6, 33.8, 34.9, 31.2, 50.2, 71.9)}
# Table 2, in the order of _NAMES.
_SRL_IMPACTS = dict(zip(_CC, (
    (0.496, 0.248, -0.313, 0.184, 0.032, 0.046, 0.239, 0.063), (0.469, -0.027, 0.174, -0.496, 0.14, 0.085, 0.235, 0.165),
    (0.292, 0.19, -0.324, 0.24, 0.057, 0.02, 0.301, 0.072), (0.356, 0.135, 0.086, 0.077, 0.08, 0.057, 0.325, 0.189),
    (0.376, 0.359, 0.098, 0.172, -0.54, 0.105, 0.305, 0.113),
    (0.396, 0.174, -23.667, -0.366, -40.713, -13.235, 0.209, 0.258))))
_UNIS_IMPACTS = dict(zip(_CC, (
    (-0.014, -0.063, -0.011, -0.046, -0.075, 0.897), (0.061, 0.028, -0.034, 0.02, -0.001, 0.92),
    (-0.154, -0.03, 0.036, -0.008, 0.004, 0.923), (0.014, -0.004, 0.027, 0.094, -0.13, 0.852),
    (0.017, 0.002, -0.047, 0.025, 0.054, 0.916), (-0.019, 0.001, -0.013, -0.025, -0.003, 0.921))))
_UIT_IMPACTS = dict(zip(_CC, ((0.59, 0.44), (0.57, 0.43), (0.61, 0.45), (0.58, 0.44), (0.61, 0.46), (0.55, 0.44))))

FIGURES = (
    Figure("mo-srl-hu", "mo-1", "SRL to HU, FullMesh: goodput by controller and buffer", (
        _by_controller("0.5MiB"), _by_controller("4MiB"), _by_controller("12MiB"),
        _by_controller("30MiB", (26.7, 30.8, 27.5, 29.2, 43.0, 41.7))), published="30 MiB: 26.7 to 43.0 Mbit/s with FullMesh"),
    Figure("mo-unis-hin", "mo-2", "UNIS to HiN, FullMesh: goodput by controller and buffer", tuple(
        map(_by_controller, ("0.5MiB", "2MiB", "9MiB", "30MiB"))),
           published="274.2 Mbit/s at best, with PCDC and CUBIC; of the buffers only the fitted formulas"),
    Figure("mo-uit-haw", "mo-3", "UiT to HAW, FullMesh: goodput by controller and buffer", (
        _by_controller("0.5MiB", (None, None, 0.82, None, None, None)),
        *map(_by_controller, ("2MiB", "8MiB", "30MiB"))), published="0.82 Mbit/s at best, with Scalable"),
    Figure("mo-fig6", "mo-1-pcdc", "Figure 6 and table 2: SRL to HU with both path managers", (
        *(_both(buffer, "pcdc:t=10s", {}) for buffer in ("0.5MiB", "4MiB", "12MiB")),
        _both("30MiB", "pcdc:t=10s", {(cc, of): rate for of, rates in _SRL_RATES.items() for cc, rate in zip(_CC, rates)}),
        *_impacts("pcdc:t=10s", ("k-c", "k-cu", "p-c", "p-cu", "t-c", "t-cu", "u-c", "u-cu"), _SRL_IMPACTS)),
           published="0.5 to 30 MiB; at 30 MiB 26.7 to 43.0 Mbit/s with FullMesh, 31.2 to 71.9 with PCDC"),
    Figure("mo-fig7", "mo-2-pcdc", "Figure 7 and table 2: UNIS to HiN with both path managers", (
        *(_both(buffer, "pcdc:t=3s", {}) for buffer in ("0.5MiB", "2MiB", "9MiB")),
        _both("30MiB", "pcdc:t=3s", {("uncoupled-cubic", "pcdc:t=3s"): 274.2}),
        *_impacts("pcdc:t=3s", ("t-b", "t-p", "t-u", "u-b", "u-p", "u-u"), _UNIS_IMPACTS)),
           published="0.5 to 30 MiB; at 30 MiB at best 274.2 Mbit/s, with PCDC and CUBIC"),
    Figure("mo-fig8", "mo-3-pcdc", "Figure 8 and table 2: UiT to HAW with both path managers", (
        *(_both(buffer, "pcdc:t=30s", {}) for buffer in ("0.5MiB", "2MiB", "8MiB")),
        _both("30MiB", "pcdc:t=30s", {("scalable", "full-mesh"): 0.82}),
        *_impacts("pcdc:t=30s", ("p-d", "t-d"), _UIT_IMPACTS)),
           published="0.5 to 30 MiB; at best 0.82 Mbit/s, with FullMesh and Scalable"),
)

MEASURED = (
    Measured("mo-1-pcdc", "MO-1, figure 6: PCDC is ahead of FullMesh for most controllers",
             "with a buffer of 30 MiB, more than half of the six have at least the same rate", _ahead_for_most("pcdc:t=10s")),
)

WHY = {
    "MO-1, figure 6: \"the performance of PCDC with different CC is better than that of FullMesh with different CC\"":
        "Not with Hybla, 2 % behind, and Reno, 5 %. Throughputs over ten seconds differ by a tenth by themselves, so impact factors of "
        "about 0 are chance, and a path that brings something is left out with them. A limit of -0.1 leaves out only what surely hurts.",
    "MO-1, table 5: 12.36 MiB cost 7 % of the throughput, \"only 3.76% of traditional solutions\" (329 MiB)":
        "Until a packet that a modem path lost is repaired, two to three RTTs of 1.1 to 1.5 s, all the others fill the buffer, and "
        "opportunistic retransmission, which the paper's kernel has, repeats what blocks a buffer that is full already. With ecf, which leaves "
        "alone what would block it, 12 MiB have 0.87 to 1.03 of the rate of 30, but for Hybla (docs/papers.md).",
    "MO-1: 12.36 MiB is the optimum; eq. 1 would be above 25 MiB":
        "For Scalable, CUBIC, Reno and Vegas they are as good as 30. OLIA's ratio is within its spread, 27 to 46 Mbit/s and 30 to 54; with "
        "ecf, which leaves a path alone that would block the buffer, it is 0.92. Hybla adds 100 to 256 packets to a modem path's window in "
        "each round trip, and what overruns the queue is a hole that the buffer waits for.",
    "MO-1, FullMesh, 30 MiB: Hybla 41.7, Vegas 29.2, Reno 30.8, Scalable 27.5, CUBIC 26.7 Mbit/s":
        "Losses are not published, and 0.01 % is assumed. With it Scalable's law, 0.08/p = 800 packets, is 35 Mbit/s on one path "
        "of 250 ms, as it has here, and CUBIC's 1.054 (rtt/p)^(3/4) 16: the published 27.5 and 26.7 Mbit/s over all eight need "
        "more losses. Reno's and Vegas' are nearer to the published ones. Hybla overruns the modems' queues.",
}
