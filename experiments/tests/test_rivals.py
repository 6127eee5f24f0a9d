import csv
import json
import tomllib
from types import SimpleNamespace

import pytest

import rivals
from mpqnet import units


def arguments(tmp_path, **changes):
    values = {"out": tmp_path, "questions": ["apart", "together"], "who": ["mpq:sbd-bbr", "noq:cubic"], "seeds": None,
              "json": False}
    return SimpleNamespace(**values | changes)


def leave(out, session, **changes):
    """What a session leaves."""
    apart = session.question == "apart"
    data = {"question": session.question, "condition": session.condition, "who": session.who, "seed": session.seed,
            "late_p99_ms": 0.5, "idle": 0.4, "load": 1.0}
    if apart:
        data |= {"received": {"near": 12_000_000, "far": 9_000_000}, "seconds": 3.5 + session.seed / 10}
    else:
        data |= {"received": {"a": 25_000_000, "b": 15_000_000, "c": 40_000_000}}
    data |= changes
    file = out / session.folder / "session.json"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps({key: value for key, value in data.items() if value is not None}))


def test_links_are_those_that_every_controller_is_asked_on():
    for question in ("apart", "together"):
        data = tomllib.loads((rivals.SCENARIOS / f"{question}.toml").read_text())
        condition = "1" if question == "apart" else "1-reno"
        mine = {link.name: link for link in rivals.plan(rivals.Session(question, condition, "mpq:x", 1)).links}
        for table in data["link"]:
            link = mine[table["name"]]
            assert link.rate_bps == (units.rate_bps(table["rate"]) if "rate" in table else None)
            rtt_s = units.seconds(table["rtt"]) if "rtt" in table else 2 * units.seconds(table["delay"])
            assert link.rtt_s == pytest.approx(rtt_s)
            assert link.loss == units.probability(table.get("loss", "0%"))
            if link.rate_bps:
                assert link.queue == units.queue("1bdp", link.rate_bps, link.rtt_s)


def test_a_condition_is_a_loss_or_a_queue_and_a_rival():
    links = rivals.plan(rivals.Session("apart", "0.1", "mpq:x", 1)).links
    assert [link.loss for link in links] == [0.001, 0.001]
    run = rivals.plan(rivals.Session("together", "0.5-cubic", "mpq:x", 1))
    assert run.links[-1].queue.bytes == 50_000
    # No two paths enter by the same link: the counters of its interface are a path's.
    assert len({links[0] for links in run.paths.values()}) == 3


def test_sessions_of_a_seed_are_side_by_side(tmp_path):
    asked = rivals.sessions(arguments(tmp_path))
    assert len(asked) == 4 * 2 * 5 + 6 * 2 * 3 == len({one.folder for one in asked})
    assert [one.seed for one in asked] == sorted(one.seed for one in asked)
    assert asked[0].condition == asked[1].condition and asked[0].who != asked[1].who
    assert {one.seed for one in rivals.sessions(arguments(tmp_path, seeds=(7,)))} == {7}


def test_a_share_is_of_the_frames_of_both(tmp_path):
    one = rivals.Session("together", "1-reno", "noq:cubic", 1)
    leave(tmp_path, one)
    assert rivals.value_of(rivals.read(tmp_path, one)) == 0.5
    assert rivals.used(rivals.read(tmp_path, one)) == 2
    leave(tmp_path, one, received={"a": 40_000_000, "b": 500_000, "c": 40_000_000})
    assert rivals.used(rivals.read(tmp_path, one)) == 1


def test_the_table_has_medians_and_says_what_does_not_count(tmp_path, capsys):
    asked = arguments(tmp_path)
    with pytest.raises(rivals.ResultError, match="rivals.py run"):
        rivals.table(asked)
    for one in rivals.sessions(asked):
        leave(tmp_path, one)
    leave(tmp_path, rivals.Session("apart", "2", "noq:cubic", 5), received=None, seconds=None,
          failed="not finished after 300 s")
    leave(tmp_path, rivals.Session("apart", "1", "noq:cubic", 5), late_p99_ms=25.0)
    leave(tmp_path, rivals.Session("apart", "0", "noq:cubic", 1), received={"near": 21_000_000, "far": 100_000})
    assert rivals.table(asked) == 0
    said = capsys.readouterr().out
    assert "| `mpq:sbd-bbr` | 3.80 (3.60 to 4.00) | 3.80" in said
    [noq] = [line for line in said.splitlines() if line.startswith("| `noq:cubic` | 3.80")]
    assert "| 3.75 (3.60 to 3.90) | 3.75 (3.60 to 3.90), failed 1 | 4 to 5 |" in noq
    assert "| `noq:cubic` | 0.50 (0.50 to 0.50) |" in said
    assert "apart-2/noq-cubic-5: failed: not finished" in said and "apart-1/noq-cubic-5: does not count" in said
    assert "apart-0/noq-cubic-1: only one path carried data" in said
    assert "idle: 40% of all processors" in said
    with open(tmp_path / "sessions.csv", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 76 and {row["value"] for row in rows if row["question"] == "together"} == {"0.500000"}
    rivals.table(arguments(tmp_path, json=True))
    found = json.loads(capsys.readouterr().out)
    assert [cell["n"] for cell in found if cell["who"] == "noq:cubic" and cell["question"] == "apart"] == [5, 5, 4, 4]


def test_what_all_have_failed_is_said(tmp_path):
    asked = arguments(tmp_path, questions=["apart"], who=["noq:cubic"], seeds=(1,))
    leave(tmp_path, rivals.Session("apart", "2", "noq:cubic", 1), received=None, seconds=None,
          failed="it broke")
    found, _ = rivals.cells(asked)
    assert rivals.markdown(found, "apart", asked.who).splitlines()[-1] == "| `noq:cubic` |  |  |  | failed 1 | 0 |"


def test_arguments():
    parsed = rivals.parse_arguments(["table", "--who", "mptcp:bbr", "--seeds", "1,2"])
    assert (parsed.who, parsed.seeds, parsed.jobs) == (["mptcp:bbr"], (1, 2), 1)
    assert parsed.questions == ["apart", "together"]
    for wrong in ("tcp:reno", "mpq", "noq:"):
        with pytest.raises(SystemExit):
            rivals.parse_arguments(["table", "--who", wrong])
