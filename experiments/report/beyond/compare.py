"""All coupled controllers on the same ground."""

from ..figures import Bar, Bars, Curve, Figure, Panel

TITLE = "Coupled controllers compared"

_COUPLED = ("ewtcp", "coupled", "lia", "olia", "balia", "wvegas", "mpcubic", "mpsqrt", "mpiiad", "mpfast", "coupled-cubic",
            "mcompound", "mpmtp", "dc-ledbat", "uncoupled-reno")
_RIVALS = (("reno", "quiche's Reno"), ("uncoupled-cubic", "CUBIC as RFC 9438 has it"), ("cubic", "quiche's CUBIC"),
           ("bbr2_gcongestion", "quiche's BBRv2"))
# The payload of a full packet is 0.958 of its IP bytes.
_PAYLOAD = 0.958

_MP, _RIVAL = "window.steady.flow.mp.goodput_mbps", "window.steady.flow.rival.goodput_mbps"
_LONG, _ON_LONG = (f"window.steady.flow.{flow}.path.long.goodput_mbps" for flow in ("mp", "on-long"))
_BETTER = "max(window.steady.flow.on-short.goodput_mbps, window.steady.flow.on-long.goodput_mbps)"
_LOST = (("one-early", "packet 4"), ("one", "packet 9"), ("one-late", "packet 25"), ("three", "packets 6 to 8"),
         ("twice", "packets 5 and 16"))
_BY_LOSSES = ("ewtcp", "coupled", "lia", "olia", "balia", "mpcubic", "mpsqrt", "mpiiad", "coupled-cubic", "mcompound", "mpmtp")
_STEADY, _CHANGING = (Curve(f"{link} link", "mp", (link,)) for link in ("steady", "changing"))


def _part(title, window, links_mbps):
    return Bars(title, "part of what the links carry", tuple(
        Bar(name, f"window.{window}.flow.mp.goodput_mbps / ({_PAYLOAD} * {links_mbps})", f"cc={name}")
        for name in (*_COUPLED, "cubic")), (("all", 1.0),))


FIGURES = (
    Figure("compare-aggregation", "compare-aggregation", "Two unequal links that nobody else uses", (
        _part("from 10 s on", "steady", 50),), columns=1),
    Figure("compare-fairness", "compare-fairness", "Two paths through one bottleneck, beside one connection of one path", tuple(
        Bars(f"beside {words}", "part of what both get", tuple(
            Bar(name, f"{_MP} / ({_MP} + {_RIVAL})", f"flow.mp.cc={name},flow.rival.cc={rival}") for name in _COUPLED),
            (("one share of two", 1 / 2), ("two shares of three", 2 / 3)))
        for rival, words in _RIVALS), share_y=True),
    Figure("compare-responsiveness", "compare-responsiveness", "One of two links falls to a fifth of its rate and comes back", (
        _part("20 s to 25 s: it has just fallen", "fallen", 12), _part("25 s to 40 s: it is low", "low", 12),
        _part("40 s to 45 s: it has just come back", "back", 20), _part("60 s to 80 s: it is back", "after", 20),
        *(Panel(name, "rate", (_STEADY, _CHANGING), f"cc={name}")
          for name in ("lia", "coupled-cubic", "wvegas", "mpiiad")))),
    Figure("compare-rtt", "compare-rtt", "A Reno on each of two links, and one link's RTT grows", tuple(
        panel for rtt in ("20 ms", "80 ms", "200 ms") for panel in (
            Bars(f"RTT of the long link {rtt}: both paths and the better Reno", "multipath's part of both", tuple(
                Bar(name, f"{_MP} / ({_MP} + {_BETTER})", f"cc={name},rtt={rtt}") for name in _COUPLED),
                (("as much as it", 1 / 2),)),
            Bars(f"RTT of the long link {rtt}: the long link", "multipath's part of it", tuple(
                Bar(name, f"{_LONG} / ({_LONG} + {_ON_LONG})", f"cc={name},rtt={rtt}") for name in _COUPLED),
                (("half", 1 / 2),)))), share_y=True),
    Figure("unlucky-start", "unlucky-start", "The second path, which is the larger one, loses packets of its first windows", tuple(
        Bars(f"lost: {words}", "part of its link in the third second", tuple(
            Bar(name, "window.third.flow.mp.path.lte.utilisation", f"case={case},cc={name}") for name in _BY_LOSSES),
            (("all", 1.0),))
        for case, words in _LOST), share_y=True),
)

MEASURED = ()

WHY = {
}
