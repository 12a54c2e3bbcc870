"""Agreed order by a token: ABCAST (isis-1991, section 5.2).

Promise. All members deliver the packets of level `agreed` and `safe` in one order, which respects causality. A `safe`
packet is delivered only when every member holds it and knows its place.

One member at a time holds the token: the oldest at first. It puts packets of these levels in order as vector time
makes them ready (causal.py), and tells the others by *placements* (the paper's sets-order), which ride on whatever it
sends next, or on a packet of their own if it has nothing to send. Its own packets take the place in which they are
sent and cost no placement. Everybody else keeps a packet of these levels until its place comes.

Moving the token. When AFTER_PACKETS packets in a row came from one other member, and none of its own, the holder hands
the token to that member with its next placement. Terms count the hands that the token has been through; placements
are applied term by term, and within a term in the holder's packet order, so all members read one sequence.

Safe: a placement is read when it and all the holder's packets before it are here, whether they are delivered or not;
hence two members differ only in how far they have read. The sequence respects causality because the holder places a
packet when it is ready, and ready packets come in causal order. Live: the holder is a member; if it fails, the view
ends, and what has no place gets one by a rule (delivery.py).

Deviations: the holder places packets when they are ready, not when it delivers them, so that a `safe` packet, which has
to wait for everybody, does not keep those after it from being ordered; but it delivers nothing before its place is
told, or the place would be lost if the view ended in between. Agreed order is not uniform (the paper's footnote 4): a
member that fails may have delivered by a placement that nobody else has seen. `safe` is.
"""

from collections import deque
from typing import Final, final

from antiphon.parts.packet import DataPacket
from antiphon.stacks.vector.timestamp import KEEP, RUN_MAX, RUN_SIZE, Placement

AFTER_PACKETS: Final = 8
RUNS_MAX: Final = 32
"""Runs in one placement; what is beyond goes into the next."""
_NOBODY: Final = -1
_UNREAD_MAX: Final = 65_536
"""Packets with something to say about the order, of one member that does not hold the token. A member that keeps to
the rules never gets there."""


@final
class OrderPlace:
    """The place of one packet in the total order, and the packet by which its holder told it (0: not told yet)."""

    __slots__ = ("number", "rank", "told_by", "told_in")

    def __init__(self, rank: int, number: int, told_by: int, told_in: int) -> None:
        self.rank = rank
        self.number = number
        self.told_by = told_by
        self.told_in = told_in


@final
class AgreedOrder:
    """The total order of one view, as one member knows it."""

    __slots__ = (
        "_early",
        "_last_place",
        "_last_rank",
        "_me",
        "_placed",
        "_queues",
        "_row",
        "_terms",
        "_unplaced",
        "has_news",
        "holder",
        "sequence",
        "term",
        "unread",
        "untold",
        "used",
    )

    def __init__(self, members: int, me: int) -> None:
        self._me = me
        self.term = 0
        self.holder = 0
        self.sequence: deque[OrderPlace] = deque()
        """Places that are known and not yet delivered."""
        self.untold: list[OrderPlace] = []
        """Places that have been given and that the others do not know of."""
        self.has_news = False
        """Whether the next own packet has something to say about the order: places, or that the token has come here."""
        self.unread = 0
        """Packets here that say something about the order and have not been read."""
        self._unplaced: dict[tuple[int, int], None] = {}
        """Ready, in the order in which they became so, without a place…"""
        self._placed: set[tuple[int, int]] = set()
        """…and placed, but not yet ready here."""
        self._early: list[dict[int, tuple[Placement | None, bool]]] = [{} for _ in range(members)]
        self._queues: list[deque[tuple[int, Placement | None, bool]]] = [deque() for _ in range(members)]
        self._terms = [0] * members
        self._last_place = [0] * members
        """Packets of one sender get their places in its order, and each gets one."""
        self._last_rank = -1
        self._row = 0
        self.used = False
        """Whether any packet of this view is of these levels."""

    # ---- placing ---------------------------------------------------------------------------------------------------

    def ready(self, rank: int, number: int) -> None:
        """A packet of these levels, of whatever member, is ready: the holder places it."""
        self.used = True
        if (rank, number) in self._placed:
            self._placed.discard((rank, number))
        elif self.holder == self._me:
            self._place(rank, number)
        else:
            self._unplaced[rank, number] = None

    def _place(self, rank: int, number: int) -> None:
        place = OrderPlace(rank, number, self._me, 0)
        self.sequence.append(place)
        self.untold.append(place)
        self.has_news = True
        self._row = self._row + 1 if rank == self._last_rank else 1
        self._last_rank = rank

    def untold_bytes(self) -> int:
        """At most so many bytes does the next placement take."""
        return 16 + RUN_SIZE * min(RUNS_MAX, len(self.untold))

    def placement(self, number: int, in_place: bool) -> Placement | None:
        """What own packet `number` has to say about the order, if anything; `in_place`: it takes a place itself."""
        if self.holder != self._me:
            return None
        runs: list[tuple[int, int, int]] = []
        told = 0
        for place in self.untold:
            if runs and runs[-1][0] == place.rank and sum(runs[-1][1:]) == place.number and runs[-1][2] < RUN_MAX:
                runs[-1] = (place.rank, runs[-1][1], runs[-1][2] + 1)
            elif len(runs) == RUNS_MAX:
                break
            else:
                runs.append((place.rank, place.number, 1))
            place.told_in = number
            told += 1
        del self.untold[:told]
        self.has_news = bool(self.untold)
        new_term = self._terms[self._me] != self.term
        if not runs and not new_term:
            return None
        self._terms[self._me] = self.term
        placement = Placement(self.term, runs)
        if not self.untold and self._row >= AFTER_PACKETS and self._last_rank != self._me and not in_place:
            placement.next_holder = self._last_rank
            self._pass_token(self._last_rank)
        return placement

    def sent(self, number: int) -> None:
        """An own packet of these levels went out while I hold the token: it takes its place as it goes."""
        self.used = True
        self.sequence.append(OrderPlace(self._me, number, self._me, number))
        self._last_rank = self._me

    def _pass_token(self, rank: int) -> None:
        self.term += 1
        self.holder = rank
        self._row = 0
        self._last_rank = -1
        if rank == self._me:
            self.has_news = True
            # Own ones come first: they follow none of the others, which are not delivered yet, and they may fill the
            # window, so that nothing could be told of those behind them.
            unplaced = [place for place in self._unplaced if place[0] == self._me]
            unplaced += [place for place in self._unplaced if place[0] != self._me]
            self._unplaced.clear()
            for sender, number in unplaced:
                self._place(sender, number)

    # ---- reading ---------------------------------------------------------------------------------------------------

    def has_room(self, rank: int) -> bool:
        """Whether more may come of this member that waits to be read."""
        return len(self._queues[rank]) < _UNREAD_MAX

    def take(self, packet: DataPacket, placement: Placement | None) -> None:
        """A packet came in that says something about the order: by what it carries, or by its own place."""
        self.unread += 1
        self._early[packet.sender][packet.number] = (placement, packet.count > 0 and packet.ordered)

    def read(self, rank: int, received: int) -> bool:
        """All packets of this member up to `received` are here: read on; whether the sequence grew."""
        early = self._early[rank]
        if early:
            for number in sorted(early):
                if number > received:
                    break
                placement, in_place = early.pop(number)
                self._queues[rank].append((number, placement, in_place))
        return self._apply()

    def _apply(self) -> bool:
        grew = False
        while self.holder not in (self._me, _NOBODY) and self._queues[self.holder]:
            holder = self.holder
            number, placement, in_place = self._queues[holder][0]
            if placement is not None and placement.term > self.term:
                break  # its time has not come: the token is yet to go there
            self._queues[holder].popleft()
            self.unread -= 1
            if placement is not None and placement.term == self.term:
                self._terms[holder] = self.term
                for sender, first, count in placement.runs:
                    for placed in range(max(first, self._last_place[sender] + 1), first + count):
                        self._read_place(sender, placed, holder, number)
                grew = True
            if in_place and self._terms[holder] == self.term and number > self._last_place[holder]:
                self._read_place(holder, number, holder, number)
                grew = True
            if placement is not None and placement.term == self.term and placement.next_holder != KEEP:
                self._pass_token(placement.next_holder)
        return grew

    def _read_place(self, rank: int, number: int, told_by: int, told_in: int) -> None:
        self.sequence.append(OrderPlace(rank, number, told_by, told_in))
        self._last_place[rank] = number
        if (rank, number) in self._unplaced:
            del self._unplaced[rank, number]
        else:
            self._placed.add((rank, number))

    def place_at_end(self, rank: int, number: int) -> None:
        """The view ends, and the place of this packet was lost with the holder."""
        self.sequence.append(OrderPlace(rank, number, self._me, 1))

    def is_placed(self, rank: int, number: int) -> bool:
        """Whether this packet of another member, of these levels, has a place, or gets it here as soon as it is
        ready."""
        return self.holder == self._me or number <= self._last_place[rank]

    def close(self) -> None:
        """The view ends: nobody gives places any more, and those that were not told are void."""
        if self.untold:
            untold = len(self.untold)
            for _ in range(untold):
                self.sequence.pop()
            self.untold = []
        self.has_news = False
        self.holder = _NOBODY
