"""Which nodes of the network sliding window wait for silent members alone (window.py says what that is good for).

By sender, the nodes with messages that not all members are known to follow are a row; from its front on, those that all
members but the silent ones follow are `overtaken`. Nodes only ever become overtaken while the silent are the same, so
each is looked at once; when others are silent, all rows are counted anew.
"""

from collections import deque
from typing import final

from antiphon.parts.message_graph import MessageGraph


@final
class SilentMembers:
    """The members that are silent, and how many nodes of each sender wait for these alone."""

    __slots__ = ("_graph", "overtaken", "ranks")

    def __init__(self, graph: MessageGraph) -> None:
        self._graph = graph
        self.ranks: frozenset[int] = frozenset()
        self.overtaken = [0] * graph.participants

    def set(self, ranks: frozenset[int]) -> None:
        """These members are silent."""
        if ranks != self.ranks:
            self.ranks = ranks
            self.overtaken = [0] * len(self.overtaken)

    def settle(self, sender: int, waiting: deque[int]) -> None:
        """See which of a sender's nodes, that not all follow, all but the silent members follow."""
        overtaken = self.overtaken[sender]
        if self.ranks and overtaken < len(waiting):
            followed = self._graph.followed_without(sender, self.ranks)
            while overtaken < len(waiting) and waiting[overtaken] <= followed:
                overtaken += 1
            self.overtaken[sender] = overtaken

    def left(self, sender: int) -> None:
        """All have come to follow the first node that waited."""
        self.overtaken[sender] = max(0, self.overtaken[sender] - 1)
