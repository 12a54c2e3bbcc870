"""Crash triggers: a process crashes in the middle of a step, just after it sent a chosen packet.

From `from_ns` on, the sender of the `countdown`-th membership packet of one kind in one group crashes, unless a group
would lose its majority by that. The packet itself is still sent, the rest of the step is not. With `both`, the process
that the packet was for crashes too, once it has taken the packet in: so what the packet said may be known to nobody.
"""

from typing import final

from antiphon.kernel.codec import unseal
from antiphon.kernel.identity import wire_id
from antiphon.kernel.packet_kinds import MEMBERSHIP


@final
class CrashTrigger:
    """One of them."""

    __slots__ = ("both", "countdown", "from_ns", "group_id", "kind")

    def __init__(self, group: str, kind: int, from_ns: int, countdown: int, both: bool = False) -> None:
        self.group_id = wire_id(group)
        self.kind = kind
        self.from_ns = from_ns
        self.countdown = countdown
        self.both = both


def fired(triggers: list[CrashTrigger], packet: bytes, now_ns: int) -> CrashTrigger | None:
    """Count this packet; the trigger that it fires, if any, which is taken out of the list."""
    kind, group_id, _, _, flags, _ = unseal(packet)
    if kind != MEMBERSHIP:
        return None
    for trigger in triggers:
        if trigger.kind == flags and trigger.group_id == group_id and now_ns >= trigger.from_ns:
            trigger.countdown -= 1
            if trigger.countdown <= 0:
                triggers.remove(trigger)
                return trigger
    return None
