"""The experimental design of De Coninck and Bonaventure (CoNEXT 2017): points spread over ranges of link parameters, a
transfer at each, and what several paths bring over the better one.

    points.py    points that fill a cube evenly (WSP)
    settings.py  the four classes, and the scenario of each point
    benefit.py   EBen from the results, shares of cases, table
"""
