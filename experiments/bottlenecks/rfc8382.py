"""RFC 8382: flows are taken to share a bottleneck when statistics of their one-way delays are alike.

Estimates are those of its section 3, with the names and values there. Left out is what section 4 adds: weights within
M (its F), and the removal of oscillations. A flow says nothing before M intervals, 10.5 s, are known; freq_est and the
loss are of the intervals there are until N, 17.5 s.
"""

import math
from collections import deque
from dataclasses import dataclass

T_S = 0.35
N, M = 50, 30
C_S, C_H = 0.1, 0.3
P_S, P_MAD, P_F, P_D, P_V, P_L = 0.15, 0.1, 0.1, 0.1, 0.7, 0.05


@dataclass(frozen=True)
class Interval:
    """What arrived on a path in T: one-way delays, and how many packets were lost of those that were sent."""
    delays: tuple
    lost: int = 0
    sent: int = 0


@dataclass(frozen=True)
class Estimates:
    """skew_est, var_est, freq_est and pkt_loss of a path."""
    skew: float
    var: float
    freq: float
    loss: float


class Statistics:
    """Of one path, from its intervals in their order."""

    def __init__(self):
        self.means, self.bases = deque(maxlen=M), deque(maxlen=M)
        self.crossings, self.losses = deque(maxlen=N), deque(maxlen=N)
        self.side = 0

    def add(self, interval):
        """The estimates after the interval; None as long as nothing has arrived in two."""
        self.losses.append((interval.lost, interval.sent))
        crosses = self._delays(interval.delays) if interval.delays else False
        self.crossings.append(crosses)
        return self._estimates()

    def _delays(self, delays):
        """Takes an interval's delays; returns whether its mean crosses the long-term one."""
        mean = sum(delays) / len(delays)
        # It does not include the interval itself.
        before = sum(self.means) / len(self.means) if self.means else None
        self.means.append(mean)
        # The first has none before it, and counts as even.
        skew = 0 if before is None else sum((delay < before) - (delay > before) for delay in delays)
        self.bases.append((skew, sum(abs(delay - mean) for delay in delays), len(delays)))
        return before is not None and self._crosses(mean - before)

    def _crosses(self, above):
        room = P_V * self._per_sample(1)
        side = (above > room) - (above < -room)
        if side in (0, self.side):
            return False
        crosses, self.side = self.side != 0, side
        return crosses

    def _per_sample(self, which):
        return sum(base[which] for base in self.bases) / sum(base[2] for base in self.bases)

    def _estimates(self):
        if len(self.bases) < 2:
            return None
        lost, sent = (sum(column) for column in zip(*self.losses, strict=True))
        return Estimates(self._per_sample(0), self._per_sample(1), sum(self.crossings) / len(self.crossings),
                         lost / sent if sent else 0.0)


def congested(estimates, before):
    """Whether a path goes through a bottleneck; `before` whether it was taken to do so."""
    return estimates.skew < C_S or (estimates.skew < C_H and before) or estimates.loss > P_L


def alike(a, b):
    """Whether two congested paths stay in one group."""
    if abs(a.freq - b.freq) >= P_F or abs(a.var - b.var) >= P_MAD * max(a.var, b.var):
        return False
    most = max(a.loss, b.loss)
    return abs(a.loss - b.loss) < P_D * most if most > P_L else abs(a.skew - b.skew) < P_S


def says(a, b):
    """For two paths' intervals: after each from M on its time, and whether the paths are one group."""
    paths, before = (Statistics(), Statistics()), [False, False]
    for number, both in enumerate(zip(a, b, strict=True), 1):
        estimates = [path.add(interval) for path, interval in zip(paths, both, strict=True)]
        if number < M:
            continue
        before = [one is not None and congested(one, was) for one, was in zip(estimates, before, strict=True)]
        yield number * T_S, all(before) and alike(*estimates)


def interval_of(since_s):
    """The number of the interval in which something arrives."""
    return math.floor(since_s / T_S + 1e-9)
