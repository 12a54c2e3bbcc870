"""A host's image of the context graph, over a network that loses, doubles and reorders (psync-1989, 3.1 to 3.3).

A message whose predecessors are all here is attached; one that comes too early is held, and after a while what it
waits for is asked for: first of whoever sent it, who must have it; then of everybody; then the message is given up,
as if it had never come, and so is what waits for it (3.2.3). If it matters, it will be heard of again. A held message
that waits for held ones alone asks for nothing: they do.

A message that comes twice is dropped. If it was resent, its sender thinks that something was lost: what follows it
here is sent back (3.2.2), unless it is stable, and that only: what comes so is not answered in turn, or one message
would bring back the whole graph, once for each path.

Who asks also tells its leaves. If they are news here, what leads to them is asked for in turn; so two hosts that have
drifted apart find each other again by one question.

Whom it listens to: sender_filter.py. Each message tells the life of its sender. Two messages of one number and two
lives are a fork (fork.py): one side of it was left behind.

What was freed here, but is in the log of the host, is asked for there: `early_asks` (trimmed_history.py). Whoever lacks
what is nowhere here any more is told so.

Limits, each with what happens there (3.3): limits.py. An answer to a request has ANSWER_MAX messages at most; who lacks
more asks again.
"""

from collections import deque
from typing import Final, final

from antiphon.kernel.effects import NEVER
from antiphon.kernel.options import Options
from antiphon.parts.message_graph import GraphError, GraphNode, MessageGraph, Mid
from antiphon.stacks.conversation.free.fork import Fork
from antiphon.stacks.conversation.free.holding import HeldMessage, HoldingQueue, WantedMessages
from antiphon.stacks.conversation.free.limits import Limits
from antiphon.stacks.conversation.free.sender_filter import SenderFilter, follows
from antiphon.stacks.conversation.free.slices import BURST, parts_of, step_for
from antiphon.stacks.conversation.free.wire import (
    ANSWER,
    BODY_AT,
    FORGOTTEN,
    FORKED,
    HEARD,
    KEPT,
    RESENT,
    Added,
    Restarted,
    Slicing,
    encode_add,
    encode_ask,
    encode_restart,
    encode_start,
    life_of,
)

ANSWER_MAX: Final = 64
ASK_SENDER: Final = 2
"""So many times the sender of the message that waits is asked…"""
ASK_EVERYBODY: Final = 4
"""…and then so many times everybody, before the message is given up."""
EVERYBODY: Final = -1


@final
class GraphReplica:
    """One host's copy of the graph of one conversation."""

    __slots__ = (
        "_answered",
        "_answers_due_ns",
        "_conversation",
        "_due_ns",
        "_held",
        "_kept",
        "_life",
        "_life_marks",
        "_limits",
        "_me",
        "_options",
        "_recovered",
        "_requests",
        "_share_bytes",
        "_sizes",
        "_start",
        "_step",
        "_tag",
        "_unstable_bytes",
        "counts",
        "early_asks",
        "fork",
        "graph",
        "logged",
        "out",
        "sender_filter",
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
        limits: Limits | None = None,
        life: int = 0,
    ) -> None:
        self.graph = MessageGraph(participants, keep_bodies)
        self._conversation = conversation
        self._tag = tag
        self._me = me
        self._life = life
        self._start = start
        """Who takes part, as the first message tells it; nothing where everybody knows."""
        self._kept = keep_bodies
        self._options = options
        self._limits = limits or Limits()
        self._share_bytes = self._limits.buffer_bytes_max // participants
        self._step = step_for(options.packet_bytes_max)
        self._held = HoldingQueue(self._limits)
        self._requests: dict[int, WantedMessages] = {}
        """By rank: what this participant is known to have."""
        self._due_ns = NEVER
        self._answers_due_ns: dict[int, int] = {}
        """By whom was asked, EVERYBODY too: until when the answer is waited for."""
        self.sender_filter = SenderFilter(participants)
        self._life_marks: list[list[tuple[int, int]]] = [[] for _ in range(participants)]
        """By rank: from which number on its attached messages are of which life."""
        self._sizes: list[deque[tuple[int, int]]] = [deque() for _ in range(participants)]
        """By rank: number and size of messages that were not stable when last looked at."""
        self._unstable_bytes = [0] * participants
        self._recovered = 0
        """Messages that were attached because they were asked for."""
        self._answered = 0
        """The same, since something was last asked for."""
        self.fork = Fork()
        """Who has other messages than this host, or nothing of what it lacks: whether it was left behind."""
        self.logged = False
        """Whether what is freed here is in the log of the host."""
        self.early_asks: dict[int, list[Mid]] = {}
        """By rank of one that lacks what was freed here: its leaves."""
        self.out: list[tuple[int, bytes]] = []
        """Packets to send, each with the rank of its destination, or EVERYBODY."""
        self.counts: dict[str, int] = {}
        """How often a message was dropped, by reason, and what was asked for and resent."""

    def count(self, what: str) -> None:
        self.counts[what] = self.counts.get(what, 0) + 1

    # ---- sending ---------------------------------------------------------------------------------------------------

    def send(self, predecessors: list[Mid], section: bytes) -> GraphNode:
        """Attach a message of our own, and send it to all."""
        node = self.graph.attach(self._me, self.graph.last[self._me] + 1, predecessors, section)
        self._note(node, life_of(section), len(section))
        self._emit(EVERYBODY, node, section, 0)
        return node

    def resend(self, node: GraphNode) -> None:
        """Send a message to all once more, in case it was lost; nothing happens if it is stable (3.2.2)."""
        if not self.graph.is_stable(node):
            self._resend_to(EVERYBODY, node, RESENT)

    def resend_first(self, rank: int) -> None:
        """Send the first message of the conversation to a participant that may not know of the conversation."""
        node = self.graph.node((0, 1))
        if node is not None:
            self._resend_to(rank, node)

    def _resend_to(self, rank: int, node: GraphNode, flags: int = ANSWER) -> None:
        if node.body is not None:
            self.count("resent")
            self._emit(rank, node, node.body, flags)

    def _emit(self, rank: int, node: GraphNode, section: bytes, flags: int) -> None:
        if self._start and node.sender == 0 and node.number == 1:
            flags |= KEPT if self._kept else 0
            packet = encode_start(self._conversation, self._tag, self._me, self._start, section, flags, self._life)
            self.out.append((rank, packet))
        elif self.fits(section):
            self.out.append((rank, encode_add(self._conversation, self._tag, self._me, section, flags, self._life)))
        else:
            slicing = Slicing(node.mid(), life_of(section), len(section), self._step)
            self._emit_parts(rank, slicing, [(0, min(BURST, slicing.slices()) - 1)], section, flags)

    def _emit_parts(
        self, rank: int, slicing: Slicing, ranges: list[tuple[int, int]], section: bytes, flags: int
    ) -> None:
        for part in parts_of(self._conversation, self._tag, self._me, slicing, ranges, section, flags, self._life):
            self.out.append((rank, part))

    def fits(self, section: bytes, before: int = 0) -> bool:
        """Return whether a message fits into one packet behind this many bytes."""
        return BODY_AT + before + len(section) <= self._options.packet_bytes_max

    def unstable_bytes(self, rank: int) -> int:
        """Bytes of a participant's messages that are not stable."""
        sizes = self._sizes[rank]
        while sizes and sizes[0][0] <= self.graph.stable_to[rank]:
            self._unstable_bytes[rank] -= sizes.popleft()[1]
        return self._unstable_bytes[rank]

    def has_room(self, rank: int, shares: int = 1) -> bool:
        """Return whether a participant has used less than this many shares of the limit for unstable messages."""
        graph = self.graph
        unstable = graph.last[rank] - graph.stable_to[rank]
        return unstable < shares * self._limits.unstable_max and self.unstable_bytes(rank) < shares * self._share_bytes

    def _note(self, node: GraphNode, life: int, size: int) -> None:
        """Update the counts for a message that was attached."""
        self._sizes[node.sender].append((node.number, size))
        self._unstable_bytes[node.sender] += size
        marks = self._life_marks[node.sender]
        if not marks or marks[-1][1] != life:
            marks.append((node.number, life))
        self.sender_filter.learn_life(node.sender, life)

    # ---- receiving -------------------------------------------------------------------------------------------------

    def receive(self, added: Added, via: int, now_ns: int, via_life: int = 0) -> list[GraphNode]:
        """Attach or hold a message from the network; return the nodes that were attached, predecessors first."""
        mid = added.mid()
        if added.number <= self.graph.last[added.sender]:
            self._receive_again(added, via, via_life)
            return []
        if self._held.has(mid):
            self.count("duplicate")
            return []
        if not self.sender_filter.hears(added.sender, added.number, via, via_life) and not self._is_needed(mid):
            self.count("masked")
            return []
        missing = self.graph.missing(added.predecessors)
        if missing:
            self._hold(added, via, via_life, missing, now_ns)
            return []
        if not self.has_room(added.sender, 2):  # its sender may know of more that is stable
            self.count("overflow")
            if via not in self._requests:  # what would make room may have been lost
                self._wish(via, [mid], now_ns + self._options.resend_interval_ns)
            return []
        attached: list[GraphNode] = []
        self._attach(added, attached)
        if self._answered >= ANSWER_MAX:
            self._hurry(now_ns)
        return attached

    def has(self, mid: Mid) -> bool:
        """Return whether a message is attached or held."""
        return mid[1] <= self.graph.last[mid[0]] or self._held.has(mid)

    def _receive_again(self, added: Added, via: int, via_life: int) -> None:
        self.count("duplicate")
        if added.life != self.life_at(added.mid()):
            self.count("conflict")
            if self.sender_filter.trusts(via, via_life) and not self.sender_filter.ignores(via):
                self.fork.contradicts(via)
                self.tell(EVERYBODY, FORKED, Restarted(self.life_at(added.mid()), self._life, [added.mid()]))
        elif added.resent:
            self.resend_successors(added.mid(), via)

    def resend_successors(self, mid: Mid, rank: int) -> None:
        """Resend what follows a message, for a participant that believes the answers to it to be lost (3.2.2)."""
        node = self.graph.node(mid)
        if node is not None:
            for successor in node.successors:
                if not self.graph.is_stable(successor):
                    self._resend_to(rank, successor)

    def lives_of(self, rank: int) -> list[tuple[int, int]]:
        """Return, for each incarnation of a participant, the number of its first attached message and the
        incarnation."""
        return self._life_marks[rank]

    def life_marks(self) -> list[list[tuple[int, int]]]:
        """Return the same for all participants."""
        return self._life_marks

    def learn_marks(self, marks: list[list[tuple[int, int]]]) -> None:
        """Take over what a checkpoint tells of the incarnations of all participants."""
        for rank, own in enumerate(marks):
            self._life_marks[rank] = list(own)
            for _, life in own:
                self.sender_filter.learn_life(rank, life)

    def place_in_life(self, node: GraphNode) -> tuple[int, int]:
        """Return in which incarnation its sender sent an attached message, and its position among the messages of that
        incarnation."""
        for first, life in reversed(self._life_marks[node.sender]):
            if first <= node.number:
                return life, node.number - first + 1
        raise AssertionError(f"{node.mid()} is not attached")

    def receive_fork(self, via: int, said: Restarted, is_answer: bool) -> None:
        """Compare a message that somebody has with the one that is here under its number. If they differ, answer; the
        first time everybody, since this is a meeting with the other message, too."""
        for mid in said.leaves:
            if mid[1] <= self.graph.last[mid[0]] and self.life_at(mid) != said.life:
                is_news = self.fork.contradicts(via)
                own = Restarted(self.life_at(mid), self._life, [mid])
                if is_news and not is_answer:
                    self.tell(EVERYBODY, FORKED, own)
                elif not is_answer:
                    self.tell(via, FORKED | ANSWER, own)

    def tell(self, rank: int, flags: int, said: Restarted) -> None:
        """Send an announcement about a restart, or a notice of the same form."""
        self.out.append((rank, encode_restart(self._conversation, self._tag, self._me, flags, said)))

    def life_at(self, mid: Mid) -> int:
        """Return the incarnation in which a participant sent an attached message."""
        life = 0
        for number, marked in self._life_marks[mid[0]]:
            if number > mid[1]:
                break
            life = marked
        return life

    def _hold(self, added: Added, via: int, via_life: int, missing: list[Mid], now_ns: int) -> None:
        lacks = set(missing)
        held = HeldMessage(added, via, via_life, len(lacks), now_ns + self._options.gap_delay_ns)
        if self._held.hold(held, lacks):
            self._due_ns = min(self._due_ns, held.at_ns)
        else:
            self.count("overflow")

    def _attach(self, added: Added, attached: list[GraphNode]) -> None:
        """Attach a message, and the held messages that waited for it."""
        ready = [added]
        while ready:
            following = ready.pop()
            node = self._attach_one(following)
            if node is None:
                self.count("contradiction")
                for waiting in self._held.behind(following.mid()):
                    self._give_up(waiting)
                continue
            attached.append(node)
            if following.answers:
                self._recovered += 1
                self._answered += 1
                self.fork.forgotten.clear()
            ready += self._held.freed_by(node.mid())

    def _attach_one(self, added: Added) -> GraphNode | None:
        marks = self._life_marks[added.sender]
        if marks and added.life < marks[-1][1]:
            return None
        if added.sender == self._me and added.life >= self._life:
            self.fork.reused = True  # not sent here: another process is, or was, in this life
            return None
        if not self._may_enter(added):
            return None
        try:
            node = self.graph.attach(added.sender, added.number, added.predecessors, added.section)
        except GraphError:
            return None
        self._note(node, added.life, len(added.section))
        return node

    def _may_enter(self, added: Added) -> bool:
        """Return whether a message of a participant that was admitted again follows the messages that admitted it."""
        entries = self.sender_filter.entries[added.sender]
        for life, entry in entries:
            if life <= added.life and follows(self.graph, added.predecessors, entry):
                return True
        return not entries

    def restore(self, added: Added) -> list[GraphNode]:
        """Attach a message from the storage of the host; return the nodes that were attached: none if a predecessor is
        missing."""
        attached: list[GraphNode] = []
        if not self.has(added.mid()) and not self.graph.missing(added.predecessors):
            self._attach(added, attached)
        return attached

    # ---- asking for what is missing --------------------------------------------------------------------------------

    def receive_ask(self, wanted: Mid | None, leaves: list[Mid], via: int, now_ns: int) -> None:
        """Answer a participant that lacks messages, and learn from its leaves what is missing here."""
        graph = self.graph
        if self._kept:
            is_same_life = self.life_at((via, graph.last[via])) == self.sender_filter.lives[via]
            if graph.lacks_freed(leaves, via, is_same_life and graph.last[via] > 0):
                if self.logged:
                    self.early_asks[via] = leaves
                    return
                if all(graph.node(leaf) is not None for leaf in leaves):
                    self.tell(via, FORGOTTEN, Restarted(self._life, self._life, leaves))
        elif graph.lacks_bodies(leaves, via):
            self.tell(via, FORGOTTEN, Restarted(self._life, self._life, leaves))
        for node in self.graph.between(leaves, wanted, ANSWER_MAX, via):
            self._resend_to(via, node)
        self.learn_leaves(via, leaves, now_ns)

    def answer_early(self, rank: int, known: list[int], found: list[tuple[Mid, bytes]]) -> None:
        """Send messages that were freed here, and read from the log, to a participant that has so many of each, and
        then what was not freed."""
        for (sender, number), section in found:
            self.count("resent")
            self._emit(rank, GraphNode(sender, number, [], [], 0, None), section, ANSWER)
        for node in self.graph.after(known, ANSWER_MAX - len(found)):
            self._resend_to(rank, node)

    def learn_leaves(self, via: int, leaves: list[Mid], now_ns: int) -> None:
        """Note that a participant has these messages, and ask for those that are missing here."""
        missing = self.graph.missing(leaves)
        if missing and via not in self._requests and not self.sender_filter.ignores(via):
            self._wish(via, missing, now_ns + self._options.gap_delay_ns)

    def lacks(self, via: int, now_ns: int) -> None:
        """Note messages that somebody has and this replica lacks; ask for them, once, if they do not come by
        themselves."""
        if via not in self._requests:
            self._wish(via, [], now_ns + self._options.gap_delay_ns)

    def receive_ask_parts(self, slicing: Slicing, ranges: list[tuple[int, int]], via: int) -> None:
        """Resend slices of a message to a participant that lacks them."""
        node = self.graph.node(slicing.mid)
        if node is None or node.body is None:
            return
        body = node.body
        if slicing.is_like(Slicing(slicing.mid, life_of(body), len(body), self._step)):
            self._emit_parts(via, slicing, ranges, body, ANSWER)

    def receive_restart(self, via: int, life: int, is_whole: bool, moved: list[tuple[int, int, str]]) -> bool:
        """Send the leaves to a participant that has restarted, which then asks for what precedes them (5.1); return
        whether the restart is new here. `is_whole`: whether this host can answer; one that is recovering itself may not
        yet. `moved`: who came back elsewhere, to be passed on."""
        if life < self.sender_filter.lives[via]:
            self.count("stale")
            return False
        news = self.learn_life(via, life)
        leaves = self.graph.leaves() if is_whole else []
        mids = [leaf.mid() for leaf in leaves]
        own = (via, self.graph.last[via])
        if is_whole and own[1] and own not in mids:  # it needs that whatever becomes of what follows it
            mids.append(own)
        self.tell(via, ANSWER if is_whole else HEARD, Restarted(life, self._life, mids, moved))
        for leaf in leaves:
            self._resend_to(via, leaf)
        return news

    def learn_life(self, rank: int, life: int) -> bool:
        """Note the incarnation that a participant is in; return whether that is new."""
        news = self.sender_filter.learn_life(rank, life)
        if news:
            self._drop_ignored()
        return news

    def ask_around(self, tries: int) -> None:
        """Ask for whatever follows what is here: one after the other, and everybody only if that has not helped.

        Each gives an answer of many packets. If the network is merely slow, all of them are for nothing, and if all
        answered at once they would make it slower.
        """
        others = [
            rank for rank in range(self.graph.participants) if rank != self._me and not self.sender_filter.ignores(rank)
        ]
        self._ask(EVERYBODY if tries > len(others) else others[(self._me + tries) % len(others)], None)

    def ask_everybody(self) -> None:
        """Ask all participants for whatever follows the leaves of this replica, which tells them the leaves, too."""
        self._ask(EVERYBODY, None)

    def _ask(self, rank: int, wanted: Mid | None) -> None:
        self.count("asked")
        self._answered = 0
        leaves = [leaf.mid() for leaf in self.graph.leaves()]
        self.out.append((rank, encode_ask(self._conversation, self._tag, self._me, wanted, leaves)))

    def _wish(self, rank: int, goal: list[Mid], at_ns: int) -> None:
        self._requests[rank] = WantedMessages(goal, at_ns)
        self._due_ns = min(self._due_ns, at_ns)

    def deadline_ns(self) -> int:
        return self._due_ns

    def tick(self, now_ns: int) -> None:
        """Ask again for what is still missing, or give it up."""
        if now_ns < self._due_ns:
            return
        for held in self._held.all():
            if held.at_ns <= now_ns and self._held.is_held(held):
                self._pursue(held, now_ns)
        for rank, wish in list(self._requests.items()):
            if wish.at_ns <= now_ns:
                self._pursue_wish(rank, wish, now_ns)
        self._due_ns = NEVER
        for held in self._held.all():
            self._due_ns = min(self._due_ns, held.at_ns)
        for wish in self._requests.values():
            self._due_ns = min(self._due_ns, wish.at_ns)
        if self._due_ns != NEVER:  # many are due one shortly after the other: they are gone through together
            self._due_ns = max(self._due_ns, now_ns + self._options.gap_delay_ns // 2)

    def _pursue(self, held: HeldMessage, now_ns: int) -> None:
        """Ask for the missing predecessors of a held message whose time has come."""
        if all(self.has(mid) for mid in held.added.predecessors):
            held.at_ns = now_ns + self._options.resend_interval_ns
            return
        if held.mark != self._recovered and held.tries:
            held.tries = 1  # the answers help
        if held.tries >= ASK_SENDER + ASK_EVERYBODY:
            self._give_up(held.mid())
            return
        whom = held.via if held.tries < ASK_SENDER else EVERYBODY
        answer_due_ns = self._answers_due_ns.get(whom, 0)
        if now_ns < answer_due_ns:
            held.at_ns = answer_due_ns  # what was asked for last may be what this one lacks, too
            return
        self._answers_due_ns[whom] = now_ns + self._options.resend_interval_ns
        self._ask(whom, held.mid())
        held.mark = self._recovered
        held.at_ns = now_ns + self._interval_ns(held.tries)
        held.tries += 1

    def _pursue_wish(self, rank: int, wish: WantedMessages, now_ns: int) -> None:
        if not wish.goal:
            del self._requests[rank]
            self._ask(rank, None)
            return
        wish.goal = self.graph.missing(wish.goal)
        if wish.mark != self._recovered and wish.tries:
            wish.tries = 1
        if not wish.goal or wish.tries >= ASK_SENDER + ASK_EVERYBODY:
            del self._requests[rank]
            return
        self._ask(rank if wish.tries < ASK_SENDER else EVERYBODY, None)
        wish.mark = self._recovered
        wish.at_ns = now_ns + self._interval_ns(wish.tries)
        wish.tries += 1

    def _interval_ns(self, tries: int) -> int:
        return min(self._options.resend_interval_ns << min(tries, 10), self._options.resend_interval_ns_max)

    def _hurry(self, now_ns: int) -> None:
        """Ask for more at once, since an answer was complete and there may be more."""
        self._answers_due_ns.clear()
        self._answered = 0
        self._due_ns = now_ns
        for held in self._held.all():
            if held.tries:
                held.at_ns = now_ns
        for wish in self._requests.values():
            if wish.tries:
                wish.at_ns = now_ns

    def _give_up(self, mid: Mid) -> None:
        """Forget a held message and all held messages that depend on it."""
        for _ in range(self._held.give_up(mid)):
            self.count("given_up")

    # ---- whom to listen to -----------------------------------------------------------------------------------------

    def mask_out(self, rank: int) -> None:
        """Stop waiting for a participant, and ignore its messages."""
        self.graph.mask_out(rank)
        self.ignore(rank)

    def mask_in(self, rank: int) -> None:
        """Wait for a participant again, and take its messages."""
        self.graph.mask_in(rank)
        self.sender_filter.listen(rank)
        self._wish(rank, [], 0)  # what it said meanwhile was ignored, and what was said here it may lack

    def ignore(self, rank: int) -> None:
        """Ignore the messages of a participant; stability still waits for it."""
        self.sender_filter.ignore(rank)
        self._drop_ignored()

    def _is_unwanted(self, held: HeldMessage) -> bool:
        """Return whether a held message would be ignored if it came now, unless another message depends on it."""
        return not self.sender_filter.hears(held.added.sender, held.added.number, held.via, held.via_life)

    def _drop_ignored(self) -> None:
        """Drop held messages that would be ignored if they came now."""
        needed = self._needed()
        for held in self._held.all():
            mid = held.mid()
            if self._is_unwanted(held) and mid[1] > needed[mid[0]]:
                self._give_up(mid)

    def _is_needed(self, mid: Mid) -> bool:
        """Return whether a held message of a participant that is not ignored depends on this one."""
        return len(self._held) > 0 and self.sender_filter.may_need(mid[0], mid[1]) and mid[1] <= self._needed()[mid[0]]

    def _needed(self) -> list[int]:
        return self._held.needed(self.graph.participants, self._is_unwanted)

    def held(self) -> int:
        """Return how many messages wait for their predecessors."""
        return len(self._held)
