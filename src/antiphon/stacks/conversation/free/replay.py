"""What a participant that has come back says again (psync-1989, 5.2).

A program that runs again from a former state sends again what it had sent since. What is in the graph is not sent: the
message there is given back. It must be the same; else the program is not deterministic, and its state is not what it
was. Messages that the conversation itself had sent, and notes, are passed over: nobody says those again.

A program that cannot repeat its bytes can look at what it had said, and adopt it: then it is said. A filter does that
itself, since it knows which of the program's messages it had put into which message of the conversation (filter_base).
"""

from typing import final

from antiphon.kernel.errors import UsageError
from antiphon.parts.message_graph import GraphNode, GraphView, MessageGraph
from antiphon.stacks.conversation.free.recovery import ReplayError
from antiphon.stacks.conversation.free.wire import SAID, form_of, payload_of


@final
class Replay:
    """How much of what an application sent in its former life it has sent again."""

    __slots__ = ("_adopts", "_graph", "_me", "_said", "_view")

    def __init__(self, graph: MessageGraph, view: GraphView, me: int) -> None:
        self._graph = graph
        self._view = view
        self._me = me
        self._adopts = False
        self._said = 0
        """How many messages of this participant the application has said, of those that are in the graph."""

    def begin(self, said: int) -> None:
        """Start from a state in which this many messages had been sent."""
        self._said = said

    def adopt(self) -> None:
        """Count all that was said in former lives as said, also what is yet to be found of it."""
        self._adopts = True

    def said(self) -> int:
        """Return how many messages of this participant were said in this life, again, or by adoption."""
        self.is_repeating()  # passes over what nobody says again
        return self._graph.last[self._me] if self._adopts else self._said

    def former(self) -> list[GraphNode]:
        """Return the messages of former lives that the application has not said again."""
        numbers = range(self.said() + 1, self._graph.last[self._me] + 1)
        nodes = [self._graph.node((self._me, number)) for number in numbers]
        return [node for node in nodes if node is not None and form_of(node.body or b"") == SAID]

    def note_sent(self, number: int) -> None:
        """Count a new message."""
        if self._said == number - 1:  # else there are things to be said again before it
            self._said = number

    def is_repeating(self) -> bool:
        """Return whether the application has still to send again what it sent in a former life."""
        while self._said < self._graph.last[self._me]:
            if self._adopts:
                self._said = self._graph.last[self._me]
                return False
            node = self._graph.node((self._me, self._said + 1))
            if node is None or node.body is None or form_of(node.body) == SAID:
                return True
            self._said += 1
        return False

    def is_receiving(self) -> bool:
        """Return whether the view still lacks messages that this participant sent in a former life."""
        return self._view.received[self._me] < self._graph.last[self._me]

    def repeat(self, payload: bytes) -> GraphNode:
        """Return the message that the application sent at this point in its former life. Raises ReplayError if it was
        another."""
        node = self._graph.node((self._me, self._said + 1))
        if node is None or node.body is None:
            raise UsageError("what this participant said in its former life was forgotten; it cannot be repeated")
        if payload_of(node.body) != payload:
            raise ReplayError(node.mid())
        self._said += 1
        return node
