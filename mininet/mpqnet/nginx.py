"""An nginx with HTTP/3, ours or stock, and what its workers use."""

import hashlib
import ssl
import subprocess
import time
from pathlib import Path

from . import process
from .process import CommandError

CONFIGURATION = """
user root;
daemon off;
worker_processes 1;
worker_rlimit_nofile 100000;
pid {folder}/nginx.pid;
error_log {folder}/error.log warn;
events {{ worker_connections 65536; }}
http {{
    access_log off;
    keepalive_requests 1000000000;
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
    server {{
        {listens}
        quic_gso on;
        {options}
        ssl_certificate {certificate}/certificate.pem;
        ssl_certificate_key {certificate}/key.pem;
        root {root};
    }}
}}
"""

# Half of it is the kernel's bookkeeping; the default of 208 KiB loses Initials when many connect at once.
BUFFERS = "rcvbuf=8m sndbuf=8m"


def make_certificate(folder):
    """A self-signed certificate in `folder`, unless one is there."""
    if (folder / "key.pem").exists():
        return
    words = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "30",
             "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1",
             "-keyout", folder / "key.pem", "-out", folder / "certificate.pem"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise CommandError(f"openssl could not make a certificate: {done.stderr.strip()}")


class Nginx:
    """A context manager: inside `with`, nginx with one worker runs in a node's namespace and serves `root`.

    `addresses` are what it listens on, each ADDRESS:PORT; `options` are directives of the server. With `tcp`, a word of
    further parameters of `listen`, such as "multipath", it serves over TCP there, too, by HTTP/2. `fingerprint` is the
    certificate's SHA-256, for `mpq --pin`."""

    def __init__(self, node, program, folder, root, addresses, options="", tcp=None):
        self.node, self.program, self.folder, self.addresses = node, program, Path(folder), addresses
        self.child = self.worker = None
        # What is put before the program, such as valgrind.
        self.wrapper = []
        self.folder.mkdir(parents=True, exist_ok=True)
        make_certificate(self.folder.parent)
        listens = " ".join(f"listen {address} quic reuseport {BUFFERS};" for address in addresses)
        if tcp is not None:
            listens += " http2 on; " + " ".join(f"listen {address} ssl {tcp};" for address in addresses)
        (self.folder / "nginx.conf").write_text(CONFIGURATION.format(
            folder=self.folder, listens=listens, options=options, certificate=self.folder.parent, root=root))
        certificate = (self.folder.parent / "certificate.pem").read_text(encoding="ascii")
        self.fingerprint = hashlib.sha256(ssl.PEM_cert_to_DER_cert(certificate)).hexdigest()

    def __enter__(self):
        self._log = open(self.folder / "stderr.log", "wb")
        self.child = process.start(
            self.node, [*self.wrapper, self.program, "-p", self.folder, "-c", self.folder / "nginx.conf",
                        "-e", self.folder / "error.log"],
            stdin=subprocess.DEVNULL, stdout=self._log, stderr=self._log)
        try:
            self._wait_for_worker()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        process.stop(self.child)
        self._log.close()

    def _wait_for_worker(self, timeout_s=15):
        deadline = time.monotonic() + timeout_s
        while time.monotonic() < deadline and self.child.poll() is None:
            children = Path(f"/proc/{self.child.pid}/task/{self.child.pid}/children")
            # The worker's title changes once it has begun its work.
            for pid in map(int, children.read_text().split()):
                if b"worker process" in Path(f"/proc/{pid}/cmdline").read_bytes():
                    self.worker = pid
                    time.sleep(0.1)
                    return
            time.sleep(0.05)
        said = (self.folder / "stderr.log").read_text(errors="replace").strip()
        raise CommandError(f"{self.program} did not start; it said: {said or 'nothing'}")

    def cpu_seconds(self):
        """User and system time of the worker so far."""
        # clock_getcpuclockid(3) of another process: /proc/PID/stat has hundredths only.
        return time.clock_gettime((~self.worker << 3) | 2)

    def memory_bytes(self, peak=False):
        """Resident memory of the worker: now, or the most since `forget_peak`."""
        key = "VmHWM:" if peak else "VmRSS:"
        for line in Path(f"/proc/{self.worker}/status").read_text().splitlines():
            if line.startswith(key):
                return int(line.split()[1]) * 1024
        raise CommandError(f"the worker {self.worker} of {self.program} is gone; see {self.folder}/error.log")

    def forget_peak(self):
        """Begins anew to look for the most memory."""
        Path(f"/proc/{self.worker}/clear_refs").write_text("5")
