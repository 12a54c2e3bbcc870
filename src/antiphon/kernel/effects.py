"""Everything an engine can ask for. One `Effects` comes out of each `Engine.step`.

Carry it out in this order:
1. `events`, first to last: record each in the history, then hand it to the application.
2. `transmits`: a send is on record before it leaves. Where nothing is recorded, they may go first.
3. `calls`, first to last: what disks and links are to do (kernel/calls.py). None is waited for: what becomes of it
   comes back as an input, and what depends on that is in the effects of that later step.
4. Arrange a `Tick` at `deadline_ns`; it replaces the deadline of every earlier step. NEVER means none.
"""

from typing import Final, final

from antiphon.kernel.calls import Call
from antiphon.kernel.identity import ProcessId, View

NEVER: Final = 0x3FFF_FFFF_FFFF_FFFF
"""Below 2^62, so that compiled code holds it in a machine word."""


@final
class Sent:
    """`count` messages, numbered from `number` on, leave in this view. `size`: their payload bytes together.

    `destinations` where they go to fewer than the view. `barrier`: it is one. `payloads`: what was sent, where the call
    and the departure are one, so that nothing else tells of the call.
    """

    __slots__ = ("barrier", "count", "destinations", "group", "level", "number", "payloads", "size", "view_id")

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
        payloads: list[bytes] | None = None,
    ) -> None:
        self.group = group
        self.destinations = destinations
        self.barrier = barrier
        self.payloads = payloads
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
    """The group is in `view` from here on. Members of the view before that are absent have left or failed.

    `parents`: the ids of the views that its members come from, as far as this process knows them: several where
    parts of a group have merged, none for a first view. `founded`: the group begins here, nobody was in it before.
    """

    __slots__ = ("failed", "founded", "group", "joined", "left", "parents", "view")

    def __init__(
        self,
        group: str,
        view: View,
        joined: tuple[ProcessId, ...],
        left: tuple[ProcessId, ...] = (),
        failed: tuple[ProcessId, ...] = (),
        parents: tuple[int, ...] = (),
        founded: bool = False,
    ) -> None:
        self.group = group
        self.view = view
        self.parents = parents
        self.founded = founded
        self.joined = joined
        self.left = left
        self.failed = failed


@final
class Transitional:
    """What follows, up to the next `Installed`, is delivered among these members of the view alone: those that go on
    from it together (extended virtual synchrony)."""

    __slots__ = ("group", "members", "view_id")

    def __init__(self, group: str, view_id: int, members: tuple[ProcessId, ...]) -> None:
        self.group = group
        self.view_id = view_id
        self.members = members


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
    goes on, if it left by agreement; nobody, if the group has ended. `reason`: why it was not let in, if it was not.
    `refused`: because it has declared the group differently, which no other incarnation would change. `retires`: it was
    excluded from another group; from this one it parts by agreement, in which it still takes part, unheard. If it is
    let into another view meanwhile, an Installed follows, for the history."""

    __slots__ = ("excluded", "group", "left_to", "reason", "refused", "retires")

    def __init__(
        self,
        group: str,
        excluded: bool,
        left_to: View | None = None,
        reason: str = "",
        refused: bool = False,
        retires: bool = False,
    ) -> None:
        self.retires = retires
        self.reason = reason
        self.refused = refused
        self.group = group
        self.excluded = excluded
        self.left_to = left_to


@final
class Writable:
    """The pending queue of `group`, once full, has room again."""

    __slots__ = ("group",)

    def __init__(self, group: str) -> None:
        self.group = group


@final
class RecoveryAsked:
    """An operator has asked, by the name of the group, that it go on without a majority (`Recover`)."""

    __slots__ = ("group", "operator")

    def __init__(self, group: str, operator: ProcessId) -> None:
        self.group = group
        self.operator = operator


@final
class DeclaredDifferently:
    """`process` has declared the group differently, and takes no part in it; `reason` is for people."""

    __slots__ = ("group", "process", "reason")

    def __init__(self, group: str, process: ProcessId, reason: str) -> None:
        self.group = group
        self.process = process
        self.reason = reason


@final
class RequestRefused:
    """A stack does not do what the input with this request id asked for; `reason` is for people. It may come in a later
    step than the input."""

    __slots__ = ("group", "reason", "request")

    def __init__(self, group: str, request: int, reason: str) -> None:
        self.group = group
        self.request = request
        self.reason = reason


@final
class Reached:
    """The members of a group that this process sends to from outside (`Reach`), as far as it knows."""

    __slots__ = ("group", "view")

    def __init__(self, group: str, view: View) -> None:
        self.group = group
        self.view = view


@final
class Flushed:
    """All that the `Flush` with this request id stands for is where it was to be."""

    __slots__ = ("group", "request")

    def __init__(self, request: int) -> None:
        self.group = ""
        self.request = request


@final
class Replayed:
    """Consecutive messages of one sender that were multicast in the past, as `TellAgain` asked for them. `group` names
    the role; `name` is the group, and `place` the place of these in its order."""

    __slots__ = ("group", "level", "name", "number", "payloads", "place", "sender")

    def __init__(
        self, group: str, name: str, place: int, sender: ProcessId, number: int, level: int, payloads: list[bytes]
    ) -> None:
        self.group = group
        self.name = name
        self.place = place
        self.sender = sender
        self.number = number
        self.level = level
        self.payloads = payloads


@final
class ReplayEnded:
    """All that `TellAgain` asked for was told; or nothing of it, where `lost` names a group of which the service does
    not have all any more, and `first` the first place that it has."""

    __slots__ = ("first", "group", "lost")

    def __init__(self, group: str, lost: str = "", first: int = 0) -> None:
        self.group = group
        self.lost = lost
        self.first = first


@final
class AskApplication:
    """A question to the application, in its place among the events of the group. The answer is the input
    `ApplicationAnswer` with the same token. No step waits for it; what comes after `deadline_ns` is ignored."""

    __slots__ = ("deadline_ns", "group", "question", "token")

    def __init__(self, group: str, token: int, question: bytes, deadline_ns: int) -> None:
        self.group = group
        self.token = token
        self.question = question
        self.deadline_ns = deadline_ns


@final
class RoleOpened:
    """This process takes part in something beside groups, known by the name `group`, and is held to these promises of
    `stack` from here on. Other processes that take part tell the same of themselves."""

    __slots__ = ("group", "promises", "stack")

    def __init__(self, group: str, stack: str, promises: tuple[str, ...]) -> None:
        self.group = group
        self.stack = stack
        self.promises = promises


@final
class RoleClosed:
    """This process takes no more part in what `RoleOpened` named. `reason`: why, where others have decided that: then
    it may have missed what they did since."""

    __slots__ = ("group", "reason")

    def __init__(self, group: str, reason: str = "") -> None:
        self.group = group
        self.reason = reason


@final
class Changed:
    """What the application may ask about `group`, a role of this process, has changed: there is something to take, or
    room to send, or something has become stable. It goes without a record."""

    __slots__ = ("group",)

    def __init__(self, group: str) -> None:
        self.group = group


@final
class Announced:
    """What an operator may want to know of `group`, a role of this process: `name` stays the same from version to
    version, `text` is for people. It is logged, and goes without a record."""

    __slots__ = ("group", "name", "text")

    def __init__(self, group: str, name: str, text: str) -> None:
        self.group = group
        self.name = name
        self.text = text


class StackEvent:
    """Something that only the public library of one stack understands: the stack's own subclasses say what."""

    __slots__ = ("group",)

    def __init__(self, group: str) -> None:
        self.group = group


Event = (
    Sent
    | Delivered
    | BarrierReached
    | Received
    | Installed
    | Transitional
    | Suspected
    | MajorityLost
    | DeclaredDifferently
    | RecoveryAsked
    | Ended
    | Writable
    | RequestRefused
    | Reached
    | Flushed
    | Replayed
    | ReplayEnded
    | AskApplication
    | RoleOpened
    | RoleClosed
    | Changed
    | Announced
    | StackEvent
)


@final
class Route:
    """Where packets go: to processes, at addresses that stand in the same order where they are known; or, where no
    process is named, to whoever is at the addresses. What an address means is the runtime's affair.

    A stack makes a route once and uses it again, so whoever transmits may keep in `resolved` what it has found out.
    """

    __slots__ = ("addresses", "is_multicast", "processes", "resolved")

    def __init__(
        self, processes: tuple[ProcessId, ...], addresses: tuple[str, ...] = (), is_multicast: bool = False
    ) -> None:
        self.processes = processes
        self.addresses = addresses
        self.is_multicast = is_multicast
        """The same packets go to all of a view but this process, as IP multicast may carry them."""
        self.resolved: object = None

    def names(self) -> tuple[str, ...]:
        """The addresses or, where none is known, the names of the processes: what simulated networks go by."""
        return self.addresses or tuple([process.name for process in self.processes])

    def __repr__(self) -> str:
        return f"Route({', '.join([*map(repr, self.processes), *self.addresses])})"


@final
class Transmit:
    """Packets for everybody on a route, in order."""

    __slots__ = ("packets", "route")

    def __init__(self, route: Route, packets: list[bytes]) -> None:
        self.route = route
        self.packets = packets


@final
class Effects:
    """What one step wants done; see the top of this file for the order."""

    __slots__ = ("accepted", "calls", "deadline_ns", "events", "transmits")

    def __init__(self) -> None:
        self.accepted = 0
        """How many of the messages that a `Send` or `SendBarrier` offered were taken, from the front."""
        self.events: list[Event] = []
        self.transmits: list[Transmit] = []
        self.calls: list[Call] | None = None
        """None in most steps."""
        self.deadline_ns: int = NEVER

    def deliver(
        self, group: str, view_id: int, sender: ProcessId, number: int, level: int, payloads: list[bytes], size: int
    ) -> None:
        """Deliver messages of one sender, numbered from `number` on; `size` is their bytes together. What continues the
        last event becomes part of it; `group` and `sender` must be the very objects that the events of the group
        name."""
        if self.events:
            last = self.events[-1]
            if (
                isinstance(last, Delivered)
                and last.sender is sender
                and last.level == level
                and not last.private
                and last.number + len(last.payloads) == number
                and last.group is group
            ):
                last.payloads.extend(payloads)
                last.size += size
                return
        self.events.append(Delivered(group, view_id, sender, number, level, payloads, size))

    def call(self, call: Call) -> None:
        """Have a disk or a link do something."""
        if self.calls is None:
            self.calls = []
        self.calls.append(call)
