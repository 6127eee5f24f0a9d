import json
import re
import subprocess
import tomllib
from pathlib import Path
from xml.etree import ElementTree

import built
import numpy
import pytest

import simulator
import viewers
from qoe import bound, goals, links, picture, scene, sessions, spread, study, ways

PICTURE = Path(__file__).resolve().parents[2] / "docs/qoe.svg"
MPQ = built.find("mpq")
LTE = {"rtt": "50 ms", "rate": {"law": "lognormal", "mbps": 10, "sd_log": 0.4, "memory_s": 6, "step_s": 1}}


def test_a_seed_means_the_same_links_every_time_and_another_one_others():
    for name in scene.names():
        one = scene.load(name)
        first, again, other = (scene.scenario(one, seed, {"video": ["1 Mbit/s"], "segment": "2 s"}, ()) for seed in (101, 101, 102))
        assert first == again
        assert first.replace("seeds = [101]", "") != other.replace("seeds = [102]", "") or name == "sofa"


def test_rates_have_the_mean_and_the_spread_of_their_law_and_remember():
    rates = numpy.array([mbps for _, mbps in links.draw("lte", LTE, "x", 20000).rates])
    logs = numpy.log(rates)
    assert 9.5 < rates.mean() < 10.5
    assert 0.37 < logs.std() < 0.43
    assert 0.8 < numpy.corrcoef(logs[:-1], logs[1:])[0, 1] < 0.9  # exp(-1/6) = 0.846


def test_a_change_of_one_part_leaves_the_others():
    plain = links.draw("lte", LTE, 7, 100)
    with_gaps = links.draw("lte", {**LTE, "gaps": {"after_s": [5, 9], "for_s": [1, 2]}}, 7, 100)
    assert with_gaps.rates == plain.rates and with_gaps.gaps and not plain.gaps
    assert all(5 <= after[0] - before[1] <= 9 and 1 <= before[1] - before[0] <= 2
               for before, after in zip(with_gaps.gaps, with_gaps.gaps[1:], strict=False))


def test_what_was_drawn_becomes_a_schedule():
    drawn = links.Drawn([(0.0, 10.0), (1.0, 4.0)], gaps=[(2.0, 3.5)], caps=[(3.0, 5.0, 1.0)], delays=[(4.0, 60)], losses=[(0.5, 0.05)])
    assert drawn.steps() == [(0.0, 10.0), (1.0, 4.0), (2.0, 0.0), (3.5, 1.0), (5.0, 4.0)]
    assert drawn.schedule() == ("loss=5.00%@500ms,rate=4000kbit@1000ms,down@2000ms,rate=1000kbit@3500ms,up@3500ms,"
                                "delay=30ms@4000ms,rate=4000kbit@5000ms")


def test_a_fade_ends_in_silence_and_comes_back():
    link = {"rtt": "20 ms", "rate": {"law": "steady", "mbps": 30}, "fade": {"after_s": [10, 10], "falls_s": [5, 5], "to_mbps": 0.5,
            "away_s": [8, 8], "grows_s": [3, 3], "loss": 0.05}}
    drawn = links.draw("wifi", link, 1, 60)
    assert [drawn.rate_at(t) for t in (5, 16, 22, 30)] == [30, 0, 0, 30]
    falling = [drawn.rate_at(10 + t) for t in range(5)]
    assert falling == sorted(falling, reverse=True) and falling[-1] > 0.5
    assert drawn.losses[0][1] == 0.05 and drawn.losses[-1][1] == 0


def test_what_a_scene_says_is_checked():
    with pytest.raises(links.LinkError, match="no law"):
        links.draw("x", {"rtt": "1 ms", "rate": {"law": "odd"}}, 1, 10)
    with pytest.raises(links.LinkError, match="'mbps' is missing"):
        links.draw("x", {"rtt": "1 ms", "rate": {"law": "steady"}}, 1, 10)


def test_both_links_are_silent_together_where_the_scene_says_so():
    drawn = scene.load("lift").drawn(101)
    assert drawn["wifi"].gaps == drawn["lte"].gaps != []
    apart = scene.load("train").drawn(101)
    assert apart["red"].gaps != apart["blue"].gaps


def test_the_study_has_what_its_goals_are_judged_by():
    for full in (False, True):
        plan = study.load(full)
        assert set(plan.goals["judged"]) <= {arm.name for arm in plan.arms}
        assert set(plan.goals["viewers"] + plan.goals["live"]["viewers"]) <= {viewer.name for viewer in plan.viewers}
        assert {viewer.name for viewer in plan.viewers if viewer.is_live} == set(plan.goals["live"]["viewers"])
        for viewer in plan.viewers:
            assert {"first", "second", *plan.goals["judged"]} <= {session.arm.name for session in plan.sessions if session.viewer == viewer}
        assert {arm.name for arm in plan.absent} == {"tcp", "mptcp"}
        # Seeds that decide are others than those that were tried.
        assert max(plan.seeds) < 101
    assert len(study.load(True).sessions) > len(study.load(False).sessions)


@built.needs_mpq
@pytest.mark.parametrize("name", scene.names())
def test_the_simulator_takes_every_scene(name, tmp_path):
    plan = study.load(True)
    file = tmp_path / "scene.toml"
    file.write_text(scene.scenario(scene.load(name), 101, plan.content, plan.sessions))
    checked = subprocess.run([MPQ, "sim", file, "--check", "--json"], capture_output=True, text=True, check=True)
    assert len(json.loads(checked.stdout)["runs"]) == len(plan.sessions)
    assert tomllib.loads(file.read_text())["seeds"] == [101]


def test_an_interval_holds_the_mean_and_a_narrow_one_where_values_agree():
    draws = numpy.random.default_rng(1)
    held = 0
    for _ in range(200):
        found = spread.interval(draws.normal(5, 2, 20))
        held += found.low <= 5 <= found.high
    assert 175 <= held <= 199  # 95 %, somewhat less with 20 values
    assert (spread.interval([3.0] * 5).low, spread.interval([3.0] * 5).high) == (3.0, 3.0)


def test_a_quantile_of_groups_is_that_of_all_their_values():
    groups = [[1, 2, 3], [4, 5, 6, 7], [8, 9]]
    whole, drawn = spread.pooled(groups, 99)
    assert whole == pytest.approx(numpy.percentile(range(1, 10), 99))
    # The same seed three times.
    assert drawn.min() == pytest.approx(3)


def test_the_bound_is_the_time_of_both_rates():
    one = scene.Scene("x", "", "", "", 0, {
        "a": {"rtt": "20 ms", "rate": {"law": "steady", "mbps": 6}, "gaps": {"first_s": [10, 10], "after_s": [900, 900], "for_s": [5, 5]}},
        "b": {"rtt": "50 ms", "rate": {"law": "steady", "mbps": 2}, "gaps": {"first_s": [10, 10], "after_s": [900, 900], "for_s": [3, 3]}}})
    both = bound.Both(one, 1)
    mbit = 1e6 / 8 / bound.HEADERS
    assert both.time_s(2, 8 * mbit) == pytest.approx(1 + 0.02)
    # 8 Mbit at 9 s by 10 s, nothing until 13 s, 4 by 15 s at 2 Mbit/s, then 8 Mbit/s.
    assert both.time_s(9, 8 * mbit) == pytest.approx(1 + 0.02)
    assert both.time_s(9, 12 * mbit) == pytest.approx(6 + 0.02)
    assert both.time_s(9, 16 * mbit) == pytest.approx(6.5 + 0.02)
    assert both.time_s(11, 2 * mbit) == pytest.approx(3 + 0.02)
    # Both are silent from 10 to 13 s. Who is 2 s behind then has 2 s to show if the last second is made, and 1 s if not.
    assert both.missed_s(2, 1, 60) == pytest.approx(1) and both.missed_s(2, 9, 60) == pytest.approx(2)
    # What is made until 10.5 s is not there before 13 s either.
    assert both.missed_s(2, 1, 10.5) == pytest.approx(1)
    assert both.missed_s(3, 1, 60) == both.missed_s(0, 1, 10) == 0


def rows(by_arm, metric="stall_s", scenes=("train",), chunks=(), watching=("film", "clip")):
    """Sessions with the given values of a metric for each seed; the rest is as in a session without trouble."""
    base = dict.fromkeys(sessions.METRICS, 0.0) | {"qoe_lin": 5.0, "delivered_mb": 100.0, "all_mb": 110.0, "bitrate_mbps": 5.0}
    return [sessions.Row(one, seed, viewer, arm, base | {metric: value}, chunks or ((0.0, 1.0 + value, 1000),))
            for one in scenes for viewer in watching for arm, values in by_arm.items()
            for seed, value in enumerate(values, 1)]


def judged(found, method, arm="ecf"):
    judge = goals.Judge(sessions.Sessions(found), [scene.load(name) for name in sorted({row.scene for row in found})],
                        study.load(False))
    return getattr(judge, method)(arm)


def test_stalls_are_judged_by_the_better_path_where_it_stalls():
    found = rows({"first": [10, 20, 30], "second": [4, 4, 4], "ecf": [0, 0, 1.2]})
    [verdict] = judged(found, "stall_ratio")
    assert verdict.value.value == pytest.approx(0.1) and verdict.met
    assert verdict.value.low == 0 and verdict.value.high > 0.1
    assert not judged(rows({"first": [9, 9], "second": [4, 4], "ecf": [1, 1]}), "stall_ratio")[0].met
    assert judged(rows({"first": [9, 9], "second": [0, 0.1], "ecf": [1, 1]}), "stall_ratio") == []


def test_worse_is_what_is_worse_with_its_whole_interval():
    ever = rows({"first": [5, 6, 7], "second": [0, 0, 0], "ecf": [4, 5.5, 6.5]}, "qoe_lin")
    [verdict] = judged(ever, "never_worse")
    assert verdict.value.value == 2 and not verdict.met and "qoe_lin" in verdict.parts[0][0]
    [verdict] = judged(rows({"first": [5, 6, 7], "second": [0, 0, 0], "ecf": [4, 5.5, 7.5]}, "qoe_lin"), "never_worse")
    assert verdict.met
    [verdict] = judged(rows({"first": [0, 0, 0], "second": [9, 9, 9], "ecf": [1, 2, 1]}), "never_worse")
    assert not verdict.met


def test_live_is_judged_by_what_is_missed_and_how_late_it_is():
    live = ("live", "low-latency")
    found = rows({"first": [9, 9], "second": [4, 6], "ecf": [0, 0.4]}, "missed_s", watching=live)
    verdict, floor = judged(found, "live_missed_ratio")
    assert verdict.value.value == pytest.approx(0.04) and verdict.met and len(verdict.parts) == 2
    assert floor.value.value == 0 and floor.met is None
    # In a lift nothing comes for 3 to 8 s: who is 3 s behind misses the rest, and who is 6 s behind less of it.
    _, floor = judged(rows({"first": [9] * 10, "second": [5] * 10, "ecf": [4] * 10}, "missed_s", ("lift",), watching=live),
                      "live_missed_ratio")
    (_, six), (_, three) = floor.parts
    assert 0 < six < three < 1
    assert judged(found, "stall_ratio") == [] and judged(rows({"first": [1], "second": [1], "ecf": [0]}), "live_never_worse") == []
    assert judged(found, "live_never_worse")[0].met
    [verdict] = judged(rows({"first": [6, 6], "second": [7, 7], "ecf": [6.1, 6.2]}, "latency_s", watching=live), "live_never_worse")
    assert verdict.value.value == 2 and not verdict.met


def test_handovers_copies_and_the_likes_of_xlink():
    found = rows({"first": [0, 9], "second": [0, 9], "ecf": [0, 2]}, "stalls")
    [verdict] = judged(found, "handover")
    assert verdict.value.value == 0.5 and not verdict.met
    assert judged(rows({"first": [1], "second": [1], "ecf": [0]}, "stalls", ("sofa",)), "handover") == []
    [verdict] = judged(rows({"first": [0, 0], "second": [0, 0], "ecf": [1, 3.2]}, "copied_mb"), "copies")
    assert verdict.value.value == pytest.approx(0.021) and verdict.met
    chunks, rebuffer = judged(rows({"first": [10, 10], "second": [6, 6], "ecf": [2, 2]}), "like_xlink")
    assert chunks.value.value == pytest.approx(1 - 3 / 7) and chunks.met and "beaten" in chunks.words
    assert rebuffer.value.value == pytest.approx(2 / 3) and rebuffer.met and "beaten" not in rebuffer.words


def test_chunks_are_judged_on_the_clip_and_have_a_floor():
    clip, floor = [one for one in judged(rows({"first": [9], "second": [5], "ecf": [1.4]}), "chunk_p99") if one.goal != "film"][1:]
    assert clip.value.value == pytest.approx(2.4 / 6) and clip.met
    assert floor.met is None and 0 < floor.value.value < clip.value.value


def test_a_way_is_told_over_all_scenes_beside_the_better_path_of_each():
    found = rows({"first": [9, 9], "second": [3, 3], "ecf": [1, 2]}, scenes=("train",), watching=("clip",))
    found += rows({"first": [1, 1], "second": [9, 9], "ecf": [0, 0]}, scenes=("bus",), watching=("clip",))
    told = {one.arm.name: one for one in ways.over(sessions.Sessions(found), [scene.load(name) for name in ("train", "bus")],
                                                   study.load(False))}
    assert list(told) == ["first", "second", "ecf"]
    # A clip is a minute: 1 and 2 s in one scene and none in the other.
    assert told["ecf"].told.waits.value == pytest.approx((1.5 + 0) / 2 * 60)
    # Chunks take a second and the stall: 99 % of them 2.99 of 4 s, and 1 of 2 s.
    assert told["ecf"].chunk_p99 == pytest.approx((2.99 / 4 + 1 / 2) / 2)
    assert told["first"].chunk_p99 == pytest.approx((10 / 4 + 2 / 2) / 2)
    assert told["ecf"].live is None


@built.needs_mpq
def test_one_viewer_in_one_scene_from_the_command_to_the_page(tmp_path, capsys, monkeypatch):
    whole = study.load(False)
    small = study.Study(whole.content, (101,), tuple(study.Viewer(**{**vars(viewer), "dash": viewer.dash | {"length": "12 s"}})
                                                     for viewer in whole.viewers), whole.arms, whole.absent, whole.goals, ())
    small = study.Study(**{**vars(small), "sessions": tuple(study.Session(viewer, arm) for viewer in small.viewers
                                                            for arm in small.arms if not viewer.arms or arm.name in viewer.arms)})
    monkeypatch.setattr(study, "load", lambda full, seeds=None: small)
    words = ["--scene", "train", "--out", str(tmp_path), "--picture", str(tmp_path / "picture.svg")]
    assert viewers.main(["run", "--mpq", str(MPQ), *words]) in (0, 1)
    said = capsys.readouterr()
    assert "train-clip-101: 2 of 5" in said.err and "Who watches clips" in said.out and "Who watches live" in said.out
    ElementTree.fromstring((tmp_path / "picture.svg").read_text())
    first = {name: (tmp_path / name).read_bytes() for name in ("index.html", "sessions.csv", "summary.csv", "ways.csv", "goals.csv", "picture.svg")}
    page_text = first["index.html"].decode()
    assert "src=" not in page_text and "http" not in page_text.replace("experiments/", "")
    assert page_text.count("<svg") == 2 + 2 * 3 and "TCP, first path" in page_text
    assert len(first["sessions.csv"].splitlines()) == 1 + 3 * 8 + 2 * 5
    assert len(first["ways.csv"].splitlines()) == 1 + (3 * 8 + 2 * 5)
    live = [row for row in sessions.read(tmp_path / "sessions.csv") if row.viewer == "low-latency"]
    assert len(live) == 5 and all(2 < row.values["latency_s"] < 12 for row in live)
    # What is there is not run again, and the same sessions make the same bytes.
    assert viewers.main(["judge", *words]) in (0, 1)
    assert first == {name: (tmp_path / name).read_bytes() for name in first}
    elsewhere = tmp_path / "elsewhere.csv"
    elsewhere.write_text(first["sessions.csv"].decode().replace(",ecf,", ",tcp,"))
    only_tcp = [line for line in elsewhere.read_text().splitlines() if ",tcp," in line or line.startswith("scene,")]
    elsewhere.write_text("\n".join(only_tcp) + "\n")
    assert viewers.main(["judge", *words, "--also", str(elsewhere)]) in (0, 1)
    assert "TCP, first path</td>" in (tmp_path / "index.html").read_text()


def test_a_session_that_fails_is_all_waiting(tmp_path):
    plan = study.load(False, seeds=(1,))
    one, clip = scene.load("train"), plan.viewer("clip")
    folder = study.folder(tmp_path, one.name, clip.name, 1)
    folder.mkdir()
    run = {"case": "case=clip--ecf,abr=fixed:7", "status": "failed", "reason": "no handshake", "folder": "runs/x", "metrics": {}}
    (folder / "summary.json").write_text(json.dumps({"runs": [run]}))
    found = sessions.load(tmp_path, [one], plan)
    assert found.failed == [("train", 1, "clip", "ecf", "no handshake")]
    assert found.values("train", "clip", "ecf", "stall_s") == [60.0]
    assert found.values("train", "clip", "ecf", "qoe_lin")[0] < -29


def test_the_reduced_study_is_found_in_a_full_run(tmp_path):
    plan = study.load(False, seeds=(1,))
    one, clip = scene.load("train"), plan.viewer("clip")
    folder = study.folder(tmp_path, one.name, clip.name, 1)
    folder.mkdir()
    runs = [{"case": f"case=clip--{arm},abr=fixed:7", "status": "failed", "reason": "no handshake", "folder": "runs/x", "metrics": {}}
            for arm in ("ecf", "olia")]
    (folder / "summary.json").write_text(json.dumps({"runs": runs}))
    assert [row.arm for row in sessions.load(tmp_path, [one], plan).rows] == ["ecf"]
    assert [row.arm for row in sessions.load(tmp_path, [one], study.load(True, seeds=(1,))).rows] == ["ecf", "olia"]


def test_the_picture_in_the_pages_is_drawn_from_the_figures_that_it_states():
    shown = PICTURE.read_text(encoding="utf-8")
    numbers = json.loads(re.search(r"<metadata>(.*?)</metadata>", shown)[1])
    assert list(numbers) == [scene.load(name).title for name in scene.names()]
    assert picture.svg(numbers) == shown, "`ci/qoe --picture` draws it again"


def test_a_table_from_before_there_was_live_is_read(tmp_path):
    file = tmp_path / "old.csv"
    known = [name for name in sessions.METRICS if name not in sessions.LIVE]
    file.write_text(f"scene,seed,viewer,arm,{','.join(known)}\nbus,1,clip,tcp,{','.join('3' for _ in known)}\n")
    [row] = sessions.read(file)
    assert row.values["missed_s"] == 3 and row.values["skipped_s"] == 0 and numpy.isnan(row.values["latency_s"])


def test_what_is_not_there_is_said(tmp_path, capsys):
    assert viewers.main(["judge", "--out", str(tmp_path)]) == 2
    assert "`viewers.py run` makes them" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        viewers.main(["run", "--mpq", str(tmp_path / "none")])
    broken = tmp_path / "broken.csv"
    broken.write_text("scene,seed\n1,2\n")
    with pytest.raises(sessions.ResultError, match="its columns are"):
        sessions.read(broken)


def test_time_left():
    assert simulator.left(0, 10, 5) == "?"
    assert simulator.left(2, 4, 30) == "30 s"
    assert simulator.left(1, 11, 60) == "10 min"
