"""Draws the experiments beyond the papers from results of `mpq sim` and `grid.py`, and judges their rules.

`ci/papers --beyond` runs the scenarios of `scenarios/beyond/`, a part of the grid, and then this.
"""

import argparse
import sys
from functools import partial
from pathlib import Path

# What draws shares its looks with the demonstration.
sys.path.append(str(Path(__file__).resolve().parents[1] / "mininet"))

EXAMPLES = """\
examples:
  python3 experiments/beyond.py out/beyond/reduced --grid out/beyond/reduced-grid
  python3 experiments/beyond.py out/sim/compare-rtt --out /tmp/rtt      one scenario alone

exit status: 0 the page is written, and every rule that was judged holds; 1 the results cannot be read;
6 the page cannot be written; 8 a rule does not hold"""

ABOUT = ("Experiments of our own on the same ground for every controller, and other projects' tests, in simulations with "
         "connections of the patched quiche. Rules are those of the scenarios: some state a goal or a published figure, the "
         "others what was expected or measured before.")


def parse_arguments(words=None):
    parser = argparse.ArgumentParser(
        prog="beyond.py", description="Draws the experiments beyond the papers from results of mpq sim, and judges them.",
        epilog=EXAMPLES, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", type=Path, help="a folder of result folders, or one of them")
    parser.add_argument("--grid", type=Path, default=Path("out/grid"), metavar="FOLDER",
                        help="what `grid.py run` wrote; the page shows it if it is there [default: %(default)s]")
    parser.add_argument("--out", type=Path, default=Path("out/beyond"),
                        help="where index.html and the PNGs go [default: %(default)s]")
    return parser.parse_args(words)


def main(words=None):
    arguments = parse_arguments(words)
    # Only now: the help needs none of the modules that draw.
    from report import beyond, command
    from report.beyond import grid
    from report.page import Page
    page = Page("Beyond the papers", ABOUT, "asked", beyond.ALL, extras=(partial(grid.section, arguments.grid),))
    return command.draw("beyond", page, arguments.results, arguments.out)


if __name__ == "__main__":
    sys.exit(main())
