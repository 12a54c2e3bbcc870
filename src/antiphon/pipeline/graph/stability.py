"""When each message was stable: delivered by every member of the view that it was sent in.

A message that names destinations is stable when those of them that are in the view have it. It counts when a member
first delivered it, and who was last; who never did, as far as is on record, is `lacking`, and the message is not stable
then. (psync-1989 section 2 calls a message stable when every other participant has sent something after it; that is how
a participant learns of it, and may be long after, or never in a group of listeners. Here the rows of all members are at
hand, so nobody need send anything.)

It takes two steps. Each piece of a log says by which rows it delivered what, cut at blocks of BLOCK numbers of a
sender. Then each block is put together by itself, from the rows of all members.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa

from antiphon.pipeline.audit.order import Order
from antiphon.pipeline.audit.pieces import Piece
from antiphon.pipeline.audit.rows import message_rows
from antiphon.pipeline.intervals import NEVER, Ints, Mask, first_positions

BLOCK: Final = 16_384
"""How many numbers of a sender are put together at once; with n members, at most n times as many rows."""

DELIVERED: Final = pa.schema(
    [
        ("run", pa.string()),
        ("key", pa.int64()),  # a place in the order's keys
        ("block", pa.int64()),
        ("process", pa.string()),  # null in the one row that only says that there is such a block
        ("start", pa.int64()),
        ("end", pa.int64()),
        ("time_ns", pa.int64()),
    ]
)

STABILITY: Final = pa.schema(
    [
        ("run", pa.string()),
        ("group", pa.string()),
        ("sender", pa.string()),
        ("number", pa.int64()),
        ("count", pa.int64()),  # how many messages, from number on, the row stands for
        ("view", pa.int64()),
        ("sent_ns", pa.int64()),
        ("stable_ns", pa.int64()),  # null if somebody lacks it
        ("last", pa.string()),  # who delivered it last; of several at the same time, the last by name
        ("lacking", pa.list_(pa.string())),
    ]
)


def blocks(order: Order) -> pa.RecordBatch:
    """All blocks of a run in which something on record was sent, as rows of DELIVERED without a process."""
    found = [(key, block) for key, sent in enumerate(order.sent.tolist()) for block in range(-(-sent // BLOCK))]
    rows = [{"run": order.run, "key": key, "block": block} for key, block in found]
    return pa.RecordBatch.from_pylist(rows, DELIVERED)


def delivered(piece: Piece, order: Order, known_end: int) -> pa.RecordBatch:
    """What the rows of a piece before `known_end` delivered of what is on record, block by block."""
    first_index = piece.table["index"][0].as_py()
    rows = message_rows(piece.table.slice(0, known_end - first_index), "deliver")
    key = np.array([order.places[known] for known in rows.keys], np.int64)[rows.key]
    end = np.minimum(rows.end, order.sent[key] + 1)
    chosen = np.flatnonzero(end > rows.start)
    first, last = (rows.start[chosen] - 1) // BLOCK, (end[chosen] - 2) // BLOCK
    count = last - first + 1
    row = np.repeat(chosen, count)
    block = np.repeat(first, count) + np.arange(len(row)) - np.repeat(np.cumsum(count) - count, count)
    columns = [
        pa.array([piece.run] * len(row), pa.string()),
        pa.array(key[row]),
        pa.array(block),
        pa.array([piece.process] * len(row), pa.string()),
        pa.array(np.maximum(rows.start[row], block * BLOCK + 1)),
        pa.array(np.minimum(end[row], (block + 1) * BLOCK + 1)),
        pa.array(rows.time_ns[row]),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=DELIVERED)


def stability(order: Order, key: int, block: int, table: pa.Table) -> pa.Table:
    """The messages of one block, from all its rows of DELIVERED, as rows of STABILITY."""
    low, high = block * BLOCK + 1, min((block + 1) * BLOCK, int(order.sent[key])) + 1
    runs = np.arange(order.run_of(key, np.array([low]))[0], order.run_of(key, np.array([high - 1]))[0] + 1)
    by_process = _by_process(table)
    edges = [end for spans in by_process.values() for end in spans[:2]]
    bounds = np.unique(np.concatenate([np.maximum(order.start[runs], low), [high], *edges]))
    run = order.run_of(key, bounds[:-1])
    first_ns = {process: first_positions(bounds, *spans) for process, spans in by_process.items()}
    stable_ns, last, lacking = np.full(len(run), NEVER), np.full(len(run), None), np.full(len(run), None)
    for audience in np.unique(order.audience[run]).tolist():
        chosen = np.flatnonzero(order.audience[run] == audience)
        found = _of_members(sorted(order.audiences[audience]), first_ns, chosen)
        stable_ns[chosen], last[chosen], lacking[chosen] = found
    return _rows(order, key, bounds, run, stable_ns, last, lacking)


def _by_process(table: pa.Table) -> dict[str, tuple[Ints, Ints, Ints]]:
    """Starts, ends and times of each process that delivered something."""
    result: dict[str, tuple[Ints, Ints, Ints]] = {}
    encoded = table["process"].combine_chunks().dictionary_encode()
    of_row = encoded.indices.fill_null(-1).to_numpy(zero_copy_only=False)
    columns = [table[name].combine_chunks().fill_null(0).to_numpy().astype(np.int64) for name in DELIVERED.names[4:]]
    for place, process in enumerate(encoded.dictionary.to_pylist()):
        start, end, time_ns = (column[of_row == place] for column in columns)
        result[process] = (start, end, time_ns)
    return result


def _of_members(members: Sequence[str], first_ns: Mapping[str, Ints], chosen: Ints) -> tuple[Ints, Any, Any]:
    """When the last of the members delivered, who that was, and who never did, for each chosen piece."""
    never = np.full(len(chosen), NEVER)
    times = np.array([first_ns[member][chosen] if member in first_ns else never for member in members], np.int64)
    times = times.reshape(len(members), len(chosen))
    if not members:
        return never, np.full(len(chosen), None), _lists([[]] * len(chosen))
    missing: Mask = times == NEVER
    latest = len(members) - 1 - np.argmax(times[::-1], axis=0)
    is_stable = ~missing.any(axis=0)
    names = np.array(members, object)
    last = np.where(is_stable, names[latest], None)
    return times.max(axis=0), last, _lists([names[column].tolist() for column in missing.T])


def _lists(values: list[list[str]]) -> Any:
    result = np.empty(len(values), object)
    result[:] = values
    return result


def _rows(order: Order, key: int, bounds: Ints, run: Ints, stable_ns: Ints, last: Any, lacking: Any) -> pa.Table:
    """One row for each stretch of a send run in which all is the same."""
    same = (run[1:] == run[:-1]) & (stable_ns[1:] == stable_ns[:-1]) & (last[1:] == last[:-1])
    same &= np.array([one == other for one, other in zip(lacking[1:], lacking[:-1], strict=True)], bool)
    begin = np.flatnonzero(np.concatenate(([True], ~same)))
    end = bounds[np.append(np.flatnonzero(~same) + 1, len(run))]
    group, sender = order.keys[key]
    columns = [
        pa.array([order.run] * len(begin), pa.string()),
        pa.array([group] * len(begin), pa.string()),
        pa.array([sender] * len(begin), pa.string()),
        pa.array(bounds[begin]),
        pa.array(end - bounds[begin]),
        pa.array(order.view[run[begin]]),
        pa.array(order.time_ns[run[begin]]),
        pa.array(stable_ns[begin], mask=stable_ns[begin] == NEVER),
        pa.array(last[begin].tolist(), pa.string()),
        pa.array(lacking[begin].tolist(), pa.list_(pa.string())),
    ]
    return pa.Table.from_arrays(columns, schema=STABILITY)
