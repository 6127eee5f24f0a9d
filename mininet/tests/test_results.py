import copy
import dataclasses
import json
import re

import pytest

from mpqnet import page, results, scenario
from test_scenario import GOOD

WIFI, LTE = "10.1.0.1", "10.2.0.1"
LINK_OF = {WIFI: "wifi", LTE: "lte"}


def path(local, recv_bytes, path_id=0):
    return {"path_id": path_id, "local": f"{local}:40000", "peer": "10.1.0.2:4433", "recv_bytes": recv_bytes,
            "sent_bytes": 1000, "rtt_ms": 20.5, "samples": [[500, recv_bytes // 2], [1000, recv_bytes]]}


def play_report(rate, paths):
    return {"mpd": "https://10.1.0.2:4433/manifest.mpd", "startup_ms": 120.5, "stalls": 1, "stall_ms": 80,
            "mean_bitrate_bps": rate, "switches": 3, "buffer": [[0, 0], [500, 2000]], "paths": paths,
            "segments": [{"index": 0, "rep": "1", "bitrate_bps": 2.5e6, "start_ms": 0, "end_ms": 400,
                          "bytes": 625000, "buffer_ms": 2000}]}


def get_report(goodput, paths):
    return {"files": [{"url": "https://x/bulk.bin", "bytes": 20_000_000, "seconds": 8.5, "sha256": "AB" * 32,
                       "longest_gap_ms": 12.5}],
            "seconds": 8.5, "goodput_bps": goodput, "paths": paths}


def load(tmp_path, read, report):
    file = tmp_path / "report.json"
    file.write_text(json.dumps(report))
    return read(file)


@pytest.fixture
def runs(tmp_path):
    choices = {"wifi": [path(WIFI, 1000)], "lte": [path(LTE, 2000)],
               "both": [path(WIFI, 3000), path(LTE, 4000, 1), path(LTE, 500, 2)]}
    rates = {"wifi": 8e6, "lte": 5e6, "both": 16e6}
    plays = {name: load(tmp_path, results.load_play, play_report(rates[name], paths))
             for name, paths in choices.items()}
    gets = {name: load(tmp_path, results.load_get, get_report(rates[name] + 1e6, paths))
            for name, paths in choices.items()}
    return plays, gets


def test_the_summary_has_exactly_its_shape(runs):
    data = results.summary(*runs, LINK_OF)
    assert list(data) == ["play", "bulk"]
    for part in data.values():
        assert list(part) == ["wifi", "lte", "both"]
    assert data["play"]["both"] == {"startup_ms": 120.5, "stalls": 1, "stall_ms": 80.0, "mean_bitrate_bps": 16e6,
                                    "switches": 3}
    # Two paths from one address count together.
    assert data["bulk"]["both"] == {"goodput_bps": 17e6, "seconds": 8.5, "path_bytes": {"wifi": 3000, "lte": 4500}}
    assert data["bulk"]["wifi"]["path_bytes"] == {"wifi": 1000, "lte": 0}
    json.dumps(data)


def test_both_must_beat_the_better_single_path(runs):
    data = results.summary(*runs, LINK_OF)
    assert results.shortfalls(data) == []
    slow = copy.deepcopy(data)
    slow["bulk"]["both"]["goodput_bps"] = slow["bulk"]["wifi"]["goodput_bps"]
    [problem] = results.shortfalls(slow)
    assert "goodput" in problem and "wifi alone" in problem
    slow["play"]["both"]["mean_bitrate_bps"] = 7e6
    assert len(results.shortfalls(slow)) == 2


def test_the_table_shows_each_run_in_one_row(runs):
    head, rule, *rows = results.table(results.summary(*runs, LINK_OF)).splitlines()
    assert "goodput Mbit/s" in head and set(rule) == {"-"}
    assert [row.split()[0] for row in rows] == ["wifi", "lte", "both"]
    assert rows[2].split() == ["both", "120", "1", "80", "16.00", "3", "17.00", "0.0", "0.0"]


@pytest.mark.parametrize("spoil", [
    lambda report: report.pop("startup_ms"),
    lambda report: report["paths"][0].pop("samples"),
    lambda report: report.update(segments=[[1, 2]]),
    lambda report: report.update(stalls="many"),
    lambda report: report.update(paths=None),
])
def test_a_wrong_report_is_an_error_that_names_the_file(tmp_path, spoil):
    report = play_report(1e6, [path(WIFI, 1)])
    spoil(report)
    with pytest.raises(results.ResultError, match="report.json"):
        load(tmp_path, results.load_play, report)


def test_an_empty_or_missing_report_and_an_unknown_path_are_errors(tmp_path, runs):
    with pytest.raises(results.ResultError, match="no report"):
        results.load_get(tmp_path / "none.json")
    (tmp_path / "cut.json").write_text("{")
    with pytest.raises(results.ResultError, match="not valid JSON"):
        results.load_get(tmp_path / "cut.json")
    with pytest.raises(results.ResultError):
        load(tmp_path, results.load_get, {**get_report(1e6, []), "files": []})
    with pytest.raises(results.ResultError, match="none of"):
        results.bytes_by_link(runs[0]["both"].paths, {WIFI: "wifi"})


def test_addresses_lose_their_port():
    assert results._address("10.1.0.1:4433") == WIFI
    assert results._address("[fd00::1]:4433") == "fd00::1"


def test_rates_from_cumulative_bytes():
    # 62,500 bytes in 500 ms are 1 Mbit/s; the next half second carries three times as much.
    times, values = page.rates([(500, 62_500), (1000, 250_000)])
    assert times == [0.5, 1.0]
    assert values == pytest.approx([1.0, 3.0])
    # One sample a second, drawn in half seconds: interpolated.
    assert page.rates([(1000, 125_000)])[1] == pytest.approx([1.0, 1.0])
    assert page.rates([]) == ([], [])


def test_no_curve_leaves_its_axes(runs):
    plays, gets = runs
    plays["both"] = dataclasses.replace(plays["both"], levels=((0.0, 16e6), (2000.0, 1e6)))
    drawing = page.draw(plays, gets, LINK_OF)
    assert len(drawing.axes) == 12
    for axes in drawing.axes:
        bottom, top = axes.get_ylim()
        for line in axes.lines:
            assert bottom == 0 and max(line.get_ydata()) <= top
    page.inline_svg(drawing)


def test_the_page_is_complete_and_refers_to_nothing_outside(runs):
    plan = scenario.parse(GOOD.replace("Does it work?", "Is 1 < 2 & 3?"))
    text = page.page(plan, results.summary(*runs, LINK_OF), *runs, LINK_OF, ["wifi: measured"])
    assert "Is 1 &lt; 2 &amp; 3?" in text and "wifi: measured" in text
    assert text.count("<svg") == 1
    assert "://" not in text and "@import" not in text and "<script" not in text and "<link" not in text
    references = re.findall(r"(?:href|src)=\"([^\"]*)\"|url\(([^)]*)\)", text)
    assert all((a or b).startswith("#") for a, b in references)
