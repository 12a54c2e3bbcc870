"""Messages out of a host's storage that cannot be attached yet: some that they follow are not here."""

from typing import final

from antiphon.kernel.errors import MalformedError
from antiphon.parts.message_graph import GraphNode
from antiphon.stacks.conversation.free.graph_replica import GraphReplica
from antiphon.stacks.conversation.free.wire import Added, read_section


@final
class SpareMessages:
    """Messages that a restarted participant had stored and that lack predecessors. Messages from others may supply
    these."""

    __slots__ = ("_replica", "_spare")

    def __init__(self, replica: GraphReplica) -> None:
        self._replica = replica
        self._spare: list[Added] = []

    def add(self, sections: list[bytes]) -> None:
        """Take messages from storage; leave out malformed ones."""
        for said in sections:
            try:
                self._spare.append(read_section(said, self._replica.graph.participants))
            except MalformedError:
                continue

    def attach(self) -> list[GraphNode]:
        """Attach the messages whose predecessors are here; return their nodes, predecessors first."""
        attached: list[GraphNode] = []
        growing = True
        while growing and self._spare:
            growing = False
            left: list[Added] = []
            for added in self._spare:
                nodes = self._replica.restore(added)
                if nodes:
                    attached += nodes
                    growing = True
                if not self._replica.has(added.mid()):
                    left.append(added)
            self._spare = left
        return attached

    def drop(self) -> None:
        """Forget the messages that are left."""
        self._spare = []
