"""One view of a group as a broadcast domain (transis-1992, 3.3): packets in, graph, services, packets out.

    PendingQueue ──▶ node that acknowledges all that is in the graph ──▶ network
    network ──▶ Broadcast (held nodes, negative acks, resends) ──▶ graph ──▶ Services (votes, levels) ──▶ application

Each view is a domain of its own: numbers and votes begin anew. What becomes of the end of a view is agreed on as in
every group (parts/membership), by the policies `static` and `primary`.

Acknowledgement. What a member sends acknowledges all that is in its graph. A member with nothing to send sends an empty
node: soon after an agreed or safe message has come, else after a while or some packets; for an empty node only if that
was among what decided the place of a safe message that waits here, or among its first votes (safe_votes.py), or if
another member says that it waits. Otherwise empty nodes are not acknowledged, or there would be no end to it.

Not more of them than votes are of use. An agreed message needs the votes of a majority, at best (voting.py). So where
there are more than three members, half of the others, those whose ranks come next after the sender's, vote at once; the
rest do so a moment later, if a message is still without a place then, and otherwise just acknowledge in time. (Of
three, the sender's vote and a receiver's own are a majority, so each votes at once and places the message without
waiting for anybody.) And nodes have a budget, which is the smaller the more members there are (parts/ack_budget.py): an
empty one waits until there is room in it. Members that send all the time vote by what they send, and empty nodes do not
take the processor from that.

Why that is live: each node with messages is acknowledged by all, so an ordered one has all votes (voting.py). A safe
message needs, besides, that all acknowledge the votes that decided its place at the member where it waits; whoever
waits says so in its status, and all answer with a node that follows all they have, the votes included, or lack some of
it and ask for that. Then the votes are stable at the member that waits.

A paused application is delivered nothing, and its member sends no node, so nothing is acknowledged, and the windows of
all senders close.

Messages for some of the members (services.py) go to all, since the node is in the graph of all. Their destinations are
named as processes until they leave, and then as ranks; a process that is not in the view by then is left out.

Deviations: many messages of one level share a node; a reliable message waits until its node is in the graph, since all
members of a view must have the same messages at its end, and what is in no graph is in nobody's account; status
packets, by which the loss of a last message is found.
"""

from collections import deque
from random import Random
from typing import final

from antiphon.kernel.effects import NEVER, Effects, Transmit
from antiphon.kernel.errors import MalformedError
from antiphon.kernel.identity import ProcessId, View
from antiphon.kernel.levels import AGREED, CAUSAL, SAFE
from antiphon.kernel.options import Options
from antiphon.kernel.packet_kinds import DATA, REQUEST, STATUS
from antiphon.parts.graph_packets import decode_request, decode_status, encode_request, encode_status
from antiphon.parts.membership.graph_session import GraphSession
from antiphon.parts.membership.messages import BarrierBody
from antiphon.parts.message_graph import GraphNode, Mid
from antiphon.parts.node_batch import EVERYBODY, decode_batch, destinations_size, encode_batch
from antiphon.parts.pending import PendingQueue
from antiphon.stacks.domain.broadcast import RESENDS_MAX, Attached, Broadcast
from antiphon.stacks.domain.node import (
    ACK_SIZE,
    DIRECT,
    NODE_OVERHEAD,
    WAITS,
    DomainNode,
    decode_node,
    encode_node,
)
from antiphon.stacks.domain.offers import EARLY_ORDER, NUMBER, OFFERS, OWN_COPIES
from antiphon.stacks.domain.safe_votes import SafeVotes
from antiphon.stacks.domain.services import Services
from antiphon.stacks.domain.silence import SilentMembers
from antiphon.stacks.domain.window import NetworkWindow


def members_max(options: Options) -> int:
    """How many members a view may have, so that the acks of a node take half of a packet at most."""
    return (options.packet_bytes_max // 2 - NODE_OVERHEAD) // ACK_SIZE


def _option(options: Options, name: str) -> int:
    return options.of_stacks.get(f"{OFFERS.name}.{name}", OFFERS.options[name])


@final
class DomainSession(GraphSession):
    """One member in one view."""

    __slots__ = (
        "_broadcast",
        "_data",
        "_hurried",
        "_last_past",
        "_losses_before",
        "_safe_votes",
        "_services",
        "_silent",
        "_unacknowledged",
        "_unicasts",
        "_vote_at_ns",
        "_window",
    )

    def __init__(
        self,
        group: str,
        process: ProcessId,
        view: View,
        pending: PendingQueue,
        random: Random,
        options: Options,
        declared: int,
    ) -> None:
        members = len(view.members)
        overhead = NODE_OVERHEAD + ACK_SIZE * members + destinations_size(members)
        super().__init__(NUMBER, group, process, view, pending, options, declared, overhead)
        self._broadcast = Broadcast(self.group_id, self.tag, members, self._me, random, options, self.stamp)
        self._begin(self._broadcast.graph)
        copies, early = _option(options, OWN_COPIES), _option(options, EARLY_ORDER) > 0
        self._services = Services(group, view, self._me, self._graph, options.message_bytes_max, copies, early)
        self._hurried = members // 2 if early and members > 3 else members
        """How many members after an agreed message's sender, by rank, vote for it at once."""
        self._safe_votes = SafeVotes(members, self._me)
        self._vote_at_ns = NEVER
        """When to vote if a message has no place then."""
        self._window = NetworkWindow(members, options)
        self._data: list[deque[int]] = [deque() for _ in range(members)]
        """By sender, the nodes with messages that not all are known to follow…"""
        self._unacknowledged = 0
        """…and how many they are. They are the network sliding window, but for those that wait for silent members."""
        self._silent = SilentMembers(self._graph)
        self._last_past = [0] * members
        """The past of this member's last node."""
        self._unicasts: dict[int, list[bytes]] = {}
        self._losses_before = 0

    # ---- the application's pace ------------------------------------------------------------------------------------

    def pause(self) -> None:
        super().pause()
        self._services.paused = True

    def resume(self, effects: Effects, now_ns: int) -> None:
        if self.paused:
            super().resume(effects, now_ns)
            self._services.paused = False
            self._services.drain(effects)

    # ---- the network's side ----------------------------------------------------------------------------------------

    def receive(
        self, kind: int, sender: int, flags: int, level: int, data: bytes, effects: Effects, now_ns: int
    ) -> None:
        if sender >= len(self.view.members):
            raise MalformedError("rank")
        if kind == DATA:
            self._receive_node(data, sender, flags, effects, now_ns)
        elif sender == self._me:
            raise MalformedError("echo")
        elif kind == STATUS:
            self._receive_status(data, sender, flags, now_ns)
        elif kind != REQUEST:
            raise MalformedError("kind")
        elif flags & DIRECT:
            self._answer(data, sender)
        elif not self.cut.frozen:
            self._broadcast.receive_request(data, now_ns)

    def _receive_node(self, data: bytes, sender: int, flags: int, effects: Effects, now_ns: int) -> None:
        if sender == self._me:  # another's copy, as it seems
            self._broadcast.note_own_copy(data, now_ns)
            return
        node = decode_node(data, sender, flags, len(self.view.members))
        if not self._is_due(node):
            return
        is_new = not self._broadcast.is_known((sender, node.number))
        is_mine = bool(node.destinations >> self._me & 1)
        if node.batch is not None and is_mine and is_new and self._options.record_receives:
            self._report_receive(sender, node.batch, effects)
        for attached in self._broadcast.receive(node, now_ns):
            self._take_in(attached, effects, now_ns)

    def _take_in(self, attached: Attached, effects: Effects, now_ns: int) -> None:
        """A node of another member has come into the graph."""
        node, added = attached
        if self._safe_votes.open:
            self._safe_votes.note(node.sender, node.number, node.past)
        if added.batch is not None:
            if added.batch.level == SAFE:
                self._safe_votes.watch(node.sender, node.number)
            self._note_messages(node)
            self._owe_vote(node.sender, added.batch.level, now_ns)
        self._services.add(node, added, effects)

    def _owe_vote(self, sender: int, level: int, now_ns: int) -> None:
        """A node with messages of this level was taken in."""
        if level != AGREED or (self._me - sender - 1) % len(self.view.members) < self._hurried:
            self._owe_ack(level, now_ns)
            return
        self._owe_ack(CAUSAL, now_ns)
        vote_at_ns = max(now_ns, self._budget.next_ns) + self._options.ack_gap_ns
        self._vote_at_ns = min(self._vote_at_ns, vote_at_ns)

    def _note_messages(self, node: GraphNode) -> None:
        """A node with messages is in the window from here on."""
        self._data[node.sender].append(node.number)
        self._data_last[node.sender] = node.number
        self._unacknowledged += 1

    def _receive_status(self, data: bytes, via: int, flags: int, now_ns: int) -> None:
        """Another member tells how many nodes of each member it has."""
        counts = decode_status(data, len(self.view.members))
        self._note_status(counts, via)
        if self.cut.frozen:
            return
        self._broadcast.learn(list(enumerate(counts)), now_ns)
        if flags & WAITS and self._has_unacked():
            self._ack_soon(now_ns)
        if counts[self._me] < self._graph.last[self._me]:
            self._status_at_ns = min(self._status_at_ns, now_ns + self._options.probe_interval_ns)

    def _has_unacked(self) -> bool:
        """Whether there is something in the graph that this member's last node does not follow."""
        return any(rank != self._me and last > self._last_past[rank] for rank, last in enumerate(self._graph.last))

    def _answer(self, data: bytes, sender: int) -> None:
        """Another member lacks these of the cut, and asks this one for them."""
        room = RESENDS_MAX
        for rank, first, last in decode_request(data, len(self.view.members)):
            for number in range(first, min(last, first + room - 1) + 1):
                room -= 1
                node = self._graph.node((rank, number))
                fetched = self.cut.fetched.get((rank, number))
                packet = node.body if node is not None else None
                if packet is None and isinstance(fetched, DomainNode):
                    packet = fetched.packet
                if packet is not None:
                    self._unicasts.setdefault(sender, []).append(packet)

    # ---- the end of a step -----------------------------------------------------------------------------------------

    def finish(self, effects: Effects, now_ns: int) -> None:
        self._services.drain(effects)
        self._settle(now_ns)
        while self._may_send(now_ns) and self._send_next(effects, now_ns):
            pass
        if self._may_ack():
            lacks = self._safe_votes.open > 0 and self._safe_votes.lacks_ack(self._last_past)
            if lacks or self._services.lacks_ack(self._last_past, self._me):
                self._ack_soon(now_ns)
            if self._vote_at_ns <= now_ns:
                self._vote_at_ns = NEVER
                if self._services.lacks_places():
                    self._ack_at_ns = now_ns
            if self._ack_at_ns <= now_ns:
                self._bare_acks += 1
                self._send_node(b"", 0, effects, now_ns)
        self._services.drain(effects)  # what was sent here may have been the last vote
        self._tell_status(now_ns)

    def _settle(self, now_ns: int) -> None:
        """See what all members have acknowledged, and what was lost."""
        before = self._unacknowledged
        for rank, numbers in enumerate(self._data):
            stable = self._graph.stable_to[rank]
            while numbers and numbers[0] <= stable:
                numbers.popleft()
                self._silent.left(rank)
                self._unacknowledged -= 1
            self._silent.settle(rank, numbers)
        if self._unacknowledged < before:
            self._window.acknowledged(before - self._unacknowledged)
        if self._broadcast.losses != self._losses_before:
            self._losses_before = self._broadcast.losses
            self._window.lost(now_ns)
        self._settle_own()
        if self._is_graph_full():
            self._services.follow_stable()
            self._free()

    def _waits(self) -> bool:
        return bool(self._own) or self._services.waits_for_others() or self._broadcast.held() > 0

    def _may_ack(self) -> bool:
        return not self.paused and not self.cut.frozen and self._broadcast.bounds is None

    def _may_send(self, now_ns: int) -> bool:
        if not self._wants_to_send():
            return False
        own = len(self._data[self._me]) - self._silent.overtaken[self._me]
        return self._pending.runs[0].barrier or self._window.is_open(
            self._window_size(), own, self._unacknowledged, now_ns
        )

    def _window_size(self) -> int:
        """How many nodes are in the network sliding window."""
        return self._unacknowledged - sum(self._silent.overtaken)

    def _wants_to_send(self) -> bool:
        return self._may_ack() and self.cut.barrier is None and bool(self._pending.runs)

    def _send_next(self, effects: Effects, now_ns: int) -> bool:
        """Send what comes next; whether more may follow it."""
        if self._pending.runs[0].barrier:
            self._take_barrier(effects)
            return False
        to = self._pending.runs[0].destinations
        load = self._pending.next_load(self._room, self._room)
        self._report_sent(load, effects, to)
        node = self._send_node(encode_batch(load), load.level, effects, now_ns, self._ranks_of(to))
        self._note_own(node, load)
        self._note_messages(node)
        if load.level == SAFE:
            self._safe_votes.watch(self._me, node.number)
        if len(self.view.members) == 1:
            self._settle(now_ns)
        self._window.sent(self._window_size(), now_ns)
        return True

    def _send_node(
        self, body: bytes, level: int, effects: Effects, now_ns: int, destinations: int = EVERYBODY
    ) -> GraphNode:
        """A node that follows, and so acknowledges, all that is in the graph."""
        number = self._graph.last[self._me] + 1
        predecessors = self._broadcast.predecessors()
        packet = encode_node(
            self.group_id, self.tag, self._me, level, number, predecessors, body, destinations, len(self.view.members),
            self.stamp,
        )  # fmt: skip
        added = DomainNode(packet, self._me, number, predecessors, decode_batch(body, 0), destinations)
        node = self._broadcast.send(added)
        self._last_past = node.past
        self._vote_at_ns = NEVER
        self._note_node_sent(now_ns)
        self._services.add(node, added, effects)
        return node

    def _send_status(self) -> None:
        flags = WAITS if self._waits() else 0
        self._broadcast.out.append(
            encode_status(self.stamp, self.group_id, self.tag, self._me, self._graph.last, flags)
        )  # fmt: skip

    # ---- time and transmission -------------------------------------------------------------------------------------

    def deadline_ns(self) -> int:
        deadline_ns = min(self._status_at_ns, self.cut.ask_at_ns)
        if self.cut.frozen:
            return deadline_ns
        deadline_ns = min(deadline_ns, self._broadcast.deadline_ns())
        if self._may_ack():
            deadline_ns = min(deadline_ns, self._ack_at_ns, self._vote_at_ns)
            if self._wants_to_send() and not self._window.is_full(self._window_size(), self._unacknowledged):
                deadline_ns = min(deadline_ns, self._window.next_ns)
        return deadline_ns

    def tick(self, effects: Effects, now_ns: int) -> None:
        if not self.cut.frozen:
            self._broadcast.tick(now_ns)
        if self.cut.ask_at_ns <= now_ns:
            self._ask_for_cut(now_ns)

    def _ask(self, whom: int, missing: list[tuple[int, int, int]]) -> None:
        request = encode_request(self.stamp, self.group_id, self.tag, self._me, missing, DIRECT)
        self._unicasts.setdefault(whom, []).append(request)

    def collect(self, effects: Effects) -> None:
        if self._broadcast.out:
            if len(self.view.members) > 1:
                effects.transmits.append(Transmit(self.everyone, self._broadcast.out))
            self._broadcast.out = []
        if self._unicasts:
            for rank, packets in self._unicasts.items():
                effects.transmits.append(Transmit(self.route(rank), packets))
            self._unicasts = {}

    # ---- the end of the view ---------------------------------------------------------------------------------------

    def limit(self, bounds: list[int] | None, suspects: set[int], silent: frozenset[int]) -> None:
        """Send no more, and take in only what is within these bounds, by rank; None: go on. Of those that are suspected
        take in only what somebody else is known to have; for the silent the window does not wait."""
        self._broadcast.bounds = bounds
        self._broadcast.suspects = suspects
        self._silent.set(silent)

    def complete_cut(self, effects: Effects, now_ns: int) -> None:
        """Take in what was fetched of the cut, and deliver what the rules of this view decide of it."""
        fetched = self.cut.fetched
        for mid in sorted(fetched, key=_by_number):
            node = fetched[mid]
            assert isinstance(node, DomainNode)
            for attached in self._broadcast.receive(node, now_ns):
                self._take_in(attached, effects, now_ns)
        self._services.finish_regular(effects)

    def finish_cut(self, barriers: list[BarrierBody], effects: Effects, now_ns: int) -> bool:
        self.complete_cut(effects, now_ns)
        self._services.close()
        self._services.drain(effects)
        self._deliver_barriers(barriers, effects)
        return True

    # ---- questions -------------------------------------------------------------------------------------------------

    def outstanding(self) -> int:
        barrier = 0 if self.cut.barrier is None else 1
        return len(self._own) + self._services.waiting_of(self._me) + barrier

    def held(self) -> int:
        return self._broadcast.held() + self._services.waiting()

    def statistics(self) -> dict[str, int]:
        broadcast = self._broadcast
        return {
            "packets_sent": self._graph.last[self._me],
            "packets_stable": self._graph.stable_to[self._me],
            "packets_held": self.held(),
            "copies_held": self._graph.bodies,
            "duplicates": broadcast.duplicates,
            "requests": broadcast.requests,
            "resends": broadcast.resends,
            "resends_suppressed": broadcast.copies_suppressed,
            "messages_spoiled": self._services.spoiled(),
            "ordered_placed": self._services.places(),
            "ordered_heard": self._services.heard,
        }

    def situations(self) -> list[int]:
        broadcast = self._broadcast
        others = broadcast.resends - broadcast.own_resends
        suppressed = broadcast.copies_suppressed
        return [broadcast.own_resends, others, suppressed, self._bare_acks, self._services.early]


def _by_number(mid: Mid) -> int:
    return mid[1]
