"""A session of a scene in real time: nginx and `mpq play` as processes, over emulated links, by each transport."""

import contextlib
import json
import struct
import subprocess
import sys
import threading
import time
import tomllib
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy

from mpqnet import experiment, mptcp, process, viewing
from mpqnet.nginx import Nginx
from mpqnet.process import CommandError, run
from mpqnet.server import PORT
from mpqnet.topology import DisjointPaths
from mpqnet.units import seconds

from . import origin, scene, sessions
from .sessions import Row

# Time for start and end, on a machine that does much else.
GRACE_S = 60
# TCP waits twice as long after each silence: what ends a session is to be the network, and no timer of the player's.
IDLE_TIMEOUT_MS = 120_000
# As `mpq serve` has it by itself, and what of the kernel's comes next to it.
NGINX = "quic_multipath on; quic_congestion_control sbd-bbr; quic_scheduler ecf; keepalive_timeout 120s;"
TCP_CONTROLLER = "bbr"
# What comes in chunks is passed on as it comes.
ORIGIN_PORT = 8080
FROM_ORIGIN = f"""location ~ [.]m4s$ {{
            proxy_pass http://127.0.0.1:{ORIGIN_PORT};
            proxy_http_version 1.1;
            proxy_set_header Connection "";
            proxy_buffering off;
        }}"""
MPD = "manifest.mpd"
# Of the initialization segment of each level, as `mpq sim` has it by itself: a level that is new costs a request more.
INITIALIZATION_BYTES = 1000
# As many segments of live media have been made when a session begins, as with `mpq sim`.
MADE_SEGMENTS = 30

# QUIC and the links are processes, TCP is in the kernel: a machine that has no time for processes slows the former only. A
# session in which one of a hundred timers was later than this says something about the machine.
LATE_MS = 10


class Lateness:
    """A context manager: how late a timer of 10 ms is in this process, `p99_ms` when it is over."""

    def __enter__(self):
        self._late, self._over, self.p99_ms = [], threading.Event(), None
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()
        return self

    def _watch(self):
        while not self._over.is_set():
            began = time.monotonic()
            time.sleep(0.01)
            self._late.append(time.monotonic() - began - 0.01)

    def __exit__(self, *_):
        self._over.set()
        self._thread.join()
        self.p99_ms = round(1e3 * float(numpy.percentile(self._late, 99)), 3) if self._late else 0.0


def is_late(data):
    """Whether the machine had no time for a session."""
    return data["late_p99_ms"] > LATE_MS


class EmulationError(Exception):
    """A session that could not be run, or was not what was asked for."""


def _count(viewer, content):
    """How many segments there are."""
    made = MADE_SEGMENTS if viewer.is_live else 0
    return made + round(seconds(viewer.dash["length"]) / seconds(content["segment"]))


def make_content(folder, content, viewer):
    """What a viewer watches, in a folder: segments of exactly their rate."""
    folder.mkdir(parents=True, exist_ok=True)
    segment_s, count = seconds(content["segment"]), _count(viewer, content)
    rates = [int(rate.split()[0]) for rate in content["video"]]
    for rate in rates:
        (folder / f"{rate}.m4s").write_bytes(_segment(round(rate * segment_s / 8), _chunks(viewer, content)))
        (folder / f"{rate}.mp4").write_bytes(_box(b"ftyp", INITIALIZATION_BYTES))
        for number in range(1, count + 1):
            with contextlib.suppress(FileExistsError):
                (folder / f"{rate}-{number}.m4s").symlink_to(f"{rate}.m4s")
    if not viewer.is_live:
        (folder / MPD).write_text(_mpd(content, viewer, 'type="static"'), encoding="utf-8")


def _chunks(viewer, content):
    """How many chunks a segment has."""
    if "chunk" not in viewer.dash:
        return 1
    return round(seconds(content["segment"]) / seconds(viewer.dash["chunk"]))


def _box(kind, size):
    """A box of ISO BMFF of so many bytes."""
    return struct.pack(">I4s", size, kind).ljust(size, b"\x5a")


def _segment(size, chunks):
    """A segment of so many bytes: two boxes for each chunk, of which the second is all the rest of it."""
    body = b""
    for kind, (start, end) in zip([b"styp"] + [b"moof"] * (chunks - 1), origin.chunk_bounds(size, chunks), strict=True):
        body += _box(kind, 16) + _box(b"mdat", end - start - 16)
    return body


def _mpd(content, viewer, kind):
    segment_s, count, chunks = seconds(content["segment"]), _count(viewer, content), _chunks(viewer, content)
    offset = f'availabilityTimeOffset="{segment_s - segment_s / chunks:g}" ' if chunks > 1 else ""
    rates = [int(rate.split()[0]) for rate in content["video"]]
    levels = "".join(f'<Representation id="{rate}" bandwidth="{rate}"/>' for rate in rates)
    return ('<?xml version="1.0"?>\n<MPD xmlns="urn:mpeg:dash:schema:mpd:2011" '
            f'{kind} mediaPresentationDuration="PT{count * segment_s:g}S" minBufferTime="PT2S"><Period>'
            f'<AdaptationSet contentType="video" mimeType="video/mp4"><SegmentTemplate timescale="1000" '
            f'duration="{segment_s * 1000:.0f}" {offset}startNumber="1" initialization="$RepresentationID$.mp4" '
            f'media="$RepresentationID$-$Number$.m4s"/>{levels}'
            "</AdaptationSet></Period></MPD>\n")


def _begin_live(file, content, viewer):
    """Writes the MPD of live media of which MADE_SEGMENTS have been made by now, and returns when they began. The later ones are
    there, too, but no player asks for them before their time."""
    began = datetime.now(UTC) - timedelta(seconds=MADE_SEGMENTS * seconds(content["segment"]))
    start = began.isoformat(timespec="milliseconds").replace("+00:00", "Z")
    file.write_text(_mpd(content, viewer, f'type="dynamic" availabilityStartTime="{start}"'), encoding="utf-8")
    return began


@contextlib.contextmanager
def _origin(node, www, began, viewer, content):
    """Within, live media in chunks are there on ORIGIN_PORT of the server, each when it has been made."""
    child = process.start(node, [sys.executable, origin.__file__, www, "--port", ORIGIN_PORT, "--began", began.timestamp(),
                                 "--segment-s", seconds(content["segment"]), "--chunks", _chunks(viewer, content)],
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
    try:
        if not child.stdout.readline():
            raise EmulationError(f"the origin of live media ended with {child.wait()}")
        yield
    finally:
        process.stop(child)


def plan_of(one, seed, content):
    """Links and events of a scene with a seed. Raises ScenarioError for what Mininet cannot express."""
    if one.downloads:
        raise EmulationError(f"{one.name}: other people's downloads are for `mpq sim`")
    tables = tomllib.loads(scene.scenario(one, seed, content, ()))["link"]
    events = [(event.at_s, event.link, event.command) for table in tables for event in experiment.events_of(table)]
    return [experiment.link(table) for table in tables], events


def play(one, seed, viewer, transport, content, programs, www, out, acks_are_rare=True):
    """Plays a session into the folder `out`; returns the report of `mpq play`, with "failed" in place of it if the session did.
    Unless `acks_are_rare`, nginx does not ask for fewer acknowledgments, nor give fewer."""
    links, events = plan_of(one, seed, content)
    out.mkdir(parents=True, exist_ok=True)
    report = out / "play.json"
    report.unlink(missing_ok=True)
    live = viewer.is_live
    mpd = f"{one.name}-{seed}-{transport}.mpd" if live else MPD
    rule = f"fixed:{one.clip}" if viewer.dash["abr"] == "fixed" else viewer.dash["abr"]
    with DisjointPaths(links, "wire", seed=seed, wire=programs["wire"], report=out) as net:
        for host in (net.client, net.server):
            # Where the kernel has another one only, that one is measured; the table says which.
            with contextlib.suppress(CommandError):
                run(host, "sysctl", "-qw", f"net.ipv4.tcp_congestion_control={TCP_CONTROLLER}")
        controller = run(net.server, "sysctl", "-n", "net.ipv4.tcp_congestion_control").strip()
        if transport == "mptcp":
            if why := mptcp.missing():
                raise EmulationError(why)
            mptcp.allow(net)
        addresses = [f"{net.server_address(name)}:{PORT}" for name in net.links]
        options = NGINX if acks_are_rare else f"{NGINX} quic_ack_frequency off;"
        in_chunks = _chunks(viewer, content) > 1
        if in_chunks:
            options += FROM_ORIGIN
        with contextlib.ExitStack() as stack:
            server = stack.enter_context(Nginx(net.server, programs["nginx"], out / "nginx", www, addresses, options,
                                               tcp="multipath" if transport == "mptcp" else ""))
            words = viewing.command(programs["mpq"], net, server, list(net.links), mpd, report, transport)
            words += ["--quiet", "--idle-timeout", IDLE_TIMEOUT_MS, "--abr", rule]
            for option in ("buffer_goal", "buffer_goal_at_top", "target_latency"):
                if option in viewer.dash:
                    words += [f"--{option.replace('_', '-')}", f"{seconds(viewer.dash[option]):g}"]
            if live:
                began = _begin_live(www / mpd, content, viewer)
                if in_chunks:
                    stack.enter_context(_origin(net.server, www, began, viewer, content))
            began_cpu_s = server.cpu_seconds()
            with Lateness() as lateness:
                status = viewing.watch(net, words, events, scene.RUN_S + GRACE_S, out / "play.log")
            cpu_s = server.cpu_seconds() - began_cpu_s
        of = {net.client_address(name): name for name in net.links}
    about = {"controller": controller, "late_p99_ms": lateness.p99_ms, "server_cpu_s": round(cpu_s, 6)}
    said = (out / "play.log").read_text(encoding="utf-8", errors="replace").strip()
    # Wrong options and missing programs are no result.
    if status not in (0, 2):
        raise EmulationError(f"{out}: mpq play ended with {status}: {said}")
    if status == 2 or not report.is_file():
        return {"failed": said} | about
    data = json.loads(report.read_text(encoding="utf-8"))
    if data["transport"]["used"] != transport:
        raise EmulationError(f"{out}: asked for {transport}, but {data['transport']}")
    received = dict.fromkeys(of.values(), 0)
    for path in data["paths"]:
        received[of[path["local"].rpartition(":")[0]]] += path["recv_bytes"]
    return data | {"received": received} | about


def row_of(data, one, seed, viewer, transport, content):
    """The row of a session, as `sessions.load` makes those of `mpq sim`."""
    if "failed" in data:
        return Row(one.name, seed, viewer.name, transport, sessions._lost(viewer, content))
    chunks = tuple((s["start_ms"] / 1e3, (s["end_ms"] - s["start_ms"]) / 1e3, s["bytes"]) for s in data["segments"])
    p50, p95, p99 = numpy.percentile([time for _, time, _ in chunks], [50, 95, 99])
    qoe, received = data["qoe"], data["received"]
    values = {
        "qoe_lin": qoe["qoe_lin"]["per_segment"], "stall_s": data["stall_ms"] / 1e3, "stalls": data["stalls"],
        "startup_s": data["startup_ms"] / 1e3, "bitrate_mbps": data["mean_bitrate_bps"] / 1e6, "switches": data["switches"],
        "top_share": qoe["top_level_fraction"], "chunk_p50_s": p50, "chunk_p95_s": p95, "chunk_p99_s": p99,
        "buffer_s": qoe["buffer_ms"]["p50"] / 1e3, "metered_mb": received.get(one.metered, 0) / 1e6,
        "all_mb": sum(received.values()) / 1e6, "copied_mb": 0.0, "delivered_mb": sum(size for *_, size in chunks) / 1e6,
        "wasted_mb": qoe["wasted_bytes"] / 1e6, "played_s": len(chunks) * seconds(content["segment"])}
    skipped_s, latency = data.get("skipped_ms", 0) / 1e3, data.get("latency", {})
    values |= {"latency_s": latency.get("mean_ms", float("nan")) / 1e3, "latency_p95_s": latency.get("p95_ms", float("nan")) / 1e3,
               "skipped_s": skipped_s, "missed_s": values["stall_s"] + skipped_s}
    return Row(one.name, seed, viewer.name, transport, {name: round(float(values[name]), 6) for name in sessions.METRICS}, chunks)
