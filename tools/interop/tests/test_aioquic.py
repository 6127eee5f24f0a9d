"""aioquic, which knows HTTP/3 and not multipath, against `mpq serve` with multipath on.

A server that sent it any multipath frame would be told FRAME_ENCODING_ERROR.
"""
import asyncio
import datetime
import hashlib
import os
import random
import subprocess
import sys
import threading
from dataclasses import dataclass
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

INTEROP = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(INTEROP))

from aioquic_get import connection  # noqa: E402  needs the line above

# A hang is a failure, and slowness is none: on an idle machine nothing takes a tenth of this.
LIMIT_SECONDS = 180

FILE = random.Random(10069).randbytes(1_000_000)


@dataclass
class Server:
    url: str
    ca: str

    def talk(self, conversation):
        """Run a coroutine function on a new connection."""
        async def talk():
            async with connection(self.url, self.ca) as client:
                return await conversation(client)
        return asyncio.run(asyncio.wait_for(talk(), LIMIT_SECONDS))

    def get(self, path, byte_range=None):
        return self.talk(lambda client: client.get(self.url + path, byte_range))


def mpq() -> str:
    target = Path(os.environ.get("CARGO_TARGET_DIR", INTEROP.parent.parent / "target"))
    binary = target / "debug" / "mpq"
    assert binary.exists(), f"no {binary}: cargo build -p mpq makes it"
    return str(binary)


def make_identity(directory: Path) -> tuple[Path, Path]:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    now = datetime.datetime.now(datetime.timezone.utc)
    day = datetime.timedelta(days=1)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - day)
        .not_valid_after(now + day)
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        .sign(key, hashes.SHA256())
    )
    cert_file, key_file = directory / "cert.pem", directory / "key.pem"
    cert_file.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    key_file.write_bytes(key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    ))
    return cert_file, key_file


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    directory = tmp_path_factory.mktemp("serve")
    (directory / "www").mkdir()
    (directory / "www" / "file.bin").write_bytes(FILE)
    cert, key = make_identity(directory)
    process = subprocess.Popen(
        [mpq(), "serve", directory / "www", "--listen", "127.0.0.1:0",
         "--cert", cert, "--key", key],
        stderr=subprocess.PIPE, text=True,
    )
    try:
        log = []
        for line in process.stderr:
            log.append(line)
            if line.startswith("listening on "):
                break
        assert log and log[-1].startswith("listening on "), f"mpq serve ended: {log}"
        port = log[-1].strip().rpartition(":")[2]
        # Else the access log fills the pipe one day.
        threading.Thread(target=process.stderr.read, daemon=True).start()
        yield Server(f"https://localhost:{port}", str(cert))
    finally:
        process.kill()
        process.wait()


def test_file(server):
    response = server.get("/file.bin")
    assert response.status == 200
    assert response.headers["content-length"] == str(len(FILE))
    assert response.sha256 == hashlib.sha256(FILE).hexdigest()


def test_no_such_file(server):
    assert server.get("/nothing.bin").status == 404


@pytest.mark.parametrize("byte_range, first, last", [
    ("1000-1999", 1000, 1999),
    ("999999-", 999_999, 999_999),
    ("-500", 999_500, 999_999),
])
def test_range(server, byte_range, first, last):
    response = server.get("/file.bin", byte_range)
    assert response.status == 206
    assert response.headers["content-range"] == f"bytes {first}-{last}/{len(FILE)}"
    assert response.body == FILE[first:last + 1]


def test_range_beyond_the_end(server):
    assert server.get("/file.bin", "1000000-").status == 416


def test_key_updates_between_requests(server):
    async def conversation(client):
        responses = []
        for _ in range(3):
            responses.append(await client.get(server.url + "/file.bin"))
            client.request_key_update()
            await client.ping()
        return responses

    for response in server.talk(conversation):
        assert response.body == FILE


def test_requests_at_the_same_time(server):
    async def conversation(client):
        url = server.url + "/file.bin"
        return await asyncio.gather(*(client.get(url, f"{n}-") for n in range(8)))

    for n, response in enumerate(server.talk(conversation)):
        assert response.body == FILE[n:]


def test_a_new_connection_id_between_requests(server):
    async def conversation(client):
        await client.get(server.url + "/file.bin")
        client.change_connection_id()
        await client.ping()
        return await client.get(server.url + "/file.bin")

    assert server.talk(conversation).body == FILE


def test_script(server):
    run = subprocess.run(
        [sys.executable, INTEROP / "aioquic_get.py", "--ca", server.ca, server.url + "/file.bin"],
        capture_output=True, text=True, timeout=LIMIT_SECONDS,
    )
    assert run.returncode == 0, run.stderr
    assert hashlib.sha256(FILE).hexdigest() in run.stdout
