"""The page: one self-contained HTML file; and its figures as PNG beside it."""

import html
import itertools
import re

from mpqnet.page import STYLE, inline_svg

from . import claims
from .spread import number

OWN_STYLE = """
td, th { text-align: left; vertical-align: top } .yes { color: #006b4a } .no { color: #b00020; font-weight: bold }
.none { color: #666 } code { font-size: .85em; overflow-wrap: anywhere } figure { margin: 1.5rem 0 }
figcaption, .small { color: #444; font-size: .9em } details { margin: .5rem 0 }
"""

VERDICTS = {True: ("yes", "yes"), False: ("no", "no"), None: ("none", "not judged")}

_text = html.escape


class Section:
    """What there is of one paper."""

    def __init__(self, paper, results):
        scenarios = list(dict.fromkeys(figure.scenario for figure in paper.FIGURES))
        self.paper = paper
        self.results = {name: results[name] for name in scenarios if name in results}
        self.missing = [name for name in scenarios if name not in results]
        self.claims = [claim for one in self.results.values() for claim in claims.of(one, paper.MEASURED)]
        self.figures = [figure for figure in paper.FIGURES if figure.scenario in self.results]

    @property
    def short(self):
        """The name of the paper's module: "cc"."""
        return self.paper.__name__.rpartition(".")[2]


def count(sections):
    """Words for how many claims came out how."""
    verdicts = [claim.accepted for section in sections for claim in section.claims]
    parts = [(True, "accepted"), (False, "not accepted"), (None, "not judged")]
    return ", ".join(f"{verdicts.count(verdict)} {words}" for verdict, words in parts)


def write(out, papers, results):
    """Writes index.html and a PNG for each figure into the folder `out`; returns the sections."""
    out.mkdir(parents=True, exist_ok=True)
    sections = [Section(paper, results) for paper in papers]
    sections = [section for section in sections if section.results]
    body = "".join(_section(section, out) for section in sections)
    (out / "index.html").write_text(f"""<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>The papers' experiments, run again</title>
<style>{STYLE}{OWN_STYLE}</style></head><body>
<h1>The papers' experiments, run again</h1>
<p>Each paper's figures, drawn from simulations with connections of the patched quiche, and its claims, judged by rules
that the scenarios state: {_text(count(sections))}. A claim is judged on the median over the seeds. The interval is that
of the median by order statistics; with five values or fewer it is their whole range, and says its lower confidence.
Lines in figures are medians over the seeds, bands go from the least to the most.</p>
{_table(sections)}
{body}
{_origin(sections)}
</body></html>
""")
    return sections


def _table(sections):
    rows = []
    for section in sections:
        rows += [_row(section, claim) for claim in section.claims]
    return ("<h2>Claims</h2><table><tr><th>scenario</th><th>paper</th><th>ours (median, confidence interval, n)</th>"
            f"<th>accepted?</th></tr>{''.join(rows)}</table>")


def _row(section, claim):
    style, verdict = VERDICTS[claim.accepted]
    ours = "<br>".join(f"<code>{_text(what)}</code>: {_text(str(spread))}" for what, spread in claim.ours.items())
    if claim.problem:
        ours += f"<br>{_text(claim.problem)}"
    case = f' <span class="small">{_text(claim.case)}</span>' if claim.case not in ("", "base") else ""
    return (f'<tr><td><a href="#{_text(claim.scenario)}">{_text(claim.scenario)}</a>{case}</td>'
            f"<td>{_text(claim.paper)}</td>"
            f'<td>{ours}<br><span class="small">accepted if <code>{_text(claim.criterion)}</code></span></td>'
            f'<td class="{style}">{verdict}{_why(section, claim)}</td></tr>')


def _why(section, claim):
    if claim.accepted is not False:
        return ""
    why = section.paper.WHY.get(claim.paper)
    return f': <span class="small">{_text(why or "not explained yet")}</span>'


def _section(section, out):
    parts = [f'<h2 id="{section.short}">{_text(section.paper.TITLE)}</h2>']
    if section.missing:
        parts.append(f'<p class="none">Not run: {_text(", ".join(section.missing))}.</p>')
    for name, results in section.results.items():
        parts.append(_scenario(name, results))
        for figure in section.figures:
            if figure.scenario == name:
                parts.append(_figure(figure, results, out))
    return "".join(parts)


def _scenario(name, results):
    scenario = results.scenario
    failed = "".join(f'<p class="no">A run failed: {_text(run.case)}, seed {run.seed}: {_text(run.reason or "")}</p>'
                     for run in results.failed)
    notes = f"<p><b>Assumptions.</b> {_text(_flat(scenario['notes']))}</p>" if "notes" in scenario else ""
    changes = reduced(results)
    note = f'<p><b>Reduced:</b> run with <code>{_text(changes)}</code>.</p>' if changes else ""
    return (f'<h3 id="{_text(name)}">{_text(scenario.get("source", name))}</h3>'
            f"<p><b>Question.</b> {_text(_flat(scenario['question']))}</p>"
            f"<p><b>Expected.</b> {_text(_flat(scenario['expected']))}</p>{notes}{note}{failed}")


def _flat(text):
    return re.sub(r"\s+", " ", text)


def reduced(results):
    """The options that made the run less than the scenario's file says; empty if none did."""
    words, kept = results.manifest["command"], []
    for option, value in itertools.pairwise(words):
        if option in ("--set", "--seeds"):
            kept += [option, value]
    return " ".join(kept)


def _figure(figure, results, out):
    drawing = figure.draw(results)
    drawing.savefig(out / f"{figure.name}.png", format="png", dpi=110)
    caption = f" {figure.caption}" if figure.caption else ""
    return (f"<figure>{inline_svg(drawing)}<figcaption><b>{_text(figure.title)}.</b>{_text(caption)} "
            f"Also in {_text(figure.name)}.png.</figcaption></figure>")


def _origin(sections):
    rows, ids = [], {}
    for section in sections:
        for name, results in section.results.items():
            manifest = results.manifest
            ids.setdefault((manifest.get("commit"), manifest.get("patch_series")), []).append(name)
            rows.append(f"<li><code>{_text(results.command)}</code>: {len(results.runs)} runs, "
                        f"{len(results.failed)} failed</li>")
    made = "".join(f"<p>Commit {_text(str(commit))}, patch series {_text(str(series))}: {_text(', '.join(names))}.</p>"
                   for (commit, series), names in ids.items())
    return f"<h2>How it was run</h2>{made}<details><summary>Commands</summary><ul>{''.join(rows)}</ul></details>"


def as_text(sections):
    """The table for a terminal."""
    lines = []
    for section in sections:
        for claim in section.claims:
            ours = ", ".join(number(spread.median) for spread in claim.ours.values()) or "-"
            verdict = {True: "yes", False: "NO", None: "-"}[claim.accepted]
            lines.append(f"{verdict:<4}{claim.scenario:<9}{claim.paper}  [{ours}]"
                         + (f" ({claim.case})" if claim.case not in ("", "base") else ""))
    return "\n".join([*lines, "", count(sections)])
