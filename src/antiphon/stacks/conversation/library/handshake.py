"""A conversation that begins and ends for all its participants: two handshakes, three ways each (psync-1989, 3.4).

Initialize. Participant 0 sends OPEN, which starts the conversation everywhere. Everybody else answers READY in its
context. When OPEN is stable participant 0 sends GO: it follows every READY, so that whatever is said afterwards follows
GO, and the first wave of all participants is the same one message. Whoever has GO knows that all take part.

Terminate. Who has no more to say sends END, and then nothing but what ends the conversation; whoever gets an END
answers with its own. Who sent END before it had heard of any waits until the ENDs of all are in its view, and sends
CLOSE. Then everything that was ever said is before CLOSE, and whoever has CLOSE has it, too. Several may begin to end
the conversation at the same logical time: each of them sends CLOSE, and the first that comes ends it.

Nobody can know that the last message arrived (3.2.2). So whoever sent CLOSE stays for as long as all tries take, and
answers who asks. Who waits for CLOSE in vain until its tries are used up, but has everybody's END, has all there is
and may end as well.
"""

from typing import Final, final

from antiphon.kernel.effects import NEVER, Effects
from antiphon.kernel.errors import UsageError
from antiphon.parts.message_graph import GraphNode
from antiphon.stacks.conversation.free.conversation import ConversationCore
from antiphon.stacks.conversation.free.filter_machine import FilterMachine
from antiphon.stacks.conversation.library.frames import CLOSE, DATA, END, GO, OPEN, READY, framed, unframed
from antiphon.stacks.conversation.library.retry_timer import RetryTimer

OPENING: Final = 0
TALKING: Final = 1
ENDING: Final = 2
LINGERING: Final = 3
"""The conversation has ended for us; others may still ask for the last message."""
ENDED: Final = 4
FAILED: Final = 5


@final
class HandshakeSession(FilterMachine):
    """One participant in a conversation that has a beginning and an end."""

    __slots__ = ("_begins_end", "_conversation", "_ends", "_last", "_retry_timer", "phase", "received")

    def __init__(self, conversation: ConversationCore, now_ns: int, *, tries: int, timeout_ns: int) -> None:
        self._conversation = conversation
        self._retry_timer = RetryTimer(tries, timeout_ns)
        self._retry_timer.begin(now_ns)
        self._last: GraphNode | None = None
        """What is sent again while an answer to it is waited for."""
        self._ends = 0
        """Bits of those whose END is in the view."""
        self._begins_end = False
        """We sent END before we had heard of any."""
        self.phase = OPENING
        self.received: list[tuple[GraphNode, bytes]] = []
        """What the others have said, for the application to take."""
        if conversation.me == 0:
            self._tell(OPEN)
        self.poll(now_ns)

    # ---- what the application calls --------------------------------------------------------------------------------

    def may_send(self) -> bool:
        return self.phase == TALKING and self._conversation.may_send()

    def send(self, payload: bytes) -> GraphNode:
        """Send a message between the beginning and the end; ask `may_send` first."""
        if self.phase != TALKING:
            raise UsageError("the conversation has not begun, or is about to end; nothing more can be said in it")
        return self._conversation.send(framed(DATA, payload))

    def end(self, now_ns: int) -> None:
        """Announce that this participant has nothing more to send."""
        if self.phase == TALKING:
            self._begins_end = self._ends == 0
            self._say_end(now_ns)
            self.poll(now_ns)

    # ---- what drives it --------------------------------------------------------------------------------------------

    def poll(self, now_ns: int) -> int:
        """Receive what has come and retry what is due; return the phase."""
        while self.phase not in (ENDED, FAILED):
            one = self._conversation.receive()
            if one is None:
                break
            self._take(one[0], one[1], now_ns)
        if self.phase == OPENING and self._is_ready():
            self._tell(GO)
            self._become_talking()
        elif self.phase == ENDING and self._begins_end and self._all_have_ended():
            self._tell(CLOSE)
            self.phase = LINGERING
            self._retry_timer.begin(now_ns)
        if self._retry_timer.has_passed(now_ns):
            self._try_again()
        return self.phase

    def run(self, group: str, effects: Effects, now_ns: int) -> None:
        self.poll(now_ns)

    def deadline_ns(self) -> int:
        return NEVER if self.phase in (TALKING, ENDED, FAILED) else self._retry_timer.deadline_ns()

    def _take(self, node: GraphNode, data: bytes, now_ns: int) -> None:
        kind, payload = unframed(data)
        if kind == OPEN and self.phase == OPENING:
            self._tell(READY)
            self._retry_timer.begin(now_ns)
        elif kind == GO and self.phase == OPENING:
            self._become_talking()
        elif kind == DATA:
            self.received.append((node, payload))
        elif kind == END:
            self._ends |= 1 << node.sender
            if self.phase == TALKING:
                self._say_end(now_ns)
        elif kind == CLOSE and self.phase in (ENDING, LINGERING):
            self.phase = ENDED
            self._retry_timer.end()

    def _is_ready(self) -> bool:
        """Return whether all others have answered the OPEN of this participant."""
        opened = self._last
        return self._conversation.me == 0 and opened is not None and self._conversation.replica.graph.is_stable(opened)

    def _all_have_ended(self) -> bool:
        return not self._conversation.replica.graph.working & ~self._ends

    def _become_talking(self) -> None:
        self.phase = TALKING
        self._retry_timer.end()

    def _say_end(self, now_ns: int) -> None:
        self._tell(END)
        self._ends |= 1 << self._conversation.me
        self.phase = ENDING
        self._retry_timer.begin(now_ns)

    def _tell(self, kind: int) -> None:
        self._last = self._conversation.send(framed(kind), urgent=True)

    def _try_again(self) -> None:
        if not self._retry_timer.is_exhausted():
            if self._last is not None:
                self._conversation.resend(self._last)
            self._conversation.replica.ask_everybody()
            return
        if self.phase == LINGERING or (self.phase == ENDING and self._all_have_ended()):
            self.phase = ENDED
        else:
            self.phase = FAILED
        self._retry_timer.end()
