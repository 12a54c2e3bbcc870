"""Everything an engine can ask for. One `Effects` comes out of each `Engine.step`.

Carry it out in this order:
1. `events`, first to last: record each in the history, then hand it to the application.
2. `transmits`: a send is on record before it leaves. Where nothing is recorded, they may go first, unless a view is
   installed: it tells where its members are.
3. Arrange a `Tick` at `deadline_ns`; it replaces the deadline of every earlier step. NEVER means none.
"""

from typing import Final, final

from antiphon.kernel.identity import ProcessId, View

NEVER: Final = 0x7FFF_FFFF_FFFF_FFFF


@final
class Sent:
    """`count` messages, numbered from `number` on, leave in this view. `size`: their payload bytes together.

    `destinations` where they go to fewer than the view. `barrier`: it is one.
    """

    __slots__ = ("barrier", "count", "destinations", "group", "level", "number", "size", "view_id")

    def __init__(
        self,
        group: str,
        view_id: int,
        number: int,
        count: int,
        level: int,
        size: int,
        destinations: tuple[ProcessId, ...] = (),
        barrier: bool = False,
    ) -> None:
        self.group = group
        self.destinations = destinations
        self.barrier = barrier
        self.view_id = view_id
        self.number = number
        self.count = count
        self.level = level
        self.size = size


@final
class Delivered:
    """Consecutive messages of one sender, numbered from `number` on, in the promised place; `size` is their payload
    bytes together. `private`: sent to this process alone."""

    __slots__ = ("group", "level", "number", "payloads", "private", "sender", "size", "view_id")

    def __init__(
        self,
        group: str,
        view_id: int,
        sender: ProcessId,
        number: int,
        level: int,
        payloads: list[bytes],
        size: int,
        private: bool = False,
    ) -> None:
        self.private = private
        self.size = size
        self.group = group
        self.view_id = view_id
        self.sender = sender
        self.number = number
        self.level = level
        self.payloads = payloads


@final
class BarrierReached:
    """A barrier: all members have delivered the same messages before it and none after it. A new view follows."""

    __slots__ = ("group", "number", "payload", "sender", "view_id")

    def __init__(self, group: str, view_id: int, sender: ProcessId, number: int, payload: bytes) -> None:
        self.group = group
        self.view_id = view_id
        self.sender = sender
        self.number = number
        self.payload = payload


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
    """The group is in `view` from here on. Who of the view before is not in it left, or is taken to have failed."""

    __slots__ = ("failed", "group", "joined", "left", "view")

    def __init__(
        self,
        group: str,
        view: View,
        joined: tuple[ProcessId, ...],
        left: tuple[ProcessId, ...] = (),
        failed: tuple[ProcessId, ...] = (),
    ) -> None:
        self.group = group
        self.view = view
        self.joined = joined
        self.left = left
        self.failed = failed


@final
class Suspected:
    """This process takes `process` to have failed, in this view; agreement on it is still to come."""

    __slots__ = ("group", "process", "view_id")

    def __init__(self, group: str, view_id: int, process: ProcessId) -> None:
        self.group = group
        self.view_id = view_id
        self.process = process


@final
class MajorityLost:
    """No majority of the view can be reached: nothing is sent or delivered until one can."""

    __slots__ = ("group",)

    def __init__(self, group: str) -> None:
        self.group = group


@final
class Ended:
    """This process is no longer a member: it left (`excluded` false), or the others went on without it. `left_to`: who
    goes on, if it left by agreement; nobody, if the group has ended."""

    __slots__ = ("excluded", "group", "left_to")

    def __init__(self, group: str, excluded: bool, left_to: View | None = None) -> None:
        self.group = group
        self.excluded = excluded
        self.left_to = left_to


@final
class Writable:
    """The pending queue of `group`, once full, has room again."""

    __slots__ = ("group",)

    def __init__(self, group: str) -> None:
        self.group = group


Event = Sent | Delivered | BarrierReached | Received | Installed | Suspected | MajorityLost | Ended | Writable


@final
class Transmit:
    """Packets for one process, or for every other member of the group (`destination` None), in order.

    `address` is set where the process is not a member, and its address so not known from a view.
    """

    __slots__ = ("address", "destination", "group", "packets")

    def __init__(
        self, group: str, destination: ProcessId | None, packets: list[bytes], address: str | None = None
    ) -> None:
        self.group = group
        self.destination = destination
        self.packets = packets
        self.address = address


@final
class Effects:
    """What one step wants done; see the top of this file for the order."""

    __slots__ = ("accepted", "deadline_ns", "events", "transmits")

    def __init__(self) -> None:
        self.accepted = 0
        """How many of the messages that a `Send` or `SendBarrier` offered were taken, from the front."""
        self.events: list[Event] = []
        self.transmits: list[Transmit] = []
        self.deadline_ns: int = NEVER
