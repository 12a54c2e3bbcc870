"""One link between two members of a view: ordered, without losses, windowed (isis-1987, 4.1).

Promise: frames that are put on the link are taken at the other end in that order, each once, while both members are in
the view. `is_sent` holds for a datagram when the other end has acknowledged it.

Rule. Datagrams are numbered. The receiver takes them in order and keeps those that came early. A gap may be mere
reordering, so it is given a moment; then the receiver tells what is missing, ever less often, until it has come. Acks
ride on datagrams of the other direction, or go alone in a status, after some datagrams or some time. A sender with
unacknowledged datagrams asks for a status, ever less often, so that the loss of a last one is found. A status goes out
per heartbeat interval at the least: the hello message of the paper.

Safe: a datagram is taken when all before it were. Live: while one is missing, a timer of the receiver runs, or, if the
receiver does not know of it, one of the sender; each try has its chance on the network.

Limits: `copies_max` datagrams are on the way at most; what would be more waits (transfer.py). Up to four
times as many wait at the receiver for an earlier one.
"""

from typing import Final, final

from antiphon.kernel.effects import NEVER
from antiphon.kernel.errors import MalformedError
from antiphon.kernel.options import Options
from antiphon.stacks.label.item import RANGES_MAX, Item, LabelFrame

RESENDS_MAX: Final = 64


@final
class LabelLink:
    """One member's end of the link to one other."""

    __slots__ = (
        "_ack_every", "_copies", "_early", "_gap_tries", "_items", "_options", "_probe_ns", "_unacked", "ack_at_ns",
        "acked", "copies_max", "duplicates", "gap_at_ns", "known", "received", "resends", "sent", "status_at_ns",
    )  # fmt: skip

    def __init__(self, options: Options, window: int) -> None:
        self._options = options
        self.copies_max = 4 * window + 64
        self._ack_every = max(1, min(options.ack_every_packets, window // 4))
        self.sent = 0
        """The number of the last datagram that left…"""
        self.acked = 0
        """…and of the last that the other has acknowledged, with all before it…"""
        self._copies: dict[int, bytes] = {}
        """…and those in between…"""
        self._items: dict[int, list[Item]] = {}
        """…with the broadcasts in each."""
        self.received = 0
        """The last datagram of the other that was taken, with all before it."""
        self._early: dict[int, list[LabelFrame]] = {}
        self.known = 0
        """The last datagram of the other that was heard of."""
        self._unacked = 0
        self.ack_at_ns = NEVER
        self.gap_at_ns = NEVER
        self._gap_tries = 0
        self.status_at_ns = 0
        self._probe_ns = options.heartbeat_interval_ns
        self.duplicates = 0
        self.resends = 0

    # ---- out -------------------------------------------------------------------------------------------------------

    def has_room(self) -> bool:
        """Whether one more datagram may be on the way."""
        return len(self._copies) < self.copies_max

    def on_the_way(self) -> int:
        """How many datagrams the other has not acknowledged."""
        return len(self._copies)

    def put(self, packet: bytes, items: list[Item], now_ns: int) -> None:
        """A datagram with the number `sent + 1` leaves; acks ride on it."""
        self.sent += 1
        self._copies[self.sent] = packet
        self._items[self.sent] = items
        self.told_ack()
        self._ask_after(self._options.probe_interval_ns, now_ns)

    def take_ack(self, ack: int, now_ns: int) -> list[Item]:
        """The other has taken all datagrams up to `ack`; the broadcasts that were in them."""
        items: list[Item] = []
        if ack <= self.acked:
            return items
        for number in range(self.acked + 1, ack + 1):
            del self._copies[number]
            items += self._items.pop(number)
        self.acked = ack
        self._ask_after(self._options.probe_interval_ns, now_ns)
        return items

    def copies_of(self, ranges: list[tuple[int, int]]) -> list[bytes]:
        """Copies of datagrams that the other says it lacks."""
        found: list[bytes] = []
        for first, last in ranges:
            number = max(first, self.acked + 1)
            while number <= min(last, self.sent) and len(found) < RESENDS_MAX:
                found.append(self._copies[number])
                number += 1
        self.resends += len(found)
        return found

    # ---- in --------------------------------------------------------------------------------------------------------

    def check(self, number: int) -> bool:
        """Whether a datagram is new. Raises MalformedError for what cannot be."""
        if not 0 < number <= self.received + 4 * self.copies_max:
            raise MalformedError("window")
        if number <= self.received or number in self._early:
            self.duplicates += 1
            return False
        return True

    def take(self, number: int, frames: list[LabelFrame], now_ns: int) -> list[LabelFrame]:
        """A new datagram has come; all frames that are in order now."""
        self.owe_ack(now_ns)
        result = frames
        if number != self.received + 1:
            self._early[number] = frames
            result = []
        else:
            self.received = number
            if self._early:
                result = list(frames)
                while self.received + 1 in self._early:
                    self.received += 1
                    result += self._early.pop(self.received)
            self.gap_at_ns = NEVER
            self._gap_tries = 0
        self.heard_of(number, now_ns)
        return result

    def heard_of(self, number: int, now_ns: int) -> None:
        """There is a datagram with this number."""
        if number > self.known:
            self.known = number
        if self.received < self.known and self.gap_at_ns == NEVER:
            self.gap_at_ns = now_ns + self._options.gap_delay_ns

    def missing(self) -> list[tuple[int, int]]:
        """Which datagrams are missing, as far as is known."""
        result: list[tuple[int, int]] = []
        first = self.received + 1
        for number in sorted(self._early):
            if first < number:
                result.append((first, number - 1))
            first = number + 1
        if first <= self.known:
            result.append((first, self.known))
        return result[:RANGES_MAX]

    def owe_ack(self, now_ns: int) -> None:
        """There is something to acknowledge."""
        self._unacked += 1
        if self._unacked >= self._ack_every:
            self.ack_at_ns = now_ns
        elif self.ack_at_ns == NEVER:
            self.ack_at_ns = now_ns + self._options.ack_delay_ns

    def told_ack(self) -> None:
        """An ack is on its way."""
        self._unacked = 0
        self.ack_at_ns = NEVER

    # ---- time ------------------------------------------------------------------------------------------------------

    def _ask_after(self, interval_ns: int, now_ns: int) -> None:
        self._probe_ns = interval_ns if self._copies else self._options.heartbeat_interval_ns
        self.status_at_ns = now_ns + self._probe_ns

    def deadline_ns(self) -> int:
        return min(self.ack_at_ns, self.gap_at_ns, self.status_at_ns)

    def is_due(self, now_ns: int) -> bool:
        """Whether a status is to go out now."""
        return self.deadline_ns() <= now_ns

    def told_status(self, jitter: float, now_ns: int) -> bool:
        """A status goes out now: whether it asks for one in return."""
        if self.gap_at_ns <= now_ns:
            options = self._options
            again_ns = min(options.resend_interval_ns << min(self._gap_tries, 8), options.resend_interval_ns_max)
            self.gap_at_ns = now_ns + again_ns + int(jitter * options.gap_delay_ns)
            self._gap_tries += 1
        asks = False
        if self.status_at_ns <= now_ns:
            asks = bool(self._copies)
            self._ask_after(min(2 * self._probe_ns, self._options.heartbeat_interval_ns), now_ns)
        self.told_ack()
        return asks
