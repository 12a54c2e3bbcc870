"""All packets between the members of one view: numbering, loss recovery, acknowledgement, stability, flow, timers.

Every stack stands on this. It moves numbered packets reliably and says when they are stable; what order they are
handed on in is the stack's affair.

Rules:
1. Recovery is the receiver's business. A gap shows by the numbers of later packets or by anybody's ack; the receiver
   asks the sender first, then, try by try, any member that has acknowledged the packet. Whoever holds it resends the
   very same bytes.
2. A sender with packets that are not yet stable asks for acks (status with the flag ASK), ever more slowly, until they
   are. So does whoever waits to hear that all members hold somebody else's. Its own entry in its acks tells the last
   number, so a loss at the tail shows as a gap too.
3. Acks ride on data where data goes out anyway; else they go alone, after some packets or some time. An ack that a safe
   message may wait for at another member goes at the end of the step, as long as the budget allows (ack_budget.py): it
   makes no difference whether the message is delivered here already, for the others do not know that.
4. Status goes to all members, so everybody learns who holds what. The answer to ASK goes to the asker alone.
5. An idle member sends a status per heartbeat interval. Heartbeats, questions and answers are about all members; acks
   in between only about the span of ranks where something changed.
6. The window, that is how many own packets some member may not have consumed, is halved when one was lost, and grows
   again as packets become stable.

Live: while anything is missing somewhere, either a gap timer or an ask timer runs at a member that can have it
mended, and each try has its own chance on the network. Safe: a copy is let go only when every member has acknowledged
it.
"""

from random import Random
from typing import Final, final

from antiphon.kernel.effects import NEVER
from antiphon.kernel.errors import MalformedError
from antiphon.kernel.options import Options
from antiphon.parts.ack_budget import AckBudget
from antiphon.parts.acknowledgement import AckTable
from antiphon.parts.former_life import FormerLife
from antiphon.parts.incoming import IncomingStream
from antiphon.parts.packet import (
    ACK_SIZE,
    ASK,
    FRAGMENT_OVERHEAD,
    STATUS_OVERHEAD,
    Acks,
    DataPacket,
    acks_size,
    decode_body,
    decode_request,
    decode_status,
    encode_data,
    encode_fragment,
    encode_request,
    encode_status,
)
from antiphon.parts.pending import PacketLoad, PendingQueue

_WINDOW_MIN: Final = 8
RESENDS_MAX: Final = 64
"""Packets resent for one request; the requester asks again for the rest."""


@final
class Exchange:
    """The packet traffic of one member in one view. Collects what is to leave in `multicasts` and `unicasts`."""

    __slots__ = (
        "_ack_at_ns",
        "_ack_every",
        "_acks_fit",
        "_askers",
        "_budget",
        "_changed_first",
        "_changed_last",
        "_copies",
        "_fragment_overhead",
        "_group",
        "_hurried",
        "_last_status",
        "_members",
        "_numbers_max",
        "_options",
        "_own_told",
        "_random",
        "_shrunk_ns",
        "_stack",
        "_status_at_ns",
        "_status_interval_ns",
        "_tag",
        "_unacked",
        "_window",
        "_window_max",
        "acks_carried",
        "asks",
        "duplicates",
        "former_life",
        "fragments",
        "incoming",
        "me",
        "multicasts",
        "pending",
        "requests",
        "resends",
        "sent",
        "sources",
        "stable",
        "table",
        "unicasts",
        "wants_acks",
    )

    def __init__(
        self,
        stack: int,
        group: int,
        tag: int,
        members: int,
        me: int,
        order_bytes_max: int,
        pending: PendingQueue,
        random: Random,
        options: Options,
    ) -> None:
        self._stack = stack
        self._group = group
        self._tag = tag
        self._members = members
        self.me = me
        self._random = random
        self._options = options
        self._numbers_max = options.numbers_max()
        # A small window must not have to wait for an ack's time again and again.
        share = options.arriving_bytes_max // (options.packet_bytes_max * max(1, members - 1))
        self._window_max = max(1, min(options.window_packets, max(_WINDOW_MIN, share)))
        self._window = self._window_max
        self._shrunk_ns = 0
        self._ack_every = max(1, min(options.ack_every_packets, self._window_max // 4))
        self._acks_fit = 4 * acks_size(members) <= options.packet_bytes_max
        self._fragment_overhead = FRAGMENT_OVERHEAD + order_bytes_max + (acks_size(members) if self._acks_fit else 0)
        self.incoming: list[IncomingStream] = [IncomingStream(options) for _ in range(members)]
        self.sent = 0
        """The number of the last own packet…"""
        self.stable = 0
        """…and of the last one that every member has received…"""
        self._copies: dict[int, bytes] = {}
        """…and those in between."""
        self.pending = pending
        self.table = AckTable(members, me)
        self.multicasts: list[bytes] = []
        self.unicasts: dict[int, list[bytes]] = {}
        self._askers: set[int] = set()
        self._unacked = 0
        self._changed_first = members
        self._changed_last = -1
        self._own_told = 0
        self._last_status: list[bytes] = [b""] * members
        self.wants_acks = False
        """Whether something here waits to hear what all members hold."""
        self._ack_at_ns = NEVER
        self._hurried = False
        """Whether somebody may wait for what has not been acknowledged."""
        self._budget = AckBudget(options.ack_gap_ns, members)
        self._status_at_ns = 0
        self._status_interval_ns = options.heartbeat_interval_ns
        self.duplicates = 0
        self.acks_carried = 0
        """Data packets that left with acks…"""
        self.fragments = 0
        """…or with a part of a message only."""
        self.asks = 0
        """Status packets that asked for acks."""
        self.former_life = FormerLife(members, options.silence_ns_min)
        self.requests = 0
        self.resends = 0
        self.sources: list[int] = []
        """If any: where to ask for packets, whoever sent them; the others may be gone."""

    # ---- in: from the network --------------------------------------------------------------------------------------

    def open_data(self, data: bytes, sender: int, flags: int, level: int) -> DataPacket | None:
        """Decode a data packet and check all that the stream can judge; None for a duplicate. Changes nothing."""
        stream = self.incoming[sender]
        packet = DataPacket(data, sender, flags, level)
        number = packet.number
        if (number != stream.received + 1 or stream.fetched) and stream.is_duplicate(number):
            self.duplicates += 1
            return None
        if number > stream.consumed + self._numbers_max:
            raise MalformedError("window")
        decode_body(packet, flags)
        if packet.stable > stream.received:
            self.former_life.contradicts(sender)
            raise MalformedError("stable")
        if packet.acks is not None:
            self._check_acks(packet.acks, sender)
        return packet

    def add_data(self, packet: DataPacket, now_ns: int) -> None:
        """Take in what `open_data` returned."""
        stream = self.incoming[packet.sender]
        stream.add(packet, now_ns)
        if packet.stable > stream.stable:
            stream.note_stable(packet.stable)
        if packet.acks is not None:
            self._note_acks(packet.sender, packet.acks, now_ns)
        self._owe_ack(packet.sender, now_ns)

    def take_status(self, data: bytes, sender: int, flags: int, now_ns: int) -> None:
        """A status packet: acks, stability, perhaps a question."""
        if data == self._last_status[sender]:  # an idle member says the same again and again
            self.former_life.fits(sender)
            if flags & ASK:
                self._askers.add(sender)
            return
        stable, acks = decode_status(data)
        stream = self.incoming[sender]
        if stable > stream.received:
            self.former_life.contradicts(sender)
            raise MalformedError("stable")
        self._check_acks(acks, sender)
        if acks.first <= self.me < acks.first + len(acks.received):
            self.former_life.fits(sender)
        self._note_acks(sender, acks, now_ns)
        stream.note_stable(stable)
        self._last_status[sender] = data
        if flags & ASK:
            self._askers.add(sender)

    def take_request(self, data: bytes, sender: int, now_ns: int) -> None:
        """A request for a resend: answer with what is held here. If it is an own packet that was lost, too many may be
        on the way."""
        stream, ranges = decode_request(data)
        if stream >= self._members:
            raise MalformedError("rank")
        found: list[bytes] = []
        for first, last in ranges:
            number = first
            while number <= last and number - first < RESENDS_MAX and len(found) < RESENDS_MAX:
                copy = self._held(stream, number)
                if copy is not None:
                    found.append(copy)
                number += 1
        self.resends += len(found)
        if found:
            self.unicasts.setdefault(sender, []).extend(found)
            if stream == self.me and now_ns >= self._shrunk_ns + self._options.resend_interval_ns:
                self._shrunk_ns = now_ns
                self._window = max(min(_WINDOW_MIN, self._window_max), self._window // 2)

    def _held(self, stream: int, number: int) -> bytes | None:
        if stream == self.me:
            return self._copies.get(number)
        packet = self.incoming[stream].copy_of(number)
        return None if packet is None else packet.copy()

    def _check_acks(self, acks: Acks, sender: int) -> None:
        if acks.first + len(acks.received) > self._members:
            raise MalformedError("rank")
        for offset in range(len(acks.received)):
            number = acks.received[offset]
            if not self.exists(acks.first + offset, number) or acks.lags[offset] > number:
                if acks.first + offset == self.me and number > self.sent:
                    self.former_life.contradicts(sender)
                raise MalformedError("ack")

    def exists(self, rank: int, number: int) -> bool:
        """Whether there can be such a packet: none that I have not sent, none beyond its sender's window."""
        return number <= self.sent if rank == self.me else self.incoming[rank].plausible(number)

    def _note_acks(self, sender: int, acks: Acks, now_ns: int) -> None:
        self.table.note(sender, acks.first, acks.received, acks.lags)
        for offset in range(len(acks.received)):
            rank = acks.first + offset
            if rank != self.me:
                self.incoming[rank].note_known(acks.received[offset], now_ns)

    # ---- out -------------------------------------------------------------------------------------------------------

    def consumed(self, sender: int, now_ns: int) -> None:
        """The next packet of `sender` has been handed on; its sender's window may move."""
        self.incoming[sender].consume()
        self._owe_ack(sender, now_ns)

    def _owe_ack(self, rank: int, now_ns: int) -> None:
        """What I have of this member is news to the others."""
        self._unacked += 1
        if self._ack_at_ns == NEVER:
            self._ack_at_ns = now_ns + self._options.ack_delay_ns
        if rank < self._changed_first:
            self._changed_first = rank
        if rank > self._changed_last:
            self._changed_last = rank

    def window_open(self) -> bool:
        """Whether the window has room for one more packet."""
        table = self.table
        return self.sent < min(table.consumed_by_me, table.own_consumed) + self._window

    def order_may_leave(self) -> bool:
        """Whether one more packet may leave that only tells the order: own packets that fill the window may be waiting
        for just that."""
        return self.sent < self.table.consumed() + self._numbers_max

    def send_bare(self, order: bytes, flags: int, level: int, now_ns: int) -> None:
        """A packet without messages, for what its order section says."""
        acks = self._carried_acks()
        self._put(
            encode_data(
                self._stack, self._group, self._tag, self.me, level, self.sent + 1, self.stable,
                self.pending.next_message(), order, acks, [], flags,
            ),
            now_ns,
        )  # fmt: skip

    def _carried_acks(self) -> Acks | None:
        """The news that the next packet carries, if there are any."""
        if not self._unacked or not self._acks_fit:
            return None
        acks = self._news()
        self._acked()
        self.acks_carried += 1
        return acks

    def send_next(self, order: bytes, flags: int, now_ns: int) -> PacketLoad:
        """Make the next packet and put it on its way; `flags` are the stack's."""
        acks = self._carried_acks()
        overhead = FRAGMENT_OVERHEAD + len(order) + (0 if acks is None else acks_size(len(acks.received)))
        room = self._options.packet_bytes_max
        load = self.pending.next_load(room - overhead, room - self._fragment_overhead)
        number = self.sent + 1
        if load.total:
            self.fragments += 1
            packet = encode_fragment(
                self._stack, self._group, self._tag, self.me, load.level, number, self.stable,
                load.first_message, order, acks, load.index, load.total, load.fragment, flags,
            )  # fmt: skip
        else:
            packet = encode_data(
                self._stack, self._group, self._tag, self.me, load.level, number, self.stable,
                load.first_message, order, acks, load.complete, flags,
            )  # fmt: skip
        self._put(packet, now_ns)
        return load

    def _put(self, packet: bytes, now_ns: int) -> None:
        self.sent += 1
        self._copies[self.sent] = packet
        self.multicasts.append(packet)
        self._ask_after(self._options.probe_interval_ns, now_ns)

    def request_acks(self) -> None:
        """Somebody here waits for stability: ask all members for their acks now."""
        self._multicast_status(ask=True)

    def hurry_acks(self) -> None:
        """A safe message may wait for what has come in now, at any member: `release_acks` is to follow."""
        self._hurried = True

    def release_acks(self, now_ns: int) -> None:
        """At the end of a step, when what can carry acks has left: send those by themselves that somebody may wait for,
        or see when they may leave."""
        if self._hurried and self._unacked:
            self._ack_at_ns = min(self._ack_at_ns, self._budget.next_ns)
            if self._ack_at_ns <= now_ns:
                self._ack(now_ns)

    def want_acks(self, wanted: bool, now_ns: int) -> None:
        """Whether something here waits to hear what all members hold: then ask, as for own packets."""
        if wanted != self.wants_acks:
            self.wants_acks = wanted
            self._ask_after(self._options.probe_interval_ns, now_ns)

    def held_by_all(self, stream: int) -> int:
        """How far every member holds the packets of `stream`."""
        mine = self.sent if stream == self.me else self.incoming[stream].received
        return self.table.received_by_others(stream, mine)

    def consumed_by_all(self, stream: int) -> int:
        """How far every member has consumed the packets of `stream`."""
        if stream == self.me:
            return self.table.consumed()
        return self.table.consumed_by_others(stream, self.incoming[stream].consumed)

    def is_stable(self, stream: int, number: int, copies: int) -> bool:
        """Whether this packet is k-stable: so many members beside its sender hold it; 0: all of them."""
        if copies == 0:
            return self.held_by_all(stream) >= number
        mine = 0 if stream == self.me else 1
        return self.table.copies(stream, number) + mine >= min(copies, self._members - 1)

    def settle(self, now_ns: int) -> None:
        """Draw the conclusions of a step: stability, acks that are due by count, one answer to each asker."""
        if self.stable < self.sent and self.stable < self.table.own_received:
            self._note_stable(min(self.sent, self.table.own_received), now_ns)
        if self._unacked >= self._ack_every or self._ack_at_ns <= now_ns:
            self._ack(now_ns)
        elif self._askers:
            statuses = self._statuses(ask=False)
            for rank in sorted(self._askers):
                self.unicasts.setdefault(rank, []).extend(statuses)
        self._askers.clear()

    def _note_stable(self, stable: int, now_ns: int) -> None:
        """Every member has my packets up to here."""
        for number in range(self.stable + 1, stable + 1):
            del self._copies[number]
        self.stable = stable
        self._window = min(self._window + 1 + self._window // 8, self._window_max)
        # Others hold copies until they hear of it (5.3); an ack's time is soon enough.
        if self._ack_at_ns == NEVER:
            self._ack_at_ns = now_ns + self._options.ack_delay_ns
        self._ask_after(self._options.probe_interval_ns, now_ns)

    def _ack(self, now_ns: int) -> None:
        """Tell all members what has changed."""
        self._budget.spend(now_ns)
        self._multicast_news()

    def _ask_after(self, interval_ns: int, now_ns: int) -> None:
        """Something moved: the next status of its own accord comes after this interval."""
        if self.stable == self.sent and not self.wants_acks:
            interval_ns = self._options.heartbeat_interval_ns
        self._status_interval_ns = interval_ns
        self._status_at_ns = now_ns + interval_ns

    # ---- time ------------------------------------------------------------------------------------------------------

    def deadline_ns(self) -> int:
        deadline_ns = min(self._ack_at_ns, self._status_at_ns)
        for stream in self.incoming:
            if stream.gap_at_ns < deadline_ns:
                deadline_ns = stream.gap_at_ns
        return deadline_ns

    def tick(self, now_ns: int) -> None:
        """Do what is due."""
        for rank in range(self._members):
            if self.incoming[rank].gap_at_ns <= now_ns:
                self._request(rank, now_ns)
        if self._status_at_ns <= now_ns:
            self._multicast_status(ask=self.wants_acks or self.stable < self.sent)
            slower = min(2 * self._status_interval_ns, self._options.heartbeat_interval_ns)
            self._ask_after(slower, now_ns)
        elif self._ack_at_ns <= now_ns:
            self._ack(now_ns)

    def _request(self, rank: int, now_ns: int) -> None:
        stream = self.incoming[rank]
        ranges = stream.gaps()
        target = rank
        if self.sources and (stream.gap_tries or rank not in self.sources):
            target = self.sources[int(self._random.random() * len(self.sources))]
        elif stream.gap_tries:
            holders = self.table.holders(rank, ranges[0][0])
            if holders:
                target = holders[int(self._random.random() * len(holders))]
        request = encode_request(self._stack, self._group, self._tag, self.me, rank, ranges)
        self.unicasts.setdefault(target, []).append(request)
        self.requests += 1
        stream.asked(now_ns, int(self._random.random() * self._options.gap_delay_ns))

    # ---- acks ------------------------------------------------------------------------------------------------------

    def _acks(self, first: int, count: int) -> Acks:
        received: list[int] = []
        lags: list[int] = []
        for rank in range(first, first + count):
            if rank == self.me:
                received.append(self.sent)
                lags.append(self.sent - self.table.consumed_by_me)
            else:
                stream = self.incoming[rank]
                received.append(stream.received)
                lags.append(stream.received - stream.consumed)
        return Acks(first, received, lags)

    def _news(self) -> Acks:
        """What has changed since the others heard of it, as a span of ranks."""
        if self.table.consumed_by_me != self._own_told:
            self._changed_first = min(self.me, self._changed_first)
            self._changed_last = max(self.me, self._changed_last)
        return self._acks(self._changed_first, max(0, self._changed_last - self._changed_first + 1))

    def _acked(self) -> None:
        self._unacked = 0
        self._hurried = False
        self._ack_at_ns = NEVER
        self._own_told = self.table.consumed_by_me
        self._changed_first = self._members
        self._changed_last = -1

    def _status(self, acks: Acks, ask: bool) -> bytes:
        return encode_status(self._stack, self._group, self._tag, self.me, self.stable, acks, ask)

    def _statuses(self, ask: bool) -> list[bytes]:
        """My status, in as many packets as it takes."""
        per_packet = max(1, (self._options.packet_bytes_max - STATUS_OVERHEAD) // ACK_SIZE)
        result: list[bytes] = []
        for first in range(0, self._members, per_packet):
            acks = self._acks(first, min(per_packet, self._members - first))
            result.append(self._status(acks, ask and first == 0))
        return result

    def _multicast_news(self) -> None:
        """The short form of a status. Whoever misses it gets a full one by its next question, or with the heartbeat."""
        news = self._news()
        if STATUS_OVERHEAD + ACK_SIZE * len(news.received) > self._options.packet_bytes_max:
            self._multicast_status(ask=False)
            return
        self.multicasts.append(self._status(news, False))
        self._acked()

    def _multicast_status(self, ask: bool) -> None:
        if ask:
            self.asks += 1
        self.multicasts.extend(self._statuses(ask))
        self._acked()
