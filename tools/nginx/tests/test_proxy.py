"""Browsers and other programs in front of nginx, through `mpq proxy`."""
import hashlib
import json
import os
import random
import re
import shutil
import subprocess
import urllib.request
from pathlib import Path

import pytest

from conftest import LIMIT_SECONDS
from hostile import loud_lines
from relay import Relay
from test_browser import TYPES, HERE, chromium, dash_js  # noqa: F401 (fixtures)

# The better link, and the one that is left.
WIFI, LTE = "127.0.0.2", "127.0.0.3"
WIFI_RATE, LTE_RATE = 700_000, 450_000
FILM_SECONDS, CUT_SECONDS = 20, 8
# Somewhat less than one of the links carries, and more than a small part of it.
FILM_KBPS = 2400


class Proxy:
    """`mpq proxy` before an nginx."""

    def __init__(self, mpq, *arguments: str):
        self.process = subprocess.Popen([mpq.binary, "proxy", "--listen=127.0.0.1:0", *arguments],
                                        stderr=subprocess.PIPE, text=True)
        self.said = []
        while not self.said or not self.said[-1].startswith("listening on"):
            line = self.process.stderr.readline()
            assert line, self.said
            self.said.append(line)
        self.port = int(self.said[-1].rpartition(":")[2])
        self.url = f"http://127.0.0.1:{self.port}"

    def status(self) -> dict:
        with urllib.request.urlopen(f"{self.url}/.mpq/status.json", timeout=LIMIT_SECONDS) as response:
            return json.load(response)

    def memory(self) -> int:
        """Resident, bytes."""
        with open(f"/proc/{self.process.pid}/status") as status:
            return int(re.search(r"VmRSS:\s+(\d+)", status.read())[1]) * 1024

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.said += self.process.communicate(timeout=LIMIT_SECONDS)[1].splitlines(True)


def curl(*arguments, **options) -> subprocess.CompletedProcess:
    program = shutil.which("curl")
    if not program:
        pytest.skip("no curl here: ci/setup nginx installs it")
    return subprocess.run([program, "-sS", "--max-time", str(LIMIT_SECONDS), *map(str, arguments)], capture_output=True,
                          timeout=LIMIT_SECONDS + 10, **options)


@pytest.mark.parametrize("http", ["--http1.1", "--http2-prior-knowledge"])
def test_uploads_stream_through(make_nginx, mpq, tmp_path, http):
    """Bodies of a known length and of none, larger than what the proxy may hold, over links that hold them back."""
    nginx = make_nginx(start=False)
    taken = nginx.directory / "taken"
    taken.mkdir()
    taken.chmod(0o777)
    nginx.write(server=f"""quic_multipath on; location /up/ {{
        root {taken}; dav_methods PUT; create_full_put_path on; client_max_body_size 128m; }}
        location /small/ {{ root {taken}; dav_methods PUT; client_max_body_size 1m; }}""")
    nginx.start()
    film = tmp_path / "film"
    film.write_bytes(random.Random(1).randbytes(64_000_000))
    with Relay(nginx.port, bytes_per_second=20_000_000) as relay, \
            Proxy(mpq, relay.url(""), "--no-verify", f"--path={WIFI}", f"--path={LTE}") as proxy:
        before = proxy.memory()
        put = curl(http, "-T", film, f"{proxy.url}/up/length")
        assert put.returncode == 0, put.stderr
        with film.open("rb") as body:
            put = curl(http, "-T", "-", "-H", "Expect: 100-continue", f"{proxy.url}/up/chunks", stdin=body)
        assert put.returncode == 0, put.stderr
        # What the origin says before the end arrives.
        refused = curl(http, "-o", os.devnull, "-w", "%{http_code}", "-T", film, f"{proxy.url}/small/x")
        assert refused.stdout == b"413", (refused.stdout, refused.stderr)
        grown = proxy.memory() - before
        stats = relay.stats()
    digest = hashlib.sha256(film.read_bytes()).digest()
    for name in ("length", "chunks"):
        assert hashlib.sha256((taken / "up" / name).read_bytes()).digest() == digest, name
    # Of one body the quarter of a megabyte, and what is in flight.
    assert grown < 32_000_000, grown
    assert stats[WIFI]["up_bytes"] > 1_000_000 and stats[LTE]["up_bytes"] > 1_000_000, stats
    # What it says about the one that it refused.
    assert all("too large body" in line for line in loud_lines(nginx)), loud_lines(nginx)


def test_compression_and_redirects_of_nginx(make_nginx, mpq):
    """Encoded once, by nginx, and passed on as it is; what is not asked for is not encoded. Redirects stay in the
    proxy."""
    nginx = make_nginx(start=False)
    nginx.write(server="quic_multipath on; gzip on; gzip_min_length 100; gzip_types text/plain;")
    nginx.start()
    (nginx.content / "www/text").write_bytes(b"abc" * 10_000)
    with Proxy(mpq, f"https://127.0.0.1:{nginx.port}", "--no-verify") as proxy:
        plain = curl("-i", f"{proxy.url}/text").stdout
        encoded = curl("-i", "-H", "Accept-Encoding: gzip", f"{proxy.url}/text").stdout
        decoded = curl("--compressed", f"{proxy.url}/text").stdout
        (nginx.content / "www/folder").mkdir(exist_ok=True)
        moved = curl("-o", os.devnull, "-w", "%{redirect_url}", f"{proxy.url}/folder")
        assert moved.stdout.decode() == f"{proxy.url}/folder/", moved
    assert b"content-encoding" not in plain and plain.endswith(b"abc" * 10_000)
    assert b"content-encoding: gzip" in encoded and len(encoded) < 2000
    assert decoded == b"abc" * 10_000


def test_a_reload_of_nginx_breaks_nothing(make_nginx, mpq):
    """Its old workers take no further requests; those that are told so go to the new ones."""
    nginx = make_nginx(server="quic_multipath on;")
    with Proxy(mpq, f"https://127.0.0.1:{nginx.port}", "--no-verify") as proxy:
        for _ in range(3):
            assert curl(f"{proxy.url}/hello.txt").returncode == 0
            nginx.reload()
            got = curl("-w", "%{http_code}", "-o", os.devnull, f"{proxy.url}/1m.bin")
            assert got.stdout == b"200", got
        assert proxy.status()["requests"]["failed"] == 0


@pytest.fixture(scope="session")
def film(tmp_path_factory, dash_js):  # noqa: F811
    """A page, the player, and a film of noise, which takes its rate whatever the codec does."""
    if not shutil.which("ffmpeg"):
        pytest.skip("no ffmpeg here: ci/setup video installs it")
    directory = tmp_path_factory.mktemp("film")
    shutil.copy(HERE / "browser/film.html", directory)
    shutil.copy(dash_js, directory)
    rate = [f"{FILM_KBPS}k"]
    subprocess.run(
        ["ffmpeg", "-v", "error", "-f", "lavfi", "-i",
         f"testsrc2=size=320x180:rate=25:duration={FILM_SECONDS},noise=alls=80:allf=t",
         "-c:v", "libvpx-vp9", "-deadline", "realtime", "-cpu-used", "8", "-b:v", *rate, "-minrate", *rate, "-maxrate", *rate,
         "-g", "25", "-f", "dash", "-seg_duration", "1", "-dash_segment_type", "mp4",
         "-init_seg_name", "init.mp4", "-media_seg_name", "$Number$.m4s", directory / "film.mpd"],
        check=True, timeout=LIMIT_SECONDS)
    for path in [directory, *directory.parents]:
        if path.is_relative_to("/tmp") and str(path) != "/tmp":
            path.chmod(path.stat().st_mode | 0o055)
    return directory


def test_a_film_survives_a_link(make_nginx, mpq, chromium, film, tmp_path):  # noqa: F811
    """Chromium plays it with dash.js over two links. The better one dies in the middle, and nothing stalls; the live
    page shows that. MPQ_PROXY_PICTURE=FILE keeps a picture of the page."""
    api = pytest.importorskip("playwright.sync_api", reason="no playwright in .venv: ci/setup nginx installs it")
    nginx = make_nginx(start=False)
    nginx.write(server="quic_multipath on;", http=TYPES, location=f"root {film};")
    nginx.start()
    with Relay(nginx.port, host="127.0.0.9", delay_ms=15) as relay, \
            Proxy(mpq, f"film={relay.url('film.html')}", "--no-verify", f"--path={WIFI}", f"--path={LTE}") as proxy, \
            api.sync_playwright() as playwright:
        relay.set_rate(WIFI, WIFI_RATE)
        relay.set_rate(LTE, LTE_RATE)
        browser = playwright.chromium.launch(executable_path=chromium, headless=True, args=[
            "--no-sandbox", "--autoplay-policy=no-user-gesture-required"])
        try:
            context = browser.new_context(color_scheme="light", viewport={"width": 1000, "height": 700})
            live, page = context.new_page(), context.new_page()
            console, failed = [], []
            for tab in (live, page):
                tab.on("console", lambda message: console.append(message.text) if message.type == "error" else None)
                tab.on("requestfailed", lambda request: failed.append(f"{request.url}: {request.failure}"))
            # The name that origins' pages run under does not show it; browsers are led to the one that does.
            live.goto(f"http://film.localhost:{proxy.port}/.mpq/", timeout=1000 * LIMIT_SECONDS)
            assert live.url == f"http://mpq.localhost:{proxy.port}/.mpq/"
            page.goto(f"http://film.localhost:{proxy.port}/film.html", timeout=1000 * LIMIT_SECONDS)

            def until(what):
                try:
                    what()
                except api.TimeoutError as error:
                    pytest.fail(f"{error}; {page.evaluate('[video.currentTime, stalls, problems]')}, {console}, {failed}\n"
                                f"{proxy.status()}\n{nginx.errors()}")

            def plays(condition):
                until(lambda: page.wait_for_function(f"{condition} || problems.length", timeout=1000 * LIMIT_SECONDS))

            def shows(path, *words):
                row = live.locator("tbody tr", has_text=path)
                for word in words:
                    row = row.filter(has_text=word)
                until(lambda: row.wait_for(timeout=1000 * LIMIT_SECONDS))

            plays(f"video.currentTime >= {CUT_SECONDS}")
            shows(WIFI, "carries data")
            shows(LTE, "carries data")
            before = relay.stats()
            relay.cut(WIFI)
            shows(WIFI, "failed")
            plays(f"video.currentTime >= {CUT_SECONDS + 6}")
            picture = Path(os.environ.get("MPQ_PROXY_PICTURE", tmp_path / "paths.png"))
            live.screenshot(path=picture)
            assert picture.stat().st_size < 200_000
            plays("video.ended")

            seen = f"{console}, {failed}\n{proxy.status()}\n{nginx.errors()}"
            assert page.evaluate("problems") == [], seen
            assert page.evaluate("stalls") == [], seen
            assert console == [] and failed == [], seen
            assert page.evaluate("video.currentTime") >= FILM_SECONDS - 0.5
            frames = page.evaluate("video.getVideoPlaybackQuality().totalVideoFrames")
            # One of each segment at least, on the slowest machine.
            assert frames >= FILM_SECONDS, frames
            events = live.inner_text("#events")
            assert f"({WIFI}) has failed" in events, events
            # Its button works by the keyboard, and nothing of it needs colours.
            live.focus(f"tr:has-text('{LTE}') button")
            live.keyboard.press("Enter")
            shows(LTE, "paused", "Resume")
            live.emulate_media(color_scheme="dark")
            assert live.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(19, 19, 22)"
            # A page of the origin sees none of it.
            seen = page.evaluate("fetch('/.mpq/status.json').then(answer => answer.status)")
            assert seen == 403
        finally:
            browser.close()
        after = relay.stats()
        status = proxy.status()
    # Both carried it before, and the rest came over the other.
    assert before[WIFI]["down_bytes"] > 200_000 and before[LTE]["down_bytes"] > 200_000, before
    assert after[LTE]["down_bytes"] - before[LTE]["down_bytes"] > 500_000, (before, after)
    assert status["requests"]["failed"] == 0
    assert status["origins"][0]["connections"] == 1, status
    assert loud_lines(nginx) == []
