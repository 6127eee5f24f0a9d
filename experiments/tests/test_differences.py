from report.differences import differences


def spread(median, least=None, most=None):
    return {"median": median, "min": least or median, "max": most or median, "n": 3}


def test_differences_are_relative_and_only_of_what_both_mean():
    simulated = {"flow.mp.goodput_mbps": spread(40.0, 39.5, 41.0), "flow.mp.path.wifi.share": spread(0.6),
                 "flow.mp.path.lte.share": spread(0.4, 0.35, 0.45), "flow.bg.goodput_mbps": spread(10.0),
                 "flow.bg.path.lte.share": spread(1.0), "flow.mp.lost_packets": spread(7.0)}
    emulated = {"flow.mp.goodput_mbps": spread(39.0), "flow.mp.path.wifi.share": spread(0.63),
                "flow.mp.path.lte.share": spread(0.37), "flow.bg.goodput_mbps": spread(11.0),
                "flow.bg.path.lte.share": spread(1.0), "total.goodput_mbps": spread(50.0)}
    found = {one.what: (round(one.relative, 6), one.meets()) for one in differences("two-links", simulated, emulated)}
    # 1 - 39/40; 11/10 - 1; 0.63/0.6 - 1; 1 - 0.37/0.4. A single path's share says nothing, and the seeds of lte's are
    # 0.1/0.4 apart, more than twice the goal.
    assert found == {"goodput of mp": (0.025, True), "goodput of bg": (0.1, False),
                     "share of wifi in mp": (0.05, True), "share of lte in mp": (0.075, None)}
