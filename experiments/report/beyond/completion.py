"""Completion times over the links of other projects' tests."""

from ..figures import Bar, Bars, Figure

TITLE = "Completion times, from nothing"

_COUPLED = ("ewtcp", "coupled", "lia", "olia", "balia", "wvegas", "mpcubic", "mpsqrt", "mpiiad", "mpfast", "coupled-cubic",
            "mcompound", "mpmtp")
_PAIR = ("cubic", "reno", *_COUPLED, "hybla", "uncoupled-bbr")
_EQUAL = ("cubic", "reno", "bbr2_gcongestion", *_COUPLED, "dc-ledbat", "hybla", "uncoupled-bbr")
_SATELLITE = ("cubic", "reno", "lia", "olia", "balia", "mpcubic", "coupled-cubic", "mcompound", "mpmtp", "hybla",
              "hybla:rho_max=3", "uncoupled-bbr")
_OWN_WAYS = ("cubic", "lia", "olia", "balia", "coupled-cubic", "hybla:rho_max=3", "uncoupled-bbr")
_RETURNING = ("reno", "lia", "olia", "balia", "coupled-cubic")
_STARTS = ("slow", "suss", "train", "rho")


def _by_controller(title, names, lines, extra=""):
    return Bars(title, "s", tuple(Bar(name, "flow.mp.completion_s", f"cc={name}{extra}") for name in names), lines)


def _start(case):
    return Bars(case, "s", tuple(
        Bar(start, "flow.mp.completion_s", f"case={case},cc=lia:start={start}") for start in _STARTS))


def _short_transfers(rtt):
    return Bars(f"round trip of {rtt}", "s", tuple(
        Bar(f"{queue}, {start}", "flow.short.completion_s",
            f"cc=lia:start={start},link.core.rtt={rtt},link.core.queue={queue}")
        for queue in ("0.25 BDP", "0.5 BDP", "1 BDP", "2 BDP") for start in _STARTS[:2]))


def _self_test(case):
    return Bars(case, "s", tuple(
        Bar(f"{cc}, {way}", "flow.mp.completion_s", f"case={case},direction={way},cc={cc}")
        for cc in ("cubic", "lia", "olia", "balia", "coupled-cubic", "uncoupled-bbr") for way in ("down", "up")),
        (("limit", 7.00), ("the self-test's rule", 7.906)))


FIGURES = (
    Figure("picoquic-pair", "picoquic-pair", "10 MB over 50 and 40 Mbit/s, one way 15 and 30 ms", (
        _by_controller("by controller", _PAIR, (("limit", 1.04), ("goal", 1.10))),), columns=1),
    Figure("picoquic-equal", "picoquic-equal", "2 MB over twice 10 Mbit/s, one way 10 ms", (
        _by_controller("by controller", _EQUAL, (("limit", 0.90), ("goal", 0.92))),), columns=1),
    Figure("picoquic-satellite", "picoquic-satellite", "10 MB over 1 Mbit/s, 10 ms and 10 Mbit/s, 300 ms", tuple(
        _by_controller(f"scheduler {scheduler}", _SATELLITE, (("limit", 8.72), ("goal", 9.0)), f",scheduler={scheduler}")
        for scheduler in ("ecf", "min-rtt"))),
    Figure("picoquic-own-ways", "picoquic-own-ways", "The same with each path's acknowledgments on itself", tuple(
        _by_controller(f"scheduler {scheduler}", _OWN_WAYS, (("limit", 8.72), ("goal", 9.0)), f",scheduler={scheduler}")
        for scheduler in ("ecf", "min-rtt"))),
    Figure("picoquic-returning", "picoquic-returning", "The same for a client that was there before", (
        _by_controller("by controller, careful resume", _RETURNING, (("limit", 8.72), ("goal", 8.9))),), columns=1),
    Figure("mptcp-selftest", "mptcp-selftest", "The self-test of the kernel's MPTCP: 16 MiB over 20 Mbit/s in all", tuple(
        map(_self_test, ("balanced", "balanced-delays", "unbalanced", "unbalanced-delays", "unbalanced-opposed")))),
    Figure("start-alone", "start-alone", "Four ways to begin: 6 MB over 20 and 30 Mbit/s, by what the links do", tuple(
        map(_start, ("quarter", "half", "one", "two", "jitter", "losses")))),
    Figure("start-beside", "start-beside", "What two of them leave to transfers of 50 kB beside a Reno", tuple(
        map(_short_transfers, ("38 ms", "148 ms", "398 ms")))),
)

MEASURED = ()

WHY = {
    "the goal; picoquic allows itself 10 s":
        "The first data arrive at 0.7 s, and the window needs two round trips of 0.3 s more, although rounds quadruple it; "
        "where acknowledgments do not take the landline, these are 0.6 s, and it is 9.4 to 9.9 s (picoquic-own-ways).",
    "the goal, for a client that returns":
        "Half of the window that is remembered is sent at once; the rest is found in two round trips of 0.6 s. With "
        "acknowledgments by satellite RFC 9959 allows no less than 9.07 s.",
}
