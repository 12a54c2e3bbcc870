"""Send, and know that it was received: by all, or by a majority (psync-1989, Figure 6 and 3.4).

A message is sent. While it is not stable, and a time-out passes, it is sent again; after so many tries it counts as
failed, which most often means that somebody is down. Whoever has it already sends back what follows it, so that a lost
answer is made good, too. What others say meanwhile is received, and kept for the caller.

A message is quorum stable when more than half of the participants have it, its sender among them. That is a majority of
all participants, masked out or not: two majorities always have one in common.

Deviations: Figure 6 sends again whatever was received last; ours sends again the message that is to become stable, as
the text around the figure says. There any message that comes ends a try; here only time does, or a lively conversation
would use up the tries. Each try also asks everybody for what follows our leaves: an answer that follows our message by
way of somebody else's is not among its immediate successors.
"""

from typing import Final, final

from antiphon.kernel.effects import Effects
from antiphon.kernel.errors import UsageError
from antiphon.parts.message_graph import GraphNode, MessageGraph
from antiphon.stacks.conversation.free.conversation import ConversationCore
from antiphon.stacks.conversation.free.filter_machine import FilterMachine
from antiphon.stacks.conversation.library.frames import drain
from antiphon.stacks.conversation.library.retry_timer import RetryTimer

WAITING: Final = 0
SUCCESS: Final = 1
FAILURE: Final = 2

ALL: Final = 0
"""In place of a number of participants: all that work."""


def majority(participants: int) -> int:
    return participants // 2 + 1


def is_quorum_stable(graph: MessageGraph, node: GraphNode) -> bool:
    """Return whether more than half of the participants have received a message and sent something since."""
    return graph.is_n_stable(node, majority(graph.participants))


def is_known_to(graph: MessageGraph, node: GraphNode, participants: int) -> bool:
    """Return whether this many participants, or `ALL`, have a message."""
    return graph.is_stable(node) if participants == ALL else graph.is_n_stable(node, participants)


@final
class StableSend(FilterMachine):
    """One message that is repeated until it is stable."""

    __slots__ = ("_conversation", "_participants", "_retry_timer", "node", "outcome", "received")

    def __init__(
        self,
        conversation: ConversationCore,
        payload: bytes,
        now_ns: int,
        *,
        tries: int,
        timeout_ns: int,
        participants: int = ALL,
    ) -> None:
        if not 0 <= participants <= len(conversation.participants):
            raise UsageError(f"there are {len(conversation.participants)} participants, not {participants}")
        self._conversation = conversation
        self._participants = participants
        self._retry_timer = RetryTimer(tries, timeout_ns)
        self._retry_timer.begin(now_ns)
        self.node = conversation.send(payload)
        self.outcome = WAITING
        self.received: list[tuple[GraphNode, bytes]] = []
        """What the others have said meanwhile, for the caller to take."""
        self.poll(now_ns)

    def poll(self, now_ns: int) -> int:
        """Receive what has come and retry if that is due; return the state of the message."""
        if self.outcome != WAITING:
            return self.outcome
        self.received += drain(self._conversation)
        if is_known_to(self._conversation.replica.graph, self.node, self._participants):
            self.outcome = SUCCESS
            self._retry_timer.end()
        elif self._retry_timer.has_passed(now_ns):
            if self._retry_timer.is_exhausted():
                self.outcome = FAILURE
                self._retry_timer.end()
            else:
                self._conversation.resend(self.node)
                self._conversation.replica.ask_everybody()
        return self.outcome

    def run(self, group: str, effects: Effects, now_ns: int) -> None:
        self.poll(now_ns)

    def deadline_ns(self) -> int:
        return self._retry_timer.deadline_ns()
