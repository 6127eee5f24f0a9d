"""Clients that send each datagram once, and what the kernel and the workers hold meanwhile."""
import contextlib
import os
import signal
import time
from pathlib import Path

from aioquic.quic.packet import QuicPacketType, pull_quic_header
from aioquic.buffer import Buffer

from hostile import RawClient, drive, metric


class OnceClient(RawClient):
    """Sends no Initial packet twice before the server has answered: what the server loses stays lost. While `hold` is
    set, nothing leaves, but is kept for later."""

    def __init__(self, *args, **options):
        self.seen, self.held, self.hold, self.sent_at_first = set(), [], False, 0
        super().__init__(*args, mangle=self.once, **options)

    def once(self, flight: list[bytes]) -> list[bytes]:
        out, new = [], set()
        for data in flight:
            if data[0] & 0x80 and not self.quic._handshake_complete:
                header = pull_quic_header(Buffer(data=data), host_cid_length=20)
                key = header.destination_cid, header.token
                if header.packet_type == QuicPacketType.INITIAL:
                    if key in self.seen:
                        continue
                    new.add(key)
            out.append(data)
        self.seen |= new
        self.sent_at_first = self.sent_at_first or len(out)
        if self.hold:
            self.held += out
            return []
        return out

    def release(self) -> None:
        self.hold = False
        for data in self.held:
            self.socket.sendto(data, self.peer)
        self.held = []


def fetch_once(nginx, client: RawClient, path: str = "/hello.txt") -> None:
    """A request whose answer must come."""
    client.status, client.body, client.ended = 0, b"", False
    client.request(path)
    drive([client], lambda c: c.ended)
    assert client.status == 200, nginx.errors()


def waiting_octets(port: int) -> list[int]:
    """What each UDP socket with this port has in its receive queue."""
    return [int(fields[4].split(":")[1], 16)
            for fields in map(str.split, Path("/proc/net/udp").read_text().splitlines()[1:])
            if int(fields[1].split(":")[1], 16) == port]


@contextlib.contextmanager
def stopped(pids):
    """The processes do not run meanwhile."""
    pids = list(pids)
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    try:
        for pid in pids:
            while Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "T":
                time.sleep(0.001)
        yield
    finally:
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)


def settled(nginx, *names: str) -> dict[str, int]:
    """The counters once two readings in a row agree."""
    before = None
    while True:
        now = {name: metric(nginx, f"nginx_quic_{name}_total") for name in names}
        if now == before:
            return now
        before = now
        time.sleep(0.1)
