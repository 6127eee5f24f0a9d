"""The rules of a scenario's `[[accept]]`, evaluated for each seed, so that what they judge has a spread.

The verdict itself is `mpq sim`'s, on the medians. The grammar is that of docs/scenarios.md.
"""

import ast
import operator
import re

from .spread import Spread

_COMPARISON = re.compile(r"<=|>=|<|>")
# Names may hold points and dashes; `min` and `max` are followed by a parenthesis, metrics are not.
_METRIC = re.compile(r"[A-Za-z][\w.-]*+(?!\()(?:@([^\s()<>*]+))?")
_OPERATORS = {ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv}
_FUNCTIONS = {"min": min, "max": max}


class RuleError(ValueError):
    """A rule that this does not understand."""


def sides(rule):
    """What a rule compares, from left to right: texts."""
    return [side.strip() for side in _COMPARISON.split(rule)]


def metrics(expression):
    """(metric, selection of its case) of each metric in an expression or rule; the selection is empty for the case itself."""
    return [(name, case) for name, _, case in (match.group(0).partition("@") for match in _METRIC.finditer(expression))]


def judged(rule, results, case):
    """{text: Spread} of the sides that hold a metric. Seeds for which one is missing are left out."""
    spreads = {}
    for side in sides(rule):
        if not _has_metric(side):
            continue
        values = [value for seed in results.seeds(case) if (value := evaluate(side, results, case, seed)) is not None]
        if values:
            spreads[side] = Spread(tuple(values))
    return spreads


def _has_metric(side):
    return _METRIC.search(side) is not None


def evaluate(side, results, case, seed):
    """The value of an expression in one run; None if a metric is missing there, or 0 is divided by."""
    values = {}

    def remember(match):
        metric, _, selection = match.group(0).partition("@")
        where = results.case_with(case, selection) if selection else case
        values[name := f"v{len(values)}"] = results.metric(where, seed, metric)
        return name

    tree = ast.parse(_METRIC.sub(remember, side), mode="eval").body
    if any(value is None for value in values.values()):
        return None
    try:
        return _value(tree, values)
    except ZeroDivisionError:
        return None


def _value(node, values):
    match node:
        case ast.Constant(value=int() | float() as value):
            return value
        case ast.Name(id=name):
            return values[name]
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _OPERATORS:
            return _OPERATORS[type(op)](_value(left, values), _value(right, values))
        case ast.Call(func=ast.Name(id=name), args=args) if name in _FUNCTIONS:
            return _FUNCTIONS[name](*(_value(arg, values) for arg in args))
    raise RuleError(f'"{ast.unparse(node)}": a rule has + - * / min max, metrics and numbers')
