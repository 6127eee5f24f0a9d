"""`mpq put`: uploads over several paths, into nginx's own module for that (dav)."""
import json
import socket
import subprocess

import pytest

from conftest import LIMIT_SECONDS
from relay import Relay

# More than the handshake of a path and its probes of the MTU: it carried a part of the body.
USED_BYTES = 50_000
BODY_BYTES = 3_000_000
PATHS = ("127.0.0.1", "127.0.0.3")


@pytest.fixture
def taking(make_nginx):
    """nginx that stores what is put under /up/, which the returned function tells where."""
    def start(location: str = "", **options):
        nginx = make_nginx(start=False)
        root = nginx.directory / "taken"
        nginx.write(server=f"""
            quic_multipath on;
            location /up/ {{
                root {root}; dav_methods PUT; create_full_put_path on; client_max_body_size 64m; {location}
            }}""", **options)
        root.mkdir()
        root.chmod(0o777)
        nginx.start()
        nginx.taken = root / "up"
        return nginx
    return start


@pytest.fixture
def film(tmp_path):
    file = tmp_path / "film one.mp4"
    # No part of it looks like another.
    file.write_bytes(b"".join(n.to_bytes(4, "big") for n in range(BODY_BYTES // 4)))
    return file


def put(mpq, url, *files, options=(), paths=PATHS):
    report = mpq.directory / "report.json"
    report.unlink(missing_ok=True)
    run = subprocess.run(
        [mpq.binary, "put", "--no-verify", "-q", f"--json={report}", *(f"--path={path}" for path in paths),
         *options, *files, url], capture_output=True, text=True, timeout=LIMIT_SECONDS)
    return run, json.loads(report.read_text()) if report.exists() else None


def test_both_paths_carry_an_upload(taking, mpq, film):
    nginx = taking()
    with Relay(nginx.port) as relay:
        run, report = put(mpq, relay.url("up/"), film)
        stats = relay.stats()
    assert run.returncode == 0, run.stderr
    assert (nginx.taken / film.name).read_bytes() == film.read_bytes()
    assert [(file["bytes"], file["status"]) for file in report["files"]] == [(BODY_BYTES, 201)]
    assert report["files"][0]["url"].endswith("/up/film%20one.mp4")
    assert all(stats[path]["up_bytes"] > USED_BYTES for path in PATHS), stats
    assert all(path["sent_bytes"] > USED_BYTES and path["samples"][-1][1] > USED_BYTES for path in report["paths"])


def test_acks_of_a_far_path_take_the_near_one(taking, mpq, tmp_path):
    """RTTs of 10 and 200 ms: what nginx sends back over the far link is little, if it may take the near one. Off is the
    default. The uploads are whole both ways."""
    file = tmp_path / "film"
    file.write_bytes(bytes(range(256)) * 40_000)
    back = {}
    for detours in ("", "quic_ack_detours on;"):
        nginx = taking(http=detours)
        with Relay(nginx.port, delay_ms=5) as relay:
            relay.set_delay(PATHS[1], 100)
            run, _ = put(mpq, relay.url("up/film"), file)
            stats = relay.stats()
        assert run.returncode == 0, run.stderr
        assert (nginx.taken / "film").read_bytes() == file.read_bytes()
        assert stats[PATHS[1]]["up_bytes"] > 2_000_000, stats
        # For each byte that came by the far link, and over that link.
        back[detours] = stats[PATHS[1]]["down_bytes"] / stats[PATHS[1]]["up_bytes"]
        nginx.stop()
    assert back["quic_ack_detours on;"] < 0.6 * back[""], back


def test_many_files_at_once(taking, mpq, tmp_path):
    """Streams share the paths, and each file is whole."""
    nginx = taking()
    files = []
    for n in range(40):
        file = tmp_path / f"part-{n}"
        file.write_bytes(bytes([n]) * (n * 7001))
        files.append(file)
    with Relay(nginx.port) as relay:
        run, report = put(mpq, relay.url("up/"), *files, options=["--sched", "ecf"])
    assert run.returncode == 0, run.stderr
    assert len(report["files"]) == len(files)
    for file in files:
        assert (nginx.taken / file.name).read_bytes() == file.read_bytes()


def test_a_path_that_dies_takes_nothing_with_it(taking, mpq, film):
    """Both are needed for some 1.5 s; the server gives one up in the middle."""
    nginx = taking()
    with Relay(nginx.port) as relay:
        client = subprocess.Popen(
            [mpq.binary, "put", "--no-verify", "-q", *(f"--path={path}" for path in PATHS), film, relay.url("up/x")],
            stderr=subprocess.PIPE, text=True)
        nginx.wait_for(lambda: relay.stats().get(PATHS[1], {}).get("up_bytes", 0) > 4 * USED_BYTES, "no second path")
        relay.cut(PATHS[1])
        _, errors = client.communicate(timeout=LIMIT_SECONDS)
    assert client.returncode == 0, errors
    assert (nginx.taken / "x").read_bytes() == film.read_bytes()


def test_a_server_that_takes_nothing(make_nginx, mpq, film):
    """The answer comes before the end of the body, which is not sent then."""
    nginx = make_nginx(server="quic_multipath on; client_max_body_size 64m;")
    run, _ = put(mpq, f"https://127.0.0.1:{nginx.port}/film", film, paths=())
    assert (run.returncode, "status 405" in run.stderr) == (4, True), run.stderr


def test_too_large(make_nginx, mpq, film):
    nginx = make_nginx(server="quic_multipath on; client_max_body_size 1m;", location="dav_methods PUT;")
    with Relay(nginx.port) as relay:
        run, _ = put(mpq, relay.url("film"), film)
        sent = sum(link["up_bytes"] for link in relay.stats().values())
    assert (run.returncode, "status 413" in run.stderr) == (4, True), run.stderr
    # Two links of 1 MB/s each, and less than a second's worth of what is on its way.
    assert sent < BODY_BYTES / 2


def test_a_server_that_dies(taking, mpq, film):
    nginx = taking()
    with Relay(nginx.port) as relay:
        client = subprocess.Popen(
            [mpq.binary, "put", "--no-verify", "-q", "--idle-timeout=2000", film, relay.url("up/x")],
            stderr=subprocess.PIPE, text=True)
        nginx.wait_for(lambda: sum(link["up_bytes"] for link in relay.stats().values()) > USED_BYTES, "no upload")
        nginx.stop()
        _, errors = client.communicate(timeout=LIMIT_SECONDS)
    assert client.returncode == 2, errors
    assert errors.startswith("mpq: ")


def test_a_file_that_shrinks(taking, mpq, film):
    nginx = taking()
    with Relay(nginx.port) as relay:
        client = subprocess.Popen([mpq.binary, "put", "--no-verify", "-q", film, relay.url("up/x")],
                                  stderr=subprocess.PIPE, text=True)
        nginx.wait_for(lambda: sum(link["up_bytes"] for link in relay.stats().values()) > USED_BYTES, "no upload")
        with film.open("r+b") as file:
            file.truncate(USED_BYTES)
        _, errors = client.communicate(timeout=LIMIT_SECONDS)
    assert client.returncode == 6, errors
    assert "it became shorter" in errors
    assert not (nginx.taken / "x").exists()


@pytest.mark.parametrize("words, why", [
    (["/nowhere/at/all"], "cannot read /nowhere/at/all"),
    (["/tmp"], "it is not a file"),
])
def test_mistakes_cost_no_traffic(mpq, words, why):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as server:
        server.bind(("127.0.0.1", 0))
        run, report = put(mpq, f"https://127.0.0.1:{server.getsockname()[1]}/", *words, paths=())
        assert (run.returncode, report) == (6, None)
        assert why in run.stderr
        server.setblocking(False)
        with pytest.raises(BlockingIOError):
            server.recv(1)
