"""The page: one HTML file that needs nothing else, light or dark as its reader has it."""

import numpy
from report.markup import cell, table, text, verdict

from . import draw, spread, story, timeline, ways

STYLE = """
:root { color-scheme: light dark; --ink: #222; --soft: #555; --paper: #fff; --line: #ccc; --best: #cdebd9; --good: #eaf6ef;
--c1: #0072b2; --c2: #d55e00; --c3: #009e73; --c4: #a6559d; --c5: #b8860b; --c6: #555; --c7: #c2185b; --c8: #00838f; --bad: #e00020 }
@media (prefers-color-scheme: dark) { :root { --ink: #ddd; --soft: #aaa; --paper: #16181c; --line: #444; --best: #1f5a3c;
--good: #1c3328; --c1: #56b4e9; --c2: #ff9f5a; --c3: #3fd6a5; --c4: #d991d2; --c5: #e8c04a; --c6: #bbb; --c7: #ff7fae;
--c8: #5fd0dc; --bad: #ff5a6e } }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 72rem; margin: 2rem auto; padding: 0 1rem; color: var(--ink);
background: var(--paper) }
.lead { font-size: 1.15em; max-width: 46rem } .small, .key { color: var(--soft); font-size: .9em }
table { border-collapse: collapse; margin: 1rem 0 } th, td { padding: .25rem .7rem; border-bottom: 1px solid var(--line);
text-align: right; vertical-align: top } th:first-child, td:first-child, td.words { text-align: left }
.scroll { overflow-x: auto } .best { background: var(--best); font-weight: bold } .as-good { background: var(--good) }
.yes { color: var(--c3); font-weight: bold } .no { color: var(--bad); font-weight: bold } .none { color: var(--soft) }
svg { width: 100%; height: auto; max-width: 760px; display: block } svg text { font: 11px system-ui, sans-serif; fill: var(--soft) }
svg .grid { stroke: var(--line); stroke-width: .5 } .key i { display: inline-block; width: 22px; margin: 0 5px 4px 12px }
details { margin: .5rem 0 } .pair { display: grid; grid-template-columns: repeat(auto-fit, minmax(22rem, 1fr)); gap: 1rem }
"""
ABOUT_ALSO = "TCP and MPTCP need the kernel and emulated links: their rows come from another command, with --also."
# Of which the distributions are drawn.
DRAWN = ("first", "second", "migration", "ecf", "xlink")


class Page:
    """Of one run."""

    def __init__(self, sessions, scenes, plan, verdicts, command):
        self.sessions, self.scenes, self.plan, self.verdicts, self.command = sessions, scenes, plan, verdicts, command
        self.confidence = plan.goals["confidence"]
        self.arms = [arm for arm in (*plan.arms, *plan.absent) if any(row.arm == arm.name for row in sessions.rows)]

    def html(self):
        """All of it."""
        lead = "".join(f"<p>{text(line)}</p>" for line in story.sentences(self.sessions, self.scenes, self.plan))
        return f"""<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>Films over two networks</title><style>{STYLE}</style></head><body>
<h1>Films over two networks</h1>
<div class="lead">{lead}</div>
<h2>What was to be reached</h2>{self._goals()}
<h2>Who wins where</h2>{"".join(self._winners(viewer) for viewer in self.plan.viewers)}
<h2>What it costs</h2>{self._costs()}
<h2>All ways, over all scenes</h2>{self._everything()}
<h2>Scene by scene</h2>{"".join(self._scene(scene) for scene in self.scenes)}
<h2>How it was run</h2>{self._how()}
</body></html>
"""

    def _goals(self):
        rows = []
        for one in self.verdicts:
            parts = "".join(f"<li>{text(words)}{'' if ': ' in words else f': {value:.3g}'}</li>" for words, value in one.parts)
            more = f'<details class="small"><summary>parts</summary><ul>{parts}</ul></details>' if parts else ""
            rows.append(f'<td class="words">{text(one.words)}{more}</td>{cell(self.plan.arm(one.arm).words)}{cell(one.shown)}'
                        + (verdict(one.met) if one.met is not None else '<td class="none">said</td>'))
        return (f'<div class="scroll">{table(("goal", "way", "value (interval, sessions or seeds)", "met"), rows)}</div>'
                f'<p class="small">Each goal was written down, with what it means, before the first run '
                f"(experiments/qoe/study.toml). Intervals have {100 * self.confidence:g} %, by the bootstrap over the seeds.</p>")

    def _winners(self, viewer):
        arms = [arm for arm in self.arms if (viewer.name, arm.name) in self.sessions.cases()]
        rows = []
        for scene in self.scenes:
            means = {arm.name: float(numpy.mean(self.sessions.values(scene.name, viewer.name, arm.name, "qoe_lin")))
                     for arm in arms if self.sessions.of(scene.name, viewer.name, arm.name)}
            best = max(means, key=means.get)
            cells = [cell(scene.title)]
            for arm in arms:
                if arm.name not in means:
                    cells.append("<td></td>")
                    continue
                stalls = float(numpy.mean(self.sessions.values(scene.name, viewer.name, arm.name, "stall_s")))
                apart = self.sessions.paired(scene.name, viewer.name, arm.name, best, "qoe_lin")
                as_good = arm.name == best or (apart and spread.interval(apart, self.confidence).high >= 0)
                style = "best" if arm.name == best else "as-good" if as_good else ""
                cells.append(f'<td class="{style}">{means[arm.name]:.2f}<br><span class="small">{stalls:.1f} s</span></td>')
            rows.append("".join(cells))
        return (f"<h3>{text(viewer.label)}</h3>"
                f'<div class="scroll">{table(("scene", *(arm.words for arm in arms)), rows)}</div>'
                '<p class="small">QoE_lin (Yin et al., SIGCOMM 2015) per segment: bitrate less changes less 14.9 for each second of '
                "startup and stall, in Mbit/s; below it stall time per session. Dark: the best. Light: not worse than it, by the "
                "interval of the paired difference.</p>")

    def _costs(self):
        main = self.plan.viewers[0]
        rows = []
        for arm in self.arms:
            if (main.name, arm.name) not in self.sessions.cases():
                continue
            def mean(metric):
                return float(numpy.mean([value for scene in self.scenes for value in
                                         self.sessions.values(scene.name, main.name, arm.name, metric)]))
            metered, sent, delivered = mean("metered_mb"), mean("all_mb"), mean("delivered_mb")
            rows.append("".join(map(cell, (
                arm.words, f"{metered / main.hours:.0f}", f"{100 * metered / sent:.0f} %" if sent else "",
                f"{sent / main.hours:.0f}", f"{100 * mean('copied_mb') / delivered:.2f} %",
                f"{mean('wasted_mb') / main.hours:.0f}", f"{mean('bitrate_mbps'):.2f}"))))
        head = ("way", "metered, MB/h", "of all", "all, MB/h", "copies", "given up, MB/h", "bitrate, Mbit/s")
        return (f'<div class="scroll">{table(head, rows)}</div><p class="small">{text(main.label)}, mean over all scenes; the second '
                "path is the metered one. Copies are bytes of streams that were sent again without new data; what was given up was "
                "fetched and replaced by a lower level.</p>")

    def _everything(self):
        rows = []
        for one in ways.over(self.sessions, self.scenes, self.plan):
            rows.append("".join(map(cell, (
                one.viewer.name, one.arm.words, one.qoe_lin, one.told.waits, one.live.misses if one.live else "",
                one.live.latency_s if one.live else "", f"{100 * one.told.clean.value:.0f} %", f"{one.told.mbps.value:.2f}",
                f"{one.startup_s:.2f}", "" if numpy.isnan(one.chunk_p99) else f"{one.chunk_p99:.2f}",
                f"{100 * one.told.copied:.2f} %", f"{one.told.metered_mb:.0f}"))))
        head = ("viewer", "way", "QoE_lin", "stalls, s/h", "stalls and left out, s/h", "behind the present, s", "without a stall",
                "bitrate, Mbit/s", "startup, s", "p99 of chunks / the better path's", "copies", "metered, MB/h")
        return f'<div class="scroll">{table(head, rows)}</div>'

    def _scene(self, scene):
        return (f'<h3 id="{scene.name}">{text(scene.title)}</h3><p>{text(scene.life)} '
                f'<span class="small">{text(scene.source)}</span></p>{self._distributions(scene)}{self._timelines(scene)}')

    def _timelines(self, scene):
        viewer, arm = self.plan.viewers[0], self.plan.goals["judged"][0]
        mine = self.sessions.of(scene.name, viewer.name, arm)
        rows = sorted((row for row in mine.values() if row.folder), key=lambda row: (row.values["qoe_lin"], row.seed))
        if not rows:
            return ""
        better = self.sessions.better(scene.name, viewer.name, "qoe_lin")
        others = self.sessions.of(scene.name, viewer.name, better)
        beside = scene.paths[0 if better == "first" else 1]
        parts = [timeline.key(scene, beside)]
        for words, row in (("A typical session", rows[len(rows) // 2]), ("The worst session", rows[0])):
            if row.seed in others:
                drawing = timeline.svg(scene, row, others[row.seed], self.plan.content)
                open_ = " open" if words.startswith("The") else ""
                parts.append(f"<details{open_}><summary>{words} over both: seed {row.seed}, QoE_lin {row.values['qoe_lin']:.2f}, "
                             f"{row.values['stall_s']:.1f} s of stalls</summary>{drawing}</details>")
        return "".join(parts)

    def _distributions(self, scene):
        parts, arms = [], [arm for arm in self.arms if arm.name in DRAWN]
        for viewer in self.plan.viewers[:2]:
            plot = draw.Plot(380, 200, 40, 1.0, log=0.03)
            for arm, colour in zip(arms, draw.COLOURS):
                chunks = sorted(time for row in self.sessions.of(scene.name, viewer.name, arm.name).values() for time in row.times)
                if chunks:
                    shares = [i / 200 for i in range(200)] + [0.9975, 1.0]
                    plot.line([(float(numpy.quantile(chunks, share)), share) for share in shares], colour,
                              2 if arm.name == "ecf" else 1.2)
            parts.append(plot.svg(f"{viewer.name}: share of chunks that came within", x_ticks=(0.1, 1, 10), x_unit=" s"))
        names = draw.key([(arm.words, colour, False) for arm, colour in zip(arms, draw.COLOURS)])
        rows = []
        for arm in arms:
            cells = [cell(arm.words)]
            for viewer in self.plan.viewers[:2]:
                for metric, scale, digits in (("qoe_lin", 1, 2), ("stall_s", 1, 1), ("chunk_p99_s", 1, 2)):
                    values = self.sessions.values(scene.name, viewer.name, arm.name, metric)
                    if not values:
                        cells.append("<td></td>")
                        continue
                    whole = spread.interval(values, self.confidence)
                    tail = ", ".join(f"{scale * x:.{digits}f}" for x in numpy.percentile(values, (5, 50, 95, 99)))
                    cells.append(f'<td>{whole.value:.{digits}f} <span class="small">({whole.low:.{digits}f} to '
                                 f"{whole.high:.{digits}f})<br>{tail}</span></td>")
            rows.append("".join(cells))
        viewers = self.plan.viewers[:2]
        head = ("mean (interval); p5, p50, p95, p99 of the sessions",
                *(f"{viewer.name}: {words}" for viewer in viewers for words in ("QoE_lin", "stalls, s", "p99 of chunks, s")))
        return f'{names}<div class="pair">{"".join(parts)}</div><div class="scroll">{table(head, rows)}</div>'

    def _how(self):
        failed = "".join(f'<li class="no">failed: {text(", ".join(map(str, one)))}</li>' for one in self.sessions.failed)
        absent = [arm.words for arm in self.plan.absent if arm not in self.arms]
        also = f"<p>Not here: {text(', '.join(absent))}. {ABOUT_ALSO}</p>" if absent else ""
        seeds = ", ".join(map(str, sorted({row.seed for row in self.sessions.rows})))
        return (f"<p><code>{text(self.command)}</code>: {len(self.sessions.rows)} sessions, {len(self.sessions.failed)} of them failed and count as all waiting, seeds "
                f"{seeds}.</p><ul>{failed}</ul>{also}<p>Levels: {text(', '.join(self.plan.content['video']))}; segments of "
                f"{text(self.plan.content['segment'])}. ITU-T P.1203 is not computed: its public software is for research that is not "
                "commercial. The same figures as tables: sessions.csv, summary.csv, ways.csv, chunks.csv and goals.csv beside this page.</p>")

