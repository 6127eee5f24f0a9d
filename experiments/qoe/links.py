"""What a link does over time, drawn from a seed: rates, silences and delays as a `schedule` of `mpq sim`.

Only sums, products, exponentials and Python's own generator are used, and what comes out is rounded to kbit/s and ms, so
that a seed means the same everywhere.
"""

import math
import random
from dataclasses import dataclass, field

# Rates below this are silence: a packet would take more than a second.
LEAST_MBPS = 0.02


class LinkError(ValueError):
    """A law that is not known, or lacks a key."""


@dataclass
class Drawn:
    """What was drawn of a link. `rates` are (s, Mbit/s), each until the next; `gaps` and `caps` (from, to) and
    (from, to, Mbit/s) in seconds; `delays` (s, RTT in ms); `losses` (s, share)."""
    rates: list
    gaps: list = field(default_factory=list)
    caps: list = field(default_factory=list)
    delays: list = field(default_factory=list)
    losses: list = field(default_factory=list)

    def rate_at(self, t):
        """Mbit/s, 0 in a gap."""
        if any(begin <= t < end for begin, end in self.gaps):
            return 0.0
        rate = next(mbps for at, mbps in reversed(self.rates) if at <= t)
        return min([rate, *(mbps for begin, end, mbps in self.caps if begin <= t < end)])

    def steps(self):
        """[(s, Mbit/s)] where it changes, 0 for silence."""
        times = {at for at, _ in self.rates}
        times |= {t for gap in self.gaps for t in gap} | {t for begin, end, _ in self.caps for t in (begin, end)}
        found = []
        for t in sorted(times):
            rate = self.rate_at(t)
            rate = 0.0 if rate < LEAST_MBPS else rate
            if not found or rate != found[-1][1]:
                found.append((t, rate))
        return found

    def schedule(self):
        """The same as the simulator takes it, after what holds at 0."""
        words = []
        silent = False
        for t, mbps in self.steps():
            if mbps > 0 and t > 0:
                words.append((t, f"rate={round(mbps * 1000)}kbit"))
            if (mbps == 0) != silent:
                silent = not silent
                words.append((t, "down" if silent else "up"))
        words += [(t, f"delay={round(rtt_ms / 2)}ms") for t, rtt_ms in self.delays if t > 0]
        words += [(t, f"loss={100 * share:.2f}%") for t, share in self.losses if t > 0]
        return ",".join(f"{word}@{round(t * 1000)}ms" for t, word in sorted(words, key=lambda one: one[0]))


def _between(draws, pair):
    low, high = pair
    return draws.uniform(low, high)


def _lognormal(draws, mbps, sd_log, before=None, kept=0.0):
    """A rate with the mean `mbps` whose logarithm has the standard deviation `sd_log`, and its deviation in those.
    `kept` is the correlation with the deviation before."""
    deviation = draws.gauss(0, 1)
    if before is not None:
        deviation = kept * before + math.sqrt(1 - kept * kept) * deviation
    return mbps * math.exp(sd_log * deviation - sd_log * sd_log / 2), deviation


def _rates(law, draws, until_s):
    """(s, Mbit/s) by the law of a link's rate."""
    kind = law["law"]
    if kind == "steady":
        return [(0.0, law["mbps"])]
    if kind == "lognormal":
        kept = math.exp(-law["step_s"] / law["memory_s"])
        rates, t, deviation = [], 0.0, None
        while t < until_s:
            rate, deviation = _lognormal(draws, law["mbps"], law["sd_log"], deviation, kept)
            rates.append((t, rate))
            t += law["step_s"]
        return rates
    raise LinkError(f"rate: there is no law \"{kind}\"; steady and lognormal are")


def _repeated(draws, law, until_s):
    """(from, to) again and again: after so long for so long."""
    t = _between(draws, law["first_s"]) if "first_s" in law else _between(draws, law["after_s"])
    spans = []
    while t < until_s and len(spans) < law.get("times", 1000):
        end = t + _between(draws, law["for_s"])
        spans.append((t, end))
        t = end + _between(draws, law["after_s"])
    return spans


def _fade(drawn, law, draws, until_s):
    """Out of reach and back: the rate falls, nothing comes for a while, and it grows again."""
    t = 0.0
    for _ in range(law.get("times", 1)):
        t += _between(draws, law["after_s"])
        falls, away, grows = (_between(draws, law[key]) for key in ("falls_s", "away_s", "grows_s"))
        full, least = max(mbps for _, mbps in drawn.rates), law["to_mbps"]
        for begin, length, first, last in ((t, falls, full, least), (t + falls + away, grows, least, full)):
            steps = max(1, round(length / 0.5))
            for i in range(steps):
                part = (i + 1) / steps if last < first else i / steps
                mbps = first * (last / first) ** part
                drawn.caps.append((begin + length * i / steps, begin + length * (i + 1) / steps, mbps))
        drawn.gaps.append((t + falls, t + falls + away))
        drawn.losses += [(t + falls / 2, law["loss"]), (t + falls + away + grows / 2, 0.0)]
        t += falls + away + grows
        if t > until_s:
            break


def _slots(drawn, law, draws, until_s):
    """Another satellite in each slot: another rate and another delay, and a moment of nothing between."""
    t = draws.uniform(0, law["every_s"])
    first = True
    while t < until_s:
        rate, _ = _lognormal(draws, law["mbps"], law["sd_log"])
        drawn.caps.append((t, t + law["every_s"], rate))
        drawn.delays.append((t, _between(draws, law["rtt_ms"])))
        gap = _between(draws, law["gap_s"])
        # Handshakes that meet silence are another question.
        if not first or t > 2:
            drawn.gaps.append((t, t + gap))
        first = False
        t += law["every_s"]


def draw(name, link, seed, until_s, together=()):
    """What the link `name` of a scene does for `until_s` seconds with this seed. `together` are gaps of all links."""
    # A generator for each part: a change of one does not move the others.
    parts = {part: random.Random(f"{seed}/{name}/{part}") for part in ("rate", "gaps", "blocks", "fade", "slots")}
    try:
        drawn = Drawn(_rates(link["rate"], parts["rate"], until_s))
        if "gaps" in link:
            drawn.gaps += _repeated(parts["gaps"], link["gaps"], until_s)
        if "blocks" in link:
            drawn.caps += [(*span, link["blocks"]["mbps"]) for span in _repeated(parts["blocks"], link["blocks"], until_s)]
        if "fade" in link:
            _fade(drawn, link["fade"], parts["fade"], until_s)
        if "slots" in link:
            _slots(drawn, link["slots"], parts["slots"], until_s)
    except KeyError as e:
        raise LinkError(f"link {name}: {e} is missing") from e
    drawn.gaps += list(together)
    return drawn


def draw_together(law, seed, until_s):
    """Gaps that all links of a scene have at once."""
    return _repeated(random.Random(f"{seed}/together"), law, until_s)


def mean_mbps(link):
    """What its law says, without gaps, caps and fades."""
    return link["slots"]["mbps"] if "slots" in link else link["rate"]["mbps"]
