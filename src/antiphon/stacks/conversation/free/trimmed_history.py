"""What the limits have made a replica forget, read back from its host's log for whoever lacks it (psync-1989, 5.1).

The log has the messages in the order in which they were attached, which is an order of the context. Whoever asks names
its leaves. Of the messages that were freed here it gets the first ones that are not in the context of its leaves; when
it has them it asks again. What was not freed is answered from the graph (graph_replica.py).

The log is kept in memory while somebody asks, and for KEEP_NS after that. It is as long as the history: whoever runs
again from the beginning has all of that in memory, too.
"""

from typing import Final, final

from antiphon.kernel.errors import MalformedError
from antiphon.kernel.options import MILLISECOND_NS
from antiphon.parts.message_graph import Mid
from antiphon.stacks.conversation.free.wire import read_section

KEEP_NS: Final = 2000 * MILLISECOND_NS


@final
class TrimmedHistory:
    """The log of one conversation, as it was read."""

    __slots__ = ("_participants", "_pasts", "_sections", "until_ns")

    def __init__(self, records: list[bytes], participants: int) -> None:
        self._participants = participants
        self._sections: dict[Mid, bytes] = {}
        """In the order of the log."""
        self._pasts: dict[Mid, list[int]] = {}
        """Of each message: how many of each participant it and its context are."""
        self.until_ns = 0
        """When it may be dropped."""
        for record in records:
            try:
                added = read_section(record, participants)
            except MalformedError:
                continue
            self._sections[added.mid()] = record
            self._pasts[added.mid()] = self._past(added.mid(), added.predecessors)

    def _past(self, mid: Mid, predecessors: list[Mid]) -> list[int]:
        past = [0] * self._participants
        for predecessor in predecessors:
            theirs = self._pasts.get(predecessor)
            if theirs is not None:
                past = [max(mine, other) for mine, other in zip(past, theirs, strict=True)]
            past[predecessor[0]] = max(past[predecessor[0]], predecessor[1])
        past[mid[0]] = max(past[mid[0]], mid[1])
        return past

    def known(self, leaves: list[Mid]) -> list[int]:
        """Return how many messages of each participant somebody has that has these leaves."""
        known = [0] * self._participants
        for leaf in leaves:
            theirs = self._pasts.get(leaf)
            if theirs is not None:
                known = [max(mine, other) for mine, other in zip(known, theirs, strict=True)]
            known[leaf[0]] = max(known[leaf[0]], leaf[1])
        return known

    def answer(self, known: list[int], first: list[int], limit: int) -> list[tuple[Mid, bytes]]:
        """Return the first messages before `first` of each participant that somebody lacks."""
        found: list[tuple[Mid, bytes]] = []
        for (rank, number), section in self._sections.items():
            if known[rank] < number < first[rank]:
                found.append(((rank, number), section))
                if len(found) == limit:
                    break
        return found
