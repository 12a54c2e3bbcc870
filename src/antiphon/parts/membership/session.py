"""What membership asks of one view of one group, as one member lives through it; each stack has its own.

A view ends in four steps. `freeze`: nothing more is sent or taken in, so what `holdings` says stays true. `close_at`: a
cut is proposed, and what is missing of it here is fetched and set aside. `is_complete`: the whole of it is here.
`finish_cut`: it is decided, and what remains is delivered. Between the second and the fourth another cut may take the
place of the first; so nothing that was fetched may be delivered before the last.
"""

from collections import deque

from antiphon.kernel.codec import stamp_of, view_tag
from antiphon.kernel.effects import BarrierReached, Effects, Route, Sent
from antiphon.kernel.errors import UsageError
from antiphon.kernel.identity import ProcessId, View, wire_id
from antiphon.kernel.levels import SAFE
from antiphon.kernel.options import Options
from antiphon.parts.membership.messages import BarrierBody
from antiphon.parts.pending import PendingQueue
from antiphon.parts.ranges import Ranges


def route_to_others(view: View, me: int) -> Route:
    """The way to all members of a view but the one with the rank `me`."""
    return Route(
        view.members[:me] + view.members[me + 1 :], view.addresses[:me] + view.addresses[me + 1 :], is_multicast=True
    )


class ViewEnd:
    """How one view ends for one member: which packets still count."""

    __slots__ = ("barrier", "frozen")

    def __init__(self) -> None:
        self.frozen = False
        self.barrier: tuple[int, bytes] | None = None
        """The own barrier that this view must end with: number and payload."""

    def freeze(self) -> None:
        """Send no more, take in no more."""
        self.frozen = True

    def annex(self) -> bytes:
        """What the stack adds to this member's word on the end of the view; membership only carries it."""
        return b""

    def merge_annexes(self, annexes: list[bytes]) -> bytes:
        """What the next view is given of the members' annexes, by rank."""
        return b""

    def is_annex(self, annex: bytes) -> bool:
        """Whether a member, or a proposal, can carry this annex."""
        return not annex

    def take_annex(self, annex: bytes) -> None:
        """This is what was agreed on of the members' annexes; `finish_cut` follows."""

    def holdings(self) -> list[Ranges]:
        """The packets of each member that have come in here, or that I have sent."""
        raise NotImplementedError

    def is_genuine(self, holdings: list[Ranges]) -> bool:
        """Whether members of this view can hold these packets."""
        raise NotImplementedError

    def close_at(self, cut: list[Ranges], sources: list[int], now_ns: int) -> None:
        """The view may end with these packets; the members with ranks `sources` hold them between them."""
        raise NotImplementedError

    def sent(self) -> int:
        """How many packets this member has sent in this view."""
        return 0

    def received_by(self, rank: int) -> int:
        """How many of them this member says that it has, paused or not."""
        return 0

    def has_former_life(self, now_ns: int) -> bool:
        """Whether this member was in the view before, and has forgotten it (parts/former_life.py)."""
        return False

    def is_complete(self) -> bool:
        """Whether a cut is known and the whole of it is here."""
        raise NotImplementedError


class Session:
    """One member in one view."""

    __slots__ = (
        "_me",
        "_options",
        "_own",
        "_pending",
        "_routes",
        "end",
        "everyone",
        "group",
        "group_id",
        "paused",
        "stamp",
        "tag",
        "view",
    )

    end: ViewEnd
    """How the view ends; the `__init__` of a stack's own session sets it."""

    def __init__(
        self,
        stack: int,
        group: str,
        process: ProcessId,
        view: View,
        pending: PendingQueue,
        options: Options,
        declared: int,
        order_bytes: int,
    ) -> None:
        """`declared`: the id of the group's declaration. `order_bytes`: what a packet needs beside its messages; that
        may take half of it at most."""
        me = view.rank(process)
        if me < 0:
            raise UsageError(f"{process} is not a member of the view that it was given for group {group!r}: {view}")
        if 2 * order_bytes > options.packet_bytes_max:
            raise UsageError(
                f"a group of {len(view.members)} members needs a packet_bytes_max of at least {2 * order_bytes} "
                f"bytes, not {options.packet_bytes_max}"
            )
        self.group = group
        self.group_id = wire_id(group)
        self.view = view
        self._me = me
        self._options = options
        self._pending = pending
        """What was accepted and has not left."""
        self._own: deque[tuple[int, int]] = deque()
        """Own packets with messages that are not stable, each with the last message that is complete with it."""
        self.everyone = route_to_others(view, me)
        """The way to all other members."""
        self._routes: dict[int, Route] = {}
        self.stamp = stamp_of(stack, view.version, options.sealed)
        """The stack and the version of its packets."""
        self.tag = view_tag(view, options, declared)
        """What packets of this view are known by."""
        self.paused = False
        """Whether the application has stopped to read: then nothing is delivered."""

    def route(self, rank: int) -> Route:
        """The way to the member with this rank."""
        route = self._routes.get(rank)
        if route is None:
            addresses = self.view.addresses
            route = Route((self.view.members[rank],), (addresses[rank],) if addresses else ())
            self._routes[rank] = route
        return route

    def _has_barrier(self, message: int) -> bool:
        """Return whether an own barrier with this number, or a lower one, waits for the view to end."""
        return self.end.barrier is not None and self.end.barrier[0] <= message

    def _last_own(self, message: int) -> int:
        """Return the last own packet that is not stable and whose messages all have this number or a lower one."""
        last = 0
        for number, last_message in self._own:
            if last_message > message:
                break
            last = number
        return last

    def _take_barrier(self, effects: Effects) -> None:
        """The next of what waits to leave is a barrier: nothing leaves before the view has ended with it."""
        number, payload = self._pending.take_message()
        self.end.barrier = (number, payload)
        effects.events.append(Sent(self.group, self.view.id, number, 1, SAFE, len(payload), (), True))

    def _deliver_barriers(self, barriers: list[BarrierBody], effects: Effects) -> None:
        """The last that the application is handed of a view."""
        for rank, number, payload in barriers:
            sender = self.view.members[rank]
            effects.events.append(BarrierReached(self.group, self.view.id, sender, number, payload))

    def pause(self) -> None:
        """Deliver nothing until `resume`."""
        self.paused = True

    def resume(self, effects: Effects, now_ns: int) -> None:
        """Deliver again; `finish` follows in the same step, and hands on what has gathered meanwhile."""
        self.paused = False

    def receive(
        self, kind: int, sender: int, flags: int, level: int, data: bytes, effects: Effects, now_ns: int
    ) -> None:
        """One packet of this view. Raises MalformedError, before anything has changed."""
        raise NotImplementedError

    def answer_late(self, kind: int, sender: int, data: bytes, effects: Effects, now_ns: int) -> None:
        """The view is over here, but not for this member: it may lack packets of the cut. Raises MalformedError."""
        raise NotImplementedError

    def deadline_ns(self) -> int:
        raise NotImplementedError

    def tick(self, effects: Effects, now_ns: int) -> None:
        raise NotImplementedError

    def finish(self, effects: Effects, now_ns: int) -> None:
        """At the end of a step: deliver what may be delivered now, send what may leave."""
        raise NotImplementedError

    def collect(self, effects: Effects) -> None:
        """What is to be transmitted."""
        raise NotImplementedError

    def finish_cut(self, barriers: list[BarrierBody], effects: Effects, now_ns: int) -> bool:
        """The whole cut is here, and all agree on it: hand on what is left of the view, then the barriers. False while
        other groups have to come first."""
        raise NotImplementedError

    def outstanding(self) -> int:
        """Own packets not yet stable or not yet delivered here."""
        raise NotImplementedError

    def held(self) -> int:
        """Packets of others that are held back here."""
        return 0

    def known(self) -> list[int]:
        """By rank, the packets that happened here before whatever is sent next."""
        raise NotImplementedError

    def is_stable(self, known: list[int], copies: int) -> bool:
        """Whether these packets, by rank, are at so many members beside their sender; 0: delivered at all, as far as
        the stack can tell."""
        raise NotImplementedError

    def are_own_stable(self, message: int, copies: int) -> bool:
        """Whether own messages of this view up to this number are at so many other members; 0: delivered at all, as
        far as the stack can tell."""
        raise NotImplementedError

    def statistics(self) -> dict[str, int]:
        raise NotImplementedError

    def situations(self) -> list[int]:
        """How often this view has been in each situation that its stack names, in that order."""
        return []
