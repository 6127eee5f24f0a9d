import io
import subprocess
import sys
import time
from pathlib import Path

import pytest

from mpqnet import live
from mpqnet.process import CommandError


class Node:
    """A node whose namespace is this one."""
    name = "here"

    @staticmethod
    def popen(command, **streams):
        return subprocess.Popen(command, **streams)


def test_last_line_is_what_a_terminal_shows():
    assert live.last_line("one\rtwo\x1b[K\n\x1b[32m three \x1b[0m\r\n\n") == "three"
    assert live.last_line("") == ""


def test_output_goes_to_the_log(tmp_path):
    log = tmp_path / "log"
    live.run_live(Node, ["sh", "-c", "test -t 2 && echo a terminal >&2"], "[1/1]", 60, log)
    assert b"a terminal" in log.read_bytes()


def test_a_failure_quotes_the_last_line_and_names_the_log(tmp_path):
    with pytest.raises(CommandError, match="no route.*see .*log"):
        live.run_live(Node, ["sh", "-c", "echo no route; exit 3"], "[1/1]", 60, tmp_path / "log")


def test_a_command_that_hangs_is_ended(tmp_path):
    with pytest.raises(CommandError, match="took longer"):
        live.run_live(Node, ["sleep", "60"], "[1/1]", 0.3, tmp_path / "log")


def test_status_lines_are_rare_where_there_is_no_terminal():
    out = io.StringIO()
    status = live.Status("[1/6]", out, every_s=100)
    for _ in range(5):
        status.show("busy")
    status.show("done", final=True)
    assert out.getvalue().count("\n") == 1 and "done" in out.getvalue()


def test_a_child_does_not_outlive_a_killed_parent():
    # The parent starts a sleeper as every child is started, says its pid and is killed outright.
    parent = subprocess.Popen(
        [sys.executable, "-c", "import subprocess\nfrom mpqnet import process\n"
         "class Node:\n    popen = staticmethod(subprocess.Popen)\n"
         "child = process.start(Node, ['sleep', '60'])\nprint(child.pid, flush=True)\nchild.wait()"],
        stdout=subprocess.PIPE, text=True, cwd=Path(live.__file__).parents[1])
    child = int(parent.stdout.readline())
    # Until the sleeper runs, its wish for a signal may not be made yet.
    wait_until(lambda: Path(f"/proc/{child}/comm").read_text() == "sleep\n")
    parent.kill()
    parent.communicate(timeout=60)
    wait_until(lambda: not is_running(child))


def is_running(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def wait_until(condition):
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)
