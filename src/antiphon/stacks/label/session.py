"""One view of a group on the stack `label`: links, copies, the total order, and the application.

    PendingQueue ──▶ broadcast ──▶ MessagePool ──▶ Link, one per member, with all that must come first ──▶ network
    network ──▶ Link ──▶ MessagePool ──▶ at once, or by TotalOrder ──▶ application

Each view begins anew: numbers, clocks, links. What becomes of the end of a view is agreed on as in every group
(parts/membership), by the policies `static` and `primary`.

Packets. A transfer packet differs from one destination to the next, since it carries what that destination may lack:
this stack's exception from the rule that a packet is one byte string for all. A broadcast within it is the same for all
but for the set of those that still lack it.

Flow. A member keeps at most `window` own broadcasts that somebody is still to deliver. A paused application delivers
nothing, so its senders stop.
"""

from collections import deque
from random import Random
from typing import Final, final

from antiphon.kernel.codec import HEADER_SIZE, seal
from antiphon.kernel.effects import Effects, Received, Sent, Transmit
from antiphon.kernel.errors import MalformedError
from antiphon.kernel.identity import ProcessId, View
from antiphon.kernel.levels import AGREED
from antiphon.kernel.options import Options
from antiphon.kernel.packet_kinds import DATA, REQUEST, STATUS
from antiphon.parts.emission import MessageAssembler
from antiphon.parts.membership.messages import BarrierBody
from antiphon.parts.membership.session import Session
from antiphon.parts.node_batch import BATCH_OVERHEAD, decode_batch, encode_batch
from antiphon.parts.pending import PendingQueue
from antiphon.stacks.label.item import (
    ASK,
    COMMIT,
    COMMIT_SIZE,
    FETCHED,
    ITEM,
    LINK_SIZE,
    MESSAGES,
    NEEDLESS,
    NUMBER_SIZE,
    PRIORITY,
    RANGES_MAX,
    RELEASE,
    VOUCH,
    Item,
    LabelFrame,
    decode_frames,
    decode_link_head,
    decode_ranges,
    decode_request,
    encode_commits,
    encode_link_head,
    encode_needless,
    encode_numbers,
    encode_priority,
    encode_ranges,
    encode_request,
    encode_vouch,
    item_overhead,
)
from antiphon.stacks.label.link import RESENDS_MAX, LabelLink
from antiphon.stacks.label.offers import NUMBER
from antiphon.stacks.label.ordering import TotalOrder
from antiphon.stacks.label.pool import MessagePool
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
        "_answers", "_assembler", "_closing", "_consumed_by", "_due", "_everybody", "_handing", "_item_bytes_max",
        "_long_transfers", "_members", "_order", "_own", "_passed_on", "_random", "_sent", "_strays", "_twice",
        "_unicasts", "_window", "cut", "links", "pool",
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
    ) -> None:
        members = len(view.members)
        order_bytes = HEADER_SIZE + LINK_SIZE + item_overhead(members) + BATCH_OVERHEAD
        super().__init__(group, process, view, pending, options, declared, order_bytes)
        me = self._me
        share = options.arriving_bytes_max // (options.packet_bytes_max * 2 * max(1, members - 1))
        self._window = max(1, min(options.window_packets, max(_WINDOW_MIN, share)))
        self.links = [LabelLink(options, self._window) for _ in range(members)]
        self.pool = MessagePool(me, members, self._window)
        self._order = TotalOrder(me, members)
        self.cut = LabelViewEnd(self.pool, self._order, self.links, me, options)
        self.end = self.cut
        self._members = members
        self._everybody = (1 << members) - 1
        self._random = random
        self._assembler = MessageAssembler(group, view, options.message_bytes_max)
        self._item_bytes_max = options.packet_bytes_max - HEADER_SIZE - LINK_SIZE
        self._sent = 0
        """The number of the last own broadcast."""
        self._own: deque[tuple[int, int]] = deque()
        """Own broadcasts that are not collected, with the last message that is out with each."""
        self._consumed_by = [0] * members
        """By member, up to which own broadcast nothing waits there."""
        self._handing: deque[Item] = deque()
        """What has its place, and waits for the application."""
        self._due: dict[int, Item] = {}
        """By member, the last own broadcast that is to leave for it."""
        self._answers: dict[int, list[bytes]] = {}
        """By member, priorities and the like for its broadcasts."""
        self._unicasts: dict[int, list[bytes]] = {}
        self._closing = False
        self._passed_on = 0
        self._twice = 0
        self._long_transfers = 0
        self._strays = 0

    # ---- packets in ------------------------------------------------------------------------------------------------

    def receive(
        self, kind: int, sender: int, flags: int, level: int, data: bytes, effects: Effects, now_ns: int
    ) -> None:
        if sender >= self._members or sender == self._me:
            raise MalformedError("rank")
        if kind == STATUS:
            self._receive_status(sender, flags, data, now_ns)
        elif kind == REQUEST:
            self._answer_request(sender, data)
        elif kind != DATA:
            raise MalformedError("kind")
        elif flags & FETCHED:
            self._receive_fetched(data)
        else:
            self._receive_datagram(sender, data, effects, now_ns)

    def answer_late(self, kind: int, sender: int, data: bytes, effects: Effects, now_ns: int) -> None:
        if kind == REQUEST:
            self._answer_request(sender, data)
            self.collect(effects)

    def _receive_datagram(self, sender: int, data: bytes, effects: Effects, now_ns: int) -> None:
        sequence, ack, collected, consumed = decode_link_head(data, HEADER_SIZE)
        if self.cut.frozen:
            raise MalformedError("late")
        link = self.links[sender]
        self._check_head(sender, ack, collected, consumed)
        if not link.check(sequence):
            return
        frames = decode_frames(data, HEADER_SIZE + LINK_SIZE, self._members)
        self._take_head(sender, ack, consumed, now_ns)
        for frame in link.take(sequence, frames, now_ns):
            self._take_frame(frame, sender, effects, now_ns)
        self._take_collected(sender, collected)

    def _check_head(self, sender: int, ack: int, collected: int, consumed: int) -> None:
        """Raise MalformedError for what cannot be."""
        if ack > self.links[sender].sent or consumed > self._sent:
            self.cut.contradicted += 1
            raise MalformedError("ack")
        if collected > self.pool.collected[sender] + 2 * self.pool.numbers_max:
            raise MalformedError("window")

    def _take_head(self, sender: int, ack: int, consumed: int, now_ns: int) -> None:
        bit = 1 << sender
        for item in self.links[sender].take_ack(ack, now_ns):
            item.remaining &= ~bit
        if consumed > self._consumed_by[sender]:
            self._consumed_by[sender] = consumed

    def _take_collected(self, sender: int, collected: int) -> None:
        """The sender says that its broadcasts up to this one were delivered by all. What waits here contradicts it."""
        waiting = self.pool.undelivered[sender]
        if collected > self.pool.collected[sender] and not self.cut.frozen:
            self.pool.collect(sender, min(collected, min(waiting) - 1) if waiting else collected)

    def _receive_status(self, sender: int, flags: int, data: bytes, now_ns: int) -> None:
        sent, ack, collected, consumed = decode_link_head(data, HEADER_SIZE)
        missing = decode_ranges(data, HEADER_SIZE + LINK_SIZE)
        self._check_head(sender, ack, collected, consumed)
        link = self.links[sender]
        if sent > link.received + 4 * link.copies_max:
            raise MalformedError("window")
        self._take_head(sender, ack, consumed, now_ns)
        self._take_collected(sender, collected)
        link.heard_of(sent, now_ns)
        if missing:
            self._unicasts.setdefault(sender, []).extend(link.copies_of(missing))
        if flags & ASK:
            self._tell_status(sender, now_ns)

    def _take_frame(self, frame: LabelFrame, source: int, effects: Effects, now_ns: int) -> None:
        if frame.item is not None:
            self._take_in(frame.item, source, effects, now_ns)
        elif frame.kind == PRIORITY:
            self._order.see(frame.value)
            self._order.answer(frame.number, source, frame.value)
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
        self._observe(item, effects)
        order.follow(item.passed)
        self._take_ready()
        is_mine = bool(item.destinations >> self._me & 1)
        if item.kind == COMMIT:
            for number, priority in item.commits():
                order.commit((item.sender, number), priority)
        elif item.kind == RELEASE:
            for number in item.released():
                order.release((item.sender, number))
        else:
            if is_mine:
                self.pool.undelivered[item.sender].add(item.number)
            if item.is_ordered():
                answer = encode_priority(item.number, order.add(item))
                self._answers.setdefault(item.sender, []).append(answer)
            elif is_mine:
                self._handing.append(item)
        order.advance()
        self._take_ready()

    def _observe(self, item: Item, effects: Effects) -> None:
        batch = item.batch
        if batch is None or not self._options.record_receives:
            return
        sender = self.view.members[item.sender]
        if item.destinations >> self._me & 1:
            first, count, size = batch.first_message, batch.count, batch.size()
            effects.events.append(Received(self.group, self.view.id, sender, first, count, batch.level, size))

    def _take_ready(self) -> None:
        """What has its place in the total order now goes on to the application."""
        ready = self._order.ready
        if ready:
            for item in ready:
                if item.destinations >> self._me & 1:
                    self._handing.append(item)
            self._order.ready = []

    def _hand_over(self, effects: Effects, now_ns: int) -> None:
        while self._handing and (self._closing or not self.paused):
            item = self._handing.popleft()
            self.pool.undelivered[item.sender].discard(item.number)
            if item.sender != self._me:
                self.links[item.sender].owe_ack(now_ns)
            batch = item.batch
            assert batch is not None
            self._assembler.batch(item.sender, batch, effects)

    # ---- broadcasts out --------------------------------------------------------------------------------------------

    def finish(self, effects: Effects, now_ns: int) -> None:
        self._hand_over(effects, now_ns)
        if not self.cut.frozen:
            self._tell_order()
            self._take_pending(effects, now_ns)
            self._tell_order()
            self._hand_over(effects, now_ns)
            self._collect_own(now_ns)
            self._transfer_all(now_ns)
        for rank, link in enumerate(self.links):
            if rank != self._me and link.ack_at_ns <= now_ns:
                self._tell_status(rank, now_ns)

    def _take_pending(self, effects: Effects, now_ns: int) -> None:
        """Send what may leave. What is not ordered waits for own broadcasts that are (ordering.py, rule 3)."""
        pending = self._pending
        while pending.runs and not self.paused and self.cut.barrier is None:
            run = pending.runs[0]
            if run.barrier:
                self._take_barrier(effects)
                return
            if self._sent - self.pool.collected[self._me] >= self._window:
                return
            if run.level < AGREED and self._order.ballots:
                return
            self._send_next(effects, now_ns)

    def _send_next(self, effects: Effects, now_ns: int) -> None:
        room = self._item_bytes_max - item_overhead(self._members) - BATCH_OVERHEAD
        load = self._pending.next_load(room, room)
        item = self._new_item(MESSAGES, self._everybody, encode_batch(load))
        item.batch = decode_batch(item.body, 0)
        item.remaining = self.pool.reach(item) & ~(1 << self._me)
        if item.destinations >> self._me & 1:
            self.pool.undelivered[self._me].add(item.number)
        if item.is_ordered():
            self._order.add(item)
        else:
            self._handing.append(item)
        self._put_out(item)
        if load.complete:
            size = sum(map(len, load.complete))
            last = load.first_message + len(load.complete) - 1
            self._own.append((item.number, last))
            effects.events.append(
                Sent(self.group, self.view.id, load.first_message, len(load.complete), load.level, size)
            )
        self._order.advance()
        self._take_ready()
        self._hand_over(effects, now_ns)

    def _new_item(self, kind: int, destinations: int, body: bytes) -> Item:
        self._sent += 1
        order = self._order
        remaining = destinations & ~(1 << self._me)
        return Item(kind, self._me, self._sent, order.tick(), order.passed, destinations, remaining, b"", body)

    def _put_out(self, item: Item) -> None:
        """Keep an own broadcast and have it leave for all that are to have it."""
        self.pool.add(item, self._me)
        reach = self.pool.reach(item)
        for rank in range(self._members):
            if rank != self._me and reach >> rank & 1:
                self._due[rank] = item

    def _tell_order(self) -> None:
        """Tell final priorities and releases of own broadcasts; vouch for those of others."""
        order = self._order
        while order.commits or order.releases:
            room = self._item_bytes_max - item_overhead(self._members)
            if order.commits:
                commits = order.commits[: room // COMMIT_SIZE]
                order.commits = order.commits[len(commits) :]
                self._put_out(self._new_item(COMMIT, self._everybody, encode_commits(commits)))
                for number, priority in commits:
                    order.commit((self._me, number), priority)
            else:
                released = order.releases[: room // NUMBER_SIZE]
                order.releases = order.releases[len(released) :]
                self._put_out(self._new_item(RELEASE, self._everybody, encode_numbers(released)))
                for number in released:
                    order.release((self._me, number))
            order.advance()
            self._take_ready()
        for sender, number in order.vouches:
            self._answers.setdefault(sender, []).append(encode_vouch(number))
        order.vouches = []

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
        for rank, consumed in enumerate(self._consumed_by):
            if rank != self._me and item.destinations >> rank & 1 and consumed < item.number:
                return False
        return True

    # ---- transfer packets ------------------------------------------------------------------------------------------

    def _transfer_all(self, now_ns: int) -> None:
        for rank in range(self._members):
            if rank == self._me or not (rank in self._due or rank in self._answers):
                continue
            if not self.links[rank].has_room():
                continue
            frames = self._answers.pop(rank, [])
            last = self._due.pop(rank, None)
            items = [] if last is None else self.pool.take_for(rank, last)
            self._transfer(rank, frames, items, now_ns)

    def _transfer(self, rank: int, frames: list[bytes], items: list[Item], now_ns: int) -> None:
        """Put a transfer packet on its way, in as many datagrams as it takes."""
        size, bit = (self._members + 7) // 8, 1 << rank
        parts: list[bytes] = []
        carried: list[Item] = []
        used = datagrams = 0
        for place in range(len(frames) + len(items)):
            item = items[place - len(frames)] if place >= len(frames) else None
            frame = frames[place] if item is None else item.encode(size)
            if used + len(frame) > self._item_bytes_max:
                self._put_datagram(rank, parts, carried, now_ns)
                datagrams += 1
                parts, carried, used = [], [], 0
            parts.append(frame)
            used += len(frame)
            if item is not None:
                item.sent_to |= bit
                carried.append(item)
        if parts:
            self._put_datagram(rank, parts, carried, now_ns)
        if datagrams:
            self._long_transfers += 1

    def _put_datagram(self, rank: int, parts: list[bytes], items: list[Item], now_ns: int) -> None:
        link = self.links[rank]
        pool = self.pool
        head = encode_link_head(link.sent + 1, link.received, pool.collected[self._me], pool.consumed(rank))
        packet = seal(NUMBER, DATA, self.group_id, self.tag, self._me, 0, 0, [head, *parts])
        link.put(packet, items, now_ns)
        self._unicasts.setdefault(rank, []).append(packet)

    def _tell_status(self, rank: int, now_ns: int) -> None:
        link = self.links[rank]
        pool = self.pool
        asks = link.told_status(self._random.random(), now_ns)
        head = encode_link_head(link.sent, link.received, pool.collected[self._me], pool.consumed(rank))
        missing = encode_ranges(link.missing())
        packet = seal(NUMBER, STATUS, self.group_id, self.tag, self._me, ASK if asks else 0, 0, [head, missing])
        self._unicasts.setdefault(rank, []).append(packet)

    def collect(self, effects: Effects) -> None:
        if self._unicasts:
            for rank, packets in self._unicasts.items():
                effects.transmits.append(Transmit(self.route(rank), packets))
            self._unicasts = {}

    def deadline_ns(self) -> int:
        deadline_ns = self.cut.ask_at_ns
        for rank, link in enumerate(self.links):
            if rank != self._me:
                deadline_ns = min(deadline_ns, link.deadline_ns())
        return deadline_ns

    def tick(self, effects: Effects, now_ns: int) -> None:
        for rank, link in enumerate(self.links):
            if rank != self._me and link.is_due(now_ns):
                self._tell_status(rank, now_ns)
        if self.cut.ask_at_ns <= now_ns:
            self._ask_for_cut(now_ns)

    # ---- the end of the view ---------------------------------------------------------------------------------------

    def _ask_for_cut(self, now_ns: int) -> None:
        missing = self.cut.missing()
        source = self.cut.whom_to_ask(now_ns)
        if missing and source >= 0:
            body = encode_request(missing[:RANGES_MAX])
            request = seal(NUMBER, REQUEST, self.group_id, self.tag, self._me, 0, 0, [body])
            self._unicasts.setdefault(source, []).append(request)

    def _answer_request(self, asker: int, data: bytes) -> None:
        """Send copies of what a member lacks of a cut, outside the link; or say that nobody needs one. What was fetched
        for a cut counts: who had it may be gone."""
        size = (self._members + 7) // 8
        answered = 0
        parts: list[bytes] = []
        used = 0
        for rank, first, last in decode_request(data, HEADER_SIZE, self._members):
            number = first
            while number <= last and number - first < RESENDS_MAX and answered < RESENDS_MAX:
                mid = (rank, number)
                item = self.pool.copies.get(mid) or self.cut.fetched.get(mid)
                frame = b""
                if item is not None:
                    frame = item.encode(size)
                elif number <= self.pool.collected[rank] or mid in self.cut.fetched:
                    frame = encode_needless(mid)
                if frame and used + len(frame) > self._item_bytes_max:
                    self._put_fetched(asker, parts)
                    parts, used = [], 0
                if frame:
                    parts.append(frame)
                    used += len(frame)
                    answered += 1
                number += 1
        if parts:
            self._put_fetched(asker, parts)

    def _put_fetched(self, rank: int, parts: list[bytes]) -> None:
        head = encode_link_head(0, 0, 0, 0)
        packet = seal(NUMBER, DATA, self.group_id, self.tag, self._me, FETCHED, 0, [head, *parts])
        self._unicasts.setdefault(rank, []).append(packet)

    def _receive_fetched(self, data: bytes) -> None:
        for frame in decode_frames(data, HEADER_SIZE + LINK_SIZE, self._members):
            if frame.kind == ITEM and frame.item is not None:
                mid = (frame.item.sender, frame.item.number)
                if self.cut.wants(mid):
                    self.cut.fetched[mid] = frame.item
            elif frame.kind == NEEDLESS and self.cut.wants((frame.value, frame.number)):
                self.cut.fetched[frame.value, frame.number] = None

    def finish_cut(self, barriers: list[BarrierBody], effects: Effects, now_ns: int) -> bool:
        self._closing = True
        fetched = [item for item in self.cut.fetched.values() if item is not None]
        fetched.sort(key=_by_clock)
        for item in fetched:
            self._take_in(item, item.sender, effects, now_ns)
        self._order.close(self.cut.reached)
        self._take_ready()
        self._hand_over(effects, now_ns)
        self._answers = {}
        self._deliver_barriers(barriers, effects)
        return True

    # ---- questions -------------------------------------------------------------------------------------------------

    def outstanding(self) -> int:
        return self._sent - self.pool.collected[self._me] + (self.cut.barrier is not None)

    def held(self) -> int:
        return len(self._handing) + self._order.waiting()

    def known(self) -> list[int]:
        return [self._sent if rank == self._me else self.pool.consumed(rank) for rank in range(self._members)]

    def is_stable(self, known: list[int], copies: int) -> bool:
        for rank, number in enumerate(known):
            if number > self.pool.collected[rank] and not (copies and self._is_held(rank, number, copies)):
                return False
        return True

    def _is_held(self, rank: int, number: int, copies: int) -> bool:
        """Whether so many members beside their sender are known to hold the broadcasts up to this one."""
        needed = min(copies, self._members - 1)
        for each in range(self.pool.collected[rank] + 1, number + 1):
            item = self.pool.copies.get((rank, each))
            if item is not None:
                lacking = item.remaining.bit_count()
                held = self.pool.reach(item).bit_count() - lacking - (1 if item.destinations >> rank & 1 else 0)
                if held < min(needed, held + lacking):
                    return False
        return True

    def are_own_stable(self, message: int, copies: int) -> bool:
        if self.cut.barrier is not None and self.cut.barrier[0] <= message:
            return False
        last = 0
        for number, last_message in self._own:
            if last_message > message:
                break
            last = number
        known = [0] * self._members
        known[self._me] = last
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
            "messages_spoiled": self._assembler.spoiled,
        }

    def situations(self) -> list[int]:
        order = self._order
        return [self._passed_on, self._twice, self._long_transfers, order.placed_last, order.followed]


def _by_clock(item: Item) -> tuple[int, int, int]:
    return item.clock, item.sender, item.number
