"""The map in contributing.md: it has every folder, and arrows point the way that it says."""

import ast
import json
import re
import subprocess
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs/contributing.md").read_text(encoding="utf-8")
TREE = re.search(r"```text\n(.*?)```", PAGE, re.DOTALL)[1]
# Each may use what comes after it.
ARROWS = re.search(r"Arrows point one way: (.*?)\.\n", PAGE, re.DOTALL)[1].split(" -> ")
PYTHON = [folder for folder in ARROWS if list((ROOT / folder).glob("*.py"))]


def rank(folder):
    """How far up: 0 is what uses nothing."""
    return ARROWS[::-1].index(folder)


@cache
def tracked():
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True)
    return listed.stdout.splitlines()


def folders(under):
    """Of what is committed below a folder, which may be the root."""
    names = (name.removeprefix(under) for name in tracked() if name.startswith(under))
    return sorted({name.split("/")[0] for name in names if "/" in name and not name.startswith(".")})


@pytest.mark.parametrize("under, indent", [("", ""), ("tools/", "  "), ("src/", "  ")])
def test_the_map_has_every_folder(under, indent):
    part = TREE if not under else re.search(rf"^{under}.*\n((?:  .*\n)*)", TREE, re.MULTILINE)[1]
    shown = re.findall(rf"^{indent}([\w-]+)/(?: |$)", part, re.MULTILINE)
    missing = set(folders(under)) - set(shown)
    assert not missing, f"{missing} is not in the map of docs/contributing.md"
    # vendor/ is made, and not committed.
    assert set(shown) - set(folders(under)) <= {"vendor"}


def crates():
    """Each crate of the workspace, and those that it depends on by a path, with their folders."""
    command = ["cargo", "metadata", "--no-deps", "--offline", "--locked", "--format-version", "1"]
    found = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    for package in json.loads(found.stdout)["packages"]:
        home = Path(package["manifest_path"]).parent
        yield package["name"], home, [Path(one["path"]) for one in package["dependencies"] if one.get("path")]


def place(folder):
    """The name that the arrows have for a crate's folder; `None` for those that they say nothing of."""
    relative = folder.relative_to(ROOT).as_posix()
    if relative == ".":
        return "src"
    if relative.startswith("vendor/quiche"):
        return "patched quiche"
    first = relative.split("/")[0]
    return first if first in ARROWS else None


def test_no_crate_uses_what_stands_above_it():
    seen = 0
    for name, home, uses in crates():
        for used in uses:
            if place(home) and place(used):
                seen += 1
                assert rank(place(used)) <= rank(place(home)), f"{name} uses {used.relative_to(ROOT)}"
    assert seen > 10


def modules(folder):
    """What other Python can import of a folder."""
    below = ROOT / folder
    return {path.stem for path in below.glob("*.py")} | {path.parent.name for path in below.glob("*/__init__.py")} | {
        path.parent.name for path in below.glob("*/*.py") if path.parent.name != "tests"}


@pytest.mark.parametrize("folder", PYTHON)
def test_no_python_uses_what_stands_above_it(folder):
    above = {module: other for other in PYTHON if rank(other) > rank(folder) for module in modules(other)}
    # The same name at home is that.
    above = {module: other for module, other in above.items() if module not in modules(folder)}
    for name in tracked():
        if not name.startswith(folder + "/") or not name.endswith(".py"):
            continue
        for node in ast.walk(ast.parse((ROOT / name).read_text(encoding="utf-8"))):
            names = []
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom) and not node.level:
                names = [node.module]
            for used in names:
                assert used.split(".")[0] not in above, f"{name} imports {used}, of {above[used.split('.')[0]]}"


def test_the_decision_layer_has_no_input_and_no_clock():
    """But for its tests."""
    forbidden = re.compile(r"\b(quiche|tokio|mio|libc)::|std::(net::(Udp|Tcp)|fs|thread)\b|Instant::now\(\)")
    for name in tracked():
        if name.startswith("src/") and name.endswith(".rs") and Path(name).stem not in ("tests", "testing"):
            code = (ROOT / name).read_text(encoding="utf-8")
            code = re.split(r"^#\[cfg\(test\)\]$", code, flags=re.MULTILINE)[0]
            code = "\n".join(line for line in code.splitlines() if not line.lstrip().startswith("//"))
            assert not forbidden.search(code), f"{name}: {forbidden.search(code)[0]}"
