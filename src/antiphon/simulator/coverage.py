"""Which states of the protocol a run reached: what its packets were, and how its members went from phase to phase.

Counted from outside, so that the core does nothing for it: a packet is looked at once, when it leaves, whomever it is
for; the phase of a membership is sampled after each step of its process. What a member enters and leaves again within
one step is therefore not seen, and the count of token moves is a lower bound: in a packet that also carries a full
vector time they are not looked for.

A *situation* is a name with a count. `SITUATIONS` lists all that can occur, so that a campaign can also tell what none
of its seeds has reached.
"""

from typing import Final, final

from antiphon.kernel.codec import HEADER_SIZE
from antiphon.kernel.packet_kinds import ADD, DATA, MEMBERSHIP, PRIVATE, PRIVATE_ACK, REQUEST, STATUS
from antiphon.parts.membership import messages
from antiphon.parts.membership.agreement import CLOSING, FLUSHING, JOINING, NORMAL, OUT, PARTING
from antiphon.parts.packet import ACKS, ASK, FRAGMENT, ORDERED
from antiphon.stacks.conversation.free.wire import (
    payload_start,
    payload_start_after,
)
from antiphon.stacks.conversation.offers import OFFERS as CONVERSATION
from antiphon.stacks.vector.offers import OFFERS as VECTOR
from antiphon.stacks.vector.timestamp import FOREIGN, FULL, KEEP, SPARSE, TOKEN

PHASES: Final = {
    JOINING: "joining",
    NORMAL: "normal",
    FLUSHING: "flushing",
    CLOSING: "closing",
    PARTING: "parting",
    OUT: "out",
}
MEMBERSHIP_PACKETS: Final = {
    messages.JOIN: "join",
    messages.LEAVE: "leave",
    messages.HEARS: "hears",
    messages.KNOCK: "knock",
    messages.FLUSH: "flush",
    messages.STATE: "state",
    messages.PROPOSE: "propose",
    messages.DONE: "done",
    messages.INSTALL: "install",
    messages.OUTDATED: "outdated",
    messages.INSTALLED: "installed",
    messages.WISH: "wish",
    messages.CHUNK: "chunk",
    messages.STALL: "stall",
}
_STEPS: Final = (
    *((JOINING, NORMAL), (JOINING, OUT)),
    *((NORMAL, FLUSHING), (NORMAL, CLOSING), (NORMAL, OUT)),
    *((FLUSHING, NORMAL), (FLUSHING, CLOSING), (FLUSHING, OUT)),
    *((CLOSING, NORMAL), (CLOSING, FLUSHING), (CLOSING, PARTING), (CLOSING, OUT)),
    *((FLUSHING, PARTING), (PARTING, OUT)),
)
_KINDS: Final = {
    STATUS: "packet: status",
    REQUEST: "packet: request to resend",
    PRIVATE: "packet: to one member",
    PRIVATE_ACK: "packet: ack to one member",
}
_GRAPH_KINDS: Final = {
    STATUS: "packet: status",
    REQUEST: "packet: request to resend",
}
_MEMBERSHIP: Final = {flags: f"membership: {name}" for flags, name in MEMBERSHIP_PACKETS.items()}
_KIND: Final = 7
_FLAGS: Final = 26
_ORDER_SIZE: Final = HEADER_SIZE + 26
_AFTER_NUMBERS: Final = HEADER_SIZE + 28
_FRAGMENT_SIZE: Final = 8
_ENTRY_SIZE: Final = 10

_EVENTS: Final = (
    "event: view installed",
    "event: suspected",
    "event: stalled without a majority",
    "event: excluded",
    "event: left in good order",
    "event: crashed",
    "event: crashed amid a change of view",
    "event: barrier reached",
)
_MEMBERS: Final = (
    *_MEMBERSHIP.values(),
    *[f"phase: {PHASES[before]} to {PHASES[after]}" for before, after in _STEPS],
)
_VECTOR: Final = (
    *_EVENTS,
    "packet: data",
    "packet: data resent",
    "packet: data with acks",
    "packet: data, a fragment",
    "packet: data in the total order",
    "packet: vector time, changes only",
    "packet: vector time, in full",
    "packet: places in the total order",
    "packet: the token moves",
    "packet: times of other groups",
    "packet: status that asks",
    *_KINDS.values(),
    *_MEMBERS,
)
_CONVERSATION: Final = (
    *_EVENTS,
    "packet: node",
    "packet: node resent",
    "packet: acknowledgement",
    "packet: several predecessors",
    *_GRAPH_KINDS.values(),
    *_MEMBERS,
)
SITUATIONS: Final = {VECTOR.name: _VECTOR, CONVERSATION.name: _CONVERSATION}
"""By stack."""


@final
class Coverage:
    """Counts by situation, for one run."""

    __slots__ = ("counts",)

    def __init__(self) -> None:
        self.counts: dict[str, int] = {}

    def count(self, situation: str) -> None:
        self.counts[situation] = self.counts.get(situation, 0) + 1

    def phase(self, before: int, after: int) -> None:
        """A member went from one phase to another."""
        self.count(f"phase: {PHASES[before]} to {PHASES[after]}")

    def packet(self, packet: bytes, is_for_one: bool) -> None:
        """A packet leaves, for one member or for all."""
        kind, flags = packet[_KIND], packet[_FLAGS]
        if kind == MEMBERSHIP:
            self.count(_MEMBERSHIP[flags])
        elif kind == DATA:
            self._data(packet, flags, is_for_one)
        elif kind == ADD:
            self._node(packet, is_for_one)
        else:
            self.count(_KINDS[kind])
            if kind == STATUS and flags & ASK:
                self.count("packet: status that asks")

    def _data(self, packet: bytes, flags: int, is_for_one: bool) -> None:
        self.count("packet: data")
        if is_for_one:  # new data goes to all
            self.count("packet: data resent")
        if flags & ACKS:
            self.count("packet: data with acks")
        if flags & FRAGMENT:
            self.count("packet: data, a fragment")
        if flags & ORDERED:
            self.count("packet: data in the total order")
        if packet[_ORDER_SIZE] or packet[_ORDER_SIZE + 1]:
            self._order(packet, _AFTER_NUMBERS + (_FRAGMENT_SIZE if flags & FRAGMENT else 0))

    def _node(self, packet: bytes, is_for_one: bool) -> None:
        self.count("packet: node")
        if is_for_one:
            self.count("packet: node resent")
        section = packet[HEADER_SIZE:]
        start = payload_start(section)
        if start == len(section):
            self.count("packet: acknowledgement")
        if start > payload_start_after(1):
            self.count("packet: several predecessors")

    def _order(self, packet: bytes, position: int) -> None:
        """The order section: see stacks/vector/timestamp.py."""
        parts = packet[position]
        position += 1
        if parts & SPARSE:
            self.count("packet: vector time, changes only")
            position += 2 + _ENTRY_SIZE * _u16(packet, position)
        if parts & FULL:
            self.count("packet: vector time, in full")
        if parts & TOKEN:
            self.count("packet: places in the total order")
            if not parts & FULL and _u16(packet, position + 4) != KEEP:
                self.count("packet: the token moves")
        if parts & FOREIGN:
            self.count("packet: times of other groups")


def _u16(packet: bytes, position: int) -> int:
    return packet[position] | packet[position + 1] << 8
