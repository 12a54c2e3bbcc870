"""What a sender says that it sent: level, size and digest, message by message, ready to be compared with deliveries."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Self

import numpy as np
import numpy.typing as npt

from antiphon.pipeline.audit.logs import LogFacts
from antiphon.pipeline.intervals import EMPTY, Ints, Mask

Digests = npt.NDArray[np.uint32]
DIGEST_TYPE: Final = ">u4"


@dataclass(frozen=True)
class SentContents:
    """The messages 1, 2, 3… of one key that are on record."""

    starts: Ints
    """The first number of each send row, and the number after the last."""
    levels: Ints
    """Of each send row."""
    bytes_before: Ints
    """Payload bytes before each of `starts`."""
    digests: Digests
    """By number, from 1 on; empty where there are none at all."""
    digested: Mask
    """Which have one."""

    @property
    def sent(self) -> int:
        return int(self.starts[-1]) - 1

    def level_of(self, numbers: Ints) -> Ints:
        result: Ints = self.levels[np.searchsorted(self.starts, numbers, "right") - 1]
        return result


@dataclass(frozen=True)
class ContentIndex:
    """The send rows of all keys of a run in one line, so that rows of all keys are looked up at once.

    Each key has a stretch of the line: its numbers, shifted by `base`."""

    base: Ints
    """By key."""
    starts: Ints
    """The first number of each send row, and the number after the last of each key, shifted."""
    bytes_before: Ints
    """Payload bytes of the key before each of `starts`."""
    levels: Ints
    """Of each send row; behind the last of each key stands a -1 that belongs to no message."""

    @classmethod
    def of(cls, contents: Sequence[SentContents]) -> Self:
        """All keys, in their order."""
        lengths = np.array([each.sent + 2 for each in contents], np.int64)
        base = np.cumsum(lengths) - lengths
        shifted = [each.starts + own for each, own in zip(contents, base.tolist(), strict=True)]
        return cls(
            base,
            np.concatenate([EMPTY.starts, *shifted]),
            np.concatenate([EMPTY.starts, *(each.bytes_before for each in contents)]),
            np.concatenate([EMPTY.starts, *(np.append(each.levels, -1) for each in contents)]),
        )

    def level_of(self, places: Ints, numbers: Ints) -> Ints:
        """The levels of messages of some keys, all of them on record."""
        result: Ints = self.levels[np.searchsorted(self.starts, self.base[places] + numbers, "right") - 1]
        return result

    def size_of(self, places: Ints, starts: Ints, ends: Ints) -> Ints:
        """The payload bytes of each run of numbers, or -1 where it begins or ends within a send row. No number is above
        that after the last on record."""
        starts, ends = self.base[places] + starts, self.base[places] + ends
        first, last = np.searchsorted(self.starts, starts), np.searchsorted(self.starts, ends)
        aligned = (self.starts[first] == starts) & (self.starts[last] == ends)
        result: Ints = np.where(aligned, self.bytes_before[last] - self.bytes_before[first], -1)
        return result


def contents_of(log: LogFacts, group: str) -> SentContents:
    """What a log says that its process sent to a group."""
    none = np.empty(0, np.int64)
    counts, levels, sizes = [none], [none], [none]
    digested, digests = [np.empty(0, bool)], [np.empty(0, np.uint32)]
    for piece in log.pieces:
        if group not in piece["send_groups"]:
            continue
        own = piece["send_group"] == piece["send_groups"].index(group)
        count, index = piece["send_count"][own], piece["send_index"][own]
        # Runs that were cut where they left share their row: its size is told once.
        first = np.flatnonzero(np.append(True, index[1:] != index[:-1]))
        counts.append(np.add.reduceat(count, first))
        levels.append(piece["send_level"][own][first])
        sizes.append(piece["send_size"][own][first])
        has = piece["send_digested"] > 0
        flat = np.zeros(int(piece["send_count"].sum()), np.uint32)
        flat[np.repeat(has, piece["send_count"])] = np.frombuffer(piece["send_digest"], DIGEST_TYPE)
        digested.append(np.repeat(has[own], count))
        digests.append(flat[np.repeat(own, piece["send_count"])])
    mask = np.concatenate(digested)
    return SentContents(
        starts=1 + np.concatenate(([0], np.cumsum(np.concatenate(counts)))),
        levels=np.concatenate(levels),
        bytes_before=np.concatenate(([0], np.cumsum(np.concatenate(sizes)))),
        digests=np.concatenate(digests) if mask.any() else np.empty(0, np.uint32),
        digested=mask if mask.any() else np.empty(0, bool),
    )
