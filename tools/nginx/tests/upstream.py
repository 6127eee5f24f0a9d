"""Upstreams at Unix sockets, and downloads that end when a test says so: what happens meanwhile does not race with them.

What waits in the kernel for a TCP peer depends on the machine: net.ipv4.tcp_wmem and tcp_rmem allow for megabytes. A
Unix socket holds net.core.wmem_default at most."""
import http.server
import random
import socketserver
import threading

from conftest import LIMIT_SECONDS


class Server(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    daemon_threads = True
    # A Unix socket refuses who does not fit.
    request_queue_size = 64

    def __init__(self, path, handler):
        super().__init__(str(path), handler)
        self.path = path
        # For workers of another user.
        path.chmod(0o666)
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def close(self) -> None:
        self.shutdown()
        self.server_close()
        self.path.unlink()


class Held:
    """Answers with BODY: its beginning at once, then a trickle, so that nobody takes the connection for idle, and the
    rest once it is let go."""

    BODY = random.Random("held").randbytes(3_000_000)
    BEGINNING = 200_000
    # 10 KB/s: it is more than LIMIT_SECONDS take.
    DROP, PAUSE_S = 500, 0.05

    def __init__(self, path):
        self.go = go = threading.Event()

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                self.send_response(200)
                self.send_header("content-length", str(len(Held.BODY)))
                self.end_headers()
                try:
                    self.wfile.write(Held.BODY[:Held.BEGINNING])
                    sent = Held.BEGINNING
                    while not go.wait(Held.PAUSE_S):
                        if sent + Held.DROP < len(Held.BODY):
                            self.wfile.write(Held.BODY[sent:sent + Held.DROP])
                            sent += Held.DROP
                    self.wfile.write(Held.BODY[sent:])
                except (BrokenPipeError, ConnectionResetError):
                    # The client has gone, and nginx with it.
                    pass

            def log_message(self, *_):
                pass
        self.server = Server(path, Handler)
        self.location = (f"location = /held {{ proxy_pass http://unix:{path}; proxy_buffering off; "
                         f"proxy_read_timeout 1h; }}")

    def let_go(self) -> None:
        self.go.set()

    def close(self) -> None:
        self.let_go()
        self.server.close()


class Download(threading.Thread):
    """A download by mpq of what is held, of which something has come: it keeps its worker until it is let go."""

    def __init__(self, mpq, nginx, held: Held, *paths: str, url: str | None = None):
        super().__init__()
        self.held, self.report, self.body = held, {}, b""
        url = url or f"https://127.0.0.1:{nginx.port}/held"
        # What it has to wait for is limited itself.
        self.call = lambda: mpq.get(url, paths=paths, timeout=4 * LIMIT_SECONDS)
        self.start()
        part = mpq.directory / "download.part"
        nginx.wait_for(lambda: (part.exists() and part.stat().st_size > Held.BEGINNING / 2) or not self.is_alive(),
                       "no download begins")
        assert self.is_alive(), "the download failed"

    def run(self):
        self.body, self.report = self.call()

    def is_whole(self) -> bool:
        """Lets it go."""
        self.held.let_go()
        self.join(LIMIT_SECONDS)
        return self.body == Held.BODY
