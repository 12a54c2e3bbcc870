"""Conversational continuity: two participants speak by turns, each answering what the other said (psync-1989, 4.1).

Every message is in the context of the one before it and acknowledges it: the graph is a line, and there are no messages
but the application's, to begin and to end with neither. Who waits for an answer sends its last message again when a
time-out passes; the other, if it has answered, sends its answer again by the rule for what was resent.

The application knows from what was said when the conversation is over. Who said the last word gets no answer to it, and
cannot know that it arrived: it keeps the conversation open for a while, in which its host answers whoever asks again.
"""

from typing import final

from antiphon.kernel.effects import Effects
from antiphon.kernel.errors import UsageError
from antiphon.parts.message_graph import GraphNode
from antiphon.stacks.conversation.free.conversation import ConversationCore
from antiphon.stacks.conversation.free.filter_machine import FilterMachine
from antiphon.stacks.conversation.library.frames import DATA, framed, unframed
from antiphon.stacks.conversation.library.retry_timer import RetryTimer


@final
class Continuity(FilterMachine):
    """One of two participants that send in turns; participant 0 begins."""

    __slots__ = ("_conversation", "_last", "_retry_timer", "heard", "my_turn")

    def __init__(self, conversation: ConversationCore, *, tries: int, timeout_ns: int) -> None:
        if len(conversation.participants) != 2:
            raise UsageError(f"two speak by turns, not {len(conversation.participants)}")
        self._conversation = conversation
        self._retry_timer = RetryTimer(tries, timeout_ns)
        self._last: GraphNode | None = None
        self.my_turn = conversation.me == 0
        self.heard: bytes | None = None
        """The other's last answer, for whoever does not poll to take."""

    def say(self, payload: bytes, now_ns: int) -> GraphNode:
        """Answer the other's last message; ask `my_turn` first."""
        if not self.my_turn:
            raise UsageError("it is the other's turn; wait for its answer")
        self._last = self._conversation.send(framed(DATA, payload), urgent=True)
        self.my_turn = False
        self._retry_timer.begin(now_ns)
        return self._last

    def has_failed(self) -> bool:
        """Return whether all retries went without an answer."""
        return self._retry_timer.is_exhausted()

    def over(self) -> None:
        """Stop expecting an answer."""
        self._retry_timer.end()

    def poll(self, now_ns: int) -> bytes | None:
        """Return the other's answer, if it has come; retry if that is due."""
        one = self._conversation.receive()
        if one is not None:
            self.my_turn = True
            self._retry_timer.end()
            return unframed(one[1])[1]
        if self._retry_timer.has_passed(now_ns) and self._last is not None:
            if self._retry_timer.is_exhausted():
                self._retry_timer.rest()
            else:
                self._conversation.resend(self._last)
        return None

    def run(self, group: str, effects: Effects, now_ns: int) -> None:
        answer = self.poll(now_ns)
        if answer is not None:
            self.heard = answer

    def deadline_ns(self) -> int:
        return self._retry_timer.deadline_ns()
