"""Conversations over a network in virtual time: packets are lost, doubled and held up as a seed decides."""

import heapq
from dataclasses import dataclass, field
from random import Random

from antiphon.kernel.codec import unseal
from antiphon.kernel.identity import ProcessId
from antiphon.kernel.options import MILLISECOND_NS, Options
from antiphon.parts.message_graph import GraphNode
from antiphon.stacks.conversation.free.conversation import ConversationCore, conversation_id
from antiphon.stacks.conversation.free.graph_replica import EVERYBODY

DELAY_NS_MAX = 3 * MILLISECOND_NS


@dataclass
class Net:
    """Participants p0, p1… of one conversation."""

    count: int
    random: Random
    loss: float = 0.0
    doubling: float = 0.0
    options: Options = field(default_factory=Options)
    now_ns: int = 0
    hosts: list[ConversationCore] = field(init=False)
    received: list[list[tuple[GraphNode, bytes]]] = field(init=False)
    """What each participant has received, in order."""
    dead: set[int] = field(default_factory=set)
    _flying: list[tuple[int, int, int, bytes]] = field(default_factory=list)
    _sent: int = 0

    def __post_init__(self) -> None:
        processes = [ProcessId(f"p{rank}") for rank in range(self.count)]
        cid = conversation_id(processes[0], 1)
        self.hosts = [
            ConversationCore(cid, processes, [process.name for process in processes], process, self.options)
            for process in processes
        ]
        self.received = [[] for _ in self.hosts]

    def send(self, rank: int, payload: bytes) -> GraphNode:
        node = self.hosts[rank].send(payload)
        self.flush(rank)
        return node

    def receive_all(self, rank: int) -> None:
        while (got := self.hosts[rank].receive()) is not None:
            self.received[rank].append(got)

    def flush(self, rank: int) -> None:
        """Put on the network what a host wants to send."""
        out, self.hosts[rank].replica.out = self.hosts[rank].replica.out, []
        for destination, packet in out:
            for other in range(self.count) if destination == EVERYBODY else [destination]:
                if other != rank:
                    self._post(other, packet)

    def _post(self, destination: int, packet: bytes) -> None:
        copies = 2 if self.random.random() < self.doubling else 1
        for _ in range(copies):
            if self.random.random() >= self.loss:
                self._sent += 1
                at_ns = self.now_ns + self.random.randrange(DELAY_NS_MAX)
                heapq.heappush(self._flying, (at_ns, self._sent, destination, packet))

    def run(self, duration_ns: int) -> None:
        """Let time go on: packets arrive, timers expire."""
        end_ns = self.now_ns + duration_ns
        while True:
            due_ns = min(
                [host.replica.deadline_ns() for rank, host in enumerate(self.hosts) if rank not in self.dead]
                + [flying[0] for flying in self._flying[:1]]
            )
            if due_ns > end_ns:
                break
            self.now_ns = max(self.now_ns, due_ns)
            if self._flying and self._flying[0][0] <= self.now_ns:
                _, _, rank, packet = heapq.heappop(self._flying)
                if rank not in self.dead:
                    kind, _, _, via, flags, _ = unseal(packet)
                    self.hosts[rank].take(kind, via, flags, packet, self.now_ns)
                    self.flush(rank)
                continue
            for rank, host in enumerate(self.hosts):
                if rank not in self.dead and host.replica.deadline_ns() <= self.now_ns:
                    host.replica.tick(self.now_ns)
                    self.flush(rank)
        self.now_ns = end_ns

    def settle(self) -> None:
        """The network is sound again: everybody asks for what it may lack until nothing is on the way."""
        self.loss = self.doubling = 0.0
        for _ in range(5):
            for rank, host in enumerate(self.hosts):
                if rank not in self.dead:
                    host.replica.ask_everybody()
                    self.flush(rank)
            self.run(1000 * MILLISECOND_NS)
