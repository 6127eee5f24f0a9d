"""What `papers.py` and `beyond.py` do."""

import sys

from . import kept
from . import page as pages
from .results import ResultsError, load


def draw(name, page, results, out, keep=None):
    """Writes the page of the results in the folder `results` into the folder `out`, and prints its claims.

    Returns the exit status: 0, 1 if the results cannot be read, 6 if the page cannot be written, 8 if a claim is not
    accepted. `name` is the command's, for errors. What was run at full scale goes into the folder `keep`, if one is given.
    """
    try:
        sections = pages.write(out, page, load(results))
        whole = kept.save(keep, page, sections) if keep else None
    except ResultsError as e:
        print(f"{name}: {e}", file=sys.stderr)
        return 1
    except OSError as e:
        print(f"{name}: {e}; choose another folder with --out", file=sys.stderr)
        return 6
    print(pages.as_text(sections))
    print(f"\n{out / 'index.html'}")
    if keep:
        print(f"{keep}: {'tables and page' if whole else 'tables; the page is made anew when all scenarios were run without --set'}")
    return 8 if any(claim.accepted is False for section in sections for claim in section.claims) else 0
