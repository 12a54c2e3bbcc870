"""Ordered broadcast: one order of all messages at all participants, from the graph alone (psync-1989, 4.2).

The graph is gone through in waves: messages that were sent at the same logical time, none in the context of another.
A wave is complete as soon as one message of it is stable, since whatever is sent later follows that message; and then
so is every wave before it. The messages of a complete wave come in the order of their senders.

To wait for the whole wave to be stable is not necessary; to go by the order in which messages become stable would be
wrong, since that differs from host to host. But whoever may fail and come back waits for it (`careful`): a message that
is not stable, its own above all, may be lost with it, and would come again at another place (free/recovery.py).
"""

from typing import final

from antiphon.parts.message_graph import GraphNode, MessageGraph


@final
class Waves:
    """The messages of a view that have no place in the order yet."""

    __slots__ = ("_careful", "_graph", "_waves", "committed", "count")

    def __init__(self, graph: MessageGraph, committed: int = 0, careful: bool = False) -> None:
        self._graph = graph
        self._careful = careful
        self._waves: dict[int, list[GraphNode]] = {}
        self.committed = committed
        """The last wave of which all have a place."""
        self.count = 0
        """Messages that wait."""

    def add(self, node: GraphNode) -> None:
        """A message is in the view."""
        assert node.wave > self.committed
        self._waves.setdefault(node.wave, []).append(node)
        self.count += 1

    def take(self) -> list[GraphNode]:
        """The messages whose place has become known, in order; to be asked when all that has come is in the view."""
        result: list[GraphNode] = []
        while self.committed < self._graph.stable_wave and self._may_commit(self.committed + 1):
            self.committed += 1
            wave = self._waves.pop(self.committed, [])  # of what the conversation itself says nothing is told here
            wave.sort(key=_sender)
            result.extend(wave)
        self.count -= len(result)
        return result

    def _may_commit(self, wave: int) -> bool:
        return not self._careful or all(self._graph.is_stable(node) for node in self._waves.get(wave, ()))

    def waiting(self) -> list[GraphNode]:
        """Return the messages that wait, wave by wave."""
        return [node for wave in sorted(self._waves) for node in self._waves[wave]]


def _sender(node: GraphNode) -> int:
    return node.sender
