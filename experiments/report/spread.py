"""Medians with confidence intervals, from few values."""

import math
import statistics
from dataclasses import dataclass


@dataclass(frozen=True)
class Spread:
    """Values of one quantity, one from each run."""
    values: tuple[float, ...]

    @property
    def median(self):
        return statistics.median(self.values)

    @property
    def interval(self):
        """(low, high, confidence): between two of the values in order, by no assumption on how they are distributed.

        The median is below the k-th of n values, or above the k-th from the end, with the probability
        2 P(B < k), where B is binomial with n and 1/2. k is the greatest that leaves 95 %; with five values
        or fewer the whole range has less, and the confidence says how much.
        """
        values, n = sorted(self.values), len(self.values)
        outside = [2 * sum(math.comb(n, i) for i in range(k)) / 2**n for k in range(1, n // 2 + 1)]
        k = max((k for k, part in enumerate(outside, 1) if part <= 0.05), default=1)
        return values[k - 1], values[n - k], 1 - (outside[k - 1] if outside else 1.0)

    def __str__(self):
        if len(self.values) == 1:
            return f"{number(self.median)} (n = 1)"
        low, high, confidence = self.interval
        level = "95 %" if confidence >= 0.95 else f"{100 * confidence:.1f} %"
        return f"{number(self.median)} ({level} CI {number(low)} to {number(high)}, n = {len(self.values)})"


def number(value):
    """Three digits that count, more before the point."""
    if value != 0 and abs(value) < 0.001:
        return f"{value:.2e}"
    if abs(value) >= 100:
        return f"{value:.0f}"
    return f"{value:.3g}"
