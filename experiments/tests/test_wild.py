"""experiments/wild.py: links of a scene, run and compared."""

import json

import built
import pytest

import wild

MPQ = built.find("mpq")


def result(tmp_path, scene, seed, runs):
    """What `mpq sim` leaves: {(paths, controller): (Mbit/s, {path: (share, ms)})}."""
    folder = tmp_path / f"{scene}-{seed}"
    folder.mkdir()
    found = []
    for (paths, cc), (mbps, by_path) in runs.items():
        metrics = {"flow.mp.goodput_mbps": mbps}
        for path, (share, srtt_ms) in by_path.items():
            metrics |= {f"flow.mp.path.{path}.share": share, f"flow.mp.path.{path}.mean_srtt_ms": srtt_ms}
        found.append({"status": "ok", "set": {"flow.mp.paths": list(paths), "flow.mp.cc": cc}, "metrics": metrics})
    (folder / "summary.json").write_text(json.dumps({"runs": found}))


def test_ratios_by_hand(tmp_path, capsys):
    first, second = wild.scenes.load("sofa").paths
    for seed, rate in ((1, 10.0), (2, 20.0)):
        result(tmp_path, "sofa", seed, {
            ((first,), "a"): (rate, {first: (1.0, 30.0)}), ((first,), "b"): (10.0, {first: (1.0, 40.0)}),
            ((second,), "a"): (5.0, {second: (1.0, 50.0)}), ((second,), "b"): (5.0, {second: (1.0, 50.0)}),
            # 0.75 x 20 + 0.25 x 60, and a path that carried nothing.
            ((first, second), "a"): (12.0, {first: (0.75, 20.0), second: (0.25, 60.0)}),
            ((first, second), "b"): (16.0, {first: (1.0, 20.0), second: (0.0, 900.0)}),
        })
    words = ["judge", "--out", str(tmp_path), "--scenes", "sofa", "--seeds", "1,2", "--cc", "a,b", "--json"]
    # Ratios of goodput 1.5, 1 and 0.75, of delay 0.75, 1 and 1.5: their medians are even.
    assert wild.main(words) == 0
    found = json.loads(capsys.readouterr().out)
    of_a = [row["controllers"]["a"] for row in found["rows"]]
    assert [(one["goodput"], one["delay"]) for one in of_a] == [(1.5, 0.75), (1.0, 1.0), (0.75, 1.5)]
    assert (of_a[0]["goodput_mbps"], of_a[0]["delay_ms"]) == (15.0, 30.0)
    assert (found["goodput"], found["delay"], found["missed"]) == (1.0, 1.0, ["sofa both"])
    assert wild.main(words[:-1]) == 0
    assert f"| sofa | {first} | 15.0, 30 | 10.0, 40 | 1.50 | 0.75 |" in capsys.readouterr().out
    # The other way round b has 0.67, 1 and 1.33 of a's goodput, and as even a median.
    assert wild.main([*words[:-3], "--cc", "b,a"]) == 0


def test_what_is_missing_is_named(tmp_path, capsys):
    assert wild.main(["judge", "--out", str(tmp_path), "--scenes", "sofa"]) == 2
    assert "`wild.py run` makes it" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        wild.main(["judge", "--scenes", "moon"])
    assert "there is no moon" in capsys.readouterr().err


@built.needs_mpq
def test_a_scene_is_run(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(wild, "SECONDS", 2)
    words = ["run", "--mpq", str(MPQ), "--out", str(tmp_path), "--scenes", "orbit", "--seeds", "101", "--cc",
             "uncoupled-reno,uncoupled-reno:ssthresh=0"]
    assert wild.main(words) == 0
    assert "medians of 3: goodput 1.00 (goal 0.95), delay 1.00" in capsys.readouterr().out
