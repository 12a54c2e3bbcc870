"""Everything an engine can ask for. One `Effects` comes out of each `Engine.step`.

Carry it out in this order:
1. `events`, first to last: record each in the history, then hand it to the application.
2. `transmits`: a send is on record before it leaves.
3. Arrange a `Tick` at `deadline_ns`; it replaces the deadline of every earlier step. NEVER means none.
"""

from typing import Final, final

from antiphon.kernel.identity import ProcessId, View

NEVER: Final = 0x7FFF_FFFF_FFFF_FFFF


@final
class Sent:
    """`count` messages, numbered from `number` on, were accepted for sending. `size`: their payload bytes together."""

    __slots__ = ("count", "group", "level", "number", "size", "view_id")

    def __init__(self, group: str, view_id: int, number: int, count: int, level: int, size: int) -> None:
        self.group = group
        self.view_id = view_id
        self.number = number
        self.count = count
        self.level = level
        self.size = size


@final
class Delivered:
    """Consecutive messages of one sender, numbered from `number` on, in the promised place."""

    __slots__ = ("group", "level", "number", "payloads", "sender", "view_id")

    def __init__(
        self, group: str, view_id: int, sender: ProcessId, number: int, level: int, payloads: list[bytes]
    ) -> None:
        self.group = group
        self.view_id = view_id
        self.sender = sender
        self.number = number
        self.level = level
        self.payloads = payloads


@final
class Received:
    """A packet with `count` messages starting at `number` came in from the network for the first time."""

    __slots__ = ("count", "group", "level", "number", "sender", "size", "view_id")

    def __init__(
        self, group: str, view_id: int, sender: ProcessId, number: int, count: int, level: int, size: int
    ) -> None:
        self.group = group
        self.view_id = view_id
        self.sender = sender
        self.number = number
        self.count = count
        self.level = level
        self.size = size


@final
class Installed:
    """The group is in `view` from here on."""

    __slots__ = ("group", "view")

    def __init__(self, group: str, view: View) -> None:
        self.group = group
        self.view = view


@final
class Writable:
    """The pending queue of `group`, once full, has room again."""

    __slots__ = ("group",)

    def __init__(self, group: str) -> None:
        self.group = group


Event = Sent | Delivered | Received | Installed | Writable


@final
class Transmit:
    """Packets for one member, or for every other member of the group (`destination` None), in order."""

    __slots__ = ("destination", "group", "packets")

    def __init__(self, group: str, destination: ProcessId | None, packets: list[bytes]) -> None:
        self.group = group
        self.destination = destination
        self.packets = packets


@final
class Effects:
    """What one step wants done; see the top of this file for the order."""

    __slots__ = ("deadline_ns", "events", "transmits")

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.transmits: list[Transmit] = []
        self.deadline_ns: int = NEVER
