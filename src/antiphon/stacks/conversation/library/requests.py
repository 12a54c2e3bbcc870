"""Requests and replies: one client, one server or many (psync-1989, 4.1).

A reply is sent in the context of its request, which acknowledges it; the next request is sent in the context of the
replies before it, which acknowledges those. So there are no messages but these. A request is sent again while too few
replies have come and a time-out passes; whoever has replied already sends its reply again, by the rule for what was
resent.

Everybody in a conversation gets all of it: each server sees the replies of the others, and may save itself the work if
that is enough for the client. There is one client in a conversation, and one request at a time.
"""

from typing import Final, final

from antiphon.kernel.effects import Effects
from antiphon.kernel.errors import UsageError
from antiphon.parts.message_graph import GraphNode
from antiphon.stacks.conversation.free.conversation import ConversationCore
from antiphon.stacks.conversation.free.filter_machine import FilterMachine
from antiphon.stacks.conversation.library.frames import REPLY, REQUEST, drain, framed, unframed
from antiphon.stacks.conversation.library.retry_timer import RetryTimer
from antiphon.stacks.conversation.library.stable import FAILURE, SUCCESS, WAITING

IDLE: Final = 3
"""Nothing was asked yet."""


@final
class RequestClient(FilterMachine):
    """The participant that sends requests."""

    __slots__ = ("_conversation", "_request", "_retry_timer", "_wanted", "outcome", "replies")

    def __init__(self, conversation: ConversationCore, *, tries: int, timeout_ns: int) -> None:
        self._conversation = conversation
        self._retry_timer = RetryTimer(tries, timeout_ns)
        self._request: GraphNode | None = None
        self._wanted = 0
        self.outcome = IDLE
        self.replies: list[tuple[GraphNode, bytes]] = []
        """To the last request, as they came."""

    def ask(self, payload: bytes, now_ns: int, *, wanted: int = 1) -> GraphNode:
        """Send a request to all servers, for this many replies."""
        if self.outcome == WAITING:
            raise UsageError("one request at a time: wait for the replies to the one before")
        if not 0 < wanted < len(self._conversation.participants):
            raise UsageError(f"{wanted} replies are wanted of {len(self._conversation.participants) - 1} servers")
        self._request = self._conversation.send(framed(REQUEST, payload), urgent=True)
        self._wanted = wanted
        self.replies = []
        self.outcome = WAITING
        self._retry_timer.begin(now_ns)
        return self._request

    def poll(self, now_ns: int) -> int:
        """Receive what has come and retry if that is due; return the state of the request."""
        for node, data in drain(self._conversation):
            kind, payload = unframed(data)
            if kind == REPLY and self._request is not None and self._request.precedes(node):
                self.replies.append((node, payload))
        if self.outcome != WAITING or self._request is None:
            return self.outcome
        if len(self.replies) >= self._wanted:
            self.outcome = SUCCESS
            self._retry_timer.end()
        elif self._retry_timer.has_passed(now_ns):
            if self._retry_timer.is_exhausted():
                self.outcome = FAILURE
                self._retry_timer.end()
            else:
                self._conversation.resend(self._request)
                self._conversation.replica.ask_everybody()
        return self.outcome

    def run(self, group: str, effects: Effects, now_ns: int) -> None:
        self.poll(now_ns)

    def deadline_ns(self) -> int:
        return self._retry_timer.deadline_ns()


@final
class ReceivedRequest:
    """A request, as a server sees it."""

    __slots__ = ("answered_by", "node", "payload")

    def __init__(self, node: GraphNode, payload: bytes) -> None:
        self.node = node
        self.payload = payload
        self.answered_by: list[int] = []
        """Ranks of the servers whose replies are here."""

    def __repr__(self) -> str:
        return f"<ReceivedRequest of {len(self.payload)} bytes>"


@final
class RequestServer(FilterMachine):
    """A participant that answers requests."""

    __slots__ = ("_conversation", "_current", "received")

    def __init__(self, conversation: ConversationCore) -> None:
        self._conversation = conversation
        self.received: list[ReceivedRequest] = []
        """New requests, for whoever does not poll to take."""
        self._current: ReceivedRequest | None = None

    def poll(self) -> list[ReceivedRequest]:
        """Return new requests, and note who has answered the current one."""
        requests: list[ReceivedRequest] = []
        for node, data in drain(self._conversation):
            kind, payload = unframed(data)
            current = self._current
            if kind == REQUEST:
                self._current = ReceivedRequest(node, payload)
                requests.append(self._current)
            elif kind == REPLY and current is not None and current.node.precedes(node):
                current.answered_by.append(node.sender)
        return requests

    def run(self, group: str, effects: Effects, now_ns: int) -> None:
        self.received += self.poll()

    def is_current(self, request: ReceivedRequest) -> bool:
        """Return whether the client has sent no request since this one."""
        return request is self._current

    def reply(self, request: ReceivedRequest, payload: bytes) -> bool:
        """Answer the current request; return False, without sending, if a newer one has come."""
        if not self.is_current(request):
            return False
        self._conversation.send(framed(REPLY, payload), urgent=True)
        return True
