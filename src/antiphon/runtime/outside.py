"""Sending to a group without being in it, on a stack whose groups live at a service that takes such messages.

What is sent so leaves through the send queue that the groups of the node share, so all messages of a process leave in
the order of its calls. A service that refuses what it was sent says so later: the error is raised by the next call for
that group (runtime/connection.py)."""

from collections.abc import Callable, Sequence
from typing import final

from antiphon.kernel.effects import Event, RequestRefused, Writable
from antiphon.kernel.errors import UsageError
from antiphon.kernel.inputs import Send
from antiphon.runtime.driver import Driver
from antiphon.runtime.errors import PublishError
from antiphon.runtime.outbox import Outbox, SendMode
from antiphon.runtime.readers import caller


@final
class OutsideGroup:
    """A group that this process sends to and is not in."""

    def __init__(
        self, driver: Driver, group: str, stack: str, outbox: Outbox, on_over: "Callable[[OutsideGroup], None]"
    ) -> None:
        self.name = group
        self._driver = driver
        self._stack = stack
        self._outbox = outbox
        self._on_over = on_over
        self._lane = outbox.open(self._offer, None if driver.tap is None else self._called)
        self._requests = 0
        self.error: Exception | None = None
        """Why nothing more leaves by this."""
        driver.outside[group] = self

    async def send(self, payloads: Sequence[bytes], mode: SendMode, size: int) -> None:
        """Put messages into the send queue; waits while that is full."""
        await self._outbox.send(self._lane, payloads, mode, size, caller())

    async def drain(self, timeout_s: float) -> bool:
        """Wait until the service has given a place to all that was sent here, or has refused it; whether there was such
        an end to it in time."""
        return await self._driver.settle(self, timeout_s)

    def outstanding(self) -> int:
        """Messages and packets that the service has not acknowledged."""
        if self.error is not None:
            return 0
        return self._lane.messages + self._driver.engine.outstanding_outside(self.name, self._stack)

    @property
    def is_closed(self) -> bool:
        return self.error is not None

    def _offer(self, payloads: list[bytes], mode: SendMode) -> int:
        self._requests += 1
        return self._driver.step(
            Send(group=self.name, payloads=payloads, level=mode.level, stack=self._stack, request=self._requests)
        )

    def _called(self, payloads: Sequence[bytes], mode: SendMode, size: int) -> None:
        self._driver.record_call(self.name, payloads, mode.level, (), size, False, mode.label)

    # What the driver tells.

    def take(self, event: Event) -> None:
        if isinstance(event, Writable):
            self._outbox.unblock(self._lane)
        elif isinstance(event, RequestRefused):
            self.end(PublishError(self.name, event.reason))

    def end(self, error: Exception | None) -> None:
        """Nothing more leaves; None: because the node was closed, or the group is joined."""
        if self.error is None:
            self.error = error or UsageError(f"nothing more is sent to group {self.name!r} from outside")
            self._outbox.close(self._lane, self.error)
            self._outbox.discard(self._lane)
            if self._driver.outside.get(self.name) is self:
                del self._driver.outside[self.name]
            self._on_over(self)
