"""The JSON reports of `mpq play` and `mpq get`, and the summary made of them. All reading of those
formats is here."""

import json
from dataclasses import dataclass
from pathlib import Path


class ResultError(Exception):
    """A report that is missing, incomplete or wrong."""


@dataclass(frozen=True)
class PathUse:
    """What one path carried; `samples` are (ms since the start, bytes received by then)."""
    local: str  # IP address, without the port
    recv_bytes: int
    samples: tuple[tuple[float, int], ...]


@dataclass(frozen=True)
class Play:
    startup_ms: float
    stalls: int
    stall_ms: float
    mean_bitrate_bps: float
    switches: int
    levels: tuple[tuple[float, float], ...]  # (ms when the segment was complete, bit/s of its level)
    buffer: tuple[tuple[float, float], ...]  # (ms, ms of media)
    paths: tuple[PathUse, ...]


@dataclass(frozen=True)
class Get:
    goodput_bps: float
    seconds: float
    bytes: int
    sha256: str
    longest_gap_ms: float  # between deliveries of body bytes, in order, to the application
    paths: tuple[PathUse, ...]


def _load(file, build):
    try:
        return build(json.loads(Path(file).read_text(encoding="utf-8")))
    except OSError as error:
        raise ResultError(f"{file}: no report: {error.strerror}") from error
    except json.JSONDecodeError as error:
        raise ResultError(f"{file}: not valid JSON: {error}") from error
    except (KeyError, IndexError, TypeError, ValueError) as error:
        raise ResultError(f"{file}: not the report expected here: {type(error).__name__} {error}") from error


def _pairs(rows):
    return tuple((float(x), float(y)) for x, y in rows)


def _address(socket_address):
    """The IP address of "10.1.0.1:4433" or "[fd00::1]:4433"."""
    host, colon, _port = socket_address.rpartition(":")
    return (host if colon else socket_address).strip("[]")


def _paths(rows):
    return tuple(
        PathUse(_address(row["local"]), int(row["recv_bytes"]),
                tuple((float(t), int(n)) for t, n in row["samples"]))
        for row in rows
    )


def load_play(file):
    """The report of `mpq play --json`."""
    return _load(file, lambda data: Play(
        startup_ms=float(data["startup_ms"]),
        stalls=int(data["stalls"]),
        stall_ms=float(data["stall_ms"]),
        mean_bitrate_bps=float(data["mean_bitrate_bps"]),
        switches=int(data["switches"]),
        levels=_pairs((row["end_ms"], row["bitrate_bps"]) for row in data["segments"]),
        buffer=_pairs(data["buffer"]),
        paths=_paths(data["paths"]),
    ))


def load_get(file, whole=True):
    """The report of `mpq get --json` for one file; of one that was interrupted if not `whole`: then nothing is known
    about the file."""
    def build(data):
        [downloaded] = data["files"] if whole else [{"bytes": 0, "sha256": "", "longest_gap_ms": 0}]
        return Get(
            goodput_bps=float(data["goodput_bps"]),
            seconds=float(data["seconds"]),
            bytes=int(downloaded["bytes"]),
            sha256=str(downloaded["sha256"]).lower(),
            longest_gap_ms=float(downloaded["longest_gap_ms"]),
            paths=_paths(data["paths"]),
        )
    return _load(file, build)


def bytes_by_link(paths, link_of):
    """Bytes received on each link of `link_of` (local address -> link name), all its paths together."""
    total = dict.fromkeys(link_of.values(), 0)
    for path in paths:
        if path.local not in link_of:
            raise ResultError(f"a path from {path.local}, which is none of {', '.join(link_of)}")
        total[link_of[path.local]] += path.recv_bytes
    return total


def summary(plays, gets, link_of):
    """What summary.json holds: `plays` and `gets` by name of the run."""
    keys = ("startup_ms", "stalls", "stall_ms", "mean_bitrate_bps", "switches")
    return {
        "play": {name: {key: getattr(play, key) for key in keys} for name, play in plays.items()},
        "bulk": {
            name: {"goodput_bps": get.goodput_bps, "seconds": get.seconds,
                   "path_bytes": bytes_by_link(get.paths, link_of)}
            for name, get in gets.items()
        },
    }


def shortfalls(data, together="both"):
    """Where the run over all paths does not beat the better single path: sentences, none if it does."""
    found = []
    for part, key, what in (("play", "mean_bitrate_bps", "mean bitrate of the player"),
                            ("bulk", "goodput_bps", "goodput of the download")):
        best_name, best = max(((name, row[key]) for name, row in data[part].items() if name != together),
                              key=lambda item: item[1])
        value = data[part][together][key]
        if value <= best:
            found.append(f"{what}: {value / 1e6:.2f} Mbit/s over both paths is not more than "
                         f"{best / 1e6:.2f} Mbit/s over {best_name} alone")
    return found


def table(data):
    """The summary as text for a terminal."""
    links = list(next(iter(data["bulk"].values()))["path_bytes"])
    head = ["paths", "startup ms", "stalls", "stall ms", "bitrate Mbit/s", "switches", "goodput Mbit/s"]
    head += [f"{link} MB" for link in links]
    rows = [head]
    for name, play in data["play"].items():
        bulk = data["bulk"][name]
        rows.append([
            name, f"{play['startup_ms']:.0f}", str(play["stalls"]), f"{play['stall_ms']:.0f}",
            f"{play['mean_bitrate_bps'] / 1e6:.2f}", str(play["switches"]), f"{bulk['goodput_bps'] / 1e6:.2f}",
            *(f"{bulk['path_bytes'][link] / 1e6:.1f}" for link in links),
        ])
    widths = [max(len(row[i]) for row in rows) for i in range(len(head))]
    lines = ["  ".join(cell.ljust(width) if i == 0 else cell.rjust(width)
                       for i, (cell, width) in enumerate(zip(row, widths))) for row in rows]
    return "\n".join([lines[0], "-" * len(lines[0]), *lines[1:]])
