import csv
import json
import re
import subprocess

import pytest

import built
import detect
from bottlenecks import cmpbbr, published, rfc8382, topologies, verdicts
from bottlenecks.rfc8382 import Estimates, Interval, Statistics


def estimates(*intervals):
    """After the last of some intervals' delays."""
    statistics = Statistics()
    return [statistics.add(Interval(delays)) for delays in intervals][-1]


def test_skewness_counts_those_below_the_mean_of_before():
    # Three below 10 and one above, of six samples: 2/6. Two above (10 + 9)/2 then, of eight: 0.
    assert estimates((10, 10), (12, 8, 8, 8)).skew == pytest.approx(1 / 3)
    assert estimates((10, 10), (12, 8, 8, 8), (14, 14)).skew == 0
    # One that is the mean counts neither way: -1 of 3.
    assert estimates((10,), (10, 11)).skew == pytest.approx(-1 / 3)
    # The next is held against 10.25, which its own 40 does not move.
    assert estimates((10,), (10, 11), (10.3, 10.2, 99.5)).skew == pytest.approx(-2 / 6)


def test_variability_is_the_mean_deviation_from_each_mean():
    # 0, and 3 + 1 + 1 + 1 from 9; six samples, then eight.
    assert estimates((10, 10), (12, 8, 8, 8)).var == 1
    assert estimates((10, 10), (12, 8, 8, 8), (14, 14)).var == 0.75


def test_key_frequency_counts_significant_crossings():
    # Means 10, 9, 14: below at first, then above, which is one crossing in three.
    intervals = [(10, 10), (12, 8, 8, 8), (14, 14)]
    assert estimates(*intervals[:2]).freq == 0
    assert estimates(*intervals).freq == pytest.approx(1 / 3)
    # 11.4 is above 11 by less than 0.7 * 0.68: on its side. 10.6 is below 11.1 by more than 0.7 * 0.62, 10.8 by less.
    intervals.append((11, 11.8))
    assert estimates(*intervals).freq == pytest.approx(1 / 4)
    assert estimates(*intervals, (20,)).freq == pytest.approx(1 / 5)
    assert estimates(*intervals, (10.6,)).freq == pytest.approx(2 / 5)
    assert estimates(*intervals, (10.8,)).freq == pytest.approx(1 / 5)


def test_what_is_long_ago_counts_no_more():
    statistics = Statistics()
    statistics.add(Interval((0, 100), lost=10, sent=10))
    for _ in range(rfc8382.M - 1):
        last = statistics.add(Interval((50,), sent=10))
    # 100 over 31 samples, and 10 of 300 packets.
    assert last.var == pytest.approx(100 / 31) and last.loss == pytest.approx(10 / 300)
    assert statistics.add(Interval((50,), sent=10)).var == 0
    for _ in range(rfc8382.N - rfc8382.M - 1):
        last = statistics.add(Interval((50,), sent=10))
    assert last.loss == pytest.approx(10 / 500)
    assert statistics.add(Interval((50,), sent=10)).loss == 0


def test_an_interval_without_packets_changes_no_delay():
    assert estimates((10, 10), (), (12, 8, 8, 8)).skew == pytest.approx(1 / 3)
    assert estimates((), (10,)) is None


@pytest.mark.parametrize(("skew", "loss", "before", "says"), [
    (0.09, 0, False, True), (0.11, 0, False, False), (0.11, 0, True, True), (0.31, 0, True, False),
    (0.31, 0.06, False, True), (0.31, 0.04, False, False)])
def test_congested(skew, loss, before, says):
    assert rfc8382.congested(Estimates(skew, 1, 0, loss), before) == says


@pytest.mark.parametrize(("a", "b", "says"), [
    ((0, 10, 0.2, 0), (0.14, 9.1, 0.29, 0), True),
    ((0, 10, 0.2, 0), (0, 10, 0.31, 0), False),      # freq_est
    ((0, 10, 0.2, 0), (0, 8.9, 0.2, 0), False),      # var_est
    ((0, 10, 0.2, 0), (0.16, 10, 0.2, 0), False),    # skew_est
    ((0, 10, 0.2, 0.1), (0.9, 10, 0.2, 0.091), True),   # by loss in its place
    ((0, 10, 0.2, 0.1), (0, 10, 0.2, 0.089), False),
    ((0, 10, 0.2, 0.04), (0, 10, 0.2, 0.01), True)])    # of which there is little
def test_alike(a, b, says):
    assert rfc8382.alike(Estimates(*a), Estimates(*b)) == rfc8382.alike(Estimates(*b), Estimates(*a)) == says


def test_rfc8382_is_silent_until_m_intervals_are_known():
    swing = [Interval((10 + i % 5, 12 + i % 5)) for i in range(40)]
    wider = [Interval((10 + i % 5, 13 + i % 5)) for i in range(40)]
    said = list(rfc8382.says(swing, swing))
    assert said[0] == (pytest.approx(10.5), True) and len(said) == 11
    # Deviations of 1 and of 1.5.
    assert not any(joined for _, joined in rfc8382.says(swing, wider))


def test_paths_without_a_bottleneck_are_no_group():
    # Nine of ten below the mean, which one in ten makes: a queue that is mostly empty.
    idle = [Interval((10,) * 9 + (60,)) for _ in range(40)]
    assert not any(joined for _, joined in rfc8382.says(idle, idle))
    # Alike, with skewnesses of 0 and 0.15, of which the second is none of a bottleneck.
    even = [Interval((9,) * 20 + (11,) * 20) for _ in range(40)]
    skewed = [Interval((9.15,) * 23 + (11.15,) * 17) for _ in range(40)]
    assert all(joined for _, joined in rfc8382.says(even, even))
    assert not any(joined for _, joined in rfc8382.says(even, skewed))


def shown(*bandwidths, every_s=0.8, startup=0):
    """Of two paths with a min_rtt of 0.1 s, every so often, in ProbeBW after so many."""
    return [(i * every_s, *(cmpbbr.Shown(bandwidth, 0.1, i >= startup) for bandwidth in both))
            for i, both in enumerate(bandwidths)]


def test_cmpbbr_needs_two_cycles_in_a_row():
    def says(*bandwidths, **more):
        return [joined for _, joined in cmpbbr.says(shown(*bandwidths, **more))]

    assert says((10, 9), (10, 9), (10, 9), (10, 9)) == [False, False, True, True]
    assert says((10, 9), (10, 9), (10, 5), (10, 9), (10, 9)) == [False, False, False, False, True]
    # A sixteenth of a cycle each.
    assert says(*[(10, 9)] * 33, every_s=0.05) == [False] * 32 + [True]
    assert says(*[(10, 9)] * 6, startup=2) == [False] * 4 + [True] * 2
    # 8.2 is within a fifth of 10; 10 is not within a fifth of 8.2.
    assert cmpbbr.alike(10, 8.2) and not cmpbbr.alike(8.2, 10)
    assert says(*[(10, 8.2)] * 4) == [False] * 4


def test_a_verdict_at_a_time():
    double = published.DOUBLES[0]
    said = [(10.5, False), (11.0, True), (29.0, True), (31.0, False)]
    assert published.verdict(double, "shared", said, 10) == published.Verdict("shared", double.label, 11.0, False)
    assert published.verdict(double, "shared", said, 30) == published.Verdict("shared", double.label, 11.0, True)
    assert published.verdict(double, "shared", said[:1], 30).first_s is None


def table(folder, name, header, rows):
    with open(folder / name, "w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([header.split(","), *rows])


def results(folder, swing_a, swing_b, bandwidths):
    """A topology's folder as `mpq sim` leaves it, for the doubles' senders: 32 s of delays that swing each second."""
    runs = []
    for cc in ("sbd-cubic:detect=none", "sbd-bbr:detect=none"):
        run = folder / cc.split(":")[0]
        run.mkdir(parents=True)
        times = [2 + i / 100 for i in range(3200)]
        swings = {"a": swing_a, "b": swing_b}
        rows = [[t, "mp", path, 20 + swing * (t % 1)] for t in times for path, swing in swings.items()]
        table(run, "delays.csv", "time_s,flow,path,delay_ms", [*rows, [5, "rival0", "a", 5000]])
        rows = [[2 + i / 10, "mp", path, 0, 10] for i in range(1, 321) for path in "ab"]
        table(run, "paths.csv", "time_s,flow,path,lost_packets,sent_packets", rows)
        values = [(path, "max_bw", rate) for path, rate in zip("ab", bandwidths, strict=True)]
        values += [(path, symbol, value) for path in "ab" for symbol, value in (("min_rtt_s", 0.04), ("phase", 3))]
        rows = [[2 + i / 10, "mp", *value] for i in range(1, 321) for value in values]
        table(run, "decisions.csv", "time_s,flow,path,symbol,value", rows)
        runs.append({"status": "ok", "reason": None, "folder": run.name, "set": {"flow.mp.cc": cc}})
    (folder / "summary.json").write_text(json.dumps({"runs": runs}), encoding="utf-8")


def test_intervals_are_those_of_the_flow(tmp_path):
    results(tmp_path, 10, 20, (1, 1))
    a, b = published.intervals(tmp_path / "sbd-bbr")
    assert len(a) == len(b) == 91
    # 35 samples, and rows of 100 ms that end at 0.1, 0.2, 0.3; then four; and so on: 10 packets each.
    assert [len(interval.delays) for interval in a[:4]] == [35] * 4
    assert [interval.sent for interval in a[:3]] == [30, 40, 30]
    most = [max(max(interval.delays) for interval in path) for path in (a, b)]
    assert most == pytest.approx([20 + 10 * 0.99, 20 + 20 * 0.99])


def test_doubles_are_rows_of_their_own(tmp_path, capsys):
    for number in range(16):
        # Two queues that swing alike, with unlike rates, and the other way round where nothing is shared.
        is_shared = topologies.draw(1, number).shared
        results(tmp_path / f"p{number:03}", 10, 10 if is_shared else 20, (1, 2) if is_shared else (1, 1.1))
        cc = tmp_path / f"t{number:03}" / "x"
        cc.mkdir(parents=True)
        rows = [[3, "mp", path, "set_paths", 2 if is_shared else 1] for path in "ab"]
        table(cc, "decisions.csv", "time_s,flow,path,symbol,value", rows)
        runs = [{"status": "ok", "reason": None, "folder": "x", "set": {"flow.mp.cc": "sbd-bbr"}}]
        (cc.parent / "summary.json").write_text(json.dumps({"runs": runs}), encoding="utf-8")
    words = ["judge", "--topologies", "16", "--out", str(tmp_path), "--cc", "sbd-bbr", "--published", "rfc8382,c-mpbbr"]
    assert detect.main([*words, "--json", "--figure", str(tmp_path / "figure.svg")]) == 0
    found = json.loads(capsys.readouterr().out)
    early, late = (found["published"][at]["rfc8382 over sbd-bbr:detect=none"] for at in ("10", "30"))
    assert (early["false_disjoint"], late["false_disjoint"], late["false_shared"]) == (1, 0, 0)
    other = found["published"]["10"]["c-mpbbr over sbd-bbr:detect=none"]
    assert (other["false_disjoint"], other["false_shared"], other["wrong_by_kind"]["twins"]) == (1, 1, 1)
    lines = re.findall(r'polyline points="([^"]+)"', (tmp_path / "figure.svg").read_text(encoding="utf-8"))
    # 576 of width are 30 s, of which the controller's line has 12.
    assert [float(line.split()[-1].split(",")[0]) for line in lines] == [52 + 12 / 30 * 576] + [628] * 3
    assert detect.main(words) == 0
    assert "not known at 30 s" in capsys.readouterr().out


def test_doubles_have_scenarios_of_their_own(tmp_path):
    words = ["judge", "--topologies", "16", "--out", str(tmp_path)]
    plain = detect.write(detect.parse_arguments(words), ["sbd-bbr"])
    before = plain[0].read_text(encoding="utf-8")
    files = detect.write(detect.parse_arguments([*words, "--published", "c-mpbbr"]), ["sbd-bbr"])
    assert len(files) == 32 and files[0].read_text(encoding="utf-8") == before
    later = files[1].read_text(encoding="utf-8")
    assert 'duration = "34 s"' in later and 'delays = "1 ms"' in later and '["sbd-bbr:detect=none"]' in later
    with pytest.raises(SystemExit):
        detect.parse_arguments([*words, "--published", "rfc"])


@built.needs_mpq
def test_the_simulator_writes_what_doubles_read(tmp_path):
    topology = topologies.draw(1, 0)
    file = tmp_path / "p000.toml"
    senders = list(dict.fromkeys(double.over for double in published.DOUBLES))
    file.write_text(topologies.scenario(topology, senders, 12, ['delays = "1 ms"']), encoding="utf-8")
    subprocess.run([str(built.find("mpq")), "sim", str(file), "--out", str(tmp_path / "p000"), "--quiet"], check=True)
    for folder, over in verdicts.runs(tmp_path / "p000"):
        a, b = published.intervals(folder)
        assert len(a) == len(b) == 34 and all(interval.delays for interval in a[3:] + b[3:])
        assert sum(interval.sent for interval in a) > 100
        assert len(list(rfc8382.says(a, b))) == 5
        assert (len(list(published.bandwidths(folder))) > 100) == over.startswith("sbd-bbr")
    assert len(list(published.read(tmp_path / "p000", topology, published.DOUBLES))) == 3
