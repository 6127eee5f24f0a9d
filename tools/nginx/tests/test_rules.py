"""The rules of mpq-dash beside those of dash.js in Chromium, on the same throughput traces: the level of each segment."""
import json
import random
import subprocess

import pytest

from conftest import ROOT
from test_browser import HERE, chromium, dash_js  # noqa: F401 (fixtures)

SEGMENTS = 150
# Ladder, length of a segment and round trip.
FILMS = {
    "2 s": ([300_000, 750_000, 1_200_000, 2_500_000, 5_000_000], 2, 0.05),
    "4 s": ([400_000, 900_000, 1_400_000, 2_200_000, 3_300_000, 4_500_000, 7_000_000], 4, 0.1),
}
# Of the segments of a trace, whichever.
AGREE = 0.95


def walk(seed: int) -> list[list[float]]:
    """Rates that change every 4 to 12 s, from 0.5 to 8 Mbit/s, by steps of at most a factor of 2.5."""
    draws = random.Random(seed)
    rate, trace = 3e6, []
    for _ in range(60):
        trace.append([draws.uniform(4, 12), rate])
        rate = min(8e6, max(0.5e6, rate * draws.uniform(0.4, 2.5)))
    return trace


TRACES = {
    "steady 4": [[0, 4e6]],
    "steady 1.1": [[0, 1.1e6]],
    "dip": [[60, 6e6], [30, 1.5e6], [0, 6e6]],
    "steps": [[40, 1e6], [40, 2e6], [40, 4e6], [40, 8e6], [40, 3e6], [0, 1.5e6]],
    "sawtooth": [[10, rate * 1e6] for _ in range(6) for rate in (1, 2, 3, 4, 5, 6)],
    # Others than those by which differences were found.
    **{f"walk {seed}": walk(seed) for seed in range(11, 21)},
}


def cases(rule: str, film: str) -> list[dict]:
    ladder_bps, segment_s, rtt_s = FILMS[film]
    return [{"rule": rule, "ladder_bps": ladder_bps, "segment_s": segment_s, "segments": SEGMENTS, "rtt_s": rtt_s,
             "trace": trace} for trace in TRACES.values()]


@pytest.fixture(scope="module")
def page(chromium, dash_js):  # noqa: F811
    api = pytest.importorskip("playwright.sync_api", reason="no playwright in .venv: ci/setup nginx installs it")
    with api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, headless=True, args=["--no-sandbox"])
        try:
            page = browser.new_page()
            page.problems = []
            page.on("console", lambda message: page.problems.append(message.text) if message.type == "error" else None)
            page.goto("about:blank")
            page.add_script_tag(path=dash_js)
            page.add_script_tag(path=HERE / "browser/rules.js")
            yield page
        finally:
            browser.close()


def ours(all_cases: list[dict]) -> list[list[int]]:
    done = subprocess.run(["cargo", "run", "--locked", "-q", "-p", "mpq-dash", "--example", "levels"], cwd=ROOT,
                          input=json.dumps(all_cases), check=True, capture_output=True, text=True, timeout=600)
    return json.loads(done.stdout)


@pytest.mark.parametrize("film", FILMS)
@pytest.mark.parametrize("rule", ["rate", "bola", "dynamic", "l2a"])
def test_decisions_are_those_of_dash_js(page, rule, film):
    theirs = [page.evaluate("levels", one) for one in cases(rule, film)]
    assert page.problems == []
    same = {}
    # Its L2ARule has bit/s beside kbit/s.
    for name, mine, other in zip(TRACES, ours(cases("l2a:units=mixed" if rule == "l2a" else rule, film)), theirs):
        assert len(mine) == len(other) == SEGMENTS
        assert len(set(other)) > 1, f"{name}: dash.js never changes the level"
        same[name] = sum(a == b for a, b in zip(mine, other)) / SEGMENTS
    print(rule, film, {name: round(share, 3) for name, share in same.items()})
    assert min(same.values()) >= AGREE, same
