"""From ready to delivered: what vector time lets through (causal.py) waits here for its place in the total order
(agreed.py), for the other groups of its causality domain (inter_group_order.py), and for the application.

    ready ──▶ held, one queue per sender ──▶ MessageAssembler ──▶ application

A packet is delivered when it is the head of its sender's queue, all that happened before it has been delivered, and
  agreed  the total order has come to it
  safe    and every member holds it, and the packet that told its place
  causal and above: what it says happened before it in other groups has been delivered there.
Where nothing waits, as with causal messages in one group, packets pass straight through.

The end of a view: `complete`. Every member of the next view holds the same packets, knows the same places, and delivers
the same: first by the rules above (all hold everything, so `safe` waits no longer), then, for packets whose place was
lost with the holder of the token, by a rule that all share: the least rank whose head has nothing before it, again and
again (isis-1991, section 5.5).
"""

from collections import deque
from typing import final

from antiphon.kernel.effects import Delivered, Effects
from antiphon.kernel.identity import View
from antiphon.kernel.levels import AGREED, CAUSAL, FIFO, RELIABLE, SAFE
from antiphon.kernel.options import Options
from antiphon.parts.emission import MessageAssembler
from antiphon.parts.exchange import Exchange
from antiphon.parts.packet import LENGTH_SIZE, DataPacket
from antiphon.parts.pending import PacketLoad
from antiphon.stacks.vector.agreed import AgreedOrder, OrderPlace
from antiphon.stacks.vector.causal import CausalOrder
from antiphon.stacks.vector.group_time import GroupTime
from antiphon.stacks.vector.inter_group_order import InterGroupOrder
from antiphon.stacks.vector.private import Arrived, PrivateLane
from antiphon.stacks.vector.timestamp import ForeignTime


@final
class HeldPacket:
    """A packet that is ready and waits, somebody else's (`packet`) or an own one (`load`, if it has messages)."""

    __slots__ = ("foreign", "level", "load", "number", "packet", "sender", "vector")

    def __init__(self, sender: int, number: int, level: int, vector: list[int]) -> None:
        self.sender = sender
        self.number = number
        self.level = level
        self.vector = vector
        self.packet: DataPacket | None = None
        self.load: PacketLoad | None = None
        self.foreign: list[ForeignTime] = []


@final
class DeliveryQueue:
    """What waits at one member in one view, and what goes to the application."""

    __slots__ = (
        "_agreed",
        "_assembler",
        "_causal",
        "_exchange",
        "_foreign",
        "_group",
        "_group_id",
        "_group_order",
        "_held",
        "_letters",
        "_me",
        "_private",
        "_time",
        "_view",
        "closing",
        "count",
        "paused",
        "safe",
    )

    def __init__(
        self,
        group: str,
        group_id: int,
        view: View,
        exchange: Exchange,
        causal: CausalOrder,
        agreed: AgreedOrder,
        group_order: InterGroupOrder,
        time: GroupTime,
        private: PrivateLane,
        options: Options,
    ) -> None:
        members = len(view.members)
        self._group = group
        self._group_id = group_id
        self._view = view
        self._me = exchange.me
        self._exchange = exchange
        self._causal = causal
        self._agreed = agreed
        self._group_order = group_order
        self._time = time
        self._private = private
        self._held: list[deque[HeldPacket]] = [deque() for _ in range(members)]
        self._foreign: list[list[ForeignTime]] = [[] for _ in range(members)]
        """Per sender: what its packets said came before in other groups, and no causal packet has waited for yet."""
        self._assembler = MessageAssembler(group, view, options.message_bytes_max)
        self._letters: list[Arrived] = []
        self.count = 0
        """How many packets are held…"""
        self.safe = 0
        """…and how many of these are safe."""
        self.paused = False
        self.closing = False

    # ---- in --------------------------------------------------------------------------------------------------------

    def offer(self, packet: DataPacket, foreign: list[ForeignTime], effects: Effects, now_ns: int) -> None:
        """A packet of another member has become ready."""
        sender = packet.sender
        if packet.level >= AGREED:
            self._agreed.ready(sender, packet.number)
        direct = not self.count and not foreign and not self._foreign[sender] and not self._letters
        if direct and self._is_open():
            if packet.delivered:
                self._causal.deliver(sender, packet.number, RELIABLE, self._causal.vectors[sender])
                self._exchange.consumed(sender, now_ns)
                return
            if packet.level <= CAUSAL or (packet.level == AGREED and self._is_next(sender, packet.number)):
                if packet.level == AGREED:
                    self._agreed.sequence.popleft()
                self._causal.deliver(sender, packet.number, packet.level, self._causal.vectors[sender])
                self._assemble(packet, effects)
                self._exchange.consumed(sender, now_ns)
                return
        held = HeldPacket(sender, packet.number, packet.level, self._causal.vectors[sender].copy())
        held.packet = packet
        held.foreign = foreign
        self._hold(held)

    def offer_own(self, number: int, vector: list[int], load: PacketLoad, effects: Effects) -> None:
        """An own packet went out; as a message to oneself it is ready at once."""
        level = load.level
        direct = not self._held[self._me] and not self._letters
        if direct and (level <= CAUSAL or (level == AGREED and self._is_next(self._me, number))):
            if level == AGREED:
                self._agreed.sequence.popleft()
            self._deliver_own(number, vector, load, effects)
            return
        held = HeldPacket(self._me, number, level, vector)
        held.load = load
        self._hold(held)

    def offer_bare(self, number: int) -> None:
        """An own packet without messages went out."""
        if not self._held[self._me]:
            self._causal.delivered[self._me] = number
            self._exchange.table.consumed_by_me = number
        else:
            self._hold(HeldPacket(self._me, number, FIFO, self._causal.stamped))

    def _hold(self, held: HeldPacket) -> None:
        self._held[held.sender].append(held)
        self.count += 1
        if held.level == SAFE:
            self.safe += 1

    def spoiled(self) -> int:
        """Messages that could not be put together."""
        return self._assembler.spoiled

    def held(self) -> int:
        return self.count + len(self._letters)

    def has_letters(self) -> bool:
        return bool(self._letters)

    def takes_own_letter(self) -> bool:
        """Whether a private message to myself could be delivered at once."""
        return not self._held[self._me] and not self._letters and self._is_open()

    def early(self, packet: DataPacket, foreign: list[ForeignTime], effects: Effects) -> None:
        """A reliable packet waits for nothing; but fragments are put together in their sender's order."""
        if not packet.fragment_total and packet.count:
            self._causal.deliver_early(packet)
            packet.delivered = True
            if foreign:
                self._group_order.learn(self._group_id, foreign, False)
            self._assemble(packet, effects)

    def offer_private(self, letter: Arrived) -> None:
        """A private message has come in."""
        self._letters.append(letter)

    def letters(self, sender: int) -> int:
        """How many private messages of this member are held back."""
        return sum(1 for letter in self._letters if letter.sender == sender)

    def waits(self, sender: int) -> bool:
        return bool(self._held[sender])

    def _is_open(self) -> bool:
        """Whether anything at all may be delivered now; the end of a view does not wait for the application."""
        time = self._time
        return not time.blocked and (self.closing or not (self.paused or time.hold))

    def _is_next(self, sender: int, number: int) -> bool:
        sequence = self._agreed.sequence
        if not sequence or not sequence[0].told_in:
            return False
        return sequence[0].rank == sender and sequence[0].number == number

    # ---- out -------------------------------------------------------------------------------------------------------

    def drain(self, effects: Effects, now_ns: int) -> bool:
        """Deliver what may be delivered; whether anything was."""
        if not (self.count or self._letters) or not self._is_open():
            return False
        start = self.count + len(self._letters)
        progress = True
        if self._letters:
            self._drain_letters(effects)
        while progress and self.count:
            progress = self._drain_sequence(effects, now_ns)
            for queue in self._held:
                while queue and queue[0].level <= CAUSAL and self._is_due(queue[0]):
                    self._deliver(queue.popleft(), effects, now_ns)
                    progress = True
        return self.count + len(self._letters) != start

    def _drain_letters(self, effects: Effects) -> None:
        """Private messages come before whatever follows them: they are due no later, and looked at first."""
        waiting: list[Arrived] = []
        delivered: dict[int, Arrived] = {}
        for letter in self._letters:
            behind = any(other.sender == letter.sender for other in waiting)
            if behind or not self._causal.is_due(CAUSAL, letter.vector) or self._group_order.blocks(letter.foreign):
                waiting.append(letter)
                continue
            delivered[letter.sender] = letter
            self._group_order.learn(self._group_id, letter.foreign, False)
            self._group_order.heard_in.add(self._group_id)
            sender = self._view.members[letter.sender]
            effects.events.append(
                Delivered(
                    self._group,
                    self._view.id,
                    sender,
                    letter.number,
                    CAUSAL,
                    [letter.payload],
                    len(letter.payload),
                    True,
                )
            )
        self._letters = waiting
        for letter in delivered.values():
            self._private.delivered(letter, self.letters(letter.sender))

    def _drain_sequence(self, effects: Effects, now_ns: int) -> bool:
        """Deliver along the total order."""
        sequence = self._agreed.sequence
        progress = False
        while sequence:
            place = sequence[0]
            queue = self._held[place.rank]
            if not place.told_in or not queue or queue[0].number != place.number or not self._is_due(queue[0]):
                break
            if queue[0].level == SAFE and not self.closing and not self._is_known_to_all(place):
                break
            sequence.popleft()
            self._deliver(queue.popleft(), effects, now_ns)
            progress = True
        return progress

    def waits_for_all(self) -> bool:
        """Whether a safe packet is next that not every member is known to hold."""
        if not self.count or not self._agreed.sequence:
            return False
        queue = self._held[self._agreed.sequence[0].rank]
        return bool(queue) and queue[0].level == SAFE

    def _is_known_to_all(self, place: OrderPlace) -> bool:
        """Whether every member holds the packet, and the one that told its place."""
        exchange = self._exchange
        return (
            exchange.held_by_all(place.rank) >= place.number
            and exchange.held_by_all(place.told_by) >= place.told_in
        )  # fmt: skip

    def _is_due(self, held: HeldPacket) -> bool:
        if not self._causal.is_due(held.level, held.vector):
            return False
        return held.level < CAUSAL or not self._is_blocked(held)

    def _is_blocked(self, held: HeldPacket) -> bool:
        """Whether something that happened before it in another group has not been delivered here."""
        if not held.foreign and not self._foreign[held.sender]:
            return False
        return self._group_order.blocks(held.foreign) or self._group_order.blocks(self._foreign[held.sender])

    def _deliver(self, held: HeldPacket, effects: Effects, now_ns: int) -> None:
        self.count -= 1
        if held.level == SAFE:
            self.safe -= 1
        packet = held.packet
        if packet is None:
            self._deliver_own(held.number, held.vector, held.load, effects)
            return
        if held.foreign or self._foreign[held.sender]:
            self._note_foreign(held)
        self._causal.deliver(held.sender, held.number, held.level, held.vector)
        if not packet.delivered:
            self._assemble(packet, effects)
        self._exchange.consumed(held.sender, now_ns)
        if self._letters:
            self._drain_letters(effects)

    def _note_foreign(self, held: HeldPacket) -> None:
        """What came before it in other groups is now in my past, if it brings a message. A packet that did not wait
        for it leaves that to later ones of its sender."""
        assert held.packet is not None
        foreign = [*self._foreign[held.sender], *held.foreign]
        if held.packet.count:
            self._group_order.learn(self._group_id, foreign, held.level >= CAUSAL)
        self._foreign[held.sender] = foreign if held.level < CAUSAL else []

    def _deliver_own(self, number: int, vector: list[int], load: PacketLoad | None, effects: Effects) -> None:
        """Deliver an own packet; without a load, one that had no messages."""
        self._causal.deliver(self._me, number, FIFO if load is None else load.level, vector)
        self._exchange.table.consumed_by_me = number
        if load is not None and load.complete:
            view = self._view
            sender = view.members[self._me]
            effects.deliver(self._group, view.id, sender, load.first_message, load.level, load.complete, load.size)
        if self._letters:
            self._drain_letters(effects)

    def _assemble(self, packet: DataPacket, effects: Effects) -> None:
        sender = packet.sender
        if not packet.count:
            return
        if sender != self._me and packet.fragment_index + 1 >= packet.fragment_total:
            self._group_order.heard_in.add(self._group_id)
        number, level = packet.first_message, packet.level
        if packet.fragment_total:
            index, total = packet.fragment_index, packet.fragment_total
            self._assembler.fragment(sender, number, level, index, total, packet.fragment(), effects)
        else:
            if self._assembler.open and level != RELIABLE:
                self._assembler.break_off(sender)
            size = len(packet.data) - packet.body - LENGTH_SIZE * packet.count
            messages = packet.take_messages(size)
            effects.deliver(self._group, self._view.id, self._view.members[sender], number, level, messages, size)

    # ---- the end of the view ---------------------------------------------------------------------------------------

    def complete(self, barriers: list[int], effects: Effects, now_ns: int) -> bool:
        """The whole cut is here: deliver all of it that is no orphan. False while another group is in the way, of the
        cut or of the barriers, which come from members of these ranks."""
        self.closing = True
        if self._time.blocked:
            return False
        while True:
            self.drain(effects, now_ns)
            if any(self._causal.is_due(CAUSAL, letter.vector) for letter in self._letters):
                return False
            if any(queue and self._waits_abroad(queue[0]) for queue in self._held):
                return False
            if not self.count or (not self._drop_lost_place() and not self._place_by_rule()):
                break
        if any(self._group_order.blocks(self._foreign[rank]) for rank in barriers):
            return False
        for rank in barriers:
            self._group_order.learn(self._group_id, self._foreign[rank], True)
        return True

    def unwaited(self) -> list[ForeignTime]:
        """What packets of this view said came before them in other groups, and has not come here yet."""
        return [time for foreign in self._foreign for time in foreign if self._group_order.blocks([time])]

    def inherit(self, unwaited: list[ForeignTime]) -> None:
        """What the view before left so: it came before whatever any member sends now, for all delivered those packets
        before they came here."""
        for rank, foreign in enumerate(self._foreign):
            if rank != self._me:
                foreign.extend(unwaited)

    def _waits_abroad(self, held: HeldPacket) -> bool:
        return self._causal.is_due(held.level, held.vector) and held.level >= CAUSAL and self._is_blocked(held)

    def _drop_lost_place(self) -> bool:
        """The total order names a packet that was lost: go on with the next."""
        sequence = self._agreed.sequence
        if not sequence:
            return False
        place = sequence[0]
        if any(held.number == place.number for held in self._held[place.rank]):
            return False
        sequence.popleft()
        return True

    def _place_by_rule(self) -> bool:
        """No place is left that anybody knows: the least rank whose head has nothing before it comes next."""
        if self._agreed.sequence:
            return False
        for rank, queue in enumerate(self._held):
            if queue and self._causal.is_due(queue[0].level, queue[0].vector):
                self._agreed.place_at_end(rank, queue[0].number)
                return True
        return False
