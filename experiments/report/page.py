"""The page: one self-contained HTML file; and its figures as PNG beside it."""

import itertools
import os
import re
from dataclasses import dataclass, field

from mpqnet.page import STYLE

from . import claims, definitions, markup
from .markup import text as _text

OWN_STYLE = """
td, th { text-align: left; vertical-align: top } .yes { color: #006b4a } .no { color: #b00020; font-weight: bold }
.none { color: #666 } td .small { overflow-wrap: anywhere } code { font-size: .85em; overflow-wrap: anywhere } figure { margin: 1.5rem 0 }
figcaption, .small { color: #444; font-size: .9em } details { margin: .5rem 0 }
#only-no:checked ~ table tr:not(.no):not(:first-child), #only-unjudged:checked ~ table tr:not(.none):not(:first-child) { display: none }
tr.yes, tr.no, tr.none { color: inherit; font-weight: inherit }
"""

# Which rows of the table are shown, without a script.
_FILTER = """<input type="radio" name="only" id="only-all" checked><label for="only-all">all</label>
<input type="radio" name="only" id="only-no"><label for="only-no">what did not come out</label>
<input type="radio" name="only" id="only-unjudged"><label for="only-unjudged">what is not judged</label>"""



@dataclass(frozen=True)
class Page:
    """What a page is about. `modules` are such as those of `report.papers`; `extras` make further sections: functions
    of the folder for PNGs that return HTML. `asked` heads the column with what is claimed. `kept` has what full-scale
    runs found (`report.kept`). Without `data` the page stands alone: no PNGs beside it, and no links to runs."""
    title: str
    about: str
    asked: str
    modules: tuple
    extras: tuple = ()
    kept: dict = field(default_factory=dict)
    data: bool = True


class Section:
    """What there is of one paper, or of another module with its names."""

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

    @property
    def folder(self):
        """The room of the module: "papers"."""
        return self.paper.__name__.split(".")[-2]


def count(sections):
    """Words for how many claims came out how."""
    verdicts = [claim.accepted for section in sections for claim in section.claims]
    parts = [(True, "accepted"), (False, "not accepted"), (None, "not judged")]
    return ", ".join(f"{verdicts.count(verdict)} {words}" for verdict, words in parts)


def write(out, page, results):
    """Writes index.html and, with `page.data`, a PNG for each figure into the folder `out`; returns the sections."""
    out.mkdir(parents=True, exist_ok=True)
    sections = [Section(module, results) for module in page.modules]
    sections = [section for section in sections if section.results]
    body = "".join(_section(section, out if page.data else None) for section in sections) + "".join(extra(out) for extra in page.extras)
    (out / "index.html").write_text(f"""<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>{_text(page.title)}</title>
<style>{STYLE}{OWN_STYLE}</style></head><body>
<h1>{_text(page.title)}</h1>
<p>{_text(page.about)} Judged: {_text(count(sections))}. A claim is judged on the median over the seeds. The interval is
that of the median by order statistics; with five values or fewer it is their whole range, and says its lower confidence.
Lines in figures are medians over the seeds, bands go from the least to the most.</p>
{_in_short(sections)}
{_table(page, sections, out)}
{body}
{_origin(sections)}
</body></html>
""")
    return sections


def _in_short(sections):
    """What each paper says and what became of it, before all else."""
    return "".join(f'<p><a href="#{section.short}"><b>{_text(section.paper.TITLE)}</b></a>. {_text(summary(section))}</p>'
                   for section in sections)


def _table(page, sections, out):
    groups = [(section, group) for section in sections for group in claims.grouped(section.claims)]
    rows = [_row(page, section, group, out) for section, group in groups]
    table = markup.table(("scenario", page.asked, "ours (median, confidence interval, n)", "accepted?"), rows,
                         [markup.VERDICTS[group.accepted][0] for _, group in groups])
    return f"<h2>Claims</h2><div>{_FILTER}{table}</div>"


def _row(page, section, group, out):
    claim = group.claims[0]
    ours = "<br>".join(f"<code>{_text(what)}</code>: {_text(words)}" for what, words in group.ours.items())
    problems = dict.fromkeys(claim.problem for claim in group.claims if claim.problem)
    ours += "".join(f"<br>{_text(problem)}" for problem in problems)
    cases = f' <span class="small">{_text(group.cases)}</span>' if group.cases else ""
    results = section.results[claim.scenario]
    kept = _kept(page, group) if reduced(results) else ""
    return (f'<td><a href="#{_text(claim.scenario)}">{_text(claim.scenario)}</a>{cases}<br>{_data(group, results, out) if page.data else ""}</td>'
            f'{markup.cell(claim.paper)}'
            f'<td>{ours}<br><span class="small">accepted if <code>{_text(claim.criterion)}</code></span>'
            f'{_how(section, claim, results)}</td>'
            + markup.verdict(group.accepted, _why(section, group) + kept))


def _how(section, claim, results):
    """How the numbers of a claim were computed."""
    words = definitions.of(claim.criterion, results.scenario) if claim.rule else [
        f"as the sentence above says, by experiments/report/{section.folder}/{section.short}.py from the series of each run"]
    return _meanings("how it is computed", words)


def _meanings(title, words):
    items = "".join(f"<li>{_text(one)}</li>" for one in words)
    return f'<details class="small"><summary>{title}</summary><ul>{items}</ul></details>' if words else ""


def _data(group, results, out):
    """Links from a claim to its scenario and to the data of its runs: the first run's folder of each case, the summary."""
    def link(path, words):
        return f'<a href="{_text(os.path.relpath(path, out))}">{_text(words)}</a>'

    cases = [claim.case for claim in group.claims]
    runs = [run for run in results.runs if run.status == "ok" and (run.case in cases or cases == [""])]
    links = [link(results.folder / "scenario.toml", "scenario"), link(results.folder / "summary.json", "metrics")]
    if runs:
        links.append(link(runs[0].folder, f"run of seed {runs[0].seed}"))
    return f'<span class="small">{", ".join(links)}</span>'


def _kept(page, group):
    """What full scale had, of a reduced run."""
    rows = [page.kept.get((claim.scenario, claim.paper or claim.criterion, claim.case)) for claim in group.claims]
    words = [row.words for row in rows if row] or ["not run"]
    return f'<br><span class="small">At full scale: {_text("; ".join(words))}.</span>'


def _why(section, group):
    """After a no: in which cases, and why."""
    if group.accepted is not False:
        return ""
    part, which = "", ""
    if len(group.claims) > 1:
        part = f" in {len(group.missed)} of {len(group.claims)}"
        which = f'<details class="small"><summary>which</summary>{_text("; ".join(group.missed))}</details>'
    why = section.paper.WHY.get(group.claims[0].paper)
    return f'{part}: <span class="small">{_text(why or "not explained yet")}</span>{which}'


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


def summary(section):
    """What the paper proposes and claims, and, of the claims that were judged, how many came out here."""
    judged = [claim for claim in section.claims if claim.accepted is not None]
    missed = sorted({claim.paper.partition(":")[0] for claim in judged if not claim.accepted})
    out = f"{sum(claim.accepted for claim in judged)} of {len(judged)} judged claims come out here"
    said = getattr(section.paper, "SUMMARY", "")
    return f"{said} {out}{', not all of ' + ', '.join(missed) if missed else ''}.".strip()


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
    published = f"Published: {figure.published}." if figure.published else ""
    caption = " ".join(filter(None, (figure.caption, published)))
    drawn = markup.figure(figure.draw(results), figure.name, figure.title, caption, out)
    return drawn + _meanings("what is drawn", figure.meanings(results.scenario))


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
    width = max((len(claim.scenario) for section in sections for claim in section.claims), default=0) + 2
    for section in sections:
        for group in claims.grouped(section.claims):
            claim = group.claims[0]
            ours = ", ".join(group.numbers) or "-"
            verdict = {True: "yes", False: "NO", None: "-"}[group.accepted]
            cases = f" ({group.cases})" if group.cases else ""
            missed = f"; not in {len(group.missed)}" if len(group.claims) > 1 and group.missed else ""
            lines.append(f"{verdict:<4}{claim.scenario:<{width}}{claim.paper or claim.criterion}  [{ours}]{cases}{missed}")
    return "\n".join([*lines, "", count(sections)])
