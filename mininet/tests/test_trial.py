"""What is made of the reports of `mpq get`; no network."""

import json
from types import SimpleNamespace

import pytest

from mpqnet import experiment, folder, results, trial
from mpqnet.trial import Client


def client(name, size=None, told=False, began_s=1.0):
    flow = experiment.Flow(name=name, family=name.split("-")[0], paths=("wifi", "lte"), cc="olia", scheduler="ecf", start_s=began_s,
                           stop_s=20.0, size_bytes=size, flow_control_bytes=1, hystart=True, ack_detours=False,
                           ack_frequency=False, ecn=False)
    # 6 MB over wifi and 3 MB over lte in 8 s; 8.1 MB of it are the body, a share of 0.9.
    report = results.Get(goodput_bps=8.1e6, seconds=8.0, bytes=0, sha256="", longest_gap_ms=0.0, paths=())
    received = {"wifi": [(1.0, 0), (5.0, 4_000_000), (9.0, 6_000_000)], "lte": [(1.0, 0), (9.0, 3_000_000)]}
    return Client(flow, report=report, told=told, began_s=began_s, received=received)


def trial_of(*clients, windows=None):
    made = trial.Trial.__new__(trial.Trial)
    made.spec = SimpleNamespace(windows=windows or {}, duration_s=20.0)
    made.clients, made.simulated_s = list(clients), 9.0
    return made


def test_metrics_worked_by_hand():
    metrics = trial_of(client("mp", size=8_100_000), windows={"late": (5.0, 9.0)}).metrics()
    assert metrics["flow.mp.goodput_mbps"] == pytest.approx(8.1)
    assert metrics["flow.mp.delivered_bytes"] == 8_100_000
    assert (metrics["flow.mp.completion_s"], metrics["flow.mp.completed"]) == (8.0, 1)
    # 6 MB in 8 s are 6 Mbit/s, and 6 of 9 MB.
    assert metrics["flow.mp.path.wifi.goodput_mbps"] == pytest.approx(6.0)
    assert metrics["flow.mp.path.wifi.share"] == pytest.approx(2 / 3)
    # From 5 to 9 s: 2 MB of wifi's, 1.5 MB of lte's; 3.5 MB x 0.9 x 8 / 4 s.
    assert metrics["window.late.flow.mp.path.lte.share"] == pytest.approx(1.5 / 3.5)
    assert metrics["window.late.flow.mp.goodput_mbps"] == pytest.approx(6.3)
    assert metrics["total.jain"] == pytest.approx(1.0)


def test_a_flow_that_was_ended_has_no_completion_and_several_are_summed():
    metrics = trial_of(client("bg-1", told=True), client("bg-2", told=True)).metrics()
    assert "flow.bg-1.completion_s" not in metrics
    assert metrics["flow.bg.goodput_mbps"] == pytest.approx(16.2)
    assert metrics["flow.bg.path.wifi.share"] == pytest.approx(2 / 3)
    assert metrics["flow.bg.jain"] == pytest.approx(1.0) and metrics["total.goodput_mbps"] == pytest.approx(16.2)


def test_series_add_up_to_what_was_received(tmp_path):
    made = trial_of(client("mp"))
    made.out = tmp_path
    made.write_series()
    rows = [line.split(",") for line in (tmp_path / "paths.csv").read_text().splitlines()]
    assert rows[0] == list(trial.PATH_COLUMNS)
    assert sum(int(row[5]) for row in rows[1:] if row[2] == "wifi") == 6_000_000
    flows = [line.split(",") for line in (tmp_path / "flows.csv").read_text().splitlines()[1:]]
    assert sum(int(row[3]) for row in flows) == pytest.approx(8_100_000, abs=100)


PLAN = {"commit": "c", "patch_series": "p", "versions": {}, "scenario": "x", "scenario_sha256": "ab", "text": "t"}
PLANNED = {"folder": "runs/cc=lia/seed-1", "text": "toml", "seed": 1, "case": {"label": "cc=lia", "name": None, "set": {}}}


def test_a_results_folder_is_kept_for_its_scenario(tmp_path):
    out = tmp_path / "out"
    results_folder = folder.Folder(out, PLAN, {"linux": "6"})
    assert not results_folder.is_finished(PLANNED)
    partial = results_folder.begin(PLANNED)
    (partial / "left-over").write_text("")
    partial = results_folder.begin(PLANNED)
    assert list(partial.iterdir()) == []
    results_folder.finish(PLANNED, partial, 9.0, {"total.jain": 1.0}, None, {"links": ["wifi: ..."]})
    assert results_folder.is_finished(PLANNED) and not partial.exists()
    summary = json.loads((out / PLANNED["folder"] / "summary.json").read_text())
    assert (summary["status"], summary["reason"], summary["simulated_s"]) == ("ok", None, 9.0)

    folder.Folder(out, PLAN, {})
    with pytest.raises(results.ResultError, match="another scenario"):
        folder.Folder(out, {**PLAN, "scenario_sha256": "cd"}, {})
    foreign = tmp_path / "foreign"
    foreign.mkdir()
    (foreign / "thesis.tex").write_text("years of work")
    with pytest.raises(results.ResultError, match="not empty"):
        folder.Folder(foreign, PLAN, {})
