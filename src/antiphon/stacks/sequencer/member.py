"""One member of one group of the service: what its application sends there, and how its view changes.

Own messages leave at once, in batches, as far as UNDER_WAY_BYTES_MAX bytes may be without a place; at that limit
the application waits. A batch is kept, and sent again when a link has to be opened anew, until it comes back with
its place. It counts as outstanding until that place is group-stable."""

from typing import Final, final

from antiphon.kernel.effects import NEVER, Delivered, Effects, Ended, Installed, Sent, Writable
from antiphon.kernel.errors import MalformedError, MessageTooLargeError, UsageError
from antiphon.kernel.identity import ProcessId, View
from antiphon.kernel.inputs import Join, Send
from antiphon.kernel.options import Options
from antiphon.parts.member import Member, StabilityMark
from antiphon.parts.membership.phases import JOINING, NORMAL, OUT, PARTING, step
from antiphon.parts.pending import TicketCounter
from antiphon.stacks.sequencer.bodies import BodyExchange
from antiphon.stacks.sequencer.place import Place
from antiphon.stacks.sequencer.wire import (
    MESSAGES_MAX,
    MULTICAST,
    carried,
    messages_parts,
    pairs_bytes,
    processes_bytes,
    u64,
)

UNDER_WAY_BYTES_MAX: Final = 1024 * 1024
"""Payload bytes of one client to one group that have no place yet; one message may pass the limit."""
BATCH_BYTES_MAX: Final = 64 * 1024
NOBODY: Final[list[ProcessId]] = []
_SERVED_NOBODY: Final = processes_bytes(NOBODY)


@final
class OwnBatch:
    """Consecutive messages under way to the sequencer."""

    __slots__ = ("last", "names", "pieces", "place", "size", "ticket")

    def __init__(self, last: int, size: int, carried: list[bytes], ticket: int, names: dict[int, int]) -> None:
        self.names = names
        """Own messages to other groups that had no place: by group, the number of the last one."""
        self.ticket = ticket
        """Numbers the batches of a process in the order in which it sent them, whatever the groups."""
        self.last = last
        """The number of the last message."""
        self.size = size
        self.pieces = carried
        self.place = 0
        """Its place in the order, once that is known."""


def sizes_of(payloads: list[bytes], size_max: int) -> list[int]:
    """The sizes of messages. Raises MessageTooLargeError."""
    sizes = [len(payload) for payload in payloads]
    if sizes and max(sizes) > size_max:
        raise MessageTooLargeError(max(sizes), size_max)
    return sizes


def batch_end(sizes: list[int], start: int) -> int:
    """Where a batch ends that begins at `start`, of messages of these sizes."""
    size, end, last = 0, start, min(len(sizes), start + MESSAGES_MAX)
    while end < last and size < BATCH_BYTES_MAX:
        size += sizes[end]
        end += 1
    return end


@final
class OwnMessages:
    """What one process has under way to one group."""

    __slots__ = ("_batches", "_bytes", "_settled", "group_id", "is_blocked", "last_number")

    def __init__(self, group_id: int, last_number: int) -> None:
        self.group_id = group_id
        self._batches: list[OwnBatch] = []
        self._bytes = 0
        """Of batches without a place."""
        self.last_number = last_number
        self._settled = last_number
        """Up to this number nothing waits for a place."""
        self.is_blocked = False
        """Less was taken than was offered."""

    def take(
        self,
        payloads: list[bytes],
        sizes: list[int],
        level: int,
        tickets: TicketCounter,
        names: dict[int, int],
        exchange: BodyExchange | None = None,
        served: list[ProcessId] = NOBODY,
    ) -> tuple[int, list[bytes]]:
        """Take messages, of these sizes, from the front while there is room; how many, and what is to be sent for
        them. Long batches go to the members that are `served` by the exchange."""
        taken, sent = 0, []
        start = u64(self.group_id) + u64(self._settled) + pairs_bytes(names)
        head = start + _SERVED_NOBODY
        while taken < len(payloads) and self._bytes < UNDER_WAY_BYTES_MAX:
            end = batch_end(sizes, taken)
            own = sizes[taken:end]
            size = sum(own) + end - taken
            tickets.last += 1
            parts = messages_parts(self.last_number + 1, level, payloads[taken:end], own)
            if exchange is not None and served and size >= exchange.direct_bytes:
                made = carried(MULTICAST, start, processes_bytes(served), *parts)
                exchange.send(self.group_id, served, self.last_number + 1, level, payloads[taken:end], parts)
            else:
                made = carried(MULTICAST, head, *parts)
            self.last_number += end - taken
            self._batches.append(OwnBatch(self.last_number, size, made, tickets.last, names))
            self._bytes += size
            sent += made
            taken = end
        self.is_blocked = taken < len(payloads)
        return taken, sent

    def placed(self, last: int, place: int) -> None:
        """The messages up to number `last` have places, of which this is the last."""
        self._settled = max(self._settled, last)
        for batch in self._batches:
            if batch.last <= last and not batch.place:
                batch.place = place
                batch.pieces = []
                self._bytes -= batch.size

    def stable(self, place: int) -> None:
        """What has a place up to this one is at all members."""
        self._batches = [batch for batch in self._batches if not batch.place or batch.place > place]

    def names(self, group: int) -> bool:
        """Whether something without a place names a message to a group."""
        return any(not batch.place and group in batch.names for batch in self._batches)

    def has_room(self) -> bool:
        return self._bytes < UNDER_WAY_BYTES_MAX

    def without_place(self) -> list[OwnBatch]:
        """All that has no place yet, to be sent again."""
        return [batch for batch in self._batches if not batch.place]

    def outstanding(self) -> int:
        """Batches that are not known to be at all members."""
        return len(self._batches)

    def first_outstanding(self) -> int:
        """The number of the first message that may not be at all members is above this."""
        return self._batches[0].last if self._batches else NEVER


class MemberService:
    """What a member needs of the client that it shares with the other members of its process (client.py)."""

    __slots__ = ("exchange", "tickets", "unplaced")

    def __init__(self, process: ProcessId, options: Options) -> None:
        self.exchange = BodyExchange(process, options)
        self.tickets = TicketCounter()
        self.unplaced: dict[int, OwnMessages] = {}
        """What this process has sent to groups in which some of that has no place yet."""

    def join(self, member: "SequencerMember", contacts: tuple[str, ...], effects: Effects, now_ns: int) -> None:
        """Ask the service at these addresses to let a member in."""
        raise NotImplementedError

    def leave(self, member: "SequencerMember") -> None:
        """Ask the service to end a membership."""
        raise NotImplementedError

    def forget(self, member: "SequencerMember") -> None:
        """Drop all that is kept for a member."""
        raise NotImplementedError

    def waits_for(self, group_id: int) -> str:
        """Why a join has not been answered."""
        raise NotImplementedError

    def names_for(self, group_id: int) -> dict[int, int]:
        """Own messages to other groups that have no place: by group, the number of the last one."""
        raise NotImplementedError

    def send_messages(self, group_id: int, carried: list[bytes]) -> None:
        """Send pieces of frames to where a group is, at the end of the step, if there is a link."""
        raise NotImplementedError

    def own_placed(self, group: int, own: OwnMessages, last: int, place: int, stamp: int) -> None:
        """Own messages to a group have places, up to this number, the last one with this stamp."""
        raise NotImplementedError

    def deliver_held(self, effects: Effects, now_ns: int) -> None:
        """Deliver whatever has its turn."""
        raise NotImplementedError

    def held(self, group_id: int) -> int:
        """How many places of a group wait for their turn."""
        raise NotImplementedError


@final
class SequencerMember(Member):
    """This process in one group."""

    __slots__ = (
        "_client",
        "_delivered",
        "_options",
        "_phase",
        "_process",
        "first_place",
        "is_paused",
        "last_view",
        "own",
        "stable",
        "view",
    )

    def __init__(
        self, join: Join, process: ProcessId, last_number: int, options: Options, client: MemberService
    ) -> None:
        super().__init__(join.group)
        self._process = process
        self._options = options
        self._client = client
        self._phase = JOINING
        self._delivered = 0
        self.last_view = join.last_view
        self.view = View(0, ())
        self.is_paused = False
        self.first_place = 0
        """That of its join, once that is known."""
        self.stable = 0
        """Up to which number of the group everything is at all members, as far as this one was told."""
        self.own = OwnMessages(self.group_id, last_number)

    # ---- the application's side ------------------------------------------------------------------------------------

    def start(self, contacts: tuple[str, ...], effects: Effects, now_ns: int) -> None:
        self._client.join(self, contacts, effects, now_ns)

    def send(self, input: Send, effects: Effects, now_ns: int) -> int:
        if input.destinations:
            raise UsageError("stack 'sequencer' sends every message to all members; name no destination")
        sizes = sizes_of(input.payloads, self._options.message_bytes_max)
        if self._phase != NORMAL:
            self.own.is_blocked = True
            return 0
        names = self._client.names_for(self.group_id)
        exchange = self._client.exchange
        served = NOBODY
        if exchange.address and sum(sizes) >= exchange.direct_bytes:
            served = exchange.served(self.group_id, self.view.members, now_ns)
        taken, sent = self.own.take(input.payloads, sizes, input.level, self._client.tickets, names, exchange, served)
        if taken:
            self._client.unplaced[self.group_id] = self.own
            self._client.send_messages(self.group_id, sent)
        return taken

    def barrier(self, payload: bytes, effects: Effects, now_ns: int) -> int:
        raise UsageError(
            "stack 'sequencer' has no barriers: every `agreed` message is at one place among all deliveries already"
        )

    def leave(self, now_ns: int) -> None:
        if self._phase == NORMAL:
            self._phase = step(self._phase, PARTING)
            self._client.leave(self)
        elif self._phase == JOINING:
            self.abandon()

    def abandon(self) -> None:
        super().abandon()
        self._phase = OUT
        self._client.forget(self)

    def pause(self) -> None:
        self.is_paused = True

    def resume(self, effects: Effects, now_ns: int) -> None:
        self.is_paused = False
        self._client.deliver_held(effects, now_ns)

    def is_leaving(self) -> bool:
        """Whether this process has asked to leave."""
        return self._phase == PARTING

    # ---- the service's side ----------------------------------------------------------------------------------------

    def arrived(self, place: Place, effects: Effects) -> None:
        """A place of this group has come, perhaps ahead of its turn."""
        if place.sender == self._process:
            last = place.first + place.count - 1
            self.own.placed(last, place.number)
            self._client.own_placed(self.group_id, self.own, last, place.number, place.stamp)
            self.retry_blocked(effects)

    def retry_blocked(self, effects: Effects) -> None:
        """Tell the application if there is room again."""
        if self.own.is_blocked and self._phase == NORMAL and self.own.has_room():
            self.own.is_blocked = False
            effects.events.append(Writable(self.group))

    def deliver(self, place: Place, effects: Effects) -> None:
        """A place has its turn."""
        self._delivered = place.number
        if place.sender is not None:
            if place.sender == self._process:
                # Who is owed a message is decided where it is placed: a member may have left since it was sent.
                effects.events.append(
                    Sent(self.group, self.view.id, place.first, len(place.payloads), place.level, place.size)
                )
            effects.events.append(
                Delivered(self.group, self.view.id, place.sender, place.first, place.level, place.payloads, place.size)
            )
            return
        view = View(place.number, tuple(place.members))
        if self._process in place.left or self._process in place.failed:
            self.end(effects, self._process in place.failed, view)
            return
        parents = (self.view.id,) if self.view.members else ()
        self.view = view
        if self._phase == JOINING:
            self._phase = step(self._phase, NORMAL)
        effects.events.append(
            Installed(
                self.group,
                view,
                tuple(place.joined),
                tuple(place.left),
                tuple(place.failed),
                parents,
                founded=not parents and set(place.joined) == set(place.members),
            )
        )
        self.retry_blocked(effects)

    def end(self, effects: Effects, excluded: bool, left_to: View | None = None) -> None:
        """This process is a member no more."""
        if not self.over:
            self._phase = OUT
            self.over = True
            self.excluded = excluded
            effects.events.append(Ended(self.group, excluded, None if excluded else left_to))

    def told_stable(self, number: int) -> None:
        self.stable = max(self.stable, number)
        self.own.stable(self.stable)

    # ---- packets and time: none ------------------------------------------------------------------------------------

    def receive(
        self, kind: int, tag: int, sender: int, flags: int, level: int, data: bytes, effects: Effects, now_ns: int
    ) -> None:
        raise MalformedError("kind")

    def tick(self, effects: Effects, now_ns: int) -> None:
        """The client keeps time for all groups."""

    def finish(self, effects: Effects, now_ns: int) -> None:
        self.unfinished = False

    def deadline_ns(self) -> int:
        return NEVER

    # ---- questions -------------------------------------------------------------------------------------------------

    def outstanding(self) -> int:
        return self.own.outstanding()

    def held(self) -> int:
        return self._client.held(self.group_id)

    def phase(self) -> int:
        return self._phase

    def waits_for(self) -> str:
        return self._client.waits_for(self.group_id) if self._phase == JOINING else ""

    def mark(self) -> StabilityMark:
        return StabilityMark(self.group, self.view.id, [self._delivered], self.own.last_number)

    def is_stable(self, mark: StabilityMark, copies: int) -> bool:
        return self.stable >= mark.known[0] and self.own.first_outstanding() > mark.accepted

    def last_number(self) -> int:
        return self.own.last_number

    def statistics(self) -> dict[str, int]:
        return {"packets_held": self.held()}
