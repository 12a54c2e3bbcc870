"""What all tasks of a pass must know, as a file that each worker maps.

It is pickled, but for its arrays: these lie before it in the file as they are. So a worker takes into memory only the
pages that it looks at, and workers on one machine share them. Nobody can write to the arrays.
"""

import mmap
import pickle
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

ALIGNMENT: Final = 64
INLINE_BYTES: Final = 4096
"""Smaller arrays stay in the pickle."""
_END_BYTES: Final = 8


def write_shipment(content: object, file: Path) -> None:
    """Write `content` to a new file."""
    set_aside: list[pickle.PickleBuffer] = []

    def stays(buffer: pickle.PickleBuffer) -> bool:
        if buffer.raw().nbytes < INLINE_BYTES:
            return True
        set_aside.append(buffer)
        return False

    pickled = pickle.dumps(content, protocol=5, buffer_callback=stays)
    places: list[tuple[int, int]] = []
    with file.open("xb") as stream:
        for buffer in set_aside:
            stream.write(bytes(-stream.tell() % ALIGNMENT))
            places.append((stream.tell(), buffer.raw().nbytes))
            stream.write(buffer)
        end = stream.tell()
        pickle.dump((places, pickled), stream)
        stream.write(end.to_bytes(_END_BYTES, "little"))


def read_shipment(data: memoryview) -> Any:
    """What was written; its arrays lie in `data`."""
    end = int.from_bytes(data[-_END_BYTES:], "little")
    places, pickled = pickle.loads(data[end:-_END_BYTES])
    return pickle.loads(pickled, buffers=[data[first : first + length] for first, length in places])


@lru_cache(maxsize=1)
def open_shipment(file: str) -> Any:
    """The same from a file, mapped. The last one is kept: the tasks of a pass come one after the other."""
    with Path(file).open("rb") as stream:
        return read_shipment(memoryview(mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ)))
