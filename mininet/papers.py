"""Draws the papers' figures from results of `mpq sim`, and judges their claims.

`ci/papers` runs the scenarios of `scenarios/papers/` and then this.
"""

import argparse
import sys
from pathlib import Path

EXAMPLES = """\
examples:
  python3 mininet/papers.py out/papers/reduced --out out/papers
  python3 mininet/papers.py out/sim/mc-3 --out /tmp/mc-3      one scenario alone

exit status: 0 the page is written, and every claim that was judged is accepted; 1 the results cannot be read;
6 the page cannot be written; 8 a claim is not accepted"""


def parse_arguments(words=None):
    parser = argparse.ArgumentParser(
        prog="papers.py", description="Draws the papers' figures from results of mpq sim, and judges their claims.",
        epilog=EXAMPLES, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", type=Path, help="a folder of result folders, or one of them")
    parser.add_argument("--out", type=Path, default=Path("out/papers"),
                        help="where index.html and the PNGs go [default: %(default)s]")
    return parser.parse_args(words)


def main(words=None):
    arguments = parse_arguments(words)
    # Only now: the help needs none of the modules that draw.
    from report import page, papers
    from report.results import ResultsError, load
    try:
        sections = page.write(arguments.out, papers.ALL, load(arguments.results))
    except ResultsError as e:
        print(f"papers: {e}", file=sys.stderr)
        return 1
    except OSError as e:
        print(f"papers: {e}; choose another folder with --out", file=sys.stderr)
        return 6
    print(page.as_text(sections))
    print(f"\n{arguments.out / 'index.html'}")
    return 8 if any(claim.accepted is False for section in sections for claim in section.claims) else 0


if __name__ == "__main__":
    sys.exit(main())
