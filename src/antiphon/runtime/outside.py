"""Sending to a group without being in it: on a stack whose groups live at a service that takes such messages, or on one
whose members do (`ReachedGroup`, made by `Node.reach`).

What is sent so leaves through the send queue that the groups of the node share, so all messages of a process leave in
the order of its calls. A service that refuses what it was sent says so later: the error is raised by the next call for
that group (runtime/connection.py)."""

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from typing import final

from antiphon.kernel.effects import Event, Reached, RequestRefused, Sent, Writable
from antiphon.kernel.errors import UsageError
from antiphon.kernel.identity import View
from antiphon.kernel.inputs import Send, Unreach
from antiphon.kernel.levels import LEVELS, Order
from antiphon.runtime.arguments import Destinations, check_destinations, check_order_and_label, check_seconds
from antiphon.runtime.driver import Driver
from antiphon.runtime.errors import PublishError
from antiphon.runtime.outbox import Outbox, SendMode, measure
from antiphon.runtime.readers import caller
from antiphon.stacks.registry import offer


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
        self.view = View(0, ())
        """The members, as far as is known, where the stack tells them."""
        self.reached = asyncio.Event()
        """Set when they are known, or nothing more leaves."""
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
            Send(
                group=self.name,
                payloads=payloads,
                level=mode.level,
                destinations=mode.destinations,
                label=mode.label if mode.label is not None and offer(self._stack).labels else "",
                stack=self._stack,
                request=self._requests,
            )
        )

    def _called(self, payloads: Sequence[bytes], mode: SendMode, size: int) -> None:
        self._driver.record_call(self.name, payloads, mode.level, mode.destinations, size, False, mode.label)

    # What the driver tells.

    def take(self, event: Event) -> None:
        if isinstance(event, Writable):
            self._outbox.unblock(self._lane)
        elif isinstance(event, RequestRefused):
            self.end(PublishError(self.name, event.reason))
        elif isinstance(event, Reached):
            self.view = event.view
            self.reached.set()
        elif isinstance(event, Sent) and self._driver.tap is not None:
            recorder = self._driver.tap.recorder
            self._driver.guard(partial(recorder.depart, event, self._driver.clock.now_ns()))

    def end(self, error: Exception | None) -> None:
        """Nothing more leaves; None: because the node was closed, or the group is joined."""
        if self.error is None:
            self.error = error or UsageError(f"nothing more is sent to group {self.name!r} from outside")
            self._outbox.close(self._lane, self.error)
            self._outbox.discard(self._lane)
            self.reached.set()
            if self._driver.outside.get(self.name) is self:
                del self._driver.outside[self.name]
            self._on_over(self)


class ReachedGroup:
    """A group that this process sends to and is not in (isis-1987, 3.6); made by `Node.reach`.

    Messages are handed to one member, which multicasts them in this process's place. Each is delivered once, in one
    view, by all its destinations or by none, however often members fail or the view changes on the way; and those of
    one sender in the order of the calls, as far as their level asks for that. What members know of a sender from
    outside ends with its process: it has no view, gets no messages, and if it fails what it had handed in still counts.
    """

    def __init__(self, driver: Driver, sender: OutsideGroup, stack: str, message_bytes_max: int) -> None:
        self._driver = driver
        self._sender = sender
        self._message_bytes_max = message_bytes_max
        self.stack = stack
        self._offered = offer(stack)

    def __repr__(self) -> str:
        return f"<ReachedGroup {self.name!r} on stack {self.stack!r}, {self.view}>"

    @property
    def name(self) -> str:
        return self._sender.name

    @property
    def view(self) -> View:
        """The members, as far as this process knows: the view may be an old one."""
        return self._sender.view

    @property
    def message_bytes_max(self) -> int:
        """The longest message that `send` takes."""
        return self._message_bytes_max

    @property
    def is_closed(self) -> bool:
        """Whether nothing more can be sent by this."""
        return self._sender.is_closed

    async def send(
        self, payload: bytes, *, order: Order = "causal", to: Destinations = None, label: str | None = None
    ) -> None:
        """Multicast to all members, or to those in `to` alone, at any level of the stack; see `antiphon.Group.send`.

        Returns when the message is accepted here: at once, unless many are on their way. `to` names members of `view`;
        one that is gone when the message is multicast is as good as served. Comparisons of labels are for members.
        Raises PublishError if the group has forgotten this sender, after long silence, while something was under way.
        """
        check_order_and_label(self._offered, order, label, outside=True)
        destinations = () if to is None else check_destinations(to, self._offered.subsets)
        for member in destinations:
            if self.view.rank(member) < 0:
                raise UsageError(f"{member} is no member of group {self.name!r}, as far as is known: {self.view}")
        if self._sender.error is not None:
            raise self._sender.error
        size = measure((payload,), self._message_bytes_max)
        await self._sender.send((payload,), SendMode(LEVELS[order], destinations, label=label), size)

    async def flush(self, *, timeout_s: float = 10.0) -> None:
        """Wait until all that was sent by this is delivered at all its destinations. Raises TimeoutError."""
        check_seconds("timeout_s", timeout_s)
        if not await self._sender.drain(timeout_s):
            raise TimeoutError(f"after {timeout_s:g} s not all that was sent to group {self.name!r} is delivered")
        if isinstance(self._sender.error, PublishError):
            raise self._sender.error

    async def close(self, *, timeout_s: float = 5.0) -> bool:
        """Send no more, and wait until what was sent is delivered, at most `timeout_s`; whether it is."""
        check_seconds("timeout_s", timeout_s)
        if self._sender.is_closed:
            return False
        settled = await self._sender.drain(timeout_s)
        self._abandon()
        return settled

    def _abandon(self) -> None:
        if not self._sender.is_closed:
            self._sender.end(None)
            self._driver.ask(Unreach(stack=self.stack, group=self.name))
