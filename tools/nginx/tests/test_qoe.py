"""What a player says of itself with its requests (CTA-5004) reaches the scheduler, and nothing else does harm."""
import json
import shutil
import subprocess

import pytest

import h3
from conftest import LIMIT_SECONDS
from hostile import loud_lines
from test_deployment import MPD

LOG = """log_format qoe '$uri $quic_qoe_buffer_ms $quic_qoe_bitrate_kbps $quic_qoe_deadline_ms '
                               '$quic_qoe_throughput_kbps $quic_qoe_stalled';"""
SEGMENT = {
    "cmcd-object": "br=3200,d=4004,ot=v,tb=6000",
    "cmcd-request": "bl=21300,dl=18500,mtp=48100,nor=\"2.m4s\"",
    "cmcd-session": "sid=\"6e2fb550-c457-11e9-bb97-0800200c9a66\"",
}


@pytest.fixture
def nginx(make_nginx):
    def make(directives: str = "", **options):
        nginx = make_nginx(start=False)
        options["http"] = LOG + options.get("http", "")
        nginx.write(server=f"quic_multipath on; access_log {nginx.directory}/logs/qoe.log qoe; {directives}", **options)
        nginx.start()
        return nginx
    return make


def told(nginx) -> list[str]:
    """The log's lines, the status page's own not counted."""
    lines = (nginx.directory / "logs/qoe.log").read_text().splitlines()
    return [line for line in lines if not line.startswith("/status")]


async def status(client) -> dict:
    return json.loads((await client.request("/status")).body)


def qoe(page: dict) -> list[dict | None]:
    return [connection["qoe"] for connection in page["connections"]]


def counts(page: dict) -> tuple[int, int]:
    return page["workers"][0]["qoe_reports"], page["workers"][0]["deadlines"]


def test_report_reaches_the_scheduler(nginx):
    server = nginx()

    async def conversation():
        async with h3.connection(server.port) as client:
            pages = [await status(client)]
            for headers in [SEGMENT, {"cmcd-request": "su", "cmcd-status": "bs"}, {"cmcd-object": "br=1,ot=v"}, {}]:
                await client.request("/1m.bin", headers=headers)
                pages.append(await status(client))
            return pages
    before, playing, stalled, only_object, none = h3.run(conversation())
    assert qoe(before) == [None] and counts(before) == (0, 0)

    [report] = qoe(playing)
    assert report.pop("age_ms") < 1000 * LIMIT_SECONDS
    assert report == {"reports": 1, "buffer_ms": 21300, "bitrate_kbps": 3200, "throughput_kbps": 48100, "stalled": False}
    assert counts(playing) == (1, 1)

    # The newest replaces all of the others.
    [report] = qoe(stalled)
    assert (report["reports"], report["stalled"], report["buffer_ms"], report["bitrate_kbps"]) == (2, True, 0, 0)
    # What is asked for says nothing of the playback.
    assert counts(only_object) == counts(none) == counts(stalled) == (2, 1)
    assert told(server) == ["/1m.bin 21300 3200 18500 48100 0", "/1m.bin - - - - 1", "/1m.bin - 1 - - 0",
                            "/1m.bin - - - - -"]


def test_query_argument(nginx):
    server = nginx()
    for path in ["/hello.txt?CMCD=bl%3D100%2Csu%2Cdl%3D0%2Csid%3D%22a%2Cbl%3D7%22", "/hello.txt?a=b&CMCD=bl=100,dl=0,su&c"]:
        assert h3.fetch(server.port, path).status == 200
    # What ran dry and has something again does not stand.
    for said, stalled in [("bl=100,bs", 0), ("bl=0,bs", 1), ("bs", 1)]:
        assert h3.fetch(server.port, f"/hello.txt?CMCD={said}").status == 200
        assert told(server).pop().endswith(f" {stalled}"), said
    # Fields come first, if there are any.
    assert h3.fetch(server.port, "/hello.txt?CMCD=bl=100,dl=7", headers={"cmcd-request": "bl=200"}).status == 200
    assert told(server) == ["/hello.txt 100 - 0 - 1"] * 2 + [
        "/hello.txt 100 - - - 0", "/hello.txt 0 - - - 1", "/hello.txt - - - - 1", "/hello.txt 200 - - - 0"]


def test_log_after_an_internal_redirect(nginx):
    server = nginx("location = /old { try_files /none /hello.txt; } error_page 404 /hello.txt;")
    for path in ["/old", "/none"]:
        h3.fetch(server.port, path, headers=SEGMENT)
    assert told(server) == ["/hello.txt 21300 3200 18500 48100 0"] * 2

    async def conversation():
        async with h3.connection(server.port) as client:
            return await status(client)
    # One report for each request, however nginx finds its answer.
    assert counts(h3.run(conversation())) == (2, 2)


@pytest.mark.parametrize("where", ["server", "http"])
def test_off(nginx, where):
    server = nginx("quic_qoe off;") if where == "server" else nginx(http="quic_qoe off;")
    assert h3.fetch(server.port, "/1m.bin?CMCD=bl=100", headers=SEGMENT).status == 200
    assert told(server) == ["/1m.bin - - - - -"]


HOSTILE = [
    "", ",", "=", "bl", "bl=", "bl=-1", "bl=99999999999999999999999999", "bl=1.5", "dl=86400001", "mtp=1e9",
    "bl=(1 2;v,dl=3", "nor=\"unended, bl=5", "\"\\\"\\", "bl=\x80\xff", "bl=5;dl=6",
    "x" * 3000, "bl=5," * 700, ",".join(f"com.example-{n}={n}" for n in range(150)), "((((((((", "))))", "=" * 2048,
]


def test_hostile_fields_and_arguments(nginx):
    server = nginx()

    async def conversation():
        async with h3.connection(server.port) as client:
            for n, value in enumerate(HOSTILE):
                # A field's value may have any octet but controls.
                stream = client.start("/hello.txt", headers={"cmcd-request": value, "cmcd-status": value}, end=True)
                client.transmit()
                assert (await client.waiters[stream]).status == 200, value
                if value.isascii() and " " not in value:
                    assert (await client.request(f"/hello.txt?CMCD={value}")).status == 200, value
            # Many fields of a name add up to no more than one report.
            many = await client.request("/hello.txt", headers={"cmcd-request": "bl=5"})
            assert many.status == 200
            return await status(client)
    page = h3.run(conversation())
    assert counts(page)[0] == 1 and qoe(page)[0]["buffer_ms"] == 5
    assert told(server)[-1] == "/hello.txt 5 - - - 0"
    assert {line for line in told(server)[:-1]} == {"/hello.txt - - - - -"}
    assert loud_lines(server) == []


def test_a_deadline_that_is_absurd_is_not_believed(nginx):
    server = nginx()
    for ms, logged in [(0, "0"), (86_400_000, "86400000"), (86_400_001, "-"), (2**63, "-"), (2**64, "-")]:
        assert len(h3.fetch(server.port, "/1m.bin", headers={"cmcd-request": f"dl={ms}"}).body) == 1_000_000
        assert told(server)[-1].split()[3] == logged


@pytest.mark.parametrize("version", ["--http1.1", "--http2"])
def test_over_tcp_it_is_ignored(nginx, version):
    if not shutil.which("curl"):
        pytest.skip("no curl here: ci/setup nginx installs it")
    server = nginx(listen=["127.0.0.1:{port} quic reuseport", "127.0.0.1:{port} ssl"], http="http2 on;")
    out = subprocess.run(
        ["curl", "-sSk", version, "-H", "CMCD-Request: bl=5,dl=6", "-H", "CMCD-Status: bs", "-o", "/dev/null",
         "-w", "%{http_code} %{http_version}", f"https://127.0.0.1:{server.port}/hello.txt?CMCD=bl=5"],
        capture_output=True, text=True, timeout=LIMIT_SECONDS)
    assert out.stdout == f"200 {'2' if version == '--http2' else '1.1'}", out.stderr
    assert told(server) == ["/hello.txt - - - - -"]


@pytest.mark.parametrize("how", ["header", "query", "off"])
def test_mpq_play(nginx, mpq, base, how):
    directory = base / f"dash-{how}"
    directory.mkdir()
    (directory / "manifest.mpd").write_text(MPD)
    for name in ["init.mp4", *(f"{n}.m4s" for n in range(1, 9))]:
        (directory / name).write_bytes(b"\0\0\0\x10styp" + b"\0" * 8)
    server = nginx(location=f"root {directory};")
    report = mpq.directory / "report.json"
    run = subprocess.run([mpq.binary, "play", "-q", "--no-verify", "--cmcd", how, "--path", "127.0.0.1",
                          f"--json={report}", f"https://127.0.0.1:{server.port}/manifest.mpd"],
                         capture_output=True, text=True, timeout=LIMIT_SECONDS)
    assert run.returncode == 0, run.stderr
    lines = [line.split() for line in told(server)]
    if how == "off":
        assert all(line[1:] == ["-"] * 5 for line in lines)
        return
    assert lines[0] == ["/manifest.mpd", "-", "-", "-", "-", "1"]
    segments = [line for line in lines if line[0].removeprefix("/").split(".")[0].isdigit()]
    # It stands at the first one, and later if it says so itself.
    assert segments[0][1] == "0" and segments[0][3] == "0" and segments[0][5] == "1"
    assert sum(line[5] == "1" for line in segments[1:]) <= json.loads(report.read_text())["stalls"]
    assert any(int(line[1]) > 0 for line in segments) and all(line[1] == line[3] for line in segments), segments
    assert len({line[2] for line in segments}) == 1 and segments[0][2] != "-"
