"""What one member of a view knows to exist and does not have: it is asked for by its numbers (psync-1989, 3.2.1).

A gap shows by a message that was sent in the context of one that is not here, or by somebody's word of what it has. It
may be mere reordering, so it is given a moment. Then its sender is asked, and the next time whoever spoke of it last,
who must have it; and so on in turn, less and less often while nothing comes.
"""

from typing import final

from antiphon.kernel.effects import NEVER
from antiphon.kernel.options import Options
from antiphon.parts.message_graph import Mid
from antiphon.parts.ranges import runs_of
from antiphon.stacks.conversation.free.graph_replica import GraphReplica


@final
class Gaps:
    """The nodes that exist and that one member lacks."""

    __slots__ = ("_before", "_known", "_me", "_options", "_replica", "_told_by", "_tries", "ask_at_ns")

    def __init__(self, replica: GraphReplica, me: int, options: Options) -> None:
        members = replica.graph.participants
        self._replica = replica
        self._me = me
        self._options = options
        self._known = [0] * members
        """By sender, the greatest number that was heard of…"""
        self._told_by = [0] * members
        """…and from whom."""
        self._tries = 0
        self._before = 0
        self.ask_at_ns = NEVER

    def learn(self, mids: list[Mid], via: int, now_ns: int) -> None:
        """Note that the member `via` has these nodes; ask for those that are missing here, after a moment."""
        last = self._replica.graph.last
        for rank, number in mids:
            if number > last[rank]:
                if number >= self._known[rank]:
                    self._known[rank] = number
                    self._told_by[rank] = via
                if self.ask_at_ns == NEVER:
                    self._tries = 0
                    self.ask_at_ns = now_ns + self._options.gap_delay_ns

    def ask(self, now_ns: int) -> dict[int, list[tuple[int, int, int]]]:
        """Return whom to ask for what: rank, first and last number of each missing run, by the member to ask."""
        last = self._replica.graph.last
        wanted: dict[int, list[tuple[int, int, int]]] = {}
        for rank, known in enumerate(self._known):
            if known > last[rank] and rank != self._me:
                whom = rank if self._tries % 2 == 0 else self._told_by[rank]
                numbers = range(last[rank] + 1, known + 1)
                ranges = runs_of(rank, [number for number in numbers if not self._replica.has((rank, number))])
                if ranges:
                    wanted.setdefault(whom, []).extend(ranges)
        if not wanted:
            self.ask_at_ns = NEVER
            return wanted
        here = sum(last) + self._replica.held()
        self._tries = self._tries + 1 if here == self._before else 1
        self._before = here
        interval_ns = self._options.resend_interval_ns << min(self._tries - 1, 10)
        self.ask_at_ns = now_ns + min(interval_ns, self._options.resend_interval_ns_max)
        return wanted
