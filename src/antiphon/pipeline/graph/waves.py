"""Waves of the context graph (psync-1989 section 4.2).

A wave is a maximal set of messages sent at the same logical time: none is in the past of another. The paper walks the
graph in waves, breadth first, each wave being the roots of what is left when the waves before it are taken away. So the
number of a message's wave is the length of the longest chain that leads to it, itself included: 1 for a message with an
empty past, else one more than the highest wave in its past.

All groups of a run are one conversation here, since causes reach from group to group.

Within a send run the wave rises by one with each message. Send runs are visited by the size of their pasts: what comes
before a message has a smaller past than it. That is one step per send run, on the worker that is handed the run.
"""

from typing import Final

import numpy as np
import pyarrow as pa

from antiphon.pipeline.audit.order import NO_ROW, Order
from antiphon.pipeline.intervals import Ints

WAVES: Final = pa.schema(
    [
        ("run", pa.string()),
        ("group", pa.string()),
        ("sender", pa.string()),
        ("number", pa.int64()),
        # How many messages the row stands for: number + 1 is in the wave after that of number, and so on.
        ("count", pa.int64()),
        ("wave", pa.int64()),
    ]
)

BLOCK_RUNS: Final = 4096
"""How many send runs are prepared at a time, so that no second matrix of all of them is needed."""


def first_waves(order: Order, runs: Ints) -> Ints:
    """The wave of the first message of each send run; `runs` must hold, with a run, all that is in its past."""
    waves = np.zeros(len(order.key), np.int64)
    sizes = order.past[runs].sum(axis=1)
    visited = runs[np.argsort(sizes, kind="stable")]
    for first in range(0, len(visited), BLOCK_RUNS):
        block = visited[first : first + BLOCK_RUNS]
        lines, keys = np.nonzero(order.past[block])
        through = np.empty(len(lines), np.int64)
        for key in np.unique(keys).tolist():
            of_key = keys == key
            through[of_key] = order.run_of(key, order.past[block[lines[of_key]], key])
        behind = order.past[block[lines], keys] - order.start[through]
        bounds = np.searchsorted(lines, np.arange(len(block) + 1)).tolist()
        for place, run in enumerate(block.tolist()):
            own = slice(bounds[place], bounds[place + 1])
            waves[run] = 1 + (waves[through[own]] + behind[own]).max(initial=0)
    result: Ints = waves[runs]
    return result


def wave_table(order: Order) -> pa.Table:
    """The waves of all messages on record, as rows of WAVES."""
    waves = first_waves(order, np.arange(len(order.key)))
    chosen = np.flatnonzero(order.index != NO_ROW)
    key = pa.array(order.key[chosen])
    columns = [
        pa.array([order.run] * len(chosen), pa.string()),
        pa.array([group for group, _ in order.keys], pa.string()).take(key),
        pa.array([sender for _, sender in order.keys], pa.string()).take(key),
        pa.array(order.start[chosen]),
        pa.array(order.end[chosen] - order.start[chosen]),
        pa.array(waves[chosen]),
    ]
    return pa.Table.from_arrays(columns, schema=WAVES)
