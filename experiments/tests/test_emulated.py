import dataclasses
import http.client
import json
import re
import struct
import threading
import time
from datetime import UTC, datetime
from types import SimpleNamespace

import pytest

import emulated
from mpqnet.scenario import ScenarioError
from qoe import emulated as session
from qoe import scene, study
from qoe.origin import Origin

PLAN = study.load(True)


def report(stall_ms=1500.0, local="10.1.0.1"):
    segments = [{"start_ms": 2000.0 * i, "end_ms": 2000.0 * i + 100 * (i + 1), "bytes": 1000} for i in range(10)]
    return {"segments": segments, "stall_ms": stall_ms, "stalls": 2, "startup_ms": 300.0, "mean_bitrate_bps": 5e6, "switches": 1,
            "qoe": {"qoe_lin": {"per_segment": 3.5}, "top_level_fraction": 0.25, "buffer_ms": {"p50": 4000.0}, "wasted_bytes": 7},
            "received": {"wifi": 1_000_000, "lte": 500_000}, "controller": "bbr", "late_p99_ms": 0.2,
            "server_cpu_s": 0.05}


@pytest.mark.parametrize("name", emulated.SCENES)
def test_links_of_a_scene_are_those_of_virtual_time(name):
    one = scene.load(name)
    links, events = session.plan_of(one, 1, PLAN.content)
    drawn = one.drawn(1)
    for link in links:
        # In whole kbit/s.
        assert link.rate_bps == pytest.approx(drawn[link.name].steps()[0][1] * 1e6, abs=1000)
        mine = [(at, command) for at, of, command in events if of == link.name]
        silences = [at for at, command in mine if command == "down"]
        assert len(silences) == sum(mbps == 0 for _, mbps in drawn[link.name].steps())
        rates = [command for _, command in mine if command.startswith("rate ")]
        assert len(rates) == sum(mbps > 0 and at > 0 for at, mbps in drawn[link.name].steps())


def test_what_links_here_cannot_do_is_refused():
    with pytest.raises(session.EmulationError, match="downloads"):
        session.plan_of(scene.load("shared"), 1, PLAN.content)
    with pytest.raises(ScenarioError, match="gilbert"):
        session.plan_of(scene.load("two-bad"), 1, PLAN.content)


def test_content_is_the_studys(tmp_path):
    short = dataclasses.replace(PLAN.viewer("clip"), dash={"length": "4 s"})
    session.make_content(tmp_path, PLAN.content, short)
    rates = [int(rate.split()[0]) for rate in PLAN.content["video"]]
    for rate in rates:
        assert [(tmp_path / f"{rate}-{n}.m4s").stat().st_size for n in (1, 2)] == [round(rate / 4)] * 2
    assert {(tmp_path / f"{rate}.mp4").stat().st_size for rate in rates} == {session.INITIALIZATION_BYTES}
    assert not (tmp_path / f"{rates[0]}-3.m4s").exists()
    mpd = (tmp_path / session.MPD).read_text()
    assert 'mediaPresentationDuration="PT4S"' in mpd and mpd.count("<Representation ") == len(rates)


def test_live_content_began_a_minute_ago(tmp_path):
    viewer = PLAN.viewer("live")
    session.make_content(tmp_path, PLAN.content, viewer)
    assert len(list(tmp_path.glob("254320-*.m4s"))) == 30 + 30 and not (tmp_path / session.MPD).exists()
    session._begin_live(tmp_path / "a.mpd", PLAN.content, viewer)
    mpd = (tmp_path / "a.mpd").read_text()
    start = datetime.fromisoformat(re.search(r'availabilityStartTime="(.*?)"', mpd)[1])
    assert 60 <= (datetime.now(UTC) - start).total_seconds() < 70
    assert 'type="dynamic" ' in mpd and 'mediaPresentationDuration="PT120S"' in mpd


def test_content_in_chunks_is_whole_chunk_by_chunk(tmp_path):
    viewer = PLAN.viewer("low-latency")
    session.make_content(tmp_path, PLAN.content, viewer)
    body = (tmp_path / "254320-31.m4s").read_bytes()
    assert len(body) == round(254320 / 4)
    # Each chunk of 0.5 s ends where a box does that is an mdat.
    ends, at = [], 0
    while at < len(body):
        size, kind = struct.unpack_from(">I4s", body, at)
        at += size
        if kind == b"mdat":
            ends.append(at)
    assert ends == [len(body) * i // 4 for i in (1, 2, 3, 4)] and at == len(body)
    session._begin_live(tmp_path / "a.mpd", PLAN.content, viewer)
    assert 'availabilityTimeOffset="1.5" ' in (tmp_path / "a.mpd").read_text()


def test_the_origin_sends_each_chunk_when_it_has_been_made(tmp_path):
    segment_s, chunks = 0.8, 4
    (tmp_path / "7-2.m4s").write_bytes(bytes(range(8)))
    began = time.time()
    with Origin(("127.0.0.1", 0), tmp_path, began, segment_s, chunks) as origin:
        thread = threading.Thread(target=origin.serve_forever)
        thread.start()
        try:
            connection = http.client.HTTPConnection("127.0.0.1", origin.server_port, timeout=30)
            # The second segment begins when the first one ends.
            for _ in range(2):
                connection.request("GET", "/7-2.m4s")
                answer = connection.getresponse()
                for chunk in range(chunks):
                    assert answer.read(2) == bytes((2 * chunk, 2 * chunk + 1))
                    # Clocks differ by less.
                    assert time.time() - began > segment_s + (chunk + 1) * segment_s / chunks - 0.01
                assert answer.read() == b""
            for wrong in ("/7-3.m4s", "/../7-2.m4s", "/7.m4s"):
                connection.request("GET", wrong)
                answer = connection.getresponse()
                answer.read()
                assert answer.status == 404
        finally:
            origin.shutdown()
            thread.join()


def test_a_live_row_says_what_was_missed_and_how_late_it_was():
    data = report() | {"latency": {"mean_ms": 6100.0, "p95_ms": 7000.0}, "skipped_ms": 2000.0}
    row = session.row_of(data, scene.load("walk-out"), 3, PLAN.viewer("live"), "mptcp", PLAN.content)
    assert [row.values[name] for name in session.sessions.LIVE] == [6.1, 7.0, 2.0, 3.5]


def test_a_row_has_what_those_of_virtual_time_have():
    one, clip = scene.load("walk-out"), PLAN.viewer("clip")
    row = session.row_of(report(), one, 3, clip, "mptcp", PLAN.content)
    assert (row.scene, row.seed, row.viewer, row.arm) == ("walk-out", 3, "clip", "mptcp")
    assert row.values["stall_s"] == 1.5 and row.values["metered_mb"] == 0.5 and row.values["all_mb"] == 1.5
    assert row.values["chunk_p50_s"] == pytest.approx(0.55) and row.values["played_s"] == 20
    failed = session.row_of({"failed": "it broke", "controller": "bbr"}, one, 3, clip, "tcp", PLAN.content)
    assert failed.values["stall_s"] == 60 and not failed.chunks


def test_the_table_counts_and_compares(tmp_path, capsys):
    arguments = SimpleNamespace(out=tmp_path, scenes=["train", "walk-out"], seeds=(1, 2), viewer="clip",
                                transports=["h3-multipath", "mptcp"])
    with pytest.raises(emulated.sessions.ResultError, match="emulated.py run"):
        emulated.table(arguments)
    for name in arguments.scenes:
        for seed in arguments.seeds:
            for transport, stall_ms in (("h3-multipath", 0.0 if seed == 1 else 800.0), ("mptcp", 2000.0)):
                out = emulated.place(arguments, name, seed, transport)
                out.mkdir(parents=True)
                data = report(stall_ms)
                (out / "session.json").write_text(json.dumps(data | {"received": dict.fromkeys(scene.load(name).paths, 1)}))
    assert emulated.table(arguments) == 0
    said = capsys.readouterr().out
    assert "missed time / MPTCP's: 0.20 (goal: <= 0.5;" in said
    # 0.05 s for a minute.
    assert "for an hour of media: h3-multipath 3.00 s, mptcp 3.00 s" in said
    [line] = [line for line in said.splitlines() if line.startswith("all       h3-multipath")]
    assert line.split()[2:6] == ["4", "2", "0.40", "2.0"]
    # A session for which the machine had no time does not count.
    late = emulated.place(arguments, "train", 1, "mptcp") / "session.json"
    late.write_text(late.read_text().replace('"late_p99_ms": 0.2', '"late_p99_ms": 25'))
    assert emulated.table(arguments) == 0
    assert "train, seed 1, mptcp: does not count" in capsys.readouterr().out
    assert len((tmp_path / "also.csv").read_text().splitlines()) == 1 + 3
    late.write_text(late.read_text().replace('"late_p99_ms": 25', '"late_p99_ms": 0.2'))
    assert emulated.table(arguments) == 0
    rows = (tmp_path / "also.csv").read_text().splitlines()
    assert len(rows) == 1 + 4 and all(",mptcp," in row for row in rows[1:])
    # `ci/qoe --also` takes it.
    assert len(emulated.sessions.read(tmp_path / "also.csv")) == 4
    assert len((tmp_path / "sessions.csv").read_text().splitlines()) == 1 + 8
