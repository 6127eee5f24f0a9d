"""Every page of the repository: its links lead somewhere, and its commands are those that there are."""

import os
import re
from pathlib import Path

import built
import programs
import pytest
from markdown import Page, split

ROOT = programs.ROOT
# Not ours, or not committed.
ELSEWHERE = {"vendor", "out", "target", "node_modules"}


def pages():
    """The pages, but those in what is built, unpacked or hidden."""
    found = []
    for folder, folders, files in os.walk(ROOT):
        folders[:] = [name for name in folders if name not in ELSEWHERE and not name.startswith(".")]
        found += [Path(folder, name) for name in files if name.endswith(".md")]
    return sorted(found)


ALL = pages()


def read(file):
    return Page(file.read_text(encoding="utf-8"))


def broken_links(file, page):
    """What is wrong with the links of a page, as sentences."""
    for at in page.links:
        target, _, anchor = at.text.partition("#")
        if re.match(r"[a-z][a-z+.-]*:", target):
            continue
        aim = (file.parent / target).resolve() if target else file
        if not aim.is_relative_to(ROOT) or aim.relative_to(ROOT).parts[:1] in [(name,) for name in ELSEWHERE]:
            yield f"line {at.line}: {at.text} is not in the repository"
        elif target and not aim.exists():
            yield f"line {at.line}: {at.text} is not there"
        elif anchor and aim.suffix == ".md" and anchor not in (read(aim) if target else page).anchors():
            yield f"line {at.line}: {target or 'this page'} has no heading #{anchor}"


def wrong_commands(page):
    for line, words in page.commands():
        try:
            programs.check(words)
        except programs.Wrong as error:
            yield f"line {line}: {' '.join(words)}: {error}"


def missing_files(page, roots=(ROOT,)):
    """Files that are named from the root of the repository, or from the others, in code or in commands."""
    top = "src|tests|tools|mininet|experiments|benchmarks|ci|docs|fuzz|quiche-patches"
    named = [(at.line, at.text) for at in page.spans]
    named += [(line, word) for line, words in page.commands() for word in words[1:]]
    for line, text in named:
        # As in "src/cc/mod.rs" and "src/sched/min_rtt.rs: pick"; not "tools/*" and "out/grid/CLASS".
        if found := re.fullmatch(rf"((?:{top})/[\w./-]*\w)(?:: .*)?", text):
            is_known = found[1] in page.made or any((root / found[1]).exists() for root in roots)
            if not is_known and not re.search(r"/[A-Z]+(/|$)", found[1]):
                yield f"line {line}: {found[1]} is not there"


def missing_names(page):
    """What code is said to define, as in `src/sched/min_rtt.rs: pick` and `lib.rs: send, recv`, which is quiche's."""
    for at in page.spans:
        if not (found := re.fullmatch(r"([\w./-]+\.(?:rs|c|h|py)): ([\w:]+(?:, \w+)*)", at.text)):
            continue
        files = [root / found[1] for root in (ROOT, ROOT / "vendor/quiche/src")]
        code = next((file.read_text(encoding="utf-8") for file in files if file.is_file()), "")
        for name in found[2].split(", "):
            if not re.search(rf"\b(fn|struct|enum|trait|type|const|mod|def|class) {name.split('::')[-1]}\b", code):
                yield f"line {at.line}: {found[1]} has no {name}"


@pytest.mark.parametrize("file", ALL, ids=lambda file: str(file.relative_to(ROOT)))
def test_links_lead_somewhere(file):
    assert not list(broken_links(file, read(file)))


@pytest.mark.parametrize("file", ALL, ids=lambda file: str(file.relative_to(ROOT)))
def test_files_are_there(file):
    of = [ROOT]
    if file.is_relative_to(ROOT / "quiche-patches"):
        of.append(ROOT / "vendor/quiche")
    assert not list(missing_files(read(file), of))


@pytest.mark.skipif(not (ROOT / "vendor/quiche").is_dir(), reason="vendor/quiche is not there: ci/setup makes it")
@pytest.mark.parametrize("file", ALL, ids=lambda file: str(file.relative_to(ROOT)))
def test_names_are_defined(file):
    assert not list(missing_names(read(file)))


@built.needs_mpq
@pytest.mark.parametrize("file", ALL, ids=lambda file: str(file.relative_to(ROOT)))
def test_commands_are_known(file):
    assert not list(wrong_commands(read(file)))


def test_the_list_of_pages_has_all_of_them():
    listed = {(ROOT / "docs" / at.text).resolve() for at in read(ROOT / "docs/README.md").links}
    assert {file for file in ALL if file.parent == ROOT / "docs"} - listed == {ROOT / "docs/README.md"}


def test_what_is_broken_is_found():
    file = ROOT / "docs/x.md"
    page = Page("""\
# The first

A [good](README.md), a [bad](nowhere.md), [`code`](#the-first), [here](#the-second), [there](README.md#nowhere),
[built](../vendor/quiche), [outside](../../x), <https://example.com> and [elsewhere](https://example.com/#x).
`[no](link.md)`, `src/cc/mod.rs`, `src/cc/nowhere.rs: f`.

```text
[nor](this.md)
```

[reference]: missing.md
""")
    assert [sentence.split()[2] for sentence in broken_links(file, page)] == [
        "nowhere.md", "this", "README.md", "../vendor/quiche", "../../x", "missing.md"]
    assert list(missing_files(page)) == ["line 5: src/cc/nowhere.rs is not there"]
    assert list(missing_names(page)) == ["line 5: src/cc/nowhere.rs has no f"]
    assert not list(missing_names(Page("`src/cc/mod.rs: by_name, Controller`")))
    assert list(missing_names(Page("`src/cc/mod.rs: by_name, nothing`"))) == ["line 1: src/cc/mod.rs has no nothing"]


@built.needs_mpq
@pytest.mark.parametrize("wrong", [
    "mpq fetch https://example.com/", "mpq get --speed 3", "ci/test nothing", "ci/nothing", "ci/demo --nothing",
    "cargo xtask quiche pack", "cargo xtask quiche check --nothing", "cargo test -p nothing", "cargo test --test nothing",
    "sudo .venv/bin/python mininet/run.py --nothing x.toml", "cd x && A=b mpq sim --nothing | cat", "mininet/nothing.py --json",
])
def test_a_wrong_command_is_found(wrong):
    assert len(list(wrong_commands(Page(f"```sh\n{wrong}\n```\n")))) == 1
    assert len(list(wrong_commands(Page(f"Say `{wrong}`.\n")))) == 1


@built.needs_mpq
@pytest.mark.parametrize("right", [
    "mpq get --path wlan0 https://example.com/ # comment --nothing", "mpq serve --help", "ci/test fmt clippy", "ls --nothing",
    "cargo xtask quiche test-each --at fixes -- --nothing", "(cd x; mpq sim --schema >y 2>z)", "mpq SUBCOMMAND --help",
])
def test_a_right_command_is_right(right):
    assert split(right) and not list(wrong_commands(Page(f"```sh\n{right}\n```\n")))
