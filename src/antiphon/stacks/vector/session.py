"""One view of one group, as one member lives through it: packets in, order, delivery.

    PendingQueue ──▶ stamp (CausalOrder, AgreedOrder, InterGroupOrder) ──▶ packet ──▶ network
    network ──▶ Exchange (loss recovery, acks, stability) ──▶ CausalOrder (ready) ──▶ Delivery ──▶ application

Vector times and packet numbers restart with each view (isis-1991, section 5.5), so everything here does.

The end of a view is agreed on with the help of view_end.py; `finish_cut` hands on what is no orphan. An orphan happened
after something that was lost with the members that had it, and its sender is gone too.
"""

from random import Random
from typing import final

from antiphon.kernel.effects import NEVER, Delivered, Effects, Received, Sent, Transmit
from antiphon.kernel.errors import MalformedError
from antiphon.kernel.identity import ProcessId, View
from antiphon.kernel.levels import AGREED, CAUSAL, FIFO, RELIABLE, SAFE
from antiphon.kernel.options import Options
from antiphon.kernel.packet_kinds import PRIVATE, PRIVATE_ACK
from antiphon.parts.membership.messages import BarrierBody
from antiphon.parts.membership.packet_session import PacketSession
from antiphon.parts.packet import FRAGMENT_OVERHEAD, ORDERED, DataPacket, acks_size
from antiphon.parts.pending import PendingQueue, PendingRun
from antiphon.parts.vector_clock import changes
from antiphon.stacks.vector import timestamp
from antiphon.stacks.vector.agreed import RUNS_MAX, AgreedOrder
from antiphon.stacks.vector.causal import CausalOrder
from antiphon.stacks.vector.delivery import DeliveryQueue
from antiphon.stacks.vector.group_time import GroupTime
from antiphon.stacks.vector.inter_group_order import InterGroupOrder
from antiphon.stacks.vector.offers import NUMBER
from antiphon.stacks.vector.order_check import check_order, read_order
from antiphon.stacks.vector.private import Letter, PrivateLane
from antiphon.stacks.vector.situations import ORDER_BITS, order_counts
from antiphon.stacks.vector.timestamp import ForeignTime, OrderSection
from antiphon.stacks.vector.view_end import EpochViewEnd


def members_max(options: Options) -> int:
    """How many members a view may have, so that the longest timestamp leaves half of a packet for its messages."""
    return (options.packet_bytes_max // 2 - FRAGMENT_OVERHEAD - acks_size(0) - timestamp.size_max(0)) // (
        timestamp.size_max(1) - timestamp.size_max(0)
    )


@final
class ViewSession(PacketSession):
    """One member in one view."""

    __slots__ = (
        "_agreed",
        "_bare",
        "_blocked",
        "_causal",
        "_delivery",
        "_foreign",
        "_group_order",
        "_in_place",
        "_letters_seen",
        "_private",
        "_sections",
        "_to_carry",
        "epochs",
        "flush_at_ns",
        "time",
    )

    def __init__(
        self,
        group: str,
        process: ProcessId,
        view: View,
        pending: PendingQueue,
        group_order: InterGroupOrder,
        letters_seen: dict[ProcessId, int],
        random: Random,
        options: Options,
        epoch: int = 0,
        declared: int = 0,
    ) -> None:
        members = len(view.members)
        super().__init__(
            NUMBER, group, process, view, pending, random, options, declared, timestamp.size_max(members)
        )  # fmt: skip
        self.epochs = EpochViewEnd(self.exchange, members, epoch)
        """How the view ends, by its own name."""
        self._end_by(self.epochs)
        self._causal = CausalOrder(members, self._me)
        self._agreed = AgreedOrder(members, self._me)
        self._group_order = group_order
        self.time = GroupTime(view.id, epoch, self.exchange, self._causal, self._agreed)
        self._private = PrivateLane(self.group_id, self.tag, members, self._me, options, self.stamp)
        self._delivery = DeliveryQueue(
            group, self.group_id, view, self.exchange, self._causal, self._agreed, group_order, self.time,
            self._private, options,
        )  # fmt: skip
        self._letters_seen = letters_seen
        self._foreign: dict[tuple[int, int], list[ForeignTime]] = {}
        """Times of other groups on packets that are not ready yet."""
        self._to_carry: list[ForeignTime] = []
        """Times of other groups that the next packets must bring."""
        self._blocked: list[int] = []
        self._sections = [0] * ORDER_BITS
        """Order sections that have left, by their bits."""
        self._in_place = 0
        self._bare = 0
        self.flush_at_ns = NEVER
        """When the member is to see whether this view should end, for the sake of what others keep of its time."""

    # ---- the application's pace ------------------------------------------------------------------------------------

    def pause(self) -> None:
        super().pause()
        self._delivery.paused = True

    def resume(self, effects: Effects, now_ns: int) -> None:
        if self.paused:
            super().resume(effects, now_ns)
            self._delivery.paused = False
            self._deliver_ready(effects, now_ns)

    def _deliver_ready(self, effects: Effects, now_ns: int) -> None:
        for rank, stream in enumerate(self.exchange.incoming):
            for number in sorted(stream.packets):
                packet = stream.packets[number]
                if number > self._causal.ready[rank] and packet.level == RELIABLE and not packet.delivered:
                    self._delivery.early(packet, self._foreign.get((rank, number), []), effects)
            self._advance(rank, effects, now_ns)
        self._delivery.drain(effects, now_ns)

    # ---- the network's side ----------------------------------------------------------------------------------------

    def _receive_other(self, kind: int, sender: int, data: bytes, effects: Effects, now_ns: int) -> None:
        if kind == PRIVATE:
            self._receive_private(data, sender, effects, now_ns)
        elif kind == PRIVATE_ACK:
            self._private.take_ack(data, sender, now_ns)
            if self._private.to < 0 and self.cut.barrier is None and self._group_order.busy_group == self.group_id:
                self._group_order.busy_group = 0
        else:
            raise MalformedError("kind")

    def _receive_data(self, sender: int, flags: int, level: int, data: bytes, effects: Effects, now_ns: int) -> None:
        if level > SAFE:
            raise MalformedError("level")
        packet = self.exchange.open_data(data, sender, flags, level)
        if packet is None:
            return
        section: OrderSection | None = None
        if packet.order_size:
            section = read_order(packet, len(self.view.members), self._group_order)
            check_order(packet, section, self.exchange, self._causal)
        speaks_of_order = packet.ordered or (section is not None and section.token is not None)
        if speaks_of_order and not self._agreed.has_room(sender):
            raise MalformedError("token")
        if self.cut.frozen:
            self.cut.set_aside(packet, now_ns)
        if section is not None and section.foreign:
            self._group_order.note_arrival(section.foreign)
        if self.cut.frozen:
            return
        self._take_in(packet, section, effects, now_ns)
        number = packet.number
        ready = self._causal.ready
        early = level == RELIABLE and (number != ready[sender] + 1 or self._delivery.waits(sender))
        if early and not self.paused:
            self._delivery.early(packet, self._foreign.get((sender, number), []), effects)
        read = self._agreed.unread > 0 and self._agreed.read(sender, self.exchange.incoming[sender].received)
        if (level == SAFE and self._agreed.is_placed(sender, number)) or (read and self._delivery.safe):
            self.exchange.hurry_acks()
        if number == ready[sender] + 1:
            self._advance(sender, effects, now_ns)
        if read or self._delivery.count:
            self._delivery.drain(effects, now_ns)

    def _take_in(self, packet: DataPacket, section: OrderSection | None, effects: Effects, now_ns: int) -> None:
        """From here on the packet counts as received."""
        placement = None if section is None else section.token
        if placement is not None or packet.ordered:
            self._agreed.take(packet, placement)
        self.exchange.add_data(packet, now_ns)
        if section is not None and section.foreign:
            self._foreign[packet.sender, packet.number] = section.foreign
        if self._options.record_receives:
            self._report_receive(packet, effects)

    def _receive_private(self, data: bytes, sender: int, effects: Effects, now_ns: int) -> None:
        letter = self._private.take(data, sender, self._delivery.letters(sender), self._group_order)
        if letter is None:
            return
        process = self.view.members[sender]
        if letter.number <= self._letters_seen.get(process, 0):
            self._private.acknowledge(sender, letter.serial)  # it came in an earlier view
            return
        self._letters_seen[process] = letter.number
        self._group_order.note_arrival(letter.foreign)
        self._delivery.offer_private(letter)
        self._delivery.drain(effects, now_ns)

    def _report_receive(self, packet: DataPacket, effects: Effects) -> None:
        count = packet.count
        if not count or (packet.fragment_total and packet.fragment_index + 1 < packet.fragment_total):
            return
        sender = self.view.members[packet.sender]
        size = len(packet.data) - packet.body
        effects.events.append(
            Received(self.group, self.view.id, sender, packet.first_message, count, packet.level, size)
        )

    def _advance(self, sender: int, effects: Effects, now_ns: int) -> None:
        """Let through what is ready at the head of a sender's queue, and at those that this frees."""
        if not self._let_through(sender, effects, now_ns):
            return
        progress = bool(self._blocked)
        while progress:
            progress = False
            waiting = self._blocked
            self._blocked = []
            for rank in waiting:
                if self._let_through(rank, effects, now_ns):
                    progress = True

    def _let_through(self, sender: int, effects: Effects, now_ns: int) -> bool:
        """Let through what is ready of one sender; whether anything was."""
        if sender == self._me:
            return False
        packets = self.exchange.incoming[sender].packets
        causal = self._causal
        start = causal.ready[sender]
        while True:
            number = causal.ready[sender] + 1
            packet = packets.get(number)
            if packet is None:
                break
            if not causal.is_ready(packet) and not packet.delivered:
                if sender not in self._blocked:
                    self._blocked.append(sender)
                break
            causal.ready[sender] = number
            foreign = self._foreign.pop((sender, number), None) if self._foreign else None
            self._delivery.offer(packet, foreign or [], effects, now_ns)
        return causal.ready[sender] != start

    # ---- the end of a step -----------------------------------------------------------------------------------------

    def finish(self, effects: Effects, now_ns: int) -> None:
        """Deliver what acks have made safe, send what may leave."""
        exchange = self.exchange
        exchange.settle(now_ns)
        self._forget_consumed()
        if self._delivery.count:
            self._delivery.drain(effects, now_ns)
        if exchange.pending.runs:
            self._send_pending(effects, now_ns)
        if self._agreed.untold:
            self._tell_places(now_ns)
        if len(self.view.members) == 1:
            exchange.settle(now_ns)
        if self._delivery.count:
            self._delivery.drain(effects, now_ns)
        exchange.release_acks(now_ns)
        if self._delivery.count or exchange.wants_acks:
            exchange.want_acks(self._delivery.waits_for_all(), now_ns)

    def _send_pending(self, effects: Effects, now_ns: int) -> None:
        """Send what waits to leave, as long as this view takes it and it may."""
        runs = self.exchange.pending.runs
        while runs and not (self.paused or self.cut.frozen or self.cut.barrier is not None):
            run = runs[0]
            if run.barrier:
                self._send_barrier(run, effects, now_ns)
                return
            if run.destinations:
                if not self._send_private(run, run.destinations[0], effects, now_ns):
                    return
            elif self.exchange.window_open() and self._may_send(run, now_ns):
                self._send_packet(run.level, effects, now_ns)
            else:
                return

    def waits(self) -> bool:
        """Whether anything is held back here."""
        return bool(self._delivery.count) or self._delivery.has_letters()

    def retry_blocked(self, effects: Effects, now_ns: int) -> bool:
        """Deliver and send what a change in another group of the domain has unblocked; return whether anything was."""
        events = len(effects.events)
        if self._delivery.count or self._delivery.has_letters():
            self._delivery.drain(effects, now_ns)
        if self.exchange.pending.runs and not self.cut.frozen:
            self.finish(effects, now_ns)
        return len(effects.events) != events

    def _may_send(self, run: PendingRun, now_ns: int) -> bool:
        if self._causal.behind and not self._causal.may_send(run.level):
            return False
        order = self._group_order
        if order.free and not order.busy_group:
            return True
        private = bool(run.destinations)
        if not order.may_send(self.group_id, run.level, run.ticket, now_ns, private):
            return False
        self.epochs.epoch_wish = order.epoch_wanted(self.group_id, True)
        return not self.epochs.epoch_wish

    def _send_packet(self, level: int, effects: Effects, now_ns: int) -> None:
        exchange = self.exchange
        causal = self._causal
        agreed = self._agreed
        if not self._group_order.free:
            self._to_carry.extend(self._group_order.times(self.group_id))
        if (self._to_carry or agreed.untold) and not self._fits():
            self._send_bare(now_ns)
            return
        in_place = level >= AGREED and agreed.holder == self._me  # what went before may have passed the token on
        number = exchange.sent + 1
        vector = causal.stamp(level)
        order = b""
        if vector[0] or agreed.has_news or self._to_carry:
            order = timestamp.encode(vector, agreed.placement(number, in_place), self._to_carry)
            self._to_carry = []
        if order:
            self._sections[order[0]] += 1
        if in_place:
            self._in_place += 1
        load = exchange.send_next(order, ORDERED if in_place else 0, now_ns)
        causal.sent(number)
        if in_place:
            agreed.sent(number)
        elif level >= AGREED:
            agreed.ready(self._me, number)
        self._note_sent(load, effects)
        self._delivery.offer_own(number, causal.stamped, load, effects)

    def _fits(self) -> bool:
        """Whether what a packet has to carry beside its vector leaves room for the next message, whole."""
        extra = sum([time.size() for time in self._to_carry]) + self._agreed.untold_bytes()
        members = len(self.view.members)
        overhead = FRAGMENT_OVERHEAD + timestamp.size_max(members) + acks_size(members) + 2 + extra
        if len(self._agreed.untold) > RUNS_MAX:  # a packet that takes a place itself must tell all those before it
            return False
        return self.exchange.pending.fits(self._options.packet_bytes_max - overhead)

    def _send_bare(self, now_ns: int) -> None:
        """Placements, and times of other groups, in a packet of their own."""
        room = self._options.packet_bytes_max // 2
        carried: list[ForeignTime] = []
        size = 0
        while self._to_carry and (not carried or size + self._to_carry[0].size() <= room):
            size += self._to_carry[0].size()
            carried.append(self._to_carry.pop(0))
        number = self.exchange.sent + 1
        order = timestamp.encode((0, b""), self._agreed.placement(number, False), carried)
        if order:
            self._sections[order[0]] += 1
        self._bare += 1
        self.exchange.send_bare(order, ORDERED, FIFO, now_ns)
        self._causal.sent(number)
        self._delivery.offer_bare(number)

    def _tell_places(self, now_ns: int) -> None:
        """Tell the places that no packet with messages has told."""
        while self._agreed.untold and not self.cut.frozen and self.exchange.order_may_leave():
            self._send_bare(now_ns)

    def _send_barrier(self, run: PendingRun, effects: Effects, now_ns: int) -> None:
        """Nothing of mine, in any group of the domain, comes between a barrier and the end of the view."""
        if not self._may_send(run, now_ns):
            return
        self._to_carry.extend(self._group_order.times(self.group_id))
        while self._to_carry:
            if not self.exchange.window_open():
                return
            self._send_bare(now_ns)
        self._take_barrier(effects)
        self._group_order.busy_group = self.group_id

    # ---- private messages ------------------------------------------------------------------------------------------

    def _send_private(self, run: PendingRun, destination: ProcessId, effects: Effects, now_ns: int) -> bool:
        rank = self.view.rank(destination)
        if rank == self._me and not self._delivery.takes_own_letter():
            return False
        if rank >= 0 and rank != self._me and not self._private.has_room(rank):
            return False
        if not self._may_send(run, now_ns):
            return False
        number, payload = self.exchange.pending.take_message()
        effects.events.append(
            Sent(self.group, self.view.id, number, 1, CAUSAL, len(payload), (destination,))
        )  # fmt: skip
        if rank == self._me:
            effects.events.append(
                Delivered(self.group, self.view.id, destination, number, CAUSAL, [payload], len(payload), True)
            )
        elif rank >= 0:
            self._post(rank, Letter(destination, number, payload), now_ns)
        return True

    def _post(self, rank: int, letter: Letter, now_ns: int) -> None:
        self._group_order.busy_group = self.group_id
        vector = self._causal.known.copy()
        empty = [0] * len(vector)
        part = timestamp.encode_vector(changes(empty, vector), vector)
        order = timestamp.encode(part, None, self._group_order.all_times(self.group_id)) or b"\x00"
        self._private.send(rank, letter, order, now_ns)

    def follow(self, before: "ViewSession", now_ns: int) -> None:
        """Take over what the view before leaves."""
        for letter in before._private.letters:
            rank = self.view.rank(letter.destination)
            if rank >= 0:
                self._post(rank, letter, now_ns)
        unwaited = before._delivery.unwaited()
        for (rank, number), foreign in before._foreign.items():
            packet = before.exchange.incoming[rank].packets.get(number)
            if packet is not None and packet.delivered:  # early, and never came to be ready
                unwaited.extend(foreign)
        if unwaited:
            self._delivery.inherit(unwaited)

    # ---- time and transmission -------------------------------------------------------------------------------------

    def deadline_ns(self) -> int:
        return min(self.exchange.deadline_ns(), self._private.resend_at_ns, self.flush_at_ns)

    def tick(self, effects: Effects, now_ns: int) -> None:
        super().tick(effects, now_ns)
        self._private.tick(now_ns)

    def has_output(self) -> bool:
        """Whether there is something to collect."""
        return bool(self.exchange.multicasts or self.exchange.unicasts or self._private.unicasts)

    def collect(self, effects: Effects) -> None:
        super().collect(effects)
        if self._private.unicasts:
            for rank, packet in self._private.unicasts:
                effects.transmits.append(Transmit(self.route(rank), [packet]))
            self._private.unicasts = []

    def outstanding(self) -> int:
        return super().outstanding() + len(self._private.letters)

    def held(self) -> int:
        """Packets and private messages that are held back here."""
        return self._delivery.held()

    def are_own_stable(self, message: int, copies: int) -> bool:
        if any(letter.number <= message for letter in self._private.letters):
            return False
        return super().are_own_stable(message, copies)

    def known(self) -> list[int]:
        """What happened here before whatever is sent next."""
        return self._causal.known.copy()

    # ---- the end of the view ---------------------------------------------------------------------------------------

    def finish_cut(self, barriers: list[BarrierBody], effects: Effects, now_ns: int) -> bool:
        """The whole cut is here, and all agree on it: hand on what is no orphan, whether the application is ready or
        not, since the others wait for it; then the barriers. False while other groups have to come first."""
        self._delivery.closing = True
        for packet in self.cut.take_fetched():
            section = read_order(packet, len(self.view.members), self._group_order) if packet.order_size else None
            self._take_in(packet, section, effects, now_ns)
        for rank, stream in enumerate(self.exchange.incoming):
            self._agreed.read(rank, stream.received)
        self._agreed.close()
        self._deliver_ready(effects, now_ns)
        if not self._delivery.complete([rank for rank, _, _ in barriers], effects, now_ns):
            return False
        self._deliver_barriers(barriers, effects)
        if any(rank != self._me for rank, _, _ in barriers):
            self._group_order.heard_in.add(self.group_id)
        return True

    def statistics(self) -> dict[str, int]:
        return {**super().statistics(), "messages_spoiled": self._delivery.spoiled()}

    def situations(self) -> list[int]:
        exchange = self.exchange
        data = [exchange.resends, exchange.acks_carried, exchange.fragments, self._in_place, self._bare]
        return [*data, self._agreed.term, exchange.asks, *order_counts(self._sections)]
