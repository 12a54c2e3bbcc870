"""Which situations a run reached: events, packets by kind, phases of membership, and what each stack itself counts.

Packets are counted when they leave, by the tables of packet kinds and of membership messages; a packet for several
members counts once. Phases are sampled after each step of a process that had any output, so one that is entered and
left within a step is not seen. What only a stack can tell it counts itself (`Stack.situations`), and says beforehand
what there is to count (`Capabilities.situations`). So a campaign can also tell what none of its seeds has reached.
"""

from typing import Final, final

from antiphon.kernel.codec import packet_flags, packet_kind
from antiphon.kernel.packet_kinds import KIND_NAMES, MEMBERSHIP
from antiphon.parts.membership.messages import MESSAGE_NAMES
from antiphon.parts.membership.phases import CLOSING, FLUSHING, JOINING, NORMAL, OUT, PARTING
from antiphon.stacks.registry import offer

VIEW_INSTALLED: Final = "event: view installed"
SUSPECTED: Final = "event: suspected"
STALLED: Final = "event: stalled without a majority"
EXCLUDED: Final = "event: excluded"
LEFT: Final = "event: left in good order"
CRASHED: Final = "event: crashed"
CRASHED_IN_STEP: Final = "event: crashed in the middle of a step"
BARRIER_REACHED: Final = "event: barrier reached"
EVENTS: Final = (
    VIEW_INSTALLED,
    SUSPECTED,
    STALLED,
    EXCLUDED,
    LEFT,
    CRASHED,
    CRASHED_IN_STEP,
    BARRIER_REACHED,
)

_PHASES: Final = {
    JOINING: "joining",
    NORMAL: "normal",
    FLUSHING: "flushing",
    CLOSING: "closing",
    PARTING: "parting",
    OUT: "out",
}
_STEPS: Final = (
    *((JOINING, NORMAL), (JOINING, OUT)),
    *((NORMAL, FLUSHING), (NORMAL, CLOSING), (NORMAL, PARTING), (NORMAL, OUT)),
    *((FLUSHING, NORMAL), (FLUSHING, CLOSING), (FLUSHING, OUT)),
    *((CLOSING, NORMAL), (CLOSING, FLUSHING), (CLOSING, PARTING), (CLOSING, OUT)),
    *((FLUSHING, PARTING), (PARTING, OUT)),
)
_KINDS: Final = {kind: f"packet: {name}" for kind, name in KIND_NAMES.items()}
_MEMBERSHIP: Final = {message: f"membership: {name}" for message, name in MESSAGE_NAMES.items()}


def situations_of(stack: str) -> tuple[str, ...]:
    """All that can occur in groups of this stack."""
    offered = offer(stack)
    return (
        *EVENTS,
        *[_kind_name(kind) for kind in offered.packet_kinds if kind != MEMBERSHIP],
        *offered.situations,
        *_MEMBERSHIP.values(),
        *[_step_name(before, after) for before, after in _STEPS],
    )


def _kind_name(kind: int) -> str:
    return _KINDS.get(kind, f"packet: kind {kind}")


def _step_name(before: int, after: int) -> str:
    return f"phase: {_PHASES[before]} to {_PHASES[after]}"


@final
class Coverage:
    """Counts by situation, for one run."""

    __slots__ = ("counts",)

    def __init__(self) -> None:
        self.counts: dict[str, int] = {}

    def count(self, situation: str, times: int = 1) -> None:
        """Note that it has occurred."""
        self.counts[situation] = self.counts.get(situation, 0) + times

    def phase(self, before: int, after: int) -> None:
        """Note that a member went from one phase to another."""
        self.count(_step_name(before, after))

    def packet(self, packet: bytes) -> None:
        """Note that a packet leaves."""
        kind = packet_kind(packet)
        if kind == MEMBERSHIP:
            self.count(_MEMBERSHIP[packet_flags(packet)])
        else:
            self.count(_kind_name(kind))

    def add(self, counts: dict[str, int]) -> None:
        """Note what a stack has counted."""
        for situation, times in counts.items():
            self.count(situation, times)
