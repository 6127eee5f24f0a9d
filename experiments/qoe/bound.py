"""What no way to use both links could better: the times of chunks, and what a live viewer misses.

How fast the chunks of a session could have come if both had carried nothing else from the request on is that of a
fluid: bytes with their headers over the sum of the two rates that were drawn, and half of the least RTT for the way of
the request and the way back each. No start-up, no loss: nothing is faster, so it says what part of a wait is the links'.
"""

import bisect

# IP, UDP, QUIC and HTTP/3 around 1350 bytes of a body.
HEADERS = 1.045


class Both:
    """What the links of a scene can carry together with one seed."""

    def __init__(self, scene, seed):
        drawn = scene.drawn(seed)
        times = sorted({t for one in drawn.values() for t, _ in one.steps()})
        self.times, self.rates, self.sums = times, [], [0.0]
        for i, t in enumerate(times):
            self.rates.append(sum(one.rate_at(t) for one in drawn.values()))
            if i + 1 < len(times):
                self.sums.append(self.sums[-1] + self.rates[-1] * (times[i + 1] - t))
        self.rtt_s = min(float(link["rtt"].split()[0]) for link in scene.links.values()) / 1000

    def carried(self, t):
        """Mbit that can have been carried until `t`."""
        i = bisect.bisect_right(self.times, t) - 1
        return self.sums[i] + self.rates[i] * (t - self.times[i])

    def time_s(self, request_s, size_bytes):
        """The least time in which a chunk can come."""
        wanted = self.carried(request_s) + size_bytes * 8 * HEADERS / 1e6
        i = bisect.bisect_left(self.sums, wanted) - 1
        while i + 1 < len(self.times) and self.rates[i] <= 0:
            i += 1
        if self.rates[i] <= 0:
            return float("inf")
        return self.times[i] + (wanted - self.sums[i]) / self.rates[i] - request_s + self.rtt_s

    def missed_s(self, behind_s, piece_s, until_s):
        """What a live viewer misses of what is made until then who is so far behind: when both fall silent, no more than the
        pieces that were made.

        In one silence alone, as who missed something may be further behind in the next. The last piece made before
        `until_s` is waited for, however long a silence that began before lasts.
        """
        most, since = 0.0, None
        for t, rate in zip(self.times, self.rates, strict=True):
            if rate <= 0:
                since = t if since is None and t < until_s else since
            elif since is not None:
                most, since = max(most, t - since - (behind_s - since % piece_s)), None
        return most
