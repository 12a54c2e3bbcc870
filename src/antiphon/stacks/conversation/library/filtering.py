"""Filters in the engine: requests that put one on a conversation, and offer it something.

What is offered goes out at the filter's next turn, which is due at once: as soon as all that is ready to run has run,
so that what several tasks offer travels together.
"""

from typing import final

from antiphon.kernel.errors import UsageError
from antiphon.parts.message_graph import Mid
from antiphon.stacks.conversation.free.conversation import ConversationCore
from antiphon.stacks.conversation.free.requests import ConversationRequest, OfferingRequest
from antiphon.stacks.conversation.library.broadcast import OrderedBroadcast
from antiphon.stacks.conversation.library.circuit import Circuit
from antiphon.stacks.conversation.library.filter_base import FilterOptions
from antiphon.stacks.conversation.library.operations import Operations
from antiphon.stacks.conversation.library.stable import StableSend


class BeginFilter(ConversationRequest):
    """Put a filter on a conversation, which only the filter may use until `EndFilter`."""

    __slots__ = ("options", "state")

    def __init__(self, cid: int, options: FilterOptions, state: bytes = b"") -> None:
        super().__init__(cid)
        self.options = options
        self.state = state
        """What the checkpoint that the participant came back from has of the filter."""

    def check(self, conversation: ConversationCore) -> None:
        """Raise UsageError if there is a filter already."""
        if conversation.filter is not None:
            raise UsageError("there is a filter on this conversation; close that one first")


@final
class BeginCircuit(BeginFilter):
    """Put a circuit on a conversation: streams in both directions, with a window (4.1); `machine` is this end."""

    __slots__ = ("machine",)

    def __init__(self, cid: int, options: FilterOptions, state: bytes = b"") -> None:
        super().__init__(cid, options, state)
        self.machine: Circuit | None = None

    def act(self, conversation: ConversationCore, now_ns: int) -> None:
        self.check(conversation)
        self.machine = Circuit(conversation, self.options, state=self.state)
        conversation.put_filter(self.machine)


@final
class BeginBroadcast(BeginFilter):
    """Put an ordered broadcast on a conversation: all messages in one order at all participants (4.2)."""

    __slots__ = ("machine",)

    def __init__(self, cid: int, options: FilterOptions, state: bytes = b"") -> None:
        super().__init__(cid, options, state)
        self.machine: OrderedBroadcast | None = None

    def act(self, conversation: ConversationCore, now_ns: int) -> None:
        self.check(conversation)
        self.machine = OrderedBroadcast(conversation, self.options, forgets=not conversation.keeps, state=self.state)
        conversation.put_filter(self.machine)


@final
class BeginOperations(BeginFilter):
    """Put operations on a conversation: each participant has a copy of an object, and some operations on it commute
    (4.3)."""

    __slots__ = ("machine",)

    def __init__(self, cid: int, options: FilterOptions) -> None:
        super().__init__(cid, options)
        self.machine: Operations | None = None

    def act(self, conversation: ConversationCore, now_ns: int) -> None:
        self.check(conversation)
        self.machine = Operations(conversation, self.options, forgets=not conversation.keeps)
        conversation.put_filter(self.machine)


@final
class BeginStableSend(BeginFilter):
    """Send a message, and report when all participants have it, or this many (Figure 6, 3.4)."""

    __slots__ = ("machine", "participants", "payload", "timeout_ns", "tries")

    def __init__(self, cid: int, payload: bytes, *, tries: int, timeout_ns: int, participants: int) -> None:
        super().__init__(cid, FilterOptions())
        self.payload = payload
        self.tries = tries
        self.timeout_ns = timeout_ns
        self.participants = participants
        self.machine: StableSend | None = None

    def act(self, conversation: ConversationCore, now_ns: int) -> None:
        self.check(conversation)
        self.machine = StableSend(
            conversation,
            self.payload,
            now_ns,
            tries=self.tries,
            timeout_ns=self.timeout_ns,
            participants=self.participants,
        )
        conversation.put_filter(self.machine)


@final
class EndFilter(ConversationRequest):
    """Take the filter off a conversation, which stays open."""

    __slots__ = ()

    def act(self, conversation: ConversationCore, now_ns: int) -> None:
        conversation.filter = None
        conversation.messages.feed = None


@final
class AdoptOffers(ConversationRequest):
    """Have the filter take what the application said in former lives as said; `former` is what that was."""

    __slots__ = ("former",)

    def __init__(self, cid: int) -> None:
        super().__init__(cid)
        self.former: list[tuple[Mid, bytes]] = []

    def act(self, conversation: ConversationCore, now_ns: int) -> None:
        if conversation.filter is not None:
            self.former = conversation.filter.former()
            conversation.filter.adopt()


@final
class OfferMessage(OfferingRequest):
    """Have the filter send a message as soon as its window allows."""

    __slots__ = ("payload",)

    def __init__(self, cid: int, payload: bytes) -> None:
        super().__init__(cid)
        self.payload = payload

    def act(self, conversation: ConversationCore, now_ns: int) -> None:
        machine = conversation.filter
        if isinstance(machine, Circuit | OrderedBroadcast):
            machine.offer(self.payload)
        else:
            raise UsageError("the filter on this conversation, if there is one, takes no messages")


@final
class OfferOperation(OfferingRequest):
    """Issue an operation. `at_once`: the caller has to execute it before anything else."""

    __slots__ = ("at_once", "commutes", "payload")

    def __init__(self, cid: int, payload: bytes, commutes: bool) -> None:
        super().__init__(cid)
        self.payload = payload
        self.commutes = commutes
        self.at_once = False

    def act(self, conversation: ConversationCore, now_ns: int) -> None:
        machine = conversation.filter
        if not isinstance(machine, Operations):
            raise UsageError("the filter on this conversation, if there is one, takes no operations")
        self.at_once = machine.offer(self.payload, self.commutes)
