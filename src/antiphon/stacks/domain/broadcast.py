"""The nodes of one broadcast domain at one member: losses are found from chains of acks and mended by any holder
(transis-1992, 3.3).

Promise: while members hear each other, a node that one of them has reaches all of them, and comes into the graph of
each after all that precedes it.

Rule.
1. A node comes into the graph when its predecessors are there; until then it is held. Acks name nodes of the graph
   alone, so they acknowledge that a node can be delivered, not that it was received.
2. A node that somebody's acks or status name, and that is not here, is a gap. It may be mere reordering, so it is given
   a moment, of random length. Then a negative ack goes to all members. Whoever hears another's for the same gap waits
   for the answer to that. It asks for as many nodes as it was able to take in of late: twice as many when all that it
   asked for has come, half as many when it has to ask again, which it does later each time. Else copies would flood
   those that have lost something because they were flooded.
3. The sender of a node answers at once, the other holders in turns, one after the other by rank, from a rank on that
   depends on the node; whoever hears a copy before its turn has come does not answer. So a copy costs about one
   transmission, whoever is dead or deaf, and the work is shared. Copies go to all members.
4. A node is kept until all members have acknowledged it, directly or by a chain.
5. The last node of a member may be lost to all others, and no chain shows it. So whoever waits tells all what it has
   (status), less and less often.

Safe: a node goes into the graph once, after its predecessors; whoever resends it sends the same bytes. What is let go
was in everybody's graph. Live: while a gap is known here its timer runs, and each negative ack and each copy has its
chance on the network; while somebody waits for acks of a node, its status makes the gap known to whoever has it.

Limits: a sender's numbers are at most `ahead_max` beyond what is here, so no more of its nodes are held. A negative
ack names 64 ranges; one is answered with RESENDS_MAX nodes; whoever lacks more asks again.
"""

from random import Random
from typing import Final, final

from antiphon.kernel.effects import NEVER
from antiphon.kernel.errors import MalformedError
from antiphon.kernel.options import Options
from antiphon.parts.graph_packets import decode_request, encode_request
from antiphon.parts.membership.graph_view_end import numbers_max
from antiphon.parts.message_graph import GraphError, GraphNode, MessageGraph, Mid
from antiphon.parts.ranges import runs_of
from antiphon.stacks.domain.node import DomainNode, node_number
from antiphon.stacks.domain.offers import NUMBER

RESENDS_MAX: Final = 256
_ASKED_MIN: Final = 4
_ASKED_FIRST: Final = 32

Attached = tuple[GraphNode, DomainNode]


@final
class Broadcast:
    """What one member has of the nodes of a domain. Collects what is to leave, to all others, in `out`."""

    __slots__ = (
        "_ahead_max",
        "_ask_at_ns",
        "_asked",
        "_asked_max",
        "_group",
        "_held",
        "_known",
        "_me",
        "_options",
        "_random",
        "_resends",
        "_resent_ns",
        "_stamp",
        "_tag",
        "_tries",
        "_waiting",
        "bounds",
        "contradictions",
        "copies_suppressed",
        "duplicates",
        "graph",
        "losses",
        "out",
        "own_resends",
        "requests",
        "resends",
        "suspects",
    )

    def __init__(
        self, group: int, tag: int, members: int, me: int, random: Random, options: Options, stamp: int = NUMBER
    ) -> None:
        self._stamp = stamp
        self._group = group
        self._tag = tag
        self._me = me
        self._random = random
        self._options = options
        self._ahead_max = numbers_max(options)
        self.graph = MessageGraph(members)
        self._held: dict[Mid, DomainNode] = {}
        """Came before something that precedes them…"""
        self._waiting: dict[Mid, list[Mid]] = {}
        """…by one of those."""
        self._known = [0] * members
        """By sender, the greatest number that was heard of."""
        self._ask_at_ns = NEVER
        self._tries = 0
        self._asked: set[Mid] = set()
        """What was asked for and has not come."""
        self._asked_max = _ASKED_FIRST
        self._resends: dict[Mid, int] = {}
        """What to send again, and when."""
        self._resent_ns: dict[Mid, int] = {}
        """When somebody, perhaps this member, last sent a node again, as far as that matters still."""
        self.bounds: list[int] | None = None
        """By sender, how far nodes still count, where the configuration is closed."""
        self.suspects: set[int] = set()
        """Senders of whom only that is taken in which somebody else has."""
        self.out: list[bytes] = []
        self.duplicates = 0
        self.contradictions = 0
        self.losses = 0
        """Negative acks, of whomever, for something that is here."""
        self.requests = 0
        self.resends = 0
        self.own_resends = 0
        self.copies_suppressed = 0

    def held(self) -> int:
        """How many nodes wait here for their predecessors."""
        return len(self._held)

    def exists(self, rank: int, number: int) -> bool:
        """Whether a member can have sent so many nodes."""
        known = self.graph.last[rank]
        return 0 < number <= (known if rank == self._me else known + self._ahead_max)

    # ---- nodes in --------------------------------------------------------------------------------------------------

    def is_known(self, mid: Mid) -> bool:
        """Whether a node is here, in the graph or held."""
        return mid[1] <= self.graph.last[mid[0]] or mid in self._held

    def counts(self, mid: Mid) -> bool:
        """Whether a node may still come into the graph."""
        return self.bounds is None or mid[1] <= self.bounds[mid[0]]

    def receive(self, node: DomainNode, now_ns: int) -> list[Attached]:
        """Take in a node that was checked; all that comes into the graph by it."""
        mid = (node.sender, node.number)
        if not self.counts(mid) or (node.sender in self.suspects and node.number > self._known[node.sender]):
            return []
        if self.is_known(mid):
            self.duplicates += 1
            self._note_copy(mid, now_ns)
            return []
        self.learn(node.predecessors, now_ns)
        if node.number > 1:
            self.learn([(node.sender, node.number - 1)], now_ns)
        self._known[node.sender] = max(self._known[node.sender], node.number)
        if mid in self._asked:
            self._answered(mid, now_ns)
        missing = self._missing_one(node)
        if missing is not None:
            self._held[mid] = node
            self._waiting.setdefault(missing, []).append(mid)
            return []
        attached: list[Attached] = []
        ready = [node]
        while ready:
            next_node = ready.pop()
            if not self._attach(next_node, attached):
                continue
            for waiting in self._waiting.pop((next_node.sender, next_node.number), ()):
                held = self._held[waiting]
                missing = self._missing_one(held)
                if missing is None:
                    del self._held[waiting]
                    ready.append(held)
                else:
                    self._waiting.setdefault(missing, []).append(waiting)
        return attached

    def _missing_one(self, node: DomainNode) -> Mid | None:
        last = self.graph.last
        if node.number > last[node.sender] + 1:
            return (node.sender, node.number - 1)
        for mid in node.predecessors:
            if mid[1] > last[mid[0]]:
                return mid
        return None

    def _attach(self, node: DomainNode, attached: list[Attached]) -> bool:
        if not self.counts((node.sender, node.number)):
            return False
        try:
            added = self.graph.attach(node.sender, node.number, node.predecessors, node.packet)
        except GraphError:
            self.contradictions += 1
            return False
        attached.append((added, node))
        return True

    def send(self, node: DomainNode) -> GraphNode:
        """Put an own node into the graph and on its way."""
        self.out.append(node.packet)
        return self.graph.attach(node.sender, node.number, node.predecessors, node.packet)

    def predecessors(self) -> list[Mid]:
        """What the next own node follows immediately."""
        return [leaf.mid() for leaf in self.graph.leaves()]

    # ---- losses ----------------------------------------------------------------------------------------------------

    def learn(self, mids: list[Mid], now_ns: int) -> None:
        """Somebody has these."""
        for mid in mids:
            rank, number = mid
            if number > self._known[rank]:
                self._known[rank] = number
            if number > self.graph.last[rank] and self._ask_at_ns == NEVER and mid not in self._held:
                self._tries = 0
                delay_ns = self._options.gap_delay_ns
                self._ask_at_ns = now_ns + delay_ns + self._random.randrange(delay_ns + 1)

    def missing(self) -> list[tuple[int, int, int]]:
        """Rank, first and last number of what is known to exist and is not here."""
        result: list[tuple[int, int, int]] = []
        for rank, known in enumerate(self._known):
            if self.bounds is not None:
                known = min(known, self.bounds[rank])
            numbers = range(self.graph.last[rank] + 1, known + 1)
            result += runs_of(rank, [number for number in numbers if (rank, number) not in self._held])
        return result

    def _answered(self, mid: Mid, now_ns: int) -> None:
        """A node has come that was asked for. If it is the last of them, ask for more at once, if there is more."""
        self._asked.discard(mid)
        if not self._asked:
            self._asked_max = min(RESENDS_MAX, 2 * self._asked_max)
            self._ask_at_ns = min(self._ask_at_ns, now_ns + self._options.gap_delay_ns)

    def receive_request(self, packet: bytes, now_ns: int) -> None:
        """Somebody's negative ack: answer for what is here, and wait for the answer if it is missing here too."""
        room = RESENDS_MAX
        for rank, first, last in decode_request(packet, self.graph.participants):
            if not self.exists(rank, first):
                raise MalformedError("number")
            here = self.graph.last[rank]
            if last > here and self._ask_at_ns != NEVER and self._known[rank] > here:
                self._ask_at_ns = max(self._ask_at_ns, now_ns + self._options.resend_interval_ns)
            for number in range(first, min(last, first + room - 1, here) + 1):
                self._plan_resend((rank, number), now_ns)
                room -= 1

    def _plan_resend(self, mid: Mid, now_ns: int) -> None:
        node = self.graph.node(mid)
        if node is None or node.body is None or mid in self._resends:
            return
        self.losses += 1
        interval_ns = self._options.resend_interval_ns
        if now_ns < self._resent_ns.get(mid, -interval_ns) + interval_ns // 2:
            return  # the copy is on its way
        delay_ns = 0
        if mid[0] != self._me:
            turn = 1 + (self._me - mid[0] - 1 + mid[1]) % self.graph.participants
            delay_ns = turn * self._options.gap_delay_ns + self._random.randrange(self._options.gap_delay_ns // 4 + 1)
        self._resends[mid] = now_ns + delay_ns

    def _note_copy(self, mid: Mid, now_ns: int) -> None:
        """Somebody has sent a node again."""
        if self._resends.pop(mid, None) is not None:
            self.copies_suppressed += 1
            self._resent_ns[mid] = now_ns

    def note_own_copy(self, packet: bytes, now_ns: int) -> None:
        """Another member has sent again a node of this one."""
        self._note_copy((self._me, node_number(packet)), now_ns)

    def tick(self, now_ns: int) -> None:
        """Send again, and ask, what is due."""
        if self._resends:
            self._resend_due(now_ns)
        if self._ask_at_ns <= now_ns:
            self._ask(now_ns)

    def _resend_due(self, now_ns: int) -> None:
        for mid in [mid for mid, at_ns in self._resends.items() if at_ns <= now_ns]:
            del self._resends[mid]
            node = self.graph.node(mid)
            if node is not None and node.body is not None:
                self.out.append(node.body)
                self._resent_ns[mid] = now_ns
                self.resends += 1
                if mid[0] == self._me:
                    self.own_resends += 1
        since_ns = now_ns - self._options.resend_interval_ns
        self._resent_ns = {mid: at_ns for mid, at_ns in self._resent_ns.items() if at_ns > since_ns}

    def _ask(self, now_ns: int) -> None:
        missing = self.missing()
        if not missing:
            self._ask_at_ns = NEVER
            return
        if self._asked:
            self._tries += 1
            self._asked_max = max(_ASKED_MIN, self._asked_max // 2)
        else:
            self._tries = 1
        interval_ns = self._options.resend_interval_ns << min(self._tries - 1, 10)
        interval_ns = min(interval_ns, self._options.resend_interval_ns_max)
        self._ask_at_ns = now_ns + interval_ns + self._random.randrange(interval_ns // 4 + 1)
        self.requests += 1
        ranges: list[tuple[int, int, int]] = []
        room = self._asked_max
        self._asked = set()
        for rank, first, last in missing:
            last = min(last, first + room - 1)
            ranges.append((rank, first, last))
            self._asked.update([(rank, number) for number in range(first, last + 1)])
            room -= last + 1 - first
            if not room:
                break
        self.out.append(encode_request(self._stamp, self._group, self._tag, self._me, ranges))

    def deadline_ns(self) -> int:
        """When `tick` has something to do."""
        return min(self._ask_at_ns, min(self._resends.values())) if self._resends else self._ask_at_ns
