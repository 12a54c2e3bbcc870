"""Whom the driver tells what the engine says: a member of a group, a role on a stack, and whoever counts."""

from typing import Protocol

from antiphon.kernel.effects import (
    AskApplication,
    BarrierReached,
    Delivered,
    Ended,
    Event,
    Installed,
    Sent,
    Transitional,
)
from antiphon.kernel.identity import ProcessId
from antiphon.runtime.outbox import Outbox


class GroupHandler(Protocol):
    """This process as a member of one group: what the driver tells it."""

    def _install(self, event: Installed) -> None:
        """The group has a new view."""

    def _deliver(self, event: Delivered) -> None:
        """Messages for the application."""

    def _reach(self, event: BarrierReached) -> None:
        """A barrier for the application."""

    def _send_queue(self) -> Outbox:
        """What the application has called for and the engine has not taken, in the order of the calls."""

    def _unblock(self) -> None:
        """The engine takes messages again."""

    def _stall(self) -> None:
        """The group stands still for want of a majority."""

    def _transit(self, event: Transitional) -> None:
        """The view ends for these members together."""

    def _ask(self, event: AskApplication, now_ns: int) -> None:
        """A question of the stack for the application."""

    def _part(self, event: Ended) -> None:
        """This process is no longer a member; nothing more will be told but `end`."""

    def _lapse(self) -> None:
        """This incarnation is over; the next will join again when `return_to` says that all was read."""

    @property
    def is_closed(self) -> bool:
        """Whether the application is done with this group."""

    def outstanding(self) -> int:
        """What was sent here and is not yet known to be everywhere."""

    def _end(self, error: Exception | None) -> None:
        """It is over: by `close`, or by an error."""


class RoleHandler(Protocol):
    """What this process does on one stack beside groups: what the driver tells it."""

    def take(self, event: Event) -> None:
        """Something has happened to the role, or to something that it takes part in."""

    def end(self, error: Exception | None) -> None:
        """It is over: by `close`, by an error, or because this incarnation is."""


class DriverMeter(Protocol):
    """Whoever counts what happens in the groups of one process (observe/meter.py)."""

    def sent(self, event: Sent, now_ns: int) -> None:
        """Messages have left."""

    def delivered(self, event: Delivered, process: ProcessId, now_ns: int) -> None:
        """Messages were handed to `process`, which is this one."""

    def membership(self, event: Event) -> None:
        """Something has happened to a membership."""
