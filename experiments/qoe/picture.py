"""The picture of docs/qoe.md, by scene: how long clips stand still, and the rate of films; over the better path alone, one
path at a time, and both."""

import json

from . import story

WIDTH, LEFT, GAP, RIGHT, TOP, ROW = 760, 170, 52, 34, 62, 36
# They are to be read on white and on black.
INK, GRID = "#7d8590", "#7d859040"
WAYS = {"better": "#e64980", "migration": "#d9730d", "ecf": "#2f7fd6"}


def figures(sessions, scenes, plan):
    """{scene: {"waits": {way: s/h of the clip}, "mbps": {way: of the film}}}."""
    film, clip = plan.viewers[:2]

    def mean(scene, viewer, way, metric):
        values = story.of_scene(sessions, scene.name, viewer.name, way, metric)
        return sum(values) / len(values)

    return {scene.title: {"waits": {way: round(mean(scene, clip, way, "stall_s") / clip.hours, 1) for way in WAYS},
                          "mbps": {way: round(mean(scene, film, way, "bitrate_mbps"), 1) for way in WAYS}} for scene in scenes}


def svg(numbers):
    """The picture as text. Waiting is drawn by its square root, so that short waits are seen beside long ones."""
    height = TOP + ROW * len(numbers) + 30
    width = (WIDTH - LEFT - GAP - RIGHT) / 2
    panels = {"waits": (LEFT, 0.5, (0, 10, 60, 200, 600), " s", "A clip stands still, seconds in an hour"),
              "mbps": (LEFT + width + GAP, 1.0, (0, 5, 10, 15), "", "The picture of a film, Mbit/s")}

    def text(x, y, words, colour=INK, anchor="start", size=13):
        return f'<text x="{x:g}" y="{y}" fill="{colour}" text-anchor="{anchor}" font-size="{size}">{words}</text>'

    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img" '
             'font-family="system-ui, sans-serif">',
             "<title>Seconds in an hour in which a clip stands still, and Mbit/s of a film, in scenes from life: over the better "
             "network alone, one network at a time, and both at once</title>",
             "<!-- drawn by ci/qoe with its option picture -->", f"<metadata>{json.dumps(numbers)}</metadata>"]
    at = 8
    for way, colour in WAYS.items():
        parts += [f'<rect x="{at:g}" y="6" width="12" height="12" fill="{colour}"/>', text(at + 18, 17, story.WORDS[way])]
        at += 44 + 7 * len(story.WORDS[way])
    for name, (left, power, ticks, unit, title) in panels.items():
        top = max([ticks[1], *(value for row in numbers.values() for value in row[name].values())])

        def length(value, top=top, power=power):
            return width * (value / top) ** power

        parts.append(text(left, 42, title))
        for value in ticks:
            if value <= top:
                x = round(left + length(value), 1)
                parts.append(f'<line x1="{x}" x2="{x}" y1="{TOP - 6}" y2="{height - 24}" stroke="{GRID}"/>')
                parts.append(text(x, height - 8, f"{value}{unit}", anchor="middle", size=11))
        for i, row in enumerate(numbers.values()):
            for k, (way, colour) in enumerate(WAYS.items()):
                y, long = TOP + ROW * i + 10 * k, round(max(length(row[name][way]), 1.5), 1)
                parts.append(f'<rect x="{left:g}" y="{y}" width="{long}" height="9" fill="{colour}"/>')
                parts.append(text(round(left + long + 4, 1), y + 8, f"{row[name][way]:g}", size=10))
    parts += [text(LEFT - 8, TOP + ROW * i + 18, title, anchor="end", size=12) for i, title in enumerate(numbers)]
    return "\n".join([*parts, "</svg>"]) + "\n"
