"""Columns of whole numbers as few bytes: what leaves a piece on its way to the driver, and what waits there.

The numbers of a history go up in small steps. So each is kept as its distance from the one before, in the narrowest
type that holds all distances, compressed. Distances are taken modulo 2^64, so that any 64-bit numbers survive.
"""

from typing import Final

import numpy as np
import pyarrow as pa

from antiphon.pipeline.intervals import Ints

_TYPES: Final = tuple(np.dtype(name) for name in ("<i1", "<i2", "<i4", "<i8"))
_CODEC: Final = "zstd"
_HEADER_BYTES: Final = 17


def pack(values: Ints) -> bytes:
    """A column of numbers; also none at all."""
    if not len(values):
        return b""
    with np.errstate(over="ignore"):
        steps = np.diff(values)
    low, high = int(steps.min(initial=0)), int(steps.max(initial=0))
    kind = next(place for place, of in enumerate(_TYPES) if np.iinfo(of).min <= low and high <= np.iinfo(of).max)
    body = pa.compress(steps.astype(_TYPES[kind]).tobytes(), _CODEC, asbytes=True) if len(steps) else b""
    header = np.array([values[0], len(values)], "<i8").tobytes() + bytes([kind])
    return header + body


def unpack(packed: bytes) -> Ints:
    if not packed:
        return np.empty(0, np.int64)
    first, length = np.frombuffer(packed, "<i8", 2)
    of = _TYPES[packed[_HEADER_BYTES - 1]]
    values = np.empty(int(length), np.int64)
    values[0] = first
    if length > 1:
        body = pa.decompress(packed[_HEADER_BYTES:], (int(length) - 1) * of.itemsize, _CODEC)
        values[1:] = np.frombuffer(body, of)
        with np.errstate(over="ignore"):
            np.cumsum(values, out=values)
    return values
