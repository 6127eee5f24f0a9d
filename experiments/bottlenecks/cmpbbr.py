"""C-MPBBR (Mahmud, Lubna, Cho, IEEE Access 2020): a subflow shares with those whose bandwidth is nearly its own.

There it is asked once in a gain cycle, of eight round trips. Our BBR is BBRv3, whose cycle is another, so it is asked
every eight min_rtt while the subflow is in ProbeBW, where the cycle is.
"""

from dataclasses import dataclass

CYCLE_RTTS = 8
WITHIN = 0.2
IN_A_ROW = 2


@dataclass(frozen=True)
class Shown:
    """What BBR shows of a subflow."""
    max_bw: float
    min_rtt_s: float
    is_probe_bw: bool


def alike(own, other):
    return abs(other - own) <= WITHIN * own


class Subflow:
    """Whether it takes the other one to share its bottleneck."""

    def __init__(self):
        self.next_s, self.in_a_row = None, 0

    def hear(self, time_s, own, other):
        """What both show at that time, which counts once in a cycle."""
        if not own.is_probe_bw:
            return
        if self.next_s is None:
            self.next_s = time_s + CYCLE_RTTS * own.min_rtt_s
        if time_s >= self.next_s:
            self.next_s = time_s + CYCLE_RTTS * own.min_rtt_s
            self.in_a_row = self.in_a_row + 1 if alike(own.max_bw, other.max_bw) else 0

    @property
    def shares(self):
        return self.in_a_row >= IN_A_ROW


def says(shown):
    """For times and what the two paths show then: the time, and whether both take it that they share."""
    subflows = Subflow(), Subflow()
    for time_s, *both in shown:
        for subflow, own, other in zip(subflows, both, reversed(both), strict=True):
            subflow.hear(time_s, own, other)
        yield time_s, all(subflow.shares for subflow in subflows)
