"""The context graph (psync-1989 section 2): of everything in a message's past, its direct causes.

The graph is the transitive reduction of →: m is a direct cause of m' if m → m' and there is no message between them.
Vectors tell this without a walk. The past of a message is one number per key (group and sender), so at most the highest
message of each key can be a direct cause: every lower one has that one behind it. And the highest of key j is none if
it lies in the past of the highest of some other key i, which one comparison decides. Within a send run, the message
before is the one direct cause, since both have the same past but for that.

So each slice of send runs is reduced by itself, with the vectors at hand: n runs and k keys cost n·k² comparisons, and
nothing is walked or sorted. An edge is `certain` unless something off record lies in the past of its message: what the
lost end of a log would tell might lie in between.
"""

from typing import Final

import numpy as np
import pyarrow as pa

from antiphon.pipeline.audit.order import NO_ROW, Order
from antiphon.pipeline.intervals import Ints, Mask

SLICE_RUNS: Final = 4096
"""How many send runs are reduced at a time: the vectors of their causes fit in a cache."""

EDGES: Final = pa.schema(
    [
        ("run", pa.string()),
        # The message…
        ("group", pa.string()),
        ("sender", pa.string()),
        ("number", pa.int64()),
        # …its direct cause…
        ("cause_group", pa.string()),
        ("cause_sender", pa.string()),
        ("cause_number", pa.int64()),
        # …and how many edges the row stands for: number + 1 follows cause_number + 1, and so on.
        ("count", pa.int64()),
        ("certain", pa.bool_()),
    ]
)


def direct_causes(order: Order, runs: Ints) -> Mask:
    """One line per send run of `runs`, one column per key: whether the highest message that the first message of the
    run has of this key in its past is a direct cause of it."""
    past = order.past[runs]
    direct: Mask = past > 0
    for key in range(len(order.keys)):
        lines = np.flatnonzero(past[:, key])
        before = order.past[order.run_of(key, past[lines, key])]
        direct[lines] &= before < past[lines]  # in the column of the key itself always true
    return direct


def slices(order: Order) -> list[tuple[int, int]]:
    """The send runs of an order, cut up for `edges`."""
    return [(first, min(first + SLICE_RUNS, len(order.key))) for first in range(0, len(order.key), SLICE_RUNS)]


def edges(order: Order, first: int, end: int) -> pa.RecordBatch:
    """The edges that lead to the messages of some send runs, as rows of EDGES; what is off record has none."""
    runs = first + np.flatnonzero(order.index[first:end] != NO_ROW)
    line, cause = np.nonzero(direct_causes(order, runs))
    within = runs[order.end[runs] - order.start[runs] > 1]
    run = np.concatenate([runs[line], within])
    key, cause_key = order.key[run], np.concatenate([cause, order.key[within]])
    number = np.concatenate([order.start[runs[line]], order.start[within] + 1])
    cause_number = np.concatenate([order.past[runs[line], cause], order.start[within]])
    count = np.concatenate([np.ones(len(line), np.int64), order.end[within] - order.start[within] - 1])
    groups = pa.array([group for group, _ in order.keys], pa.string())
    senders = pa.array([sender for _, sender in order.keys], pa.string())
    columns = [
        pa.array([order.run] * len(run), pa.string()),
        groups.take(pa.array(key)),
        senders.take(pa.array(key)),
        pa.array(number),
        groups.take(pa.array(cause_key)),
        senders.take(pa.array(cause_key)),
        pa.array(cause_number),
        pa.array(count),
        pa.array(~order.off_record()[run]),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=EDGES)
