"""Latencies, rounded so that they can be counted: each is off by less than one part in 64, and few values remain.

However many messages a history has, a piece of it then sends no more than a few hundred counts to be added up.
"""

from collections.abc import Sequence

import numpy as np

from antiphon.pipeline.intervals import Ints

BITS = 7


def coarse(latencies_ns: Ints) -> Ints:
    """Rounded down to their BITS leading binary digits."""
    shift = np.maximum(np.frexp(latencies_ns.astype(np.float64))[1] - BITS, 0)
    rounded: Ints = latencies_ns >> shift << shift
    return rounded


def percentile(ordered: Sequence[int], per_cent: int) -> int | None:
    """The smallest value that so many per cent of all do not exceed."""
    return ordered[(len(ordered) * per_cent + 99) // 100 - 1] if ordered else None
