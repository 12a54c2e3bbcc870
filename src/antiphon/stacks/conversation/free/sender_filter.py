"""Whom an image listens to (psync-1989, 3.2.4 and 5).

A participant that is ignored, because it is masked out or was voted out, is not heard any more. There are two
exceptions: a message that somebody else's held message needs, and one that is known to be in somebody's image by that
one's word (`wanted`). Once it is agreed which of its messages count, nothing beyond them is heard, needed or not.

What a host sends it has attached. But if it has failed and come back since, it may have lost that, and its sender may
give the number again (recovery.py). So each packet with a message tells the life of whoever sends it: it is taken only
if that is the life in which the host is known to be, or if somebody's held message needs the message.
"""

from typing import final

from antiphon.parts.message_graph import MessageGraph, Mid


@final
class SenderFilter:
    """What one replica knows of the incarnations of the other participants, and whose messages it ignores."""

    __slots__ = ("_closed", "_ignored", "entries", "lives", "strangers", "wanted")

    def __init__(self, participants: int) -> None:
        self._ignored = 0
        """Bits of those that are not listened to…"""
        self._closed = 0
        """…and of those of whom it is agreed how much counts."""
        self.wanted = [0] * participants
        """By rank: up to which number the messages of one who is ignored are taken all the same."""
        self.entries: list[list[tuple[int, dict[int, int]]]] = [[] for _ in range(participants)]
        """By rank of one that was let in again: in which life, and by which messages. What it sends in that life, or in
        a later one, must follow them."""
        self.lives = [0] * participants
        """The latest life of each participant that was heard of."""
        self.strangers = 0
        """Bits of those of whom it is not known, here, in which life they are: what they send is not taken."""

    def ignore(self, rank: int) -> None:
        self._ignored |= 1 << rank

    def close(self, rank: int) -> None:
        """Take only the messages of a removed participant that the agreement counts."""
        self._ignored |= 1 << rank
        self._closed |= 1 << rank

    def listen(self, rank: int) -> None:
        self._ignored &= ~(1 << rank)
        self._closed &= ~(1 << rank)
        self.wanted[rank] = 0

    def ignores(self, rank: int) -> bool:
        return bool(self._ignored >> rank & 1)

    def is_closed(self, rank: int) -> bool:
        return bool(self._closed >> rank & 1)

    def hears(self, sender: int, number: int, via: int, life: int) -> bool:
        """Return whether to take a message by itself."""
        return (not self.ignores(sender) or number <= self.wanted[sender]) and self.trusts(via, life)

    def may_need(self, sender: int, number: int) -> bool:
        """Return whether to take a message only because another message depends on it."""
        return not self.is_closed(sender) or number <= self.wanted[sender]

    def learn_life(self, rank: int, life: int) -> bool:
        """Note the incarnation that a participant is in, and ignore what it sent in earlier ones; return whether that
        is new."""
        if life <= self.lives[rank]:
            return False
        self.lives[rank] = life
        return True

    def trusts(self, rank: int, life: int) -> bool:
        """Return whether a packet comes from the incarnation that its sender is known to be in."""
        if self.strangers >> rank & 1:
            return False
        return not self.lives[rank] or life == self.lives[rank]


def follows(graph: MessageGraph, predecessors: list[Mid], entry: dict[int, int]) -> bool:
    """Return whether a message with these predecessors follows all of those."""
    missing = dict(entry)
    for rank, number in predecessors:
        node = graph.node((rank, number))
        for other, own in entry.items():
            if (rank == other and number >= own) or (node is not None and node.past[other] >= own):
                missing.pop(other, None)
    return not missing
