"""Points that fill a unit cube evenly: the WSP algorithm (Santiago, Claeys-Bruno and Sergent, "Construction of
space-filling designs using WSP algorithm for high dimensional spaces", 2012).

From many random candidates it takes one, drops every other candidate closer than some distance, goes on to the nearest
that is left, and so on: no two points of the result are closer than that distance, and few places are farther than it
from a point. The distance that leaves the wanted number of points is found by bisection.
"""

import functools
import math
import random

CANDIDATES_PER_POINT = 5
BISECTIONS = 30


def select(candidates, distance):
    """The indices of the points that WSP keeps, in its order, beginning at the one nearest to the middle."""
    middle = [0.5] * len(candidates[0])
    at = min(range(len(candidates)), key=lambda i: math.dist(candidates[i], middle))
    left, kept = set(range(len(candidates))), []
    while True:
        kept.append(at)
        left.discard(at)
        gaps = {i: math.dist(candidates[i], candidates[at]) for i in left}
        left = {i for i in left if gaps[i] >= distance}
        if not left:
            return kept
        # The index decides between equals: a set has no order.
        at = min(left, key=lambda i: (gaps[i], i))


@functools.cache
def design(count, dimensions, seed=1):
    """`count` points of [0, 1)^dimensions, the same for the same arguments."""
    draws = random.Random(seed)
    candidates = [[draws.random() for _ in range(dimensions)] for _ in range(CANDIDATES_PER_POINT * count)]
    near, far, best = 0.0, math.sqrt(dimensions), list(range(len(candidates)))
    for _ in range(BISECTIONS):
        distance = (near + far) / 2
        kept = select(candidates, distance)
        if len(kept) < count:
            far = distance
            continue
        near = distance
        if len(kept) < len(best):
            best = kept
        if len(kept) == count:
            break
    # Where no distance leaves exactly as many, the last of a few more are left out.
    return [candidates[i] for i in best[:count]]
