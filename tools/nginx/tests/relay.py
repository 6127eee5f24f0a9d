"""Links of a fixed rate between clients and an nginx, one for each client address.

Over loopback alone, how much the first path carries before the second is open depends on the processor."""
import json
import subprocess

from conftest import TARGET, binary

# Of each link. Every processor can fill it, and 3 MB take a second and more over three of them.
BYTES_PER_SECOND = 1_000_000


class Relay:
    """Carries what clients send to `host` and `port` to the server at `server_port`. `routes` names another address of
    the server for a client's address; the server sees the clients' addresses, with other ports."""

    def __init__(self, server_port: int, server: str = "127.0.0.1", host: str = "127.0.0.9",
                 bytes_per_second: int = BYTES_PER_SECOND, routes: dict[str, str] | None = None, delay_ms: int = 0):
        program = binary("MPQ_RELAY", TARGET / "release/mpq-relay", TARGET / "debug/mpq-relay")
        self.host = host
        self.process = subprocess.Popen(
            [program, f"--bind={host}:0", f"--server={server}:{server_port}", f"--rate={bytes_per_second}",
             f"--delay={delay_ms}",
             *(f"--route={client}={other}:{server_port}" for client, other in (routes or {}).items())],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        line = self.process.stdout.readline()
        assert line, "mpq-relay did not start"
        self.port = int(line.rpartition(":")[2])

    def stats(self) -> dict[str, dict[str, int]]:
        """For each client address: up_bytes and down_bytes delivered, and dropped datagrams."""
        self.process.stdin.write("stats\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def cut(self, client: str) -> None:
        """Nothing more passes for a client's address."""
        self.process.stdin.write(f"cut {client}\n")
        self.process.stdin.flush()

    def set_rate(self, client: str, bytes_per_second: int) -> None:
        """Of a client address's link, each way."""
        self.process.stdin.write(f"rate {client} {bytes_per_second}\n")
        self.process.stdin.flush()

    def set_delay(self, client: str, delay_ms: int) -> None:
        """Of a client address's link, each way."""
        self.process.stdin.write(f"delay {client} {delay_ms}\n")
        self.process.stdin.flush()

    def url(self, path: str) -> str:
        return f"https://{self.host}:{self.port}/{path}"

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.stdin.close()
            self.process.wait()
        self.process.stdout.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()
