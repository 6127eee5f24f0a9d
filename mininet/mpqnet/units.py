"""Quantities as people write them: a number and a unit. A bare number is an error."""

import re
from dataclasses import dataclass

FULL_PACKET = 1500  # IP bytes of a full-size packet

_RATES = {"bit": 1, "kbit": 1e3, "mbit": 1e6, "gbit": 1e9}
_RATES |= {f"{unit}/s": factor for unit, factor in _RATES.items()}
_TIMES = {"us": 1e-6, "ms": 1e-3, "s": 1.0, "min": 60.0}
_SIZES = {"bytes": 1, "kb": 1e3, "mb": 1e6, "gb": 1e9, "kib": 1 << 10, "mib": 1 << 20, "gib": 1 << 30}


class UnitError(ValueError):
    """A quantity that cannot be read; the text says what to write."""


def _quantity(text, units, example):
    if not isinstance(text, str):
        raise UnitError(f'{text!r} has no unit: write it in quotes with one of {", ".join(units)}, '
                        f'for example "{example}"')
    match = re.fullmatch(r"\s*([0-9]*\.?[0-9]+)\s*([A-Za-z%/]*)\s*", text)
    if not match:
        raise UnitError(f'"{text}": expected a number and a unit ({", ".join(units)}), for example "{example}"')
    number, unit = match.groups()
    if not unit:
        raise UnitError(f'"{text}": the unit is missing; use one of {", ".join(units)}, for example "{example}"')
    if unit.lower() not in units:
        raise UnitError(f'"{text}": unknown unit "{unit}"; use one of {", ".join(units)}, for example "{example}"')
    return float(number) * units[unit.lower()]


def rate_bps(text):
    """Bits per second of "12mbit"."""
    rate = round(_quantity(text, _RATES, "12mbit"))
    if rate < 1:
        raise UnitError(f'"{text}": a rate is at least 1bit')
    return rate


def seconds(text):
    """Seconds of "10ms"."""
    return _quantity(text, _TIMES, "10ms")


def probability(text):
    """A probability from 0 to 1 of "0.5%"."""
    value = _quantity(text, {"%": 0.01}, "0.5%")
    if value > 1:
        raise UnitError(f'"{text}": a probability is at most 100%')
    return value


def size_bytes(text):
    """Bytes of "20mb" (10^6)."""
    return round(_quantity(text, _SIZES, "20mb"))


@dataclass(frozen=True)
class Queue:
    """A drop-tail limit: exactly one of the two is set."""
    packets: int | None = None
    bytes: int | None = None


def queue(text, rate, rtt):
    """The limit that "50packets", "30kb", "1bdp", "1bdp:rtt=20ms" or "100ms" means at a rate (bit/s) and RTT (s)."""
    if isinstance(text, str) and (match := re.fullmatch(r"(.*bdp)\s*:\s*rtt=(.*)", text.strip(), re.IGNORECASE)):
        text, rtt = match[1], seconds(match[2])
    units = {"packets": 1, "packet": 1, "bytes": 1, "kb": 1e3, "mb": 1e6, "bdp": rate * rtt / 8,
             "us": rate / 8e6, "ms": rate / 8e3, "s": rate / 8}
    value = _quantity(text, units, "1bdp")
    if text.strip().lower().endswith(("packets", "packet")):
        if value < 1:
            raise UnitError(f'"{text}": a queue holds at least 1packets')
        return Queue(packets=round(value))
    return Queue(bytes=max(round(value), FULL_PACKET))
