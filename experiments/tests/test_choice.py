"""experiments/choice.py, and docs/choice.svg against what the program has."""

import json
import re
from html import unescape
from pathlib import Path
from xml.etree import ElementTree

import built
import choice
import scatter

PICTURE = Path(__file__).resolve().parents[2] / "docs/choice.svg"


def stated(svg):
    """The numbers that a picture has in it."""
    return json.loads(unescape(re.search(r"<metadata>(.*?)</metadata>", svg)[1]))


@built.needs_mpq
def test_it_asks_both_questions(tmp_path, capsys):
    words = ["--mpq", str(built.find("mpq")), "--cc", "lia,uncoupled-reno:ssthresh=64", "--seeds", "1", "--out", str(tmp_path)]
    assert choice.main(["run", *words, "--picture", str(tmp_path / "p.svg")]) == 0
    numbers = stated((tmp_path / "p.svg").read_text(encoding="utf-8"))
    lia, reno = numbers["lia"], numbers["uncoupled-reno:ssthresh=64"]
    # What is coupled is slower by itself, and leaves more to others.
    assert choice.LIMIT_S < reno["seconds"] < lia["seconds"]
    assert 0.4 < lia["shares"]["reno"] < 0.6 < reno["shares"]["reno"] < 0.75
    assert "`lia` | coupled" in capsys.readouterr().out
    assert choice.main(["judge", *words, "--json"]) == 0
    assert {one["cc"]: one for one in json.loads(capsys.readouterr().out)} == numbers


@built.needs_mpq
def test_it_says_what_it_lacks(tmp_path, capsys):
    words = ["judge", "--mpq", str(built.find("mpq")), "--out", str(tmp_path), "--cc"]
    assert choice.main([*words, "newreno"]) == 2
    assert "no controller is called newreno" in capsys.readouterr().err
    assert choice.main([*words, "lia"]) == 2
    assert "`choice.py run` makes it" in capsys.readouterr().err


@built.needs_mpq
def test_the_picture_has_every_controller():
    assert set(stated(PICTURE.read_text(encoding="utf-8"))) == {cc for cc, _ in choice.controllers(built.find("mpq"))}


def test_labels_keep_off_each_other():
    words = scatter.Words("a & b", "up", "right", {"x": "one", "y": "other"}, "a test")
    dots = [scatter.Dot(f"controller-{n}", "xy"[n % 2], (0.3, 0.4 + n / 1000), 0.1) for n in range(12)]
    drawn = ElementTree.fromstring(scatter.svg(dots, words, {"<a>": 1}))
    boxes = []
    for item in drawn.iter("{http://www.w3.org/2000/svg}text"):
        if item.text.startswith("controller-"):
            x, wide = float(item.get("x")), scatter.LETTER * len(item.text)
            boxes.append(scatter.Box(x if item.get("text-anchor") == "start" else x - wide, float(item.get("y")), wide, scatter.LINE))
    assert len(boxes) == 12 and all(0 <= box.left and box.left + box.width <= scatter.WIDTH for box in boxes)
    assert not any(one.overlaps(other) for i, one in enumerate(boxes) for other in boxes[:i])
