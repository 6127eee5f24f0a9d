from benchmarks.agreement import differences


def test_differences_are_relative_and_only_of_what_both_mean():
    simulated = {"flow.mp.goodput_mbps": 40.0, "flow.mp.path.wifi.share": 0.6, "flow.mp.path.lte.share": 0.4,
                 "flow.bg.goodput_mbps": 10.0, "flow.bg.path.lte.share": 1.0, "flow.mp.lost_packets": 7.0}
    emulated = {"flow.mp.goodput_mbps": 39.0, "flow.mp.path.wifi.share": 0.63, "flow.mp.path.lte.share": 0.37,
                "flow.bg.goodput_mbps": 11.0, "flow.bg.path.lte.share": 1.0, "total.goodput_mbps": 50.0}
    found = {figure.figure.split(", ")[1]: (round(figure.values[0], 6), figure.meets())
             for figure in differences("two-links", simulated, emulated)}
    # 1 - 39/40; 11/10 - 1; 0.63/0.6 - 1; 1 - 0.37/0.4. A single path's share says nothing.
    assert found == {"goodput of mp": (0.025, True), "goodput of bg": (0.1, False),
                     "share of wifi in mp": (0.05, True), "share of lte in mp": (0.075, True)}
