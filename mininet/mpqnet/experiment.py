"""A run of a scenario of `mpq sim`, as far as Mininet can express it.

`mpq sim --check --json` reads and checks the scenario, so it means the same here. What Mininet cannot express is an
error that says what to do: it would be another experiment without it.
"""

import json
import random
import subprocess
import tomllib
from dataclasses import dataclass

from . import units
from .scenario import Link, ScenarioError

# Keys of a link and a flow that have a meaning here; all others must be absent.
_LINK_KEYS = {"name", "rate", "delay", "rtt", "queue", "ecn", "loss", "schedule"}
_FLOW_KEYS = {"name", "paths", "cc", "scheduler", "direction", "start", "start_spread", "stop", "count", "flow_control",
              "hystart", "ack_detours", "ack_frequency", "ecn", "size"}


@dataclass(frozen=True)
class Event:
    """A command to a link at a time of the run: "down", "rate 2000000bit"."""
    at_s: float
    link: str
    command: str


@dataclass(frozen=True)
class Flow:
    """One connection."""
    name: str
    family: str  # the flow's name in the scenario, which several of its connections share
    paths: tuple[str, ...]
    cc: str
    scheduler: str
    start_s: float
    stop_s: float
    size_bytes: int | None  # None: without end
    flow_control_bytes: int
    hystart: bool
    ack_detours: bool
    ack_frequency: bool
    ecn: bool


@dataclass(frozen=True)
class Run:
    """One run. `paths` has the links of each path, the client's first; at most two."""
    label: str
    seed: int
    duration_s: float
    links: tuple[Link, ...]
    paths: dict[str, tuple[str, ...]]
    flows: tuple[Flow, ...]
    events: tuple[Event, ...]
    windows: dict[str, tuple[float, float]]


def load(mpq, words):
    """The plan of a scenario: what `mpq sim --check --json` says to `words` (the file, --set, --seeds). Raises
    ScenarioError, which names file and line."""
    done = subprocess.run([mpq, "sim", *words, "--check", "--json"], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise ScenarioError(done.stderr.strip().removeprefix("mpq: "))
    return json.loads(done.stdout)


def read(planned):
    """The Run of an entry of a plan's "runs". Raises ScenarioError for what Mininet cannot express."""
    data = tomllib.loads(planned["text"])
    duration_s = units.seconds(data["duration"])
    links = tuple(link(table) for table in data["link"])
    paths = {link.name: (link.name,) for link in links}
    paths |= {path["name"]: tuple(path["links"]) for path in data.get("path", ())}
    seed = planned["seed"]
    flows = tuple(flow for table in data["flow"] for flow in _flows(table, duration_s, seed))
    used = {name: paths[name] for flow in flows for name in flow.paths}
    _check_paths(used, flows)
    events = tuple(event for table in data["link"] for event in events_of(table))
    windows = {table["name"]: (units.seconds(table["from"]), units.seconds(table["to"]))
               for table in data.get("window", ())}
    return Run(planned["case"]["label"], seed, duration_s, links, used, flows, events, windows)


def _refuse(what, why):
    raise ScenarioError(f"{what}: Mininet cannot run this: {why}. `mpq sim` can")


def link(table):
    """The Link of a scenario's table `link`. Raises ScenarioError for what Mininet cannot express."""
    name = f'link "{table["name"]}"'
    for key in table:
        if key not in _LINK_KEYS:
            _refuse(name, f'"{key}" has no counterpart here')
    # Interfaces are called after the link, and the kernel allows 15 characters.
    if len(table["name"]) > 10:
        _refuse(name, "an interface's name has no room for more than 10 characters of it")
    rtt_s = units.seconds(table["rtt"]) if "rtt" in table else 2 * units.seconds(table.get("delay", "0ms"))
    loss = table.get("loss", "0%")
    try:
        loss = 0.0 if loss == "none" else units.probability(loss)
    except units.UnitError:
        _refuse(name, f'the loss "{loss}" is not of the kind "0.5 %"')
    if "rate" not in table:
        return Link(table["name"], None, rtt_s, None, loss)
    rate_bps = units.rate_bps(table["rate"])
    mark = units.queue(table["ecn"], rate_bps, rtt_s) if "ecn" in table else None
    return Link(table["name"], rate_bps, rtt_s, units.queue(table.get("queue", "1bdp"), rate_bps, rtt_s), loss, mark)


def events_of(table):
    """Of the schedule of such a table: "down@2s,rate=2 Mbit/s@20s" as commands to the link."""
    readers = {"rate": lambda text: f"rate {units.rate_bps(text)}bit",
               "delay": lambda text: f"delay {units.seconds(text) * 1e6:.3f}us",
               "loss": lambda text: f"loss {units.probability(text) * 100:.9f}%"}
    for part in filter(None, table.get("schedule", "").split(",")):
        what, at = part.strip().rsplit("@", 1)
        word, _, value = (text.strip() for text in what.partition("="))
        try:
            command = readers[word](value) if value else word
        except (KeyError, units.UnitError):
            _refuse(f'link "{table["name"]}"', f'"{what}" in its schedule has no counterpart')
        yield Event(units.seconds(at), table["name"], command)


def _flows(table, duration_s, seed):
    name = f'flow "{table["name"]}"'
    # The plan always names it; no outage of these runs comes near it.
    for key in table.keys() - {"idle_timeout"}:
        if key not in _FLOW_KEYS:
            _refuse(name, f'"{key}" has no counterpart here: `mpq get` downloads one file')
    if table.get("direction", "down") != "down":
        _refuse(name, "`mpq get` only downloads")
    if not all(isinstance(path, str) for path in table["paths"]):
        _refuse(name, "`mpq get` keeps every path from the start, and none as a backup")
    start_s = units.seconds(table.get("start", "0s"))
    spread_s = units.seconds(table.get("start_spread", "0s"))
    # Not the draws of mpq sim, whose seeds are not told; the same law.
    draws = random.Random(f"{seed} {table['name']}")
    count = table.get("count", 1)
    for number in range(1, count + 1):
        yield Flow(
            name=table["name"] if count == 1 else f"{table['name']}-{number}",
            family=table["name"],
            paths=tuple(table["paths"]),
            cc=table["cc"],
            scheduler=table["scheduler"],
            start_s=start_s + spread_s * draws.random(),
            stop_s=min(duration_s, units.seconds(table["stop"]) if "stop" in table else duration_s),
            size_bytes=units.size_bytes(table["size"]) if "size" in table else None,
            flow_control_bytes=units.size_bytes(table["flow_control"]),
            hystart=table["hystart"],
            ack_detours=table.get("ack_detours", True),
            ack_frequency=table.get("ack_frequency", False),
            ecn=table.get("ecn", False),
        )


def _check_paths(paths, flows):
    last = {links[-1] for links in paths.values() if len(links) == 2}
    for name, links in paths.items():
        if len(links) > 2:
            _refuse(f'path "{name}"', f"it has {len(links)} links, and two are the most: one of the client's, one shared")
        if links[0] in last and len(links) == 2:
            _refuse(f'path "{name}"', f'its first link, "{links[0]}", is the last of another path')
    for first in {links[0] for links in paths.values() if len(links) == 2}:
        behind = {links[1] for links in paths.values() if len(links) == 2 and links[0] == first}
        if len(behind) > 1 or (first,) in paths.values():
            _refuse(f'link "{first}"', "it leads to more than one place")
    for flow in flows:
        ends = {paths[name][-1] for name in flow.paths if len(paths[name]) == 2}
        if ends and any(paths[name][-1] not in ends for name in flow.paths) or len(ends) > 1:
            _refuse(f'flow "{flow.name}"', "its paths share no last link, though some pass two links")
