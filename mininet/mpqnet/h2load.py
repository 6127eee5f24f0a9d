"""Runs h2load over HTTP/3 and reads what it prints."""

import re
import resource
import subprocess
from dataclasses import dataclass

from . import process
from .process import CommandError

UNITS_S = {"us": 1e-6, "ms": 1e-3, "s": 1.0}
DURATION = r"(\d+(?:\.\d+)?)(us|ms|s)"

# One socket a connection, and then some.
DESCRIPTORS = 20000


@dataclass(frozen=True)
class Load:
    """What one run of h2load reports."""
    seconds: float             # from the first connection to the last answer, or the time asked for
    requests_per_second: float
    succeeded: int             # answers with status 2xx or 3xx
    failed: int                # all others: errors, time-outs, other statuses
    body_bytes: int
    connect_mean_s: float
    connect_max_s: float


def _number(pattern, text):
    match = re.search(pattern, text, re.MULTILINE)
    if not match:
        raise CommandError(f"h2load printed nothing like {pattern}; it printed: {text.strip()[-500:]}")
    return match


def seconds(number, unit):
    return float(number) * UNITS_S[unit]


def parse(text):
    """Reads the report of h2load; raises CommandError if it is not one."""
    finished = _number(rf"^finished in {DURATION}, (\d+(?:\.\d+)?) req/s", text)
    requests = _number(r"(\d+) done, (\d+) succeeded, (\d+) failed", text)
    body = _number(r"\((\d+)\) data$", text)
    connect = _number(rf"^time for connect: +{DURATION} +{DURATION} +{DURATION}", text)
    done, succeeded = int(requests[1]), int(requests[2])
    return Load(seconds=seconds(finished[1], finished[2]), requests_per_second=float(finished[3]), succeeded=succeeded,
                failed=max(int(requests[3]), done - succeeded), body_bytes=int(body[1]),
                connect_mean_s=seconds(connect[5], connect[6]), connect_max_s=seconds(connect[3], connect[4]))


def command(program, url, connections, streams, requests=None, duration_s=None, warm_up_s=0, rate=None):
    """The words of a run: so many requests in all, or for so many seconds after warming up. `rate` is the most
    requests per second of a connection."""
    words = [program, "--alpn-list=h3", "-c", connections, "-m", streams]
    words += ["-n", requests] if requests else ["-D", duration_s, f"--warm-up-time={warm_up_s}"]
    return [*words, *(["--rps", rate] if rate else []), url]


def start(node, words):
    """Starts h2load in a node's namespace; `finish` waits for it."""
    resource.setrlimit(resource.RLIMIT_NOFILE, (DESCRIPTORS, max(DESCRIPTORS, resource.getrlimit(resource.RLIMIT_NOFILE)[1])))
    return process.start(node, words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def finish(child, timeout_s=120):
    """Returns the Load. Raises CommandError if h2load fails, takes longer, or has a request that failed."""
    try:
        text, _ = child.communicate(timeout=timeout_s)
    except subprocess.TimeoutExpired:
        raise CommandError(f"`{' '.join(map(str, child.args))}` took longer than {timeout_s} s") from None
    finally:
        process.stop(child)
    if child.returncode != 0:
        raise CommandError(f"`{' '.join(map(str, child.args))}` failed ({child.returncode}): {text.strip()[-500:]}")
    return parse(text)


def run(node, words, timeout_s=120):
    return finish(start(node, words), timeout_s)
