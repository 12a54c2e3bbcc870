"""Columns of whole numbers as few bytes: what leaves a piece on its way to the driver, and what waits there.

The numbers of a history go up in small steps. So each is kept as its distance from the one before, in the narrowest
type that holds all distances, compressed. Distances are taken modulo 2^64, so that any 64-bit numbers survive. A short
column is left as it is.
"""

from typing import Final

import numpy as np
import pyarrow as pa

from antiphon.pipeline.intervals import Ints

_TYPES: Final = tuple(np.dtype(name) for name in ("<i1", "<i2", "<i4", "<i8"))
_LIMITS: Final = tuple((np.iinfo(of).min, np.iinfo(of).max) for of in _TYPES)
_CODEC: Final = "zstd"
_SHORT: Final = 64
_PLAIN: Final = len(_TYPES)
"""The kind of a column that is left as it is; the other kinds are places in _TYPES."""
_HEADER_BYTES: Final = 17


def pack(values: Ints) -> bytes:
    """A column of numbers; also none at all."""
    if len(values) <= _SHORT:
        return bytes([_PLAIN]) + values.astype("<i8").tobytes() if len(values) else b""
    with np.errstate(over="ignore"):
        steps = np.diff(values)
    low, high = int(steps.min()), int(steps.max())
    kind = next(place for place, (least, most) in enumerate(_LIMITS) if least <= low and high <= most)
    body: bytes = pa.compress(steps.astype(_TYPES[kind]).tobytes(), _CODEC, asbytes=True)
    return bytes([kind]) + np.array([values[0], len(values)], "<i8").tobytes() + body


def unpack(packed: bytes) -> Ints:
    if not packed:
        return np.empty(0, np.int64)
    if packed[0] == _PLAIN:
        return np.frombuffer(packed, "<i8", offset=1).astype(np.int64)
    first, length = np.frombuffer(packed, "<i8", 2, offset=1)
    of = _TYPES[packed[0]]
    values = np.empty(int(length), np.int64)
    values[0] = first
    body = pa.decompress(packed[_HEADER_BYTES:], (int(length) - 1) * of.itemsize, _CODEC)
    values[1:] = np.frombuffer(body, of)
    with np.errstate(over="ignore"):
        np.cumsum(values, out=values)
    return values
