from pathlib import Path

import pytest

from mpqnet import scenario, units

GOOD = """\
question = "Does it work?"
expected = "Yes."
seed = 3

[[link]]
name = "wifi"
rate = "12mbit"
rtt = "20ms"

[[link]]
name = "lte"
rate = "8mbit"
rtt = "50ms"
queue = "50packets"
loss = "0.5%"

[traffic]
bulk = "20mb"
play_timeout = "2min"
get_timeout = "60s"
"""


def test_a_scenario_is_read():
    plan = scenario.parse(GOOD)
    wifi, lte = plan.links
    assert wifi == scenario.Link("wifi", 12_000_000, 0.02, units.Queue(bytes=30_000), 0.0)
    assert wifi.delay_s == pytest.approx(0.01)
    assert (lte.queue, lte.loss) == (units.Queue(packets=50), pytest.approx(0.005))
    assert plan.traffic == scenario.Traffic(20_000_000, 120.0, 60.0)
    assert (plan.question, plan.seed) == ("Does it work?", 3)


def test_the_scenario_of_the_demonstration_is_valid():
    scenario.load(Path(__file__).parents[1] / "demo.toml")


@pytest.mark.parametrize("old, new, line, hint", [
    ('rate = "8mbit"', 'rate = "8"', 12, "unit is missing"),
    ('rate = "8mbit"', "rate = 8", 12, "has no unit"),
    ('rtt = "50ms"', 'rtt = "50ms"\njitter = "1ms"', 14, 'unknown key "jitter"; known here: name, rate, rtt'),
    ('rate = "12mbit"\n', "", 5, '"rate" is missing'),
    ('name = "lte"', 'name = "wifi"', 11, 'a link "wifi" exists already'),
    ('name = "lte"', 'name = "LTE uplink"', 11, "lower-case"),
    ("seed = 3", 'seed = "3"', 3, "without quotes"),
    ("seed = 3", "seed = 3\nspeed = 1", 4, 'unknown key "speed"'),
    ('get_timeout = "60s"', "get_timeout = 60", 20, "has no unit"),
    ('question = "Does it work?"', 'question = ""', 1, "write a sentence"),
])
def test_a_bad_line_is_named_with_a_hint(old, new, line, hint):
    assert old in GOOD
    with pytest.raises(scenario.ScenarioError) as error:
        scenario.parse(GOOD.replace(old, new, 1), "x.toml")
    assert str(error.value).startswith(f"x.toml:{line}: ")
    assert hint in str(error.value)


def test_broken_toml_and_missing_files_are_scenario_errors(tmp_path):
    with pytest.raises(scenario.ScenarioError, match="not valid TOML"):
        scenario.parse("question = ")
    with pytest.raises(scenario.ScenarioError, match="cannot read"):
        scenario.load(tmp_path / "none.toml")
    for text in ("", "question = 'q'\nexpected = 'e'\nseed = 1\nlink = 3"):
        with pytest.raises(scenario.ScenarioError):
            scenario.parse(text)
