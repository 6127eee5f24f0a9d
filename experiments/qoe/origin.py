"""An origin of live media in chunks: sends each chunk of a segment when it has been made, as a packager does.

Behind nginx, which passes on what comes. Files are whole in the folder, with as many `mdat` boxes as chunks; who asks for one gets
its first chunk at once if it has been made, else when it is, and so on. Started as a process by `emulated.py`."""

import argparse
import contextlib
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path


class Origin(ThreadingHTTPServer):
    """Serves the segments `NAME-NUMBER.m4s` of `folder`, numbered from 1. `began` is when the first one began to be made, in
    seconds of time.time()."""
    daemon_threads = True

    def __init__(self, address, folder, began, segment_s, chunks):
        super().__init__(address, _Answer)
        self.folder, self.began, self.segment_s, self.chunks = folder, began, segment_s, chunks

    def made_at(self, number, chunk):
        """When a chunk of a segment has been made, both counted from 1."""
        return self.began + (number - 1 + chunk / self.chunks) * self.segment_s


class _Answer(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        origin = self.server
        name = self.path.lstrip("/")
        file = origin.folder / name
        _, _, number = name.removesuffix(".m4s").rpartition("-")
        if "/" in name or not number.isdecimal() or not file.is_file():
            self.send_error(404)
            return
        body = file.read_bytes()
        # Who asked may be gone before the segment is whole.
        with contextlib.suppress(ConnectionError):
            self.send_response(200)
            self.send_header("Content-Type", "video/mp4")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            for chunk, (start, end) in enumerate(chunk_bounds(len(body), origin.chunks), 1):
                time.sleep(max(0.0, origin.made_at(int(number), chunk) - time.time()))
                self.wfile.write(body[start:end])

    def log_message(self, *_):
        pass


def chunk_bounds(size, chunks):
    """(first byte, byte after the last) of each chunk of a segment of `size` bytes: equal but for the last ones."""
    return [(size * i // chunks, size * (i + 1) // chunks) for i in range(chunks)]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--port", type=int, required=True, help="of 127.0.0.1; 0 takes a free one")
    parser.add_argument("--began", type=float, required=True, help="when the first segment began, seconds of Unix time")
    parser.add_argument("--segment-s", type=float, required=True)
    parser.add_argument("--chunks", type=int, required=True, help="of a segment")
    arguments = parser.parse_args()
    with Origin(("127.0.0.1", arguments.port), arguments.folder, arguments.began, arguments.segment_s, arguments.chunks) as origin:
        print(f"listening on 127.0.0.1:{origin.server_port}", flush=True)
        origin.serve_forever()


if __name__ == "__main__":
    sys.exit(main())
