"""docs/picture.svg, against a run of its scenario."""

from xml.etree import ElementTree

import built
import picture
import pytest


@built.needs_mpq
def test_the_picture_is_what_its_scenario_comes_to(tmp_path):
    shown = picture.PICTURE.read_text(encoding="utf-8")
    drawn, numbers = picture.make(built.find("mpq"), tmp_path)
    again = "experiments/picture.py draws it again"
    # Not to the byte: a change elsewhere that moves single packets is no reason to draw it again.
    assert picture.stated(shown) == pytest.approx(numbers, rel=0.03, abs=0.05), again
    assert [one.tag for one in ElementTree.fromstring(shown)] == [one.tag for one in ElementTree.fromstring(drawn)], again
    for name in ("both before", "both silence"):
        assert f"both: {picture.stated(shown)[name]} Mbit/s" in shown
