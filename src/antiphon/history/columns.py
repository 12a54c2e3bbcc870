"""Columns of plain values as Arrow arrays, made from buffers.

`pyarrow.array` and `pyarrow.scalar` would do, but the first call of either loads pandas where that is installed: this
takes a third of a second of the processor, while a node that records has messages to deliver. And most columns hold few
different values, which are quicker found than converted.
"""

from array import array
from collections.abc import Sequence
from typing import cast

import pyarrow as pa
import pyarrow.compute as pc

Cell = int | str | tuple[str, ...] | None


def column_of(cells: Sequence[Cell], kind: pa.DataType) -> pa.Array:
    """These cells as an array of type int64, string, or list of strings."""
    if pa.types.is_int64(kind):
        return _numbers(cast(Sequence[int | None], cells))
    different: dict[Cell, int] = {}
    places = array("i", [different.setdefault(cell, len(different)) for cell in cells])
    # The null, if there is one, comes last: from there it is taken like any other value.
    values: list[Cell] = [cell for cell in different if cell is not None]
    if None in different and len(different) > 1:
        ranks = {cell: rank for rank, cell in enumerate([*values, None])}
        order = [ranks[cell] for cell in different]
        places = array("i", [order[place] for place in places])
    if not values:
        return pa.nulls(len(cells), kind)
    known = _strings(values) if pa.types.is_string(kind) else _lists(values, kind)
    if None in different:
        known = pa.concat_arrays([known, pa.nulls(1, kind)])
    return pc.take(known, pa.Array.from_buffers(pa.int32(), len(places), [None, pa.py_buffer(places)]))


def same_of(cell: int | str, count: int) -> pa.Array:
    """The same cell, so many times."""
    if isinstance(cell, int):
        return _numbers([cell] * count)
    places = pa.Array.from_buffers(pa.int32(), count, [None, pa.py_buffer(bytes(4 * count))])
    return pc.take(_strings([cell]), places)


def _numbers(cells: Sequence[int | None]) -> pa.Array:
    count = len(cells)
    if None not in cells:
        return pa.Array.from_buffers(pa.int64(), count, [None, pa.py_buffer(array("q", cast(Sequence[int], cells)))])
    if cells.count(None) == count:
        return pa.nulls(count, pa.int64())
    valid = bytearray((count + 7) // 8)
    for place, cell in enumerate(cells):
        if cell is not None:
            valid[place >> 3] |= 1 << (place & 7)
    numbers = array("q", [0 if cell is None else cell for cell in cells])
    return pa.Array.from_buffers(pa.int64(), count, [pa.py_buffer(valid), pa.py_buffer(numbers)])


def _strings(values: Sequence[Cell]) -> pa.Array:
    encoded = [str(value).encode() for value in values]
    offsets = array("i", [0])
    for value in encoded:
        offsets.append(offsets[-1] + len(value))
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(b"".join(encoded))]
    return pa.Array.from_buffers(pa.string(), len(encoded), buffers)


def _lists(values: Sequence[Cell], kind: pa.DataType) -> pa.Array:
    strings: list[Cell] = []
    offsets = array("i", [0])
    for value in values:
        assert isinstance(value, tuple)
        strings += value
        offsets.append(len(strings))
    buffers = [None, pa.py_buffer(offsets)]
    return pa.Array.from_buffers(kind, len(values), buffers, children=[_strings(strings)])
