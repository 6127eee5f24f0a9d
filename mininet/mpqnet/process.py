"""Children that are always stopped: by pid, in bounded time."""

import contextlib
import subprocess


class CommandError(Exception):
    """A command failed; the text holds the command and what it said."""


def start(node, command, **streams):
    """Starts a command in a Mininet node's namespace. The caller stops it by `stop`; should this process
    be killed outright, the kernel ends the child."""
    return node.popen(["setpriv", "--pdeathsig", "TERM", *map(str, command)], **streams)


def run(node, *command, timeout_s=15):
    """Runs a command in a Mininet node's namespace and returns its standard output. Raises
    CommandError if it fails or takes longer than `timeout_s`."""
    words = [str(word) for word in command]
    child = start(node, words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        out, err = child.communicate(timeout=timeout_s)
    except subprocess.TimeoutExpired:
        raise CommandError(f"{node.name}: `{' '.join(words)}` took longer than {timeout_s} s") from None
    finally:
        stop(child)
    if child.returncode != 0:
        raise CommandError(f"{node.name}: `{' '.join(words)}` failed ({child.returncode}): {(err or out).strip()}")
    return out


def stop(child, grace_s=3):
    """Ends a child that may or may not still run: SIGTERM, then SIGKILL after `grace_s`."""
    if child.poll() is None:
        with contextlib.suppress(ProcessLookupError):
            child.terminate()
        try:
            child.wait(grace_s)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()
    for stream in (child.stdin, child.stdout, child.stderr):
        if stream:
            with contextlib.suppress(OSError):
                stream.close()
