"""The page beyond the papers, from small result folders made by hand."""

import itertools
import json
import re
import tomllib

import pytest
from beyond import main
from report import beyond, papers
from report.beyond import grid
from report.figures import Bars
from report.results import ResultsError
from test_report import make, verdict


def cases_of(text):
    """(label, set) of every case of a scenario, as `mpq sim` makes them."""
    scenario = tomllib.loads(text)
    sweep = scenario.get("sweep", {})
    for values in itertools.product(*sweep.values()):
        for case in scenario.get("case", [{"name": None}]):
            settings = {**dict(zip(sweep, values)), **case.get("set", {})}
            yield (f"case={case['name']}" if case["name"] else "", settings)


@pytest.mark.parametrize("name", sorted({figure.scenario for module in beyond.ALL for figure in module.FIGURES}))
def test_every_bar_has_a_case_and_a_metric_that_a_rule_could_have(name, request, tmp_path):
    text = (request.config.rootpath / "experiments" / "scenarios" / "beyond" / f"{name}.toml").read_text()
    figures = [figure for module in beyond.ALL for figure in module.FIGURES if figure.scenario == name]
    bars = [bar for figure in figures for panel in figure.panels if isinstance(panel, Bars) for bar in panel.bars]
    known = dict.fromkeys(re.findall(r"[a-z][\w.-]*\.[\w.-]+", " ".join(bar.metric for bar in bars)), 2.0)
    flows = {table["name"] for table in tomllib.loads(text)["flow"]}
    windows = {table["name"] for table in tomllib.loads(text).get("window", ())}
    for metric in known:
        parts = metric.removeprefix("window.").split(".")
        assert not metric.startswith("window.") or parts.pop(0) in windows, metric
        assert parts[0] == "flow" and parts[1] in flows, metric
    runs = [(f"{label}{i}", settings, 1, known) for i, (label, settings) in enumerate(
        (f"{label}," if label else "", settings) for label, settings in cases_of(text))]
    results = make(tmp_path / name, runs, name=name)
    for figure in figures:
        drawing = figure.draw(results)
        for panel, axes in zip(figure.panels, drawing.axes):
            if isinstance(panel, Bars):
                assert len(axes.patches) == len(panel.bars), panel.title
            else:
                # The series that `make` writes have the paths p1 and p2 only.
                assert results.case(panel.case) is not None and {curve.flow for curve in panel.curves} <= flows


def test_every_scenario_but_the_grids_is_run_and_drawn(request):
    folder = request.config.rootpath / "experiments" / "scenarios" / "beyond"
    scenarios = {path.stem for path in folder.glob("*.toml") if not path.stem.startswith("grid-")}
    assert {figure.scenario for module in beyond.ALL for figure in module.FIGURES} == scenarios
    lines = [line.split() for line in (folder / "reduced").read_text().splitlines() if not line.startswith("#")]
    assert {line[0] for line in lines} == scenarios
    assert all(word in ("--seeds", "--set") for line in lines for word in line[1::2])
    names = [figure.name for module in (*beyond.ALL, *papers.ALL) for figure in module.FIGURES]
    assert len(names) == len(set(names))
    texts = "\n".join((folder / f"{name}.toml").read_text() for name in scenarios)
    for module in beyond.ALL:
        for asked in module.WHY:
            assert f'paper = "{asked}"' in texts, asked


@pytest.fixture
def points(tmp_path):
    """Two points of a class: 10 and 5 Mbit/s alone; with the better path first 12 and 14 together, else 9 and 11."""
    for number, both in ((1, (12, 9)), (2, (14, 11))):
        folder = tmp_path / "grid" / "low-bdp" / f"p{number:03}"
        folder.mkdir(parents=True)
        runs = [("single-a", "reno", ["a"], 10), ("single-b", "reno", ["b"], 5),
                ("olia-ab", "olia", ["a", "b"], both[0]), ("olia-ba", "olia", ["b", "a"], both[1])]
        (folder / "summary.json").write_text(json.dumps({"runs": [
            {"case": f"case={name},cc={cc}", "set": {"flow.mp.cc": cc, "flow.mp.paths": paths}, "status": "ok",
             "metrics": {"flow.mp.goodput_mbps": goodput}} for name, cc, paths, goodput in runs]}))
    return tmp_path / "grid"


def test_the_grid_has_a_row_for_each_controller_and_a_figure(points, tmp_path):
    text = grid.section(points, tmp_path)
    row = text.partition("<table>")[2].split("<tr>")[2]
    cells = [cell.partition(">")[2].partition("<")[0] for cell in row.split("<td")[1:]]
    # EBen: (12 - 10)/5 = 0.4, 0.8, -1/10 and 0.2; three of four are above 0, and quartiles lie between.
    assert cells == ["low-bdp", "2", "reno", "olia", "4", "0.13 / 0.30 / 0.50", "75.0 %", "98 %", "77 %", "no"]
    assert "<svg" in text and (tmp_path / "grid-eben.png").read_bytes().startswith(b"\x89PNG")


def test_without_a_grid_the_page_says_how_to_make_it(points, tmp_path):
    text = grid.section(tmp_path / "none", tmp_path)
    assert "grid.py run" in text and "<svg" not in text
    (points / "low-bdp" / "p002" / "summary.json").write_text("{")
    with pytest.raises(ResultsError, match=r"p002.*run grid\.py again"):
        grid.section(points, tmp_path)


def test_the_command_draws_both(points, tmp_path, capsys):
    runs = [(f"cc={cc}", {"flow.mp.cc": cc}, 1, {"flow.mp.completion_s": 1.2}) for cc in ("lia", "olia")]
    make(tmp_path / "all" / "picoquic-pair", runs, [
        verdict("flow.mp.completion_s < 1.25", "cc=lia", True, "the goal"),
        verdict("flow.mp.completion_s <= 1.1", "cc=olia", False, None)], name="picoquic-pair")
    assert main([str(tmp_path / "all"), "--grid", str(points), "--out", str(tmp_path / "out")]) == 8
    page = (tmp_path / "out" / "index.html").read_text()
    for part in ("<h1>Beyond the papers</h1>", "<th>asked</th>", "the goal", '<h2 id="grid">', "Not run: picoquic-equal"):
        assert part in page, part
    out = capsys.readouterr().out
    assert "yes picoquic-pair  the goal  [1.2] (cc=lia)" in out and "NO  picoquic-pair  flow.mp.completion_s <= 1.1" in out
    assert main([str(tmp_path / "none")]) == 1
    assert "beyond: " in capsys.readouterr().err
