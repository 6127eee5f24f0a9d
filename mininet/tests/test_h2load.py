"""Reading what h2load prints."""

import pytest

from mpqnet import h2load
from mpqnet.process import CommandError

REPORT = """
starting benchmark...
finished in 819.98ms, 60977.32 req/s, 7.05MB/s
requests: 50010 total, 50010 started, 50000 done, 49990 succeeded, 10 failed, 3 errored, 0 timeout
status codes: 49990 2xx, 0 3xx, 10 4xx, 0 5xx
traffic: 5.78MB (6057760) total, 5.10MB (5350000) headers (space savings 38.51%), 292.97KB (300000) data
UDP datagram: 8750 sent, 55262 received
                     min         max         mean         sd        +/- sd
time for request:      143us     49.60ms      3.24ms      3.34ms    88.53%
time for connect:      956us       1.31s     10.81ms      3.08ms    90.00%
time to 1st byte:    11.81ms     23.09ms     18.16ms      5.47ms    60.00%
req/s           :    3039.27     3099.65     3064.78       22.84    60.00%
"""


def test_report():
    load = h2load.parse(REPORT)
    assert load.seconds == pytest.approx(0.81998)
    assert load.requests_per_second == pytest.approx(60977.32)
    assert (load.succeeded, load.failed, load.body_bytes) == (49990, 10, 300000)
    assert load.connect_mean_s == pytest.approx(0.01081)
    assert load.connect_max_s == pytest.approx(1.31)


@pytest.mark.parametrize("line", ["finished", "requests", "traffic", "time for connect"])
def test_a_line_is_missing(line):
    with pytest.raises(CommandError, match="h2load printed nothing like"):
        h2load.parse("\n".join(item for item in REPORT.splitlines() if not item.startswith(line)))


def test_command():
    words = h2load.command("h2load", "https://127.0.0.1:1/", 10, 5, duration_s=3, warm_up_s=1, rate=2)
    assert words == ["h2load", "--alpn-list=h3", "-c", 10, "-m", 5, "-D", 3, "--warm-up-time=1", "--rps", 2,
                     "https://127.0.0.1:1/"]
