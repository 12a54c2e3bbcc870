"""When the messages of the graph reach the application, by the service that each asks for (transis-1992, 3.2 and 3.3).

reliable  as soon as its node is in the graph
fifo      when, besides, all ordered messages that its sender sent before it are delivered here
causal    as fifo, and after all ordered messages that its sender had delivered, and all that somebody sent before a
          reliable message that precedes it
          fifo and causal, at the sender itself: only when `own_copies` members hold it (offers.py; the paper's footnote
          2). As others hold a message with all that precede it, none overtakes another by that
agreed    at its place in the total order (voting.py)
safe      at its place, when the stable part of the graph alone decides its place. A node is stable if a message of
          each other member follows it, so the stable part is in the graph of every member, and each delivers the
          message at this place whoever is cut off. The message itself is in that part

Why a causal message need not name the ordered ones that its sender had delivered: the sender had decided on them by
votes, and by acknowledgements of votes, that precede its node. So whoever has the node in its graph decides the same
for them, and delivers them before it looks at the message. Ordered ones that the sender had not delivered, though they
precede the node in the graph, do not hold the message up. Other messages that the sender had delivered precede the
node, and each of them waits, if at all, for ordered ones that the sender had delivered. But a reliable message waits
for nothing, not even for ordered ones that its own sender sent before it: a causal message that follows it waits for
those.

Why ordered messages find in front of them all that they depend on: a message that precedes an ordered one in the graph
waits, at most, for ordered ones that precede it there, and those have earlier places; after each ordered message all
that waited for it are let go.

Chosen subsets. A message for some members is a node of everybody's graph like any other: it waits for the same, and has
its place in the same order, at every member; those that it is not for just do not hand it to their applications. So
each level is among its destinations what it is among all, and messages to different subsets are in one order where
these overlap. (Members that it is not for wait as if it were for them: what they send is then behind all that it is
behind, so causal order holds through them, too.)

At the end of a view nothing more comes: those that were not heard abstain, and everything is delivered.
"""

from collections import deque
from typing import final

from antiphon.kernel.effects import Effects
from antiphon.kernel.identity import View
from antiphon.kernel.levels import AGREED, CAUSAL, RELIABLE, SAFE
from antiphon.parts.emission import MessageAssembler
from antiphon.parts.message_graph import GraphNode, MessageGraph, Mid
from antiphon.parts.node_batch import EVERYBODY, NodeBatch
from antiphon.stacks.domain.node import DomainNode
from antiphon.stacks.domain.voting import VoteRounds


@final
class HeldBatch:
    """Messages of a node that are not delivered yet."""

    __slots__ = ("after", "batch", "behind", "decided_by", "destinations", "number", "place", "sender")

    def __init__(self, sender: int, number: int, batch: NodeBatch, destinations: int) -> None:
        self.sender = sender
        self.number = number
        self.batch = batch
        self.destinations = destinations
        self.after = 0
        """How many ordered nodes come before it."""
        self.behind: list[tuple[int, int]] = []
        """Senders, and a number of each: their ordered nodes below it come before it, too."""
        self.place = 0
        """Its place in the total order, from 1 on, if it has one…"""
        self.decided_by: list[int] = []
        """…and, for a safe one, how much of each member's messages was in the graph that decided it."""


@final
class Services:
    """What is in the graph of one member and has not reached its application."""

    __slots__ = (
        "_blocked",
        "_closing",
        "_copies",
        "_graph",
        "_in_order",
        "_line",
        "_me",
        "_ordered",
        "_overtaking",
        "_places",
        "_reliable",
        "_safe_places",
        "_stable_rounds",
        "_undelivered",
        "_unstable",
        "delivered",
        "early",
        "heard",
        "paused",
        "rounds",
    )

    def __init__(
        self, group: str, view: View, me: int, graph: MessageGraph, message_bytes_max: int, own_copies: int, early: bool
    ) -> None:
        members = len(view.members)
        self._me = me
        self._copies = min(own_copies, members)
        """How many members must hold an own message, this one among them, before it is delivered here."""
        self._graph = graph
        self.rounds = VoteRounds(members, early)
        self._places = 0
        """How many places were given."""
        self._stable_rounds = VoteRounds(members, early)
        """The same for the stable part of the graph…"""
        self._unstable: list[deque[tuple[int, list[int], bool]]] = [deque() for _ in range(members)]
        """…and, by sender, the nodes that are not in it yet: number, past, whether it is to be ordered."""
        self._safe_places = 0
        """How many places the stable part decides."""
        self._ordered: dict[Mid, HeldBatch] = {}
        """To be ordered, without a place yet."""
        self._line: deque[HeldBatch] = deque()
        """With a place, in order."""
        self._undelivered: list[deque[int]] = [deque() for _ in range(members)]
        """By sender, the numbers of both."""
        self._overtaking: list[list[int]] = [[] for _ in range(members)]
        """By sender, the numbers of its reliable nodes that came while such ordered ones waited."""
        self._blocked: list[HeldBatch] = []
        """Others that wait, in the order in which they came into the graph."""
        self._reliable = MessageAssembler(group, view, message_bytes_max)
        self._in_order = MessageAssembler(group, view, message_bytes_max)
        self._closing = False
        self.paused = False
        self.delivered = 0
        """How many ordered nodes were delivered."""
        self.early = 0
        """Of those with places, how many had theirs before all members were heard…"""
        self.heard = 0
        """…and how many members had been heard, for all of them together."""

    def places(self) -> int:
        """How many ordered nodes have their places."""
        return self._places

    def spoiled(self) -> int:
        """Messages that could not be put together."""
        return self._reliable.spoiled + self._in_order.spoiled

    def waiting(self) -> int:
        """How many nodes wait here."""
        return len(self._ordered) + len(self._line) + len(self._blocked)

    def waiting_of(self, rank: int) -> int:
        """How many nodes of this sender wait here."""
        count = len(self._undelivered[rank])
        for held in self._blocked:
            if held.sender == rank:
                count += 1
        return count

    def lacks_places(self) -> bool:
        """Whether an ordered message waits for votes."""
        return bool(self._ordered)

    def waits_for_others(self) -> bool:
        """Whether acknowledgements would let something through."""
        return bool(self._ordered) or bool(self._line)

    def add(self, node: GraphNode, added: DomainNode, effects: Effects) -> None:
        """A node has come into the graph, after all that precede it."""
        batch = added.batch
        is_ordered = batch is not None and batch.level >= AGREED
        self.rounds.add(node.sender, node.number, node.past, is_ordered)
        self._unstable[node.sender].append((node.number, node.past, is_ordered))
        if batch is None:
            return
        held = HeldBatch(node.sender, node.number, batch, added.destinations)
        if is_ordered:
            self._ordered[node.sender, node.number] = held
            self._undelivered[node.sender].append(node.number)
            return
        if self._ordered or self._line:
            self.drain(effects)
            held.after = self.delivered + self._deliverable()
            self._note_overtaking(held, node.past)
        if self._blocked and not self.paused:
            self._release(effects)  # own ones that this node follows
        if self.paused or self._is_blocked(held) or self._follows_blocked(held):
            self._blocked.append(held)
        else:
            self._assemble(held, effects)

    def _note_overtaking(self, held: HeldBatch, past: list[int]) -> None:
        """Note a reliable node that does not wait for its sender's ordered ones, or what a causal one waits for."""
        if held.batch.level == RELIABLE and self._undelivered[held.sender]:
            self._overtaking[held.sender].append(held.number)
        elif held.batch.level == CAUSAL:
            for rank, numbers in enumerate(self._overtaking):
                highest = 0
                for number in numbers:
                    if number <= past[rank]:
                        highest = number
                if highest and self._precedes(rank, highest):
                    held.behind.append((rank, highest))

    def _precedes(self, rank: int, number: int) -> bool:
        """Whether an ordered node of this sender below this number waits."""
        waiting = self._undelivered[rank]
        return bool(waiting) and waiting[0] < number

    def _deliverable(self) -> int:
        """How many ordered nodes could be delivered now: none but while the application has stopped."""
        count = 0
        for held in self._line:
            if not self._is_safe(held):
                break
            count += 1
        return count

    def _is_blocked(self, held: HeldBatch) -> bool:
        if held.batch.level == RELIABLE:
            return False
        if held.sender == self._me and self._copies > 1 and not self._closing and not self._has_copies(held):
            return True
        if held.after > self.delivered or self._precedes(held.sender, held.number):
            return True
        return bool(held.behind) and any(self._precedes(rank, number) for rank, number in held.behind)

    def _follows_blocked(self, held: HeldBatch) -> bool:
        """Whether something of its sender that came before it, and that it may not overtake, is blocked."""
        if held.batch.level == RELIABLE:
            return False
        return any(one.sender == held.sender and one.batch.level != RELIABLE for one in self._blocked)

    def _has_copies(self, held: HeldBatch) -> bool:
        """Whether enough members hold an own message."""
        node = self._graph.node((held.sender, held.number))
        return node is None or self._graph.is_stable(node) or self._graph.is_n_stable(node, self._copies)

    def close(self) -> None:
        """Nothing more comes."""
        self._closing = True
        self.rounds.close()

    def place(self) -> None:
        """Give places to what the graph decides."""
        if not self._ordered:
            return
        unheard = self.rounds.silent()
        placed = self.rounds.take()
        for mid in placed:
            held = self._ordered.pop(mid)
            self._places += 1
            held.place = self._places
            if held.batch.level == SAFE:
                held.decided_by = self._graph.last.copy()
            self._line.append(held)
            self.heard += self._graph.participants - unheard
            if unheard:
                self.early += 1

    def finish_regular(self, effects: Effects) -> None:
        """Nothing more comes into the graph: deliver what it decides, also if the application has stopped."""
        paused = self.paused
        self.paused = False
        self.drain(effects)
        self.paused = paused

    def drain(self, effects: Effects) -> None:
        """Deliver what may be delivered."""
        self.place()
        if self.paused and not self._closing:
            return
        if self._blocked:
            self._release(effects)
        while self._line and (self._closing or self._is_safe(self._line[0])):
            held = self._line.popleft()
            waiting = self._undelivered[held.sender]
            waiting.popleft()
            if not waiting:
                self._overtaking[held.sender].clear()
            self.delivered += 1
            self._assemble(held, effects)
            if self._blocked:
                self._release(effects)

    def _is_safe(self, held: HeldBatch) -> bool:
        if held.batch.level != SAFE or held.place <= self._safe_places:
            return True
        self.follow_stable()
        return held.place <= self._safe_places

    def follow_stable(self) -> None:
        """Let the nodes vote that have become stable, each after all that precede it."""
        stable_to = self._graph.stable_to
        rounds, is_news = self._stable_rounds, True
        while is_news:
            is_news = False
            for rank, nodes in enumerate(self._unstable):
                while nodes and nodes[0][0] <= stable_to[rank] and self._may_follow(nodes[0][1]):
                    number, past, is_ordered = nodes.popleft()
                    rounds.add(rank, number, past, is_ordered)
                    is_news = True
        self._safe_places += len(rounds.take())

    def _may_follow(self, past: list[int]) -> bool:
        """Whether all that precede a node with this past have voted."""
        for rank, count in enumerate(past):
            nodes = self._unstable[rank]
            if nodes and nodes[0][0] <= count:
                return False
        return True

    def lacks_ack(self, past: list[int], me: int) -> bool:
        """Whether a safe message waits here whose place is decided by messages that this member, whose last node has
        this past, has not acknowledged."""
        if not self._line:
            return False
        return any(number > past[rank] and rank != me for rank, number in enumerate(self._line[0].decided_by))

    def _release(self, effects: Effects) -> None:
        """Deliver those that wait for nothing any more."""
        blocked = self._blocked
        self._blocked = []
        for held in blocked:
            if self._is_blocked(held) or self._follows_blocked(held):
                self._blocked.append(held)
            else:
                self._assemble(held, effects)

    def _assemble(self, held: HeldBatch, effects: Effects) -> None:
        if not held.destinations >> self._me & 1:
            return
        assembler = self._reliable if held.batch.level == RELIABLE else self._in_order
        assembler.private = held.destinations != EVERYBODY
        assembler.batch(held.sender, held.batch, effects)
