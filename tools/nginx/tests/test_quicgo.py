"""quic-go fetches from nginx."""
import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from conftest import LIMIT_SECONDS, ROOT

SOURCE = Path(__file__).resolve().parent / "quicgo"


@pytest.fixture(scope="session")
def quicgo() -> Path:
    """The client, of the versions that go.sum pins."""
    # That of the environment first: another may be too old.
    go = shutil.which("go", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    if not go:
        pytest.skip("no Go here to build quic-go's client with: ci/setup nginx installs it")
    program = ROOT / "out/quicgo"
    program.parent.mkdir(exist_ok=True)
    subprocess.run([go, "build", "-mod=readonly", "-o", program, "."], cwd=SOURCE, check=True, timeout=300)
    return program


@pytest.mark.parametrize("directives", ["", "quic_multipath on;", "quic_multipath on; quic_retry on;"])
def test_fetch(make_nginx, quicgo, directives):
    nginx = make_nginx(server=directives)
    names = ["hello.txt", "8m.bin", "1m.bin"]
    done = subprocess.run([quicgo, *(f"https://127.0.0.1:{nginx.port}/{name}" for name in names)],
                          capture_output=True, text=True, timeout=LIMIT_SECONDS)
    assert done.returncode == 0, done.stderr + nginx.errors()
    assert done.stdout.splitlines() == [
        f"HTTP/3.0 200 {hashlib.sha256((nginx.content / 'www' / name).read_bytes()).hexdigest()}" for name in names]


def test_not_found(nginx, quicgo):
    done = subprocess.run([quicgo, f"https://127.0.0.1:{nginx.port}/nothing"], capture_output=True, text=True, timeout=LIMIT_SECONDS)
    assert done.returncode == 0 and done.stdout.startswith("HTTP/3.0 404 "), done
