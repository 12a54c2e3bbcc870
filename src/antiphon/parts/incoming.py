"""The packets of one other member, on their way in: duplicates out, gaps found, copies kept until stable.

Three numbers move up through the stream:

    stable <= received <= known           consumed <= received

received  every packet up to here has arrived
known     the highest packet that is known to exist: by its number, or by somebody's ack
consumed  every packet up to here has been handed on; kept by the order layer through `consume`
stable    every member has every packet up to here, says the sender; copies up to min(stable, consumed) are let go

Bounds. The sender never numbers beyond (least consumed of any member) + n, where n is its window and a few packets more
(Options.numbers_max), so a number above consumed + n is not genuine and is refused. A packet numbered x was made when
x - n was consumed by all, hence stable, and says so: no more than n copies are held after it.

Gaps. One timer per stream: a gap is reported `gap_delay_ns` after it was noticed (it may be mere reordering), and
again and again until it is closed, less often while nothing comes. The first request goes to the sender itself, the
later ones to any member that holds the packets; see exchange.py.

The end. After `close_at` only the packets of a cut still count, and what comes of them is set aside, in `fetched`: the
cut is only proposed, and another may take its place.
"""

from typing import final

from antiphon.kernel.effects import NEVER
from antiphon.kernel.options import Options
from antiphon.parts.packet import RANGES_MAX, DataPacket
from antiphon.parts.ranges import Ranges


@final
class IncomingStream:
    """What this member holds of one other member's packets in one view."""

    __slots__ = (
        "_cut",
        "_numbers_max",
        "_options",
        "consumed",
        "fetched",
        "gap_at_ns",
        "gap_interval_ns",
        "gap_tries",
        "known",
        "packets",
        "received",
        "stable",
    )

    def __init__(self, options: Options) -> None:
        self._options = options
        self._numbers_max = options.numbers_max()
        self._cut: Ranges | None = None
        self.received = 0
        self.known = 0
        self.consumed = 0
        self.stable = 0
        self.packets: dict[int, DataPacket] = {}
        self.fetched: dict[int, DataPacket] = {}
        self.gap_at_ns = NEVER
        self.gap_interval_ns = options.resend_interval_ns
        self.gap_tries = 0

    def plausible(self, number: int) -> bool:
        """Whether the sender can have given out this number at all."""
        return number <= self.consumed + self._numbers_max

    def is_duplicate(self, number: int) -> bool:
        return number <= self.received or number in self.packets or number in self.fetched

    def add(self, packet: DataPacket, now_ns: int) -> None:
        """Take in a packet that is plausible and no duplicate."""
        number = packet.number
        self.packets[number] = packet
        if number > self.known:
            self.known = number
        if number == self.received + 1:
            received = number
            while received + 1 in self.packets:
                received += 1
            self.received = received
            self.gap_tries = 0
            self.gap_interval_ns = self._options.resend_interval_ns
        if self.received != self.known or self.gap_at_ns != NEVER:
            self._watch(now_ns)

    def set_aside(self, packet: DataPacket, now_ns: int) -> None:
        """Keep a packet of the cut until the cut is decided."""
        self.fetched[packet.number] = packet
        self.gap_tries = 0
        self.gap_interval_ns = self._options.resend_interval_ns
        self._watch(now_ns)

    def take_fetched(self) -> list[DataPacket]:
        """What was set aside and belongs to the cut, in order."""
        assert self._cut is not None, "took what was fetched for a cut that is not known"
        packets = [self.fetched[number] for number in sorted(self.fetched) if self._cut.has(number)]
        self.fetched.clear()
        return packets

    def copy_of(self, number: int) -> DataPacket | None:
        """A packet that is held here, or set aside."""
        return self.packets.get(number) or self.fetched.get(number)

    def note_known(self, number: int, now_ns: int) -> None:
        """Somebody's ack shows that this packet exists."""
        if number > self.known:
            self.known = number
            self._watch(now_ns)

    def _watch(self, now_ns: int) -> None:
        if self.received == self.known or (self._cut is not None and not self.gaps()):
            self.gap_at_ns = NEVER
            self.gap_tries = 0
        elif self.gap_at_ns == NEVER:
            self.gap_at_ns = now_ns + self._options.gap_delay_ns

    def asked(self, now_ns: int, jitter_ns: int) -> None:
        """A request for the gaps went out: the next one, later."""
        self.gap_tries += 1
        self.gap_at_ns = now_ns + self.gap_interval_ns + jitter_ns
        self.gap_interval_ns = min(2 * self.gap_interval_ns, self._options.resend_interval_ns_max)

    def gaps(self) -> list[tuple[int, int]]:
        """The first missing ranges, at most as many as one request carries."""
        ranges: list[tuple[int, int]] = []
        number = self.received + 1
        while number <= self.known and len(ranges) < RANGES_MAX:
            if not self._missing(number):
                number += 1
                continue
            first = number
            while number <= self.known and self._missing(number):
                number += 1
            ranges.append((first, number - 1))
        return ranges

    def _missing(self, number: int) -> bool:
        if number in self.packets or number in self.fetched:
            return False
        return self._cut is None or self._cut.has(number)

    def close_at(self, cut: Ranges, now_ns: int) -> None:
        """The stream ends: these packets and no others still count."""
        self._cut = cut
        self.known = max(self.received, cut.last())
        self.gap_at_ns = NEVER
        self._watch(now_ns)

    def consume(self) -> None:
        """The next packet in order has been handed on."""
        self.consumed += 1
        assert self.consumed <= self.received, "consumed what was never received"
        if self.consumed <= self.stable:
            self.packets.pop(self.consumed, None)

    def note_stable(self, stable: int) -> None:
        """The sender says that everybody has everything up to here: copies are needed no longer."""
        let_go = min(self.stable, self.consumed)
        self.stable = stable
        for number in range(let_go + 1, min(stable, self.consumed) + 1):
            self.packets.pop(number, None)
