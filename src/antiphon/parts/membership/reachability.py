"""Who can talk to whom, and who goes on where not everybody can (links that work one way only, or are not transitive).

Promise: if from some time on the links between the members of a view stay as they are, and some members that all hear
each other are a majority, then within `settle_bound_ns` a view of such members is installed, and views do not change
any more for the sake of these links. A member that is deaf, mute, mad or flapping holds up the others no longer than
that, and fells none of them.

Rule. Each member keeps a row: the strain of its link to every other member (parts/suspicion.py). As long as some link
is strained, all members multicast HEARS once per heartbeat: their own row, and the last row of each member that
somebody complains about, since that member may not reach everybody. Rows are numbered by their owner, and count for
`silence_ns_min` after they came. So soon all members that are connected, by whatever detour, have the same matrix.

  lost       a member is lost if it is silent here and nobody vouches for it, or if somebody takes the link to it to be
             cut and nobody hears it. That is how crashed and mute members go.
  cut        the link between two members that are not lost is cut if either of them says so.
  component  the largest set of members without a cut link between two of them; of several as large, the one with the
             oldest members, compared from the oldest on. Who is not in it is left out, if it is a quorum and has been
             the same for `doubt_ns`. If it is none, each member suspects those that it has no link to, and finds no
             majority.

A member whose own link was down for a while may coordinate as soon as it is back. Lest it go on with those alone that
it hears first, it waits a little for the others (parts/suspicion.py).

Those left out are suspected, not asked for their state, and not obeyed when they ask. Who is itself left out starts no
round, and waits to be told.

A process that was left out comes back as a new incarnation, perhaps with the same bad links. So its name is barred: it
is let in only when it has lately heard from every member (KNOCK is sent in answer to a JOIN that came directly, so it
proves both ways; both are as long as packets may be). While the links stay bad it stays outside, and views stay.

Safe: this decides who is asked, waited for and followed, and nothing else. What becomes of a view is still decided by
rounds and quorums (agreement.py), whatever anybody suspects.

Live: the links being stable, the matrix is the same at all members of the component within two heartbeats after the
last link was taken to be cut, so they agree on the component, its oldest member starts a round, all of it answers, and
nobody else interferes. For members that were heard regularly, a link is taken to be cut twice `silence_ns_min` after it
went bad; in any case after twice `silence_ns_max`.
"""

from typing import Final, final

from antiphon.kernel.errors import MalformedError
from antiphon.kernel.options import Options
from antiphon.parts.membership.messages import RowBody
from antiphon.parts.membership.policies import MembershipPolicy
from antiphon.parts.suspicion import CUT, HEARD, STRAIN_MAX, STRAINED

_STEPS_MAX: Final = 5_000
"""Sets of members looked at in search of the largest; beyond that the best so far is taken."""


def settle_bound_ns(options: Options) -> int:
    """How long after links went bad the view of the component is installed at the latest, where nothing else is lost
    and members were heard regularly: the link is taken to be cut; three heartbeats, for the row to leave, to be passed
    on and to be looked at; the choice has to stand; then a change of view."""
    return 2 * options.silence_ns_min + 3 * options.heartbeat_interval_ns + 2 * options.doubt_ns + 6 * options.retry_ns


@final
class _ComponentSearch:
    """Looks for the largest set of ranks without a cut link between two of them."""

    __slots__ = ("_ends", "_steps", "_strangers", "best")

    def __init__(self, ends: list[int], strangers: dict[int, set[int]]) -> None:
        self._ends = ends
        self._strangers = strangers
        self._steps = 0
        self.best: list[int] = []

    def look(self, index: int, chosen: list[int]) -> None:
        """Older members are taken first, so of two sets as large the one with older members is found first."""
        self._steps += 1
        if len(chosen) + len(self._ends) - index <= len(self.best) or self._steps > _STEPS_MAX:
            return
        if index == len(self._ends):
            self.best = chosen
            return
        rank = self._ends[index]
        if self._strangers[rank].isdisjoint(chosen):
            self.look(index + 1, [*chosen, rank])
        self.look(index + 1, chosen)


def component(members: set[int], cuts: set[tuple[int, int]]) -> set[int]:
    """The largest set of these ranks without a cut link between two of them; of several the one with the oldest."""
    strangers: dict[int, set[int]] = {}
    for one, other in cuts:
        if one in members and other in members:
            strangers.setdefault(one, set()).add(other)
            strangers.setdefault(other, set()).add(one)
    search = _ComponentSearch(sorted(strangers), strangers)
    search.look(0, [])
    return (members - set(strangers)) | set(search.best)


def _strained(row: bytes, least: int) -> list[int]:
    """The ranks to which the link is strained this much, or more."""
    return [rank for rank, entry in enumerate(row) if entry & STRAIN_MAX >= least]


def _heard(row: bytes) -> list[int]:
    """The ranks that the owner of the row has heard lately."""
    return [rank for rank, entry in enumerate(row) if entry & HEARD]


@final
class Reachability:
    """One member's copy of the reachability matrix of a view."""

    __slots__ = ("_arrived_ns", "_candidate", "_me", "_members", "_number", "_options", "_policy", "_rows", "_since_ns",
                 "estranged", "left_out", "lost")  # fmt: skip

    def __init__(self, members: int, me: int, options: Options, policy: MembershipPolicy) -> None:
        self._policy = policy
        self._members = members
        self._me = me
        self._options = options
        self._rows: list[bytes] = [b""] * members
        self._number = [0] * members
        self._arrived_ns = [0] * members
        self._candidate: set[int] = set()
        self._since_ns = 0
        self.left_out: set[int] = set()
        """Not in the component that goes on; empty while there is no quorum, or all links are sound."""
        self.lost: set[int] = set()
        """Given up by somebody else, and heard by nobody."""
        self.estranged: set[int] = set()
        """Where no majority hears each other: those that this member has no link to."""

    def check(self, rows: list[RowBody]) -> None:
        """Raises MalformedError where these cannot be rows of this view."""
        for rank, number, row in rows:
            if not 0 <= rank < self._members or number <= 0 or len(row) != self._members:
                raise MalformedError("membership")

    def take(self, rows: list[RowBody], now_ns: int) -> bool:
        """Take in rows that were checked; whether one of them has a complaint that was not known."""
        is_news = False
        for rank, number, row in rows:
            if rank == self._me or number <= self._number[rank]:
                continue
            before = self._row(rank, now_ns)
            self._number[rank] = number
            self._rows[rank] = row
            self._arrived_ns[rank] = now_ns
            for other in _strained(row, STRAINED):
                is_news = is_news or not before or before[other] & STRAIN_MAX < STRAINED
        return is_news

    def _row(self, rank: int, now_ns: int) -> bytes:
        """The row of this member, if it is recent enough to count."""
        if rank != self._me and now_ns >= self._arrived_ns[rank] + self._options.silence_ns_min:
            return b""
        return self._rows[rank]

    def is_troubled(self, now_ns: int) -> bool:
        """Whether some link is strained, as far as is known here."""
        return any(_strained(self._row(rank, now_ns), STRAINED) for rank in range(self._members))

    def vouched(self, now_ns: int) -> set[int]:
        """The members that some other member than this one hears."""
        result: set[int] = set()
        for rank in range(self._members):
            if rank != self._me and rank not in self.lost:
                result.update(other for other in _heard(self._row(rank, now_ns)) if other != rank)
        return result

    def rows(self, own: bytes, now_ns: int) -> list[RowBody]:
        """What to tell the others: the own row, and those of the members that somebody complains about."""
        self._rows[self._me] = own
        self._number[self._me] += 1
        result = [(self._me, self._number[self._me], own)]
        doubted: set[int] = set()
        for rank in range(self._members):
            doubted.update(_strained(self._row(rank, now_ns), STRAINED))
        for rank in sorted(doubted):
            row = self._row(rank, now_ns)
            if row and rank != self._me:
                result.append((rank, self._number[rank], row))
        return result

    def choose(self, own: bytes, silent: set[int], now_ns: int) -> None:
        """Work out who is lost and who is left out, given this member's own row and whom it has lost itself."""
        self._rows[self._me] = own
        heard = self.vouched(now_ns)
        heard.update(_heard(own))
        lost: set[int] = set()
        cuts: set[tuple[int, int]] = set()
        for rank in range(self._members):
            if rank in silent:
                continue
            for other in _strained(self._row(rank, now_ns), CUT):
                if other in heard:
                    cuts.add((rank, other))
                elif other not in silent:
                    lost.add(other)
        self.lost = lost
        self._settle(set(range(self._members)) - silent - lost, cuts, now_ns)

    def _settle(self, there: set[int], cuts: set[tuple[int, int]], now_ns: int) -> None:
        """Leave members out when the choice has stood for long enough; take them back at once."""
        candidate: set[int] = set()
        self.estranged = set()
        cuts = {(one, other) for one, other in cuts if one in there and other in there}
        if cuts:
            chosen = component(there, cuts)
            if self._policy.may_go_on(chosen, self._members):
                candidate = there - chosen
            else:
                self.estranged = {other for pair in cuts for other in pair if self._me in pair and other != self._me}
        if candidate != self._candidate:
            self._candidate = candidate
            self._since_ns = now_ns
        self.left_out &= candidate
        if now_ns >= self._since_ns + self._options.doubt_ns:
            self.left_out = set(candidate)

    def deadline_ns(self, never_ns: int) -> int:
        """When a choice that was made will have stood for long enough."""
        if self.left_out == self._candidate:
            return never_ns
        return self._since_ns + self._options.doubt_ns
