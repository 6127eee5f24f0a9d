"""`run.py` from a scenario to judged results, in real namespaces. Needs root, mpq and mpq-wire: those that MPQ_MPQ and
MPQ_WIRE name, or the newest that cargo has built."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from built import find, in_namespaces

MPQ, WIRE = find("mpq"), find("mpq-wire")

pytestmark = in_namespaces

HEAD = 'question = "q"\nexpected = "e"\n'
DISJOINT = HEAD + """
duration = "8 s"
[[link]]
name = "wifi"
rate = "8 Mbit/s"
rtt = "20 ms"
schedule = "down@2s,up@6s,rate=4 Mbit/s@7s"
[[link]]
name = "lte"
rate = "4 Mbit/s"
rtt = "40 ms"
[[flow]]
name = "mp"
paths = ["wifi", "lte"]
[[window]]
name = "before"
from = "1 s"
to = "2 s"
[[window]]
name = "outage"
from = "4 s"
to = "6 s"
[sweep]
"flow.mp.cc" = ["olia", "lia"]
[[accept]]
rule = "flow.mp.goodput_mbps <= 12"
"""
SHARED = HEAD + """
duration = "20 s"
[[link]]
name = "left"
delay = "1 ms"
[[link]]
name = "right"
delay = "1 ms"
[[link]]
name = "core"
rate = "8 Mbit/s"
rtt = "20 ms"
queue = "40 packets"
[[path]]
name = "a"
links = ["left", "core"]
[[path]]
name = "b"
links = ["right", "core"]
[[flow]]
name = "mp"
paths = ["a", "b"]
size = "2 MB"
[[flow]]
name = "bg"
paths = ["core"]
size = "1 MB"
count = 2
start_spread = "500 ms"
[[accept]]
rule = "flow.mp.completion_s >= 2"
"""


@pytest.fixture(autouse=True)
def programs_are_built():
    assert MPQ and MPQ.is_file() and WIRE and WIRE.is_file(), "`cargo build -p mpq -p mpq-wire` makes both"


def mininet(tmp_path, text, *words):
    scenario = tmp_path / "x.toml"
    scenario.write_text(text)
    command = [sys.executable, Path(__file__).parents[1] / "run.py", scenario, "--mpq", MPQ, "--wire", WIRE,
               "--backend", "wire", "--out", tmp_path / "out", *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=300, check=False, cwd=tmp_path)


def metrics(tmp_path, folder):
    summary = json.loads((tmp_path / "out" / folder / "summary.json").read_text())
    assert (summary["status"], summary["reason"]) == ("ok", None)
    return summary["metrics"]


def test_disjoint_paths_with_events_and_two_cases(tmp_path):
    done = mininet(tmp_path, DISJOINT)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("holds: flow.mp.goodput_mbps <= 12") == 2
    for cc in ("olia", "lia"):
        found = metrics(tmp_path, f"runs/cc={cc}/seed-1")
        before, outage = (found[f"window.{name}.flow.mp.path.wifi.goodput_mbps"] for name in ("before", "outage"))
        assert outage < before / 2 and before < 8.5
        assert found["flow.mp.path.wifi.share"] + found["flow.mp.path.lte.share"] == pytest.approx(1)
    manifest = tmp_path / "out/runs/cc=lia/seed-1/manifest.json"
    before = manifest.stat().st_mtime_ns
    # What is finished is not run again.
    assert mininet(tmp_path, DISJOINT).returncode == 0
    assert manifest.stat().st_mtime_ns == before
    done = mininet(tmp_path, DISJOINT.replace("8 s", "9 s"))
    assert done.returncode == 6 and "another scenario" in done.stderr


def test_a_shared_link_and_several_connections(tmp_path):
    done = mininet(tmp_path, SHARED)
    assert done.returncode == 0, done.stdout + done.stderr
    found = metrics(tmp_path, "runs/base/seed-1")
    # 2 MB of body through 8 Mbit/s take 2 s at least.
    assert found["flow.mp.completion_s"] > 2 and found["flow.bg.completed"] == 2
    assert 0 < found["flow.mp.path.a.share"] < 1
    assert found["flow.bg-1.path.core.share"] == 1


def test_what_cannot_be_run_is_said_before_anything_is_made(tmp_path):
    done = mininet(tmp_path, DISJOINT.replace('rtt = "40 ms"', 'rtt = "40"'), "--check")
    assert done.returncode == 1 and "x.toml:13: " in done.stderr and "unit" in done.stderr
    done = mininet(tmp_path, DISJOINT.replace('rtt = "40 ms"', 'rtt = "40 ms"\njitter = "1 ms"'))
    assert done.returncode == 1 and '"jitter" has no counterpart' in done.stderr
    assert not (tmp_path / "out").exists()
