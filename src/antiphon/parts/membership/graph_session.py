"""One view whose packets are nodes of a message graph, as far as stacks are alike: acknowledgement, status, stability,
asking for what is missing of a cut. A stack adds how nodes travel and in which order their messages are delivered.

Acknowledgement. What a member sends acknowledges all that it has taken in. If it has nothing to send, it sends an empty
node: soon after an agreed or safe message has come, else after a while or after some packets.

Status. No later node tells that the very last one was lost. So whoever waits for others tells what it has, again and
again, ever more slowly; and whoever is idle does so now and then.
"""

from typing import Final

from antiphon.kernel.effects import NEVER, Effects, Received, Sent
from antiphon.kernel.errors import MalformedError
from antiphon.kernel.identity import ProcessId, View
from antiphon.kernel.levels import AGREED
from antiphon.kernel.options import Options
from antiphon.kernel.packet_kinds import REQUEST
from antiphon.parts.ack_budget import AckBudget
from antiphon.parts.membership.graph_view_end import GraphViewEnd
from antiphon.parts.membership.session import Session
from antiphon.parts.message_graph import GraphNode, GraphPacket, MessageGraph
from antiphon.parts.node_batch import EVERYBODY, NodeBatch
from antiphon.parts.pending import PacketLoad, PendingQueue

_FREE_MIN: Final = 256
"""Nodes that a graph has before any are freed."""


class GraphSession(Session):
    """One member in one view."""

    __slots__ = (
        "_ack_at_ns",
        "_bare_acks",
        "_budget",
        "_data_last",
        "_free_at",
        "_graph",
        "_room",
        "_stable_before",
        "_stated_ns",
        "_status_at_ns",
        "_tries",
        "_unacked",
        "cut",
    )

    def __init__(
        self,
        stack: int,
        group: str,
        process: ProcessId,
        view: View,
        pending: PendingQueue,
        options: Options,
        declared: int,
        node_overhead: int,
    ) -> None:
        """`node_overhead`: the bytes of a node beside its messages, at most."""
        super().__init__(stack, group, process, view, pending, options, declared, node_overhead)
        self._room = options.packet_bytes_max - node_overhead
        """What a node has for messages. The same for all: a message is cut into fragments of one length."""
        self._data_last = [0] * len(view.members)
        """By sender, the last node with messages that was taken in."""
        self._unacked = 0
        self._ack_at_ns = NEVER
        self._budget = AckBudget(options.ack_gap_ns, len(view.members))
        """When an empty node may be sent."""
        self._status_at_ns = 0
        self._stated_ns = 0
        """When this member last sent a status packet."""
        self._tries = 0
        self._stable_before = 0
        self._free_at = _FREE_MIN
        self._bare_acks = 0
        """Nodes without messages."""

    def _begin(self, graph: MessageGraph) -> None:
        """The end of a stack's own `__init__`: this graph is the view's."""
        self._graph = graph
        self.cut = GraphViewEnd(graph, self._me, self._options)
        self.end = self.cut

    # ---- what a stack adds -----------------------------------------------------------------------------------------

    def _answer(self, data: bytes, sender: int) -> None:
        """Another member lacks these of the cut: send them to it alone. Raises MalformedError."""
        raise NotImplementedError

    def _ask(self, whom: int, missing: list[tuple[int, int, int]]) -> None:
        """Ask one member for these nodes."""
        raise NotImplementedError

    def _send_status(self) -> None:
        """Tell all members how far this one has each member's nodes."""
        raise NotImplementedError

    def _waits(self) -> bool:
        """Whether something waits for others, who may have lost something."""
        raise NotImplementedError

    # ---- packets in ------------------------------------------------------------------------------------------------

    def answer_late(self, kind: int, sender: int, data: bytes, effects: Effects, now_ns: int) -> None:
        if kind == REQUEST:
            self._answer(data, sender)
            self.collect(effects)

    def _is_due(self, packet: GraphPacket) -> bool:
        """Whether to take a node in now: it is set aside if the view is closing. Raises MalformedError if it cannot
        exist, or comes too late."""
        mid = (packet.sender, packet.number)
        for rank, number in (mid, *packet.predecessors):
            if not self.cut.exists(rank, number):
                raise MalformedError("number")
        if not self.cut.frozen:
            return True
        if not self.cut.wants(mid):
            raise MalformedError("late")
        self.cut.fetched[mid] = packet
        return False

    def _report_receive(self, rank: int, batch: NodeBatch, effects: Effects) -> None:
        if batch.total and batch.index + 1 < batch.total:
            return
        sender = self.view.members[rank]
        effects.events.append(
            Received(self.group, self.view.id, sender, batch.first_message, batch.count, batch.level, batch.size())
        )

    def _note_status(self, counts: list[int], via: int) -> None:
        """Another member tells how many nodes of each member it has. Raises MalformedError if there cannot be so
        many."""
        if counts[self._me] > self._graph.last[self._me]:
            self.cut.former_life.contradicts(via)
        for rank, count in enumerate(counts):
            if count and not self.cut.exists(rank, count):
                raise MalformedError("number")
        self.cut.former_life.fits(via)
        self.cut.told[via] = max(self.cut.told[via], counts[self._me])

    # ---- acknowledgement and status --------------------------------------------------------------------------------

    def _owe_ack(self, level: int, now_ns: int) -> None:
        """A node with messages of this level was taken in."""
        self._unacked += 1
        options = self._options
        if level >= AGREED:
            self._ack_soon(now_ns)
        elif self._unacked >= options.ack_every_packets:
            self._ack_at_ns = min(self._ack_at_ns, now_ns)
        else:
            self._ack_at_ns = min(self._ack_at_ns, now_ns + options.ack_delay_ns)

    def _ack_soon(self, now_ns: int) -> None:
        """Somebody waits for this member's acknowledgement."""
        self._ack_at_ns = min(self._ack_at_ns, max(now_ns, self._budget.next_ns))

    def _note_node_sent(self, now_ns: int) -> None:
        """A node left, and with it all acknowledgements."""
        self._unacked = 0
        self._ack_at_ns = NEVER
        self._budget.spend(now_ns)
        self._status_at_ns = min(now_ns + self._interval_ns(), self._stated_ns + self._options.heartbeat_interval_ns)

    def _interval_ns(self) -> int:
        """Until the next status packet, if nothing else goes out to all. One goes out per heartbeat whatever else does:
        a node may be another's copy, so it does not tell that its sender lives."""
        if not self._waits():
            return self._options.heartbeat_interval_ns
        return min(self._options.probe_interval_ns << min(self._tries, 10), self._options.heartbeat_interval_ns)

    def _tell_status(self, now_ns: int) -> None:
        """At the end of a step: send the status that is due, and see to the next while something waits."""
        if not self._waits():
            if self._tries:  # what was waited for has come
                self._tries = 0
                self._status_at_ns = self._stated_ns + self._options.heartbeat_interval_ns
        elif not self._tries:
            self._tries = 1
            self._status_at_ns = min(self._status_at_ns, now_ns + self._options.probe_interval_ns)
        if self._status_at_ns <= now_ns:
            if self._tries:
                self._tries += 1
            self._stated_ns = now_ns
            self._status_at_ns = now_ns + self._interval_ns()
            self._send_status()

    # ---- packets out -----------------------------------------------------------------------------------------------

    def _report_sent(self, load: PacketLoad, effects: Effects, to: tuple[ProcessId, ...] = ()) -> None:
        if load.complete:
            effects.events.append(
                Sent(self.group, self.view.id, load.first_message, len(load.complete), load.level, load.size, to)
            )

    def _ranks_of(self, processes: tuple[ProcessId, ...]) -> int:
        """Bits of those of these processes that are in the view; of nobody in particular, EVERYBODY."""
        if not processes:
            return EVERYBODY
        ranks = 0
        for process in processes:
            rank = self.view.rank(process)
            if rank >= 0:
                ranks |= 1 << rank
        return EVERYBODY if ranks + 1 == 1 << len(self.view.members) else ranks

    def _note_own(self, node: GraphNode, load: PacketLoad) -> None:
        """An own node with messages is in the graph."""
        self._own.append((node.number, load.first_message + len(load.complete) - 1))
        self._data_last[self._me] = node.number

    def _settle_own(self) -> None:
        """See which own nodes have become stable."""
        stable = self._graph.stable_to[self._me]
        while self._own and self._own[0][0] <= stable:
            self._own.popleft()
        if stable != self._stable_before:
            self._stable_before = stable
            self._tries = 0

    def _is_graph_full(self) -> bool:
        """Whether it is worth while to free what is stable (`_free`)."""
        return self._graph.nodes > self._free_at

    def _free(self) -> None:
        """Free the stable waves of the graph."""
        self._graph.free_waves(self._graph.stable_wave)
        self._free_at = 2 * self._graph.nodes + _FREE_MIN

    def _ask_for_cut(self, now_ns: int) -> None:
        missing = self.cut.missing()
        if not missing:
            self.cut.ask_at_ns = NEVER
            return
        source = self.cut.whom_to_ask(now_ns)
        if source >= 0:
            self._ask(source, missing)

    # ---- questions -------------------------------------------------------------------------------------------------

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
        if self._has_barrier(message):
            return False
        known = [0] * len(self.view.members)
        known[self._me] = self._last_own(message)
        return self.is_stable(known, copies)
