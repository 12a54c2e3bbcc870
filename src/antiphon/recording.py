"""What a process did, as rows of its log: one way of recording for the runtime and the simulator.

A send is recorded when the application calls, in the order of all its calls over all groups, and a delivery when the
application is handed it. A sender numbers its messages to a group 1, 2, 3… in the order of the calls, and the engine
numbers them as it accepts them, in the same order: so the number is known at the call, by counting. When a message
leaves, the engine tells, with its number and the view. Messages that leave without a call on record are recorded as
they leave: those that a former incarnation left behind, and those that leave at the call.

What a process does beside groups is recorded under a name of its own (`RoleOpened`). Its one view row names the process
alone: whoever has such a row takes part.

Beside level and size a row may have a digest of each payload, so that what was handed over can be compared with what
was sent (`Options.record_digests`); and a delivery says whether it was private, so that it can be judged without the
sender's log.

The history stands on pyarrow, which takes longer to load than all the rest: only who records loads it.
"""

from array import array
from collections.abc import Sequence
from sys import byteorder
from typing import TYPE_CHECKING, Final, final
from zlib import crc32

from antiphon.kernel.effects import (
    BarrierReached,
    Delivered,
    Event,
    Received,
    RoleClosed,
    RoleOpened,
    Sent,
    Suspected,
)
from antiphon.kernel.identity import ProcessId, View
from antiphon.kernel.levels import LEVEL_NAMES, SAFE
from antiphon.kernel.policies import STATIC
from antiphon.stacks.registry import offer
from antiphon.stacks.stack import CAUSALITY_DOMAIN, GROUP

if TYPE_CHECKING:
    from antiphon.history.log import Log

ROLE_VIEW: Final = 1
"""The id of the one view of what is no group."""
CAUSAL: Final = "causal"
"""The guarantee whose scope the start row tells."""


def digest_of(payloads: Sequence[bytes]) -> str:
    """Eight hexadecimal digits per payload."""
    if len(payloads) == 1:
        return f"{crc32(payloads[0]):08x}"
    digests = array("I", map(crc32, payloads))
    if byteorder == "little":
        digests.byteswap()
    return digests.tobytes().hex()


@final
class ProcessRecorder:
    """Writes what one process incarnation does into its log."""

    def __init__(self, log: "Log", digests: bool = True) -> None:
        from antiphon.history.schema import BARRIER, LEAVES, LEFT, READS_APART, RECOVERS, STALLED, UNTOLD

        self._barrier = BARRIER
        self._leaves = LEAVES
        self._left = LEFT
        self._reads_apart = READS_APART
        self._recovers = RECOVERS
        self._stalled = STALLED
        self._untold = UNTOLD
        self._log = log
        self._digests = digests
        """Whether rows have digests: they cost time in proportion to what is sent and handed over."""
        self._own = (f"{log.process}/{log.incarnation}",)
        self._called: dict[str, int] = {}
        """The number of the last message that the application called for, by group."""

    def start(self, group: str, stack: str, policy: str, domain: str, time_ns: int) -> None:
        """The process is in a group from here on, and held to what its stack promises; `domain` is the causality
        domain."""
        offers = offer(stack)
        promises = offers.promises(policy)
        scope = offers.scope(CAUSAL) if CAUSAL in promises else GROUP
        named = domain if scope == CAUSALITY_DOMAIN else None
        self._log.start(time_ns, group, stack, policy, offers.levels, promises, scope, named)

    def view(self, group: str, view: View, time_ns: int) -> None:
        self._log.view(time_ns, group, view.id, [member.full for member in view.members])

    def role(self, event: Event, time_ns: int) -> None:
        """Record what the engine tells of a role of this process, as the application is told of it."""
        if isinstance(event, Delivered):
            self.deliver_event(event, time_ns)
        elif isinstance(event, Sent):
            self.depart(event, time_ns)
        elif isinstance(event, RoleOpened):
            self.open_role(event.group, event.stack, event.promises, None, ROLE_VIEW, time_ns)
        elif isinstance(event, RoleClosed):
            self.left(event.group, time_ns)

    def open_role(
        self, name: str, stack: str, promises: tuple[str, ...], domain: str | None, view_id: int, time_ns: int
    ) -> None:
        """The process takes part in something beside groups, and is held to these promises there. `domain`: what has
        the same one is in causal order together; None: its messages are, among themselves."""
        scope = GROUP if domain is None else CAUSALITY_DOMAIN
        self._log.start(time_ns, name, stack, STATIC, offer(stack).levels, promises, scope, domain)
        self._log.view(time_ns, name, view_id, self._own)

    def suspect(self, event: Suspected, time_ns: int) -> None:
        self._log.suspect(time_ns, event.group, event.view_id, event.process.full)

    def transitional(self, group: str, view_id: int, members: Sequence[ProcessId], time_ns: int) -> None:
        """The view ends for these members together; what follows in it is delivered among them alone."""
        self._log.transitional(time_ns, group, view_id, [member.full for member in members])

    def leaves(self, group: str, time_ns: int) -> None:
        """The process announces that it leaves; the audit counts it among those that agree to the next view."""
        self._log.note(time_ns, self._leaves, group)

    def left(self, group: str, time_ns: int) -> None:
        """The process is out of this group: nothing more is owed to it there."""
        self._log.note(time_ns, self._left, group)

    def reads_apart(self, time_ns: int) -> None:
        """From here on the application may be handed events of one group before earlier ones of another."""
        self._log.note(time_ns, self._reads_apart)

    def recovers(self, group: str, time_ns: int) -> None:
        """Somebody has said that the group may go on here without a majority."""
        self._log.note(time_ns, self._recovers, group)

    def untold(self, group: str, time_ns: int) -> None:
        """The process was in views of this group of which the application was not told."""
        self._log.note(time_ns, self._untold, group)

    def stalled(self, group: str, time_ns: int) -> None:
        """The group stands still until its next view: what is called for there waits, and holds up no other group."""
        self._log.note(time_ns, self._stalled, group)

    def note(self, text: str, time_ns: int) -> None:
        self._log.note(time_ns, text)

    def call(
        self,
        group: str,
        payloads: Sequence[bytes],
        level: int,
        destinations: tuple[ProcessId, ...],
        size: int,
        time_ns: int,
        barrier: bool = False,
        label: str | None = None,
    ) -> None:
        """The application calls for these messages, in this order; `size`: their bytes together."""
        number = self._called.get(group, 0) + 1
        self._called[group] = number + len(payloads) - 1
        self._log.send(
            time_ns,
            group,
            None,
            number,
            len(payloads),
            LEVEL_NAMES[level],
            size,
            tuple(process.full for process in destinations) or None,
            self._barrier if barrier else label,
            digest_of(payloads) if self._digests else None,
        )

    def depart(self, event: Sent, time_ns: int) -> None:
        """Messages leave."""
        called = self._called.get(event.group, 0)
        if event.number <= called:
            self._log.depart(time_ns, event.group, event.view_id, event.number, event.count, event.size)
            return
        self._called[event.group] = event.number + event.count - 1
        self._log.send(
            time_ns,
            event.group,
            event.view_id,
            event.number,
            event.count,
            LEVEL_NAMES[event.level],
            event.size,
            tuple(process.full for process in event.destinations) or None,
            self._barrier if event.barrier else None,
            digest_of(event.payloads) if event.payloads is not None and self._digests else None,
        )

    def depart_in_role(self, name: str, view_id: int, number: int, size: int, time_ns: int) -> None:
        """A message of something beside groups leaves; its call is on record."""
        self._log.depart(time_ns, name, view_id, number, 1, size)

    def receive(self, event: Received, time_ns: int) -> None:
        self._log.receive(
            time_ns,
            event.group,
            event.view_id,
            event.sender.name,
            event.sender.incarnation,
            event.number,
            event.count,
            LEVEL_NAMES[event.level],
            event.size,
        )

    def deliver(
        self,
        group: str,
        view_id: int,
        sender: ProcessId,
        number: int,
        count: int,
        level: str,
        payloads: list[bytes],
        first: int,
        size: int,
        private: bool,
        time_ns: int,
    ) -> None:
        """The application is handed `count` messages, in this order: those of `payloads` from `first` on."""
        self._log.deliver(
            time_ns,
            group,
            view_id,
            sender.name,
            sender.incarnation,
            number,
            count,
            level,
            size,
            None,
            self._own if private else None,
            digest_of(payloads[first : first + count]) if self._digests else None,
        )

    def deliver_event(self, event: Delivered, time_ns: int) -> None:
        """The same, where the application is handed what the engine delivers as it comes."""
        level = LEVEL_NAMES[event.level]
        self.deliver(
            event.group,
            event.view_id,
            event.sender,
            event.number,
            len(event.payloads),
            level,
            event.payloads,
            0,
            event.size,
            event.private,
            time_ns,
        )

    def barrier(self, group: str, view_id: int, sender: ProcessId, number: int, payload: bytes, time_ns: int) -> None:
        """The application is told of a barrier."""
        self._log.deliver(
            time_ns,
            group,
            view_id,
            sender.name,
            sender.incarnation,
            number,
            1,
            LEVEL_NAMES[SAFE],
            len(payload),
            self._barrier,
            None,
            digest_of((payload,)) if self._digests else None,
        )

    def barrier_event(self, event: BarrierReached, time_ns: int) -> None:
        """The same, as the engine tells it."""
        self.barrier(event.group, event.view_id, event.sender, event.number, event.payload, time_ns)

    def stop(self, why: str | None, time_ns: int) -> None:
        """The last row. None: the run had healed and went quiet."""
        if why is None:
            self._log.stop(time_ns)
        else:
            self._log.stop(time_ns, why)

    def leave(self, time_ns: int) -> None:
        """The last row: all groups were left in good order."""
        self._log.stop(time_ns, self._left)

    def crash(self, why: str, time_ns: int) -> None:
        """The last row: to the others this process is dead."""
        self._log.crash(time_ns, why)
