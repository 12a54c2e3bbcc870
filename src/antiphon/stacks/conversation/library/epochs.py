"""In which order operations are executed if some commute with each other (psync-1989, 4.3, Figure 9).

Operations that commute are called a, the others b. The b are ordered by *depth*: one that follows no other b has depth
1, and every other is one deeper than the deepest b that it follows. All that has the same depth makes an *epoch*. The
epochs are executed one after the other, and each as follows:

    first the a that follow a b of each epoch before, but none of this one, in whatever order they come;
    then the b of this depth, in the order of their senders.

So an a is executed as soon as it is in the view, unless it follows a b that was not executed yet: also while there are
such b in the view, and before any wave is complete (Figure 9 a, b). The b have to wait until no a can come any more
that belongs before them. That is so when every participant has said something that is a b of this epoch or deeper, or
follows one (c): whatever it says later then follows that b. Then nobody can say a b of this depth any more, either.

Why the states are equal: depth depends on the context of a message alone, so all agree on which epoch it belongs to.
When the condition holds in a view, all of the epoch is there. For if one were missing, sent by q, then q's message that
made the condition hold comes before it, and the missing one follows a b of this epoch: it belongs to a later one.
So every participant executes the same sets in the same order, sorts each set of b alike, and the a of one set commute.

Why it goes on: an operation b that is in all views makes everybody who has said nothing as deep say something, if only
an ACK (operations.py). Participants that are masked out are not waited for. All have to mask alike, and only when they
have the same messages of the one that is gone: one that came later might belong to an epoch that is over (removal by
agreement sees to that).

It follows that each participant's own operations are executed in the order in which it issued them.

Cost: a step per participant for each message while there are b that wait, a single step while there are none.
"""

from typing import final

from antiphon.parts.message_graph import GraphNode, MessageGraph


@final
class Epochs:
    """Which operations of a view may be executed now. Messages are given in the order of the view."""

    __slots__ = (
        "_commuting",
        "_deepest",
        "_depths",
        "_graph",
        "_numbers",
        "_ordered",
        "executed",
        "reached",
        "waiting",
    )

    def __init__(self, graph: MessageGraph) -> None:
        self._graph = graph
        participants = graph.participants
        self.executed = 0
        """The epoch that was executed last."""
        self.reached = [0] * participants
        """How deep each participant has come: the depth of the deepest b that it has sent or followed."""
        self.waiting = 0
        """Operations that wait."""
        self._deepest = 0
        self._numbers: list[list[int]] = [[] for _ in range(participants)]
        """For each participant the numbers of its b that wait…"""
        self._depths: list[list[int]] = [[] for _ in range(participants)]
        """…and their depths."""
        self._commuting: dict[int, list[GraphNode]] = {}
        """By epoch, the a that wait for the epoch to be executed."""
        self._ordered: dict[int, list[GraphNode]] = {}
        """By depth, the b that wait."""

    def add_other(self, node: GraphNode) -> None:
        """Note a message of the view that is no operation."""
        self._reach(node.sender, self._followed(node))

    def add_commuting(self, node: GraphNode) -> bool:
        """Note a commuting operation of the view; return whether it may be executed at once."""
        depth = self._followed(node)
        self._reach(node.sender, depth)
        if depth == self.executed:
            return True
        self._commuting.setdefault(depth, []).append(node)
        self.waiting += 1
        return False

    def add_ordered(self, node: GraphNode) -> None:
        """Note an operation of the view that does not commute."""
        depth = self._followed(node) + 1
        self._reach(node.sender, depth)
        self._deepest = max(self._deepest, depth)
        self._numbers[node.sender].append(node.number)
        self._depths[node.sender].append(depth)
        self._ordered.setdefault(depth, []).append(node)
        self.waiting += 1

    def owes(self, rank: int) -> bool:
        """Return whether the others wait for a message of this participant."""
        return self.reached[rank] < self._deepest

    def take(self) -> list[GraphNode]:
        """Return the operations that may be executed now, in order."""
        result: list[GraphNode] = []
        while self._ordered and self._is_complete(self.executed + 1):
            self.executed += 1
            epoch = self._ordered.pop(self.executed)
            epoch.sort(key=_sender)
            for node in epoch:
                self._numbers[node.sender].pop(0)
                self._depths[node.sender].pop(0)
            result += epoch
            result += self._commuting.pop(self.executed, [])
        self.waiting -= len(result)
        return result

    def _is_complete(self, epoch: int) -> bool:
        working = self._graph.working
        return all(self.reached[rank] >= epoch for rank in range(self._graph.participants) if working >> rank & 1)

    def _followed(self, node: GraphNode) -> int:
        """Return the depth of the deepest b that a message follows."""
        depth = self.executed
        if self._ordered:
            for rank in range(self._graph.participants):
                numbers = self._numbers[rank]
                if numbers and numbers[0] <= node.past[rank]:
                    place = len(numbers) - 1
                    while numbers[place] > node.past[rank]:
                        place -= 1
                    depth = max(depth, self._depths[rank][place])
        return depth

    def _reach(self, rank: int, depth: int) -> None:
        self.reached[rank] = max(self.reached[rank], depth)


def _sender(node: GraphNode) -> int:
    return node.sender
