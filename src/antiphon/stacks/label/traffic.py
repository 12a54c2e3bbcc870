"""The datagrams of one member in one view: transfer packets, status packets, and copies for the end of the view.

A transfer packet (isis-1987, 4.3.2) differs from one destination to the next, since it carries what that destination
may lack: this stack's exception from the rule that a packet is one byte string for all. A broadcast within it is the
same for all but for the set of those that still lack it. A transfer packet that is longer than a datagram is cut
between broadcasts: links keep order, so what has come of it can be taken in (pool.py).

Every datagram and every status says what its author has taken of the receiver's link, up to which of the receiver's
broadcasts nothing waits at the author, and up to which of the author's own nobody needs a copy any more (4.4). A status
also says what its receiver has acknowledged, so that a process that has begun again learns it (parts/former_life.py).
"""

from random import Random
from typing import final

from antiphon.kernel.codec import HEADER_SIZE, seal
from antiphon.kernel.errors import MalformedError
from antiphon.kernel.options import Options
from antiphon.kernel.packet_kinds import DATA, REQUEST, STATUS
from antiphon.stacks.label.item import (
    ASK,
    FETCHED,
    ITEM,
    LINK_SIZE,
    NEEDLESS,
    NUMBER_SIZE,
    RANGES_MAX,
    Item,
    decode_acked,
    decode_frames,
    decode_link_head,
    decode_ranges,
    decode_request,
    encode_acked,
    encode_link_head,
    encode_needless,
    encode_ranges,
    encode_request,
)
from antiphon.stacks.label.link import RESENDS_MAX, LabelLink
from antiphon.stacks.label.offers import NUMBER
from antiphon.stacks.label.pool import MessagePool
from antiphon.stacks.label.view_end import LabelViewEnd


@final
class LabelTraffic:
    """All links of one member. Collects what is to leave in `unicasts`."""

    __slots__ = (
        "_cut", "_group_id", "_me", "_members", "_pool", "_random", "_stamp", "_tag", "consumed_by", "frames_bytes_max",
        "links", "long_transfers", "unicasts",
    )  # fmt: skip

    def __init__(
        self,
        group_id: int,
        tag: int,
        me: int,
        links: list[LabelLink],
        pool: MessagePool,
        cut: LabelViewEnd,
        random: Random,
        options: Options,
        stamp: int = NUMBER,
    ) -> None:
        self._stamp = stamp
        self._group_id = group_id
        self._tag = tag
        self._me = me
        self._members = len(links)
        self.links = links
        self._pool = pool
        self._cut = cut
        self._random = random
        self.frames_bytes_max = options.packet_bytes_max - HEADER_SIZE - LINK_SIZE
        """What a datagram has for frames."""
        self.consumed_by = [0] * len(links)
        """By member, up to which own broadcast nothing waits there."""
        self.unicasts: dict[int, list[bytes]] = {}
        self.long_transfers = 0
        """Transfer packets of more than one datagram."""

    # ---- in --------------------------------------------------------------------------------------------------------

    def check_head(self, sender: int, ack: int, collected: int, consumed: int) -> None:
        """Raise MalformedError for what cannot be."""
        if ack > self.links[sender].sent or consumed > self._pool.seen[self._me]:
            self._cut.former_life.contradicts(sender)
            raise MalformedError("ack")
        if collected > self._pool.collected[sender] + 2 * self._pool.numbers_max:
            raise MalformedError("window")

    def take_head(self, sender: int, ack: int, consumed: int, now_ns: int) -> None:
        bit = 1 << sender
        for item in self.links[sender].take_ack(ack, now_ns):
            item.remaining &= ~bit
        if consumed > self.consumed_by[sender]:
            self.consumed_by[sender] = consumed

    def take_collected(self, sender: int, collected: int) -> None:
        """The sender says that its broadcasts up to this one were delivered by all. What waits here contradicts it."""
        waiting = self._pool.undelivered[sender]
        if collected > self._pool.collected[sender] and not self._cut.frozen:
            self._pool.collect(sender, min(collected, min(waiting) - 1) if waiting else collected)

    def receive_status(self, sender: int, flags: int, data: bytes, now_ns: int) -> None:
        sent, ack, collected, consumed = decode_link_head(data, HEADER_SIZE)
        acked = decode_acked(data, HEADER_SIZE + LINK_SIZE)
        missing = decode_ranges(data, HEADER_SIZE + LINK_SIZE + NUMBER_SIZE)
        self.check_head(sender, ack, collected, consumed)
        link = self.links[sender]
        if acked > link.received:  # the other has let go of these: a former life had them
            self._cut.former_life.contradicts(sender)
            raise MalformedError("acked")
        self._cut.former_life.fits(sender)
        if sent > link.received + 4 * link.copies_max:
            raise MalformedError("window")
        self.take_head(sender, ack, consumed, now_ns)
        self.take_collected(sender, collected)
        link.heard_of(sent, now_ns)
        if missing:
            self.unicasts.setdefault(sender, []).extend(link.copies_of(missing))
        if flags & ASK:
            self.tell_status(sender, now_ns)

    # ---- out -------------------------------------------------------------------------------------------------------

    def transfer(self, rank: int, frames: list[bytes], items: list[Item], now_ns: int) -> None:
        """Put a transfer packet on its way, in as many datagrams as it takes."""
        size, bit = (self._members + 7) // 8, 1 << rank
        parts: list[bytes] = []
        carried: list[Item] = []
        used = datagrams = 0
        for place in range(len(frames) + len(items)):
            item = items[place - len(frames)] if place >= len(frames) else None
            frame = frames[place] if item is None else item.encode(size)
            if used + len(frame) > self.frames_bytes_max:
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
            self.long_transfers += 1

    def _put_datagram(self, rank: int, parts: list[bytes], items: list[Item], now_ns: int) -> None:
        link = self.links[rank]
        pool = self._pool
        head = encode_link_head(link.sent + 1, link.received, pool.collected[self._me], pool.consumed(rank))
        packet = seal(self._stamp, DATA, self._group_id, self._tag, self._me, 0, 0, [head, *parts])
        link.put(packet, items, now_ns)
        self.unicasts.setdefault(rank, []).append(packet)

    def tell_status(self, rank: int, now_ns: int) -> None:
        link = self.links[rank]
        pool = self._pool
        asks = link.told_status(self._random.random(), now_ns)
        head = encode_link_head(link.sent, link.received, pool.collected[self._me], pool.consumed(rank))
        body = [head, encode_acked(link.acked), encode_ranges(link.missing())]
        packet = seal(self._stamp, STATUS, self._group_id, self._tag, self._me, ASK if asks else 0, 0, body)
        self.unicasts.setdefault(rank, []).append(packet)

    # ---- the end of the view ---------------------------------------------------------------------------------------

    def ask_for_cut(self, now_ns: int) -> None:
        missing = self._cut.missing()
        source = self._cut.whom_to_ask(now_ns)
        if missing and source >= 0:
            body = encode_request(missing[:RANGES_MAX])
            request = seal(self._stamp, REQUEST, self._group_id, self._tag, self._me, 0, 0, [body])
            self.unicasts.setdefault(source, []).append(request)

    def answer_request(self, asker: int, data: bytes) -> None:
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
                item = self._pool.copies.get(mid) or self._cut.fetched.get(mid)
                frame = b""
                if item is not None:
                    frame = item.encode(size)
                elif number <= self._pool.collected[rank] or mid in self._cut.fetched:
                    frame = encode_needless(mid)
                if frame and used + len(frame) > self.frames_bytes_max:
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
        packet = seal(self._stamp, DATA, self._group_id, self._tag, self._me, FETCHED, 0, [head, *parts])
        self.unicasts.setdefault(rank, []).append(packet)

    def receive_fetched(self, data: bytes) -> None:
        for frame in decode_frames(data, HEADER_SIZE + LINK_SIZE, self._members):
            if frame.kind == ITEM and frame.item is not None:
                mid = (frame.item.sender, frame.item.number)
                if self._cut.wants(mid):
                    self._cut.fetched[mid] = frame.item
            elif frame.kind == NEEDLESS and self._cut.wants((frame.value, frame.number)):
                self._cut.fetched[frame.value, frame.number] = None

    # ---- time ------------------------------------------------------------------------------------------------------

    def deadline_ns(self) -> int:
        deadline_ns = self._cut.ask_at_ns
        for rank, link in enumerate(self.links):
            if rank != self._me or self._members == 1:  # alone, too, a member has steps: a barrier may wait for one
                deadline_ns = min(deadline_ns, link.deadline_ns())
        return deadline_ns

    def tick(self, now_ns: int) -> None:
        """Send each status that is due, and ask for what is missing of a cut."""
        for rank, link in enumerate(self.links):
            if rank != self._me and link.is_due(now_ns):
                self.tell_status(rank, now_ns)
            elif link.is_due(now_ns):
                link.told_status(0, now_ns)
        if self._cut.ask_at_ns <= now_ns:
            self.ask_for_cut(now_ns)

    def tell_due_acks(self, now_ns: int) -> None:
        for rank, link in enumerate(self.links):
            if rank != self._me and link.ack_at_ns <= now_ns:
                self.tell_status(rank, now_ns)
