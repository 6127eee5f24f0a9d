"""A scatter of named dots as SVG, each between two values to the right and at one up, with labels that keep off each
other. What is up has a logarithmic scale, from a twelfth."""

import json
import math
from dataclasses import dataclass
from html import escape

WIDTH, HEIGHT = 760, 520
LEFT, RIGHT, TOP, BOTTOM = 52, 14, 40, 48
# They are to be read on white and on black.
INK, GRID, FAIR = "#7d8590", "#7d859040", "#2da44e22"
COLOURS = ("#2f7fd6", "#d9730d", "#e64980")
SIZE, LETTER, LINE = 11, 6.1, 12
UP_TICKS, LEAST_UP = (0.1, 0.2, 0.5, 1), 1 / 12
# Where a label may stand, from near to far: (dx, dy) of its middle's left or right end from what it names.
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
    height = 1 - math.log(max(share, LEAST_UP)) / math.log(LEAST_UP)
    return round(HEIGHT - BOTTOM - height * (HEIGHT - TOP - BOTTOM), 1)


@dataclass(frozen=True)
class Spot:
    """Where a dot is drawn, and from where to where its line goes."""
    dot: Dot
    x: float
    y: float
    low: float
    high: float

    @staticmethod
    def of(dot):
        return Spot(dot, _x(sum(dot.right) / 2), _y(dot.up), *sorted(map(_x, dot.right)))

    def boxes(self):
        return [Box(self.x - 5, self.y - 5, 10, 10), Box(self.low, self.y - 2, self.high - self.low, 4)]


def _place(spot, taken):
    """Where the label of a dot has most room: (x, y, anchor), and its box."""
    wide = LETTER * len(spot.dot.name)
    best = None
    for dx, dy in PLACES:
        # Beside the line, or else beside the dot.
        from_x = spot.x if dy else max(spot.high, spot.x + 3) if dx > 0 else min(spot.low, spot.x - 3)
        x, y = from_x + dx - (0 if dy else 4 * (1 if dx > 0 else -1)), spot.y + dy
        box = Box(x if dx > 0 else x - wide, y - LINE / 2, wide, LINE)
        cost = sum(map(box.overlaps, taken)) + 100 * (not box.inside())
        if best is None or cost < best[0]:
            best = cost, (round(x, 1), round(y, 1), "start" if dx > 0 else "end"), box
        if cost == 0:
            break
    return best[1:]


def svg(dots, words, numbers):
    """The picture as text; `numbers` go into it for programs."""
    def text(at_x, at_y, label, colour=INK, anchor="start", size=12):
        return (f'<text x="{at_x:g}" y="{at_y:g}" fill="{colour}" text-anchor="{anchor}" font-size="{size}">'
                f"{escape(label)}</text>")

    colour = dict(zip(words.kinds, COLOURS, strict=False))
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" '
             'font-family="system-ui, sans-serif">', f"<title>{escape(words.title)}</title>",
             f"<!-- drawn by {words.maker}, in virtual time -->", f"<metadata>{escape(json.dumps(numbers), quote=False)}</metadata>"]
    # 0.8 to 1.25 of the rival.
    fair = _x(0.8 / 1.8), _x(1.25 / 2.25)
    parts.append(f'<rect x="{fair[0]}" y="{TOP}" width="{fair[1] - fair[0]:g}" height="{HEIGHT - TOP - BOTTOM}" fill="{FAIR}"/>')
    parts.append(text(sum(fair) / 2, HEIGHT - BOTTOM - 6, "fair", anchor="middle", size=SIZE))
    for share in UP_TICKS:
        parts.append(f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{_y(share)}" y2="{_y(share)}" stroke="{GRID}"/>')
        parts.append(text(LEFT - 6, _y(share) + 4, f"{100 * share:.0f} %", anchor="end", size=SIZE))
    for share in (0, 0.25, 0.5, 0.75, 1):
        parts.append(text(_x(share), HEIGHT - BOTTOM + 16, f"{100 * share:.0f} %", anchor="end" if share == 1 else "middle",
                          size=SIZE))
    parts.append(text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 10, words.right, anchor="middle"))
    parts.append(text(LEFT, 14, words.up))
    at = LEFT
    for kind, label in words.kinds.items():
        parts += [f'<circle cx="{at + 5:g}" cy="26" r="4" fill="{colour[kind]}"/>', text(at + 14, 30, label, size=SIZE)]
        at += 36 + LETTER * len(label)

    spots = [Spot.of(dot) for dot in sorted(dots, key=lambda dot: (-dot.up, dot.name))]
    taken = [box for spot in spots for box in spot.boxes()] + [Box(sum(fair) / 2 - 12, HEIGHT - BOTTOM - 16, 24, LINE)]
    for spot in spots:
        parts.append(f'<line x1="{spot.low}" x2="{spot.high}" y1="{spot.y}" y2="{spot.y}" stroke="{colour[spot.dot.kind]}" '
                     'stroke-opacity="0.35" stroke-width="3"/>')
    for spot in spots:
        (x, y, anchor), box = _place(spot, taken)
        taken.append(box)
        ink = colour[spot.dot.kind]
        if abs(y - spot.y) > LINE / 2:
            parts.append(f'<line x1="{spot.x}" x2="{x:g}" y1="{spot.y}" y2="{y:g}" stroke="{ink}" stroke-width="0.7"/>')
        parts.append(f'<circle cx="{spot.x}" cy="{spot.y}" r="4" fill="{ink}"/>')
        parts.append(text(x, y + 4, spot.dot.name, colour=ink, anchor=anchor, size=SIZE))
    return "\n".join([*parts, "</svg>"]) + "\n"
