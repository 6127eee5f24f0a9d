"""What nginx's documentation says about HTTP/3 and QUIC, side by side with nginx's own QUIC; test_changes.py does so for
its change log.

Each case is a configuration and what a client sees of it. Both nginx and the stock one, which `tools/nginx/build
--stock` makes from the same source, must come to the same. Cases of `DIFFERENT` do not, and say why."""
import asyncio
import contextlib
import re
import signal
import socket
import subprocess
import time
from pathlib import Path

import pytest

import conftest
import h3
import hostile
from conftest import LIMIT_SECONDS, ROOT, Nginx, free_port

STOCK = ROOT / "out/nginx-stock/install/sbin/nginx"


@pytest.fixture(scope="session")
def stock() -> str:
    """nginx with its own QUIC, on the same BoringSSL; built once."""
    if not STOCK.exists():
        subprocess.run([ROOT / "tools/nginx/build", "--stock"], check=True)
    return str(STOCK)


class Either(Nginx):
    """A server with one of the two binaries, and only what both know in its configuration."""

    def __init__(self, binary: str, *arguments):
        super().__init__(*arguments)
        self.binary = binary

    @contextlib.contextmanager
    def chosen(self):
        ours, conftest.NGINX = conftest.NGINX, self.binary
        try:
            yield
        finally:
            conftest.NGINX = ours

    def write(self, *, listen="127.0.0.1:{port} quic reuseport", main="", events="worker_connections 4096;", http="",
              server="", servers="", tls=True) -> None:
        values = {"port": self.port, "directory": self.directory, "content": self.content}

        def fill(text):
            return re.sub(r"\{(port|directory|content)\}", lambda match: str(values[match[1]]), text)
        certificate = "ssl_certificate {content}/server.pem; ssl_certificate_key {content}/server.key;" if tls else ""
        self.config.write_text(fill("""
daemon off;
worker_processes 1;
pid {directory}/nginx.pid;
error_log {directory}/logs/error.log info;
""" + main + """
events { """ + events + """ }
http {
    access_log {directory}/logs/access.log;
    client_body_temp_path {directory}/body;
    proxy_temp_path {directory}/proxy;
    fastcgi_temp_path {directory}/fastcgi;
    uwsgi_temp_path {directory}/uwsgi;
    scgi_temp_path {directory}/scgi;
    """ + http + """
    server {
        listen """ + listen + """;
        server_name localhost;
        """ + certificate + """
        root {content}/www;
        """ + server + """
    }
    """ + servers + """
}
"""))

    def start(self) -> None:
        with self.chosen():
            super().start()

    def test(self):
        with self.chosen():
            return super().test()


@pytest.fixture
def both(base, content, stock):
    """Runs a case on ours, then on the stock one; returns what each came to."""
    def run(configuration: dict, see, start: bool = True):
        results = []
        for binary in (conftest.NGINX, stock):
            directory = Path(conftest.tempfile.mkdtemp(prefix="parity-", dir=base))
            directory.chmod(0o755)
            server = Either(binary, directory, content, free_port())
            server.write(**configuration)
            # Each is stopped, also if another one had something to complain about.
            stack.callback(server.stop)
            if start:
                server.start()
            results.append(see(server))
        return results

    with contextlib.ExitStack() as stack:
        yield run


# What clients see.

def get(*requests, connection=None, **options):
    """Requests in a row on one connection: status, chosen headers and the body's beginning of each."""
    def see(server):
        async def conversation():
            seen = []
            async with h3.connection(server.port, **(connection or {})) as client:
                for path in requests:
                    try:
                        answer = await client.request(path, **options)
                        seen.append((answer.status, answer.headers.get("x-seen"), answer.body[:60]))
                    except ConnectionError as error:
                        seen.append(str(error))
            return seen
        try:
            return h3.run(conversation())
        except ConnectionError as error:
            return str(error)
    return see


def show(*variables) -> str:
    return 'add_header x-seen "' + "|".join(variables) + '" always;'


def mask(pattern: str, see):
    """With what cannot be equal, such as ports and times, replaced if it has the right form."""
    def masked(server):
        return re.sub(pattern, "#", repr(see(server)))
    return masked


def closes(server):
    """The error code with which the server closes."""
    client = hostile.RawClient(server.port)
    hostile.drive([client], lambda client: client.quic._close_event)
    event = client.quic._close_event
    return event.error_code, event.frame_type is None


def log_line(path: str, file: str = "seen.log"):
    """The last line that a request leaves in a log of its own."""
    def see(server):
        h3.fetch(server.port, path)
        log = server.directory / "logs" / file
        server.wait_for(lambda: log.exists() and log.read_text(), "no line in the log")
        return log.read_text().splitlines()[-1]
    return see


def log_format(*variables) -> str:
    return "log_format seen '" + "|".join(variables) + "';"


LOG = "access_log {directory}/logs/seen.log seen;"


def parameters(server):
    """The transport parameters that a directive decides, as the client sees them."""
    client = hostile.RawClient(server.port)
    hostile.drive([client], lambda client: client.quic._handshake_complete)
    quic = client.quic
    return {
        "streams": quic._remote_max_streams_bidi, "uni": quic._remote_max_streams_uni,
        "stream data": quic._remote_max_stream_data_bidi_remote, "data": quic._remote_max_data,
        "ids": quic._remote_active_connection_id_limit, "idle": quic._remote_max_idle_timeout,
    }


def resumed(server):
    """A second connection with the ticket of the first, with 0-RTT if that is allowed."""
    tickets = []

    async def one(**options):
        async with h3.connection(server.port, tickets=tickets, wait_connected=False, **options) as client:
            answer = await client.request("/hello.txt")
            # A ticket comes before the answer to one who comes later.
            await client.request("/hello.txt")
            return answer.headers.get("x-seen")
    first = h3.run(one())
    return first, h3.run(one(session_ticket=tickets[-1])) if tickets else "no ticket"


def retries(**options):
    """Whether a client meets a Retry, and comes through."""
    def see(server):
        client = hostile.RawClient(server.port, **options)
        client.request("/hello.txt")
        hostile.drive([client], lambda client: client.ended or client.quic._close_event)
        event = client.quic._close_event
        return bool(client.quic._retry_source_connection_id), client.status, event and event.error_code
    return see


def token_of_first(server):
    """A token from one connection spares the next one the Retry."""
    tokens = []

    async def one():
        async with h3.connection(server.port, tokens=tokens) as client:
            # What is sent after the handshake comes before the second answer.
            for _ in range(2):
                await client.request("/hello.txt")
    h3.run(one())
    return len(tokens), retries(token=tokens[0])(server) if tokens else None


def migrated(path):
    """The first of three requests and the last: in between, the client moves to another address. The one that moves
    with it still counts as of the address before, with either."""
    def see(server):
        async def conversation():
            async with h3.connection(server.port) as client:
                first = await client.request(path)
                await h3.rebind(client, "127.0.0.5")
                await client.request("/other")
                last = await client.request(path)
                return [(answer.status, answer.headers.get("x-seen")) for answer in (first, last)]
        return h3.run(conversation())
    return see


def upload(size, **options):
    def see(server):
        answer = h3.fetch(server.port, "/upload", method="POST", body=bytes(size), **options)
        return answer.status, answer.headers.get("x-seen")
    return see


def limited(path, count):
    """So many requests at once on one connection: how many of each status."""
    def see(server):
        async def conversation():
            async with h3.connection(server.port) as client:
                answers = await asyncio.gather(*(client.request(path) for _ in range(count)))
                return sorted(answer.status for answer in answers)
        return h3.run(conversation())
    return see


def connections_at_once(path, count):
    """One request under way on each of so many connections, for longer than anything is waited for: how many of each
    status."""
    def see(server):
        clients = [hostile.RawClient(server.port) for _ in range(count)]
        statuses = []
        for client in clients:
            client.request(path)
            hostile.drive([client], lambda client: client.status)
            statuses.append(client.status)
        for client in clients:
            client.quic.close()
            client.transmit()
        return statuses
    return see


def version_negotiation(server):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        s.settimeout(LIMIT_SECONDS)
        s.connect(("127.0.0.1", server.port))
        head = b"\xc0\x1a\x2a\x3a\x4a\x08destinat\x04from"
        s.send(head + bytes(1200 - len(head)))
        answer = s.recv(1500)
        # Of the first octet, only the first bit has a meaning.
        return answer[0] & 0x80, answer[1:23]


def answers(port: int, *items: bytes) -> list[bytes]:
    """What comes back for datagrams, each from a port of its own, before the answer to a request that comes later."""
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM)) for _ in items]
        for s, item in zip(sockets, items):
            s.connect(("127.0.0.1", port))
            s.send(item)
        h3.fetch(port, "/hello.txt")
        return [answered(s) for s in sockets]


def answered(s: socket.socket) -> bytes:
    """The next datagram that has come, or nothing."""
    s.setblocking(False)
    try:
        return s.recv(65535)
    except BlockingIOError:
        return b""


def stateless_reset(size):
    def see(server):
        answer, = answers(server.port, b"\x41" + bytes(range(20)) + bytes(size - 21))
        return answer and (answer[0] & 0xc0, answer[-16:].hex(), 21 <= len(answer) < size) or "nothing"
    return see


def checked(server):
    """Whether `nginx -t` accepts the configuration, and what it names if it does not."""
    run = server.test()
    return run.returncode, re.findall(r'"\w+" directive|invalid (?:value|number)|duplicate', run.stderr)


def idle_connections(count):
    """One request on each of many connections that stay open: statuses, and how many were closed to make room."""
    def see(server):
        clients, statuses = [], []
        for _ in range(count):
            client = hostile.RawClient(server.port)
            client.request("/hello.txt")
            clients.append(client)
            hostile.drive([client], lambda client: client.ended or client.quic._close_event)
            statuses.append(client.status)
            hostile.until_quiet(clients)
        return statuses.count(200), sum(client.quic._close_event is not None for client in clients) > 0
    return see


def closed_when_idle(path="/hello.txt", age=0):
    """How an idle connection is closed after its request, which comes when the connection is `age` seconds old."""
    def see(server):
        client = hostile.RawClient(server.port)
        hostile.drive([client], lambda client: client.quic._handshake_complete)
        # The client's own idle timeout, which nginx sets by the same directive, is not to be first, however busy the machine is.
        client.quic._remote_max_idle_timeout = None
        client.quic._close_at += 2 * LIMIT_SECONDS
        time.sleep(age)
        client.request(path)
        hostile.drive([client], lambda client: client.ended)
        hostile.drive([client], lambda client: client.quic._close_event)
        return client.status, client.quic._close_event.error_code
    return see


def answered_after(seconds):
    """Whether a connection that has been idle for so long takes another request."""
    def see(server):
        client = hostile.RawClient(server.port)
        for wait in (0, seconds):
            hostile.pause([client], wait)
            client.status, client.ended = 0, False
            client.request("/hello.txt")
            hostile.drive([client], lambda client: client.ended or client.quic._close_event)
        return client.status
    return see


def requests_until_close(count):
    """How many requests in a row are answered on one connection, and how it is closed."""
    def see(server):
        client, answered = hostile.RawClient(server.port), 0
        for _ in range(count):
            client.status, client.ended, client.was_reset = 0, False, False
            client.request("/hello.txt")
            hostile.drive([client], lambda client: client.ended or client.was_reset or client.quic._close_event)
            answered += client.status == 200
        hostile.drive([client], lambda client: client.quic._close_event)
        return answered, client.quic._close_event.error_code
    return see


def certificate_of(name):
    def see(server):
        async def conversation():
            async with h3.connection(server.port, name=name) as client:
                answer = await client.request("/hello.txt")
                return answer.headers.get("x-seen"), client.quic.tls._peer_certificate.subject.rfc4514_string()
        return h3.run(conversation())
    return see


def alpn(*protocols):
    """Which of the offered protocols is chosen, or the error."""
    def see(server):
        quic = hostile.QuicConnection(configuration=hostile.QuicConfiguration(
            is_client=True, alpn_protocols=list(protocols), server_name="localhost",
            verify_mode=hostile.ssl.CERT_NONE))
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
            s.settimeout(0.05)
            quic.connect(("127.0.0.1", server.port), now=time.monotonic())
            end = time.monotonic() + LIMIT_SECONDS
            while time.monotonic() < end and not (quic._handshake_complete or quic._close_event):
                for data, _ in quic.datagrams_to_send(now=time.monotonic()):
                    s.sendto(data, ("127.0.0.1", server.port))
                with contextlib.suppress(TimeoutError):
                    quic.receive_datagram(s.recv(65535), ("127.0.0.1", server.port), now=time.monotonic())
        return quic.tls.alpn_negotiated, quic._close_event and quic._close_event.error_code
    return see


def graceful_quit(server):
    """A request under way when nginx is told to quit is finished; a new client is not served."""
    async def conversation():
        async with h3.connection(server.port, max_stream_data=65536) as client:
            # The window stays as it is until nginx has begun to quit.
            client.quic._write_stream_limits = lambda **_: None
            stream = await client.begin("/1m.bin")
            server.master.send_signal(signal.SIGQUIT)
            server.wait_for(lambda: server.workers("is shutting down"), "it does not quit")
            del client.quic._write_stream_limits
            await client.ping()
            return len((await client.waiters[stream]).body)
    size = h3.run(conversation())
    return size, server.master.wait(LIMIT_SECONDS)


OTHER = """server { listen 127.0.0.1:{port} quic; server_name other.test; ssl_certificate {content}/other.pem;
           ssl_certificate_key {content}/other.key; root {content}/www; """ + show("other") + "}"
TLS_VARIABLES = ["$ssl_protocol", "$ssl_cipher", "$ssl_ciphers", "$ssl_curve", "$ssl_server_name",
                 "$ssl_session_reused", "$ssl_client_verify", "$ssl_alpn_protocol"]

# name: (configuration, what to see)
CASES = {
    # ngx_http_v3_module: directives
    "http3 on": (dict(server="http3 on;"), get("/hello.txt")),
    "http3 default": (dict(), get("/hello.txt")),
    "http3 off": (dict(server="http3 off;"), closes),
    "http3_hq": (dict(server="http3_hq on; http3 off;"), alpn("hq-interop")),
    "http3 and http3_hq": (dict(server="http3_hq on;"), alpn("hq-interop", "h3")),
    "http3 without hq": (dict(), alpn("hq-interop")),
    "unknown protocol": (dict(), alpn("nothing")),
    "http3_max_concurrent_streams default": (dict(), parameters),
    "http3_max_concurrent_streams 7": (dict(server="http3_max_concurrent_streams 7;"), parameters),
    "http3_stream_buffer_size 128k": (dict(server="http3_stream_buffer_size 128k;"), parameters),
    "http3_stream_buffer_size small": (dict(server="http3_stream_buffer_size 4k;"), get("/8m.bin")),
    "quic_active_connection_id_limit 5": (dict(server="quic_active_connection_id_limit 5;"), parameters),
    "quic_gso on": (dict(server="quic_gso on;"), get("/8m.bin", "/1m.bin")),
    "quic_bpf off": (dict(main="quic_bpf off;"), get("/hello.txt")),
    "quic_retry on": (dict(server="quic_retry on;"), retries()),
    "quic_retry off": (dict(server="quic_retry off;"), retries()),
    "quic_retry default": (dict(), retries()),
    "quic_retry on, token": (dict(server="quic_retry on;"), token_of_first),
    "quic_retry off, token": (dict(server="quic_retry off;"), token_of_first),
    "quic_host_key": (dict(server="quic_host_key {content}/server.key;"), get("/hello.txt")),
    # $http3
    "$http3": (dict(server=show("$http3", "$http2")), get("/hello.txt")),
    "$http3 hq": (dict(http=log_format("$http3", "$status"), server=LOG), log_line("/hello.txt")),
    # what `nginx -t` says
    "mistake http3": (dict(server="http3 maybe;"), checked),
    "mistake http3_hq": (dict(server="http3_hq maybe;"), checked),
    "mistake http3_max_concurrent_streams": (dict(server="http3_max_concurrent_streams many;"), checked),
    "mistake http3_stream_buffer_size": (dict(server="http3_stream_buffer_size much;"), checked),
    "mistake quic_gso": (dict(server="quic_gso maybe;"), checked),
    "mistake quic_bpf": (dict(main="quic_bpf maybe;"), checked),
    "mistake quic_retry": (dict(server="quic_retry maybe;"), checked),
    "mistake quic_retry twice": (dict(server="quic_retry on; quic_retry on;"), checked),
    "mistake quic_host_key": (dict(server="quic_host_key /nonexistent;"), checked),
    "mistake quic with ssl": (dict(listen="127.0.0.1:{port} quic ssl"), checked),
    "mistake quic with http2": (dict(listen="127.0.0.1:{port} quic http2"), checked),
    "mistake quic with proxy_protocol": (dict(listen="127.0.0.1:{port} quic proxy_protocol"), checked),
    "mistake quic without certificate": (dict(tls=False), checked),
    "mistake quic without TLS 1.3": (dict(server="ssl_protocols TLSv1.2;"), checked),
    # listen
    "listen wildcard": (dict(listen="{port} quic reuseport"), get("/1m.bin")),
    "listen without reuseport": (dict(listen="127.0.0.1:{port} quic"), get("/1m.bin")),
    "listen with buffers": (dict(listen="127.0.0.1:{port} quic reuseport rcvbuf=1m sndbuf=1m"), get("/1m.bin")),
    "listen IPv6": (dict(listen="[::1]:{port} quic reuseport", server=show("$remote_addr", "$server_addr")),
                    get("/hello.txt", connection=dict(host="::1"))),
    # TLS
    "TLS variables": (dict(server=show(*TLS_VARIABLES)), get("/hello.txt")),
    "$https": (dict(server=show("$https", "$scheme", "$server_protocol")), get("/hello.txt")),
    "server name": (dict(servers=OTHER), certificate_of("other.test")),
    "default server": (dict(servers=OTHER), certificate_of("nobody.test")),
    "ssl_reject_handshake": (dict(server="ssl_reject_handshake on;"), closes),
    "ssl_reject_handshake of one": (dict(servers=OTHER.replace("server_name", "ssl_reject_handshake on; server_name")),
                                    certificate_of("localhost")),
    "ssl_early_data on": (dict(server="ssl_early_data on; ssl_session_cache shared:tls:1m;"
                               + show("$ssl_early_data", "$ssl_session_reused")), resumed),
    "ssl_early_data off": (dict(server="ssl_session_cache shared:tls:1m;"
                                + show("$ssl_early_data", "$ssl_session_reused")), resumed),
    "ssl_session_tickets off": (dict(server="ssl_session_tickets off;"
                                     + show("$ssl_early_data", "$ssl_session_reused")), resumed),
    "ssl_verify_client on": (dict(server="ssl_verify_client on; ssl_client_certificate {content}/client.pem;"),
                             get("/hello.txt")),
    "ssl_verify_client optional": (dict(server="ssl_verify_client optional; ssl_client_certificate "
                                        "{content}/client.pem;" + show("$ssl_client_verify")), get("/hello.txt")),
    # addresses
    "addresses": (dict(server=show("$remote_addr", "$server_addr", "$realip_remote_addr")), get("/hello.txt")),
    "ports": (dict(server=show("$remote_port", "$server_port", "$realip_remote_port")),
              mask(r"\b\d{4,5}\b", get("/hello.txt"))),
    "migration": (dict(server=show("$remote_addr")), migrated("/hello.txt")),
    "migration, allow": (dict(server="location / { allow 127.0.0.5; deny all; }"), migrated("/hello.txt")),
    "migration, deny": (dict(server="location / { deny 127.0.0.5; }"), migrated("/hello.txt")),
    "migration, geo": (dict(http="geo $where { default a; 127.0.0.5 b; }", server=show("$where")),
                       migrated("/hello.txt")),
    "migration, limit_req": (dict(http="limit_req_zone $binary_remote_addr zone=z:1m rate=1r/m;",
                                  server="location = /hello.txt { limit_req zone=z; }"), migrated("/hello.txt")),
    "set_real_ip_from": (dict(server="set_real_ip_from 127.0.0.1; real_ip_header x-real; " + show("$remote_addr")),
                         get("/hello.txt", headers={"x-real": "192.0.2.7"})),
    # requests
    "unknown file": (dict(), get("/nothing")),
    "HEAD": (dict(), get("/1m.bin", method="HEAD")),
    "Range": (dict(), get("/1m.bin", headers={"range": "bytes=10-19"})),
    "many requests": (dict(), get(*["/hello.txt"] * 30)),
    "method": (dict(server=show("$request_method", "$request", "$request_uri", "$args", "$host", "$http_host")),
               get("/hello.txt?a=b")),
    "host": (dict(server=show("$host", "$http_host", "$server_name")), get("/hello.txt")),
    "large_client_header_buffers": (dict(server="large_client_header_buffers 4 1k;"),
                                    get("/hello.txt", headers={"x-long": "v" * 3000})),
    "client_max_body_size": (dict(server="client_max_body_size 1k; location = /upload { return 200; }"),
                             upload(5000)),
    "content-length too small": (dict(server="location = /upload { return 200; }"),
                                 upload(5000, headers={"content-length": "10"})),
    "body is discarded": (dict(server="location = /upload { return 204; }"), upload(300_000)),
    "$request_length": (dict(http=log_format("$status", "$body_bytes_sent", "$request_completion"), server=LOG),
                        log_line("/1m.bin")),
    "$connection_requests": (dict(server=show("$connection_requests", "$request_completion")),
                             get("/hello.txt", "/hello.txt", "/hello.txt")),
    "error_page": (dict(server="error_page 404 /hello.txt;"), get("/nothing")),
    "internal redirect": (dict(server="location = /a { rewrite ^ /hello.txt; }"), get("/a")),
    "return": (dict(server="location = /a { return 301 /hello.txt; }" + show("$sent_http_location")), get("/a")),
    "gzip": (dict(server="gzip on; gzip_types *; gzip_min_length 1;" + show("$sent_http_content_encoding")),
             get("/hello.txt", headers={"accept-encoding": "gzip"})),
    # limits
    "keepalive_requests": (dict(server="keepalive_requests 2;"), requests_until_close(4)),
    "keepalive_timeout": (dict(server="keepalive_timeout 1s;"), closed_when_idle()),
    "keepalive_timeout long": (dict(server="keepalive_timeout 60s;"), answered_after(2)),
    "keepalive_time": (dict(server="keepalive_time 100ms;"), closed_when_idle(age=0.5)),
    "limit_conn": (dict(http="limit_conn_zone $binary_remote_addr zone=z:1m;",
                        server="limit_conn z 2; limit_rate 20k;"), connections_at_once("/8m.bin", 4)),
    "limit_conn_dry_run": (dict(http="limit_conn_zone $binary_remote_addr zone=z:1m;",
                                server="limit_conn z 1; limit_conn_dry_run on; limit_rate 20k;"
                                + show("$limit_conn_status")), connections_at_once("/8m.bin", 3)),
    "limit_conn_status": (dict(http="limit_conn_zone $server_name zone=z:1m;",
                               server="limit_conn z 1; limit_conn_status 429; limit_rate 20k;"),
                          connections_at_once("/8m.bin", 3)),
    "limit_req": (dict(http="limit_req_zone $binary_remote_addr zone=z:1m rate=1r/m;",
                       server="limit_req zone=z burst=2 nodelay;"), limited("/hello.txt", 6)),
    "limit_req_status": (dict(http="limit_req_zone $binary_remote_addr zone=z:1m rate=1r/m;",
                              server="limit_req zone=z; limit_req_status 429;" + show("$limit_req_status")),
                         get("/hello.txt", "/hello.txt")),
    "few worker_connections": (dict(events="worker_connections 64;"), idle_connections(30)),
    # the protocol
    "version negotiation": (dict(), version_negotiation),
    "stateless reset, too small": (dict(), stateless_reset(21)),
    "stateless reset": (dict(server="quic_host_key {content}/server.key;"), lambda server:
                        (lambda seen: (seen[0], seen[2]))(stateless_reset(100)(server))),
    "quit": (dict(), graceful_quit),
}

# name: (configuration, what to see, what comes of it here, and with nginx's own QUIC)
DIFFERENT = {
    # RFC 9000, 8.1.3: an unknown token that no Retry can have given is as good as none.
    "unknown token": (dict(server="quic_retry off;"), retries(token=b"from another server"),
                      (False, 200, None), (False, 0, 0x0b)),
    "unknown token, quic_retry on": (dict(server="quic_retry on;"), retries(token=b"from another server"),
                                     (True, 200, None), (False, 0, 0x0b)),
    # RFC 9000, 18.2: a limit below 2 is an error.
    "quic_active_connection_id_limit 1": (dict(server="quic_active_connection_id_limit 1;"),
                                          lambda server: checked(server)[0], 1, 0),
}


def assert_same(both, configuration, see) -> None:
    ours, stocks = both(configuration, see, start=see is not checked)
    assert ours == stocks
    # A case that sees nothing anywhere shows nothing.
    assert ours not in (None, [], "")


@pytest.mark.parametrize("case", CASES)
def test_same_as_stock(both, case):
    assert_same(both, *CASES[case])


@pytest.mark.parametrize("case", DIFFERENT)
def test_different_from_stock(both, case):
    configuration, see, here, there = DIFFERENT[case]
    ours, stocks = both(configuration, see, start="connection_id_limit 1" not in case)
    assert (ours, stocks) == (here, there)


def test_every_directive_is_known(stock):
    """Each name that the stock binary's HTTP/3 module registers is one of a case here."""
    source = ROOT / "out/nginx-stock/nginx/src"
    if not source.exists():
        pytest.skip("the stock source is not there")
    names = set()
    for path in (source / "http/v3/ngx_http_v3_module.c", source / "event/quic/ngx_event_quic_bpf.c"):
        names |= set(re.findall(r'{ ngx_string\("(http3\w*|quic_\w+)"\)', path.read_text()))
    assert {"http3", "quic_retry"} <= names
    described = " ".join(map(repr, [*CASES.items(), *DIFFERENT.items()]))
    assert not {name for name in names if name not in described}
