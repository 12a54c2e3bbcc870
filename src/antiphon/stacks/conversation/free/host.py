"""All conversations of one process (psync-1989, 2, 3.1.2, 3.3 and 6.2).

Who opens a conversation names the participants; nothing is exchanged, and what establishes it elsewhere comes with its
first message. There it is pending until the process accepts it: with the first message alone, and so many at a time.
Further messages of a pending conversation are dropped. They are recovered like anything that was lost once it is
accepted, and so is a first message for which there was no room, when it is resent.

To close a conversation exchanges nothing either: to the others, who closed seems to have failed. What still comes is
counted and dropped.

A participant is known by its name: whoever comes back after a failure takes the same place again.

What is to be sent comes out as (addresses, packets): with `broadcast`, what is for all goes out once, for all their
addresses together, so that whatever carries it may use IP multicast; without, once for each address.

Packets from the network never raise, and never take more memory than limits.py grants.
"""

from typing import Final, final

from antiphon.kernel.codec import unseal
from antiphon.kernel.effects import NEVER
from antiphon.kernel.errors import MalformedError, UsageError
from antiphon.kernel.identity import ProcessId
from antiphon.kernel.options import Options
from antiphon.kernel.packet_kinds import START
from antiphon.parts.message_graph import Mid
from antiphon.stacks.conversation.free.conversation import ConversationCore, conversation_id, participants_tag
from antiphon.stacks.conversation.free.graph_replica import EVERYBODY
from antiphon.stacks.conversation.free.limits import Limits
from antiphon.stacks.conversation.free.wire import (
    KEPT,
    KINDS,
    decode_start,
    participants_section,
)

START_BYTES_MAX: Final = 60_000
"""The participants of a conversation, with names and addresses: they go into one datagram."""
_KIND_AT: Final = 7
_CID_AT: Final = 8


def participant(name: str) -> ProcessId:
    """A participant, known by its name alone."""
    return ProcessId(name, 0)


@final
class Outgoing:
    """Packets to send, in this order, each to all these addresses."""

    __slots__ = ("addresses", "packets")

    def __init__(self, addresses: list[str], packets: list[bytes]) -> None:
        self.addresses = addresses
        self.packets = packets


@final
class Pending:
    """A conversation that was not accepted yet, with its first message."""

    __slots__ = ("addresses", "cid", "data", "flags", "participants", "via")

    def __init__(
        self, cid: int, participants: list[ProcessId], addresses: list[str], via: int, flags: int, data: bytes
    ) -> None:
        self.cid = cid
        self.participants = participants
        self.addresses = addresses
        self.via = via
        self.flags = flags
        self.data = data


@final
class ConversationHost:
    """The conversations of one process."""

    __slots__ = (
        "_broadcast",
        "_closed",
        "_conversations",
        "_deadlines",
        "_life",
        "_limits",
        "_me",
        "_opened",
        "_options",
        "_pending",
        "_probing",
        "_recording",
        "counts",
    )

    def __init__(
        self,
        name: str,
        options: Options,
        *,
        life: int = 1,
        limits: Limits | None = None,
        broadcast: bool = False,
        probing: bool = True,
        recording: bool = False,
    ) -> None:
        self._me = participant(name)
        self._options = options
        self._life = life
        self._limits = limits or Limits()
        self._broadcast = broadcast
        self._probing = probing
        self._recording = recording
        self._opened = 0
        self._conversations: dict[int, ConversationCore] = {}
        self._deadlines: dict[int, int] = {}
        self._pending: dict[int, Pending] = {}
        self._closed: dict[int, None] = {}
        self.counts: dict[str, int] = {}
        """Packets that were dropped, by reason."""

    def _count(self, what: str) -> None:
        self.counts[what] = self.counts.get(what, 0) + 1

    # ---- opening and closing ---------------------------------------------------------------------------------------

    def active_open(self, others: dict[str, str], own_address: str, *, keep: bool = False) -> ConversationCore:
        """Begin a conversation with others, by name and address; this process is participant 0. Nothing is sent.

        With `keep`, all that is said is kept at all participants, so that whoever fails can come back.
        """
        if self._me.name in others:
            raise UsageError(f"{self._me.name!r} opens the conversation and takes part anyway; name the others alone")
        if not others:
            raise UsageError("a conversation needs somebody to talk to; name at least one other participant")
        participants = [self._me, *[participant(name) for name in others]]
        addresses = [own_address, *others.values()]
        self._check_start(participants, addresses)
        self._check_room()
        self._opened += 1
        opener = ProcessId(self._me.name, self._life)
        return self._add(conversation_id(opener, self._opened), participants, addresses, keep)

    def passive_open(self) -> ConversationCore | None:
        """Accept the conversation that has been pending longest; None if there is none."""
        if not self._pending:
            return None
        self._check_room()
        pending = self._pending.pop(next(iter(self._pending)))
        conversation = self._add(pending.cid, pending.participants, pending.addresses, bool(pending.flags & KEPT))
        self._give(conversation, START, pending.via, pending.flags, pending.data, 0)
        return conversation

    def restart(
        self, cid: int, participants: dict[str, str], leaves: list[Mid], sections: list[bytes] | None = None
    ) -> ConversationCore:
        """Come back into a conversation (5.1), with a view that ends in `leaves`; without any, it all begins again.

        `participants`: in their order, with addresses. `sections`: what this host's storage has of the graph.
        """
        if self._me.name not in participants:
            raise UsageError(f"{self._me.name!r} is not among the participants of the conversation that it restarts")
        if cid in self._conversations:
            raise UsageError("this process takes part in that conversation already; close it first")
        self._check_room()
        names = [participant(name) for name in participants]
        addresses = list(participants.values())
        self._check_start(names, addresses)
        for rank, number in leaves:
            if not 0 <= rank < len(names) or number < 1:
                raise UsageError(f"({rank}, {number}) names no message where {len(names)} participants talk")
        self._pending.pop(cid, None)
        self._closed.pop(cid, None)
        conversation = self._add(cid, names, addresses, True)
        conversation.restore(sections or [])
        if conversation.records is not None:
            conversation.records = []  # that is where they came from
        conversation.restart(leaves)
        return conversation

    def _check_room(self) -> None:
        if len(self._conversations) >= self._limits.conversations_max:
            raise UsageError(
                f"this process has {self._limits.conversations_max} conversations open; close one, or raise "
                "conversations_max"
            )

    def _check_start(self, participants: list[ProcessId], addresses: list[str]) -> None:
        size = len(participants_section(participants, addresses))
        if size > START_BYTES_MAX:
            raise UsageError(
                f"names and addresses of {len(participants)} participants have {size} bytes, but at most "
                f"{START_BYTES_MAX} fit into the first message"
            )

    def _add(self, cid: int, participants: list[ProcessId], addresses: list[str], keep: bool) -> ConversationCore:
        conversation = ConversationCore(
            cid,
            participants,
            addresses,
            self._me,
            self._options,
            keep_bodies=keep,
            limits=self._limits,
            life=self._life,
            probing=self._probing,
            recording=self._recording and keep,
        )
        self._conversations[cid] = conversation
        return conversation

    def close(self, cid: int) -> None:
        """Take no more part. Nothing is sent."""
        self._conversations.pop(cid, None)
        self._deadlines.pop(cid, None)
        self._closed[cid] = None
        if len(self._closed) > self._limits.closed_max:
            del self._closed[next(iter(self._closed))]

    def pending(self) -> int:
        """How many conversations wait to be accepted."""
        return len(self._pending)

    def conversation(self, cid: int) -> ConversationCore | None:
        return self._conversations.get(cid)

    # ---- the network -----------------------------------------------------------------------------------------------

    def wants(self, data: bytes) -> bool:
        """Whether a datagram is for a conversation of this process, as far as its first bytes tell."""
        if len(data) < _CID_AT + 8 or data[_KIND_AT] not in KINDS:
            return False
        cid = int.from_bytes(data[_CID_AT : _CID_AT + 8], "little")
        return data[_KIND_AT] == START or cid in self._conversations or cid in self._pending or cid in self._closed

    def take(self, data: bytes, now_ns: int) -> ConversationCore | None:
        """One datagram; the conversation that it was for, if there is such a one."""
        try:
            kind, cid, tag, via, flags, _ = unseal(data)
        except MalformedError as error:
            self._count(error.reason)
            return None
        conversation = self._conversations.get(cid)
        if conversation is not None:
            if tag != conversation.tag:
                self._count("tag")
                return None
            self._give(conversation, kind, via, flags, data, now_ns)
            return conversation
        if cid in self._closed:
            self._count("closed")
        elif cid in self._pending:
            self._count("pending")
        elif kind != START:
            self._count("unknown")
        else:
            self._take_first(cid, tag, via, flags, data)
        return None

    def _give(self, conversation: ConversationCore, kind: int, via: int, flags: int, data: bytes, now_ns: int) -> None:
        try:
            conversation.take(kind, via, flags, data, now_ns)
        except MalformedError as error:
            self._count(error.reason)

    def _take_first(self, cid: int, tag: int, via: int, flags: int, data: bytes) -> None:
        """The first message of a conversation that somebody has opened."""
        try:
            participants, addresses, added = decode_start(data, flags)
        except MalformedError as error:
            self._count(error.reason)
            return
        is_first = added.mid() == (0, 1) and not added.predecessors
        if not is_first or tag != participants_tag(participants) or self._me not in participants:
            self._count("participants")
        elif via >= len(participants) or participants[via] == self._me:
            self._count("rank")
        elif len(self._pending) >= self._limits.pending_max:
            self._count("pending")
        else:
            self._pending[cid] = Pending(cid, participants, addresses, via, flags, data)

    def flush(self, conversation: ConversationCore, now_ns: int) -> list[Outgoing]:
        """What a conversation has to send, after anything was done with it; also notes when it wants to be called."""
        conversation.note_time(now_ns)
        self._deadlines[conversation.cid] = conversation.deadline_ns()
        if not conversation.image.out:
            return []
        out, conversation.image.out = conversation.image.out, []
        outgoing: list[Outgoing] = []
        before = conversation.me  # nobody's: nothing is for oneself
        for rank, packet in out:
            if rank == before:
                for same in outgoing[-self._copies(conversation, rank) :]:
                    same.packets.append(packet)
            else:
                before = rank
                outgoing += [Outgoing(to, [packet]) for to in self._destinations(conversation, rank)]
        return outgoing

    def _copies(self, conversation: ConversationCore, rank: int) -> int:
        return 1 if rank != EVERYBODY or self._broadcast else len(conversation.addresses) - 1

    def _destinations(self, conversation: ConversationCore, rank: int) -> list[list[str]]:
        addresses = conversation.addresses
        if rank != EVERYBODY:
            return [[addresses[rank]]]
        others = [address for place, address in enumerate(addresses) if place != conversation.me]
        return [others] if self._broadcast else [[address] for address in others]

    # ---- time ------------------------------------------------------------------------------------------------------

    def deadline_ns(self) -> int:
        """When to `tick` next, as far as what was flushed tells."""
        return min(self._deadlines.values(), default=NEVER)

    def tick(self, now_ns: int) -> list[ConversationCore]:
        """Time has come to it; the conversations for which something was due, to be flushed."""
        due = [self._conversations[cid] for cid, at_ns in self._deadlines.items() if at_ns <= now_ns]
        for conversation in due:
            conversation.tick(now_ns)
        return due
