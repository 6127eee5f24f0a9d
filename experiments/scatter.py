"""A scatter of named dots as SVG, each a mark between two values to the right and one up, with labels that keep off each
other."""

import json
from dataclasses import dataclass
from html import escape

WIDTH, HEIGHT = 760, 520
LEFT, RIGHT, TOP, BOTTOM = 52, 14, 40, 48
# They are to be read on white and on black.
INK, GRID, FAIR = "#7d8590", "#7d859040", "#2da44e22"
COLOURS = ("#2f7fd6", "#d9730d", "#e64980")
SIZE, LETTER, LINE = 11, 6.1, 12
# Where a label may stand, from near to far: (dx, dy) of its middle's left or right end.
PLACES = [(side * (7 + away), away * rise) for away in range(0, 90, 6) for rise in (0, -1, 1, -2, 2) for side in (1, -1)]


@dataclass(frozen=True)
class Dot:
    """`right` are two values, the dot is at their mean; all of 0 to 1."""
    name: str
    kind: str
    right: tuple[float, float]
    up: float


@dataclass(frozen=True)
class Words:
    title: str
    up: str
    right: str
    kinds: dict[str, str]  # what the colours say, in their order
    maker: str


@dataclass(frozen=True)
class Box:
    left: float
    top: float
    width: float
    height: float

    def overlaps(self, other):
        return (self.left < other.left + other.width and other.left < self.left + self.width
                and self.top < other.top + other.height and other.top < self.top + self.height)

    def inside(self):
        return (self.left >= LEFT and self.left + self.width <= WIDTH - RIGHT and self.top >= TOP
                and self.top + self.height <= HEIGHT - BOTTOM)


def _x(share):
    return round(LEFT + share * (WIDTH - LEFT - RIGHT), 1)


def _y(share):
    return round(HEIGHT - BOTTOM - share * (HEIGHT - TOP - BOTTOM), 1)


def _place(name, x, y, taken):
    """Where the label of the dot at (x, y) has most room: (x, y, anchor), and its box."""
    wide = LETTER * len(name)
    best = None
    for dx, dy in PLACES:
        box = Box(x + dx if dx > 0 else x + dx - wide, y + dy - LINE / 2, wide, LINE)
        cost = sum(map(box.overlaps, taken)) + 100 * (not box.inside())
        if best is None or cost < best[0]:
            best = cost, (x + dx, y + dy, "start" if dx > 0 else "end"), box
        if cost == 0:
            break
    return best[1:]


def svg(dots, words, numbers):
    """The picture as text; `numbers` go into it for programs."""
    def text(at_x, at_y, label, colour=INK, anchor="start", size=12, more=""):
        return (f'<text x="{at_x:g}" y="{at_y:g}" fill="{colour}" text-anchor="{anchor}" font-size="{size}"{more}>'
                f"{escape(label)}</text>")

    colour = dict(zip(words.kinds, COLOURS, strict=False))
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" '
             'font-family="system-ui, sans-serif">', f"<title>{escape(words.title)}</title>",
             f"<!-- drawn by {words.maker}, in virtual time -->", f"<metadata>{escape(json.dumps(numbers), quote=False)}</metadata>"]
    # 0.8 to 1.25 of the rival.
    fair = _x(0.8 / 1.8), _x(1.25 / 2.25)
    parts.append(f'<rect x="{fair[0]}" y="{TOP}" width="{fair[1] - fair[0]:g}" height="{HEIGHT - TOP - BOTTOM}" fill="{FAIR}"/>')
    parts.append(text(sum(fair) / 2, TOP + 13, "fair", anchor="middle", size=SIZE))
    for share in (0, 0.25, 0.5, 0.75, 1):
        parts.append(f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{_y(share)}" y2="{_y(share)}" stroke="{GRID}"/>')
        parts.append(text(LEFT - 6, _y(share) + 4, f"{100 * share:.0f} %", anchor="end", size=SIZE))
        parts.append(text(_x(share), HEIGHT - BOTTOM + 16, f"{100 * share:.0f} %", anchor="middle", size=SIZE))
    parts.append(text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 10, words.right, anchor="middle"))
    parts.append(text(LEFT, 14, words.up))
    at = LEFT
    for kind, label in words.kinds.items():
        parts += [f'<circle cx="{at + 5:g}" cy="26" r="4" fill="{colour[kind]}"/>', text(at + 14, 30, label, size=SIZE)]
        at += 36 + LETTER * len(label)

    spots = [(dot, _x(sum(dot.right) / 2), _y(dot.up)) for dot in sorted(dots, key=lambda dot: (-dot.up, dot.name))]
    taken = [Box(x - 5, y - 5, 10, 10) for _, x, y in spots] + [Box(sum(fair) / 2 - 12, TOP + 2, 24, LINE)]
    for dot, x, y in spots:
        low, high = sorted(map(_x, dot.right))
        parts.append(f'<line x1="{low}" x2="{high}" y1="{y}" y2="{y}" stroke="{colour[dot.kind]}" stroke-opacity="0.35" '
                     'stroke-width="3"/>')
    for dot, x, y in spots:
        (at_x, at_y, anchor), box = _place(dot.name, x, y, taken)
        taken.append(box)
        if abs(at_y - y) > LINE or abs(at_x - x) > 12:
            parts.append(f'<line x1="{x}" x2="{at_x:g}" y1="{y}" y2="{at_y:g}" stroke="{colour[dot.kind]}" stroke-width="0.7"/>')
        parts.append(f'<circle cx="{x}" cy="{y}" r="4" fill="{colour[dot.kind]}"/>')
        parts.append(text(at_x, at_y + 4, dot.name, colour=colour[dot.kind], anchor=anchor, size=SIZE))
    return "\n".join([*parts, "</svg>"]) + "\n"
