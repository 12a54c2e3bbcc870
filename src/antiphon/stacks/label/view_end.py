"""How a view of the stack `label` ends for one member: which broadcasts still count, and how far the order has come.

What a member holds is told by its numbers, collected ones included: all those were delivered wherever they were to be.
What is missing here of a cut is asked for, of one of those that hold the cut after the other. Whoever is asked answers
with a copy, or says that nobody needs one: the broadcast was collected. Copies are fetched whether they are for this
member or not, since whoever accepts a cut must be able to hand the whole of it on. What was fetched is set aside until
the cut is decided, since another cut may come instead.

The annex of a member's word is how far it has followed the total order (ordering.py, rule 5); the greatest counts. And
it is what the member holds of guests (guests.py, rule 2).
"""

from struct import Struct
from typing import Final, final

from antiphon.kernel.effects import NEVER
from antiphon.kernel.errors import MalformedError
from antiphon.kernel.identity import NUMBER_MAX
from antiphon.kernel.options import Options
from antiphon.parts.former_life import FormerLife
from antiphon.parts.membership.session import ViewEnd
from antiphon.parts.ranges import Ranges
from antiphon.stacks.label.guests import GuestTable, decode_table, encode_table, merge_tables
from antiphon.stacks.label.item import NOWHERE, Item, Mid, Priority
from antiphon.stacks.label.link import LabelLink
from antiphon.stacks.label.ordering import TotalOrder
from antiphon.stacks.label.pool import MessagePool

_ANNEX: Final = Struct("<QH")
ORDER_ANNEX_SIZE: Final = 10
"""Where guests begin in an annex."""


@final
class LabelViewEnd(ViewEnd):
    """The end of one view, at one member."""

    __slots__ = (
        "_cut", "_guests", "_links", "_me", "_options", "_order", "_pool", "_sources", "_tries", "ask_at_ns",
        "fetched", "former_life", "reached",
    )  # fmt: skip

    def __init__(
        self,
        pool: MessagePool,
        order: TotalOrder,
        links: list[LabelLink],
        guests: GuestTable,
        me: int,
        options: Options,
    ) -> None:
        super().__init__()
        self._guests = guests
        self._pool = pool
        self._order = order
        self._links = links
        self._me = me
        self._options = options
        self._cut: list[Ranges] | None = None
        self._sources: list[int] = []
        self._tries = 0
        self.ask_at_ns = NEVER
        self.fetched: dict[Mid, Item | None] = {}
        """What has come of the cut since; None: nobody needs it."""
        self.reached: Priority = NOWHERE
        """How far any survivor has followed the total order."""
        self.former_life = FormerLife(len(links), options.silence_ns_min)

    def sent(self) -> int:
        return sum([link.sent for link in self._links])

    def received_by(self, rank: int) -> int:
        return self.sent() - self._links[rank].on_the_way()

    def has_former_life(self, now_ns: int) -> bool:
        return self.former_life.is_certain(now_ns)

    # ---- how far the order has come --------------------------------------------------------------------------------

    def annex(self) -> bytes:
        place, rank = self._order.reached()
        return _ANNEX.pack(place, rank) + encode_table(self._guests.table())

    def merge_annexes(self, annexes: list[bytes]) -> bytes:
        place, rank = max([_decode(annex) for annex in annexes], default=NOWHERE)
        table = merge_tables([decode_table(annex, ORDER_ANNEX_SIZE) for annex in annexes])
        return _ANNEX.pack(place, rank) + encode_table(table)

    def is_annex(self, annex: bytes) -> bool:
        if len(annex) < ORDER_ANNEX_SIZE:
            return False
        try:
            decode_table(annex, ORDER_ANNEX_SIZE)
        except MalformedError:
            return False
        place, rank = _decode(annex)
        return place <= NUMBER_MAX and rank < len(self._links)

    def take_annex(self, annex: bytes) -> None:
        self.reached = _decode(annex)

    # ---- the cut ---------------------------------------------------------------------------------------------------

    def holdings(self) -> list[Ranges]:
        result: list[Ranges] = []
        for rank, collected in enumerate(self._pool.collected):
            held = Ranges([(1, collected)] if collected else [])
            for number in self._pool.numbers(rank):
                held.add(number)
            result.append(held)
        return result

    def is_genuine(self, holdings: list[Ranges]) -> bool:
        if len(holdings) != len(self._links):
            return False
        for rank, held in enumerate(holdings):
            last = 0
            for first, end in held.pairs:
                if not last < first <= end:
                    return False
                last = end
            if last and not self._exists(rank, last):
                return False
        return True

    def _exists(self, rank: int, number: int) -> bool:
        """Whether somebody can hold so many of a member's broadcasts: what was collected may be news here, and as many
        may have followed."""
        if rank == self._me:
            return number <= self._pool.seen[rank]
        return number <= self._pool.collected[rank] + 2 * self._pool.numbers_max

    def close_at(self, cut: list[Ranges], sources: list[int], now_ns: int) -> None:
        self.frozen = True
        self._cut = cut
        self.fetched = {mid: item for mid, item in self.fetched.items() if cut[mid[0]].has(mid[1])}
        self._sources = [rank for rank in sources if rank != self._me]
        self._tries = 0
        self.ask_at_ns = NEVER if self.is_complete() else now_ns

    def wants(self, mid: Mid) -> bool:
        """Whether a broadcast is of the cut and not here yet."""
        is_new = not self._pool.has(mid) and mid not in self.fetched
        return is_new and self._cut is not None and self._cut[mid[0]].has(mid[1])

    def is_complete(self) -> bool:
        return self._cut is not None and not self.missing()

    def missing(self) -> list[tuple[int, int, int]]:
        """Rank, first and last number of what is missing of the cut."""
        result: list[tuple[int, int, int]] = []
        if self._cut is None:
            return result
        for rank, part in enumerate(self._cut):
            collected = self._pool.collected[rank]
            for first, last in part.pairs:
                for number in range(max(first, collected + 1), last + 1):
                    if not self.wants((rank, number)):
                        continue
                    if result and result[-1][0] == rank and result[-1][2] == number - 1:
                        result[-1] = (rank, result[-1][1], number)
                    else:
                        result.append((rank, number, number))
        return result

    def whom_to_ask(self, now_ns: int) -> int:
        """Whom to ask for what is missing; -1 if there is nobody. First, and every other time, its sender, since maybe
        nobody else has it; in between the others that hold a part of the cut, in turn."""
        options = self._options
        again_ns = min(options.resend_interval_ns << min(self._tries, 8), options.resend_interval_ns_max)
        self.ask_at_ns = now_ns + again_ns
        if not self._sources:
            return -1
        self._tries += 1
        missing = self.missing()
        if self._tries % 2 and missing and missing[0][0] in self._sources:
            return missing[0][0]
        return self._sources[self._tries // 2 % len(self._sources)]


def _decode(annex: bytes) -> Priority:
    place, rank = _ANNEX.unpack_from(annex)
    return int(place), int(rank)
