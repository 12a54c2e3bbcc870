"""A conversation on a table: its participants a, b, c… each with an image and a view, and every packet in our hands.

Nothing travels unless it is passed on, no time goes by unless it is let. Messages are called as in the paper: a1 is the
first of participant a.
"""

from collections.abc import Callable, Iterable, Sequence

from antiphon.kernel.codec import unseal
from antiphon.kernel.identity import ProcessId
from antiphon.kernel.options import MILLISECOND_NS, Options
from antiphon.parts.message_graph import GraphNode, Mid
from antiphon.stacks.conversation.free.conversation import ConversationCore, conversation_id
from antiphon.stacks.conversation.free.graph_replica import EVERYBODY
from antiphon.stacks.conversation.free.limits import Limits
from antiphon.stacks.conversation.free.wire import Added, decode_add, decode_ask

NAMES = "abcdefgh"
A, B, C, D, E, F = range(6)


def mid(name: str) -> Mid:
    """Of a message called a1, b12…"""
    return (NAMES.index(name[0]), int(name[1:]))


def name(node: GraphNode) -> str:
    return f"{NAMES[node.sender]}{node.number}"


def names(nodes: Iterable[GraphNode]) -> list[str]:
    return sorted(name(node) for node in nodes)


class Talk:
    """The table."""

    def __init__(
        self,
        count: int,
        options: Options | None = None,
        *,
        keep_bodies: bool = False,
        limits: Limits | None = None,
        recording: bool = False,
    ) -> None:
        self.processes = [ProcessId(NAMES[rank], 0) for rank in range(count)]
        self.cid = conversation_id(self.processes[0], 1)
        self.options = options or Options()
        self.keep_bodies = keep_bodies
        self.limits = limits or Limits()
        self.recording = recording
        self.count = count
        self.hosts = [self._host(rank, 1) for rank in range(count)]
        self.now_ns = 0
        self.log: list[list[str]] = [[] for _ in self.hosts]
        """What each participant has received, in order."""
        self.dead: set[int] = set()
        self.sent = 0
        """Packets."""
        self._ways: dict[tuple[int, int], list[bytes]] = {}

    def _host(self, rank: int, life: int) -> ConversationCore:
        return ConversationCore(
            self.cid,
            self.processes,
            [process.name for process in self.processes],
            self.processes[rank],
            self.options,
            keep_bodies=self.keep_bodies,
            limits=self.limits,
            life=life,
            recording=self.recording,
        )

    # ---- what participants do --------------------------------------------------------------------------------------

    def send(self, rank: int, payload: bytes = b"") -> GraphNode:
        node = self.hosts[rank].send(payload)
        self.flush(rank)
        return node

    def tell(self, rank: int, payload: bytes = b"") -> GraphNode:
        """Send, and have it arrive and be received by all the others."""
        node = self.send(rank, payload)
        for other in range(self.count):
            if other != rank and other not in self.dead:
                self.pass_on(rank, other)
                self.receive(other)
        return node

    def receive(self, rank: int) -> list[str]:
        """All that is outstanding."""
        got = []
        while (one := self.hosts[rank].receive()) is not None:
            got.append(name(one[0]))
        self.log[rank] += got
        return got

    def receive_one(self, rank: int) -> str | None:
        one = self.hosts[rank].receive()
        if one is None:
            return None
        self.log[rank].append(name(one[0]))
        return name(one[0])

    def resend(self, rank: int, message: str) -> None:
        self.hosts[rank].resend(self.node(rank, message))
        self.flush(rank)

    # ---- the network -----------------------------------------------------------------------------------------------

    def flush(self, rank: int) -> None:
        """Put on the way what a host wants to send."""
        replica = self.hosts[rank].replica
        out, replica.out = replica.out, []
        for destination, packet in out:
            for other in range(self.count) if destination == EVERYBODY else [destination]:
                if other != rank:
                    self.sent += 1
                    self._ways.setdefault((rank, other), []).append(packet)

    def take(self, sender: int, receiver: int) -> list[bytes]:
        """What is on the way from one to the other; it is not any more."""
        return self._ways.pop((sender, receiver), [])

    def lose(self, sender: int, *receivers: int) -> None:
        for receiver in receivers:
            assert self.take(sender, receiver), "there was nothing to lose"

    def arrive(self, receiver: int, *packets: bytes) -> None:
        for packet in packets:
            kind, cid, _, via, flags, _ = unseal(packet)
            assert cid == self.cid
            self.hosts[receiver].take(kind, via, flags, packet, self.now_ns)
        self.flush(receiver)

    def pass_on(self, sender: int, receiver: int) -> None:
        self.arrive(receiver, *self.take(sender, receiver))

    def spread(self, sender: int) -> None:
        """What is on the way from one arrives everywhere."""
        for receiver in range(self.count):
            if receiver != sender and receiver not in self.dead:
                self.pass_on(sender, receiver)

    def crash(self, rank: int) -> None:
        """It does nothing more; what it has sent is still on the way."""
        self.dead.add(rank)

    def restart(self, rank: int, leaves: list[str], *, life: int = 2, sections: list[bytes] | None = None) -> None:
        """It is back, with nothing but what is given; what was on the way to it is gone."""
        for other in range(self.count):
            self.take(other, rank)
        self.dead.discard(rank)
        self.log[rank] = []
        self.hosts[rank] = self._host(rank, life)
        self.hosts[rank].restore(sections or [])
        self.hosts[rank].restart([mid(leaf) for leaf in leaves])
        self.wait(0)

    # ---- time ------------------------------------------------------------------------------------------------------

    def wait(self, duration_ns: int = 5 * MILLISECOND_NS) -> None:
        """Time goes by, timers expire, nothing arrives."""
        self.now_ns += duration_ns
        for rank, host in enumerate(self.hosts):
            if rank not in self.dead:
                host.tick(self.now_ns)
                self.flush(rank)

    def settle(self, rounds: int = 40) -> None:
        """All that is on the way arrives, and all timers expire, again and again."""
        for _ in range(rounds):
            for sender, receiver in list(self._ways):
                packets = self.take(sender, receiver)
                if receiver not in self.dead:
                    self.arrive(receiver, *packets)
            self.wait(200 * MILLISECOND_NS)

    def play(self, polls: Sequence[Callable[[int], object]], rounds: int = 30) -> None:
        """Participants that each run a routine, which is polled; what is on the way arrives a millisecond later."""
        for _ in range(rounds):
            for rank, poll in enumerate(polls):
                if rank not in self.dead:
                    poll(self.now_ns)
                    self.flush(rank)
            for sender, receiver in list(self._ways):
                packets = self.take(sender, receiver)
                if receiver not in self.dead:
                    self.arrive(receiver, *packets)
            self.wait(MILLISECOND_NS)

    # ---- asking ----------------------------------------------------------------------------------------------------

    def node(self, rank: int, message: str) -> GraphNode:
        node = self.hosts[rank].replica.graph.node(mid(message))
        assert node is not None
        return node

    def holds(self, rank: int, message: str) -> bool:
        """Whether it is attached in a host's image."""
        return self.hosts[rank].replica.graph.node(mid(message)) is not None

    def replica(self, rank: int) -> list[str]:
        return names(self.hosts[rank].replica.graph.in_order())

    def view(self, rank: int) -> list[str]:
        host = self.hosts[rank]
        return names(node for node in host.replica.graph.in_order() if host.view.holds(node))

    def edges(self, rank: int) -> set[str]:
        graph = self.hosts[rank].replica.graph
        return {f"{name(before)}-{name(node)}" for node in graph.in_order() for before in node.predecessors}

    def stable(self, rank: int) -> list[str]:
        graph = self.hosts[rank].replica.graph
        return names(node for node in graph.in_order() if graph.is_stable(node))


def added(packet: bytes, participants: int) -> Added:
    """The message that a packet brings."""
    _, _, _, _, flags, _ = unseal(packet)
    return decode_add(packet, flags, participants)


def asked(packet: bytes, participants: int) -> tuple[Mid | None, list[Mid]]:
    return decode_ask(packet, participants)


def kinds(packets: list[bytes]) -> list[int]:
    return [unseal(packet)[0] for packet in packets]
