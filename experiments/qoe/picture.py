"""The picture of docs/qoe.md: waiting in each scene, over the better path alone, one at a time, and both."""

import json

from . import story

WIDTH, LEFT, RIGHT, TOP, ROW = 760, 190, 70, 62, 38
# They are to be read on white and on black.
INK, GRID = "#7d8590", "#7d859040"
WAYS = {"better": "#e64980", "migration": "#d9730d", "ecf": "#2f7fd6"}


def figures(sessions, scenes, viewer, hours):
    """{scene: {way: seconds of waiting per hour}}."""
    def waits(scene, way):
        values = story.of_scene(sessions, scene.name, viewer, way, "stall_s")
        return round(sum(values) / len(values) / hours, 1)

    return {scene.title: {way: waits(scene, way) for way in WAYS} for scene in scenes}


def svg(numbers):
    """The picture as text. The axis is linear in the square root, so that short waits are seen beside long ones."""
    top = max([60.0, *(value for row in numbers.values() for value in row.values())])
    height = TOP + ROW * len(numbers) + 34

    def x(value):
        return round(LEFT + (WIDTH - LEFT - RIGHT) * (value / top) ** 0.5, 1)

    def text(at_x, at_y, words, colour=INK, anchor="start"):
        return f'<text x="{at_x}" y="{at_y}" fill="{colour}" text-anchor="{anchor}">{words}</text>'

    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img" '
             'font-family="system-ui, sans-serif" font-size="13">',
             "<title>Seconds that a film stands still in an hour, by scene: over the better network alone, one network at a "
             "time, and both at once</title>",
             "<!-- drawn by experiments/viewers.py judge with the option picture -->",
             f"<metadata>{json.dumps(numbers)}</metadata>",
             text(8, 18, "Seconds in an hour of film in which the picture stands still")]
    at = 8
    for way, colour in WAYS.items():
        words = story.WORDS[way]
        parts += [f'<rect x="{at}" y="30" width="12" height="12" fill="{colour}"/>', text(at + 18, 41, words)]
        at += 40 + 7.2 * len(words)
    for value in (0, 10, 60, 200, 500, 1000, 2000):
        if value <= top:
            parts.append(f'<line x1="{x(value)}" x2="{x(value)}" y1="{TOP - 4}" y2="{height - 28}" stroke="{GRID}"/>')
            parts.append(text(x(value), height - 10, f"{value} s", anchor="middle"))
    for i, (title, row) in enumerate(numbers.items()):
        y = TOP + ROW * i
        parts.append(text(LEFT - 8, y + 21, title, anchor="end"))
        for k, (way, colour) in enumerate(WAYS.items()):
            width = round(max(x(row[way]) - LEFT, 1.5), 1)
            parts.append(f'<rect x="{LEFT}" y="{y + 3 + 10 * k}" width="{width}" height="9" fill="{colour}"/>')
            parts.append(f'<text x="{LEFT + width + 4}" y="{y + 11 + 10 * k}" fill="{INK}" font-size="10">{row[way]:g}</text>')
    parts.append("</svg>")
    return "\n".join(parts) + "\n"
