"""What a process can ask of its conversations: each of these goes into `Engine.step` like any other input.

A process takes the role PARTICIPANT by `take_part()`. From then on it can open conversations and accept those that
others open. What it asks of one conversation is a `ConversationRequest`, which acts on this process's side of it
(conversation.py) within the step. Whatever follows from that, packets and events, is in the effects of the same step;
what the caller wants to know at once the step leaves in the request.
"""

from typing import Final, final

from antiphon.kernel.inputs import Close, Open, RoleSettings, StackRequest
from antiphon.parts.message_graph import GraphNode, Mid
from antiphon.stacks.conversation.free.conversation import ConversationCore
from antiphon.stacks.conversation.free.limits import Limits
from antiphon.stacks.conversation.free.store import StoredConversation
from antiphon.stacks.conversation.offers import OFFERS

PARTICIPANT: Final = "participant"


@final
class ParticipantSettings(RoleSettings):
    """How a process takes part in conversations. `storage`: whether it has a disk for conversations that are kept."""

    __slots__ = ("limits", "storage")

    def __init__(self, limits: Limits | None = None, storage: bool = False) -> None:
        self.limits = limits or Limits()
        self.storage = storage


def take_part(settings: ParticipantSettings) -> Open:
    """Return the input by which a process begins to take part in conversations."""
    return Open(stack=OFFERS.name, role=PARTICIPANT, settings=settings)


def take_no_part() -> Close:
    """Return the input by which a process closes all its conversations and accepts no more."""
    return Close(stack=OFFERS.name, role=PARTICIPANT)


# ---- beginning and ending ------------------------------------------------------------------------------------------


class StartingRequest(StackRequest):
    """A request that begins one more conversation for this process: `conversation`, which the step sets."""

    __slots__ = ("conversation",)

    def __init__(self) -> None:
        super().__init__(OFFERS.name)
        self.conversation: ConversationCore | None = None


@final
class OpenConversation(StartingRequest):
    """Begin a conversation with others, by name and address. With `keep`, all that is said is kept by all."""

    __slots__ = ("keep", "others", "own_address")

    def __init__(self, others: dict[str, str], own_address: str, keep: bool) -> None:
        super().__init__()
        self.others = others
        self.own_address = own_address
        self.keep = keep


@final
class AcceptConversation(StartingRequest):
    """Take part in the conversation that has been pending longest; if none is, `conversation` stays None."""

    __slots__ = ()


@final
class RestartConversation(StartingRequest):
    """Come back into a conversation after a restart, with a view that ends in `leaves`; without leaves, at the
    beginning. `participants`: in their order, with addresses. `sections`: messages that a checkpoint holds. `base`: to
    begin without the history before it. `own_address`: where this process is now, if it is elsewhere."""

    __slots__ = ("base", "cid", "leaves", "own_address", "participants", "sections")

    def __init__(
        self,
        cid: int,
        participants: dict[str, str],
        leaves: list[Mid],
        sections: list[bytes],
        *,
        base: bytes = b"",
        own_address: str = "",
    ) -> None:
        super().__init__()
        self.cid = cid
        self.participants = participants
        self.leaves = leaves
        self.sections = sections
        self.base = base
        self.own_address = own_address


@final
class CloseConversation(StackRequest):
    """Leave a conversation. The others are not told."""

    __slots__ = ("cid",)

    def __init__(self, cid: int) -> None:
        super().__init__(OFFERS.name)
        self.cid = cid


@final
class ListStored(StackRequest):
    """Ask which conversations this process has on its disk: `stored`, once the disk has answered."""

    __slots__ = ("stored",)

    def __init__(self) -> None:
        super().__init__(OFFERS.name)
        self.stored: list[StoredConversation] | None = None


# ---- taking part ---------------------------------------------------------------------------------------------------


class ConversationRequest(StackRequest):
    """A request about one conversation."""

    __slots__ = ("cid",)

    def __init__(self, cid: int) -> None:
        super().__init__(OFFERS.name)
        self.cid = cid

    def act(self, conversation: ConversationCore, now_ns: int) -> None:
        """Carry out the request. Raises UsageError before anything has changed."""
        raise NotImplementedError


class OfferingRequest(ConversationRequest):
    """A request that hands something to the filter on a conversation, which acts on it in its next turn."""

    __slots__ = ()


@final
class SendMessage(ConversationRequest):
    """Send a message in the context of all that was sent or received here; `node` is the message. A `note` is not sent
    again by a restarted participant: an acknowledgement, for instance."""

    __slots__ = ("node", "note", "payload")

    def __init__(self, cid: int, payload: bytes, note: bool = False) -> None:
        super().__init__(cid)
        self.payload = payload
        self.note = note
        self.node: GraphNode | None = None

    def act(self, conversation: ConversationCore, now_ns: int) -> None:
        self.node = conversation.note(self.payload) if self.note else conversation.send(self.payload)


@final
class TakeMessage(ConversationRequest):
    """Receive the earliest message that was not received yet; `taken` is None if there is none."""

    __slots__ = ("taken",)

    def __init__(self, cid: int) -> None:
        super().__init__(cid)
        self.taken: tuple[GraphNode, bytes] | None = None

    def act(self, conversation: ConversationCore, now_ns: int) -> None:
        self.taken = conversation.receive()


@final
class ResendMessage(ConversationRequest):
    """Send a message once more, unless it is stable."""

    __slots__ = ("node",)

    def __init__(self, cid: int, node: GraphNode) -> None:
        super().__init__(cid)
        self.node = node

    def act(self, conversation: ConversationCore, now_ns: int) -> None:
        conversation.resend(self.node)


@final
class FreeMessages(ConversationRequest):
    """Forget a message and all that precede it, as far as they are stable and received; `count` tells how many."""

    __slots__ = ("count", "node")

    def __init__(self, cid: int, node: GraphNode) -> None:
        super().__init__(cid)
        self.node = node
        self.count = 0

    def act(self, conversation: ConversationCore, now_ns: int) -> None:
        self.count = conversation.free(self.node)


@final
class RemoveParticipant(ConversationRequest):
    """Ask all participants to remove one."""

    __slots__ = ("rank",)

    def __init__(self, cid: int, rank: int) -> None:
        super().__init__(cid)
        self.rank = rank

    def act(self, conversation: ConversationCore, now_ns: int) -> None:
        conversation.remove(self.rank)


@final
class AddParticipant(ConversationRequest):
    """Ask all participants to admit one again that was removed and has restarted."""

    __slots__ = ("rank",)

    def __init__(self, cid: int, rank: int) -> None:
        super().__init__(cid)
        self.rank = rank

    def act(self, conversation: ConversationCore, now_ns: int) -> None:
        conversation.add(self.rank)


@final
class MaskParticipant(ConversationRequest):
    """Stop waiting for a participant here and ignore its messages; with `masked` false, undo that."""

    __slots__ = ("masked", "rank")

    def __init__(self, cid: int, rank: int, masked: bool) -> None:
        super().__init__(cid)
        self.rank = rank
        self.masked = masked

    def act(self, conversation: ConversationCore, now_ns: int) -> None:
        if self.masked:
            conversation.mask_out(self.rank)
        else:
            conversation.mask_in(self.rank)


@final
class AdoptFormer(ConversationRequest):
    """Count what this participant said in former lives as said; `former` are the messages that it has not said
    again."""

    __slots__ = ("former",)

    def __init__(self, cid: int) -> None:
        super().__init__(cid)
        self.former: list[GraphNode] = []

    def act(self, conversation: ConversationCore, now_ns: int) -> None:
        self.former = conversation.former()
        conversation.adopt()


@final
class TakeRestarted(ConversationRequest):
    """Ask which participants have announced a restart since the last such request: `ranks`."""

    __slots__ = ("ranks",)

    def __init__(self, cid: int) -> None:
        super().__init__(cid)
        self.ranks: list[int] = []

    def act(self, conversation: ConversationCore, now_ns: int) -> None:
        self.ranks, conversation.restarted = conversation.restarted, []


@final
class SettleForLess(ConversationRequest):
    """End a recovery: go on with the part of the history that is here, and without those that have not answered."""

    __slots__ = ()

    def act(self, conversation: ConversationCore, now_ns: int) -> None:
        conversation.settle_for_less()
