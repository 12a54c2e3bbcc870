"""How a view ends whose packets are nodes of a message graph: which nodes still count.

What a member holds is closed under context: with a message all that precede it. So it is told by one number for each
sender, and the union of what several hold is closed as well: no message of a cut waits for one that is lost.

What is missing of a cut is asked for by its numbers, of one of those who have it after the other, and set aside until
the cut is decided. Another cut may come instead: what was fetched for the former and is not of the latter is let go.
"""

from typing import final

from antiphon.kernel.effects import NEVER
from antiphon.kernel.options import Options
from antiphon.parts.former_life import FormerLife
from antiphon.parts.membership.session import ViewEnd
from antiphon.parts.message_graph import GraphPacket, MessageGraph, Mid
from antiphon.parts.ranges import Ranges, runs_of


def numbers_max(options: Options) -> int:
    """How far the numbers of a sender may be ahead of what somebody else holds: what its window lets out, and as many
    acknowledgements."""
    return 2 * options.window_packets + 64


@final
class GraphViewEnd(ViewEnd):
    """The end of one view, at one member."""

    __slots__ = (
        "_ahead_max",
        "_cut",
        "_graph",
        "_me",
        "_options",
        "_sources",
        "_tries",
        "ask_at_ns",
        "fetched",
        "former_life",
        "told",
    )

    def __init__(self, graph: MessageGraph, me: int, options: Options) -> None:
        super().__init__()
        self._graph = graph
        self._me = me
        self._options = options
        self._ahead_max = numbers_max(options)
        self._cut: list[int] | None = None
        self._sources: list[int] = []
        self._tries = 0
        self.ask_at_ns = NEVER
        self.fetched: dict[Mid, GraphPacket] = {}
        self.former_life = FormerLife(graph.participants, options.silence_ns_min)
        self.told = [0] * graph.participants
        """By rank, how many of this member's messages each says that it has."""

    def sent(self) -> int:
        return self._graph.last[self._me]

    def received_by(self, rank: int) -> int:
        return self.told[rank]

    def has_former_life(self, now_ns: int) -> bool:
        return self.former_life.is_certain(now_ns)

    def holdings(self) -> list[Ranges]:
        return [Ranges([(1, last)] if last else []) for last in self._graph.last]

    def is_genuine(self, holdings: list[Ranges]) -> bool:
        if len(holdings) != self._graph.participants:
            return False
        for rank, held in enumerate(holdings):
            if not held.pairs:
                continue
            if len(held.pairs) != 1 or held.pairs[0][0] != 1 or not self.exists(rank, held.pairs[0][1]):
                return False
        return True

    def exists(self, rank: int, number: int) -> bool:
        """Whether this participant can have sent so many."""
        known = self._graph.last[rank]
        return 0 < number <= (known if rank == self._me else known + self._ahead_max)

    def close_at(self, cut: list[Ranges], sources: list[int], now_ns: int) -> None:
        self.frozen = True
        self.gather(cut, sources, now_ns)

    def reopen(self) -> None:
        """The view goes on."""
        self._cut = None
        self.ask_at_ns = NEVER

    def gather(self, cut: list[Ranges], sources: list[int], now_ns: int) -> None:
        """Ask for what is missing of a cut."""
        ends = [part.pairs[-1][1] if part.pairs else 0 for part in cut]
        self._cut = ends
        self.fetched = {mid: added for mid, added in self.fetched.items() if mid[1] <= ends[mid[0]]}
        self._sources = [rank for rank in sources if rank != self._me]
        self._tries = 0
        self.ask_at_ns = NEVER if self.is_complete() else now_ns

    def wants(self, mid: Mid) -> bool:
        """Whether a message is of the cut and not here yet."""
        return (
            self._cut is not None and self._graph.last[mid[0]] < mid[1] <= self._cut[mid[0]] and mid not in self.fetched
        )

    def is_complete(self) -> bool:
        return self._cut is not None and not self.missing()

    def missing(self) -> list[tuple[int, int, int]]:
        """Rank, first and last number of what is missing."""
        result: list[tuple[int, int, int]] = []
        if self._cut is None:
            return result
        for rank, end in enumerate(self._cut):
            numbers = range(self._graph.last[rank] + 1, end + 1)
            result += runs_of(rank, [number for number in numbers if (rank, number) not in self.fetched])
        return result

    def whom_to_ask(self, now_ns: int) -> int:
        """The next of those who have what is missing; -1 if nobody has."""
        if not self._sources:
            self.ask_at_ns = NEVER
            return -1
        source = self._sources[self._tries % len(self._sources)]
        interval_ns = self._options.resend_interval_ns << min(self._tries // len(self._sources), 4)
        self.ask_at_ns = now_ns + min(interval_ns, self._options.resend_interval_ns_max)
        self._tries += 1
        return source
