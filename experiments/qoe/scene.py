"""A scene of `scenes/`, and the scenario for `mpq sim` that one seed makes of it."""

import random
import tomllib
from dataclasses import dataclass
from pathlib import Path

from . import links

FOLDER = Path(__file__).resolve().parent / "scenes"
# A session that is not over then has not come to its end.
RUN_S = 240
FLOW = "tv"


@dataclass(frozen=True)
class Scene:
    """`links` are the two, by name; the first is the default route."""
    name: str
    title: str
    life: str
    source: str
    clip: int
    links: dict
    together: dict | None = None
    downloads: tuple = ()
    handover: bool = False
    like_xlink: bool = False

    @property
    def paths(self):
        """Names of the two paths, which are those of the links."""
        return tuple(self.links)

    @property
    def metered(self):
        """The link that costs money; None if none does."""
        return next((name for name, link in self.links.items() if link.get("metered")), None)

    def drawn(self, seed):
        """{link: Drawn} with this seed."""
        gaps = links.draw_together(self.together, f"{self.name}/{seed}", RUN_S) if self.together else ()
        return {name: links.draw(name, link, f"{self.name}/{seed}", RUN_S, gaps) for name, link in self.links.items()}


def load(name, folder=FOLDER):
    """The scene of that name."""
    data = tomllib.loads((folder / f"{name}.toml").read_text(encoding="utf-8"))
    pair = {link.pop("name"): link for link in data.pop("link")}
    if len(pair) != 2:
        raise links.LinkError(f"{name}: a scene has two links")
    return Scene(name=name, links=pair, downloads=tuple(data.pop("download", ())), **data)


def names(folder=FOLDER):
    """Of all scenes, in order."""
    return sorted(file.stem for file in folder.glob("*.toml"))


def link_lines(name, link, drawn):
    """TOML of the link `name` of a scene, and of what was drawn of it."""
    first = drawn.steps()[0][1]
    if first <= 0:
        raise links.LinkError(f"link {name} is silent at the start")
    lines = ["[[link]]", f'name = "{name}"', f'rate = "{round(first * 1000)} kbit/s"']
    rtt = drawn.delays[0][1] if drawn.delays and drawn.delays[0][0] == 0 else None
    lines.append(f'rtt = "{round(rtt)} ms"' if rtt else f'rtt = "{link["rtt"]}"')
    # What may wait is of the mean rate, not of that of the first second.
    queue = link.get("queue", link["rtt"])
    held = max(15000, round(links.mean_mbps(link) * 1e6 / 8 * float(queue.split()[0]) / 1000))
    lines.append(f'queue = "{held} bytes"')
    lines += [f'{key} = "{link[key]}"' for key in ("jitter", "loss") if key in link]
    if schedule := drawn.schedule():
        lines.append(f'schedule = "{schedule}"')
    return lines


def _inline(value):
    """TOML of a value within a line."""
    match value:
        case bool():
            return "true" if value else "false"
        case str():
            return f'"{value}"'
        case list() | tuple():
            return f"[{', '.join(map(_inline, value))}]"
        case dict():
            return "{ " + ", ".join(f"{key} = {_inline(one)}" for key, one in value.items()) + " }"
    return str(value)


def scenario(scene, seed, content, sessions):
    """The text of the scenario of a seed: a case for each of `sessions`, which have `viewer` and `arm`."""
    drawn = scene.drawn(seed)
    first, second = scene.paths
    ways = {"first": [first], "second": [second], "both": [first, second],
            "both, second backup": [first, {"name": second, "backup": True}]}
    lines = [f'question = "{scene.life}"', 'expected = "see experiments/qoe/study.toml"', f'duration = "{RUN_S} s"',
             f"seeds = [{seed}]", 'sample = "500 ms"']
    for name, link in scene.links.items():
        lines += ["", *link_lines(name, link, drawn[name])]
    lines += ["", "[[flow]]", f'name = "{FLOW}"', f"paths = {_inline([first, second])}", 'cc = "sbd-bbr"',
              'scheduler = "ecf"', 'attempt_delay = "20 ms"', "ack_frequency = true", "[flow.dash]",
              *(f"{key} = {_inline(value)}" for key, value in content.items()), 'length = "60 s"', "cmcd = true"]
    for i, download in enumerate(scene.downloads):
        at = random.Random(f"{scene.name}/{seed}/download{i}").uniform(*download["at_s"])
        lines += ["", "[[flow]]", f'name = "other{i}"', f'paths = ["{download["link"]}"]', 'cc = "cubic"',
                  f'size = "{download["mb"]} MB"', f'start = "{round(at, 1)} s"']
    for session in sessions:
        keys = {f"flow.{FLOW}.paths": ways[session.arm.paths]}
        keys |= {f"flow.{FLOW}.{key}": value for key, value in session.arm.set.items()}
        for key, value in session.viewer.dash.items():
            value = f"fixed:{scene.clip}" if (key, value) == ("abr", "fixed") else value
            keys[f"flow.{FLOW}.dash.{key}"] = value
        lines += ["", "[[case]]", f'name = "{session.name}"', "[case.set]",
                  *(f'"{key}" = {_inline(value)}' for key, value in keys.items())]
    return "\n".join(lines) + "\n"
