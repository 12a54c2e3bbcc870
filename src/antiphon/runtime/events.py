"""What an application reads from a group: one stream of messages and view changes, in the promised order.

In a group whose view can change (policy `primary`) the stream may also hold Stalled, which the next ViewChange ends,
and Excluded. That is its last event, unless the node was made with `rejoin`: then the stream goes on with the
ViewChange by which the next incarnation of this process comes in.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import final

from antiphon.kernel.errors import UsageError
from antiphon.kernel.identity import ProcessId, View


@final
class Message:
    """One message, in its promised place. Equal if all is equal; made by the million, so no dataclass."""

    __slots__ = ("group", "number", "order", "payload", "private", "sender", "view_id")

    def __init__(
        self,
        payload: bytes,
        sender: ProcessId,
        number: int,
        order: str,
        group: str,
        view_id: int,
        private: bool = False,
    ) -> None:
        self.payload = payload
        self.sender = sender
        self.number = number
        """The sender numbers its messages to this group 1, 2, 3… in the order of sending."""
        self.order = order
        """The level it was sent at."""
        self.group = group
        self.view_id = view_id
        """The view in which it is delivered."""
        self.private = private
        """Whether it was sent to this process alone."""

    def with_payload(self, payload: bytes) -> "Message":
        """The same, with another payload."""
        return Message(payload, self.sender, self.number, self.order, self.group, self.view_id, self.private)

    def _key(self) -> tuple[object, ...]:
        return (self.payload, self.sender, self.number, self.order, self.group, self.view_id, self.private)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Message) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def __repr__(self) -> str:
        return (
            f"Message(payload={self.payload!r}, sender={self.sender!r}, number={self.number}, order={self.order!r}, "
            f"group={self.group!r}, view_id={self.view_id}, private={self.private})"
        )


@final
class Batch:
    """Consecutive messages of one sender at one level: `payloads[0]` is message `number`, the next is `number + 1`…"""

    __slots__ = ("group", "number", "order", "payloads", "private", "sender", "size", "view_id")

    def __init__(
        self,
        payloads: list[bytes],
        sender: ProcessId,
        number: int,
        order: str,
        group: str,
        view_id: int,
        private: bool = False,
        size: int = -1,
    ) -> None:
        self.payloads = payloads
        self.sender = sender
        self.number = number
        self.order = order
        self.group = group
        self.view_id = view_id
        self.private = private
        if size < 0:
            size = 0
            for payload in payloads:
                size += len(payload)
        self.size = size
        """Payload bytes."""

    def __repr__(self) -> str:
        return (
            f"Batch({len(self.payloads)} payloads, sender={self.sender!r}, number={self.number}, order={self.order!r}, "
            f"group={self.group!r}, view_id={self.view_id}, private={self.private})"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Barrier:
    """An event that has the same place among all deliveries at all members: with it the view ends, and the next, of the
    same members unless some have joined, left or failed, begins."""

    payload: bytes
    sender: ProcessId
    number: int
    """Its place among the messages of its sender, with which it is numbered."""
    group: str
    view_id: int

    def with_payload(self, payload: bytes) -> "Barrier":
        """The same, with another payload."""
        return Barrier(payload=payload, sender=self.sender, number=self.number, group=self.group, view_id=self.view_id)


@dataclass(frozen=True, slots=True, kw_only=True)
class ViewChange:
    """From here on the group is in `view`; the first event of every stream is one of these."""

    group: str
    view: View
    joined: tuple[ProcessId, ...]
    """In this view and not in the one before; at the first view, everybody."""
    left: tuple[ProcessId, ...]
    """Gone by their own will."""
    failed: tuple[ProcessId, ...]
    """Gone because they were given up."""
    founded: bool = False
    """The group begins with this view: nobody was in it before, so there is no state to fetch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stalled:
    """No majority of the view can be reached: nothing is sent or delivered until the next ViewChange."""

    group: str
    view: View
    """The view in which the group stands still here; others may have gone on, if they are a majority of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Excluded:
    """The others went on without this process, whose incarnation ends here.

    What they deliver between this and the view in which the next incarnation comes in is missed: whoever keeps a state
    must fetch it anew.
    """

    group: str
    view: View
    """The last view that this process was in."""
    unsettled: int = 0
    """Messages and packets of this incarnation that some member was not known to have: the others may have delivered
    them or not, and they are not sent again. 0: everybody has everything. What was sent after those, the next
    incarnation sends, if there is one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TransitionalView:
    """In a group that may part (policy `partitionable`), before each ViewChange but the first: what follows, up to
    that, is delivered in the old view among `members` alone, whom the next view takes along. Safe messages before this
    were delivered by all members of the old view that live; those after it, by those of `members` that come along: one
    that is lost between its agreement and its step is named all the same, and the others drop it in a later view."""

    group: str
    view_id: int
    """The view that ends."""
    members: tuple[ProcessId, ...]


@final
class Question:
    """The stack asks the application something that it cannot know itself: `answer` it in time.

    Only stacks with a rule that the application decides ask; what `payload` means and which answers there are, the
    stack says. Nothing waits for the answer but what the stack has asked about.
    """

    __slots__ = ("_reply", "group", "payload", "within_s")

    def __init__(self, group: str, payload: bytes, within_s: float, reply: Callable[[bytes], None]) -> None:
        self.group = group
        self.payload = payload
        """What is asked."""
        self.within_s = within_s
        """How long the stack waits, from when it asked. Then it goes on as with an empty answer."""
        self._reply = reply

    def answer(self, answer: bytes) -> None:
        """Answer, from any thread. The first answer counts; one that comes too late is ignored."""
        if not isinstance(answer, bytes):
            raise UsageError(f"an answer is bytes, not {answer!r}")
        self._reply(answer)

    def __repr__(self) -> str:
        return f"Question(group={self.group!r}, payload={self.payload!r}, within_s={self.within_s})"


StreamEvent = Message | ViewChange | Barrier | Stalled | Excluded | TransitionalView | Question
"""What a reader of single messages gets."""
BatchEvent = Batch | ViewChange | Barrier | Stalled | Excluded | TransitionalView | Question
"""What a reader of batches gets."""
