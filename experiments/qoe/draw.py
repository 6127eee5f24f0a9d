"""Small drawings as SVG in a page: axes, lines, areas. Colours are the page's, so that they follow light and dark."""

import math

from report.markup import text as escape

COLOURS = ("var(--c1)", "var(--c2)", "var(--c3)", "var(--c4)", "var(--c5)", "var(--c6)", "var(--c7)", "var(--c8)")
MARGINS = {"left": 46, "right": 10, "top": 18, "bottom": 24}


def number(value):
    """As short as a drawing needs it."""
    return f"{value:.1f}".rstrip("0").rstrip(".") if abs(value) < 1e5 else f"{value:.0f}"


def ticks(top):
    """Some round values from 0 to `top`."""
    if top <= 0:
        return [0]
    step = 10 ** math.floor(math.log10(top))
    step = next(part for part in (step / 5, step / 2, step, 2 * step) if top / part <= 5.5)
    return [i * step for i in range(int(top / step + 1e-9) + 1)]


class Plot:
    """One pair of axes; coordinates are those of the data. `log` is the least of a logarithmic x axis."""

    def __init__(self, width, height, right, top, left=0.0, log=None):
        self.width, self.height, self.right, self.top, self.left, self.log = width, height, right, top, left, log
        self.parts = []

    def x(self, value):
        span = self.width - MARGINS["left"] - MARGINS["right"]
        part = (value - self.left) / (self.right - self.left) if self.log is None else (
            math.log(max(value, self.log) / self.log) / math.log(self.right / self.log))
        return MARGINS["left"] + span * min(max(part, 0), 1)

    def y(self, value):
        span = self.height - MARGINS["top"] - MARGINS["bottom"]
        return MARGINS["top"] + span * (1 - min(max(value / self.top, 0), 1))

    def points(self, rows):
        """A polyline's points; rows that would repeat the last point are left out."""
        found = []
        for row in rows:
            one = f"{number(self.x(row[0]))},{number(self.y(row[1]))}"
            if not found or one != found[-1]:
                found.append(one)
        return " ".join(found)

    def line(self, rows, colour, width=1.5, dash=""):
        more = f' stroke-dasharray="{dash}"' if dash else ""
        self.parts.append(f'<polyline points="{self.points(rows)}" fill="none" stroke="{colour}" stroke-width="{width}"{more}/>')

    def steps(self, rows, colour, width=1.5, dash="", until=None):
        """A line that keeps each value until the next."""
        flat, before = [], None
        for t, value in rows:
            if before is not None:
                flat.append((t, before))
            flat.append((t, value))
            before = value
        if until is not None and before is not None:
            flat.append((until, before))
        self.line(flat, colour, width, dash)

    def area(self, low, high, colour):
        self.parts.append(f'<polygon points="{self.points([*low, *high[::-1]])}" fill="{colour}" fill-opacity=".55"/>')

    def band(self, begin, end, colour):
        left, right = self.x(begin), self.x(end)
        self.parts.append(f'<rect x="{number(left)}" y="{MARGINS["top"]}" width="{number(max(right - left, 1))}" '
                          f'height="{self.height - MARGINS["top"] - MARGINS["bottom"]}" fill="{colour}" fill-opacity=".3"/>')

    def svg(self, title, x_ticks=None, y_ticks=None, x_unit=""):
        """All of it, with axes."""
        axes = []
        for value in ticks(self.top) if y_ticks is None else y_ticks:
            y = number(self.y(value))
            axes.append(f'<line x1="{MARGINS["left"]}" x2="{self.width - MARGINS["right"]}" y1="{y}" y2="{y}" class="grid"/>'
                        f'<text x="{MARGINS["left"] - 5}" y="{number(self.y(value) + 4)}" text-anchor="end">{value:g}</text>')
        for value in ticks(self.right) if x_ticks is None else x_ticks:
            axes.append(f'<text x="{number(self.x(value))}" y="{self.height - 8}" text-anchor="middle">{value:g}{x_unit}</text>')
        axes.append(f'<text x="{MARGINS["left"]}" y="12">{escape(title)}</text>')
        return (f'<svg viewBox="0 0 {self.width} {self.height}" role="img" aria-label="{escape(title)}">'
                f'{"".join(axes)}{"".join(self.parts)}</svg>')


def key(entries):
    """What colours mean: (words, colour, dashed)."""
    parts = [f'<span><i style="border-top:3px {"dashed" if dashed else "solid"} {colour}"></i>{escape(words)}</span>'
             for words, colour, dashed in entries]
    return f'<p class="key">{" ".join(parts)}</p>'
