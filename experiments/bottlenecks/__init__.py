"""Do two paths share a bottleneck, and does the sender know? Drawn topologies, and what is made of the controllers'
verdicts.

    topologies.py   draws them, as scenarios of `mpq sim`
    verdicts.py     reads the verdicts from the results: errors, time to decision, table, figure
    published.py    published ways to find out, as test doubles; rfc8382.py and cmpbbr.py are their rules
"""
