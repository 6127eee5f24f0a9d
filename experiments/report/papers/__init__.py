"""One module for each paper: TITLE, FIGURES, MEASURED (claims that need the series), WHY (why some do not come out).

WHY is by the claim's words in the scenario, as {"CC-1: ...": "..."}.
"""

from . import cc, dl, mc, mm, mo

ALL = (cc, mc, mm, dl, mo)
