"""Actions: what a script has applications do, and what it has happen to processes.

kind               beside `kind`, `at_ns` and `process`
send               group, level, sizes: one multicast of as many messages as there are sizes, in bytes; also a label,
                   and destinations if they are fewer than the view
send_private       group, to: a causal message to one member alone
barrier            group
leave              group
crash              –
crash_if_safe      –: a crash, unless a group would lose its majority by it
power_loss         –: a crash after which the disk has only what was synced
start              –: a new incarnation begins, unless one is running
cut_links          –: all links of the process break, with what is under way on them
crash_on_packet    group, packet, countdown, both, and no `process`: see crash_triggers.py
pause              until_ns: the whole process stands still; its packets and timers wait for it
pause_application  group, until_ns: the application takes no deliveries of this group

An action concerns whichever incarnation of the process runs at that time. It does nothing where none runs, or where the
one that runs is not in the group. Pauses that overlap count: the process, or its application, goes on when the last of
them has ended.
"""

from collections.abc import Sequence
from typing import Any, Final, final

SEND: Final = "send"
SEND_PRIVATE: Final = "send_private"
BARRIER: Final = "barrier"
LEAVE: Final = "leave"
CRASH: Final = "crash"
CRASH_IF_SAFE: Final = "crash_if_safe"
POWER_LOSS: Final = "power_loss"
START: Final = "start"
CUT_LINKS: Final = "cut_links"
CRASH_ON_PACKET: Final = "crash_on_packet"
PAUSE: Final = "pause"
PAUSE_APPLICATION: Final = "pause_application"

ACTION_FIELDS: Final[dict[str, tuple[str, ...]]] = {
    SEND: ("process", "group", "level", "sizes"),
    SEND_PRIVATE: ("process", "group", "to"),
    BARRIER: ("process", "group"),
    LEAVE: ("process", "group"),
    CRASH: ("process",),
    CRASH_IF_SAFE: ("process",),
    POWER_LOSS: ("process",),
    START: ("process",),
    CUT_LINKS: ("process",),
    CRASH_ON_PACKET: ("group", "packet", "countdown", "both"),
    PAUSE: ("process", "until_ns"),
    PAUSE_APPLICATION: ("process", "group", "until_ns"),
}
"""The fields that each kind uses."""
STATIC_ACTIONS: Final = (SEND, PAUSE, PAUSE_APPLICATION)
"""What a group of policy `static` can take: nobody joins, leaves or fails."""


@final
class Action:
    """One thing that a process does, or that happens to it; fields that its kind does not use are empty."""

    __slots__ = (
        "at_ns", "both", "countdown", "destinations", "group", "kind", "label", "level", "packet", "process", "sizes",
        "to", "until_ns",
    )  # fmt: skip

    def __init__(
        self,
        kind: str,
        at_ns: int,
        process: str = "",
        group: str = "",
        level: str = "",
        sizes: Sequence[int] = (),
        to: str = "",
        until_ns: int = 0,
        packet: str = "",
        countdown: int = 0,
        both: bool = False,
        label: str = "",
        destinations: Sequence[str] = (),
    ) -> None:
        self.kind = kind
        self.at_ns = at_ns
        self.process = process
        self.group = group
        self.level = level
        self.sizes = tuple(sizes)
        self.to = to
        self.until_ns = until_ns
        self.packet = packet
        self.countdown = countdown
        self.both = both
        self.label = label
        self.destinations = tuple(destinations)

    def document(self) -> dict[str, Any]:
        """Plain values, ready for `json.dumps`; `Action(**document)` is the way back."""
        result: dict[str, Any] = {"kind": self.kind, "at_ns": self.at_ns}
        for name in ACTION_FIELDS[self.kind]:
            value = getattr(self, name)
            result[name] = list(value) if name == "sizes" else value
        if self.label:
            result["label"] = self.label
        if self.destinations:
            result["destinations"] = list(self.destinations)
        return result
