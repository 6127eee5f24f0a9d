import itertools
import json
import math
import random
import tomllib
from pathlib import Path

import pytest

import grid
from wsp import benefit, points, settings


def test_wsp_keeps_the_nearest_that_is_far_enough():
    # From the middle, 0.5: nearer than 0.3 are 0.4 and 0.75. Of 0.1, 0.85 and 0.95 the nearest is 0.85; 0.95 is too near
    # to that, and 0.1 remains.
    line = [[0.1], [0.4], [0.5], [0.75], [0.85], [0.95]]
    assert [line[i] for i in points.select(line, 0.3)] == [[0.5], [0.85], [0.1]]
    assert len(points.select(line, 0.0)) == len(line)


@pytest.mark.parametrize("dimensions", [6, 8])
def test_a_design_is_spread_out_and_repeatable(dimensions):
    design = points.design(40, dimensions)
    assert design == points.design(40, dimensions) != points.design(40, dimensions, seed=2)
    assert len(design) == 40 and all(0 <= x < 1 for point in design for x in point)
    nearest = min(itertools.starmap(math.dist, itertools.combinations(design, 2)))
    draws = random.Random(1)
    strewn = [[draws.random() for _ in range(dimensions)] for _ in range(40)]
    assert nearest > 1.5 * min(itertools.starmap(math.dist, itertools.combinations(strewn, 2)))


def test_links_of_a_point():
    low = settings.CLASSES["low-bdp-lossy"]
    a, b = settings.links(low, [0.0, 0.1, 0.0, 0.5, 1.0, 0.2, 0.0, 0.4])
    # 0.1 Mbit/s x 100 ms are 1250 bytes, less than the bucket's 15 kB. 10.09 Mbit/s x (25 + 20) ms / 8 = 56756 bytes.
    assert a == settings.Link(0.1, 0.0, 15_000, 0.0)
    assert b == settings.Link(10.09, 25.0, 56_756, 1.0)
    clean = settings.links(settings.CLASSES["high-bdp"], [1.0] * 6)[0]
    assert clean == settings.Link(100.0, 400.0, 30_000_000, 0.0)


def test_a_scenario_has_every_case_and_a_rule_for_each_with_two_paths():
    kind = settings.CLASSES["low-bdp-lossy"]
    pair = settings.links(kind, [0.5] * 8)
    data = tomllib.loads(settings.scenario(kind, 7, pair, ["olia", "dc-ledbat:ret=10s"]))
    assert [case["name"] for case in data["case"]] == [
        "single-a", "single-b", "olia-ab", "olia-ba", "dc-ledbat-ret-10s-ab", "dc-ledbat-ret-10s-ba"]
    assert data["case"][5]["set"] == {"flow.mp.cc": "dc-ledbat:ret=10s", "flow.mp.paths": ["b", "a"]}
    assert [rule["cases"] for rule in data["accept"]] == [f"case={case['name']}" for case in data["case"][2:]]
    assert [link["loss"] for link in data["link"]] == ["1.25 %", "1.25 %"]
    assert data["flow"][0]["attempt_delay"] == settings.ATTEMPT_DELAY


def test_schedulers_are_compared_with_each_controller(tmp_path):
    words = ["--class", "low-bdp", "--points", "2", "--cc", "lia,olia", "--sched", "ecf,min-rtt:tail=off",
             "--out", str(tmp_path)]
    assert grid.main(["write", *words]) == 0
    data = tomllib.loads((tmp_path / "low-bdp/p001.toml").read_text())
    of_two = [case for case in data["case"] if len(case["set"]["flow.mp.paths"]) == 2]
    assert [(case["set"]["flow.mp.cc"], case["set"]["flow.mp.scheduler"]) for case in of_two[::2]] == [
        ("lia", "ecf"), ("lia", "min-rtt:tail=off"), ("olia", "ecf"), ("olia", "min-rtt:tail=off")]
    assert not any("flow.mp.scheduler" in case["set"] for case in data["case"][:2])

    for number in (1, 2):
        folder = tmp_path / f"low-bdp/p{number:03}"
        folder.mkdir()
        runs = [{"case": f"case={case['name']}", "set": case["set"], "status": "ok",
                 "metrics": {"flow.mp.goodput_mbps": 10 + i}} for i, case in enumerate(data["case"])]
        (folder / "summary.json").write_text(json.dumps({"runs": runs}))
    assert grid.main(["judge", *words]) == 0
    rows = json.loads((tmp_path / "summary.json").read_text())["classes"][0]["controllers"]
    # 10 and 11 alone; 12 and 13, 14 and 15 ... with either path first.
    assert {name: row["median"] for name, row in rows.items()} == {
        "lia/ecf": pytest.approx(0.15), "lia/min-rtt:tail=off": pytest.approx(0.35),
        "olia/ecf": pytest.approx(0.55), "olia/min-rtt:tail=off": pytest.approx(0.75)}
    single, senders = benefit.controllers(tmp_path / "low-bdp/p001/summary.json")
    assert (single, senders) == ("cubic", list(rows))


@pytest.mark.parametrize("goodput, singles, expected", [
    (10, (10, 5), 0.0),    # the better path alone
    (15, (10, 5), 1.0),    # the sum
    (12, (10, 5), 0.4),    # 2 of the 5 that the other could add
    (5, (10, 5), -0.5),    # half of the better path is lost
    (0, (10, 5), -1.0),
])
def test_eben_worked_by_hand(goodput, singles, expected):
    assert benefit.eben(goodput, singles) == pytest.approx(expected)


def _summary(**goodputs):
    runs = [{"case": f"case={name.replace('_', '-')},cc=x", "status": "ok", "metrics": {"flow.mp.goodput_mbps": value}}
            for name, value in goodputs.items()]
    return {"runs": runs}


def test_shares_and_quartiles_of_a_class(tmp_path):
    for number, both in ((1, (12, 9)), (2, (14, 11))):
        folder = tmp_path / "low-bdp" / f"p{number:03}"
        folder.mkdir(parents=True)
        summary = _summary(single_a=10, single_b=5, olia_ab=both[0], olia_ba=both[1])
        (folder / "summary.json").write_text(json.dumps(summary))
    kind = settings.CLASSES["low-bdp"]
    judged = benefit.judge(kind, benefit.load(tmp_path / "low-bdp", ["olia"]))
    row = judged["controllers"]["olia"]
    # EBen: 0.4 and 0.8 with the better path first, -0.1 and 0.2 else.
    assert (row["n"], row["share"], row["median"]) == (4, 0.75, pytest.approx(0.3))
    assert row["best_first_median"] == pytest.approx(0.6)
    assert row["worst_first_median"] == pytest.approx(0.05)
    assert row["without"] == [{"point": 1, "order": "ba", "eben": -0.1}]
    assert (row["best_first_share"], row["worst_first_share"]) == (1.0, 0.5)
    # 10 / 9: the only case that is slower than the better path.
    assert row["slower"] == [{"point": 1, "order": "ba", "slower": pytest.approx(1 / 9)}]
    assert row["slowest"] == pytest.approx(1 / 9)
    text = benefit.table(judged)
    assert "goal 98%" in text and "75.0%" in text and "NO" in text and "p001-ba +11.1%" in text


def test_a_failed_transfer_is_a_loss_and_a_missing_one_an_error():
    summary = _summary(single_a=10, single_b=5, olia_ab=12, olia_ba=9)
    summary["runs"][3]["status"] = "failed"
    cases = benefit.of_point(1, summary, ["olia"])["olia"]
    assert [case.eben for case in cases] == [pytest.approx(0.4), -1.0]
    with pytest.raises(benefit.ResultError, match="no result of the case 'lia-ab'"):
        benefit.of_point(1, summary, ["lia"])
    with pytest.raises(benefit.ResultError, match="nothing arrived"):
        benefit.of_point(1, _summary(single_a=0, single_b=0), ["olia"])


def test_writing_needs_nothing_else_and_judging_needs_results(tmp_path, capsys):
    words = ["--class", "low-bdp", "--points", "2", "--cc", "lia", "--out", str(tmp_path), "--single", "reno"]
    assert grid.main(["write", *words]) == 0
    assert '"flow.mp.cc" = "reno", "flow.mp.paths" = ["a"]' in (tmp_path / "low-bdp/p001.toml").read_text()
    assert sorted(file.name for file in (tmp_path / "low-bdp").iterdir()) == ["p001.toml", "p002.toml"]
    assert grid.main(["judge", *words]) == 2
    assert "`grid.py run` makes them" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        grid.main(["run", *words])
    assert "cargo build --release -p mpq" in capsys.readouterr().err


def test_the_points_with_budgets_are_points_of_the_design():
    files = sorted((Path(__file__).parents[1] / "scenarios/beyond").glob("grid-*.toml"))
    assert files
    for file in files:
        name, number = file.stem.removeprefix("grid-").rsplit("-", 1)
        kind = settings.CLASSES[name]
        pair = settings.design(kind, settings.PUBLISHED_POINTS)[int(number) - 1]
        assert file.read_text().startswith(settings.scenario(kind, int(number), pair, ["lia", "olia"])), file
