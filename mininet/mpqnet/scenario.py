"""Reads a scenario: a TOML file that states a question, what is expected, links and traffic.

Unknown keys, missing keys and values without a unit are errors that name the line.
"""

import re
import tomllib
from dataclasses import dataclass, fields
from pathlib import Path

from . import units


class ScenarioError(Exception):
    """A scenario that cannot be used; the text names file and line and says what to write."""


@dataclass(frozen=True)
class Link:
    """One link, both directions alike."""
    name: str
    rate_bps: int | None  # None: as fast as the machine
    rtt_s: float
    queue: units.Queue | None  # None without a rate
    loss: float  # probability per frame and direction
    mark: units.Queue | None = None  # what finds so much is marked (ECN) if its sender is capable; None: nothing

    @property
    def delay_s(self):
        """One-way delay."""
        return self.rtt_s / 2


@dataclass(frozen=True)
class Traffic:
    bulk_bytes: int
    play_timeout_s: float
    get_timeout_s: float


@dataclass(frozen=True)
class Scenario:
    question: str
    expected: str
    seed: int
    links: tuple[Link, ...]
    traffic: Traffic


class _Table:
    """A TOML table that remembers which keys were asked for and on which lines they stand."""

    def __init__(self, source, prefix, values):
        self.source, self.prefix, self.values, self.known = source, prefix, values, []

    def fail(self, key, message):
        raise ScenarioError(f"{self.source.path}:{self.source.line(self.prefix, key)}: {message}")

    def take(self, key, read, default=None):
        """The value of `key` through `read`, which may raise ValueError; `default` where it is absent."""
        self.known.append(key)
        if key not in self.values and default is None:
            where = "[" + ".".join(map(str, self.prefix)) + "]" if self.prefix else "the top of the file"
            self.fail(None, f'"{key}" is missing; add it at {where}')
        try:
            return read(self.values.get(key, default))
        except ValueError as error:
            self.fail(key, f"{key}: {error}")

    def end(self):
        """To be called when every key was taken: any other key is an error."""
        for key in self.values:
            if key not in self.known:
                self.fail(key, f'unknown key "{key}"; known here: {", ".join(self.known)}')


class _Source:
    """The text of a scenario, to find the line of a key: the TOML reader does not tell."""

    def __init__(self, path, text):
        self.path, self.lines, table, count = path, {}, (), {}
        self.lines[((), None)] = 1
        for number, line in enumerate(text.splitlines(), 1):
            if match := re.match(r"\s*\[\[\s*([\w.-]+)\s*\]\]", line):
                name = match[1]
                count[name] = count.get(name, -1) + 1
                table = (name, count[name])
                self.lines[(table, None)] = number
            elif match := re.match(r"\s*\[\s*([\w.-]+)\s*\]", line):
                table = (match[1],)
                self.lines[(table, None)] = number
            elif match := re.match(r"\s*\"?([\w-]+)\"?\s*=", line):
                self.lines.setdefault((table, match[1]), number)

    def line(self, prefix, key):
        return self.lines.get((prefix, key)) or self.lines.get((prefix, None), 1)


def load(path):
    """The scenario in the file at `path`. Raises ScenarioError."""
    path = Path(path)
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise ScenarioError(f"{path}: cannot read the scenario: {error.strerror}") from error
    return parse(text, path)


def parse(text, path="scenario.toml"):
    """The scenario in `text`; `path` is for error messages."""
    try:
        values = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ScenarioError(f"{path}: not valid TOML: {error}") from error
    source = _Source(path, text)
    top = _Table(source, (), values)
    question = top.take("question", _sentence)
    expected = top.take("expected", _sentence)
    seed = top.take("seed", _seed)
    tables = top.take("link", _list_of_tables)
    links = tuple(_link(_Table(source, ("link", i), table)) for i, table in enumerate(tables))
    traffic = _traffic(_Table(source, ("traffic",), top.take("traffic", _table)))
    top.end()
    names = [link.name for link in links]
    for i, name in enumerate(names):
        if name in names[:i]:
            raise ScenarioError(f'{path}:{source.line(("link", i), "name")}: a link "{name}" exists already')
    return Scenario(question, expected, seed, links, traffic)


def _link(table):
    name = table.take("name", _name)
    rate = table.take("rate", units.rate_bps)
    rtt = table.take("rtt", units.seconds)
    queue = table.take("queue", lambda text: units.queue(text, rate, rtt), "1bdp")
    loss = table.take("loss", units.probability, "0%")
    table.end()
    return Link(name, rate, rtt, queue, loss)


def _traffic(table):
    traffic = Traffic(
        bulk_bytes=table.take("bulk", units.size_bytes),
        play_timeout_s=table.take("play_timeout", units.seconds),
        get_timeout_s=table.take("get_timeout", units.seconds),
    )
    assert len(fields(Traffic)) == len(table.known)
    table.end()
    return traffic


def _sentence(value):
    if not isinstance(value, str) or not value.strip():
        raise ValueError("write a sentence in quotes")
    return " ".join(value.split())


def _seed(value):
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise ValueError("write a whole number from 0 up, without quotes")
    return value


def _name(value):
    # Interfaces are called after the link, and the kernel allows 15 characters.
    if not isinstance(value, str) or not re.fullmatch(r"[a-z][a-z0-9]{0,9}", value):
        raise ValueError(f'{value!r}: a link name is 1 to 10 lower-case letters and digits, for example "wifi"')
    return value


def _list_of_tables(value):
    if not isinstance(value, list) or not value or not all(isinstance(item, dict) for item in value):
        raise ValueError("write one [[link]] table for each link")
    return value


def _table(value):
    if not isinstance(value, dict):
        raise ValueError("write it as a table")
    return value
