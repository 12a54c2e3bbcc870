"""One view of a group on the stack `label`: links, copies, the total order, and the application.

    PendingQueue ──▶ broadcast ──▶ MessagePool ──▶ LabelLink, with all that must come first ──▶ network
    network ──▶ LabelLink ──▶ MessagePool ──▶ at once, by TotalOrder or by LabelQueues ──▶ LabelHandover ──▶ application

Each view begins anew: numbers, clocks, links. What becomes of the end of a view is agreed on as in every group
(parts/membership), by the policies `static` and `primary`.

Flow. A member keeps at most `window` own broadcasts that somebody is still to deliver. A paused application delivers
nothing, so its senders stop.
"""

from random import Random
from typing import Final, final

from antiphon.kernel.codec import HEADER_SIZE
from antiphon.kernel.effects import Effects, Received, Sent, Transmit
from antiphon.kernel.errors import MalformedError
from antiphon.kernel.identity import ProcessId, View
from antiphon.kernel.levels import ABCAST
from antiphon.kernel.options import Options
from antiphon.kernel.packet_kinds import DATA, REQUEST, STATUS
from antiphon.parts.membership.messages import BarrierBody
from antiphon.parts.membership.session import Session
from antiphon.parts.node_batch import BATCH_OVERHEAD, encode_batch
from antiphon.parts.packet import LENGTH_SIZE
from antiphon.parts.pending import PacketLoad, PendingQueue, PendingRun
from antiphon.stacks.label.addressing import Addressing
from antiphon.stacks.label.comparison import wire_label
from antiphon.stacks.label.guest_queue import GuestMessage, GuestQueue
from antiphon.stacks.label.guests import GuestTable, encode_identity
from antiphon.stacks.label.handover import LabelHandover
from antiphon.stacks.label.item import (
    COMMIT,
    COMMIT_SIZE,
    FETCHED,
    GUEST,
    LINK_SIZE,
    MESSAGES,
    NUMBER_SIZE,
    PRIORITY,
    RELEASE,
    VOUCH,
    Item,
    LabelFrame,
    Priority,
    decode_frames,
    decode_link_head,
    encode_commits,
    encode_numbers,
    encode_priority,
    encode_vouch,
    is_in_order,
    item_overhead,
    read_batch,
)
from antiphon.stacks.label.link import LabelLink
from antiphon.stacks.label.offers import NUMBER
from antiphon.stacks.label.ordering import TotalOrder
from antiphon.stacks.label.pool import MessagePool
from antiphon.stacks.label.queues import LabelQueues
from antiphon.stacks.label.schedule import TransferSchedule
from antiphon.stacks.label.traffic import LabelTraffic
from antiphon.stacks.label.view_end import LabelViewEnd

_WINDOW_MIN: Final = 8


def members_max(options: Options) -> int:
    """How many members a view may have: sets of ranks must leave half of a packet for messages."""
    room = options.packet_bytes_max // 2 - HEADER_SIZE - LINK_SIZE - item_overhead(0) - BATCH_OVERHEAD
    return max(1, min(2000, 4 * room))


@final
class LabelSession(Session):
    """One member in one view."""

    __slots__ = (
        "_addressing", "_ahead", "_closing", "_everybody", "_handover", "_members", "_order", "_passed_on",
        "_schedule", "_sent", "_strays", "_twice", "_visitors", "_window", "cut", "guests", "links", "pool", "queues",
        "traffic",
    )  # fmt: skip

    def __init__(
        self,
        group: str,
        process: ProcessId,
        view: View,
        pending: PendingQueue,
        random: Random,
        options: Options,
        declared: int,
        lazy_ns: int,
        guests: GuestTable,
        addressing: Addressing | None = None,
    ) -> None:
        members = len(view.members)
        order_bytes = HEADER_SIZE + LINK_SIZE + item_overhead(members) + BATCH_OVERHEAD
        super().__init__(NUMBER, group, process, view, pending, options, declared, order_bytes)
        me = self._me
        share = options.arriving_bytes_max // (options.packet_bytes_max * 2 * max(1, members - 1))
        self._window = max(1, min(options.window_packets, max(_WINDOW_MIN, share)))
        self.links = [LabelLink(options, self._window) for _ in range(members)]
        self.pool = MessagePool(me, members, self._window)
        self._order = TotalOrder(me, members)
        self.guests = guests
        self._visitors = GuestQueue(options)
        """What guests have handed to this member, and has not left."""
        self.cut = LabelViewEnd(self.pool, self._order, self.links, guests, me, options)
        self.end = self.cut
        self._members = members
        self._everybody = (1 << members) - 1
        self.queues = LabelQueues(me)
        halves_max = self.pool.numbers_max
        self._handover = LabelHandover(group, view, self.queues, options.message_bytes_max, self._everybody, halves_max)
        self.traffic = LabelTraffic(
            self.group_id, self.tag, me, self.links, self.pool, self.cut, random, options, self.stamp
        )
        self._sent = 0
        """The number of the last own broadcast."""
        self._schedule = TransferSchedule(me, self.links, self.pool, self.traffic, lazy_ns)
        self._addressing = addressing
        """What finds destinations, where they are not members."""
        self._ahead: dict[int, int] = {}
        """By sender, the greatest number of a labelled broadcast that has come ahead of others, perhaps."""
        self._closing = False
        self._passed_on = 0
        self._twice = 0
        self._strays = 0

    # ---- packets in ------------------------------------------------------------------------------------------------

    def receive(
        self, kind: int, sender: int, flags: int, level: int, data: bytes, effects: Effects, now_ns: int
    ) -> None:
        if sender >= self._members or sender == self._me:
            raise MalformedError("rank")
        if kind == STATUS:
            self.traffic.receive_status(sender, flags, data, now_ns)
        elif kind == REQUEST:
            self.traffic.answer_request(sender, data)
        elif kind != DATA:
            raise MalformedError("kind")
        elif flags & FETCHED:
            self.traffic.receive_fetched(data)
        else:
            self._receive_datagram(sender, data, effects, now_ns)

    def answer_late(self, kind: int, sender: int, data: bytes, effects: Effects, now_ns: int) -> None:
        if kind == REQUEST:
            self.traffic.answer_request(sender, data)
            self.collect(effects)

    def _receive_datagram(self, sender: int, data: bytes, effects: Effects, now_ns: int) -> None:
        sequence, ack, collected, consumed = decode_link_head(data, HEADER_SIZE)
        if self.cut.frozen:
            raise MalformedError("late")
        link = self.links[sender]
        self.traffic.check_head(sender, ack, collected, consumed)
        if not link.check(sequence):
            return
        frames = decode_frames(data, HEADER_SIZE + LINK_SIZE, self._members)
        self.traffic.take_head(sender, ack, consumed, now_ns)
        for frame in link.take(sequence, frames, now_ns):
            self._take_frame(frame, sender, effects, now_ns)
        self.traffic.take_collected(sender, collected)

    def _take_frame(self, frame: LabelFrame, source: int, effects: Effects, now_ns: int) -> None:
        if frame.item is not None:
            self._take_in(frame.item, source, effects, now_ns)
        elif frame.kind == PRIORITY:
            self._order.see(frame.value)
            self._order.answer(frame.number, source, frame.value)
            self.queues.answer(frame.number, source, frame.value)
        elif frame.kind == VOUCH:
            self._order.vouch(frame.number, source)

    # ---- broadcasts in ---------------------------------------------------------------------------------------------

    def _take_in(self, item: Item, source: int, effects: Effects, now_ns: int) -> None:
        """A broadcast has come, after all that happened before it."""
        mid = (item.sender, item.number)
        if self.pool.has(mid):
            self._twice += 1
            return
        if not self.pool.exists(item.sender, item.number):
            self._strays += 1
            return
        if item.sender != source:
            self._passed_on += 1
        order = self._order
        order.see(item.clock)
        self.pool.add(item, source)
        if item.guest is not None and not item.is_part():
            self.guests.hold(item.guest, item.last_message())
        self._observe(item, effects)
        order.follow(item.passed)
        self._take_ready()
        if item.label:
            self._ahead[item.sender] = max(self._ahead.get(item.sender, 0), item.number)
        is_mine = bool(item.destinations >> self._me & 1)
        if item.kind == COMMIT:
            for number, priority in item.commits():
                order.commit((item.sender, number), priority)
                self.queues.commit((item.sender, number), priority)
        elif item.kind == RELEASE:
            for number in item.released():
                order.release((item.sender, number))
        elif item.is_ordered():
            if is_mine:
                self.pool.undelivered[item.sender].add(item.number)
            answer = encode_priority(item.number, order.add(item))
            self._schedule.answer(item.sender, answer)
        elif is_mine:
            self._take_mine(item)
        if not self._closing:  # others have not seen what came with the cut: rule 5 of ordering.py places it
            order.advance()
            self._take_ready()

    def _take_mine(self, item: Item) -> None:
        """A broadcast that is not in the total order is for this member; it may be an own one."""
        if item.is_abcast() and item.is_part():
            assert item.batch is not None
            self._handover.take_part(item)
            return
        self.pool.undelivered[item.sender].add(item.number)
        if item.is_abcast():
            priority = self._order.tick()
            self.queues.add(item, priority)
            if item.sender == self._me:
                self.queues.answer(item.number, self._me, priority)
            else:
                self._schedule.answer(item.sender, encode_priority(item.number, priority))
        elif item.label:
            self._handover.place(item)
        else:
            self._handover.queue(item)

    def _observe(self, item: Item, effects: Effects) -> None:
        batch = item.batch
        if batch is None or not self._options.record_receives:
            return
        sender = item.guest or self.view.members[item.sender]
        if item.destinations >> self._me & 1:
            first, count, size = batch.first_message, batch.count, batch.size()
            effects.events.append(Received(self.group, self.view.id, sender, first, count, batch.level, size))

    def _take_ready(self) -> None:
        """What has its place now goes on to the application."""
        if self._order.ready:
            for item in self._order.ready:
                if item.destinations >> self._me & 1:
                    self._handover.queue(item)
            self._order.ready = []
        if self.queues.ready:
            for item in self.queues.ready:
                self._handover.place(item)
            self.queues.ready = []

    def _emit_ready(self, effects: Effects, now_ns: int) -> None:
        while self._closing or not self.paused:
            item = self._handover.next()
            if item is None:
                return
            self.pool.undelivered[item.sender].discard(item.number)
            if item.sender != self._me:
                self.links[item.sender].owe_ack(now_ns)
            self._handover.deliver(item, effects)

    # ---- broadcasts out --------------------------------------------------------------------------------------------

    def finish(self, effects: Effects, now_ns: int) -> None:
        self.guests.now_ns = now_ns
        self._emit_ready(effects, now_ns)
        if not self.cut.frozen:
            self._tell_order(now_ns)
            self._emit_ready(effects, now_ns)
            self._collect_own(now_ns)
            if self._visitors.messages:
                self._take_visitors(effects, now_ns)
            while self._take_pending(effects, now_ns):  # what left may let more leave, in a view of one member
                self._tell_order(now_ns)
                self._emit_ready(effects, now_ns)
                self._collect_own(now_ns)
            self._schedule.transfer_all(now_ns)
        self.traffic.tell_due_acks(now_ns)

    def _take_pending(self, effects: Effects, now_ns: int) -> bool:
        """Send what may leave; whether anything did. What is not ordered waits for own broadcasts that are: rule 3 of
        ordering.py."""
        pending = self._pending
        sent = self._sent
        while pending.runs and not self.paused and self.cut.barrier is None:
            run = pending.runs[0]
            if run.barrier:
                self._take_barrier(effects)
                break
            label = run.label.encode() if run.level == ABCAST else wire_label(run.label)
            if not self._may_leave(run.level, label):
                break
            self._send_next(run, label, effects, now_ns)
        return self._sent > sent

    def _may_leave(self, level: int, label: bytes) -> bool:
        """Whether a broadcast of this kind may be sent now."""
        if self._sent - self.pool.collected[self._me] >= self._window:
            return False
        if not is_in_order(level) and self._order.ballots:
            return False
        return not self._ahead or (bool(label) and level != ABCAST) or self._has_caught_up()

    def admit(self, message: GuestMessage) -> bool:
        """Take a broadcast of a guest, to be sent in this view or not at all; whether it was taken."""
        if self.cut.frozen or not self._visitors.has_room(message):
            return False
        if len(message.payload) > self._options.message_bytes_max:
            return False
        if self.guests.take(message.guest, message.number):
            self._visitors.add(message)
        return True

    def _take_visitors(self, effects: Effects, now_ns: int) -> None:
        """Send what guests have handed in, as far as it may leave."""
        queue = self._visitors
        while queue.messages and not self.paused and self.cut.barrier is None:
            message = queue.messages[0]
            label = message.label.encode()
            if not self._may_leave(message.level, label):
                break
            destinations = self._ranks_of(message.destinations)
            identity = encode_identity(message.guest)
            room = self.traffic.frames_bytes_max - item_overhead(self._members) - BATCH_OVERHEAD - len(label)
            load = queue.next_load(room - len(identity) - LENGTH_SIZE)
            if destinations:
                self._broadcast(load, destinations, label, now_ns, message.guest)
            if load.complete:
                self.guests.hold(message.guest, message.number)
            self._order.advance()
            self._take_ready()
            self._emit_ready(effects, now_ns)

    def _has_caught_up(self) -> bool:
        """Whether all has come that was sent before labelled broadcasts that are here."""
        for rank in list(self._ahead):
            if self.pool.has_all(rank, self._ahead[rank]):
                del self._ahead[rank]
        return not self._ahead

    def _send_next(self, run: PendingRun, label: bytes, effects: Effects, now_ns: int) -> None:
        room = self.traffic.frames_bytes_max - item_overhead(self._members) - BATCH_OVERHEAD - len(label)
        to = run.destinations
        load = self._pending.next_load(room, room)
        destinations = self._ranks_of(to)
        if destinations:
            self._broadcast(load, destinations, label, now_ns)
        if load.complete:
            size = sum(map(len, load.complete))
            last = load.first_message + len(load.complete) - 1
            self._own.append((self._sent, last))
            effects.events.append(
                Sent(self.group, self.view.id, load.first_message, len(load.complete), load.level, size, to)
            )
        self._order.advance()
        self._take_ready()
        self._emit_ready(effects, now_ns)

    def _ranks_of(self, processes: tuple[ProcessId, ...]) -> int:
        """Bits of those of these that are in the view; who is gone is as good as served (3.6)."""
        if not processes:
            return self._everybody
        if self._addressing is not None:
            processes = self._addressing.find(processes)
        ranks = 0
        for process in processes:
            rank = self.view.rank(process)
            if rank >= 0:
                ranks |= 1 << rank
        return ranks

    def _broadcast(
        self, load: PacketLoad, destinations: int, label: bytes, now_ns: int, guest: ProcessId | None = None
    ) -> None:
        """Send a broadcast, as this member's own or in the place of a guest."""
        kind, body = MESSAGES, encode_batch(load)
        if guest is not None:
            kind, body = GUEST, encode_identity(guest) + body
        item = self._new_item(kind, destinations, body)
        item.label = label
        read_batch(item)
        item.remaining = self.pool.reach(item) & ~(1 << self._me)
        is_mine = bool(destinations >> self._me & 1)
        if item.is_ordered():
            if is_mine:
                self.pool.undelivered[self._me].add(item.number)
            self._order.add(item)
        else:
            if item.is_abcast() and not item.is_part():
                self.queues.open_ballot(item)
            if is_mine:
                self._take_mine(item)
        self._schedule.put(item, now_ns)

    def _new_item(self, kind: int, destinations: int, body: bytes) -> Item:
        self._sent += 1
        order = self._order
        remaining = destinations & ~(1 << self._me)
        return Item(kind, self._me, self._sent, order.tick(), order.passed, destinations, remaining, b"", body)

    def _tell_order(self, now_ns: int) -> None:
        """Tell final priorities and releases of own broadcasts; vouch for those of others."""
        order = self._order
        while self.queues.commits:
            self._tell_places(now_ns)
        while order.commits or order.releases:
            room = self.traffic.frames_bytes_max - item_overhead(self._members)
            if order.commits:
                commits = order.commits[: room // COMMIT_SIZE]
                order.commits = order.commits[len(commits) :]
                self._schedule.put(self._new_item(COMMIT, self._everybody, encode_commits(commits)), now_ns)
                for number, priority in commits:
                    order.commit((self._me, number), priority)
            else:
                released = order.releases[: room // NUMBER_SIZE]
                order.releases = order.releases[len(released) :]
                self._schedule.put(self._new_item(RELEASE, self._everybody, encode_numbers(released)), now_ns)
                for number in released:
                    order.release((self._me, number))
            order.advance()
            self._take_ready()
        for sender, number in order.vouches:
            self._schedule.answer(sender, encode_vouch(number))
        order.vouches = []

    def _tell_places(self, now_ns: int) -> None:
        """Tell the destinations of an own ABCAST, and of those after it with the same ones, their final priorities."""
        commits = self.queues.commits
        destinations = commits[0][0].destinations
        most = (self.traffic.frames_bytes_max - item_overhead(self._members)) // COMMIT_SIZE
        told: list[tuple[int, Priority]] = []
        while len(told) < min(most, len(commits)) and commits[len(told)][0].destinations == destinations:
            item, priority = commits[len(told)]
            told.append((item.number, priority))
        self.queues.commits = commits[len(told) :]
        if destinations & ~(1 << self._me):
            self._schedule.put(self._new_item(COMMIT, destinations, encode_commits(told)), now_ns)
        for number, priority in told:
            self._order.see(priority[0])
            self.queues.commit((self._me, number), priority)
        self._take_ready()

    def _collect_own(self, now_ns: int) -> None:
        """Find own broadcasts that were delivered wherever they were to be (4.4), and have the others told."""
        pool, me = self.pool, self._me
        number = pool.collected[me]
        while number < self._sent and self._is_over(pool.copies[me, number + 1]):
            number += 1
        if number > pool.collected[me]:
            pool.collect(me, number)
            while self._own and self._own[0][0] <= number:
                self._own.popleft()
            for rank, link in enumerate(self.links):
                if rank != me:
                    link.owe_ack(now_ns)

    def _is_over(self, item: Item) -> bool:
        if item.remaining or item.number in self.pool.undelivered[self._me]:
            return False
        for rank, consumed in enumerate(self.traffic.consumed_by):
            if rank != self._me and item.destinations >> rank & 1 and consumed < item.number:
                return False
        return True

    # ---- time ------------------------------------------------------------------------------------------------------

    def collect(self, effects: Effects) -> None:
        if self.traffic.unicasts:
            for rank, packets in self.traffic.unicasts.items():
                effects.transmits.append(Transmit(self.route(rank), packets))
            self.traffic.unicasts = {}

    def deadline_ns(self) -> int:
        return (
            self.traffic.deadline_ns()
            if self.cut.frozen
            else min(self.traffic.deadline_ns(), self._schedule.lazy_at_ns)
        )

    def tick(self, effects: Effects, now_ns: int) -> None:
        self.traffic.tick(now_ns)

    # ---- the end of the view ---------------------------------------------------------------------------------------

    def finish_cut(self, barriers: list[BarrierBody], effects: Effects, now_ns: int) -> bool:
        self._closing = True
        fetched = [item for item in self.cut.fetched.values() if item is not None]
        fetched.sort(key=_by_clock)
        for item in fetched:
            self._take_in(item, item.sender, effects, now_ns)
        self._order.close(self.cut.reached)
        self.queues.close()
        self._take_ready()
        self._emit_ready(effects, now_ns)
        self._schedule.drop_answers()
        self._deliver_barriers(barriers, effects)
        return True

    # ---- questions -------------------------------------------------------------------------------------------------

    def outstanding(self) -> int:
        return self._sent - self.pool.collected[self._me] + (self.cut.barrier is not None)

    def held(self) -> int:
        return self._handover.waiting() + self._order.waiting() + self.queues.waiting()

    def known(self) -> list[int]:
        return [self._sent if rank == self._me else self.pool.consumed(rank) for rank in range(self._members)]

    def is_stable(self, known: list[int], copies: int) -> bool:
        for rank, number in enumerate(known):
            if number > self.pool.collected[rank] and not (copies and self.pool.is_held(rank, number, copies)):
                return False
        return True

    def are_own_stable(self, message: int, copies: int) -> bool:
        if self._has_barrier(message):
            return False
        known = [0] * self._members
        known[self._me] = self._last_own(message)
        return self.is_stable(known, copies)

    def statistics(self) -> dict[str, int]:
        return {
            "packets_sent": sum([link.sent for link in self.links]),
            "packets_held": self.held(),
            "copies_held": len(self.pool.copies),
            "duplicates": sum([link.duplicates for link in self.links]),
            "resends": sum([link.resends for link in self.links]),
            "broadcasts_twice": self._twice,
            "broadcasts_passed_on": self._passed_on,
            "messages_spoiled": self._handover.spoiled,
        }

    def situations(self) -> list[int]:
        order = self._order
        counts = [self._passed_on, self._twice, self.traffic.long_transfers, order.placed_last, order.followed]
        return [*counts, self.pool.overtaken, self.queues.placed_last, self._handover.held_back]


def _by_clock(item: Item) -> tuple[int, int, int]:
    return item.clock, item.sender, item.number
