"""All conversations of one process, who takes part in them, and when each is due (psync-1989, 2, 3.1.2, 3.3 and 6.2).

Who opens a conversation names the participants; nothing is exchanged, and what establishes it elsewhere comes with its
first message. There it is pending until the process accepts it: with the first message alone, and so many at a time.
Further messages of a pending conversation are dropped. They are recovered like anything that was lost once it is
accepted, and so is a first message for which there was no room, when it is resent.

To close a conversation exchanges nothing either: to the others, who closed seems to have failed. What still comes is
dropped.

A participant is known by its name: whoever comes back after a failure takes the same place again, at another address
perhaps.

What is for all goes out once, by one route to all their addresses, so that whatever carries it may use IP multicast.

Bad packets raise MalformedError before anything has changed. None takes more memory than limits.py grants.

Deadlines stand in a heap, at most one live entry for each conversation: an entry that comes up before its conversation
is due is put back with the later time, and entries of conversations that were closed are dropped when they come up.
"""

from heapq import heappop, heappush
from random import Random
from typing import Final, final

from antiphon.kernel.effects import NEVER, Route, Transmit
from antiphon.kernel.errors import MalformedError, UsageError
from antiphon.kernel.identity import ProcessId
from antiphon.kernel.options import Options
from antiphon.kernel.packet_kinds import START
from antiphon.parts.message_graph import Mid
from antiphon.stacks.conversation.free.conversation import ConversationCore, conversation_id, participants_tag
from antiphon.stacks.conversation.free.limits import Limits
from antiphon.stacks.conversation.free.view_base import ViewBase, decode_base
from antiphon.stacks.conversation.free.wire import KEPT, decode_start, participants_section

START_BYTES_MAX: Final = 60_000
"""The participants of a conversation, with names and addresses: they go into one datagram."""


def participant(name: str) -> ProcessId:
    """Return the process id of a participant, which is known by its name alone."""
    return ProcessId(name, 0)


@final
class Pending:
    """A conversation that was opened by another process and not accepted yet, with its first message."""

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
        "_armed_ns",
        "_closed",
        "_conversations",
        "_due_ns",
        "_heap",
        "_life",
        "_limits",
        "_me",
        "_opened",
        "_options",
        "_pending",
        "_probing",
        "_random",
        "_recording",
        "_routes",
    )

    def __init__(
        self,
        name: str,
        options: Options,
        *,
        life: int = 1,
        limits: Limits | None = None,
        probing: bool = True,
        recording: bool = False,
        random: Random | None = None,
    ) -> None:
        self._me = participant(name)
        self._random = random
        self._options = options
        self._life = life
        self._limits = limits or Limits()
        self._probing = probing
        self._recording = recording
        self._opened = 0
        self._conversations: dict[int, ConversationCore] = {}
        self._routes: dict[int, list[Route]] = {}
        """Of each conversation: to each participant by rank, and last to all others."""
        self._heap: list[tuple[int, int]] = []
        """When a conversation may be due, and its id."""
        self._due_ns: dict[int, int] = {}
        """When each conversation is due."""
        self._armed_ns: dict[int, int] = {}
        """The time of the one live entry of each conversation in the heap; NEVER if it has none."""
        self._pending: dict[int, Pending] = {}
        self._closed: dict[int, None] = {}

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
        chance = 0 if self._random is None else self._random.getrandbits(62)
        return self._add(conversation_id(opener, self._opened, chance), participants, addresses, keep)

    def passive_open(self) -> ConversationCore | None:
        """Accept the conversation that has been pending longest; None if there is none."""
        if not self._pending:
            return None
        self._check_room()
        pending = self._pending.pop(next(iter(self._pending)))
        conversation = self._add(pending.cid, pending.participants, pending.addresses, bool(pending.flags & KEPT))
        conversation.take(START, pending.via, pending.flags, pending.data, 0)
        return conversation

    def restart(
        self,
        cid: int,
        participants: dict[str, str],
        leaves: list[Mid],
        sections: list[bytes] | None = None,
        loading: bool = False,
        *,
        base: bytes = b"",
        own_address: str = "",
    ) -> ConversationCore:
        """Come back into a conversation (5.1), with a view that ends in `leaves`; without any, it all begins again.

        `participants`: in their order, with addresses. `sections`: what the checkpoint has of the graph. `loading`: the
        log of the conversation is being read, too. `base`: begin there, without the history before (view_base.py).
        `own_address`: where this process is now.
        """
        if self._me.name not in participants:
            raise UsageError(f"{self._me.name!r} is not among the participants of the conversation that it restarts")
        if cid in self._conversations:
            raise UsageError("this process takes part in that conversation already; close it first")
        self._check_room()
        names = [participant(name) for name in participants]
        addresses = list(participants.values())
        me = names.index(self._me)
        has_moved = own_address not in ("", addresses[me])
        addresses[me] = own_address or addresses[me]
        self._check_start(names, addresses)
        try:
            begun = decode_base(base, len(names)) if base else None
        except MalformedError as error:
            raise UsageError(f"this is no checkpoint of that conversation: {error}") from None
        for rank, number in leaves:
            if not 0 <= rank < len(names) or number < 1:
                raise UsageError(f"({rank}, {number}) names no message where {len(names)} participants talk")
        self._pending.pop(cid, None)
        self._closed.pop(cid, None)
        conversation = self._add(cid, names, addresses, True)
        if has_moved:
            conversation.moved[me] = self._life
        if begun is not None:
            self._begin_at(conversation, begun, leaves)
        conversation.restore(sections or [])
        conversation.restart(leaves, loading)
        return conversation

    def _begin_at(self, conversation: ConversationCore, base: ViewBase, leaves: list[Mid]) -> None:
        try:
            conversation.begin_at(base, leaves)
        except MalformedError as error:
            self.close(conversation.cid)
            self._closed.pop(conversation.cid)
            raise UsageError(f"this is no checkpoint of that conversation: {error}") from None

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
        self._find_routes(conversation)
        self._due_ns[cid] = self._armed_ns[cid] = NEVER
        return conversation

    def _find_routes(self, conversation: ConversationCore) -> None:
        participants, addresses = conversation.participants, conversation.addresses
        routes = [Route((who,), (where,)) for who, where in zip(participants, addresses, strict=True)]
        others = [rank for rank in range(len(participants)) if rank != conversation.me]
        everybody = Route(tuple([participants[rank] for rank in others]), tuple([addresses[rank] for rank in others]))
        self._routes[conversation.cid] = [*routes, everybody]
        conversation.readdressed = False

    def close(self, cid: int) -> None:
        """Leave a conversation without telling the others."""
        if cid in self._conversations:
            del self._conversations[cid], self._routes[cid], self._due_ns[cid], self._armed_ns[cid]
        self._closed[cid] = None
        if len(self._closed) > self._limits.closed_max:
            del self._closed[next(iter(self._closed))]

    def pending(self) -> int:
        """Return how many conversations wait to be accepted."""
        return len(self._pending)

    def open_ids(self) -> list[int]:
        """Return the ids of all conversations that this process takes part in."""
        return list(self._conversations)

    def conversation(self, cid: int) -> ConversationCore | None:
        return self._conversations.get(cid)

    # ---- the network -----------------------------------------------------------------------------------------------

    def take(
        self, kind: int, cid: int, tag: int, via: int, flags: int, data: bytes, now_ns: int
    ) -> ConversationCore | None:
        """Process one packet; return the conversation that it was for, or None if it opened one, which is pending now.
        Raises MalformedError before anything has changed."""
        conversation = self._conversations.get(cid)
        if conversation is not None:
            if tag != conversation.tag:
                raise MalformedError("tag")
            conversation.take(kind, via, flags, data, now_ns)
        elif cid in self._closed:
            raise MalformedError("closed")
        elif cid in self._pending:
            raise MalformedError("pending")
        elif kind != START:
            raise MalformedError("group")
        else:
            self._take_first(cid, tag, via, flags, data)
        return conversation

    def _take_first(self, cid: int, tag: int, via: int, flags: int, data: bytes) -> None:
        """Note a pending conversation from its first message."""
        participants, addresses, added = decode_start(data, flags)
        is_first = added.mid() == (0, 1) and not added.predecessors
        if not is_first or tag != participants_tag(participants) or self._me not in participants:
            raise MalformedError("participants")
        if via >= len(participants) or participants[via] == self._me:
            raise MalformedError("rank")
        if len(self._pending) >= self._limits.pending_max:
            raise MalformedError("pending")
        self._pending[cid] = Pending(cid, participants, addresses, via, flags, data)

    def flush(self, conversation: ConversationCore, now_ns: int) -> list[Transmit]:
        """Return what a conversation has to send after it was changed, and note when it is due next."""
        conversation.note_time(now_ns)
        self._note_deadline(conversation.cid, conversation.deadline_ns())
        if not conversation.replica.out:
            return []
        if conversation.readdressed:
            self._find_routes(conversation)
        out, conversation.replica.out = conversation.replica.out, []
        routes = self._routes[conversation.cid]
        transmits: list[Transmit] = []
        before = conversation.me  # nobody's: nothing is for oneself
        for rank, packet in out:  # EVERYBODY is -1, and so is the place of that route
            if rank == before:
                transmits[-1].packets.append(packet)
            else:
                before = rank
                transmits.append(Transmit(routes[rank], [packet]))
        return transmits

    # ---- time ------------------------------------------------------------------------------------------------------

    def _note_deadline(self, cid: int, due_ns: int) -> None:
        self._due_ns[cid] = due_ns
        if due_ns < self._armed_ns[cid]:
            self._armed_ns[cid] = due_ns
            heappush(self._heap, (due_ns, cid))

    def note_due(self, cid: int, now_ns: int) -> None:
        """Have a conversation processed at the next tick."""
        self._note_deadline(cid, now_ns)

    def deadline_ns(self) -> int:
        """Return when to call `tick` next, as far as flushed conversations tell."""
        heap = self._heap
        while heap:
            at_ns, cid = heap[0]
            if self._armed_ns.get(cid, -1) == at_ns:
                if self._due_ns[cid] == at_ns:
                    return at_ns
                self._armed_ns[cid] = NEVER
                if self._due_ns[cid] != NEVER:
                    self._note_deadline(cid, self._due_ns[cid])
            heappop(heap)
        return NEVER

    def tick(self, now_ns: int) -> list[ConversationCore]:
        """Process the conversations that are due; return them, to be flushed."""
        due: list[ConversationCore] = []
        while self.deadline_ns() <= now_ns:
            cid = heappop(self._heap)[1]
            self._armed_ns[cid] = NEVER
            due.append(self._conversations[cid])
        for conversation in due:
            conversation.tick(now_ns)
        return due
