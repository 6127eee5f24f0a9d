"""The figures of the controllers' benchmark, from samples set by hand."""

from mpqbench.controllers import PATHS, figures


def samples(lia, olia, iiad):
    """Nanoseconds at 1, 2, 4 and 8 paths for three controllers; quiche's CUBIC takes 50."""
    result = {("quiche", "reno", 1): [20, 21, 22], ("quiche", "cubic", 1): [40, 50, 90]}
    for name, times in (("lia", lia), ("olia", olia), ("iiad", iiad)):
        for paths, time in zip(PATHS, times, strict=True):
            result["ack", name, paths] = [time - 1, time, time + 30]
    return result


def test_ratios_are_of_medians_and_each_goal_can_be_missed():
    of_all, most, growth, *rest = figures(samples((50, 60, 80, 90), (60, 70, 90, 130), (40, 120, 400, 420)))
    assert of_all.values == [70 / 50] and of_all.meets()
    assert most.values == [120 / 50] and most.meets()
    assert growth.values == [420 / 40] and not growth.meets()
    assert {figure.name for figure in rest} == {"quiche's reno", "quiche's cubic", "lia", "olia", "iiad"}

    of_all, most, _, *_ = figures(samples((50, 80, 90, 100), (60, 90, 100, 130), (40, 151, 200, 300)))
    assert not of_all.meets() and not most.meets()
