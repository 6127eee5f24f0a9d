"""Draws docs/picture.svg, which README.md shows: a download over one network and over two, and one of them dies.

Runs scenarios/picture.toml in virtual time, so the picture is the same wherever it is drawn.
"""

import argparse
import csv
import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
PICTURE = HERE.parent / "docs/picture.svg"
EXAMPLES = """\
example:
  cargo build --release -p mpq && python3 experiments/picture.py --mpq target/release/mpq

exit status: 0 drawn; 1 the simulation failed, or a rule of the scenario does not hold"""

WIDTH, HEIGHT = 760, 300
LEFT, RIGHT, TOP, BOTTOM = 52, 12, 44, 44
TOP_MBPS = 24
# They are to be read on white and on black.
INK, GRID = "#7d8590", "#7d859040"
WIFI, LTE, ALONE = "#2f7fd6", "#d9730d", "#e64980"
# Of the scenario: when WiFi is silent.
DOWN_S, UP_S = 8, 13


def simulate(mpq, out):
    """Runs the scenario; returns its summary."""
    command = [str(mpq), "sim", str(HERE / "scenarios/picture.toml"), "--out", str(out), "--quiet"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"`{' '.join(command)}` ended with {done.returncode}: {done.stdout}{done.stderr}")
    return json.loads((out / "summary.json").read_text(encoding="utf-8"))


def series(out, summary, case):
    """{path: [(s, Mbit/s)]} of a case, and its metrics."""
    [run] = [run for run in summary["runs"] if run["case"].split(",")[0] == f"case={case}"]
    paths = {}
    with open(out / run["folder"] / "paths.csv", newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            paths.setdefault(row["path"], []).append((float(row["time_s"]), float(row["goodput_mbps"])))
    return paths, run["metrics"]


def figures(alone, both):
    """What the picture says in numbers: Mbit/s that the application reads, before the silence and in it."""
    return {f"{name} {when}": round(metrics[f"window.{window}.flow.film.goodput_mbps"], 1)
            for name, metrics in (("wifi", alone), ("both", both))
            for when, window in (("before", "before"), ("silence", "dead"))}


def stated(svg):
    """The same from a picture."""
    return json.loads(re.search(r"<metadata>(.*?)</metadata>", svg)[1])


def draw(alone, both, numbers):
    """The picture as text. `alone` is a curve, `both` one for each path."""
    end = alone[-1][0]

    def x(t):
        return round(LEFT + t / end * (WIDTH - LEFT - RIGHT), 1)

    def y(mbps):
        return round(HEIGHT - BOTTOM - mbps / TOP_MBPS * (HEIGHT - TOP - BOTTOM), 1)

    def line(points):
        return " ".join(f"{x(t)},{y(v)}" for t, v in points)

    def text(at_x, at_y, words, colour=INK, anchor="start", more=""):
        return f'<text x="{at_x}" y="{at_y}" fill="{colour}" text-anchor="{anchor}"{more}>{words}</text>'

    def area(low, high, colour):
        return f'<polygon points="{line(low)} {line(high[::-1])}" fill="{colour}" fill-opacity="0.8"/>'

    # Both begin with the connection; a path that comes later has no rows before.
    times = [t for t, _ in both["wifi"]]
    of_lte = dict(both["lte"])
    lte = [(0.0, 0.0), *((t, of_lte.get(t, 0.0)) for t in times)]
    wifi = [(0.0, 0.0), *((t, of_lte.get(t, 0.0) + v) for t, v in both["wifi"])]
    alone = [(0.0, 0.0), *alone]

    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" '
             'font-family="system-ui, sans-serif" font-size="13">',
             "<title>One download over WiFi (12 Mbit/s) and LTE (8 Mbit/s), and over WiFi alone; WiFi is silent from "
             f"{DOWN_S} s to {UP_S} s</title>",
             "<!-- drawn by experiments/picture.py from experiments/scenarios/picture.toml, in virtual time -->",
             f"<metadata>{json.dumps(numbers)}</metadata>"]
    for mbps in range(0, TOP_MBPS + 1, 4):
        parts.append(f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y(mbps)}" y2="{y(mbps)}" stroke="{GRID}"/>')
        parts.append(text(LEFT - 8, y(mbps) + 4, mbps, anchor="end"))
    for t in range(0, round(end) + 1, 5):
        parts.append(text(x(t), HEIGHT - BOTTOM + 18, f"{t} s", anchor="middle"))
    parts += [text(LEFT - 40, TOP - 26, "Mbit/s received"),
              area([(0.0, 0.0), (end, 0.0)], lte, LTE), area(lte, wifi, WIFI),
              f'<polyline points="{line(alone)}" fill="none" stroke="{ALONE}" stroke-width="3" '
              'stroke-dasharray="6 3" stroke-linejoin="round"/>',
              text(x(4), y(3.4), "both networks, over LTE", "#ffffff", "middle", ' font-weight="600"'),
              text(x(4), y(14.8), "both networks, over WiFi", "#ffffff", "middle", ' font-weight="600"'),
              text(x(4), y(20.8), f"both: {numbers['both before']} Mbit/s", anchor="middle"),
              text(x((DOWN_S + UP_S) / 2 + 0.6), y(9), f"both: {numbers['both silence']} Mbit/s", anchor="middle"),
              text(x((DOWN_S + UP_S) / 2), y(20.8), "WiFi is silent", anchor="middle")]
    for t in (DOWN_S, UP_S):
        parts.append(f'<line x1="{x(t)}" x2="{x(t)}" y1="{TOP}" y2="{HEIGHT - BOTTOM}" stroke="{INK}" stroke-dasharray="2 3"/>')
    key = HEIGHT - 8
    parts += [f'<line x1="{LEFT}" x2="{LEFT + 34}" y1="{key - 4}" y2="{key - 4}" stroke="{ALONE}" stroke-width="3" '
              'stroke-dasharray="6 3"/>',
              text(LEFT + 42, key, f"the same download over WiFi alone: {numbers['wifi before']} Mbit/s, "
                   f"and {numbers['wifi silence']:g} while WiFi is silent"), "</svg>"]
    return "\n".join(parts) + "\n"


def make(mpq, out):
    """Simulates into the folder `out`; returns the picture and its numbers."""
    summary = simulate(mpq, out)
    (alone, alone_metrics), (both, both_metrics) = (series(out, summary, case) for case in ("wifi", "both"))
    numbers = figures(alone_metrics, both_metrics)
    return draw(alone["wifi"], both, numbers), numbers


def main(words=None):
    parser = argparse.ArgumentParser(prog="picture.py", description=__doc__, epilog=EXAMPLES,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mpq", type=Path, required=True, help="the mpq program")
    parser.add_argument("--out", type=Path, default=PICTURE, help="the file [default: docs/picture.svg]")
    arguments = parser.parse_args(words)
    try:
        with tempfile.TemporaryDirectory() as folder:
            svg, _ = make(arguments.mpq, Path(folder))
        arguments.out.write_text(svg, encoding="utf-8")
    except (RuntimeError, OSError) as error:
        print(f"picture: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
