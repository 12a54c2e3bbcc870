"""Which votes a member acknowledges for the sake of safe messages, so that none waits for a timer.

A safe message is delivered when the stable part of the graph decides its place (services.py): all must follow the votes
that decided it. Which these are differs from member to member, since each decides as early as it can, and nobody knows
what another still waits for. But of a message that comes alone they are among its first votes: the first node of each
member that follows the message.

Rule: when all of these are in the graph, a member sends a node that follows them, unless its last one does. So a safe
message takes three flights: the message, the votes, and what follows the votes. There is an end to it: one such node
for each safe message and member, at most. Where several safe messages of one sender are under way, only the last is
looked at: what follows its first votes follows those of the others.

What is lost, or decided by other votes since several messages came at a time, is asked for (`WAITS`, session.py).
"""

from typing import final


@final
class SafeVotes:
    """The first votes for the last safe message of each member, as far as they are in the graph."""

    __slots__ = ("_me", "_numbers", "_votes", "open")

    def __init__(self, members: int, me: int) -> None:
        self._me = me
        self._numbers = [0] * members
        """By sender, its last safe node, if the first votes for that are not all followed by a node of this member."""
        self._votes: list[list[int]] = [[0] * members for _ in range(members)]
        """By sender, the numbers of these votes by rank; 0: has not come."""
        self.open = 0
        """How many senders have such a node."""

    def watch(self, sender: int, number: int) -> None:
        """A safe node has come into the graph, or is sent."""
        if not self._numbers[sender]:
            self.open += 1
        self._numbers[sender] = number
        votes = [0] * len(self._numbers)
        votes[sender] = number
        votes[self._me] = number
        self._votes[sender] = votes

    def note(self, rank: int, number: int, past: list[int]) -> None:
        """A node of another member has come into the graph."""
        for sender, watched in enumerate(self._numbers):
            if watched and past[sender] >= watched and not self._votes[sender][rank]:
                self._votes[sender][rank] = number

    def lacks_ack(self, past: list[int]) -> bool:
        """Whether this member, whose last node has this past, is to follow some votes."""
        lacks = False
        for sender, watched in enumerate(self._numbers):
            if not watched:
                continue
            votes = self._votes[sender]
            if 0 in votes:
                continue
            if any(vote > past[rank] and rank != self._me for rank, vote in enumerate(votes)):
                lacks = True
            else:
                self._numbers[sender] = 0
                self.open -= 1
        return lacks
