"""Crash triggers: a process crashes in the middle of a step, just after it sent a chosen packet.

From `from_ns` on, the sender of the `countdown`-th packet of one kind in one group crashes, unless a group would lose
its majority by that. The packet itself is still sent, the rest of the step is not. With `both`, the process that the
packet was for crashes too, once it has taken the packet in: so what the packet said may be known to nobody.

The packet is named as in the table of packet kinds (kernel/packet_kinds.py), or as in that of the messages of
membership (parts/membership/messages.py).
"""

from typing import Final, final

from antiphon.kernel.codec import packet_flags, packet_kind, unseal
from antiphon.kernel.identity import wire_id
from antiphon.kernel.packet_kinds import KIND_NAMES, MEMBERSHIP
from antiphon.parts.membership.messages import MESSAGE_NAMES

ANY: Final = -1
PACKETS: Final[dict[str, tuple[int, int]]] = {
    **{name: (kind, ANY) for kind, name in KIND_NAMES.items()},
    **{name: (MEMBERSHIP, message) for message, name in MESSAGE_NAMES.items()},
}
"""Kind and, of membership, the message, by name."""


@final
class CrashTrigger:
    """A crash of whichever process sends the n-th membership packet of one kind in one group."""

    __slots__ = ("both", "countdown", "from_ns", "group_id", "kind", "message")

    def __init__(self, group: str, packet: str, from_ns: int, countdown: int, both: bool = False) -> None:
        self.group_id = wire_id(group)
        self.kind, self.message = PACKETS[packet]
        self.from_ns = from_ns
        self.countdown = countdown
        self.both = both

    def matches(self, packet: bytes, now_ns: int) -> bool:
        """Whether this packet counts."""
        if packet_kind(packet) != self.kind or now_ns < self.from_ns:
            return False
        if self.message not in (ANY, packet_flags(packet)):
            return False
        _, group_id, _, _, _, _ = unseal(packet)
        return group_id == self.group_id


def fired(triggers: list[CrashTrigger], packet: bytes, now_ns: int) -> CrashTrigger | None:
    """Count this packet; the trigger that it fires, if any, which is taken out of the list."""
    for trigger in triggers:
        if trigger.matches(packet, now_ns):
            trigger.countdown -= 1
            if trigger.countdown <= 0:
                triggers.remove(trigger)
                return trigger
    return None
