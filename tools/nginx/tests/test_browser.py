"""Chromium plays DASH content with dash.js, page, player and segments from nginx over HTTP/3."""
import base64
import hashlib
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import h3
from conftest import LIMIT_SECONDS, ROOT
from hostile import loud_lines

HERE = Path(__file__).resolve().parent
SEGMENT_SECONDS, SECONDS = 1, 8
# A player that came so far has fetched segments while it played.
PLAYED_SECONDS = 5
QOE_LOG = "log_format qoe '$uri $quic_qoe_buffer_ms $quic_qoe_bitrate_kbps $quic_qoe_stalled';"
TYPES = """types { text/html html; application/javascript js; application/dash+xml mpd;
                   video/mp4 mp4 m4s; }"""


@pytest.fixture(scope="session")
def chromium() -> str:
    for name in ("chromium-headless-shell", "chromium", "chromium-browser"):
        if found := shutil.which(name):
            return found
    pytest.skip("no Chromium here: ci/setup nginx installs it")


@pytest.fixture(scope="session")
def dash_js() -> Path:
    """dash.js as browser/package-lock.json pins it."""
    # That of the environment first; it looks for its `node` in PATH.
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    npm = shutil.which("npm", path=path)
    if not npm:
        pytest.skip("no npm here to fetch dash.js with: ci/setup nginx installs it")
    lock = (HERE / "browser/package-lock.json").read_bytes()
    directory = ROOT / "out" / f"dash.js-{hashlib.sha256(lock).hexdigest()[:16]}"
    script = directory / "node_modules/dashjs/dist/modern/umd/dash.all.min.js"
    if not script.exists():
        directory.mkdir(parents=True, exist_ok=True)
        for name in ("package.json", "package-lock.json"):
            shutil.copy(HERE / "browser" / name, directory)
        subprocess.run([npm, "ci", "--ignore-scripts", "--no-audit", "--no-fund"], cwd=directory, check=True,
                       timeout=300, env={**os.environ, "PATH": path})
    return script


@pytest.fixture(scope="session")
def site(tmp_path_factory, dash_js) -> Path:
    """The page, the player, and a test picture that moves."""
    if not shutil.which("ffmpeg"):
        pytest.skip("no ffmpeg here: ci/setup video installs it")
    directory = tmp_path_factory.mktemp("site")
    shutil.copy(HERE / "browser/player.html", directory)
    shutil.copy(dash_js, directory)
    # VP9: every build of Chromium can play it.
    subprocess.run(
        ["ffmpeg", "-v", "error", "-f", "lavfi", "-i", f"testsrc2=size=320x180:rate=25:duration={SECONDS}",
         "-c:v", "libvpx-vp9", "-deadline", "realtime", "-cpu-used", "8", "-b:v", "400k", "-g", str(25 * SEGMENT_SECONDS),
         "-f", "dash", "-seg_duration", str(SEGMENT_SECONDS), "-dash_segment_type", "mp4",
         "-init_seg_name", "init.mp4", "-media_seg_name", "$Number$.m4s", directory / "video.mpd"],
        check=True, timeout=LIMIT_SECONDS)
    for path in [directory, *directory.parents]:
        if path.is_relative_to("/tmp") and path != Path("/tmp"):
            path.chmod(path.stat().st_mode | 0o055)
    return directory


def key_hash(certificate: Path) -> str:
    """SHA-256 of the certificate's public key, as Chromium wants it."""
    public = subprocess.run(["openssl", "x509", "-in", certificate, "-pubkey", "-noout"], check=True,
                            capture_output=True).stdout
    der = subprocess.run(["openssl", "pkey", "-pubin", "-outform", "der"], input=public, check=True,
                         capture_output=True).stdout
    return base64.b64encode(hashlib.sha256(der).digest()).decode()


@pytest.mark.parametrize("directives, cmcd", [
    ("quic_multipath on;", ""),
    ("quic_multipath on; quic_retry on; quic_gso on;", ""),
    ("quic_multipath on;", "header"),
    ("quic_multipath on;", "query"),
])
def test_chromium_plays(make_nginx, chromium, site, directives, cmcd):
    api = pytest.importorskip("playwright.sync_api", reason="no playwright in .venv: ci/setup nginx installs it")
    nginx = make_nginx(start=False)
    logs = nginx.directory / "logs"
    nginx.write(server=f"{directives} access_log {logs}/access.log quic; access_log {logs}/qoe.log qoe;",
                http=TYPES + QOE_LOG, location=f"root {site};")
    nginx.start()
    origin = f"127.0.0.1:{nginx.port}"
    with api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, headless=True, args=[
            "--no-sandbox", "--enable-quic", f"--origin-to-force-quic-on={origin}",
            f"--ignore-certificate-errors-spki-list={key_hash(nginx.content / 'server.pem')}",
            "--autoplay-policy=no-user-gesture-required",
        ])
        try:
            page = browser.new_page()
            console = []
            page.on("console", lambda message: console.append(message.text) if message.type == "error" else None)
            failed = []
            page.on("requestfailed", lambda request: failed.append(f"{request.url}: {request.failure}"))
            page.goto(f"https://{origin}/player.html?cmcd={cmcd}", timeout=1000 * LIMIT_SECONDS)
            try:
                page.wait_for_function(f"video.currentTime >= {PLAYED_SECONDS} || problems.length", timeout=1000 * LIMIT_SECONDS)
            except api.TimeoutError:
                pytest.fail(f"played {page.evaluate('video.currentTime')} s, {page.evaluate('problems')}, {console}, "
                            f"{failed}\n{nginx.errors()}")
            assert page.evaluate("problems") == []
            assert console == [] and failed == []
            assert page.evaluate("video.currentTime") >= PLAYED_SECONDS
            # It is decoded, and not only clocked: of each segment one frame at least, on the slowest machine.
            frames = page.evaluate("video.getVideoPlaybackQuality().totalVideoFrames")
            assert frames >= PLAYED_SECONDS / SEGMENT_SECONDS, frames
            entries = dict(page.evaluate("""
                [...performance.getEntriesByType("navigation"), ...performance.getEntriesByType("resource")]
                    .map(entry => [entry.name, entry.nextHopProtocol])"""))
        finally:
            browser.close()
    entries = {name.split("?")[0].rsplit("/", 1)[1]: protocol for name, protocol in entries.items() if name.startswith("https:")}
    assert {"player.html", "dash.all.min.js", "video.mpd", "init.mp4", "1.m4s"} <= entries.keys(), entries
    assert set(entries.values()) == {"h3"}, entries
    segments = [line for line in nginx.access() if re.search(r"/\d+\.m4s ", line)]
    assert len(segments) >= PLAYED_SECONDS
    assert all(" 200 " in line and " h3 " in line for line in segments), segments
    # What the player says with each segment, the scheduler knows.
    told = [line.split()[1:] for line in (logs / "qoe.log").read_text().splitlines() if re.match(r"/\d+\.m4s ", line)]
    if cmcd:
        assert all(buffer.isdigit() and bitrate.isdigit() and stalled in "01" for buffer, bitrate, stalled in told), told
        assert any(int(buffer) > 0 for buffer, _, _ in told), told
    else:
        assert all(said == ["-"] * 3 for said in told), told
    assert loud_lines(nginx) == []
    # The server is as ready as before.
    assert h3.fetch(nginx.port, "/player.html").status == 200
