"""Causal order by vector time: CBCAST (isis-1991, sections 5.1 and 5.4).

Promise. If m happened before m', every member delivers m before m', whatever their levels are, provided m' is `causal`
or above.

State, per member j:
  ready[k]      every packet of k up to here may be delivered as far as vector time is concerned
  delivered[k]  every packet of k up to here is delivered: the paper's VT(p_j); delivered[k] <= ready[k]
  known[k]      every packet of k up to here happened before whatever j sends next; delivered[k] <= known[k]

`ready` runs ahead of `delivered` only where something else holds a packet back: its place in the total order
(agreed.py), a paused application, another group. `known` runs ahead of `delivered` only by `fifo` and `reliable`
packets, which are delivered without waiting for what happened before them; their stamps still enter `known`.

The delay rule for packet m of sender i, by level:
  reliable          deliver on arrival
  fifo              ready[i] = number(m) - 1
  causal and above  fifo, and for all k other than i: VT(m)[k] <= ready[k]

The rule for sending. Packets are stamped with `known`. A packet of level `causal` or above is sent only when `known`
does not run ahead of `delivered` (but for own packets): its sender has all that happened before it. So nothing that a
living member sends can wait for what is lost with the failed; and, as the paper's step 2 has it, own messages are never
delayed for their past.

Compression. A stamp holds the entries that changed since i's last packet, so the vector of i is put together in i's
packet order, which the fifo condition provides. A `reliable` packet may be delivered ahead of that order: it carries
all entries.

Safe: an entry left out of m was in an earlier packet of i, ready before m; a causal m checks the whole vector of i,
not only the entries it carries, because that earlier packet may have been of a level that does not wait. Live:
everything that m waits for was sent before m, and the stream brings it; "happened before" has no cycles.

Deviation: entries count packets, not messages: a packet is a burst of one sender, sent and delivered as a whole (5.4).
"""

from typing import final

from antiphon.kernel.levels import CAUSAL, RELIABLE
from antiphon.parts.packet import DataPacket
from antiphon.parts.vector_clock import at_most, changes, merge
from antiphon.stacks.vector import timestamp


@final
class CausalOrder:
    """The vectors of one member in one view, and the delay rule over them."""

    __slots__ = (
        "_behind",
        "_me",
        "_members",
        "_news",
        "_stamped",
        "_vectors",
        "_vectors_at",
        "delivered",
        "known",
        "ready",
        "version",
    )

    def __init__(self, members: int, me: int) -> None:
        self._members = members
        self._me = me
        self.ready = [0] * members
        self.delivered = [0] * members
        self.known = [0] * members
        self.version = 0
        """Rises whenever `known` does."""
        self._behind = False
        self._stamped = [0] * members
        self._news = False
        self._vectors: list[list[int]] = [[0] * members for _ in range(members)]
        self._vectors_at = [0] * members

    # ---- sending ---------------------------------------------------------------------------------------------------

    def may_send(self, level: int) -> bool:
        """The rule for sending."""
        if self._behind and level >= CAUSAL:
            for rank in range(self._members):
                if self.known[rank] > self.delivered[rank] and rank != self._me:
                    return False
            self._behind = False
        return True

    def stamp(self, level: int) -> tuple[int, bytes]:
        """The vector part of the packet that goes out next."""
        if level == RELIABLE:
            vector = self._others()
            part = timestamp.encode_vector(changes([0] * self._members, vector), vector)
        elif self._news:
            vector = self._others()
            part = timestamp.encode_vector(changes(self._stamped, vector), vector)
        else:
            return 0, b""
        self._stamped = vector
        self._news = False
        return part

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
        self.version += 1
        self.ready[self._me] = number

    # ---- the delay rule --------------------------------------------------------------------------------------------

    def is_ready(self, packet: DataPacket) -> bool:
        """The delay rule for the head of its sender's queue."""
        sender = packet.sender
        self._read(packet)
        return packet.level < CAUSAL or at_most(self._vectors[sender], self.ready)

    def vector(self, sender: int) -> list[int]:
        """The vector of the packet of `sender` that was read last; a later packet changes it."""
        return self._vectors[sender]

    def is_due(self, level: int, vector: list[int]) -> bool:
        """Whether all that happened before a packet that is ready has been delivered, so far as its level asks."""
        return level < CAUSAL or at_most(vector, self.delivered)

    def pass_on(self, packet: DataPacket) -> None:
        """The head of its sender's queue is ready."""
        self.ready[packet.sender] = packet.number

    def deliver(self, sender: int, number: int, level: int, vector: list[int]) -> None:
        """A packet that is ready is delivered (5.1, step 3)."""
        self.delivered[sender] = number
        if level < CAUSAL and merge(self.known, vector):
            self._news = True
            self._behind = True
            self.version += 1
        self._learn(sender, number)

    def deliver_early(self, packet: DataPacket) -> None:
        """A reliable packet is delivered ahead of its sender's queue: it carries its whole vector."""
        for rank, count in packet.stamp:
            self._learn(rank, count)
        self._learn(packet.sender, packet.number)
        self._behind = True

    def _learn(self, rank: int, count: int) -> None:
        if count > self.known[rank]:
            self.known[rank] = count
            self._news = True
            self.version += 1

    def learn(self, entries: list[tuple[int, int]]) -> None:
        """A packet of another group tells what happened before it in this one."""
        for rank, count in entries:
            if count > self.known[rank]:
                self.known[rank] = count
                self._news = True
                self._behind = True
                self.version += 1

    def has_delivered(self, entries: list[tuple[int, int]]) -> bool:
        """Whether all these packets are delivered here."""
        delivered = self.delivered
        return all(delivered[rank] >= count for rank, count in entries if rank < self._members)

    def _read(self, packet: DataPacket) -> None:
        """Bring the sender's vector up to this packet, once."""
        sender = packet.sender
        if self._vectors_at[sender] != packet.number:
            self._vectors_at[sender] = packet.number
            vector = self._vectors[sender]
            for rank, count in packet.stamp:
                vector[rank] = count
