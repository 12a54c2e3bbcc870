"""The context graph of a conversation, as one host holds it (psync-1989, 2, 3.3 and 6.2).

A message is sent in the *context* of those that its sender had sent or received before. An edge leads from a message to
another one sent in its context, unless a longer path does: the graph is the transitive reduction of that relation. A
message comes with its immediate predecessors and is attached when all of them are here, so the order of attachment is
an order of the context, and a sender's messages are attached in the order in which they were sent.

Each node knows how much of every sender lies in its context (`past`). Since a context has no gaps, one number per
sender tells it all: whether one message precedes another is one comparison. Who has sent something in the context of a
message is told by the pasts of everybody's last messages, so stability needs no walk either: of each participant's
messages, those are stable that even the last of the others to follow has followed.

A participant's view is what it has sent or received of the graph: no gaps either, so one number per sender, and the
leaves, to which the next message it sends is attached.

Forgetting. Nobody can name a stable message as an immediate predecessor any more, but for its sender, and that only if
it is its last: all others have sent something that follows it. So stable messages can be freed, all but the last of
each participant. Who was masked out when something was freed may still name it. Such a message is refused: that
participant has to come back by restart. Where participants tell what they have received (`acknowledge`), a message may
be stable and still be the last that somebody has of its sender, to which it attaches its next one; so each sender's
last stable message stays: what precedes it is followed, in everybody's view, by that one.

Cost: to attach a message takes a step per immediate predecessor and participant, whatever the size of the graph, and
on average over all messages a step per participant for stability; a query about one node takes a step per participant
at most. Memory: a node for each message that has not been freed, with one number per participant; its body until it is
stable, unless bodies are to be kept.

Deviations: mids are numbered per sender, so that a gap shows and a context is told by one number per sender; the paper
leaves the form of its mids open. What was known to be stable when a participant is masked in again stays so: its body
is gone. The last message of a participant is never freed, since its next one may name it.
"""

from heapq import heapify, heappop, heappush
from typing import Final, final

PARTICIPANTS_MAX: Final = 1024
"""Participants of one conversation; a node has a number for each."""

Mid = tuple[int, int]
"""A message of the conversation: the rank of its sender among the participants, and its number there, from 1 on."""


class GraphPacket:
    """A message as it came from the network, before it is attached: its sender, its number and its immediate
    predecessors. Stacks add the rest."""

    __slots__ = ("number", "predecessors", "sender")

    def __init__(self, sender: int, number: int, predecessors: list[Mid]) -> None:
        self.sender = sender
        self.number = number
        self.predecessors = predecessors


class GraphError(ValueError):
    """A message cannot be attached: it contradicts the graph."""

    def __init__(self, problem: str) -> None:
        super().__init__(problem)
        self.problem = problem


@final
class GraphNode:
    """One message in the graph."""

    __slots__ = ("body", "number", "past", "predecessors", "sender", "successors", "wave")

    def __init__(
        self, sender: int, number: int, predecessors: list["GraphNode"], past: list[int], wave: int, body: bytes | None
    ) -> None:
        self.sender = sender
        """The rank of its sender."""
        self.number = number
        self.predecessors = predecessors
        """The nodes to which it is attached; those that were freed are no longer named."""
        self.successors: list[GraphNode] = []
        self.past = past
        """How many messages of each participant it was sent in the context of."""
        self.wave = wave
        """The length of the longest path that leads to it; messages of one wave were sent at the same logical time."""
        self.body = body
        """What it says; None once it is stable, unless bodies are kept."""

    def mid(self) -> Mid:
        return (self.sender, self.number)

    def precedes(self, other: "GraphNode") -> bool:
        """Whether the other message was sent in the context of this one."""
        return other.past[self.sender] >= self.number

    def __repr__(self) -> str:
        return f"Node({self.sender}, {self.number})"


@final
class MessageGraph:
    """One host's image of the graph."""

    __slots__ = (
        "_are_told",
        "_behind",
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
        self._nodes: list[dict[int, GraphNode]] = [{} for _ in range(participants)]
        self._latest: list[list[int]] = [[0] * participants for _ in range(participants)]
        """The past of each participant's last message."""
        self._behind = [participants - 1] * participants
        """How many others that work have not followed each participant's messages beyond `stable_to`: if none is left,
        more of them are stable. Zero only if no other works."""
        self._leaves: dict[int, GraphNode] = {}
        """By sender: of a participant's messages only the last can be a leaf."""
        self._are_told = False
        """Whether participants also tell what they have received, beside what they send."""

    # ---- building --------------------------------------------------------------------------------------------------

    def missing(self, predecessors: list[Mid]) -> list[Mid]:
        """Which of these are not here yet; those that were freed count as here."""
        return [mid for mid in predecessors if mid[1] > self.last[mid[0]]]

    def attach(self, sender: int, number: int, predecessors: list[Mid], body: bytes) -> GraphNode:
        """Add a message whose immediate predecessors are all here.

        Raises GraphError if it contradicts what is here; then nothing has changed.
        """
        if number != self.last[sender] + 1:
            raise GraphError(f"message {number} of {sender} comes where {self.last[sender] + 1} should")
        found, past, wave = self._context(sender, number, predecessors)
        node = GraphNode(sender, number, found, past, wave, body)
        for predecessor in found:
            predecessor.successors.append(node)
            if self._leaves.get(predecessor.sender) is predecessor:
                del self._leaves[predecessor.sender]
        self._leaves[sender] = node
        self._nodes[sender][number] = node
        self.last[sender] = number
        self.nodes += 1
        self.bodies += 1
        self.body_bytes += len(body)
        self._follow(sender, past)
        if not self._behind[sender]:
            self._settle(sender)  # nobody else takes part
        return node

    def _context(self, sender: int, number: int, predecessors: list[Mid]) -> tuple[list[GraphNode], list[int], int]:
        """The nodes to attach to, and past and wave of a message that is attached to them."""
        past: list[int] = []
        found: list[GraphNode] = []
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
            if not past:
                past = theirs.copy()
                continue
            for place in range(self.participants):
                if theirs[place] > past[place]:
                    past[place] = theirs[place]
        if not past:
            past = [0] * self.participants
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
        """Note that a participant has sent something in the context of these."""
        before = self._latest[sender]
        self._latest[sender] = past
        if self.is_masked(sender):
            return
        for rank in range(self.participants):
            if before[rank] <= self.stable_to[rank] < past[rank] and rank != sender:
                self._behind[rank] -= 1
                if not self._behind[rank]:
                    self._settle(rank)

    def acknowledge(self, rank: int, received: list[int]) -> None:
        """Note that a participant tells what it has sent and received: by sender, up to which number.

        What it sends from here on is in the context of all that, just as if it had sent a message. What it has sent
        before must be here, up to received[rank]: a message of it that is still to come, and does not follow what it
        tells, could be of a wave that is taken for complete.
        """
        assert self.last[rank] >= received[rank]
        self._are_told = True
        before = self._latest[rank]
        self._follow(rank, [max(one, other) for one, other in zip(before, received, strict=True)])

    def _settle(self, rank: int) -> None:
        """See which messages of a participant have become stable, and who holds up the next ones."""
        lowest = self.last[rank]
        others = self._working_without(rank)
        for other in others:
            lowest = min(lowest, self._latest[other][rank])
        if lowest > self.stable_to[rank]:
            nodes = self._nodes[rank]
            self.stable_wave = max(self.stable_wave, nodes[lowest].wave)
            if not self._keep_bodies:  # they are not needed any more (3.3)
                for number in range(self.stable_to[rank] + 1, lowest + 1):
                    self._drop_body(nodes[number])
            self.stable_to[rank] = lowest
        self._behind[rank] = 0
        for other in others:
            if self._latest[other][rank] <= self.stable_to[rank]:
                self._behind[rank] += 1

    def followed_without(self, rank: int, absent: frozenset[int]) -> int:
        """Up to which number all others that work, but the absent ones, are known to follow a participant."""
        lowest = self.last[rank]
        for other in self._working_without(rank):
            if other not in absent:
                lowest = min(lowest, self._latest[other][rank])
        return lowest

    def _working_without(self, rank: int) -> list[int]:
        return [other for other in range(self.participants) if other != rank and self.working >> other & 1]

    def _drop_body(self, node: GraphNode) -> None:
        body = node.body
        if body is not None:
            node.body = None
            self.bodies -= 1
            self.body_bytes -= len(body)

    def begin_at(
        self, nodes: list[GraphNode], last: list[int], stable_to: list[int], stable_wave: int, leaves: list[Mid]
    ) -> None:
        """Start an empty graph in the middle of a conversation, as if all before these nodes had been freed: `nodes`
        are the last message of each participant and all that are not stable, predecessors first. Raises GraphError."""
        for node in nodes:
            self._nodes[node.sender][node.number] = node
            self._latest[node.sender] = node.past
            self.nodes += 1
            self.bodies += 1
            self.body_bytes += len(node.body or b"")
            for predecessor in node.predecessors:
                predecessor.successors.append(node)
        for rank in range(self.participants):
            here = self._nodes[rank]
            self.first[rank] = min(here, default=1)
            if max(here, default=0) != last[rank] or len(here) != last[rank] + 1 - self.first[rank]:
                raise GraphError(f"the messages of participant {rank} have gaps")
            if not min(self.first[rank] - 1, last[rank]) <= stable_to[rank] <= last[rank]:
                raise GraphError(f"messages of participant {rank} are neither stable nor here")
        self.last, self.stable_to, self.stable_wave = last, stable_to, stable_wave
        for leaf in leaves:
            found = self.node(leaf)
            if found is None:
                raise GraphError(f"the leaf {leaf} is not here")
            self._leaves[leaf[0]] = found
        for rank in range(self.participants):
            self._settle(rank)

    # ---- who takes part --------------------------------------------------------------------------------------------

    def mask_out(self, rank: int) -> None:
        """Do not wait for a participant any more: stability becomes relative to the others (3.2.4)."""
        self.working &= ~(1 << rank)
        for sender in range(self.participants):
            self._settle(sender)

    def mask_in(self, rank: int) -> None:
        """Wait for a participant again. What was known to be stable stays so."""
        self.working |= 1 << rank
        for sender in range(self.participants):
            self._settle(sender)

    def is_masked(self, rank: int) -> bool:
        return not self.working >> rank & 1

    # ---- asking ----------------------------------------------------------------------------------------------------

    def node(self, mid: Mid) -> GraphNode | None:
        """None if it is not here, or was freed."""
        return self._nodes[mid[0]].get(mid[1])

    def leaves(self) -> list[GraphNode]:
        """The messages that nothing follows yet."""
        return list(self._leaves.values())

    def in_order(self) -> list[GraphNode]:
        """All nodes, wave by wave, those of a wave by sender: one of the orders of the context."""
        nodes = [node for held in self._nodes for node in held.values()]
        nodes.sort(key=_place)
        return nodes

    def is_stable(self, node: GraphNode) -> bool:
        """Whether every other participant that works has sent a message in its context, or at some time had."""
        return node.number <= self.stable_to[node.sender]

    def is_n_stable(self, node: GraphNode, n: int) -> bool:
        """Whether n - 1 participants other than its sender have sent a message in its context (3.2.3)."""
        return len(self.followers(node)) >= n - 1

    def followers(self, node: GraphNode) -> list[int]:
        """Who else has sent a message in the context of this one, masked out or not."""
        return [rank for rank in range(self.participants) if rank != node.sender and self.has_followed(rank, node)]

    def has_followed(self, rank: int, node: GraphNode) -> bool:
        """Whether a participant has sent a message in the context of this one."""
        return self._latest[rank][node.sender] >= node.number

    def lacks_freed(self, leaves: list[Mid], asker: int, has_sent: bool) -> bool:
        """Whether a participant that has these leaves may lack messages that were freed here. Of a leaf that was freed
        itself, what it follows is not known. `has_sent`: whether the participant has what its last message follows."""
        known = self._known(leaves)
        if has_sent:
            known = [max(one, other) for one, other in zip(known, self._latest[asker], strict=True)]
            known[asker] = max(known[asker], self.last[asker])
        return any(known[rank] < self.first[rank] - 1 for rank in range(self.participants))

    def after(self, known: list[int], limit: int) -> list[GraphNode]:
        """What somebody lacks that has so many messages of each participant: the first ones that are here."""
        return self._first(known, self.last, limit)

    def lacks_bodies(self, leaves: list[Mid], asker: int) -> bool:
        """Whether a participant that has these leaves lacks messages that were stable without it, and whose bodies are
        gone. Nothing can be told where leaves are not here."""
        if self.missing(leaves):
            return False
        known = self._known(leaves)
        followed = self._latest[asker]
        return any(
            max(known[rank], followed[rank]) < self.stable_to[rank]
            for rank in range(self.participants)
            if rank != asker
        )

    def between(self, leaves: list[Mid], mid: Mid | None, limit: int, asker: int) -> list[GraphNode]:
        """What a participant lacks that has these leaves and waits for a message, or for all there is.

        Predecessors first; the first `limit` of it, without those whose bodies are gone. A host that does not have the
        message itself may still have some of what precedes it: it gives all that it has. Takes time by the limit, not
        by what is lacking.

        Leaves that are not here do not tell all that the asker has. Then what it has sent or followed comes last: it
        had that, and if the limit were used up by it, the asker would get no further.
        """
        known = self._known(leaves)
        end = None if mid is None else self._nodes[mid[0]].get(mid[1])
        wanted = self.last if end is None else end.past
        if not self.missing(leaves):
            return self._first(known, wanted, limit)
        had = [max(one, other) for one, other in zip(known, self._latest[asker], strict=True)]
        had[asker] = max(had[asker], self.last[asker])
        lacking = self._first(had, wanted, limit)
        if len(lacking) < limit:
            last = [min(one, other) for one, other in zip(had, wanted, strict=True)]
            lacking += self._first(known, last, limit - len(lacking))
        return lacking

    def _first(self, after: list[int], up_to: list[int], limit: int) -> list[GraphNode]:
        """Of these ranges of numbers, one for each participant, the nodes with bodies; the first ones, by wave."""
        heads: list[tuple[int, int, int]] = []
        for rank in range(self.participants):
            number = max(after[rank] + 1, self.first[rank])
            if not self._keep_bodies:
                number = max(number, self.stable_to[rank] + 1)
            if number <= up_to[rank]:
                heads.append((self._nodes[rank][number].wave, rank, number))
        heapify(heads)
        found: list[GraphNode] = []
        while heads and len(found) < limit:
            _, rank, number = heappop(heads)
            found.append(self._nodes[rank][number])
            if number < up_to[rank]:
                heappush(heads, (self._nodes[rank][number + 1].wave, rank, number + 1))
        return found

    def _known(self, leaves: list[Mid]) -> list[int]:
        """How much of each participant somebody has who has these leaves; less, if some of them are not here."""
        known = [0] * self.participants
        for rank, number in leaves:
            known[rank] = max(known[rank], number)
            node = self._nodes[rank].get(number)
            past = self._latest[rank] if number > self.last[rank] else None if node is None else node.past
            if past is not None:
                for place in range(self.participants):
                    known[place] = max(known[place], past[place])
        return known

    # ---- forgetting ------------------------------------------------------------------------------------------------

    def free(self, node: GraphNode) -> int:
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

    def trim(self, keep: int) -> int:
        """Forget the earliest stable messages as long as there are more than `keep` nodes (3.3: the threshold)."""
        freed = 0
        while self.nodes > keep:
            earliest = self._earliest()
            if earliest is None:
                break
            freed += self._free_up_to(earliest.sender, earliest.number)
        return freed

    def _earliest(self) -> GraphNode | None:
        """Of the messages that can be freed, one of the lowest wave."""
        found: GraphNode | None = None
        for rank in range(self.participants):
            first = self.first[rank]
            if first <= self.stable_to[rank] and first < self.last[rank]:
                node = self._nodes[rank][first]
                if found is None or node.wave < found.wave:
                    found = node
        return found

    def _free_up_to(self, rank: int, number: int) -> int:
        nodes = self._nodes[rank]
        first = self.first[rank]
        last = min(number, self.last[rank] - 1)  # the next message of the participant may name its last
        if self._are_told:  # one that is stable and that no stable one follows may be a leaf of anybody's view
            last = min(last, self.stable_to[rank] - 1)
        if last < first:
            return 0
        for own in range(first, last + 1):
            node = nodes.pop(own)
            for successor in node.successors:
                successor.predecessors.remove(node)
            for predecessor in node.predecessors:
                predecessor.successors.remove(node)
            node.successors.clear()
            node.predecessors.clear()
            self._drop_body(node)
        self.first[rank] = last + 1
        self.nodes -= last + 1 - first
        return last + 1 - first


def _place(node: GraphNode) -> tuple[int, int]:
    return (node.wave, node.sender)


@final
class GraphView:
    """What one participant has sent or received of a graph."""

    __slots__ = ("_graph", "_latest", "_leaves", "count", "received")

    def __init__(self, graph: MessageGraph) -> None:
        self._graph = graph
        self._leaves: dict[int, GraphNode] = {}
        self._latest: list[GraphNode | None] = [None] * graph.participants
        """The last message of each participant that is in the view."""
        self.received = [0] * graph.participants
        """How many messages of each participant are in the view."""
        self.count = 0

    def begin_at(self, latest: list[GraphNode], leaves: list[GraphNode]) -> None:
        """Start an empty view in the middle of a conversation: all up to these messages was sent or received."""
        for node in latest:
            self._latest[node.sender] = node
            self.received[node.sender] = node.number
        self._leaves = {leaf.sender: leaf for leaf in leaves}
        self.count = sum(self.received)

    def add(self, node: GraphNode) -> None:
        """The participant sends or receives a message; all before it must be in the view."""
        past = node.past
        for rank in range(self._graph.participants):
            assert past[rank] <= self.received[rank]
        assert node.number == self.received[node.sender] + 1
        for leaf in self.leaves():  # not by the node's predecessors: some may have been freed meanwhile
            if leaf.precedes(node):
                del self._leaves[leaf.sender]
        self._leaves[node.sender] = node
        self._latest[node.sender] = node
        self.received[node.sender] = node.number
        self.count += 1

    def holds(self, node: GraphNode) -> bool:
        return node.number <= self.received[node.sender]

    def outstanding(self) -> bool:
        """Whether there are messages in the graph that are not in the view."""
        return self.received != self._graph.last

    def leaves(self) -> list[GraphNode]:
        """What the next message that the participant sends is attached to."""
        return list(self._leaves.values())

    def next(self, node: GraphNode) -> list[GraphNode]:
        """The immediate successors of a message in the view."""
        return [successor for successor in node.successors if self.holds(successor)]

    def prev(self, node: GraphNode) -> list[GraphNode]:
        """Its immediate predecessors."""
        return list(node.predecessors)

    def roots(self) -> list[GraphNode]:
        """The messages that nothing precedes; none once they were freed."""
        first = [self._graph.node((rank, 1)) for rank in range(self._graph.participants)]
        return [node for node in first if node is not None and node.wave == 1 and self.holds(node)]

    def precedes(self, one: GraphNode, other: GraphNode) -> bool:
        """Whether the view holds a path from one message to the other."""
        return self.holds(other) and one.precedes(other)

    def is_stable(self, node: GraphNode) -> bool:
        """Whether the view holds a message in the context of this one from every other participant that works.

        The graph may know more: it also has what has arrived and was not received. Who goes by the view alone, as the
        waves of 4.2 do, must ask here: if one message of a wave is stable in the view, the view holds the whole wave.
        """
        for rank in range(self._graph.participants):
            if rank != node.sender and not self._graph.is_masked(rank):
                latest = self._latest[rank]
                if latest is None or not node.precedes(latest):
                    return False
        return True

    def is_n_stable(self, node: GraphNode, n: int) -> bool:
        """Whether the view holds messages in the context of this one from n - 1 participants other than its sender."""
        followers = [
            latest for latest in self._latest if latest and latest.sender != node.sender and node.precedes(latest)
        ]
        return len(followers) >= n - 1
