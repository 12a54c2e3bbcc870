"""What an observer may ask of a running node. All of it reads; only `attach` changes something: who is told."""

from dataclasses import dataclass
from typing import final

from antiphon.kernel.effects import NEVER
from antiphon.kernel.identity import ProcessId
from antiphon.parts.member import PeerState
from antiphon.runtime.driver import Driver
from antiphon.runtime.group import Group
from antiphon.runtime.handlers import DriverMeter
from antiphon.runtime.node import Node


@dataclass(frozen=True, slots=True)
class GroupQueues:
    """What waits in one group, on its way out and on its way in."""

    outbox_messages: int
    """Messages that the application has sent and the engine has not accepted."""
    send_waits: int
    """How many calls have had to wait for room since the group was joined."""
    sends_waiting: int
    """Calls that wait for room now."""
    unread_messages: int
    """Messages that were delivered and that the application has not read."""
    is_paused: bool
    """Whether the application is so far behind that nothing more is delivered, so that senders wait."""


@final
class NodeInspection:
    """One node, from outside."""

    def __init__(self, node: Node) -> None:
        self.node = node

    @property
    def process(self) -> ProcessId:
        return self.node.process

    @property
    def groups(self) -> dict[str, Group]:
        """The groups that this process is in, or asks to be let into."""
        return self.node._groups

    @property
    def driver(self) -> Driver | None:
        """What drives the node's engine, once it was started."""
        return self.node._driver

    def dead_because(self) -> str:
        """Why the node does not run; "" if it does."""
        driver = self.driver
        if driver is None:
            return "the node has not been started"
        if driver.error is not None:
            return str(driver.error)
        return "the node was closed" if driver.is_stopped else ""

    def overdue_ns(self) -> int:
        """For how long the engine has waited to be told that its deadline has passed; 0 if it has not passed."""
        driver = self.driver
        if driver is None or driver._deadline_ns == NEVER:
            return 0
        return max(0, driver.clock.now_ns() - driver._deadline_ns)

    def attach(self, meter: DriverMeter | None) -> None:
        """Have `meter` told what happens, from now on and through all lives of the process; None: nobody."""
        driver = self.driver
        if driver is not None:
            driver.meter = meter

    async def until_stable(self, group: str) -> None:
        """Wait until all members have what was sent to a group from here until now. Raises ClosedError at its end."""
        driver = self.driver
        if driver is not None:
            await driver._waiting.flush(driver.engine, [group], 0, own=True)

    def peers(self, group: str) -> list[PeerState]:
        """What is known of each other member of a group's view."""
        driver = self.driver
        return [] if driver is None else driver.engine.peers(group, driver.clock.now_ns())

    def statistics_of(self, group: str) -> dict[str, int]:
        """The engine's counters of one group."""
        return {} if self.driver is None else self.driver.engine.group_statistics(group)

    def dropped(self) -> dict[str, int]:
        """Packets that the engine found to be no good, by reason."""
        return {} if self.driver is None else self.driver.engine.dropped()

    def held(self, group: str) -> int:
        """Packets that have arrived and wait for their place."""
        driver = self.driver
        return driver.engine.held(group) if driver is not None and driver.engine.is_member(group) else 0

    def socket_statistics(self) -> dict[str, int]:
        """Counters of the socket, and of what seals its packets."""
        driver = self.driver
        return {} if driver is None or driver.transport is None else driver.transport.statistics()

    @staticmethod
    def named(group: Group) -> tuple[str, ...]:
        """The members that were named at `join`, where views may part."""
        return group._named

    @staticmethod
    def queues(group: Group) -> GroupQueues:
        """What waits in a group."""
        outbox, lane = group._outbox, group._lane
        return GroupQueues(
            outbox_messages=lane.messages,
            send_waits=lane.waits,
            sends_waiting=outbox.waiting(lane),
            unread_messages=group.unread,
            is_paused=group._stream.is_full,
        )
