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
        "_covered",
        "_me",
        "_members",
        "_news",
        "behind",
        "delivered",
        "known",
        "ready",
        "stamped",
        "vectors",
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
        self.behind = False
        """Whether `known` may run ahead of `delivered`."""
        self.stamped = [0] * members
        """The vector of the last own packet, but for the own entry. The list is never changed afterwards."""
        self._news = False
        self.vectors: list[list[int]] = [[0] * members for _ in range(members)]
        """The vector of the packet of each sender that was read last; a later packet changes it."""
        self._covered = [False] * members
        """Whether that is known to be at most `ready`, which only rises."""

    # ---- sending ---------------------------------------------------------------------------------------------------

    def may_send(self, level: int) -> bool:
        """The rule for sending."""
        if self.behind and level >= CAUSAL:
            for rank in range(self._members):
                if self.known[rank] > self.delivered[rank] and rank != self._me:
                    return False
            self.behind = False
        return True

    def stamp(self, level: int) -> tuple[int, bytes]:
        """The vector part of the packet that goes out next."""
        if level == RELIABLE:
            vector = self._others()
            part = timestamp.encode_vector(changes([0] * self._members, vector), vector)
        elif self._news:
            vector = self._others()
            part = timestamp.encode_vector(changes(self.stamped, vector), vector)
        else:
            return 0, b""
        self.stamped = vector
        self._news = False
        return part

    def _others(self) -> list[int]:
        """`known` without the own entry, which the packet number stands for."""
        vector = self.known.copy()
        vector[self._me] = 0
        return vector

    def sent(self, number: int) -> None:
        """An own packet went out."""
        self.known[self._me] = number
        self.version += 1
        self.ready[self._me] = number

    # ---- the delay rule --------------------------------------------------------------------------------------------

    def is_ready(self, packet: DataPacket) -> bool:
        """The delay rule for the head of its sender's queue."""
        sender = packet.sender
        if packet.stamp:
            self._read(packet)
        if packet.level < CAUSAL or self._covered[sender]:
            return True
        self._covered[sender] = at_most(self.vectors[sender], self.ready)
        return self._covered[sender]

    def is_due(self, level: int, vector: list[int]) -> bool:
        """Whether all that happened before a packet that is ready has been delivered, so far as its level asks."""
        return level < CAUSAL or at_most(vector, self.delivered)

    def deliver(self, sender: int, number: int, level: int, vector: list[int]) -> None:
        """A packet that is ready is delivered (5.1, step 3)."""
        self.delivered[sender] = number
        if level < CAUSAL and merge(self.known, vector):
            self._news = True
            self.behind = True
            self.version += 1
        if number > self.known[sender]:
            self.known[sender] = number
            self._news = True
            self.version += 1

    def deliver_early(self, packet: DataPacket) -> None:
        """A reliable packet is delivered ahead of its sender's queue: it carries its whole vector."""
        for rank, count in packet.stamp:
            self._learn(rank, count)
        self._learn(packet.sender, packet.number)
        self.behind = True

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
                self.behind = True
                self.version += 1

    def has_delivered(self, entries: list[tuple[int, int]]) -> bool:
        """Whether all these packets are delivered here."""
        delivered = self.delivered
        return all(delivered[rank] >= count for rank, count in entries if rank < self._members)

    def _read(self, packet: DataPacket) -> None:
        """Bring the sender's vector up to this packet, the head of its queue."""
        vector = self.vectors[packet.sender]
        for rank, count in packet.stamp:
            vector[rank] = count
        self._covered[packet.sender] = False
