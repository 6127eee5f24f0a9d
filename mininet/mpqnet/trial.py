"""One run: `mpq serve` and `mpq get` for each connection, events of links at their times, and what came of it, in
the files and metrics of `mpq sim` (docs/scenarios.md)."""

import contextlib
import csv
import os
import select
import signal
import statistics
import subprocess
import time
from dataclasses import dataclass, field

from . import process, results
from .server import PORT, wait_for_fingerprint

SAMPLE_S = 0.1
GRACE_S = 10   # for a client to report after it was told to end
LEAST_ENDLESS_BYTES = 1 << 36
IP_AND_UDP = 28

FLOW_COLUMNS = ("time_s", "flow", "goodput_mbps", "delivered_bytes")
PATH_COLUMNS = ("time_s", "flow", "path", "goodput_mbps", "sent_bytes", "received_bytes", "lost_packets", "sent_packets",
                "cwnd_bytes", "srtt_ms")


@dataclass
class Client:
    """A flow's processes, and what it reported."""
    flow: object
    server: object = None
    fingerprint: str = ""
    child: object = None
    log: object = None
    began_s: float | None = None
    ended_s: float | None = None
    told: bool = False
    report: results.Get | None = None
    failure: str | None = None
    received: dict = field(default_factory=dict)  # by path: [(s since the run's start, bytes so far)]


class Trial:
    """A run on a Network that stands. `www` is a directory for the files to download, `out` one for logs."""

    def __init__(self, net, mpq, www, out):
        self.net, self.mpq, self.www, self.out = net, mpq, www, out
        self.spec = net.spec
        self.clients = [Client(flow) for flow in self.spec.flows]
        self.simulated_s = 0.0

    def run(self, show):
        """Runs it to its end, tells `show` about every second, and returns why it failed, or None."""
        try:
            for number, client in enumerate(self.clients):
                self._serve(client, PORT + number)
            self._conduct(show)
            for client in self.clients:
                self._collect(client)
        finally:
            for client in self.clients:
                for child in (client.child, client.server):
                    if child:
                        process.stop(child)
                if client.log:
                    client.log.close()
        failures = [f"flow {client.flow.name}: {client.failure}" for client in self.clients if client.failure]
        return "; ".join(failures) or None

    def _transport(self, flow):
        words = ["--cc", flow.cc, "--sched", flow.scheduler, "--idle-timeout", "60000", "--no-grease",
                 "--max-data", flow.flow_control_bytes, "--max-stream-data", flow.flow_control_bytes]
        words += [] if flow.hystart else ["--disable-hystart"]
        words += [] if flow.ack_detours else ["--no-ack-detours"]
        words += [] if flow.ack_frequency else ["--no-ack-frequency"]
        return words + ([] if flow.ecn else ["--no-ecn"])

    def _serve(self, client, port):
        flow = client.flow
        name = _file_of(flow)
        with contextlib.suppress(FileExistsError), open(self.www / name, "xb") as file:
            file.truncate(flow.size_bytes or LEAST_ENDLESS_BYTES)  # sparse: it costs no disk
        address = self.net.servers[flow.paths[0]]
        command = [self.mpq, "serve", self.www, "--quiet", "--grace", 1, "--listen", f"{address}:{port}",
                   "--name", address, *self._transport(flow)]
        client.server = process.start(self.net.server, command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                      stderr=subprocess.PIPE, bufsize=0)
        client.fingerprint = wait_for_fingerprint(client.server)
        client.url = f"https://{address}:{port}/{name}"

    def _start(self, client):
        flow = client.flow
        report = self.out / f"get-{flow.name}.json"
        report.unlink(missing_ok=True)
        command = [self.mpq, "get", client.url, f"--json={report}", "--quiet", "--pin", client.fingerprint,
                   # The handshake is on the first path, however long its round trip is.
                   "-o", os.devnull, "--attempt-delay", "10000", *self._transport(flow)]
        for path in flow.paths:
            command += ["--path", self.net.addresses[path]]
        if len(flow.paths) == 1:
            command.append("--no-multipath")
        client.log = open(self.out / f"get-{flow.name}.log", "wb")
        client.child = process.start(self.net.client, command, stdin=subprocess.DEVNULL, stdout=client.log,
                                     stderr=client.log)

    def _conduct(self, show):
        """Starts, stops and events at their times, until the duration is over or no flow has anything left to do."""
        agenda = [(event.at_s, lambda event=event: self.net.links[event.link].command(event.command))
                  for event in self.spec.events if event.link in self.net.links]
        for client in self.clients:
            agenda.append((client.flow.start_s, lambda client=client: self._start(client)))
            agenda.append((client.flow.stop_s, lambda client=client: self._tell(client)))
        agenda.sort(key=lambda entry: entry[0])
        began = time.monotonic()
        for client in self.clients:
            client.began_s = client.flow.start_s
        now = 0.0
        while now < self.spec.duration_s and not all(client.ended_s is not None for client in self.clients):
            while agenda and agenda[0][0] <= now:
                agenda.pop(0)[1]()
            until = min([now + 1.0, self.spec.duration_s] + [at for at, _ in agenda[:1]])
            self._wait(began + until)
            now = time.monotonic() - began
            for client in self.clients:
                if client.ended_s is None and client.child and client.child.poll() is not None:
                    client.ended_s = now
            show(f"{now:.0f} of {self.spec.duration_s:.0f} s")
        self.simulated_s = min(now, self.spec.duration_s)
        for client in self.clients:
            self._tell(client)

    def _wait(self, until):
        """Until a time, or until a client ends."""
        running = [os.pidfd_open(client.child.pid) for client in self.clients
                   if client.child and client.ended_s is None and client.child.poll() is None]
        try:
            select.select(running, [], [], max(0.0, until - time.monotonic()))
        finally:
            for descriptor in running:
                os.close(descriptor)

    def _tell(self, client):
        """Tells a client to end and report."""
        if client.child and not client.told and client.child.poll() is None:
            client.told = True
            client.child.send_signal(signal.SIGINT)

    def _collect(self, client):
        if not client.child:
            return
        flow = client.flow
        try:
            client.child.wait(GRACE_S)
        except subprocess.TimeoutExpired:
            client.failure = f"mpq get did not end within {GRACE_S} s"
            return
        code = client.child.returncode
        if code != (130 if client.told else 0):
            log = (self.out / f"get-{flow.name}.log").read_text(encoding="utf-8", errors="replace").strip()
            client.failure = f"mpq get ended with {code}: {log.splitlines()[-1] if log else 'it said nothing'}"
            return
        client.report = results.load_get(self.out / f"get-{flow.name}.json", whole=not client.told)
        path_of = {self.net.addresses[name]: name for name in flow.paths}
        client.received = {name: [(client.began_s, 0)] for name in flow.paths}
        for path in client.report.paths:
            name = path_of.get(path.local)
            if name is None:
                raise results.ResultError(f"a path from {path.local}, which is none of {', '.join(path_of)}")
            before = client.received[name][-1][1]  # of an earlier path ID over the same path
            client.received[name] += [(client.began_s + t / 1e3, before + n) for t, n in path.samples]

    def metrics(self):
        """By the names of docs/scenarios.md; those that only the simulator knows are absent."""
        found, total, goodputs = {}, 0.0, []
        for client in self.clients:
            if not client.report:
                continue
            mine = _flow_metrics(client, client.flow.name, self.spec.windows)
            found |= mine
            goodputs.append(mine[f"flow.{client.flow.name}.goodput_mbps"])
            total += goodputs[-1]
        for family in {client.flow.family for client in self.clients if client.flow.family != client.flow.name}:
            found |= _family_metrics(found, family, [c.flow.name for c in self.clients if c.flow.family == family])
        found["total.goodput_mbps"] = total
        if goodputs and any(goodputs):
            found["total.jain"] = _jain(goodputs)
        return found

    def write_series(self):
        """flows.csv and paths.csv. The client does not know what the server sent, lost or allowed itself."""
        with open(self.out / "flows.csv", "w", newline="", encoding="utf-8") as flows, \
                open(self.out / "paths.csv", "w", newline="", encoding="utf-8") as paths:
            flow_rows, path_rows = csv.writer(flows), csv.writer(paths)
            flow_rows.writerow(FLOW_COLUMNS)
            path_rows.writerow(PATH_COLUMNS)
            steps = round(self.simulated_s / SAMPLE_S)
            for step in range(1, steps + 1):
                at, before = step * SAMPLE_S, (step - 1) * SAMPLE_S
                for client in (client for client in self.clients if client.report):
                    got = {name: _at(rows, at) - _at(rows, before) for name, rows in client.received.items()}
                    body = sum(got.values()) * _body_share(client)
                    flow_rows.writerow((f"{at:.6f}", client.flow.name, f"{body * 8e-6 / SAMPLE_S:.6f}", round(body)))
                    for name, count in got.items():
                        path_rows.writerow((f"{at:.6f}", client.flow.name, name, f"{count * 8e-6 / SAMPLE_S:.6f}", "",
                                            round(count), "", "", "", ""))


def _file_of(flow):
    return f"{flow.size_bytes}.bin" if flow.size_bytes else "endless.bin"


def _at(rows, at):
    """The value of a line through (time, value) points at a time, flat outside."""
    if at <= rows[0][0]:
        return rows[0][1]
    for (t0, v0), (t1, v1) in zip(rows, rows[1:], strict=False):
        if at <= t1:
            return v0 + (v1 - v0) * (at - t0) / (t1 - t0) if t1 > t0 else v1
    return rows[-1][1]


def _body_share(client):
    """Body bytes / UDP payload received, of the whole connection."""
    received = sum(rows[-1][1] for rows in client.received.values())
    return client.report.goodput_bps * client.report.seconds / 8 / received if received else 0.0


def _flow_metrics(client, name, windows):
    report, prefix = client.report, f"flow.{name}."
    found = {f"{prefix}goodput_mbps": report.goodput_bps / 1e6,
             f"{prefix}delivered_bytes": round(report.goodput_bps * report.seconds / 8)}
    if client.flow.size_bytes:
        found[f"{prefix}completed"] = 0 if client.told else 1
        if not client.told:
            found[f"{prefix}completion_s"] = report.seconds
    spans = {"": (client.began_s, client.began_s + report.seconds)}
    spans |= {f"window.{window}.": span for window, span in windows.items()}
    for span, (begin, end) in spans.items():
        got = {path: _at(rows, end) - _at(rows, begin) for path, rows in client.received.items()}
        for path, count in got.items():
            found[f"{span}{prefix}path.{path}.goodput_mbps"] = count * 8e-6 / (end - begin)
            found[f"{span}{prefix}path.{path}.share"] = count / sum(got.values()) if sum(got.values()) else 0.0
        if span:
            body = sum(got.values()) * _body_share(client)
            found[f"{span}{prefix}goodput_mbps"] = body * 8e-6 / (end - begin)
            found[f"{span}{prefix}delivered_bytes"] = body
    return found


def _family_metrics(found, family, names):
    """Sums of what is a sum, means of the rest, as mpq sim has them for a flow with a count."""
    merged = {}
    for metric, value in found.items():
        for name in names:
            whole = f"flow.{name}."
            if whole in metric:
                merged.setdefault(metric.replace(whole, f"flow.{family}."), []).append(value)
    sums = ("goodput_mbps", "_bytes", "completed")
    result = {metric: sum(values) if metric.endswith(sums) else statistics.mean(values)
              for metric, values in merged.items()}
    rates = [found[f"flow.{name}.goodput_mbps"] for name in names if f"flow.{name}.goodput_mbps" in found]
    if rates and any(rates):
        result[f"flow.{family}.jain"] = _jain(rates)
    return result


def _jain(values):
    return sum(values) ** 2 / (len(values) * sum(value * value for value in values))
