"""Causal order by vector time: CBCAST (isis-1991, sections 5.1 and 5.4).

Promise. If m happened before m', every member delivers m before m', whatever their levels are, provided m' is `causal`.

State, per member j:
  delivered[k]  every packet of k up to here is delivered: the paper's VT(p_j)
  known[k]      every packet of k up to here happened before whatever j sends next; delivered[k] <= known[k]
Packets are stamped with `known`. At level `causal` the two vectors never part. But `fifo` and `reliable` packets are
delivered without waiting for what happened before them; their stamps still enter `known`, so that a causal packet sent
after them makes everybody wait for the whole of its past.

The delay rule for packet m of sender i, by level:
  reliable  deliver on arrival
  fifo      delivered[i] = number(m) - 1
  causal    fifo, and for all k other than i: VT(m)[k] <= delivered[k]

Own packets follow the same rule, with `known` at the time of sending for their vector. The paper's step 2 lets a
process deliver its own messages at once; that holds while `known` and `delivered` agree, hence always if all messages
are causal.

Compression. A stamp holds the entries that changed since i's last packet, so the vector of i is put together in i's
packet order, which the fifo condition provides. A `reliable` packet may be delivered ahead of that order: it carries
all entries.

Safe: an entry left out of m was in an earlier packet of i, delivered before m; a causal m checks the whole vector of
i, not only the entries it carries, because that earlier packet may have been of a level that does not wait. Live:
everything that m waits for was sent before m, and the stream brings it; "happened before" has no cycles.

Deviations: entries count packets, not messages: a packet is a burst of one sender, sent and delivered as a whole (5.4).
The delay queue is one queue per sender, in sender order; only heads can be deliverable. Its order across senders
matters first for ABCAST (5.2), which comes with views and flush (5.5).
"""

from typing import final

from antiphon.kernel.levels import CAUSAL, RELIABLE
from antiphon.parts.packet import DataPacket
from antiphon.parts.vector_clock import at_most, changes, merge
from antiphon.stacks.vector import timestamp


@final
class CausalOrder:
    """The vectors of one member in one view, and the delay rule over them."""

    __slots__ = ("_me", "_members", "_news", "_stamped", "_vectors", "_vectors_at", "delivered", "known")

    def __init__(self, members: int, me: int) -> None:
        self._members = members
        self._me = me
        self.delivered = [0] * members
        self.known = [0] * members
        self._stamped = [0] * members
        self._news = False
        self._vectors: list[list[int]] = [[0] * members for _ in range(members)]
        self._vectors_at = [0] * members

    def stamp(self, level: int) -> bytes:
        """The timestamp of the packet that goes out next."""
        if level == RELIABLE:
            section = timestamp.encode(changes([0] * self._members, self._others()), self._others())
        elif self._news:
            section = timestamp.encode(changes(self._stamped, self._others()), self._others())
        else:
            return b""
        self._stamped = self._others()
        self._news = False
        return section

    def _others(self) -> list[int]:
        """`known` without the own entry, which the packet number stands for."""
        vector = self.known.copy()
        vector[self._me] = 0
        return vector

    def stamped(self) -> list[int]:
        """The vector of the last own packet, but for the own entry. The list is never changed afterwards."""
        return self._stamped

    def sent(self, number: int) -> None:
        """An own packet went out."""
        self.known[self._me] = number

    def own_deliverable(self, level: int, vector: list[int]) -> bool:
        """The delay rule for the head of the own queue."""
        return level < CAUSAL or at_most(vector, self.delivered)

    def deliver_own(self, number: int) -> None:
        self.delivered[self._me] = number

    def deliverable(self, packet: DataPacket) -> bool:
        """The delay rule for the head of its sender's queue."""
        sender = packet.sender
        if packet.number != self.delivered[sender] + 1:
            return False
        self._read(packet)
        return packet.level < CAUSAL or at_most(self._vectors[sender], self.delivered)

    def deliver(self, packet: DataPacket) -> None:
        """The head of its sender's queue is delivered (5.1, step 3)."""
        sender = packet.sender
        self.delivered[sender] = packet.number
        if packet.level < CAUSAL and merge(self.known, self._vectors[sender]):
            self._news = True
        self._learn(sender, packet.number)

    def deliver_early(self, packet: DataPacket) -> None:
        """A reliable packet is delivered ahead of its sender's queue: it carries its whole vector."""
        for rank, count in packet.stamp:
            self._learn(rank, count)
        self._learn(packet.sender, packet.number)

    def skip(self, packet: DataPacket) -> None:
        """The sender's queue has come to a packet that was delivered early."""
        self._read(packet)
        self.delivered[packet.sender] = packet.number

    def _learn(self, rank: int, count: int) -> None:
        if count > self.known[rank]:
            self.known[rank] = count
            self._news = True

    def _read(self, packet: DataPacket) -> None:
        """Bring the sender's vector up to this packet, once."""
        sender = packet.sender
        if self._vectors_at[sender] != packet.number:
            self._vectors_at[sender] = packet.number
            vector = self._vectors[sender]
            for rank, count in packet.stamp:
                vector[rank] = count
