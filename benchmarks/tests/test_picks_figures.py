"""The figures of the benchmark of picks, from samples set by hand."""

from mpqbench.picks import BARE, FULL, PATHS, figures


def test_the_dearest_is_named_and_beside_min_rtt_that_knows_nothing():
    times = {(BARE, "min-rtt"): 100, (BARE, "ecf"): 120, (FULL, "min-rtt"): 110, (FULL, "ecf"): 250}
    samples = {(group, name, PATHS): [time - 5, time, time + 40] for (group, name), time in times.items()}
    dearest, *rest = figures(samples)
    assert "ecf" in dearest.figure and dearest.values == [2.5]
    assert [(figure.name, figure.values[1]) for figure in rest] == [
        ("min-rtt", 100), ("ecf", 120), ("min-rtt", 110), ("ecf", 250)]
