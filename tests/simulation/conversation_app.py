"""A deterministic program over a conversation, for the simulation: a replicated state machine on wave order.

It takes what everybody has said in waves (psync-1989, 4.2), the same order everywhere, and so can be run again (5.2): a
state that is a digest of all it was given, and answers that depend on that state alone. Whether a wave is complete is
read from the graph; messages are looked for there and not where `receive` gives them, so that its own count, too.
Whoever has received something and has nothing to say acknowledges it.
"""

import copy
from collections import deque
from dataclasses import dataclass, field
from hashlib import blake2b

from antiphon.parts.message_graph import GraphNode, MessageGraph, Mid
from antiphon.stacks.conversation.free.conversation import ConversationCore
from antiphon.stacks.conversation.free.wire import SAID, form_of, life_of, payload_of

LONG_BYTES = 3000
"""Some answers are that long, which is more than a packet."""


@dataclass
class Committed:
    """One message in its place of the order."""

    mid: Mid
    life: int
    state: bytes
    """Of the program, after it."""


@dataclass
class App:
    """The program of one participant, with all that a checkpoint of it holds."""

    rank: int
    appetite: int
    """How likely an answer is, of 256."""
    careful: bool
    """Take a wave only when all of it is stable: else a participant could act on a message that is lost with it, one of
    its own, say, and say it again at another place."""
    state: bytes = b""
    waves: int = 0
    """How many were taken."""
    committed: list[Committed] = field(default_factory=list)
    to_say: deque[bytes] = field(default_factory=deque)
    said: int = 0
    """How much it has had to say, from its initial state on."""
    scanned: list[int] = field(default_factory=list)
    in_waves: dict[int, list[Mid]] = field(default_factory=dict)
    bodies: dict[Mid, bytes] = field(default_factory=dict)
    """What is in no complete wave yet, where bodies are not kept."""

    def begin(self, participants: int) -> None:
        self.scanned = [0] * participants
        for number in range(3 if self.rank == 0 else 1):
            self._say(bytes((9, self.rank, number)))

    def _say(self, payload: bytes) -> None:
        self.to_say.append(payload)
        self.said += 1

    def copy(self) -> "App":
        """For a checkpoint. What was seen and is in no complete wave will be looked at again."""
        other = copy.copy(self)
        other.committed = list(self.committed)
        other.to_say = deque(self.to_say)
        other.scanned = [0] * len(self.scanned)
        other.in_waves = {}
        other.bodies = {}
        return other

    def take(self, conversation: ConversationCore) -> list[Committed]:
        """Take the waves that are complete, if everything that is here was received; what that commits."""
        self.scan(conversation)
        graph = conversation.replica.graph
        if conversation.view.outstanding():
            return []
        before = len(self.committed)
        while self.waves < graph.stable_wave and (not self.careful or self._is_safe(graph)):
            self.waves += 1
            for mid in sorted(self.in_waves.pop(self.waves, [])):
                body = self.bodies.pop(mid)
                if form_of(body) == SAID:
                    self._apply(mid, body)
        return self.committed[before:]

    def scan(self, conversation: ConversationCore) -> None:
        graph = conversation.replica.graph
        for rank in range(graph.participants):
            for number in range(self.scanned[rank] + 1, graph.last[rank] + 1):
                self._see(graph.node((rank, number)))
            self.scanned[rank] = graph.last[rank]

    def _see(self, node: GraphNode | None) -> None:
        if node is not None and node.wave > self.waves:
            assert node.body is not None
            self.in_waves.setdefault(node.wave, []).append(node.mid())
            self.bodies[node.mid()] = node.body

    def _is_safe(self, graph: MessageGraph) -> bool:
        """Whether all that programs say in the next wave is stable, and so not lost if somebody fails."""
        said = [mid for mid in self.in_waves.get(self.waves + 1, []) if form_of(self.bodies[mid]) == SAID]
        return all(number <= graph.stable_to[rank] for rank, number in said)

    def waits(self) -> bool:
        """Whether something that a program has said has no place in the order yet."""
        return any(form_of(body) == SAID for body in self.bodies.values())

    def _apply(self, mid: Mid, body: bytes) -> None:
        payload = payload_of(body)
        self.state = blake2b(self.state + repr(mid).encode() + payload, digest_size=16).digest()
        self.committed.append(Committed(mid, life_of(body), self.state))
        draw = blake2b(self.state + bytes((self.rank,)), digest_size=8).digest()
        if payload[0] and draw[0] < self.appetite:
            size = LONG_BYTES if draw[1] < 10 else 1
            self._say(bytes((payload[0] - 1,)) + draw * size)
