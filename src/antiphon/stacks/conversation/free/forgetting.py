"""Forgetting by threshold (psync-1989, 3.3): where a limit says so, the earliest messages go, with their nodes.

Only what is stable goes, and what the participant has received. Without a limit on nodes, and where bodies are freed
when they are stable, there is nothing to do here, and nothing is noted.
"""

from collections import deque
from typing import final

from antiphon.parts.message_graph import GraphNode, GraphView, MessageGraph
from antiphon.stacks.conversation.free.limits import Limits


@final
class Forgetting:
    """The messages of one replica that may be forgotten, earliest first."""

    __slots__ = ("_attached", "_graph", "_limits", "_view", "_wanted")

    def __init__(self, graph: MessageGraph, view: GraphView, limits: Limits, keep_bodies: bool) -> None:
        self._graph = graph
        self._view = view
        self._limits = limits
        self._wanted = keep_bodies or limits.nodes_max > 0
        self._attached: deque[GraphNode] = deque()
        """In the order of attachment."""

    def note(self, node: GraphNode) -> None:
        """Take up a message that was attached."""
        if self._wanted:
            self._attached.append(node)
            self.trim()

    def trim(self) -> None:
        """Forget the earliest messages beyond the limit."""
        graph, limits = self._graph, self._limits
        while self._attached:
            earliest = self._attached[0]
            if not graph.is_stable(earliest) or not self._view.holds(earliest):
                return
            too_many = limits.nodes_max > 0 and graph.nodes > limits.nodes_max
            if graph.node(earliest.mid()) is not None:
                if not too_many and graph.body_bytes <= limits.kept_bytes_max:
                    return
                graph.free(earliest)
            self._attached.popleft()
