"""The report on the papers, from small result folders made by hand."""

import json
import re
import tomllib
from typing import ClassVar

import pytest
from papers import main
from report import beyond, claims, definitions, figures, kept, page, papers, rules
from report.claims import Measured
from report.figures import Bar, Bars, Curve, Figure, Panel, over_time, thinned
from report.papers.mc import longest_run
from report.results import Results, ResultsError, load
from report.spread import Spread, number

SCENARIO = """
question = "Which is faster, <a> or <b>?"
expected = "a is."
notes = "Nothing is assumed."
[[link]]
name = "p1"
rate = "10 Mbit/s"
"""


def make(folder, runs, acceptance=(), name="toy", command=("mpq", "sim", "toy.toml")):
    """A result folder; `runs` are (label, set, seed, metrics), a run whose metrics are None failed."""
    entries = []
    for label, settings, seed, metrics in runs:
        place = folder / "runs" / label / f"seed-{seed}"
        place.mkdir(parents=True)
        ok = metrics is not None
        entries.append({"case": label, "set": settings, "seed": seed, "status": "ok" if ok else "failed",
                        "reason": None if ok else "no answer <in time>", "folder": f"runs/{label}/seed-{seed}",
                        "metrics": metrics or {}})
        # Path p1 has 1, 2, 3 ... Mbit/s times the seed, p2 the double of it.
        rows = [f"{0.5 * (i + 1)},mp,p{p},{(i + 1) * p * seed},0,0,{i},10,{1472 * p * seed},{20 + i}"
                for i in range(4) for p in (1, 2)]
        (place / "paths.csv").write_text("time_s,flow,path,goodput_mbps,sent_bytes,received_bytes,lost_packets,"
                                         "sent_packets,cwnd_bytes,srtt_ms\n" + "\n".join(rows) + "\n")
        rows = [f"{0.5 * (i + 1)},mp,{7 * seed},0" for i in range(4)]
        (place / "flows.csv").write_text("time_s,flow,goodput_mbps,delivered_bytes\n" + "\n".join(rows) + "\n")
    folder.mkdir(exist_ok=True)
    (folder / "scenario.toml").write_text(SCENARIO)
    (folder / "manifest.json").write_text(json.dumps(
        {"command": list(command), "commit": "c0ffee", "patch_series": "5e71e5", "versions": {}, "scenario": name}))
    (folder / "summary.json").write_text(json.dumps(
        {"scenario": name, "question": "", "expected": "", "runs": entries, "cases": [], "acceptance": list(acceptance)}))
    return Results(folder)


def verdict(rule, case, holds, paper="a claim", problem=None):
    return {"rule": rule, "paper": paper, "case": case, "holds": holds, "values": [], "problem": problem}


TWO = [("cc=lia", {"flow.mp.cc": "lia"}, seed, {"flow.mp.goodput_mbps": 10.0 + seed}) for seed in (1, 2, 3)] + [
    ("cc=olia", {"flow.mp.cc": "olia"}, seed, {"flow.mp.goodput_mbps": 20.0 + 2 * seed}) for seed in (1, 2, 3)]


@pytest.fixture
def two(tmp_path):
    return make(tmp_path / "toy", TWO)


def test_a_median_has_an_interval_of_order_statistics():
    # P(B(10, 1/2) < 2) = 11/1024: twice it is 0.0215, and with < 3 it is 0.109. So the 2nd and the 9th.
    low, high, confidence = Spread(tuple(float(v) for v in range(1, 11))).interval
    assert (low, high) == (2, 9) and confidence == pytest.approx(1 - 22 / 1024)
    # Five values: the whole range, and 1 - 2/32.
    five = Spread((3.0, 1.0, 2.0, 5.0, 4.0))
    assert five.median == 3 and five.interval == (1, 5, 1 - 2 / 32)
    assert str(five) == "3 (93.8 % CI 1 to 5, n = 5)"
    assert str(Spread((2.0,))) == "2 (n = 1)"
    # Six values are the least whose range has 95 %: 1 - 2/64.
    assert str(Spread((1.0, 2.0, 3.0, 4.0, 5.0, 6.0))) == "3.5 (95 % CI 1 to 6, n = 6)"


def test_numbers_keep_the_digits_that_count():
    assert [number(v) for v in (0.0, 3.19e-5, 0.978, 12.36, 499.25, 8332.0)] == [
        "0", "3.19e-05", "0.978", "12.4", "499", "8332"]


def test_rules_are_evaluated_for_each_seed(two):
    # 22/11, 24/12, 26/13.
    rule = "1.5 <= flow.mp.goodput_mbps / flow.mp.goodput_mbps@cc=lia <= 2.5"
    assert rules.sides(rule)[0] == "1.5"
    ours = rules.judged(rule, two, "cc=olia")
    assert [spread.values for spread in ours.values()] == [(2.0, 2.0, 2.0)]

    rule = "flow.mp.goodput_mbps > max((flow.mp.goodput_mbps@cc=lia), 12.5) - 0.5 * (1 + 1)"
    left, right = rules.judged(rule, two, "cc=olia").values()
    assert left.values == (22.0, 24.0, 26.0)
    assert right.values == (11.5, 11.5, 12.0)


def test_a_missing_metric_or_case_leaves_a_side_out(two):
    assert rules.judged("flow.mp.path.p-1.share <= 1", two, "cc=lia") == {}
    assert rules.judged("flow.mp.goodput_mbps@cc=balia <= 1", two, "cc=lia") == {}
    assert rules.evaluate("flow.mp.goodput_mbps / 0", two, "cc=lia", 1) is None
    with pytest.raises(rules.RuleError):
        rules.evaluate("flow.mp.goodput_mbps ** 2", two, "cc=lia", 1)


def test_cases_are_found_by_what_they_set(tmp_path):
    runs = [(f"case={name},cc={cc}", {"flow.mp.cc": cc, "link.p1.rate": rate}, 1, {"m": rate_mbps})
            for name, rate, rate_mbps in (("slow", "1 Mbit/s", 1.0), ("fast", "9 Mbit/s", 9.0)) for cc in ("lia", "olia")]
    results = make(tmp_path / "toy", runs)
    assert results.case("case=fast,cc=olia") == "case=fast,cc=olia"
    assert results.cases("cc=lia") == ["case=slow,cc=lia", "case=fast,cc=lia"]
    assert results.case("rate=9 Mbit/s,cc=lia") == "case=fast,cc=lia"
    assert results.case("cc=balia") is None
    assert results.case_with("case=fast,cc=olia", "cc=lia") == "case=fast,cc=lia"
    with pytest.raises(ResultsError, match="selects 2 cases"):
        results.case("cc=lia")


def test_a_failed_run_counts_nowhere_and_is_shown(tmp_path):
    results = make(tmp_path / "toy", [*TWO, ("cc=lia", {"flow.mp.cc": "lia"}, 4, None)])
    assert results.seeds("cc=lia") == [1, 2, 3]
    assert results.metric("cc=lia", 4, "flow.mp.goodput_mbps") is None
    assert [run.seed for run in results.failed] == [4]


def test_curves_have_a_column_for_each_seed(two):
    table = over_time(two, "cc=lia", Curve("both", "mp", ("p1", "p2")), figures.QUANTITIES["rate"])
    # (1 + 2) * 1, 2, 3, 4 for seed 1, and twice that for seed 2.
    assert list(table[1]) == [3, 6, 9, 12] and list(table[2]) == [6, 12, 18, 24]
    assert list(table.index) == [0.5, 1.0, 1.5, 2.0]
    application = over_time(two, "cc=lia", Curve("flow", "mp"), figures.QUANTITIES["rate"], only_seed=3)
    assert list(application.columns) == [3] and set(application[3]) == {21}
    assert over_time(two, None, Curve("flow", "mp"), figures.QUANTITIES["rate"]) is None


def test_long_curves_are_thinned_by_means():
    import pandas
    long = pandas.DataFrame({1: range(1200)}, index=[i / 10 for i in range(1200)])
    short = thinned(long)
    # 1200 rows in steps of six: 0 to 5 become 2.5, at the time of the first.
    assert len(short) == 200 and short.index[1] == 0.6 and short[1].iloc[0] == 2.5
    assert thinned(short) is short


def figure(**changes):
    return Figure(**{"name": "toy-fig1", "scenario": "toy", "title": "Figure 1", "panels": (
        Panel("rates", "rate", (Curve("path 1", "mp", ("p1",)),), "cc=lia"),
        Panel("not there", "window", (Curve("path 1", "mp", ("p1",)),), "cc=balia"),
        Bars("goodput", "Mbit/s", (Bar("LIA", "flow.mp.goodput_mbps", "cc=lia", 12.5), Bar("none", "no.metric", "cc=lia")))),
        **changes})


class Paper:
    """Stands for a module of report/papers."""
    __name__ = "report.papers.toy"
    TITLE = "A toy & its paper"
    FIGURES = (figure(), figure(name="other-fig", scenario="other"))
    MEASURED = (Measured("toy", "by series", "above 3", lambda results: ({"x": Spread((4.0,))}, True)),
                Measured("toy", "cannot be", "above 3", lambda results: None))
    WHY: ClassVar = {"a false claim": "the equation (3) has another root"}


def test_the_page_shows_claims_figures_reasons_and_origin(tmp_path):
    results = make(tmp_path / "toy", [*TWO, ("cc=lia", {"flow.mp.cc": "lia"}, 4, None)], [
        verdict("flow.mp.goodput_mbps >= 20", "cc=olia", True),
        verdict("flow.mp.goodput_mbps >= 20", "cc=lia", False, "a false claim"),
        verdict("flow.mp.goodput_mbps >= 99", "cc=lia", False, "unexplained")],
        command=("/x/mpq", "sim", "toy.toml", "--set", "duration=5s", "--seeds", "1,2,3,4"))
    extra = '<p>from "elsewhere"</p>'
    sections = page.write(tmp_path / "out", page.Page("A <title>", "What it is about.", "paper", (Paper(),), (
        lambda out: extra + ("" if out.is_dir() else "no folder"),)), {"toy": results})
    text = (tmp_path / "out" / "index.html").read_text()
    assert (tmp_path / "out" / "toy-fig1.png").read_bytes().startswith(b"\x89PNG")
    assert text.index(extra) > text.index("</figure>")
    for part in ("<title>A &lt;title&gt;</title>", "What it is about.", "A toy &amp; its paper",
                 "Which is faster, &lt;a&gt; or &lt;b&gt;?", "Not run: other.",
                 "the equation (3) has another root", "not explained yet", "no answer &lt;in time&gt;", "c0ffee",
                 "24 (75.0 % CI 22 to 26, n = 3)", "--set duration=5s --seeds 1,2,3,4", "2 accepted, 2 not accepted, 1 not",
                 "runs for this are missing"):
        assert part in text, part
    # Self-contained: no reference to anything outside.
    assert "http" not in text.replace("http-equiv", "") and "src=" not in text and "<script" not in text
    lines = page.as_text(sections).splitlines()
    assert lines[1].startswith("NO  toy") and lines[-1] == "2 accepted, 2 not accepted, 1 not judged"


def test_a_claim_leads_to_its_scenario_and_its_data(tmp_path):
    results = make(tmp_path / "runs" / "toy", TWO, [verdict("flow.mp.goodput_mbps >= 20", "cc=olia", True)])
    out = tmp_path / "out"
    page.write(out, page.Page("", "", "", (Paper(),)), {"toy": results})
    text = (out / "index.html").read_text()
    for words in ("scenario", "metrics", "run of seed 1"):
        link = re.findall(f'<a href="([^"]*)">{words}</a>', text.split("</table>")[0].split("by series")[0])[0]
        assert (out / link).exists(), link
    assert "cc=olia" in re.search('<a href="([^"]*)">run of seed 1', text)[1]


def test_rows_can_be_filtered_by_their_verdict(tmp_path):
    results = make(tmp_path / "toy", TWO, [verdict("flow.mp.goodput_mbps >= 99", "cc=lia", False, "a false claim")])
    page.write(tmp_path / "out", page.Page("", "", "", (Paper(),)), {"toy": results})
    text = (tmp_path / "out" / "index.html").read_text()
    # The style hides rows of other classes than the button's.
    assert [text.count(f'<tr class="{style}">') for style in ("no", "yes", "none")] == [1, 1, 1]
    for button in ("only-no", "only-unjudged"):
        assert f'id="{button}"' in text and f'for="{button}"' in text and f"#{button}:checked ~ table" in text


def test_a_paper_is_told_in_short(tmp_path):
    results = make(tmp_path / "toy", TWO, [
        verdict("flow.mp.goodput_mbps >= 99", "cc=lia", False, "X-1: fast"), verdict("m >= 0", "cc=lia", True, "X-2: slow")])
    section = page.Section(Paper(), {"toy": results})
    assert page.summary(section) == "2 of 3 judged claims come out here, not all of X-1."
    assert all(one.SUMMARY.count(".") >= 2 for one in papers.ALL)


def test_full_scale_is_kept_and_said_beside_a_reduced_run(tmp_path):
    claim = verdict("flow.mp.goodput_mbps >= 20", "cc=olia", True, "X-1: fast")
    folder, options = tmp_path / "docs", ("mpq", "sim", "toy.toml", "--set", "duration=5s")
    full = make(tmp_path / "full", TWO, [claim])
    reduced = make(tmp_path / "reduced", TWO, [verdict(claim["rule"], "cc=olia", False, "X-1: fast")], command=options)
    kept_page = page.Page("", "", "", (Paper(),))
    # Of the scenario "other" there are no runs: tables, but no page.
    assert not kept.save(folder, kept_page, [page.Section(Paper(), {"toy": full})])
    rows = kept.load(folder)
    assert rows["toy", "X-1: fast", "cc=olia"].words == "yes, 24 (n = 3, commit c0ffee)"
    bars = (folder / "bars.csv").read_text()
    assert bars.splitlines()[1:] == ["toy,toy-fig1,goodput,LIA,flow.mp.goodput_mbps,cc=lia,Mbit/s,12,11,13,3,12.5,c0ffee"]
    # A reduced run changes nothing there, and its page says it.
    kept.save(folder, kept_page, [page.Section(Paper(), {"toy": reduced})])
    assert kept.load(folder) == rows and (folder / "bars.csv").read_text() == bars
    assert not (folder / "index.html").exists()
    page.write(tmp_path / "out", page.Page("", "", "", (Paper(),), kept=rows), {"toy": reduced})
    text = (tmp_path / "out" / "index.html").read_text()
    assert "At full scale: yes, 24 (n = 3, commit c0ffee)." in text
    page.write(tmp_path / "out", page.Page("", "", "", (Paper(),), kept={}), {"toy": reduced})
    assert "At full scale: not run." in (tmp_path / "out" / "index.html").read_text()
    (folder / "claims.csv").write_text("a,b\n1,2\n")
    with pytest.raises(ResultsError, match="its columns are"):
        kept.load(folder)
    assert kept.load(tmp_path / "none") == {}


def test_the_kept_page_stands_alone(tmp_path):
    results = {name: make(tmp_path / name, TWO, [verdict("flow.mp.goodput_mbps >= 20", "cc=olia", True)], name=name)
               for name in ("toy", "other")}
    gone = make(tmp_path / "gone", TWO, [verdict("flow.mp.goodput_mbps >= 20", "cc=olia", True)], name="gone")
    old = type("Old", (Paper,), {"FIGURES": (figure(scenario="gone"),)})()
    assert kept.save(tmp_path / "docs", page.Page("", "", "", (old,)), [page.Section(old, {"gone": gone})])
    assert kept.save(tmp_path / "docs", page.Page("", "", "", (Paper(),)), [page.Section(Paper(), results)])
    assert {key[0] for key in kept.load(tmp_path / "docs")} == {"toy", "other"}
    text = (tmp_path / "docs" / "index.html").read_text()
    assert "<svg" in text and all(link.startswith("#") for link in re.findall('href="([^"]*)"', text))
    assert sorted(path.name for path in (tmp_path / "docs").iterdir()) == ["bars.csv", "claims.csv", "index.html"]


def test_every_number_says_how_it_is_computed(tmp_path, request):
    window = {"window": [{"name": "late", "from": "60 s", "to": "120 s"}]}
    assert definitions.of("0.8 <= window.late.flow.mp.path.p-1.loss@cc=lia / total.jain", window) == [
        "window.late.flow.mp.path.p-1.loss: lost / sent packets of the path, from 60 s to 120 s, in the case cc=lia",
        "total.jain: Jain's index of the flows' goodputs"]
    for path in request.config.rootpath.glob("experiments/scenarios/*/*.toml"):
        scenario = tomllib.loads(path.read_text())
        for rule in scenario.get("accept", ()):
            assert definitions.UNKNOWN not in str(words := definitions.of(rule["rule"], scenario)) and words, (path, words)
    for one in (figure for module in (*papers.ALL, *beyond.ALL) for figure in module.FIGURES):
        assert one.meanings(window) and definitions.UNKNOWN not in str(one.meanings(window)), one.name
    results = make(tmp_path / "toy", TWO, [verdict("flow.mp.goodput_mbps >= 20", "cc=olia", True)])
    page.write(tmp_path / "out", page.Page("", "", "", (Paper(),)), {"toy": results})
    text = (tmp_path / "out" / "index.html").read_text()
    assert "<li>flow.mp.goodput_mbps: stream bytes read, over the time" in text
    assert "by experiments/report/papers/toy.py from the series of each run" in text
    assert "no.metric: not among the metrics" in text


def test_the_longest_time_at_the_peak():
    assert [longest_run(holds) for holds in ([], [False], [True, True, False, True], [False, True, True, True])] == [0, 0, 2, 3]


def test_bars_may_be_expressions_beside_lines(two):
    drawing = figure(panels=(
        Bars("ratio", "", (Bar("OLIA", "flow.mp.goodput_mbps / flow.mp.goodput_mbps@cc=lia - 1", "cc=olia"),),
             lines=(("limit", 1.5),)),)).draw(two)
    axes, = drawing.axes
    # 22/11, 24/12 and 26/13, less 1.
    bar, = axes.patches
    assert bar.get_height() == 1
    limit, = (line for line in axes.lines if line.get_label() == "limit")
    assert list(limit.get_ydata()) == [1.5, 1.5]


def test_a_rule_for_many_cases_is_one_row(tmp_path):
    runs = [(f"cc=c{i}", {"flow.mp.cc": f"c{i}"}, seed, {"m": float(i)}) for i in range(8) for seed in (1, 2)]
    results = make(tmp_path / "toy", [*runs, ("cc=dead", {"flow.mp.cc": "dead"}, 1, None)], [
        *(verdict("m >= 2", f"cc=c{i}", i >= 2, "") for i in range(8)), verdict("m >= 2", "cc=dead", False, ""),
        verdict("m >= 0", "cc=c1", True, "alone")])
    many, alone = claims.grouped(claims.of(results, ()))
    assert (many.accepted, many.cases, many.missed) == (False, "9 cases", ["cc=c0", "cc=c1"])
    assert many.ours == {"m": "medians from 0 to 7 (n = 2 each)"} and many.numbers == ["3.5"]
    assert (alone.accepted, alone.cases, alone.missed, alone.ours) == (True, "cc=c1", [], {"m": "1 (50.0 % CI 1 to 1, n = 2)"})
    sections = page.write(tmp_path / "out", page.Page("", "", "asked", (Paper(),)), {"toy": results})
    text = (tmp_path / "out" / "index.html").read_text()
    assert 'no in 2 of 9: <span class="small">not explained yet</span>' in text and "<th>asked</th>" in text
    assert "<summary>which</summary>cc=c0; cc=c1</details>" in text
    assert "NO  toy  m >= 2  [3.5] (9 cases); not in 2" in page.as_text(sections).splitlines()


def test_a_case_in_which_every_run_failed_is_not_judged(tmp_path):
    results = make(tmp_path / "toy", [("base", {}, 1, None)], [verdict("a >= 1", "base", False)])
    claim, = claims.of(results, ())
    assert claim.accepted is None


def test_only_finished_folders_are_read(tmp_path):
    make(tmp_path / "toy", TWO)
    (tmp_path / "half").mkdir()
    (tmp_path / "half" / "manifest.json").write_text("{}")
    assert list(load(tmp_path)) == ["toy"] and list(load(tmp_path / "toy")) == ["toy"]
    for folder, words in ((tmp_path / "half", "let mpq sim finish"), (tmp_path / "none", "is no folder"),
                          (tmp_path / "toy" / "runs", "no finished results")):
        with pytest.raises(ResultsError, match=words):
            load(folder)
    (tmp_path / "toy" / "summary.json").write_text("{")
    with pytest.raises(ResultsError, match="summary.json"):
        load(tmp_path)


def test_the_command_says_what_is_wrong(tmp_path, capsys):
    assert main([str(tmp_path / "none")]) == 1
    assert "run ci/papers" in capsys.readouterr().err
    make(tmp_path / "all" / "mc-3", [("base", {}, 1, {"m": 1.0})], [verdict("m >= 2", "base", False)], name="mc-3")
    assert main([str(tmp_path / "all"), "--out", str(tmp_path / "out")]) == 8
    assert "NO  mc-3" in capsys.readouterr().out
    (tmp_path / "file").write_text("")
    assert main([str(tmp_path / "all"), "--out", str(tmp_path / "file")]) == 6


def test_what_the_papers_modules_name_is_in_the_scenarios(request):
    folder = request.config.rootpath / "experiments" / "scenarios" / "papers"
    texts = {path.stem: path.read_text() for path in folder.glob("*.toml")}
    drawn = set()
    for paper in papers.ALL:
        for one in paper.FIGURES:
            assert one.scenario in texts, one.name
            assert one.published, one.name
            drawn.add(one.scenario)
        rules = [rule for name in {one.scenario for one in paper.FIGURES} for rule in tomllib.loads(texts[name]).get("accept", ())]
        for claim in paper.WHY:
            assert any(claim == one.get("paper") for one in rules) or any(claim == one.paper for one in paper.MEASURED), claim
    assert drawn == set(texts)
    names = [one.name for paper in papers.ALL for one in paper.FIGURES]
    assert len(names) == len(set(names))


def test_every_scenario_has_a_reduction(request):
    folder = request.config.rootpath / "experiments" / "scenarios" / "papers"
    lines = [line.split() for line in (folder / "reduced").read_text().splitlines() if not line.startswith("#")]
    assert sorted(line[0] for line in lines) == sorted(path.stem for path in folder.glob("*.toml"))
    for line in lines:
        if line[1:] == ["full"]:
            continue
        assert all(word in ("--seeds", "--set") for word in line[1::2]) and len(line) % 2 == 1, line
