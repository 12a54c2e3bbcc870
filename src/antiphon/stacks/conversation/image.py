"""A host's image of the context graph, over a network that loses, doubles and reorders (psync-1989, 3.1 to 3.3).

A message whose predecessors are all here is attached; one that comes too early is held, and after a while what it
waits for is asked for: first of whoever sent it, who must have it; then of everybody; then the message is given up,
as if it had never come, and so is what waits for it (3.2.3). If it matters, it will be heard of again.

A message that comes twice is dropped. If it was resent, its sender thinks that something was lost: what follows it
here is sent back (3.2.2).

A participant that is masked out is not heard any more, but for messages that somebody else's message, which is held
here, was sent in the context of (3.2.4).

Limits, each with what happens there (3.3): `held_max` messages held, and `buffer_bytes_max` bytes of messages that are
held or not stable: what comes beyond is dropped, as if lost on the way. An answer to a request has `ANSWER_MAX` packets
at most; who lacks more asks again.
"""

from typing import Final, final

from antiphon.kernel.effects import NEVER
from antiphon.kernel.options import Options
from antiphon.parts.message_graph import GraphError, MessageGraph, Mid, Node
from antiphon.stacks.conversation.wire import Added, encode_add, encode_ask, encode_start

ANSWER_MAX: Final = 64
ASK_SENDER: Final = 2
"""So many times the sender of the message that waits is asked…"""
ASK_EVERYBODY: Final = 4
"""…and then so many times everybody, before the message is given up."""
EVERYBODY: Final = -1


@final
class Held:
    """A message that waits for predecessors."""

    __slots__ = ("added", "lacking", "via")

    def __init__(self, added: Added, via: int, lacking: int) -> None:
        self.added = added
        self.via = via
        """Who sent it to us, and so has all that precedes it."""
        self.lacking = lacking
        """How many of its predecessors are not here."""

    def mid(self) -> Mid:
        return (self.added.sender, self.added.number)


@final
class Question:
    """What one host is being asked for."""

    __slots__ = ("at_ns", "tries", "wanted")

    def __init__(self, wanted: Mid | None, at_ns: int) -> None:
        self.wanted = wanted
        """The message that waits, or None: all that follows what is here."""
        self.at_ns = at_ns
        self.tries = 0


@final
class Image:
    """One host's copy of the graph of one conversation."""

    __slots__ = (
        "_buffer_bytes_max",
        "_conversation",
        "_held",
        "_held_bytes",
        "_held_max",
        "_me",
        "_options",
        "_questions",
        "_start",
        "_tag",
        "_waiting",
        "counts",
        "graph",
        "out",
    )

    def __init__(
        self,
        conversation: int,
        tag: int,
        participants: int,
        me: int,
        start: bytes,
        options: Options,
        *,
        keep_bodies: bool = False,
        held_max: int = 1024,
        buffer_bytes_max: int = 16 * 1024 * 1024,
    ) -> None:
        self.graph = MessageGraph(participants, keep_bodies)
        self._conversation = conversation
        self._tag = tag
        self._me = me
        self._start = start
        """Who takes part, as the first message tells it."""
        self._options = options
        self._held_max = held_max
        self._buffer_bytes_max = buffer_bytes_max
        self._held: dict[Mid, Held] = {}
        self._held_bytes = 0
        self._waiting: dict[Mid, list[Held]] = {}
        """By what is missing: the messages that wait for it."""
        self._questions: dict[int, Question] = {}
        """By rank: what this participant is asked for; at most one thing at a time."""
        self.out: list[tuple[int, bytes]] = []
        """Packets to send, each with the rank of its destination, or EVERYBODY."""
        self.counts: dict[str, int] = {}
        """How often a message was dropped, by reason, and what was asked for and resent."""

    def _count(self, what: str) -> None:
        self.counts[what] = self.counts.get(what, 0) + 1

    # ---- sending ---------------------------------------------------------------------------------------------------

    def send(self, predecessors: list[Mid], section: bytes) -> Node:
        """Attach a message of our own, and send it to all."""
        node = self.graph.attach(self._me, self.graph.last[self._me] + 1, predecessors, section)
        self.out.append((EVERYBODY, self._packet(node, section, False)))
        return node

    def resend(self, node: Node) -> None:
        """Send a message to all once more, in case it was lost; nothing happens if it is stable (3.2.2)."""
        if not self.graph.is_stable(node):
            self._resend_to(EVERYBODY, node)

    def _resend_to(self, rank: int, node: Node) -> None:
        if node.body is not None:
            self._count("resent")
            self.out.append((rank, self._packet(node, node.body, True)))

    def _packet(self, node: Node, section: bytes, resent: bool) -> bytes:
        if node.sender == 0 and node.number == 1:
            return encode_start(self._conversation, self._tag, self._me, self._start, section, resent)
        return encode_add(self._conversation, self._tag, self._me, section, resent)

    # ---- receiving -------------------------------------------------------------------------------------------------

    def receive(self, added: Added, via: int, now_ns: int) -> list[Node]:
        """A message from the network; which nodes were attached, predecessors first."""
        mid = (added.sender, added.number)
        if added.number <= self.graph.last[added.sender]:
            self._receive_again(added, via)
            return []
        if mid in self._held:
            self._count("duplicate")
            return []
        if self.graph.is_masked(added.sender) and not self._is_needed(mid):
            self._count("masked")
            return []
        if self.graph.body_bytes + self._held_bytes + len(added.section) > self._buffer_bytes_max:
            self._count("overflow")
            return []
        missing = self._missing(added)
        if missing:
            self._hold(added, via, missing, now_ns)
            return []
        attached: list[Node] = []
        self._attach(added, attached)
        return attached

    def _missing(self, added: Added) -> list[Mid]:
        """What a message waits for; the one before it by the same sender is among its predecessors' past."""
        return self.graph.missing(added.predecessors)

    def _receive_again(self, added: Added, via: int) -> None:
        self._count("duplicate")
        if not added.resent:
            return
        node = self.graph.node((added.sender, added.number))
        if node is not None:
            for successor in node.successors:
                self._resend_to(via, successor)

    def _is_needed(self, mid: Mid) -> bool:
        """Whether a held message of somebody who is not masked was sent in the context of this one.

        It may be so by way of other held messages. Who needs a message needs all that its sender had sent before.
        """
        needed: dict[int, int] = {}
        """By rank, up to which number."""
        growing = True
        while growing:
            growing = False
            for held in self._held.values():
                added = held.added
                if self.graph.is_masked(added.sender) and added.number > needed.get(added.sender, 0):
                    continue
                for rank, number in added.predecessors:
                    if number > needed.get(rank, 0):
                        needed[rank] = number
                        growing = True
        return mid[1] <= needed.get(mid[0], 0)

    def _hold(self, added: Added, via: int, missing: list[Mid], now_ns: int) -> None:
        if len(self._held) >= self._held_max:
            self._count("overflow")
            return
        held = Held(added, via, len(missing))
        self._held[held.mid()] = held
        self._held_bytes += len(added.section)
        for mid in missing:
            self._waiting.setdefault(mid, []).append(held)
        if via not in self._questions:
            self._questions[via] = Question(held.mid(), now_ns + self._options.gap_delay_ns)

    def _attach(self, added: Added, attached: list[Node]) -> None:
        """Attach a message, and what was held for it."""
        ready = [added]
        while ready:
            following = ready.pop()
            try:
                node = self.graph.attach(following.sender, following.number, following.predecessors, following.section)
            except GraphError:
                self._count("contradiction")
                self._give_up_behind((following.sender, following.number))
                continue
            attached.append(node)
            for held in self._waiting.pop(node.mid(), ()):
                held.lacking -= 1
                if not held.lacking and held.mid() in self._held:
                    self._drop(held)
                    ready.append(held.added)

    def _drop(self, held: Held) -> None:
        """No longer held."""
        del self._held[held.mid()]
        self._held_bytes -= len(held.added.section)

    # ---- asking for what is missing --------------------------------------------------------------------------------

    def receive_ask(self, wanted: Mid | None, leaves: list[Mid], via: int, now_ns: int) -> None:
        """Somebody lacks something; and its leaves may be news here."""
        for node in self.graph.between(leaves, wanted, ANSWER_MAX):
            self._resend_to(via, node)
        if self.graph.missing(leaves) and via not in self._questions:
            self._questions[via] = Question(None, now_ns + self._options.gap_delay_ns)

    def receive_restart(self, via: int) -> None:
        """A participant is back: it gets the leaves, and asks for what precedes them by itself (5.1)."""
        for leaf in self.graph.leaves():
            self._resend_to(via, leaf)

    def ask_everybody(self) -> None:
        """Ask all for whatever follows what is here; they also learn what is here."""
        self._ask(EVERYBODY, None)

    def _ask(self, rank: int, wanted: Mid | None) -> None:
        self._count("asked")
        leaves = [leaf.mid() for leaf in self.graph.leaves()]
        self.out.append((rank, encode_ask(self._conversation, self._tag, self._me, wanted, leaves)))

    def deadline_ns(self) -> int:
        return min([question.at_ns for question in self._questions.values()], default=NEVER)

    def tick(self, now_ns: int) -> None:
        """Ask again for what is still missing, or give up."""
        for rank, question in list(self._questions.items()):
            if question.at_ns > now_ns:
                continue
            if question.wanted is None:
                del self._questions[rank]
                self._ask(rank, None)
            elif question.wanted not in self._held:
                self._ask_for_another(rank, now_ns)
            elif question.tries >= ASK_SENDER + ASK_EVERYBODY:
                self._give_up(question.wanted)
                self._ask_for_another(rank, now_ns)
            else:
                self._ask(rank if question.tries < ASK_SENDER else EVERYBODY, question.wanted)
                interval_ns = self._options.resend_interval_ns << min(question.tries, 10)
                question.at_ns = now_ns + min(interval_ns, self._options.resend_interval_ns_max)
                question.tries += 1

    def _ask_for_another(self, rank: int, now_ns: int) -> None:
        """What a host was asked for is here, or given up; something else that it sent may still wait."""
        del self._questions[rank]
        for mid, held in self._held.items():
            if held.via == rank:
                self._questions[rank] = Question(mid, now_ns + self._options.gap_delay_ns)
                return

    def _give_up(self, mid: Mid) -> None:
        """Forget a held message, and those that wait for it."""
        held = self._held.get(mid)
        if held is None:
            return
        self._count("given_up")
        self._drop(held)
        for predecessor in held.added.predecessors:
            waiting = self._waiting.get(predecessor)
            if waiting is not None and held in waiting:
                waiting.remove(held)
                if not waiting:
                    del self._waiting[predecessor]
        self._give_up_behind(mid)

    def _give_up_behind(self, mid: Mid) -> None:
        for waiting in self._waiting.pop(mid, []):
            self._give_up(waiting.mid())

    # ---- masks -----------------------------------------------------------------------------------------------------

    def mask_out(self, rank: int) -> None:
        """Do not wait for a participant, and do not listen to it."""
        self.graph.mask_out(rank)

    def mask_in(self, rank: int) -> None:
        self.graph.mask_in(rank)

    def held(self) -> int:
        """How many messages wait for their predecessors."""
        return len(self._held)
