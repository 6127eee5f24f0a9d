"""Scenarios of `mpq sim` as Mininet takes them; no network, no mpq."""

import pytest

from mpqnet import experiment, scenario, units

HEAD = 'question = "q"\nexpected = "e"\nduration = "20 s"\nseeds = [1]\nsample = "100 ms"\ngather = "100 us"\n'
DISJOINT = HEAD + """
[[link]]
name = "wifi"
rate = "30 Mbit/s"
rtt = "20 ms"
loss = "0.5 %"
schedule = "down@2s,up@12.5s,rate=2 Mbit/s@15s"
[[link]]
name = "lte"
rate = "20 Mbit/s"
delay = "25 ms"
queue = "1 BDP:rtt=100ms"
[[flow]]
name = "mp"
paths = ["wifi", "lte"]
cc = "olia"
scheduler = "ecf"
direction = "down"
start = "1 s"
count = 1
flow_control = "64 MB"
hystart = true
size = "16 MiB"
[[window]]
name = "after"
from = "5 s"
to = "20 s"
"""
SHARED = HEAD + """
[[link]]
name = "left"
delay = "1 ms"
[[link]]
name = "right"
delay = "1 ms"
[[link]]
name = "core"
rate = "20 Mbit/s"
rtt = "40 ms"
[[path]]
name = "a"
links = ["left", "core"]
[[path]]
name = "b"
links = ["right", "core"]
[[flow]]
name = "mp"
paths = ["a", "b"]
cc = "lia"
scheduler = "ecf"
flow_control = "64 MB"
hystart = false
ack_detours = false
ack_frequency = true
ecn = true
[[flow]]
name = "bg"
paths = ["core"]
cc = "reno"
scheduler = "ecf"
flow_control = "1 MB"
hystart = true
count = 2
start_spread = "1 s"
stop = "10 s"
"""


def read(text, seed=1):
    case = {"label": "base", "name": None, "set": {}}
    return experiment.read({"case": case, "seed": seed, "folder": "runs/base/seed-1", "text": text})


def test_disjoint_links_and_a_sized_flow():
    run = read(DISJOINT)
    assert run.links == (
        scenario.Link("wifi", 30_000_000, 0.02, units.Queue(bytes=75_000), pytest.approx(0.005)),
        # 1 BDP by the stated 100 ms: 20 Mbit/s x 0.1 s / 8.
        scenario.Link("lte", 20_000_000, pytest.approx(0.05), units.Queue(bytes=250_000), 0.0))
    assert run.paths == {"wifi": ("wifi",), "lte": ("lte",)}
    [flow] = run.flows
    assert (flow.cc, flow.start_s, flow.stop_s, flow.size_bytes) == ("olia", 1.0, 20.0, 1 << 24)
    assert run.events == (experiment.Event(2.0, "wifi", "down"), experiment.Event(12.5, "wifi", "up"),
                          experiment.Event(15.0, "wifi", "rate 2000000bit"))
    assert run.windows == {"after": (5.0, 20.0)}


def test_a_shared_link_and_several_connections():
    run = read(SHARED)
    assert run.links[0] == scenario.Link("left", None, pytest.approx(0.002), None, 0.0)
    assert run.paths == {"a": ("left", "core"), "b": ("right", "core"), "core": ("core",)}
    names = [(flow.name, flow.family, flow.hystart, flow.size_bytes, flow.stop_s) for flow in run.flows]
    assert names == [("mp", "mp", False, None, 20.0), ("bg-1", "bg", True, None, 10.0), ("bg-2", "bg", True, None, 10.0)]
    assert [flow.ack_detours for flow in run.flows] == [False, True, True]
    assert [flow.ack_frequency for flow in run.flows] == [True, False, False]
    assert [flow.ecn for flow in run.flows] == [True, False, False]
    starts = [flow.start_s for flow in run.flows[1:]]
    assert all(0 <= start < 1 for start in starts) and starts[0] != starts[1]
    assert starts == [flow.start_s for flow in read(SHARED).flows[1:]] != [flow.start_s for flow in read(SHARED, 2).flows[1:]]


@pytest.mark.parametrize("text, old, new, hint", [
    (DISJOINT, 'loss = "0.5 %"', 'loss = "gilbert:p=1%,r=50%"', 'link "wifi": Mininet cannot run this: the loss'),
    (DISJOINT, 'loss = "0.5 %"', 'jitter = "2 ms"', '"jitter" has no counterpart'),
    (DISJOINT, 'loss = "0.5 %"', 'up = { rate = "1 Mbit/s" }', '"up" has no counterpart'),
    (DISJOINT, "rate=2 Mbit/s@15s", "loss=gilbert:p=1%@15s", "in its schedule has no counterpart"),
    (DISJOINT, 'name = "wifi"', 'name = "long-name-here"', "no room for more than 10"),
    (DISJOINT, 'direction = "down"', 'direction = "up"', "`mpq get` only downloads"),
    (DISJOINT, 'size = "16 MiB"', 'requests = { response = "1 kB" }', '"requests" has no counterpart'),
    (DISJOINT, 'paths = ["wifi", "lte"]', 'paths = ["wifi", { name = "lte", backup = true }]', "none as a backup"),
    (SHARED, 'links = ["right", "core"]', 'links = ["right", "left", "core"]', "two are the most"),
    (SHARED, 'links = ["right", "core"]', 'links = ["core", "left"]', "is the last of another path"),
    (SHARED, 'paths = ["a", "b"]', 'paths = ["a", "right"]', "share no last link"),
])
def test_what_mininet_cannot_express_is_named(text, old, new, hint):
    assert old in text
    with pytest.raises(scenario.ScenarioError) as error:
        read(text.replace(old, new, 1))
    assert hint in str(error.value) and "`mpq sim` can" in str(error.value)
