"""Draws the papers' figures from results of `mpq sim`, and judges their claims.

`ci/papers` runs the scenarios of `scenarios/papers/` and then this.
"""

import argparse
import sys
from functools import partial
from pathlib import Path

# What draws shares its looks with the demonstration.
sys.path.append(str(Path(__file__).resolve().parents[1] / "mininet"))

KEPT = Path(__file__).resolve().parents[1] / "docs/papers"

EXAMPLES = """\
examples:
  python3 experiments/papers.py out/papers/reduced --out out/papers
  python3 experiments/papers.py out/sim/mc-3 --out /tmp/mc-3      one scenario alone
  python3 experiments/papers.py out/papers/full --keep            after a full run: renews docs/papers

exit status: 0 the page is written, and every claim that was judged is accepted; 1 the results cannot be read;
6 the page cannot be written; 8 a claim is not accepted"""

ABOUT = ("Each paper's figures, drawn from simulations with connections of the patched quiche, and its claims, judged by "
         "rules that the scenarios state.")


def parse_arguments(words=None):
    parser = argparse.ArgumentParser(
        prog="papers.py", description="Draws the papers' figures from results of mpq sim, and judges their claims.",
        epilog=EXAMPLES, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", type=Path, help="a folder of result folders, or one of them")
    parser.add_argument("--out", type=Path, default=Path("out/papers"),
                        help="where index.html and the PNGs go [default: %(default)s]")
    parser.add_argument("--agreement", type=Path, default=Path("out/bench/agreement.json"), metavar="FILE",
                        help="what `ci/bench agreement` wrote; the page shows it if it is there [default: %(default)s]")
    parser.add_argument("--kept", type=Path, default=KEPT, metavar="FOLDER",
                        help="what full-scale runs found, for the page of reduced ones [default: docs/papers]")
    parser.add_argument("--keep", action="store_true",
                        help="puts what was run without --set into that folder: its tables, and the page if it was everything")
    return parser.parse_args(words)


def main(words=None):
    arguments = parse_arguments(words)
    # Only now: the help needs none of the modules that draw.
    from report import agreement, command, kept, papers
    from report.page import Page
    from report.results import ResultsError
    try:
        before = kept.load(arguments.kept)
    except ResultsError as e:
        print(f"papers: {e}", file=sys.stderr)
        return 1
    page = Page("The papers' experiments, run again", ABOUT, "paper", papers.ALL,
                extras=(partial(agreement.section, arguments.agreement),), kept=before)
    return command.draw("papers", page, arguments.results, arguments.out, arguments.kept if arguments.keep else None)


if __name__ == "__main__":
    sys.exit(main())
