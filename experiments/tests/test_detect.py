import csv
import json
import tomllib
from collections import Counter

import pytest

import detect
from bottlenecks import topologies, verdicts


def test_topologies_are_repeatable_and_of_every_kind():
    drawn = [topologies.draw(3, number) for number in range(64)]
    assert drawn == [topologies.draw(3, number) for number in range(64)]
    assert drawn[0] != topologies.draw(4, 0)
    kinds = Counter(topology.kind for topology in drawn)
    assert kinds == {"shared": 32, "disjoint": 16, "twins": 4, "twin rivals": 4, "in step": 4, "wide core": 4}


def test_a_path_is_on_the_core_only_where_it_is_shared_or_wide():
    for number in range(48):
        topology = topologies.draw(1, number)
        data = tomllib.loads(topologies.scenario(topology, ["sbd-bbr", "sbd-cubic"]))
        assert data["sweep"]["flow.mp.cc"] == ["sbd-bbr", "sbd-cubic"]
        rates = {link["name"]: float(link["rate"].split()[0]) for link in data["link"] if "rate" in link}
        ways = {path["name"]: path["links"] for path in data["path"] if path["name"] in "ab"}
        both = set(ways["a"]) & set(ways["b"])
        assert both == ({"core"} if topology.kind in ("shared", "wide core") else set())
        if topology.kind == "wide core":
            assert rates["core"] > rates["link-a"] + rates["link-b"]
        if topology.kind == "shared":
            assert list(rates) == ["core"]


def results(folder, kind_runs):
    """A folder as `mpq sim` leaves it: for each controller the times at which its paths are two and one group."""
    runs = []
    for cc, changes in kind_runs.items():
        run = folder / cc
        run.mkdir(parents=True)
        with open(run / "decisions.csv", "w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file)
            writer.writerow(["time_s", "flow", "path", "symbol", "value"])
            for time_s, value in changes:
                for path in "ab":
                    writer.writerow([time_s, "mp", path, "set_paths", value])
        runs.append({"status": "ok", "reason": None, "folder": cc, "set": {"flow.mp.cc": cc}})
    (folder / "summary.json").write_text(json.dumps({"runs": runs}), encoding="utf-8")


def test_a_verdict_is_that_of_ten_seconds(tmp_path):
    results(tmp_path, {"one": [(2.5, 1), (5.0, 2), (13.0, 1)], "other": [(2.5, 2), (6.0, 1)], "never": [(3.0, 1)]})
    found = {verdict.cc: verdict for verdict in verdicts.read(tmp_path, topologies.draw(1, 0))}
    assert (found["one"].first_s, found["one"].joined) == (3.0, True)
    assert (found["other"].first_s, found["other"].joined) == (0.5, False)
    assert (found["never"].first_s, found["never"].joined) == (None, False)
    results(tmp_path / "none", {"one": []})
    with pytest.raises(verdicts.ResultError):
        list(verdicts.read(tmp_path / "none", topologies.draw(1, 0)))


def test_errors_and_times():
    shared = [verdicts.Verdict("shared", "x", t, True) for t in (2.0, 3.0, 4.0)]
    shared.append(verdicts.Verdict("shared", "x", None, False))
    disjoint = [verdicts.Verdict("twins", "x", None, False), verdicts.Verdict("in step", "x", 3.0, True)]
    judged = verdicts.judge(shared + disjoint)
    assert (judged["false_disjoint"], judged["false_shared"], judged["median_s"], judged["p90_s"]) == (0.25, 0.5, 3.0, None)
    assert judged["wrong_by_kind"]["in step"] == 1.0 and judged["wrong_by_kind"]["twins"] == 0.0
    assert not verdicts.meets(judged)
    assert verdicts.meets(verdicts.judge(shared[:3] + disjoint[:1]))
    assert "| `x` | 25.0 % | 50.0 % |" in verdicts.table({"x": judged})
    assert verdicts.figure({"x": judged}, "words").count("<polyline") == 1


def test_arguments():
    with pytest.raises(SystemExit):
        detect.parse_arguments(["run"])
    assert detect.parse_arguments(["judge", "--topologies", "32"]).seed == 1
