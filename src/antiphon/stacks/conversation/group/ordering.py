"""In which order the messages of a view reach the application, by level (psync-1989, 4.2).

agreed, safe   the strong ones, in waves: when a wave is complete, which one stable message of it shows, its strong
               messages come in the order of their senders. A safe message also waits until it is stable itself, and
               what follows it in the order waits with it.
the others     as soon as all strong messages in their context have come. A causal message is one that its sender sent
               in that context, so what its sender had delivered has come here too.

Why weak ones need no more: what precedes a weak message is in the view before it; and if that waits for a strong one,
so does the message itself, since it is in the context of both. Why strong ones need no more: what precedes them is of
an earlier wave, and after each wave all weak messages that waited for it, and for no later one, are let go.

Messages for some of the members have their places like all others, at every member; where they are not for this one,
nothing is handed out.

At the end of a view nothing can come any more: every wave is complete, and every message is where it must be.
"""

from collections import deque
from heapq import heappop, heappush
from typing import final

from antiphon.kernel.effects import Effects
from antiphon.kernel.identity import View
from antiphon.kernel.levels import AGREED, SAFE
from antiphon.parts.emission import MessageAssembler
from antiphon.parts.message_graph import GraphNode, MessageGraph
from antiphon.parts.node_batch import EVERYBODY, NodeBatch


@final
class Ordering:
    """What has come into one member's view of the graph and not yet to its application."""

    __slots__ = (
        "_assembler",
        "_blocked",
        "_graph",
        "_me",
        "_strong",
        "_waves",
        "_waves_due",
        "closing",
        "delivered",
    )

    def __init__(self, group: str, view: View, me: int, graph: MessageGraph, message_bytes_max: int) -> None:
        members = len(view.members)
        self._me = me
        self._graph = graph
        self._strong: list[deque[int]] = [deque() for _ in range(members)]
        """By sender, the numbers of strong ones that have not come out yet."""
        self._waves: dict[int, list[NodeBatch]] = {}
        self._waves_due: list[int] = []
        """A heap of the waves in which something strong waits."""
        self._blocked: list[NodeBatch] = []
        """Weak ones that wait, in the order in which they came into the view."""
        self._assembler = MessageAssembler(group, view, message_bytes_max)
        self.delivered = [0] * members
        """By sender, the number of the last node that came out; acknowledgements count when something follows them."""
        self.closing = False

    def spoiled(self) -> int:
        """Messages that could not be put together."""
        return self._assembler.spoiled

    def waiting(self) -> int:
        """How many nodes wait here."""
        count = len(self._blocked)
        for queue in self._strong:
            count += len(queue)
        return count

    def waiting_of(self, rank: int) -> int:
        """How many nodes of this sender wait here."""
        count = len(self._strong[rank])
        for batch in self._blocked:
            if batch.node is not None and batch.node.sender == rank:
                count += 1
        return count

    def waits_for_stability(self) -> bool:
        """Whether acknowledgements would let something through."""
        return bool(self._waves_due)

    def add(self, node: GraphNode, batch: NodeBatch, effects: Effects) -> None:
        """A node has come into the view; all before it have."""
        batch.node = node
        if batch.level >= AGREED:
            self._strong[node.sender].append(node.number)
            wave = self._waves.get(node.wave)
            if wave is None:
                self._waves[node.wave] = [batch]
                heappush(self._waves_due, node.wave)
            else:
                wave.append(batch)
        elif self._is_blocked(node):
            self._blocked.append(batch)
        else:
            self._assemble(node, batch, effects)

    def _is_blocked(self, node: GraphNode) -> bool:
        past = node.past
        return any(queue and queue[0] <= past[rank] for rank, queue in enumerate(self._strong))

    def drain(self, effects: Effects) -> None:
        """Let through what stability has made way for."""
        while self._waves_due and (self.closing or self._waves_due[0] <= self._graph.stable_wave):
            wave = self._waves[self._waves_due[0]]
            wave.sort(key=_sender)
            while wave:
                batch = wave[0]
                node = batch.node
                assert node is not None
                if batch.level == SAFE and not self.closing and not self._graph.is_stable(node):
                    self._release(effects)
                    return
                wave.pop(0)
                self._strong[node.sender].popleft()
                self._assemble(node, batch, effects)
            del self._waves[heappop(self._waves_due)]
            self._release(effects)

    def _release(self, effects: Effects) -> None:
        """Let go the weak ones that wait for nothing any more."""
        if not self._blocked:
            return
        blocked = self._blocked
        self._blocked = []
        for batch in blocked:
            node = batch.node
            assert node is not None
            if self._is_blocked(node):
                self._blocked.append(batch)
            else:
                self._assemble(node, batch, effects)

    def _assemble(self, node: GraphNode, batch: NodeBatch, effects: Effects) -> None:
        self.delivered[node.sender] = node.number
        if batch.destinations >> self._me & 1:
            self._assembler.private = batch.destinations != EVERYBODY
            self._assembler.batch(node.sender, batch, effects)


def _sender(batch: NodeBatch) -> int:
    assert batch.node is not None
    return batch.node.sender
