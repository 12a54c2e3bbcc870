"""What a participant's replica has and its view has not, and how that comes into the view (psync-1989, 2).

Messages wait in the order in which they were attached, which is an order of the context. A message that nobody receives
enters the view by itself as soon as it is its turn: what the conversation itself has said, and what this participant
said in a former life and has said again. So whatever is outstanding can be received, and a participant that only sends
need not receive to go on where it was.

A filter (library/) has to see all that enters the view, its own messages of former lives too: `feed` holds it.
"""

from collections import deque
from typing import final

from antiphon.parts.message_graph import GraphNode, GraphView, MessageGraph
from antiphon.stacks.conversation.free.wire import NOTED, SAID, form_of


@final
class OutstandingMessages:
    """The messages of one replica that its participant has not received, and those that have entered its view."""

    __slots__ = ("_graph", "_me", "_queue", "_view", "entered", "feed", "receivable")

    def __init__(self, graph: MessageGraph, view: GraphView, me: int) -> None:
        self._graph = graph
        self._view = view
        self._me = me
        self._queue: deque[GraphNode] = deque()
        self.receivable = 0
        """How many of them the application is to receive."""
        self.entered: list[tuple[GraphNode, bytes]] = []
        """The messages, our own among them, that have entered the view since the stack last looked, with their
        sections."""
        self.feed: deque[tuple[GraphNode, bytes]] | None = None
        """The same for the filter on the conversation, if there is one."""

    def add(self, node: GraphNode) -> None:
        """Take up a message that was attached."""
        self._queue.append(node)
        self.receivable += self._is_receivable(node)

    def _is_receivable(self, node: GraphNode) -> bool:
        return node.sender != self._me and form_of(node.body or b"") in (SAID, NOTED)

    def enter(self, node: GraphNode, section: bytes) -> None:
        """Add a message to the view."""
        self._view.add(node)
        self.entered.append((node, section))
        if self.feed is not None:
            self.feed.append((node, section))

    def take(self) -> GraphNode | None:
        """Add the earliest message to the view that the application receives, and all before it; None if none is
        here."""
        while self._queue and self.receivable:
            node = self._queue.popleft()
            if self._view.holds(node):
                continue
            assert node.body is not None, "what is stable was received here"
            self.enter(node, node.body)
            if self._is_receivable(node):
                self.receivable -= 1
                return node
        return None

    def begin_view(self, seen: list[int]) -> None:
        """Add the first messages of each participant to the view, so many."""
        later: deque[GraphNode] = deque()
        for node in self._queue:
            if node.number > seen[node.sender]:
                later.append(node)
            elif not self._view.holds(node):
                self.receivable -= self._is_receivable(node)
                self.enter(node, node.body or b"")
        self._queue = later

    def advance(self, said: int) -> None:
        """Add to the view what is not received, as far as it is its turn; `said`: how many of its own messages the
        participant has said, in this life or again."""
        moving = True
        while moving:
            moving = False
            while self._queue and (self._view.holds(self._queue[0]) or self._is_silent(self._queue[0], said)):
                node = self._queue.popleft()
                if not self._view.holds(node):
                    self.enter(node, node.body or b"")
            own = self._graph.node((self._me, self._view.received[self._me] + 1))
            if own is not None and self._is_silent(own, said) and self._may_enter(own):
                self.enter(own, own.body or b"")
                moving = True

    def _is_silent(self, node: GraphNode, said: int) -> bool:
        form = form_of(node.body or b"")
        if node.sender == self._me:
            return form != SAID or node.number <= said
        return form not in (SAID, NOTED)

    def _may_enter(self, node: GraphNode) -> bool:
        received = self._view.received
        return all(node.past[rank] <= received[rank] for rank in range(self._graph.participants))
