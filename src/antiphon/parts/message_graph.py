"""The context graph of a conversation, as one host holds it (psync-1989, 2 and 6.2).

A message is sent in the *context* of those that its sender had sent or received before. An edge leads from a message to
another one sent in its context, unless a longer path does: the graph is the transitive reduction of that relation. A
message comes with its immediate predecessors and is attached when all of them are here, so the order of attachment is
an order of the context, and a sender's messages are attached in the order in which they were sent.

Each node knows how much of every sender lies in its context (`past`). Since a context has no gaps, one number per
sender tells it all: whether one message precedes another is one comparison. And each knows who has sent something in
its context (`followed_by`), one bit per participant: that is what stability asks for.

A participant's view is what it has sent or received of the graph: no gaps either, so one number per sender, and the
leaves, to which the next message it sends is attached.

Cost: to attach a message takes time in proportion to its immediate predecessors times the participants, whatever the
size of the graph; all queries about one node take a step per participant at most. Memory: a node for each message that
has not been freed, with one number per participant; its body until it is stable, unless bodies are to be kept.
"""

from typing import Final, final

PARTICIPANTS_MAX: Final = 1024
"""Participants of one conversation; a node has a number for each."""

Mid = tuple[int, int]
"""A message of the conversation: the rank of its sender among the participants, and its number there, from 1 on."""


class GraphError(ValueError):
    """A message cannot be attached: it contradicts the graph."""

    def __init__(self, problem: str) -> None:
        super().__init__(problem)
        self.problem = problem


@final
class Node:
    """One message in the graph."""

    __slots__ = ("body", "followed_by", "number", "past", "predecessors", "sender", "successors", "wave")

    def __init__(
        self, sender: int, number: int, predecessors: list["Node"], past: list[int], wave: int, body: bytes | None
    ) -> None:
        self.sender = sender
        """The rank of its sender."""
        self.number = number
        self.predecessors = predecessors
        """The nodes to which it is attached; those that were freed are no longer named."""
        self.successors: list[Node] = []
        self.past = past
        """How many messages of each participant it was sent in the context of."""
        self.wave = wave
        """The length of the longest path that leads to it; messages of one wave were sent at the same logical time."""
        self.followed_by = 1 << sender
        """Bits of those who have sent a message in its context, and of its sender."""
        self.body = body

    def mid(self) -> Mid:
        return (self.sender, self.number)

    def precedes(self, other: "Node") -> bool:
        """Whether the other message was sent in the context of this one."""
        return other.past[self.sender] >= self.number

    def __repr__(self) -> str:
        return f"Node({self.sender}, {self.number})"


@final
class MessageGraph:
    """One host's image of the graph."""

    __slots__ = (
        "_keep_bodies",
        "_latest",
        "_leaves",
        "_nodes",
        "bodies",
        "body_bytes",
        "first",
        "last",
        "nodes",
        "participants",
        "stable_to",
        "stable_wave",
        "working",
    )

    def __init__(self, participants: int, keep_bodies: bool = False) -> None:
        if not 0 < participants <= PARTICIPANTS_MAX:
            raise GraphError(f"a conversation has 1 to {PARTICIPANTS_MAX} participants, not {participants}")
        self.participants = participants
        self.working = (1 << participants) - 1
        """Bits of the participants that are not masked out; stability is relative to these."""
        self.last = [0] * participants
        """The number of the last message of each participant…"""
        self.first = [1] * participants
        """…and of the first that has not been freed."""
        self.stable_to = [0] * participants
        """Up to which number each participant's messages are known to be stable; never goes back."""
        self.stable_wave = 0
        """The highest wave with a stable message: it is complete, and so is every wave before it (4.2)."""
        self.nodes = 0
        self.bodies = 0
        self.body_bytes = 0
        self._keep_bodies = keep_bodies
        self._nodes: list[dict[int, Node]] = [{} for _ in range(participants)]
        self._latest: list[list[int]] = [[0] * participants for _ in range(participants)]
        """The past of each participant's last message."""
        self._leaves: dict[Mid, Node] = {}

    # ---- building --------------------------------------------------------------------------------------------------

    def missing(self, predecessors: list[Mid]) -> list[Mid]:
        """Which of these are not here yet; those that were freed count as here."""
        return [mid for mid in predecessors if mid[1] > self.last[mid[0]]]

    def attach(self, sender: int, number: int, predecessors: list[Mid], body: bytes) -> Node:
        """Add a message whose immediate predecessors are all here.

        Raises GraphError if it contradicts what is here; then nothing has changed.
        """
        if number != self.last[sender] + 1:
            raise GraphError(f"message {number} of {sender} comes where {self.last[sender] + 1} should")
        found, past, wave = self._context(sender, number, predecessors)
        node = Node(sender, number, found, past, wave, body)
        for predecessor in found:
            predecessor.successors.append(node)
            self._leaves.pop(predecessor.mid(), None)
        self._leaves[sender, number] = node
        self._nodes[sender][number] = node
        self.last[sender] = number
        self.nodes += 1
        self.bodies += 1
        self.body_bytes += len(body)
        self._follow(sender, past)
        if not self.working & ~node.followed_by:
            self._settle(sender)  # nobody else takes part
        return node

    def _context(self, sender: int, number: int, predecessors: list[Mid]) -> tuple[list[Node], list[int], int]:
        """The nodes to attach to, and past and wave of a message that is attached to them."""
        past = [0] * self.participants
        found: list[Node] = []
        wave = 0
        for rank, own in predecessors:
            node = self._nodes[rank].get(own)
            if node is None:
                if own > self.last[rank]:
                    raise GraphError(f"message {number} of {sender} comes before its predecessor {own} of {rank}")
                raise GraphError(f"message {number} of {sender} follows {own} of {rank}, which was freed")
            found.append(node)
            if node.wave > wave:
                wave = node.wave
            theirs = node.past
            for place in range(self.participants):
                if theirs[place] > past[place]:
                    past[place] = theirs[place]
        for rank, own in predecessors:
            if past[rank] >= own:
                raise GraphError(f"message {number} of {sender} names {own} of {rank} beside one that follows it")
        for rank, own in predecessors:
            if past[rank] >= own:
                raise GraphError(f"message {number} of {sender} names two predecessors of {rank}")
            past[rank] = own
        if past[sender] != number - 1:
            raise GraphError(f"message {number} of {sender} is not in the context of the one before it")
        return found, past, wave + 1

    def _follow(self, sender: int, past: list[int]) -> None:
        """Note that a participant has sent something in the context of these; over all, once per message and sender."""
        before = self._latest[sender]
        self._latest[sender] = past
        bit = 1 << sender
        for rank in range(self.participants):
            if past[rank] == before[rank]:
                continue
            nodes = self._nodes[rank]
            for number in range(max(before[rank] + 1, self.first[rank]), past[rank] + 1):
                nodes[number].followed_by |= bit
            self._settle(rank)

    def _settle(self, rank: int) -> None:
        """See which messages of a participant have become stable; their bodies are not needed any more (3.3)."""
        nodes = self._nodes[rank]
        number = self.stable_to[rank] + 1
        node = nodes.get(number)
        while node is not None and not self.working & ~node.followed_by:
            self.stable_to[rank] = number
            if node.wave > self.stable_wave:
                self.stable_wave = node.wave
            if not self._keep_bodies:
                self._drop_body(node)
            number += 1
            node = nodes.get(number)

    def _drop_body(self, node: Node) -> None:
        body = node.body
        if body is not None:
            node.body = None
            self.bodies -= 1
            self.body_bytes -= len(body)

    # ---- who takes part --------------------------------------------------------------------------------------------

    def mask_out(self, rank: int) -> None:
        """Do not wait for a participant any more: stability becomes relative to the others (3.2.4)."""
        self.working &= ~(1 << rank)
        for sender in range(self.participants):
            self._settle(sender)

    def mask_in(self, rank: int) -> None:
        """Wait for a participant again. What was known to be stable stays so."""
        self.working |= 1 << rank

    def is_masked(self, rank: int) -> bool:
        return not self.working >> rank & 1

    # ---- asking ----------------------------------------------------------------------------------------------------

    def node(self, mid: Mid) -> Node | None:
        """None if it is not here, or was freed."""
        return self._nodes[mid[0]].get(mid[1])

    def leaves(self) -> list[Node]:
        """The messages that nothing follows yet."""
        return list(self._leaves.values())

    def is_stable(self, node: Node) -> bool:
        """Whether every other participant that works has sent a message in its context, or had when it was asked."""
        return node.number <= self.stable_to[node.sender]

    def is_n_stable(self, node: Node, n: int) -> bool:
        """Whether n - 1 participants other than its sender have sent a message in its context (3.2.3)."""
        return node.followed_by.bit_count() >= n

    def between(self, leaves: list[Mid], mid: Mid | None) -> list[Node]:
        """What somebody lacks who has these leaves and waits for a message, or for all there is; predecessors first."""
        known = [0] * self.participants
        for rank, number in leaves:
            node = self._nodes[rank].get(number)
            if node is None:
                known[rank] = max(known[rank], min(number, self.last[rank]))
                continue
            for place in range(self.participants):
                known[place] = max(known[place], node.past[place])
            known[rank] = max(known[rank], number)
        wanted = self.last
        if mid is not None:
            end = self._nodes[mid[0]].get(mid[1])
            if end is None:
                return []
            wanted = end.past
        lacking = [
            nodes[number]
            for rank, nodes in enumerate(self._nodes)
            for number in range(max(known[rank] + 1, self.first[rank]), wanted[rank] + 1)
        ]
        lacking.sort(key=_wave)
        return lacking

    # ---- forgetting ------------------------------------------------------------------------------------------------

    def free(self, node: Node) -> int:
        """Forget a message and all that precede it, as far as they are stable; how many were forgotten (3.3)."""
        freed = 0
        for rank in range(self.participants):
            end = node.number if rank == node.sender else node.past[rank]
            freed += self._free_up_to(rank, min(end, self.stable_to[rank]))
        return freed

    def free_waves(self, wave: int) -> int:
        """Forget all stable messages before a wave."""
        freed = 0
        for rank in range(self.participants):
            number = self.first[rank]
            nodes = self._nodes[rank]
            while number <= self.stable_to[rank] and nodes[number].wave < wave:
                number += 1
            freed += self._free_up_to(rank, number - 1)
        return freed

    def _free_up_to(self, rank: int, number: int) -> int:
        nodes = self._nodes[rank]
        first = self.first[rank]
        last = number
        if last == self.last[rank]:
            last -= 1  # the next message of the participant names it, or one that follows it
        for own in range(first, last + 1):
            node = nodes.pop(own)
            for successor in node.successors:
                successor.predecessors.remove(node)
            for predecessor in node.predecessors:
                predecessor.successors.remove(node)
            node.successors.clear()
            node.predecessors.clear()
            self._drop_body(node)
        if last < first:
            return 0
        self.first[rank] = last + 1
        self.nodes -= last + 1 - first
        return last + 1 - first


def _wave(node: Node) -> int:
    return node.wave


@final
class GraphView:
    """What one participant has sent or received of a graph."""

    __slots__ = ("_graph", "_leaves", "count", "received")

    def __init__(self, graph: MessageGraph) -> None:
        self._graph = graph
        self._leaves: dict[Mid, Node] = {}
        self.received = [0] * graph.participants
        """How many messages of each participant are in the view."""
        self.count = 0

    def add(self, node: Node) -> None:
        """The participant sends or receives a message; all before it must be in the view."""
        for rank in range(self._graph.participants):
            assert node.past[rank] <= self.received[rank] or rank == node.sender
        assert node.number == self.received[node.sender] + 1
        for predecessor in node.predecessors:
            self._leaves.pop(predecessor.mid(), None)
        self._leaves[node.sender, node.number] = node
        self.received[node.sender] = node.number
        self.count += 1

    def holds(self, node: Node) -> bool:
        return node.number <= self.received[node.sender]

    def outstanding(self) -> bool:
        """Whether there are messages in the graph that are not in the view."""
        return self.received != self._graph.last

    def leaves(self) -> list[Node]:
        """What the next message that the participant sends is attached to."""
        return list(self._leaves.values())

    def next(self, node: Node) -> list[Node]:
        """The immediate successors of a message in the view."""
        return [successor for successor in node.successors if self.holds(successor)]

    def prev(self, node: Node) -> list[Node]:
        """Its immediate predecessors."""
        return list(node.predecessors)

    def roots(self) -> list[Node]:
        """The messages that nothing precedes; none once they were freed."""
        first = [self._graph.node((rank, 1)) for rank in range(self._graph.participants)]
        return [node for node in first if node is not None and node.wave == 1 and self.holds(node)]

    def precedes(self, one: Node, other: Node) -> bool:
        """Whether the view holds a path from one message to the other."""
        return self.holds(other) and one.precedes(other)
