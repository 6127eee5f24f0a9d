"""Reads what callgrind writes, with its strings and positions uncompressed."""

from collections import Counter
from dataclasses import dataclass, field
from typing import NamedTuple


class Place(NamedTuple):
    """Where instructions are: `line_file` is that of the code itself, which may be inlined into `function`."""
    program: str
    function: str
    function_file: str
    line_file: str


@dataclass
class Profile:
    instructions: Counter = field(default_factory=Counter)    # by Place, without what it calls
    calls: Counter = field(default_factory=Counter)           # by function
    inclusive: Counter = field(default_factory=Counter)       # by function, with what it calls

    @property
    def total(self):
        return self.instructions.total()

    def minus(self, other):
        """What this has more than `other`, which has the same beginning."""
        return Profile(*(Counter({key: count for key in mine if (count := mine[key] - theirs[key]) > 0})
                         for mine, theirs in zip((self.instructions, self.calls, self.inclusive),
                                                 (other.instructions, other.calls, other.inclusive))))


# What names a function that is called, and so is not where the next costs belong.
_CALLED = ("cob", "cfi", "cfl")


def parse(lines):
    """One Profile of all parts of a file."""
    profile = Profile()
    program = function = function_file = line_file = called = ""
    is_call = False
    for line in lines:
        key, equals, value = line.rstrip("\n").partition("=")
        if not equals:
            numbers = key.split()
            if len(numbers) != 2 or not numbers[1].isdigit() or not (numbers[0].isdigit()):
                continue
            cost = int(numbers[1])
            if is_call:
                # A function that calls itself has its cost once, from outside.
                if called != function:
                    profile.inclusive[called] += cost
                is_call = False
            else:
                profile.instructions[Place(program, function, function_file, line_file)] += cost
        elif key == "ob":
            program = value
        elif key in ("fl", "fi", "fe"):
            line_file = value
        elif key == "fn":
            # The file is not named again if the last line was of the same one.
            function_file = line_file
            # callgrind numbers the levels of a recursion: name'2.
            function = value.partition("'")[0]
        elif key == "cfn":
            called = value.partition("'")[0]
        elif key == "calls":
            profile.calls[called] += int(value.split()[0])
            is_call = True
        elif key in _CALLED:
            continue
    return profile


def load(path):
    with open(path, encoding="utf-8", errors="replace") as lines:
        return parse(lines)
