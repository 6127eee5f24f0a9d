"""What our programs understand, by what their --help says."""

import functools
import os
import re
import subprocess
import sys
from pathlib import Path

import built

ROOT = Path(__file__).resolve().parents[2]
# Programs that cargo builds. The tests need the first, which `ci/test python` has built.
CARGO_BUILT = ("mpq", "mpq-wire", "mpq-relay")
OPTION = re.compile(r"(?<![\w-])--?[A-Za-z][\w-]*")


class Wrong(Exception):
    """A command that is not as it is written."""


@functools.cache
def help_of(*command):
    """What `command --help` prints; raises Wrong if it does not know that. Cargo may wait for another one's lock."""
    done = subprocess.run([*command, "--help"], cwd=ROOT, capture_output=True, text=True, check=False, timeout=600,
                          stdin=subprocess.DEVNULL)
    if done.returncode != 0:
        raise Wrong(f"`{' '.join(map(str, command))} --help` ended with {done.returncode}: {done.stderr.strip()[-300:]}")
    return done.stdout


def options(words, known, what):
    """Raises Wrong for an option among the words that the help `known` does not name."""
    names = set(OPTION.findall(known))
    for word in words:
        if word == "--":
            return
        name = word.partition("=")[0]
        if OPTION.fullmatch(name) and not name.isupper() and name not in names:
            raise Wrong(f"{what} has no option {name}")


def subcommands(text):
    """Those that clap lists."""
    listed = text.partition("Commands:\n")[2].partition("\n\n")[0]
    return re.findall(r"^  (\S+)", listed, re.MULTILINE)


def clap(program, words, name):
    """A program that clap reads the words of, with subcommands of any depth."""
    known = help_of(*program)
    if found := subcommands(known):
        # Options of the program itself may come first.
        place = next((i for i, word in enumerate(words) if not word.startswith("-")), len(words))
        options(words[:place], known, name)
        if place == len(words) or is_placeholder(words[place]):
            return
        if words[place] not in found:
            raise Wrong(f"{name} has no subcommand {words[place]}; there are {', '.join(found)}")
        clap([*program, words[place]], words[place + 1:], f"{name} {words[place]}")
    else:
        options(words, known, name)


def is_placeholder(word):
    return word.isupper() or word.startswith("...")


def mpq(words):
    program = built.find("mpq")
    clap([program], words, "mpq")


def script(words):
    """A script of ours, by its path."""
    file = ROOT / words[0]
    if not file.is_file():
        raise Wrong(f"{words[0]} is not there")
    if len(words) == 1:
        return
    if file.suffix == ".py":
        # Helps need no modules of .venv.
        command = [sys.executable, file]
    elif os.access(file, os.X_OK):
        command = [file]
    else:
        raise Wrong(f"{words[0]} cannot be executed")
    options(words[1:], help_of(*command), words[0])
    if words[0] in ("ci/test", "ci/bench"):
        names = subprocess.run([*command, "--list"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
        names = [line.split()[0] for line in names.splitlines()]
        for word in words[1:]:
            if re.match("[a-z]", word) and word not in names:
                raise Wrong(f"{words[0]} knows no {word}: {', '.join(names)}")


def cargo(words):
    """`cargo xtask` is ours; of cargo's own, packages and tests have to exist."""
    if words and words[0] == "xtask":
        clap(["cargo", "xtask"], words[1:], "cargo xtask")
        return
    for flag, word in zip(words, words[1:]):
        if flag in ("-p", "--package") and word not in packages():
            raise Wrong(f"there is no package {word}")
        if flag == "--test" and not is_placeholder(word) and not any(ROOT.glob(f"tools/*/tests/{word}.rs")) and \
                not (ROOT / "tests" / f"{word}.rs").is_file():
            raise Wrong(f"there is no test {word}")


@functools.cache
def packages():
    """The names of our packages."""
    files = [ROOT / "Cargo.toml", *ROOT.glob("*/Cargo.toml"), *ROOT.glob("*/*/Cargo.toml"), *ROOT.glob("*/*/*/Cargo.toml")]
    return {name for file in files for name in re.findall(r'^name = "([\w-]+)"', file.read_text(), re.MULTILINE)}


def check(words):
    """Raises Wrong if these are words of a command of ours, and it would not take them."""
    name = words[0].removeprefix("./")
    if name.removeprefix("target/release/").removeprefix("target/debug/") == "mpq":
        mpq(words[1:])
    elif name == "cargo":
        cargo(words[1:])
    elif re.match(r"(ci|mininet|experiments|benchmarks|tools)/", name) and not re.search(r"[*<>{:]|/$", name):
        if not (ROOT / name).is_dir():
            script([name, *words[1:]])
