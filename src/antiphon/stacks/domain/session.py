"""One view of a group as a broadcast domain (transis-1992, 3.3): packets in, graph, services, packets out.

    PendingQueue ──▶ node that acknowledges all that is in the graph ──▶ network
    network ──▶ Broadcast (held nodes, negative acks, resends) ──▶ graph ──▶ Services (votes, levels) ──▶ application

Each view is a domain of its own: numbers and votes begin anew. What becomes of the end of a view is agreed on as in
every group (parts/membership), by the policies `static` and `primary`.

Acknowledgement. What a member sends acknowledges all that is in its graph. A member with nothing to send sends an empty
node: soon after an agreed or safe message has come, else after a while or some packets; for an empty node only if that
was among what decided the place of a safe message that waits here, or if another member says that it waits. Otherwise
empty nodes are not acknowledged, or there would be no end to it.

Why that is live: each node with messages is acknowledged by all, so an ordered one has all votes (voting.py). A safe
message needs, besides, that all acknowledge the votes that decided its place at the member where it waits; whoever
waits says so in its status, and all answer with a node that follows all they have, the votes included, or lack some of
it and ask for that. Then the votes are stable at the member that waits.

A paused application is delivered nothing, and its member sends no node, so nothing is acknowledged, and the windows of
all senders close.

Deviations: many messages of one level share a node; a reliable message waits until its node is in the graph, since all
members of a view must have the same messages at its end, and what is in no graph is in nobody's account; status
packets, by which the loss of a last message is found.
"""

from collections import deque
from random import Random
from typing import Final, final

from antiphon.kernel.codec import view_tag
from antiphon.kernel.effects import NEVER, BarrierReached, Effects, Received, Sent, Transmit
from antiphon.kernel.errors import MalformedError, UsageError
from antiphon.kernel.identity import ProcessId, View, wire_id
from antiphon.kernel.levels import AGREED, SAFE
from antiphon.kernel.options import Options
from antiphon.kernel.packet_kinds import DATA, REQUEST, STATUS
from antiphon.parts.membership.graph_view_end import GraphViewEnd
from antiphon.parts.membership.messages import BarrierBody
from antiphon.parts.membership.session import Session
from antiphon.parts.message_graph import GraphNode, Mid
from antiphon.parts.node_batch import decode_batch, encode_batch
from antiphon.parts.pending import PendingQueue
from antiphon.stacks.domain.broadcast import RESENDS_MAX, Attached, Broadcast
from antiphon.stacks.domain.node import (
    ACK_SIZE,
    DIRECT,
    NODE_OVERHEAD,
    RANGES_MAX,
    WAITS,
    DomainNode,
    decode_node,
    decode_request,
    decode_status,
    encode_node,
    encode_request,
    encode_status,
)
from antiphon.stacks.domain.services import Services
from antiphon.stacks.domain.window import NetworkWindow

_CONFIRMED: Final = -(1 << 40)
"""Somebody's status fits what is here: from then on contradictions are the mistakes of others."""
_FREE_MIN: Final = 256


def members_max(options: Options) -> int:
    """How many members a view may have, so that the acks of a node take half of a packet at most."""
    return (options.packet_bytes_max // 2 - NODE_OVERHEAD) // ACK_SIZE


@final
class DomainSession(Session):
    """One member in one view."""

    __slots__ = (
        "_ack_at_ns",
        "_acked_at_ns",
        "_bare_acks",
        "_broadcast",
        "_data",
        "_data_last",
        "_free_at",
        "_graph",
        "_group",
        "_group_id",
        "_last_past",
        "_losses_before",
        "_me",
        "_options",
        "_own",
        "_pending",
        "_room",
        "_services",
        "_stable_before",
        "_status_at_ns",
        "_tries",
        "_unacked",
        "_unicasts",
        "_window",
        "_window_size",
        "cut",
    )

    def __init__(
        self, group: str, process: ProcessId, view: View, pending: PendingQueue, random: Random, options: Options
    ) -> None:
        members = len(view.members)
        me = view.rank(process)
        if me < 0:
            raise UsageError(f"{process} is not a member of the view that it was given for group {group!r}: {view}")
        if members > members_max(options):
            raise UsageError(
                f"a group of {members} members needs a packet_bytes_max of at least "
                f"{2 * (NODE_OVERHEAD + ACK_SIZE * members)} bytes, not {options.packet_bytes_max}"
            )
        tag = view_tag(view, options)
        self._group = group
        self._group_id = wire_id(group)
        self._me = me
        self._options = options
        self._pending = pending
        self._broadcast = Broadcast(self._group_id, tag, members, me, random, options)
        self._graph = self._broadcast.graph
        self.cut = GraphViewEnd(self._graph, me, options)
        super().__init__(view, me, tag, self.cut)
        self._services = Services(group, view, self._graph, options.message_bytes_max)
        self._window = NetworkWindow(members, options)
        self._room = options.packet_bytes_max - NODE_OVERHEAD - ACK_SIZE * members
        """What a node has for messages. The same for all: a message is cut into fragments of one length."""
        self._data: list[deque[int]] = [deque() for _ in range(members)]
        """By sender, the nodes with messages that not all are known to follow: the network sliding window…"""
        self._window_size = 0
        """…and how many they are."""
        self._data_last = [0] * members
        """By sender, the last node with messages."""
        self._own: deque[tuple[int, int]] = deque()
        """Own nodes with messages that are not stable, each with the last message that is out with it."""
        self._last_past = [0] * members
        """The past of this member's last node."""
        self._unicasts: dict[int, list[bytes]] = {}
        self._unacked = 0
        self._ack_at_ns = NEVER
        self._acked_at_ns = 0
        self._status_at_ns = 0
        self._tries = 0
        self._stable_before = 0
        self._losses_before = 0
        self._free_at = _FREE_MIN
        self._bare_acks = 0
        """Nodes without messages."""

    # ---- the application's pace ------------------------------------------------------------------------------------

    def pause(self) -> None:
        self._services.paused = True

    def resume(self, effects: Effects, now_ns: int) -> None:
        if self._services.paused:
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

    def answer_late(self, kind: int, sender: int, data: bytes, effects: Effects, now_ns: int) -> None:
        if kind == REQUEST:
            self._answer(data, sender)
            self.collect(effects)

    def _receive_node(self, data: bytes, sender: int, flags: int, effects: Effects, now_ns: int) -> None:
        if sender == self._me:  # another's copy, as it seems
            self._broadcast.note_own_copy(data, now_ns)
            return
        node = decode_node(data, sender, flags, len(self.view.members))
        mid = (sender, node.number)
        for rank, number in (mid, *node.predecessors):
            if not self.cut.exists(rank, number):
                raise MalformedError("number")
        if self.cut.frozen:
            if not self.cut.wants(mid):
                raise MalformedError("late")
            self.cut.fetched[mid] = node
            return
        if node.batch is not None and self._options.record_receives and not self._broadcast.is_known(mid):
            self._report_receive(node, effects)
        for attached in self._broadcast.receive(node, now_ns):
            self._take_in(attached, effects, now_ns)

    def _report_receive(self, node: DomainNode, effects: Effects) -> None:
        batch = node.batch
        assert batch is not None
        if batch.total and batch.index + 1 < batch.total:
            return
        sender = self.view.members[node.sender]
        effects.events.append(
            Received(self._group, self.view.id, sender, batch.first_message, batch.count, batch.level, batch.size())
        )

    def _take_in(self, attached: Attached, effects: Effects, now_ns: int) -> None:
        """A node of another member has come into the graph."""
        node, added = attached
        if added.batch is not None:
            self._note_messages(node)
            self._owe_ack(added.batch.level, now_ns)
        self._services.add(node, added, effects)

    def _note_messages(self, node: GraphNode) -> None:
        """A node with messages is in the window from here on."""
        self._data[node.sender].append(node.number)
        self._data_last[node.sender] = node.number
        self._window_size += 1

    def _owe_ack(self, level: int, now_ns: int) -> None:
        self._unacked += 1
        options = self._options
        if level >= AGREED:
            at_ns = max(now_ns, self._acked_at_ns + options.ack_gap_ns)
        elif self._unacked >= options.ack_every_packets:
            at_ns = now_ns
        else:
            at_ns = now_ns + options.ack_delay_ns
        self._ack_at_ns = min(self._ack_at_ns, at_ns)

    def _receive_status(self, data: bytes, via: int, flags: int, now_ns: int) -> None:
        """Another member tells how many nodes of each member it has."""
        counts = decode_status(data, len(self.view.members))
        if counts[self._me] > self._graph.last[self._me]:
            self.cut.contradicted += 1
        for rank, count in enumerate(counts):
            if count and not self.cut.exists(rank, count):
                raise MalformedError("number")
        self.cut.contradicted = _CONFIRMED
        self.cut.told[via] = max(self.cut.told[via], counts[self._me])
        if self.cut.frozen:
            return
        self._broadcast.learn(list(enumerate(counts)), now_ns)
        if flags & WAITS and self._has_unacked():
            self._ack_at_ns = min(self._ack_at_ns, max(now_ns, self._acked_at_ns + self._options.ack_gap_ns))
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
            if self._services.lacks_ack(self._last_past, self._me):
                self._ack_at_ns = min(self._ack_at_ns, max(now_ns, self._acked_at_ns + self._options.ack_gap_ns))
            if self._ack_at_ns <= now_ns:
                self._bare_acks += 1
                self._send_node(b"", 0, effects, now_ns)
        self._services.drain(effects)  # what was sent here may have been the last vote
        if self._waits() and not self._tries:
            self._tries = 1
            self._status_at_ns = min(self._status_at_ns, now_ns + self._options.probe_interval_ns)
        if self._status_at_ns <= now_ns:
            self._send_status(now_ns)

    def _settle(self, now_ns: int) -> None:
        """See what all members have acknowledged, and what was lost."""
        before = self._window_size
        for rank, numbers in enumerate(self._data):
            stable = self._graph.stable_to[rank]
            while numbers and numbers[0] <= stable:
                numbers.popleft()
                self._window_size -= 1
        if self._window_size < before:
            self._window.acknowledged(before - self._window_size)
        if self._broadcast.losses != self._losses_before:
            self._losses_before = self._broadcast.losses
            self._window.lost(now_ns)
        stable = self._graph.stable_to[self._me]
        while self._own and self._own[0][0] <= stable:
            self._own.popleft()
        if stable != self._stable_before:
            self._stable_before = stable
            self._tries = 0
        if self._graph.nodes > self._free_at:
            self._services.follow_stable()
            self._graph.free_waves(self._graph.stable_wave)
            self._free_at = 2 * self._graph.nodes + _FREE_MIN

    def _waits(self) -> bool:
        """Whether something waits for others, who may have lost something."""
        return bool(self._own) or self._services.waits_for_others() or self._broadcast.held() > 0

    def _may_ack(self) -> bool:
        return not self._services.paused and not self.cut.frozen

    def _may_send(self, now_ns: int) -> bool:
        return self._wants_to_send() and (
            self._pending.runs[0].barrier or self._window.is_open(self._window_size, len(self._data[self._me]), now_ns)
        )

    def _wants_to_send(self) -> bool:
        return self._may_ack() and self.cut.barrier is None and bool(self._pending.runs)

    def _send_next(self, effects: Effects, now_ns: int) -> bool:
        """Send what comes next; whether more may follow it."""
        if self._pending.runs[0].barrier:
            number, payload = self._pending.take_message()
            self.cut.barrier = (number, payload)
            effects.events.append(Sent(self._group, self.view.id, number, 1, SAFE, len(payload), (), True))
            return False
        load = self._pending.next_load(self._room, self._room)
        if load.complete:
            effects.events.append(
                Sent(self._group, self.view.id, load.first_message, len(load.complete), load.level, load.size)
            )
        node = self._send_node(encode_batch(load), load.level, effects, now_ns)
        self._own.append((node.number, load.first_message + len(load.complete) - 1))
        self._note_messages(node)
        if len(self.view.members) == 1:
            self._settle(now_ns)
        self._window.sent(self._window_size, now_ns)
        return True

    def _send_node(self, body: bytes, level: int, effects: Effects, now_ns: int) -> GraphNode:
        """A node that follows, and so acknowledges, all that is in the graph."""
        number = self._graph.last[self._me] + 1
        predecessors = self._broadcast.predecessors()
        packet = encode_node(self._group_id, self.tag, self._me, level, number, predecessors, body)
        added = DomainNode(packet, self._me, number, predecessors, decode_batch(body, 0))
        node = self._broadcast.send(added)
        self._last_past = node.past
        self._unacked = 0
        self._ack_at_ns = NEVER
        self._acked_at_ns = now_ns
        self._status_at_ns = now_ns + self._interval_ns()
        self._services.add(node, added, effects)
        return node

    def _interval_ns(self) -> int:
        """Until the next status packet, if nothing else goes out to all."""
        if not self._waits():
            return self._options.heartbeat_interval_ns
        return min(self._options.probe_interval_ns << min(self._tries, 10), self._options.heartbeat_interval_ns)

    def _send_status(self, now_ns: int) -> None:
        self._tries += 1
        self._status_at_ns = now_ns + self._interval_ns()
        waits = self._waits()
        self._broadcast.out.append(encode_status(self._group_id, self.tag, self._me, self._graph.last, waits))

    # ---- time and transmission -------------------------------------------------------------------------------------

    def deadline_ns(self) -> int:
        deadline_ns = min(self._status_at_ns, self.cut.ask_at_ns)
        if self.cut.frozen:
            return deadline_ns
        deadline_ns = min(deadline_ns, self._broadcast.deadline_ns())
        if not self._services.paused:
            deadline_ns = min(deadline_ns, self._ack_at_ns)
            if self._wants_to_send() and self._window_size < self._window.limit:
                deadline_ns = min(deadline_ns, self._window.next_ns)
        return deadline_ns

    def tick(self, effects: Effects, now_ns: int) -> None:
        if not self.cut.frozen:
            self._broadcast.tick(now_ns)
        elif self.cut.ask_at_ns <= now_ns:
            self._ask_for_cut(now_ns)

    def _ask_for_cut(self, now_ns: int) -> None:
        missing = self.cut.missing()
        if not missing:
            self.cut.ask_at_ns = NEVER
            return
        source = self.cut.whom_to_ask(now_ns)
        if source >= 0:
            request = encode_request(self._group_id, self.tag, self._me, missing[:RANGES_MAX], DIRECT)
            self._unicasts.setdefault(source, []).append(request)

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
        for rank, number, payload in barriers:
            effects.events.append(BarrierReached(self._group, self.view.id, self.view.members[rank], number, payload))
        return True

    # ---- questions -------------------------------------------------------------------------------------------------

    def outstanding(self) -> int:
        barrier = 0 if self.cut.barrier is None else 1
        return len(self._own) + self._services.waiting_of(self._me) + barrier

    def held(self) -> int:
        return self._broadcast.held() + self._services.waiting()

    def known(self) -> list[int]:
        return self._data_last.copy()

    def is_stable(self, known: list[int], copies: int) -> bool:
        for rank, number in enumerate(known):
            if number > self._graph.stable_to[rank]:
                node = self._graph.node((rank, number))
                if not copies or node is None or not self._graph.is_n_stable(node, copies + 1):
                    return False
        return True

    def are_own_stable(self, message: int, copies: int) -> bool:
        if self.cut.barrier is not None and self.cut.barrier[0] <= message:
            return False
        last = 0
        for number, last_message in self._own:
            if last_message > message:
                break
            last = number
        known = [0] * len(self.view.members)
        known[self._me] = last
        return self.is_stable(known, copies)

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
        }

    def situations(self) -> list[int]:
        broadcast = self._broadcast
        others = broadcast.resends - broadcast.own_resends
        suppressed = broadcast.copies_suppressed
        return [broadcast.own_resends, others, suppressed, self._bare_acks, self._services.early]


def _by_number(mid: Mid) -> int:
    return mid[1]
