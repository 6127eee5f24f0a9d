"""Verdicts on the goals of `study.toml`, which says what each means."""

from dataclasses import dataclass

import numpy

from mpqnet.units import seconds

from . import bound, spread


@dataclass(frozen=True)
class Verdict:
    """One goal for one arm. `value` is what is judged, `parts` what it is made of: (words, value)."""
    goal: str
    words: str
    arm: str
    value: spread.Interval
    unit: str
    met: bool | None  # None: said, not judged
    parts: tuple = ()

    @property
    def shown(self):
        scale = 100 if self.unit == "%" else 1
        low, mid, high = (f"{scale * x:.3g}" for x in (self.value.low, self.value.value, self.value.high))
        return f"{mid}{' %' if self.unit == '%' else ''} ({low} to {high}, n = {self.value.n})"


class Judge:
    """Judges sessions."""

    def __init__(self, sessions, scenes, plan):
        self.sessions, self.plan, self.goals = sessions, plan, plan.goals
        self.scenes = [one for one in scenes if any(row.scene == one.name for row in sessions.rows)]
        there = {row.viewer for row in sessions.rows}
        self.viewers, self.live = ([name for name in names if name in there] for names in (self.goals["viewers"], self.goals["live"]["viewers"]))

    def all(self):
        """Every goal for every judged arm."""
        found = []
        for judged in (self.stall_ratio, self.never_worse, self.handover, self.chunk_p99, self.like_xlink, self.copies,
                       self.live_missed_ratio, self.live_never_worse):
            for arm in self.goals["judged"]:
                found += judged(arm)
        return found

    def _time_parts(self, arm, viewers, scenes, metric, from_s, least=None):
        """(words, ratio, drawn ratios, n) for each scene and viewer in which the better path has `from_s` of it.

        In place of what `arm` has, `least(scene, viewer)` of every seed.
        """
        def means(values):
            values = numpy.array(values)
            return values.mean(), values[spread.draws(len(values))].mean(axis=1), len(values)

        for scene in scenes:
            for viewer in viewers:
                better = self.sessions.better(scene.name, viewer, metric)
                base, base_drawn, n = means(self.sessions.values(scene.name, viewer, better, metric))
                if base < from_s:
                    continue
                mine, drawn, _ = means(least(scene, viewer) if least else self.sessions.values(scene.name, viewer, arm, metric))
                with numpy.errstate(divide="ignore", invalid="ignore"):
                    yield f"{scene.name}, {viewer}", mine / base, drawn / base_drawn, n

    def _mean(self, parts):
        """The mean over the parts, with what the draws make of it."""
        words, values, drawn, n = zip(*parts, strict=True)
        drawn = numpy.where(numpy.isfinite(drawn), drawn, numpy.nan)
        whole = spread.of_draws(numpy.mean(values), numpy.nanmean(drawn, axis=0), min(n), self.goals["confidence"])
        return whole, tuple(zip(words, values, strict=True))

    def stall_ratio(self, arm):
        return self._time_ratio("stall_ratio", "stall time", arm, self.viewers, "stall_s", self.goals["stall_ratio"])

    def live_missed_ratio(self, arm):
        goal = self.goals["live"]["missed_ratio"]
        found = self._time_ratio("live_missed_ratio", "live: time stalled or left out", arm, self.live, "missed_s", goal)
        if found:
            value, parts = self._mean(list(self._time_parts(arm, self.live, self.scenes, "missed_s", goal["from_s"], self._least_missed)))
            found.append(Verdict("live_floor", "the same if nothing were missed but while both links are silent", arm, value, "", None,
                                 parts))
        return found

    def _least_missed(self, scene, viewer):
        """What has to be missed with each seed, s."""
        dash = self.plan.viewer(viewer).dash
        piece = dash.get("chunk") or self.plan.content["segment"]
        behind_s, piece_s, until_s = (seconds(text) for text in (dash["target_latency"], piece, dash["length"]))
        seeds = sorted({row.seed for row in self.sessions.rows if row.scene == scene.name and row.viewer == viewer})
        return [bound.Both(scene, seed).missed_s(behind_s, piece_s, until_s) for seed in seeds]

    def _time_ratio(self, name, words, arm, viewers, metric, goal):
        parts = list(self._time_parts(arm, viewers, self.scenes, metric, goal["from_s"]))
        if not parts:
            return []
        value, shown = self._mean(parts)
        return [Verdict(name, f"{words} / the better path's <= {goal['at_most']}, mean of {len(parts)} scenes and viewers", arm, value,
                        "", value.value <= goal["at_most"], shown)]

    def never_worse(self, arm):
        return self._worse("never_worse", "", arm, self.viewers, self.goals["never_worse"]["metrics"])

    def live_never_worse(self, arm):
        return self._worse("live_never_worse", "live: ", arm, self.live, self.goals["live"]["never_worse"]["metrics"])

    def _worse(self, name, about, arm, viewers, metrics):
        worse, parts, n = 0, [], 0
        for scene in self.scenes:
            for viewer in viewers:
                for metric in metrics:
                    better = self.sessions.better(scene.name, viewer, metric)
                    differences = self.sessions.paired(scene.name, viewer, arm, better, metric)
                    found = spread.interval(differences, self.goals["confidence"])
                    n = len(differences)
                    if (found.high < 0) if metric == "qoe_lin" else (found.low > 0):
                        worse += 1
                        parts.append((f"{scene.name}, {viewer}, {metric}: {found}", found.value))
        cases = len(self.scenes) * len(viewers) * len(metrics)
        if not cases:
            return []
        return [Verdict(name, f"{about}of {cases} scenes, viewers and metrics those worse than the better path alone: none", arm,
                        spread.Interval(worse, worse, worse, n), "", worse == 0, tuple(parts))]

    def handover(self, arm):
        scenes = [scene for scene in self.scenes if scene.handover]
        if not scenes:
            return []
        without, parts = [], []
        for scene in scenes:
            for viewer in self.viewers:
                clean = [float(stalls == 0) for stalls in self.sessions.values(scene.name, viewer, arm, "stalls")]
                without.append(clean)
                parts.append((f"{scene.name}, {viewer}", float(numpy.mean(clean))))
        rows = numpy.array(without)
        n = rows.shape[1]
        drawn = rows[:, spread.draws(n)].mean(axis=(0, 2))
        value = spread.of_draws(rows.mean(), drawn, rows.size, self.goals["confidence"])
        at_least = self.goals["handover"]["at_least"]
        return [Verdict("handover", f"sessions without a stall in handover scenes >= {100 * at_least:g} %", arm, value, "%",
                        value.value >= at_least, tuple(parts))]

    def _chunk_parts(self, arm, viewer, scenes):
        for scene in scenes:
            better = self._better_p99(scene.name, viewer)
            mine, theirs = (self._pooled(scene.name, viewer, one) for one in (arm, better))
            n = len(self.sessions.of(scene.name, viewer, arm))
            yield scene.name, mine[0] / theirs[0], mine[1] / theirs[1], n

    def _floor_parts(self, arm, viewer, scenes):
        """The same for what the links could have done at best with the chunks of `arm`."""
        for scene in scenes:
            rows = [row for _, row in sorted(self.sessions.of(scene.name, viewer, arm).items())]
            least = []
            for row in rows:
                both = bound.Both(scene, row.seed)
                least.append([both.time_s(request, size) for request, _, size in row.chunks])
            mine, theirs = spread.pooled(least, 99), self._pooled(scene.name, viewer, self._better_p99(scene.name, viewer))
            yield scene.name, mine[0] / theirs[0], mine[1] / theirs[1], len(rows)

    def _pooled(self, scene, viewer, arm):
        return spread.pooled([row.times for _, row in sorted(self.sessions.of(scene, viewer, arm).items())], 99)

    def _better_p99(self, scene, viewer):
        return min(("first", "second"), key=lambda arm: self.sessions.chunk_p99_s(scene, viewer, arm))

    def chunk_p99(self, arm):
        goal, found = self.goals["chunk_p99"], []
        for viewer in self.viewers:
            value, parts = self._mean(list(self._chunk_parts(arm, viewer, self.scenes)))
            decides = viewer == goal["viewer"]
            words = f"99 % of the {viewer}'s chunks: time / the better path's <= {goal['at_most']}, mean over scenes"
            found.append(Verdict("chunk_p99", words, arm, value, "", value.value <= goal["at_most"] if decides else None, parts))
        value, parts = self._mean(list(self._floor_parts(arm, goal["viewer"], self.scenes)))
        return [*found, Verdict("chunk_floor", "the same if both links had carried nothing but each chunk from its request on", arm,
                                value, "", None, parts)]

    def like_xlink(self, arm):
        goal, scenes = self.goals["like_xlink"], [scene for scene in self.scenes if scene.like_xlink]
        from_s = self.goals["stall_ratio"]["from_s"]
        if not scenes:
            return []
        found = []
        for name, words, parts in (
                ("chunk_p99", "99 % of the chunks", list(self._chunk_parts(arm, goal["viewer"], scenes))),
                ("rebuffer", "rebuffering", list(self._time_parts(arm, [goal["viewer"]], scenes, "stall_s", from_s)))):
            if not parts:
                continue
            ratio, shown = self._mean(parts)
            value = spread.Interval(1 - ratio.value, 1 - ratio.high, 1 - ratio.low, ratio.n)
            low, high = goal[name]
            beaten = ", beaten" if value.value >= high else ""
            found.append(Verdict("like_xlink", f"{words}: less than the better path's by {100 * low:g} to {100 * high:g} % "
                                 f"(XLINK){beaten}", arm, value, "%", value.value >= low,
                                 tuple((part, 1 - ratio) for part, ratio in shown)))
        return found

    def copies(self, arm):
        copied, delivered, parts = [], [], []
        for scene in self.scenes:
            for viewer in self.viewers:
                one, all_ = (self.sessions.values(scene.name, viewer, arm, name) for name in ("copied_mb", "delivered_mb"))
                copied.append(one)
                delivered.append(all_)
                parts.append((f"{scene.name}, {viewer}", sum(one) / sum(all_)))
        copied, delivered = numpy.array(copied), numpy.array(delivered)
        taken = spread.draws(copied.shape[1])
        drawn = copied[:, taken].sum(axis=(0, 2)) / delivered[:, taken].sum(axis=(0, 2))
        value = spread.of_draws(copied.sum() / delivered.sum(), drawn, copied.size, self.goals["confidence"])
        at_most = self.goals["copies"]["at_most"]
        return [Verdict("copies", f"copied bytes / delivered ones <= {100 * at_most:g} %", arm, value, "%",
                        value.value <= at_most, tuple(parts))]
