"""Reading what was placed in groups before one joined them: for late joiners, and for clients that were away.

Promise. A member that asks for the places of a group from a number on, up to its join, is told all messages in them,
each once and in their order, or that the service does not have all of them any more. Together with what it is
delivered from its join on, the group has no gap. Messages of several groups that are asked for at once come in one
order that all members share as far as the log of one sequencer has it: the one in which the groups were when the
messages were placed. Between what is told again and what is delivered from the joins on, the order is kept within each
group, not between groups.

Rule. A peer keeps stable places of each group up to `retained_kib` (sequenced_group.py). Places carry the contexts
that they were placed with; what is told again is put in order by condition T2 among the groups that were asked for, as
far as contexts speak of what was asked for: a number beyond that stands for the last place that was. Of those that are
ready the one with the lowest stamp comes first (stamps.py).

Live. Contexts of one sequencer never name each other in a circle, so some place can always come next. After a move of
groups between sequencers contexts are still of one log at a time; should none be ready, the first group's next place
comes."""

from typing import Final, final

from antiphon.stacks.sequencer.place import Place
from antiphon.stacks.sequencer.sequenced_group import SequencedGroup
from antiphon.stacks.sequencer.wire import REPLAYED, blob, frame, u64

_CHUNK_BYTES: Final = 1024 * 1024


def replayed_frames(group: SequencedGroup, first: int, last: int) -> list[bytes]:
    """What a peer answers: all these places, or none if not all are there."""
    kept = group.first_kept()
    first = first or kept
    last = min(last, group.number)
    if first < kept and first <= last:
        return [frame(REPLAYED, u64(group.id), b"\1", u64(kept), u64(0))]
    frames: list[bytes] = []
    chunk: list[bytes] = []
    size = 0
    for number in range(first, last + 1):
        data = b"".join([piece[1:] for piece in group.kept(number)])
        chunk.append(blob(data))
        size += len(data)
        if size >= _CHUNK_BYTES:
            frames.append(frame(REPLAYED, u64(group.id), b"\0", u64(kept), u64(len(chunk)), *chunk))
            chunk, size = [], 0
    frames.append(frame(REPLAYED, u64(group.id), b"\1", u64(kept), u64(len(chunk)), *chunk))
    return frames


@final
class ReplayJob:
    """What a client has asked for, and what has come of it."""

    __slots__ = ("missing", "places", "spans")

    def __init__(self, spans: dict[int, tuple[int, int]]) -> None:
        self.spans = spans
        """By group, the first and the last place that are wanted."""
        self.missing = dict.fromkeys(spans)
        """Groups whose answer is not complete."""
        self.places: dict[int, dict[int, Place]] = {group: {} for group in spans}

    def take(self, group: int, kept: int, places: list[Place], is_last: bool) -> int:
        """Take an answer; how many places of the group are still wanting when it should be complete."""
        if group not in self.missing:
            return 0
        if not self.spans[group][0]:
            self.spans[group] = (kept, self.spans[group][1])
        for place in places:
            self.places[group][place.number] = place
        if not is_last:
            return 0
        del self.missing[group]
        first, last = self.spans[group]
        return max(0, last - first + 1) - len(self.places[group])

    def in_order(self) -> list[Place]:
        """All places, in one order."""
        done = {group: first - 1 for group, (first, _) in self.spans.items()}
        left = {group: last for group, (first, last) in self.spans.items() if last >= first}
        ordered: list[Place] = []
        while left:
            ready = [group for group in left if self._is_ready(self.places[group][done[group] + 1], done)]
            stamps = {(self.places[group][done[group] + 1].stamp, group) for group in ready or left}
            group = min(stamps)[1]
            done[group] += 1
            ordered.append(self.places[group][done[group]])
            if done[group] >= left[group]:
                del left[group]
        return ordered

    def _is_ready(self, place: Place, done: dict[int, int]) -> bool:
        for group, number in place.context.items():
            if group != place.group and group in done and min(number, self.spans[group][1]) > done[group]:
                return False
        return True
