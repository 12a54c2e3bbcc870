"""Send and deliver rows as arrays: what the checks compute with."""

from dataclasses import dataclass, fields, replace
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from antiphon.history.schema import BARRIER, LEVELS
from antiphon.pipeline.intervals import Ints, Mask

Texts = npt.NDArray[np.object_]

FIFO_RANK: Final = LEVELS.index("fifo")
CAUSAL_RANK: Final = LEVELS.index("causal")
AGREED_RANK: Final = LEVELS.index("agreed")
SAFE_RANK: Final = LEVELS.index("safe")
RELIABLE_RANK: Final = LEVELS.index("reliable")
ABCAST_RANK: Final = LEVELS.index("abcast")
CAUSAL_TOTAL_RANK: Final = LEVELS.index("causal-total")
IN_ORDER_RANKS: Final = (AGREED_RANK, CAUSAL_TOTAL_RANK)
"""Of messages that are in one order at all members, in views that they complete."""

Key = tuple[str, str]
"""(group, sender "name/incarnation"): whose messages are numbered together."""


@dataclass(frozen=True)
class MessageRows:
    """The rows of one kind in one piece, in order of index; each stands for the numbers [start, end) of one key."""

    keys: list[Key]
    key: Ints
    """Places in `keys`."""
    start: Ints
    end: Ints
    index: Ints
    time_ns: Ints
    view: Ints
    level: Ints
    """The rank of the level: 0 is reliable."""
    size: Ints
    barrier: Mask
    digest: Texts
    """Eight hexadecimal digits per message, or None."""

    def of_key(self, place: int) -> Ints:
        """Which rows belong to a key."""
        return np.flatnonzero(self.key == place)

    def of_group(self, group: str) -> Mask:
        """Which rows belong to a group."""
        return np.array([own == group for own, _ in self.keys], bool)[self.key]

    def chosen(self, mask: Mask) -> "MessageRows":
        """Some of the rows, with all keys."""
        columns = {field.name: getattr(self, field.name)[mask] for field in fields(self) if field.name != "keys"}
        return replace(self, **columns)


MESSAGE_COLUMNS: Final = (
    *("kind", "index", "time_ns", "group", "view", "sender", "sender_incarnation"),
    *("number", "count", "level", "label", "size", "digest"),
)
"""The columns that `message_rows` needs."""


def message_rows(table: pa.Table, kind: str) -> MessageRows:
    """The rows of one kind as arrays."""
    part = table.select(MESSAGE_COLUMNS).filter(pc.equal(table["kind"], kind))
    keys, key = _keys(part)
    start = _ints(part["number"])
    return MessageRows(
        keys=keys,
        key=key,
        start=start,
        end=start + _ints(part["count"]),
        index=_ints(part["index"]),
        time_ns=_ints(part["time_ns"]),
        view=_ints(part["view"]),
        level=_ints(pc.index_in(part["level"], pa.array(LEVELS, pa.string()))),
        size=_ints(part["size"]),
        barrier=pc.fill_null(pc.equal(part["label"], BARRIER), False).to_numpy().astype(bool),
        digest=part["digest"].to_numpy().astype(object),
    )


def _keys(part: pa.Table) -> tuple[list[Key], Ints]:
    """The distinct keys in order, and for each row the place of its key among them."""
    groups, group = _encoded(part["group"])
    names, name = _encoded(part["sender"])
    incarnations, incarnation = np.unique(_ints(part["sender_incarnation"]), return_inverse=True)
    codes, code = np.unique((group * len(names) + name) * len(incarnations) + incarnation, return_inverse=True)
    keys = []
    for value in codes.tolist():
        rest, incarnation_place = divmod(value, len(incarnations))
        group_place, name_place = divmod(rest, len(names))
        keys.append((groups[group_place], f"{names[name_place]}/{incarnations[incarnation_place]}"))
    return keys, code.astype(np.int64)


def _encoded(column: pa.ChunkedArray) -> tuple[list[str], Ints]:
    """The distinct values, and for each row the place of its value among them."""
    encoded = pc.dictionary_encode(column.combine_chunks())
    return encoded.dictionary.to_pylist(), np.asarray(encoded.indices, np.int64)


def _ints(column: pa.ChunkedArray) -> Ints:
    """The values; -1 for null."""
    result: Ints = pc.fill_null(column, -1).to_numpy().astype(np.int64)
    return result
