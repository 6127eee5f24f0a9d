import csv
import hashlib
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
    assert kinds == {"shared": 32, "disjoint": 12, "twins": 4, "twin rivals": 4, "in step": 4, "wide core": 4, "fair core": 4}
    assert set(kinds) == set(topologies.KINDS)


def fair_links(topology):
    data = tomllib.loads(topologies.scenario(topology, ["sbd-bbr"]))
    return {link["name"] for link in data["link"] if link.get("aqm") == "fq-codel"}


def test_queues_by_flow_are_in_fair_cores_and_now_and_then_where_nothing_is_shared():
    of = {kind: [] for kind in topologies.KINDS}
    for number in range(240):
        topology = topologies.draw(2, number)
        of[topology.kind].append(fair_links(topology))
    assert all(links == {"core"} for links in of.pop("fair core"))
    links = of.pop("disjoint")
    count = sum(map(len, links))
    # 90 links, of 45: 13.5 expected, 99 % interval 2.576 * sqrt(n p (1 - p)) = 8.7.
    assert len(links) == 45 and 5 <= count <= 22
    assert not any(any(links) for links in of.values())


def test_topologies_that_were_there_before_queues_by_flow_are_as_they_were():
    """What is measured of a seed stays comparable. The hashes are of the texts drawn before there were such queues."""
    def digest(numbers):
        texts = "\n".join(topologies.draw(1, number).text for number in numbers)
        return hashlib.sha256(texts.encode()).hexdigest()[:16]

    assert digest(range(0, 64, 2)) == "54fefccd610c66e7"
    assert digest(range(3, 64, 4)) == "286de6580936038b"
    plain = [number for number in range(1, 64, 4) if number % 16 != 13 and not fair_links(topologies.draw(1, number))]
    assert len(plain) == 7 and digest(plain) == "a2a280a487559acf"


def test_a_path_is_on_the_core_only_where_it_is_shared_wide_or_fair():
    for number in range(48):
        topology = topologies.draw(1, number)
        data = tomllib.loads(topologies.scenario(topology, ["sbd-bbr", "sbd-cubic"]))
        assert data["sweep"]["flow.mp.cc"] == ["sbd-bbr", "sbd-cubic"]
        rates = {link["name"]: float(link["rate"].split()[0]) for link in data["link"] if "rate" in link}
        ways = {path["name"]: path["links"] for path in data["path"] if path["name"] in "ab"}
        both = set(ways["a"]) & set(ways["b"])
        assert both == ({"core"} if topology.kind in ("shared", "wide core", "fair core") else set())
        if topology.kind == "wide core":
            assert rates["core"] > rates["link-a"] + rates["link-b"]
        if topology.kind in ("shared", "fair core"):
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
    table = verdicts.table({"x": judged}).splitlines()
    assert table[2].startswith("| `x` | 25.0 % | 50.0 % |")
    assert table[0].endswith("| wrong: twins | twin rivals | in step | wide core | fair core |")
    assert len({line.count("|") for line in table}) == 1
    assert verdicts.figure({"x": judged}, "words").count("<polyline") == 1


def test_arguments():
    with pytest.raises(SystemExit):
        detect.parse_arguments(["run"])
    assert detect.parse_arguments(["judge", "--topologies", "32"]).seed == 1
