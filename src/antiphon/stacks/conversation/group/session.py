"""One view of a group, as a conversation that its members hold (psync-1989): packets in, graph, order, delivery.

    PendingQueue ──▶ node in the context of all that was taken in ──▶ network
    network ──▶ GraphReplica (holding queue, requests) ──▶ view of the graph ──▶ Ordering (waves) ──▶ application

The participants of a conversation never change; those of a group do. So each view is a conversation of its own, and
what becomes of its end is agreed on as in every group (parts/membership).

Acknowledgement. What a member sends acknowledges all that it has taken in. If it has nothing to send it tells, in a
status packet, how far it has taken in each member's messages, once for all that came since its last word: soon where
somebody waits for stability, else after a while. Such packets have a budget, which is smaller where there are many
members (parts/ack_budget.py).

Why a status counts like a message. Whatever its author sends afterwards is in the context of what it has taken in, and
that is all that stability and waves need (4.2). It counts once all that its author had sent before is here, which the
status tells as well: until then a message of a wave that is taken for complete could still be on its way.

It also tells how much of its author's own is stable. A process that begins again under the same identity lacks some of
that, since its former life has acknowledged it, and so learns of that life (parts/former_life.py).

A status can be lost, and nobody misses it. So a member that waits for stability says so when it tells its own status,
again and again, ever more slowly, and all that hear it tell theirs.

Destinations. A message for some of the members goes to all, since its node is in the context of what follows; those
that it is not for take it in and hand out nothing. A process that is not in the view when it leaves is left out.

Loss. A message that comes before its context is held, and the context asked for (gaps.py). That the very last message
was lost nobody can see from what follows it; so whoever waits for stability tells the others what it has, again and
again, and so does, at times, whoever is idle. Who has sent more than that sends it again; who has less asks.

A paused application takes nothing in, so nothing of that is acknowledged, and the windows of all senders close.

Deviations: the status packets just named, where the paper has the application resend (3.2.2); numbers instead of
opaque ids, so that just what is missing can be asked for, where 3.2.1 asks for all between the leaves and a message;
acknowledgements that are no messages;
nothing is given up before the view ends; many messages of one level share a node.
"""

from collections import deque
from typing import Final, final

from antiphon.kernel.effects import Effects, Transmit
from antiphon.kernel.errors import MalformedError
from antiphon.kernel.identity import ProcessId, View
from antiphon.kernel.options import Options
from antiphon.kernel.packet_kinds import ADD, REQUEST, STATUS
from antiphon.parts.graph_packets import decode_request, decode_status, encode_request, encode_status
from antiphon.parts.membership.graph_session import GraphSession
from antiphon.parts.membership.graph_view_end import numbers_max
from antiphon.parts.membership.messages import BarrierBody
from antiphon.parts.message_graph import GraphError, GraphNode, GraphView, Mid
from antiphon.parts.node_batch import BATCH_OVERHEAD, destinations_size
from antiphon.parts.pending import PendingQueue
from antiphon.stacks.conversation.free.graph_replica import EVERYBODY, GraphReplica
from antiphon.stacks.conversation.free.limits import Limits
from antiphon.stacks.conversation.free.wire import (
    ADD_OVERHEAD,
    MID_SIZE,
    Added,
    decode_add,
    encode_add,
    payload_start,
    section,
)
from antiphon.stacks.conversation.group.gaps import Gaps
from antiphon.stacks.conversation.group.load import decode_load, encode_load
from antiphon.stacks.conversation.group.ordering import Ordering
from antiphon.stacks.conversation.offers import NUMBER

_ANSWER_MAX: Final = 256
"""Messages sent in answer to one request for a part of the cut; who lacks more asks again."""
_TAKEN: Final = 1
"""The author of a status has taken in all that it has."""
_WAITS: Final = 2
"""The author of a status waits for those of others."""


def members_max(options: Options) -> int:
    """How many members a view may have, so that the names of a message's predecessors take half of a packet at most."""
    return (options.packet_bytes_max // 2 - ADD_OVERHEAD - BATCH_OVERHEAD) // MID_SIZE


def _limits(members: int, options: Options) -> Limits:
    """Room for all that the windows of all members let out, so that none is dropped for want of it."""
    sent_max = numbers_max(options)
    bytes_max = members * sent_max * options.packet_bytes_max
    return Limits(
        unstable_max=sent_max, buffer_bytes_max=bytes_max, held_max=members * sent_max, held_bytes_max=bytes_max
    )


@final
class ConversationSession(GraphSession):
    """One member in one view."""

    __slots__ = ("_early_acks", "_gaps", "_merges", "_ordering", "_outstanding", "_replica", "_seen")

    def __init__(
        self, group: str, process: ProcessId, view: View, pending: PendingQueue, options: Options, declared: int
    ) -> None:
        members = len(view.members)
        node_overhead = ADD_OVERHEAD + BATCH_OVERHEAD + MID_SIZE * members + 1 + destinations_size(members)
        super().__init__(NUMBER, group, process, view, pending, options, declared, node_overhead)
        self._replica = GraphReplica(
            self.group_id,
            self.tag,
            members,
            self._me,
            b"",
            options,
            limits=_limits(members, options),
        )
        self._begin(self._replica.graph)
        self._gaps = Gaps(self._replica, self._me, options)
        self._seen = GraphView(self._graph)
        self._ordering = Ordering(group, view, self._me, self._graph, options.message_bytes_max)
        self._early_acks: dict[int, list[int]] = {}
        """By rank, what a member told that it has taken in, before all that it had sent was here."""
        self._outstanding: deque[GraphNode] = deque()
        """In the graph, and not yet taken in here."""
        self._merges = 0
        """Nodes with several predecessors."""

    # ---- the application's pace ------------------------------------------------------------------------------------

    def resume(self, effects: Effects, now_ns: int) -> None:
        if self.paused:
            super().resume(effects, now_ns)
            self._take_in(effects, now_ns)
            self._drain(effects)

    def _drain(self, effects: Effects) -> None:
        """Deliver what may be. While the application has stopped nothing is taken in: no wave is known to be whole."""
        if not self.paused:
            self._ordering.drain(effects)

    # ---- the network's side ----------------------------------------------------------------------------------------

    def receive(
        self, kind: int, sender: int, flags: int, level: int, data: bytes, effects: Effects, now_ns: int
    ) -> None:
        if sender >= len(self.view.members):
            raise MalformedError("rank")
        if sender == self._me:
            raise MalformedError("echo")
        if kind == ADD:
            self._receive_add(decode_add(data, flags, len(self.view.members)), sender, effects, now_ns)
        elif kind == STATUS:
            self._receive_status(data, sender, flags, now_ns)
        elif kind == REQUEST:
            self._answer(data, sender)
        else:
            raise MalformedError("kind")

    def _receive_add(self, added: Added, via: int, effects: Effects, now_ns: int) -> None:
        batch = decode_load(added.section, payload_start(added.section), len(self.view.members))
        if not self._is_due(added):
            return
        duplicates = self._replica.counts.get("duplicate", 0)
        self._outstanding.extend(self._replica.receive(added, via, now_ns))
        self._gaps.learn(added.predecessors, via, now_ns)
        is_new = self._replica.counts.get("duplicate", 0) == duplicates
        if batch is not None and is_new and self._options.record_receives and batch.destinations >> self._me & 1:
            self._report_receive(added.sender, batch, effects)
        self._take_in(effects, now_ns)

    def _take_in(self, effects: Effects, now_ns: int) -> None:
        """What has come into the graph comes into the view, unless the application has stopped."""
        while self._outstanding and (not self.paused or self._ordering.closing):
            node = self._outstanding.popleft()
            assert node.body is not None, "what is stable was taken in"
            batch = decode_load(node.body, payload_start(node.body), len(self.view.members))
            self._seen.add(node)
            if batch is None:
                continue
            self._data_last[node.sender] = node.number
            self._owe_ack(batch.level, now_ns)
            self._ordering.add(node, batch, effects)

    def _receive_status(self, data: bytes, via: int, flags: int, now_ns: int) -> None:
        """Somebody tells how many messages of each member it has."""
        counts = decode_status(data, len(self.view.members) + 1)
        if counts.pop() > self._graph.last[via]:  # this process has acknowledged what it does not have
            self.cut.former_life.contradicts(via)
            raise MalformedError("number")
        self._note_status(counts, via)
        if self.cut.frozen:
            return
        if flags & _TAKEN:
            self._early_acks[via] = counts
        if flags & _WAITS:
            self._ack_soon(now_ns)
        self._gaps.learn(list(enumerate(counts)), via, now_ns)
        last = self._graph.last[self._me]
        for number in range(counts[self._me] + 1, min(last, counts[self._me] + _ANSWER_MAX) + 1):
            self._send_again((self._me, number), via)

    def _answer(self, data: bytes, sender: int) -> None:
        room = _ANSWER_MAX
        for rank, first, last in decode_request(data, len(self.view.members)):
            for number in range(first, min(last, first + room - 1) + 1):
                self._send_again((rank, number), sender)
                room -= 1

    def _send_again(self, mid: Mid, to: int) -> None:
        node = self._graph.node(mid)
        fetched = self.cut.fetched.get(mid)
        body = node.body if node is not None else fetched.section if isinstance(fetched, Added) else None
        if body is not None:
            self._replica.count("resent")
            self._replica.out.append((to, encode_add(self.group_id, self.tag, self._me, body, 0)))

    # ---- the end of a step -----------------------------------------------------------------------------------------

    def finish(self, effects: Effects, now_ns: int) -> None:
        self._settle()
        self._drain(effects)
        while self._may_send() and self._send_next(effects, now_ns):
            pass
        if self._ack_at_ns <= now_ns and not self.cut.frozen:
            self._acknowledge(now_ns)
        self._drain(effects)  # what was sent here may have been the last acknowledgement
        self._tell_status(now_ns)

    def _acknowledge(self, now_ns: int) -> None:
        """Tell the others what was taken in, without a message."""
        self._bare_acks += 1
        self._note_node_sent(now_ns)
        self._stated_ns = now_ns
        self._send_counts(0)

    def _settle(self) -> None:
        """See what has become stable."""
        if not self.cut.frozen:
            self._graph.acknowledge(self._me, self._seen.received)
        for rank in [rank for rank, counts in self._early_acks.items() if counts[rank] <= self._graph.last[rank]]:
            self._graph.acknowledge(rank, self._early_acks.pop(rank))
        self._settle_own()
        if self._is_graph_full():
            self._free()

    def _waits(self) -> bool:
        return bool(self._own) or self._ordering.waits_for_stability() or self._replica.held() > 0

    def _may_send(self) -> bool:
        open = not self.paused and not self.cut.frozen and self.cut.barrier is None
        return open and bool(self._pending.runs)

    def _send_next(self, effects: Effects, now_ns: int) -> bool:
        """Send what comes next, if it may leave; whether it did."""
        if self._pending.runs[0].barrier:
            self._take_barrier(effects)
            return False
        if len(self._own) >= self._options.window_packets:
            return False
        to = self._pending.runs[0].destinations
        load = self._pending.next_load(self._room, self._room)
        payload = encode_load(load, self._ranks_of(to), len(self.view.members))
        node = self._send_node(payload, now_ns)
        self._report_sent(load, effects, to)
        self._note_own(node, load)
        batch = decode_load(payload, 0, len(self.view.members))
        assert batch is not None
        self._ordering.add(node, batch, effects)
        if len(self.view.members) == 1:
            self._settle()
        return True

    def _send_node(self, payload: bytes, now_ns: int) -> GraphNode:
        """A message in the context of all that was taken in, which it acknowledges."""
        predecessors = [leaf.mid() for leaf in self._seen.leaves()]
        if len(predecessors) > 1:
            self._merges += 1
        number = self._graph.last[self._me] + 1
        node = self._replica.send(predecessors, section(self._me, number, predecessors, payload))
        self._seen.add(node)
        self._note_node_sent(now_ns)
        return node

    def _send_status(self) -> None:
        self._send_counts(_WAITS if self._waits() else 0)

    def _send_counts(self, flags: int) -> None:
        """Tell the others what is here, which acknowledges it if all of it was taken in."""
        if len(self.view.members) > 1:
            if not self._outstanding:
                flags |= _TAKEN
            told = [*self._graph.last, self._graph.stable_to[self._me]]
            status = encode_status(self.stamp, self.group_id, self.tag, self._me, told, flags)
            self._replica.out.append((EVERYBODY, status))

    # ---- time and transmission -------------------------------------------------------------------------------------

    def deadline_ns(self) -> int:
        deadline_ns = min(self._status_at_ns, self.cut.ask_at_ns)
        if not self.cut.frozen:
            deadline_ns = min(deadline_ns, self._ack_at_ns, self._gaps.ask_at_ns)
        return deadline_ns

    def tick(self, effects: Effects, now_ns: int) -> None:
        if self.cut.frozen:
            if self.cut.ask_at_ns <= now_ns:
                self._ask_for_cut(now_ns)
        elif self._gaps.ask_at_ns <= now_ns:
            for whom, missing in self._gaps.ask(now_ns).items():
                self._ask(whom, missing)

    def _ask(self, whom: int, missing: list[tuple[int, int, int]]) -> None:
        self._replica.count("asked")
        self._replica.out.append((whom, encode_request(self.stamp, self.group_id, self.tag, self._me, missing)))

    def collect(self, effects: Effects) -> None:
        out = self._replica.out
        if not out:
            return
        self._replica.out = []
        if len(self.view.members) == 1:
            return
        multicasts: list[bytes] = []
        unicasts: dict[int, list[bytes]] = {}
        for rank, packet in out:
            if rank == EVERYBODY:
                multicasts.append(packet)
            else:
                unicasts.setdefault(rank, []).append(packet)
        if multicasts:
            effects.transmits.append(Transmit(self.everyone, multicasts))
        for rank, packets in unicasts.items():
            effects.transmits.append(Transmit(self.route(rank), packets))

    # ---- the end of the view ---------------------------------------------------------------------------------------

    def finish_cut(self, barriers: list[BarrierBody], effects: Effects, now_ns: int) -> bool:
        self._ordering.closing = True
        fetched = self.cut.fetched
        progress = True
        while progress:
            progress = False
            for rank in range(len(self.view.members)):
                added = fetched.get((rank, self._graph.last[rank] + 1))
                while isinstance(added, Added) and not self._graph.missing(added.predecessors):
                    del fetched[rank, added.number]
                    progress = self._attach(added) or progress
                    added = fetched.get((rank, self._graph.last[rank] + 1))
        self._take_in(effects, now_ns)
        self._ordering.drain(effects)
        self._deliver_barriers(barriers, effects)
        return True

    def _attach(self, added: Added) -> bool:
        try:
            node = self._graph.attach(added.sender, added.number, added.predecessors, added.section)
        except GraphError:
            self._replica.count("contradiction")
            return False
        self._outstanding.append(node)
        return True

    # ---- questions -------------------------------------------------------------------------------------------------

    def outstanding(self) -> int:
        barrier = 0 if self.cut.barrier is None else 1
        return len(self._own) + self._ordering.waiting_of(self._me) + barrier

    def held(self) -> int:
        return self._replica.held() + len(self._outstanding) + self._ordering.waiting()

    def statistics(self) -> dict[str, int]:
        counts = self._replica.counts
        return {
            "packets_sent": self._graph.last[self._me],
            "packets_stable": self._graph.stable_to[self._me],
            "packets_held": self._replica.held() + len(self._outstanding),
            "duplicates": counts.get("duplicate", 0),
            "requests": counts.get("asked", 0),
            "resends": counts.get("resent", 0),
            "messages_spoiled": self._ordering.spoiled(),
        }

    def situations(self) -> list[int]:
        return [self._replica.counts.get("resent", 0), self._bare_acks, self._merges]
