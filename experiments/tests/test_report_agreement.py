"""The section "Simulator and Mininet", from a file as benchmarks/agreement.py writes it."""

import json

import pytest
from papers import main
from report import agreement
from report.results import ResultsError
from test_report import make, verdict


def spread(median, least, most):
    return {"median": median, "min": least, "max": most, "n": 3}


# What `ci/bench agreement` writes: all metrics that both have, by scenario.
COMPARED = {
    "two-links": {
        "simulator": {"flow.mp.goodput_mbps": spread(40.0, 39.5, 41.0), "flow.mp.path.wifi.share": spread(0.6, 0.59, 0.61),
                      "flow.mp.path.lte.share": spread(0.4, 0.35, 0.45), "total.goodput_mbps": spread(40.0, 39.5, 41.0)},
        "mininet": {"flow.mp.goodput_mbps": spread(39.0, 37.0, 39.5), "flow.mp.path.wifi.share": spread(0.63, 0.62, 0.64),
                    "flow.mp.path.lte.share": spread(0.37, 0.36, 0.38), "total.goodput_mbps": spread(39.0, 37.0, 39.5)}},
    "one-link": {
        "simulator": {"flow.f.goodput_mbps": spread(20.0, 20.0, 20.0), "flow.f.path.a.share": spread(1.0, 1.0, 1.0)},
        "mininet": {"flow.f.goodput_mbps": spread(18.0, 17.0, 19.0), "flow.f.path.a.share": spread(1.0, 1.0, 1.0)}}}


@pytest.fixture
def file(tmp_path):
    place = tmp_path / "agreement.json"
    place.write_text(json.dumps(COMPARED))
    return place


def test_every_difference_has_a_row_with_both_spreads_and_its_verdict(file, tmp_path):
    text = agreement.section(file, tmp_path)
    rows = [row.replace("</td>", "").split("<td")[1:] for row in text.partition("<table>")[2].split("<tr>")[2:]]
    cells = [[cell.partition(">")[2].partition("<")[0] for cell in row] for row in rows]
    # 1 - 39/40; 1 - 0.37/0.4 with seeds 25 % apart; 0.63/0.6 - 1; 1 - 18/20.
    assert cells == [
        ["two-links", "goodput of mp", "40 (39.5 to 41) Mbit/s", "39 (37 to 39.5) Mbit/s", "2.5 %", "≤ 5 %", "yes"],
        ["two-links", "share of lte in mp", "0.4 (0.35 to 0.45)", "0.37 (0.36 to 0.38)", "7.5 %", "none: chance", "not judged"],
        ["two-links", "share of wifi in mp", "0.6 (0.59 to 0.61)", "0.63 (0.62 to 0.64)", "5.0 %", "≤ 10 %", "yes"],
        ["one-link", "goodput of f", "20 (20 to 20) Mbit/s", "18 (17 to 19) Mbit/s", "10.0 %", "≤ 5 %", "no"]]
    assert "2 of 3 differences meet their goal" in text and "<svg" in text
    assert (tmp_path / "agreement.png").read_bytes().startswith(b"\x89PNG")


def test_without_the_file_the_page_says_how_to_make_it(tmp_path):
    text = agreement.section(tmp_path / "none.json", tmp_path)
    assert "ci/bench agreement" in text and "<svg" not in text and not (tmp_path / "agreement.png").exists()


@pytest.mark.parametrize("damaged", ["{", '{"a": {}}', "[]", '{"a": {"simulator": 1, "mininet": {"flow.f.goodput_mbps": 2}}}'])
def test_a_damaged_file_is_an_error(tmp_path, damaged):
    file = tmp_path / "agreement.json"
    file.write_text(damaged)
    with pytest.raises(ResultsError, match="run ci/bench agreement again"):
        agreement.section(file, tmp_path)


def test_the_papers_page_has_the_section(file, tmp_path, capsys):
    make(tmp_path / "all" / "mc-3", [("base", {}, 1, {"m": 1.0})], [verdict("m >= 1", "base", True)], name="mc-3")
    words = [str(tmp_path / "all"), "--out", str(tmp_path / "out"), "--agreement"]
    assert main([*words, str(file)]) == 0
    page = (tmp_path / "out" / "index.html").read_text()
    assert '<h2 id="agreement">Simulator and Mininet</h2>' in page and "2 of 3 differences" in page
    file.write_text("{")
    assert main([*words, str(file)]) == 1
    assert "run ci/bench agreement again" in capsys.readouterr().err
