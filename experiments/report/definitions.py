"""What a number of a page is, in words: metrics as docs/scenarios.md defines them, of which time and which case."""

import re
from functools import cache
from pathlib import Path

from . import rules

UNKNOWN = "not among the metrics of docs/scenarios.md"
DOCUMENT = Path(__file__).resolve().parents[2] / "docs/scenarios.md"

# What stands for a name in the table: of a flow, a path, a link, `up` or `down`, a controller's quantity.
_NAMES = re.compile(r"(?<=\.)(?:F|P|L|D|SYMBOL)(?=\.|$)")


def of(expression, scenario):
    """Sentences for the metrics of an expression or rule, one for each; `scenario` is the scenario as a dict."""
    return [f"{metric}: {_words(metric, selection, scenario)}" for metric, selection in dict.fromkeys(rules.metrics(expression))]


def _words(metric, selection, scenario):
    parts = []
    name = metric
    if match := re.match(r"window\.([^.]+)\.", metric):
        name = metric[match.end():]
        parts += [f"from {window['from']} to {window['to']}" for window in scenario.get("window", ())
                  if window["name"] == match[1]]
    if selection:
        parts.append(f"in the case {selection}")
    # A flow's name may hold points, so the longest name that fits is meant.
    found = max(((len(pattern.pattern), meaning) for pattern, meaning in _table() if pattern.fullmatch(name)), default=None)
    return ", ".join([found[1] if found else UNKNOWN, *parts])


@cache
def _table():
    """(pattern of names, meaning) for each metric of the document. A name such as `.loss` has its row's first name before it."""
    text = DOCUMENT.read_text(encoding="utf-8")
    rows = []
    for line in text[text.index("| metric |"):].split("\n\n", 1)[0].splitlines()[2:]:
        names, _, meaning = (cell.strip() for cell in line.strip("|").split("|", 2))
        first, *others = re.findall("`([^`]+)`", names)
        stem = first.rpartition(".")[0]
        full = [first, *(stem + other if other.startswith(".") else other for other in others)]
        rows += [(_pattern(name), _plain(meaning)) for name in full]
    return rows


def _pattern(name):
    return re.compile(".+".join(map(re.escape, _NAMES.split(name))))


def _plain(text):
    return re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", text).replace("`", "")
