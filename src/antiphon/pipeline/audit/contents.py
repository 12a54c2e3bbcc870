"""What a sender says that it sent: level, size and digest, message by message, ready to be compared with deliveries."""

from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from antiphon.pipeline.audit.logs import LogFacts
from antiphon.pipeline.intervals import Ints, Mask

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

    def at_level(self, level: int, numbers: Ints) -> Ints:
        """How many messages below each number were sent at a level; no number is above `sent` + 1."""
        same = self.levels == level
        before = np.concatenate(([0], np.cumsum(np.where(same, np.diff(self.starts), 0))))
        row = np.searchsorted(self.starts, numbers, "right") - 1
        inside = np.where(np.append(same, False)[row], numbers - self.starts[row], 0)
        result: Ints = before[row] + inside
        return result

    def level_of(self, numbers: Ints) -> Ints:
        result: Ints = self.levels[np.searchsorted(self.starts, numbers, "right") - 1]
        return result

    def size_of(self, starts: Ints, ends: Ints) -> Ints:
        """The payload bytes of each run of numbers, or -1 where it begins or ends within a send row."""
        top = len(self.starts) - 1
        first = np.minimum(np.searchsorted(self.starts, starts), top)
        last = np.minimum(np.searchsorted(self.starts, ends), top)
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
