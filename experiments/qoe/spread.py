"""Intervals by the bootstrap: what a statistic of the same number of seeds would be, drawn from those there are."""

from dataclasses import dataclass

import numpy

DRAWS = 2000


@dataclass(frozen=True)
class Interval:
    """A value, and from where to where it may be."""
    value: float
    low: float
    high: float
    n: int

    def __str__(self):
        return f"{self.value:.3g} ({self.low:.3g} to {self.high:.3g})"


def draws(n):
    """Which of `n` seeds each draw takes: the same for the same n, so that what is compared is drawn alike."""
    return numpy.random.default_rng(n).integers(0, n, size=(DRAWS, n))


def interval(values, confidence=0.95, statistic=numpy.mean):
    """Of a statistic of values, one for each seed."""
    values = numpy.asarray(values, dtype=float)
    drawn = statistic(values[draws(len(values))], axis=1)
    return of_draws(float(statistic(values)), drawn, len(values), confidence)


def of_draws(value, drawn, n, confidence=0.95):
    """Of a value, and what the draws made of it."""
    low, high = numpy.nanpercentile(drawn, [50 - 50 * confidence, 50 + 50 * confidence])
    return Interval(float(value), float(low), float(high), n)


def pooled(groups, quantile):
    """A quantile of all values of groups (one for each seed) together, and of each draw of groups."""
    groups = [numpy.asarray(group, dtype=float) for group in groups]
    whole = float(numpy.percentile(numpy.concatenate(groups), quantile))
    drawn = [float(numpy.percentile(numpy.concatenate([groups[i] for i in one]), quantile)) for one in draws(len(groups))]
    return whole, numpy.array(drawn)
