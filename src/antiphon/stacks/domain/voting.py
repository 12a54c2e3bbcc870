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
  outcome     all candidates that are not beaten, by the ranks of their senders
When the outcome is placed the next round begins, with the beaten candidates still pending.

Rule. With u members unheard, that is without a vote yet:
  out     d is out if among the votes known it is beaten. An unseen candidate is out if some V(c) exceeds n/2.
  sure    d is sure if 2u <= n and for each other candidate c, |V(c) - V(d)| + u <= n/2.
  next    of the candidates that are not out and not placed, the one of the lowest rank, d, is placed next if it is sure
          and, unless unseen candidates are out, no unheard member has a lower rank.
The round ends when all known candidates that are not out are placed and unseen ones are out, or nobody is unheard.

Why the definitions make sense. The vote of q is known as soon as it is here, because what it follows is here: votes do
not change as the graph grows. A candidate is the vote of its sender: an earlier message of the sender that follows
something pending would be followed by the candidate. So the sender of an unseen candidate is unheard, and so is whoever
supports it, and when all are heard all candidates are known. The outcome is not empty: if c beats d then V(c) exceeds
n/2, and what beats c would have more than n/2 members without c. Members that vote for several candidates count for
each.

Safe. By induction over rounds all members begin a round with the same placed messages, so their votes are the same
where they know them. What the rule places next is next in the outcome, whatever the unheard vote: being beaten needs
more than the known votes and all u against d, and of a lower rank there is nothing but what is placed or out. What is
out stays out, since known votes stay. So what one member has placed is, at any time, a beginning of what any other will
have placed.

Tight. Where the rule stops, two extensions of the graph differ in what comes next (or the round ends in one of them).
Let d be the one of the lowest rank of what is known, not out, not placed. If all the unheard support d alone, it comes
next. If d is not sure, they may support c alone, or a new candidate, which beats d; if an unheard member of a lower
rank could have a candidate that is not out, they may support that one alone, which is then not beaten and precedes d.
If there is no such d, the unheard may support a new candidate, which comes next, or an old one, and the round ends. Any
such votes are possible: whoever is unheard may have received just what the vote is to follow.

Why by rank and not by votes: which of two candidates has more votes is open until nearly all have voted, also where
both are sure. In a group of eight that all send, with places by votes, agreed messages were later than by all-ack.

Live. A message with n followers has all votes in each round until it is placed; with u = 0 the rule stops only at the
end of a round; each round places something. Members acknowledge what is to be ordered (session.py).

What cannot be had. To place *all* candidates as soon as all members are heard contradicts the best case of n/2 + 1. Let
a majority M support c alone, follow that with e, and all of M follow e. By the best case, whoever has just this places
c, then e. Let x be outside M with a candidate d of its own. Whoever has c, the first votes of M and d has heard all and
would place d before it sees e. Both graphs are parts of one. So d has to wait for a further round, and such d are what
`beaten` names; all other candidates are placed as soon as all are heard. Were `beaten` defined by fewer than a majority
more would wait; by more, the best case would be lost.

Members that are gone abstain (`close`): to abstain is one more thing the unheard may do that the rule allows for.

Cost: a step per member for each message and round, and the square of the number of candidates when a vote comes in that
makes it a majority or more. What waits for later rounds costs nothing until then.
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
    if 2 * silent > members:
        return NOT_YET  # so few have voted that nothing is placed or out
    unseen_out = not unheard
    lowest, without = members, 0
    for rank, voters in support.items():
        if 2 * voters.bit_count() > members:
            unseen_out = True
        if rank < lowest and rank not in placed:
            most = _most_without(rank, support)
            if 2 * most <= members:
                lowest, without = rank, most
    if lowest == members:
        return ROUND_OVER if unseen_out else NOT_YET
    if 2 * (without + silent) > members:
        return NOT_YET
    if not unseen_out and (unheard & -unheard).bit_length() - 1 < lowest:
        return NOT_YET
    return lowest


def rest_of_round(members: int, support: dict[int, int], placed: list[int]) -> list[int]:
    """What `next_in_round` would give one by one until the round is over, where nobody is unheard."""
    found: list[int] = []
    for rank in support:
        if rank not in placed and 2 * _most_without(rank, support) <= members:
            found.append(rank)
    found.sort()
    return found


def _most_without(rank: int, support: dict[int, int]) -> int:
    """The most members that support one other candidate and not this one."""
    without = ~support[rank]
    most = 0
    for other, voters in support.items():
        if other != rank:
            most = max(most, (voters & without).bit_count())
    return most


@final
class VoteRounds:
    """The order of one graph's messages, as far as one member knows it."""

    __slots__ = ("_closed", "_early", "_first", "_heard", "_is_news", "_members", "_ordered", "_placed", "_support",
                 "_votes")  # fmt: skip

    def __init__(self, members: int, early: bool = True) -> None:
        """`early`: place what the votes that are here decide. If not, wait in each round until all have voted, and
        place all candidates then, by rank (the all-ack rule, for comparison)."""
        self._members = members
        self._early = early
        self._ordered: list[deque[int]] = [deque() for _ in range(members)]
        """By sender, the numbers of messages that were pending when this round began, or came since."""
        self._first = [0] * members
        """By sender, the first of these; 0 if there is none."""
        self._votes: list[deque[tuple[int, list[int]]]] = [deque() for _ in range(members)]
        """By sender: its vote in this round, and all after it: number and past."""
        self._heard = 0
        """Bits of the members that have voted in this round."""
        self._is_news = False
        """Whether somebody has voted since places were last looked for."""
        self._support: dict[int, int] = {}
        self._placed: list[int] = []
        """The senders of what was placed in this round."""
        self._closed = False

    def silent(self) -> int:
        """How many members have not voted in this round; none if nothing is pending."""
        return self._members - self._heard.bit_count() if self._support else 0

    def add(self, sender: int, number: int, past: list[int], ordered: bool) -> None:
        """A message has come into the graph, whose `past` tells how much of each member precedes it."""
        if ordered:
            self._ordered[sender].append(number)
            if not self._first[sender]:
                self._first[sender] = number
        if self._heard >> sender & 1:
            self._votes[sender].append((number, past))
            return
        ballot = self._ballot(sender, number, past)
        if ballot:
            self._votes[sender].append((number, past))
            self._count(sender, ballot)

    def take(self) -> list[Place]:
        """The messages whose place has become known, in order."""
        result: list[Place] = []
        while self._is_news:
            self._is_news = False
            unheard = 0 if self._closed else ((1 << self._members) - 1) & ~self._heard
            if not unheard:
                self._place(self._rest(), result)
                self._begin_round()
            elif self._early:
                rank = next_in_round(self._members, self._support, self._placed, unheard)
                while rank >= 0:
                    self._place([rank], result)
                    rank = next_in_round(self._members, self._support, self._placed, unheard)
                if rank == ROUND_OVER:
                    self._begin_round()
        return result

    def close(self) -> None:
        """Nothing more comes: whoever was not heard abstains, in this and in all further rounds."""
        self._closed = True
        self._is_news = bool(self._support)

    def _rest(self) -> list[int]:
        return rest_of_round(self._members, self._support, self._placed) if self._early else sorted(self._support)

    def _place(self, ranks: list[int], result: list[Place]) -> None:
        for rank in ranks:
            self._placed.append(rank)
            result.append((rank, self._first[rank]))

    def _ballot(self, sender: int, number: int, past: list[int]) -> int:
        """Bits of the senders whose first pending message this one equals or follows; none if it is no vote."""
        found = 0
        for rank in range(self._members):
            first = self._first[rank]
            if first and (past[rank] >= first or (rank == sender and number == first)):
                found |= 1 << rank
        return found

    def _count(self, voter: int, ballot: int) -> None:
        """Count a vote. That of a candidate's sender names nobody else, and comes before those that follow it. (If the
        voter has something pending, its vote is that or precedes it, so a vote does not follow a message of its own.)
        """
        self._heard |= 1 << voter
        self._is_news = True
        if ballot == 1 << voter:
            self._support[voter] = ballot
            return
        for rank in self._support:
            if ballot >> rank & 1:
                self._support[rank] |= 1 << voter

    def _begin_round(self) -> None:
        for rank in self._placed:
            numbers = self._ordered[rank]
            numbers.popleft()
            self._first[rank] = numbers[0] if numbers else 0
        self._placed = []
        self._support = {}
        self._heard = 0
        followers: list[tuple[int, int]] = []
        for rank, votes in enumerate(self._votes):
            while votes:
                ballot = self._ballot(rank, votes[0][0], votes[0][1])
                if ballot == 1 << rank:
                    self._count(rank, ballot)
                    break
                if ballot:
                    followers.append((rank, ballot))
                    break
                votes.popleft()
        for rank, ballot in followers:
            self._count(rank, ballot)
