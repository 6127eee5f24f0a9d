"""What `ci/profile` can run: each target's work, and what its instructions are counted by."""

from collections.abc import Callable
from dataclasses import dataclass

from . import loopback, nginx
from .nginx import Load

MULTIPATH = "quic_multipath on;"

# One of these is called for each packet that is sealed, by stock nginx and by quiche.
SEALS = ("EVP_AEAD_CTX_seal", "EVP_AEAD_CTX_seal_scatter")


@dataclass(frozen=True)
class Target:
    summary: str
    unit: str
    run: Callable           # of a Programs; returns a Profile and the number of units
    is_stock: bool = False


def packets_sent(profile):
    return max(profile.calls[name] for name in SEALS)


def _nginx(few, many, count, is_stock):
    def run(programs):
        program = programs.native if is_stock else programs.nginx
        profile = nginx.profile(program, programs.h2load, programs.out, few, many, "" if is_stock else MULTIPATH)
        return profile, count(profile)
    return run


def _loopback(is_stock):
    def run(programs):
        return loopback.profile(programs.stock if is_stock else programs.patched, programs.out, 20_000_000, 60_000_000)
    return run


_LOADS = {
    "nginx": ("200 bodies of 1 MB, 4 x 2 streams", "packet sent",
              Load(1_000_000, 4, 2, 8), Load(1_000_000, 4, 2, 208), packets_sent),
    "nginx-stream": ("12 bodies of 16 MB, one after the other", "packet sent",
                     Load(16_000_000, 1, 1, 1), Load(16_000_000, 1, 1, 13), packets_sent),
    "nginx-requests": ("4,000 requests of 1 KB, 10 x 10 streams", "request",
                       Load(1000, 10, 10, 100), Load(1000, 10, 10, 4100), lambda _: 4000),
    "nginx-tiny": ("4,000 requests of 6 octets, 10 x 10 streams", "request",
                   Load(6, 10, 10, 100), Load(6, 10, 10, 4100), lambda _: 4000),
    "nginx-handshakes": ("100 connections with a request of 6 octets each", "connection",
                         Load(6, 10, 1, 10), Load(6, 110, 1, 110), lambda _: 100),
}

TARGETS = {
    name + suffix: Target(f"{'stock nginx' if suffix else 'our nginx'}: {summary}", unit,
                          _nginx(few, many, count, bool(suffix)), bool(suffix))
    for name, (summary, unit, few, many, count) in _LOADS.items()
    for suffix in ("", "-stock")
} | {
    "loopback": Target("both ends of a bulk transfer of 40 MB, our quiche", "datagram of the sender", _loopback(False)),
    "loopback-stock": Target("the same, the published quiche", "datagram of the sender", _loopback(True)),
}
