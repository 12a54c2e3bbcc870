"""The total order of agreed and safe messages, read off the message graph before everybody was heard (transis-1992,
3.3: the ToTo criterion of its reference 2, of which the paper tells the properties alone).

Promise. All members place the same messages in the same order, which respects the order of the graph; a message that
all n members follow has its place; a message that a majority follows, while the others are silent, has its place (best
case n/2 + 1); no time is involved.

Definitions. Messages that are to be ordered are *pending* until they are placed. Order is made in rounds; within a
round "pending" means: at its beginning.
  candidate   a pending message that follows no pending one
  vote of q   the first message of q, ordered or not, that equals or follows a pending one; it supports every candidate
              that it equals or follows. V(c): the members whose votes support c
  beaten      d is beaten if for some candidate c more than n/2 members support c and not d
  outcome     all candidates that are not beaten, those with more votes first, of those with as many the lowest rank
When the outcome is placed the next round begins, with the beaten candidates still pending.

Rule. With u members unheard, that is without a vote yet:
  out     d is out if among the votes known it is beaten. An unseen candidate is out if some V(c) exceeds n/2.
  sure    d is sure if 2u <= n and for each other candidate c, |V(c) - V(d)| + u <= n/2.
  next    of the candidates that are not out and not placed, d is placed next if it is sure, precedes each other one,
          e, even if all the unheard support e alone, and precedes an unseen candidate, unless those are out, of
          each unheard member, even if all the unheard support it.
The round ends when all known candidates that are not out are placed and unseen ones are out, or nobody is unheard.

Why the definitions make sense. The vote of q is known as soon as it is here, because what it follows is here: votes do
not change as the graph grows. A candidate is the vote of its sender: an earlier message of the sender that follows
something pending would be followed by the candidate. So the sender of an unseen candidate is unheard, and so is whoever
supports it, and when all are heard all candidates are known. The outcome is not empty: if c beats d then V(c) exceeds
n/2, and what beats c would have more than n/2 members without c. Members that vote for several candidates count for
each.

Safe. By induction over rounds all members begin a round with the same placed messages, so their votes are the same
where they know them. What the rule places next is next in the outcome, whatever the unheard vote, for each of: being
beaten needs more than the known votes and all u against d; e comes first only with more votes, and has at most u more
than known; an unseen candidate has at most u. What is out stays out, since known votes stay. So what one member has
placed is, at any time, a beginning of what any other will have placed.

Tight. Where the rule stops, two extensions of the graph differ in what comes next (or the round ends in one of them).
Let d be the first by votes and rank of what is known, not out, not placed. If all the unheard support d alone, it comes
next. If d is not sure, they may support c alone, or a new candidate, which beats d; if e or an unseen x could precede
d, they may support that one alone, which is then not beaten. If there is no such d, the unheard may support a new
candidate, which comes next, or an old one, and the round ends. Any such votes are possible: whoever is unheard may have
received just what the vote is to follow.

Live. A message with n followers has all votes in each round until it is placed; with u = 0 the rule stops only at the
end of a round; each round places something. Members acknowledge what is to be ordered (session.py).

What cannot be had. To place *all* candidates as soon as all members are heard contradicts the best case of n/2 + 1. Let
a majority M support c alone, follow that with e, and all of M follow e. By the best case, whoever has just this places
c, then e. Let x be outside M with a candidate d of its own. Whoever has c, the first votes of M and d has heard all and
would place d before it sees e. Both graphs are parts of one. So d has to wait for a further round, and such d are what
`beaten` names; all other candidates are placed as soon as all are heard. Were `beaten` defined by fewer than a majority
more would wait; by more, the best case would be lost.

Members that are gone abstain (`close`): to abstain is one more thing the unheard may do that the rule allows for.

Cost: a step per member for each message and round, and the square of the number of candidates when a vote comes in.
"""

from collections import deque
from typing import Final, final

Place = tuple[int, int]
"""A message: the rank of its sender, and its number."""

NOT_YET: Final = -1
ROUND_OVER: Final = -2


def next_in_round(members: int, support: dict[int, int], placed: list[int], unheard: int) -> int:
    """The rank whose candidate comes next in this round; NOT_YET if that depends on the unheard, ROUND_OVER if none
    comes any more. `support`: by rank of each candidate, the bits of the members that support it."""
    silent = unheard.bit_count()
    unseen_out = not unheard
    alive: list[int] = []
    for rank, voters in support.items():
        if 2 * voters.bit_count() > members:
            unseen_out = True
        if rank not in placed and 2 * _most_without(rank, support) <= members:
            alive.append(rank)
    if not alive:
        return ROUND_OVER if unseen_out else NOT_YET
    leader = alive[0]
    for rank in alive:
        if _precedes(support[rank].bit_count(), rank, support[leader].bit_count(), leader):
            leader = rank
    if 2 * silent > members or 2 * (_most_without(leader, support) + silent) > members:
        return NOT_YET
    votes = support[leader].bit_count()
    for rank in alive:
        if rank != leader and not _precedes(votes, leader, support[rank].bit_count() + silent, rank):
            return NOT_YET
    if not unseen_out and not _precedes(votes, leader, silent, (unheard & -unheard).bit_length() - 1):
        return NOT_YET
    return leader


def _most_without(rank: int, support: dict[int, int]) -> int:
    """The most members that support one other candidate and not this one."""
    without = ~support[rank]
    most = 0
    for other, voters in support.items():
        if other != rank:
            most = max(most, (voters & without).bit_count())
    return most


def _precedes(votes: int, rank: int, other_votes: int, other: int) -> bool:
    return votes > other_votes or (votes == other_votes and rank < other)


@final
class VoteRounds:
    """The order of one graph's messages, as far as one member knows it."""

    __slots__ = ("_closed", "_first", "_heard", "_members", "_ordered", "_placed", "_support", "_votes")

    def __init__(self, members: int) -> None:
        self._members = members
        self._ordered: list[deque[int]] = [deque() for _ in range(members)]
        """By sender, the numbers of messages that were pending when this round began, or came since."""
        self._first = [0] * members
        """By sender, the first of these; 0 if there is none."""
        self._votes: list[deque[tuple[int, list[int], bool]]] = [deque() for _ in range(members)]
        """By sender: its vote in this round, and all after it: number, past, and whether it is to be ordered."""
        self._heard = 0
        """Bits of the members that have voted in this round."""
        self._support: dict[int, int] = {}
        self._placed: list[int] = []
        """The senders of what was placed in this round."""
        self._closed = False

    def pending(self) -> int:
        """How many messages wait for their place."""
        count = -len(self._placed)
        for numbers in self._ordered:
            count += len(numbers)
        return count

    def unheard(self) -> list[int]:
        """The members that have not voted in this round; none if nothing is pending."""
        if not self.pending():
            return []
        return [rank for rank in range(self._members) if not self._heard >> rank & 1]

    def add(self, sender: int, number: int, past: list[int], ordered: bool) -> None:
        """A message has come into the graph, whose `past` tells how much of each member precedes it."""
        if ordered:
            self._ordered[sender].append(number)
            if not self._first[sender]:
                self._first[sender] = number
        if self._heard >> sender & 1:
            self._votes[sender].append((number, past, ordered))
        elif self._follows(sender, number, past):
            self._votes[sender].append((number, past, ordered))
            self._count_vote(sender)

    def take(self) -> list[Place]:
        """The messages whose place has become known, in order."""
        result: list[Place] = []
        while self._support:
            unheard = 0 if self._closed else ((1 << self._members) - 1) & ~self._heard
            rank = next_in_round(self._members, self._support, self._placed, unheard)
            if rank == NOT_YET:
                break
            if rank == ROUND_OVER:
                self._begin_round()
            else:
                self._placed.append(rank)
                result.append((rank, self._first[rank]))
        return result

    def close(self) -> None:
        """Nothing more comes: whoever was not heard abstains, in this and in all further rounds."""
        self._closed = True

    def _follows(self, sender: int, number: int, past: list[int]) -> bool:
        """Whether a message equals or follows a pending one."""
        for rank, first in enumerate(self._first):
            if first and (past[rank] >= first or (rank == sender and number == first)):
                return True
        return False

    def _count_vote(self, voter: int) -> None:
        """Count the first of a member's messages that may be a vote."""
        number, past, ordered = self._votes[voter][0]
        self._heard |= 1 << voter
        is_candidate = ordered and number == self._first[voter]
        for rank, first in enumerate(self._first):
            if first and past[rank] >= first:
                is_candidate = False
                if rank in self._support:
                    self._support[rank] |= 1 << voter
        if is_candidate:
            self._support[voter] = 1 << voter

    def _begin_round(self) -> None:
        for rank in self._placed:
            self._ordered[rank].popleft()
            self._first[rank] = self._ordered[rank][0] if self._ordered[rank] else 0
        self._placed = []
        self._support = {}
        self._heard = 0
        voters: list[int] = []
        for rank, votes in enumerate(self._votes):
            while votes and not self._follows(rank, votes[0][0], votes[0][1]):
                votes.popleft()
            if votes:
                number, past, ordered = votes[0]
                if ordered and number == self._first[rank] and not self._has_pending_past(past):
                    self._heard |= 1 << rank
                    self._support[rank] = 1 << rank
                else:
                    voters.append(rank)
        for rank in voters:
            self._count_vote(rank)

    def _has_pending_past(self, past: list[int]) -> bool:
        return any(first and past[rank] >= first for rank, first in enumerate(self._first))
