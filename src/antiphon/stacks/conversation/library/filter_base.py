"""What the filters over a conversation have in common: a window, acknowledgements that come to rest, and repair.

Window. A participant has so many messages of the application on the way that are not stable; what is offered beyond
waits, in a queue with a limit (4.1, packs.py).

Acknowledgements. Whatever a participant sends acknowledges all that it has received. Only who has nothing to say sends
an ACK. Figure 8 does so whenever something was received, be it an ACK: then every ACK is acknowledged, and two silent
participants never come to rest. Ours is quiet:

    an ACK is sent when a message of the application is in the view and none of ours follows it; an ACK is no reason.

  It is enough: let m be a message of the application. Everybody receives it in the end, and then either sends something
  or sends an ACK; either follows m. So m becomes stable, and with it the wave that it is in is complete.
  It comes to rest: an ACK follows all of the application's messages in the view, so each of those is the reason for at
  most one ACK per participant: with k messages and n participants there are at most k (n - 1) ACKs.

An ACK may be put off, for a time and for a number of messages, in the hope that there will be something to say.

ACKs are not counted in the window, or two participants that have filled theirs could not acknowledge each other. They
need no limit of their own. Let u be our ACK to d, which its sender sent as its i-th, and let w be the window. Its
message i + w was sent when d was stable, so it follows u, and the message i + 2 w was sent when i + w was stable, so
that everybody has sent something that follows u: with it u is stable. Our ACKs that are not stable are hence to
messages among the last 2 w of each sender: at most 2 w (n - 1). The window is made small enough for that and itself to
stay below the limit of the conversation.

Repair. The last messages of all may be lost, and nobody would ask for them (3.2.2). As long as a message of the
application in the view is not stable, and time-outs pass, our own last such message is sent again, and everybody is
asked for what follows our leaves. Who is asked learns what we have, and asks in turn. When all is stable in the view
there is nothing to repair: somebody who lacks something then either has something that is not stable, or lacks it
altogether, and then it is not stable at its sender.

Coming back (5.2). All that enters the view passes through here, own messages of former lives too: they are retried and
handed out like any other. What the application then offers is compared with what it had said, payload by
payload: which of them shared a message was a matter of time, and stays as it was. What it had said is not sent again;
something else is a ReplayError, unless the application adopts what it had said.

Deviations: the quiet rule; Figure 8 has no window and no repair.
"""

from collections import deque
from typing import Final, final

from antiphon.kernel.effects import NEVER
from antiphon.kernel.errors import UsageError
from antiphon.kernel.options import MILLISECOND_NS
from antiphon.parts.message_graph import GraphNode, Mid
from antiphon.stacks.conversation.free.conversation import ConversationCore
from antiphon.stacks.conversation.free.recovery import ReplayError
from antiphon.stacks.conversation.free.wire import NOTED, SAID, form_of, payload_of
from antiphon.stacks.conversation.library.frames import ACK, DATA, ORDERED, UNKNOWN, framed, unframed
from antiphon.stacks.conversation.library.packs import unpack
from antiphon.stacks.conversation.library.retry_timer import RetryTimer

FREE_EVERY: Final = 1024
"""Messages after which the graph is asked to forget what is stable."""
WINDOW: Final = 64
TRIES: Final = 8
TIMEOUT_NS: Final = 20 * MILLISECOND_NS


@final
class FilterOptions:
    """The window, the acknowledgements and the retries of one participant."""

    __slots__ = ("ack_delay_ns", "ack_every", "queue_max", "timeout_ns", "tries", "window")

    def __init__(
        self,
        *,
        window: int = WINDOW,
        queue_max: int = 1024,
        ack_every: int = 1,
        ack_delay_ns: int = 0,
        tries: int = TRIES,
        timeout_ns: int = TIMEOUT_NS,
    ) -> None:
        if window < 1 or queue_max < 1 or ack_every < 1 or ack_delay_ns < 0:
            raise UsageError("window, queue and number of messages per acknowledgement have to be positive")
        self.window = window
        """Messages of ours that may be on the way and not stable. At the limit they wait in the queue."""
        self.queue_max = queue_max
        """What waits for the window. At the limit no more may be offered."""
        self.ack_every = ack_every
        """An ACK is sent at the latest after so many messages…"""
        self.ack_delay_ns = ack_delay_ns
        """…or so long after the first of them; 0: at once."""
        self.tries = tries
        """Time-outs without any progress, before somebody counts as missing…"""
        self.timeout_ns = timeout_ns
        """…of which the first is so long."""

    def __repr__(self) -> str:
        return (
            f"FilterOptions(window={self.window}, queue_max={self.queue_max}, ack_every={self.ack_every}, "
            f"ack_delay_ns={self.ack_delay_ns}, tries={self.tries}, timeout_ns={self.timeout_ns})"
        )


@final
class FilterBase:
    """Sends, acknowledges and retries for one participant."""

    __slots__ = (
        "_ack_at_ns",
        "_feed",
        "_forgotten_at",
        "_former",
        "_latest",
        "_options",
        "_owed",
        "_own",
        "_packed",
        "_retry_timer",
        "_unanswered",
        "_unstable",
        "_window",
        "acks",
        "conversation",
    )

    def __init__(self, conversation: ConversationCore, options: FilterOptions, *, packed: bool = True) -> None:
        self.conversation = conversation
        self._options = options
        self._packed = packed
        """Whether several payloads share a message."""
        self._feed: deque[tuple[GraphNode, bytes]] = deque()
        """All that has entered the view and was not looked at."""
        conversation.messages.feed = self._feed
        self._former: tuple[deque[tuple[Mid, bytes]], deque[tuple[Mid, bytes]]] = (deque(), deque())
        """What was said in former lives and was not offered again: messages, and those that do not commute."""
        self._retry_timer = RetryTimer(options.tries, options.timeout_ns)
        others = len(conversation.participants) - 1
        self._window = max(1, min(options.window, conversation.unstable_max() // (1 + 2 * others)))
        self._own: deque[GraphNode] = deque()
        """Messages of ours that are not stable; ACKs are not among them."""
        self._latest: GraphNode | None = None
        """The last of ours that was no ACK."""
        self._unstable: deque[GraphNode] = deque()
        """The same of everybody, in the order of the view."""
        self._unanswered = 0
        """Messages in the view that nothing of ours follows…"""
        self._owed: list[GraphNode] = []
        """…which they are."""
        self._ack_at_ns = NEVER
        self._forgotten_at = 0
        self.acks = 0
        """ACKs that were sent."""
        if conversation.recovery is not None:
            self._resume()

    # ---- coming back -----------------------------------------------------------------------------------------------

    def _resume(self) -> None:
        """Take up what is in the view and not stable, and what this participant said in former lives."""
        conversation, graph = self.conversation, self.conversation.replica.graph
        received = conversation.view.received
        own = graph.node((conversation.me, received[conversation.me]))
        nodes = [
            graph.node((rank, number))
            for rank in range(graph.participants)
            for number in range(graph.stable_to[rank] + 1, received[rank] + 1)
        ]
        for _, node in sorted([(node.wave, node.mid()) for node in nodes if node is not None]):
            found = graph.node(node)
            assert found is not None
            kind, _ = self._read(found.body or b"")
            if kind in (DATA, ORDERED):
                self._note(found)
                if found.sender != conversation.me and (own is None or not found.precedes(own)):
                    self._owed.append(found)
                    self._unanswered += 1
                    self._ack_at_ns = 0
        for former in conversation.former():
            kind, payload = self._read(former.body or b"")
            if kind in (DATA, ORDERED):
                self._former[kind == ORDERED].extend([(former.mid(), one) for one in self._payloads(payload)])
        conversation.adopt()

    def _read(self, section: bytes) -> tuple[int, bytes]:
        """Return kind and payload of a message of the conversation."""
        return unframed(payload_of(section)) if section and form_of(section) in (SAID, NOTED) else (UNKNOWN, b"")

    def _payloads(self, data: bytes) -> list[bytes]:
        return unpack(data) if self._packed else [data]

    def _note(self, node: GraphNode) -> None:
        """Wait until a message of the application is stable."""
        self._unstable.append(node)
        if node.sender == self.conversation.me:
            self._own.append(node)
            self._latest = node

    def repeats(self, payload: bytes, kind: int = DATA) -> bool:
        """Return whether the application offers again what it said in a former life. Raises ReplayError if that was
        something else."""
        former = self._former[kind == ORDERED]
        if not former:
            return False
        mid, said = former[0]
        if said != payload:
            raise ReplayError(mid)
        former.popleft()
        return True

    def former(self) -> list[tuple[Mid, bytes]]:
        """Return what was said in former lives and not offered again."""
        return [*self._former[0], *self._former[1]]

    def take_up(self, former: list[tuple[Mid, bytes]]) -> None:
        """Expect these before what was said later, as a checkpoint tells."""
        self._former[0].extendleft(reversed(former))

    def adopt(self) -> None:
        """Expect nothing of what was said in former lives to be offered again."""
        for former in self._former:
            former.clear()

    # ---- sending ---------------------------------------------------------------------------------------------------

    def has_room(self) -> bool:
        """Return whether the window allows a message of the application."""
        graph = self.conversation.replica.graph
        while self._own and graph.is_stable(self._own[0]):
            self._own.popleft()
        return len(self._own) < self._window and self.conversation.may_send()

    def unstable(self) -> int:
        """Return how many own messages are not stable."""
        return len(self._own)

    def begin(self) -> GraphNode | None:
        """Start the conversation, if this participant has to; elsewhere it starts with the first message that comes."""
        conversation = self.conversation
        if conversation.me or conversation.view.count or conversation.recovery is not None:
            return None
        return self._said(conversation.send(framed(ACK), urgent=True))

    def send(self, frame: bytes) -> GraphNode:
        """Send a message of the application; ask `has_room` first."""
        node = self._said(self.conversation.send(frame, urgent=True))
        self._note(node)
        return node

    def _said(self, node: GraphNode) -> GraphNode:
        """Note that a message was sent, which acknowledges all that is in the view."""
        last = self._feed.pop()
        assert last[0] is node, "what is sent is the last in the view"
        self._owe_nothing()
        return node

    def _answer(self, own: GraphNode) -> None:
        """Note an own message of a former life, or one that the conversation itself has sent: it acknowledges what it
        follows, which need not be all that came before it here."""
        left = [node for node in self._owed if not node.precedes(own)]
        if left:
            self._owed = left
            self._unanswered = len(left)
        else:
            self._owe_nothing()

    def _owe_nothing(self) -> None:
        self._owed = []
        self._unanswered = 0
        self._ack_at_ns = NEVER

    # ---- receiving -------------------------------------------------------------------------------------------------

    def receive(self, now_ns: int) -> tuple[GraphNode, int, bytes] | None:
        """Return the next message that has entered the view, its kind and its payload."""
        while not self._feed:
            if self.conversation.receive() is None and not self._feed:
                return None
        node, section = self._feed.popleft()
        kind, payload = self._read(section)
        if kind in (DATA, ORDERED):
            self._note(node)
        if node.sender == self.conversation.me:
            self._answer(node)
        elif kind in (DATA, ORDERED):
            self._owed.append(node)
            self._unanswered += 1
            if self._ack_at_ns == NEVER:
                self._ack_at_ns = now_ns + self._options.ack_delay_ns
        return node, kind, payload

    def settle(self, now_ns: int, urgent: bool = False) -> GraphNode | None:
        """Acknowledge and retry what is due, after all has been received and sent; return the ACK, if one was sent."""
        self._repair(now_ns)
        due = urgent or self._unanswered >= self._options.ack_every or now_ns >= self._ack_at_ns
        if not self._unanswered or not due or not self.conversation.may_note(urgent=True):
            return None
        self.acks += 1
        return self._said(self.conversation.note(framed(ACK), urgent=True))

    # ---- repairing -------------------------------------------------------------------------------------------------

    def _forget_stable(self) -> bool:
        """Drop own messages that have become stable; return whether the view has made progress."""
        graph = self.conversation.replica.graph
        while self._own and graph.is_stable(self._own[0]):
            self._own.popleft()
        count = len(self._unstable)
        while self._unstable and graph.is_stable(self._unstable[0]):
            self._unstable.popleft()
        return len(self._unstable) < count

    def _repair(self, now_ns: int) -> None:
        progress = self._forget_stable()
        if not self._unstable:
            self._retry_timer.end()
        elif progress or not self._retry_timer.is_waiting():
            self._retry_timer.begin(now_ns)
        elif self._retry_timer.has_passed(now_ns):
            if self._own and self._latest is not None:
                self.conversation.resend(self._latest)
            self.conversation.replica.ask_everybody()

    def forget(self) -> None:
        """Have the graph forget stable messages from time to time; call this when all that has come is in the view."""
        count = self.conversation.view.count
        if count - self._forgotten_at >= FREE_EVERY:
            self._forgotten_at = count
            graph = self.conversation.replica.graph
            graph.free_waves(graph.stable_wave)

    def laggards(self) -> list[int]:
        """Return the participants that have not acknowledged the oldest unstable message through all retries:
        candidates for masking out."""
        if not self._retry_timer.is_exhausted() or not self._unstable:
            return []
        graph = self.conversation.replica.graph
        oldest = self._unstable[0]
        answered = {oldest.sender, *graph.followers(oldest)}
        return [rank for rank in range(graph.participants) if rank not in answered and not graph.is_masked(rank)]

    def deadline_ns(self) -> int:
        return min(self._ack_at_ns, self._retry_timer.deadline_ns())
