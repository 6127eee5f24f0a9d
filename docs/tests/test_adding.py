"""The examples of docs/adding.md, as somebody would do them: in copies."""

import os
import re
import shutil
import subprocess
import sys
import tomllib

import built
import programs

ROOT = programs.ROOT
EXAMPLE = re.compile(r"^<!-- (\w+) ?(\S*) -->\n```\w*\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def examples(kind):
    """[(name, text)] of the examples of a kind."""
    page = (ROOT / "docs/adding.md").read_text(encoding="utf-8")
    found = [(name, text) for of, name, text in EXAMPLE.findall(page) if of == kind]
    assert found
    return found


def change(file, text):
    """Makes a change that is written as the lines of a diff, by what is around them."""
    lines = text.splitlines(keepends=True)
    before = "".join(line[1:] for line in lines if line[0] in " -")
    after = "".join(line[1:] for line in lines if line[0] in " +")
    old = file.read_text(encoding="utf-8")
    assert old.count(before) == 1, f"{file}: {old.count(before)} places are as docs/adding.md has it:\n{before}"
    file.write_text(old.replace(before, after), encoding="utf-8")


def run(*command, cwd, status=0, **environment):
    done = subprocess.run(command, cwd=cwd, env=os.environ | environment, capture_output=True, text=True, check=False,
                          stdin=subprocess.DEVNULL)
    assert done.returncode == status, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def test_the_controller_the_scheduler_and_the_policy(tmp_path):
    shutil.copytree(ROOT / "src", tmp_path / "src")
    shutil.copy(ROOT / "rustfmt.toml", tmp_path)
    # Without what the integration tests and benchmarks need, so that nothing else has to be built.
    manifest = tomllib.loads((ROOT / "Cargo.toml").read_text(encoding="utf-8"))
    edition = manifest["workspace"]["package"]["edition"]
    (tmp_path / "Cargo.toml").write_text(f'[workspace]\n[package]\nname = "mpq-decision"\nedition = "{edition}"\n',
                                         encoding="utf-8")
    written = ""
    for name, text in examples("file"):
        (tmp_path / name).write_text(text, encoding="utf-8")
        written += text
    for name, text in examples("change"):
        if name.startswith("src/"):
            change(tmp_path / name, text)
            written += "".join(line[1:] for line in text.splitlines(keepends=True) if line.startswith("+"))
    tests = re.findall(r"#\[test\]\s+fn (\w+)", written)
    assert len(tests) == 4

    target = os.environ.get("CARGO_TARGET_DIR", str(ROOT / "target"))
    said = run("cargo", "test", "--offline", "--lib", cwd=tmp_path, CARGO_TARGET_DIR=f"{target}/adding",
               RUSTFLAGS="-Dwarnings")
    for name in tests:
        assert re.search(rf"^test \S*::{name} \.\.\. ok$", said, re.MULTILINE), said
    for name, _ in examples("file"):
        run("rustfmt", "--check", "--edition", edition, name, cwd=tmp_path)


@built.needs_mpq
def test_the_scenario(tmp_path):
    [(name, text)] = examples("scenario")
    (tmp_path / name).write_text(text, encoding="utf-8")
    mpq = built.find("mpq")
    # 8 if a rule does not hold.
    run(mpq, "sim", name, "--out", "out", cwd=tmp_path)
    run(sys.executable, ROOT / "mininet/run.py", name, "--check", "--mpq", mpq, cwd=tmp_path, status=1)


def test_the_patch(tmp_path):
    shutil.copytree(ROOT / "quiche-patches", tmp_path / "quiche-patches")
    xtask = ("cargo", "xtask", "quiche", "--root", tmp_path)
    run(*xtask, "unpack", cwd=ROOT)
    for name, text in examples("change"):
        if name.startswith("vendor/"):
            change(tmp_path / name, text)

    quiche = tmp_path / "vendor/quiche"
    [(_, message)] = examples("message")
    person = {f"GIT_{role}_{what}": "a@b.example" for role in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    run("git", "commit", "-q", "-a", "-m", message, cwd=quiche, **person)
    assert "new:     " in run(*xtask, "export", cwd=ROOT)

    # Not before the page has its line, which is the last, as the patch is.
    run(*xtask, "check", cwd=ROOT, status=1)
    [(page, line)] = examples("line")
    with open(tmp_path / page, "a", encoding="utf-8") as file:
        file.write(line)
    run(*xtask, "check", cwd=ROOT)
