"""Filters over a conversation that runs: what the library of `stacks.conversation` does, with a clock and a network.

    async with ordered_broadcast(conversation, handle) as broadcast:            # psync-1989, 4.2
        await broadcast.room()
        broadcast.machine.offer(b"…")
        broadcast.soon()

A filter owns its conversation: nobody else receives from it or sends to it meanwhile. Whenever something has come, and
at the filter's own deadlines, it takes a *turn*: receives, sends, acknowledges, and hands out what may be handed out,
by calling `handle` for each. Who has offered something asks for a turn: `soon`, when all that is ready to run has run,
so that what several tasks offer goes out together; or `turn`, at once.
"""

import asyncio
from collections.abc import Callable
from types import TracebackType
from typing import Final, Generic, Protocol, Self, TypeVar

from antiphon.kernel.effects import NEVER
from antiphon.kernel.errors import ClosedError
from antiphon.kernel.options import MILLISECOND_NS
from antiphon.parts.message_graph import GraphNode as Handle
from antiphon.runtime.conversations import Conversation, ConversationTimeoutError
from antiphon.stacks.conversation.library.broadcast import OrderedBroadcast
from antiphon.stacks.conversation.library.circuit import Circuit
from antiphon.stacks.conversation.library.filter_base import FilterOptions
from antiphon.stacks.conversation.library.operations import Operation, Operations
from antiphon.stacks.conversation.library.stable import ALL, SUCCESS, WAITING, StableSend, majority

T = TypeVar("T")
MachineT = TypeVar("MachineT", bound="Machine")
IN_A_ROW_MAX: Final = 512
"""Operations that one task may have executed at once before others get to run."""


class Machine(Protocol):
    """A filter that never waits."""

    def begin(self) -> None: ...
    def may_offer(self) -> bool: ...
    def outstanding(self) -> int: ...
    def laggards(self) -> list[int]: ...
    def deadline_ns(self) -> int: ...


class ConversationFilter(Generic[MachineT, T]):
    """One participant's end of a filtered conversation."""

    def __init__(
        self,
        conversation: Conversation,
        machine: MachineT,
        poll: Callable[[int], list[T]],
        handle: Callable[[T], None],
    ) -> None:
        self.conversation = conversation
        self.machine = machine
        self._poll = poll
        self._handle = handle
        self._clock = conversation.clock
        self._task: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._timer_ns = NEVER
        self._is_soon = False
        self._in_a_row = 0
        self._error: Exception | None = None

    def __repr__(self) -> str:
        return f"<ConversationFilter, {type(self.machine).__name__} on {self.conversation!r}>"

    async def __aenter__(self) -> Self:
        self.machine.begin()
        self.turn()
        self._task = asyncio.create_task(self._run())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Take no more turns. The conversation itself stays as it is."""
        self._error = self._error or ClosedError("this end of the conversation was closed")
        if self._timer is not None:
            self._timer.cancel()
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    def turn(self) -> None:
        """Receive, send and hand out what there is."""
        self._check()
        for one in self._poll(self._clock.now_ns()):
            self._handle(one)
        self.conversation.flush()
        self._arm()

    def soon(self) -> None:
        """Take a turn when all that is ready to run has run."""
        self._check()
        if not self._is_soon:
            self._is_soon = True
            asyncio.get_running_loop().call_soon(self._turn_now)

    def _turn_now(self) -> None:
        self._is_soon = False
        if self._error is None:
            try:
                self.turn()
            except Exception as error:
                self._fail(error)

    async def give_way(self) -> None:
        """For whoever offered something that was done at once: a turn soon, and now and then a pause for others."""
        self.soon()
        self._in_a_row += 1
        if self._in_a_row >= IN_A_ROW_MAX:
            self._in_a_row = 0
            await asyncio.sleep(0)

    async def room(self) -> None:
        """Wait until something may be offered."""
        self._check()
        while not self.machine.may_offer():
            await self.changed()

    async def changed(self) -> None:
        """Wait until something has happened."""
        self._check()
        await self.conversation.changed()
        self._check()

    async def settled(self, timeout_s: float | None = None) -> None:
        """Wait until everybody has all that was offered here. Raises ConversationTimeoutError."""
        try:
            async with asyncio.timeout(timeout_s):
                while self.machine.outstanding():
                    await self.changed()
        except TimeoutError:
            assert timeout_s is not None
            raise ConversationTimeoutError("not everybody has acknowledged everything", timeout_s) from None

    def laggards(self) -> list[str]:
        """Who has not acknowledged anything for so long that all tries were in vain: perhaps somebody to mask out."""
        return [self.conversation.participants[rank] for rank in self.machine.laggards()]

    async def _run(self) -> None:
        try:
            while True:
                await self.conversation.changed()
                self.turn()
        except Exception as error:
            self._fail(error)

    def _fail(self, error: Exception) -> None:
        """Whoever uses the filter next is told."""
        self._error = self._error or error
        self.conversation.wake()

    def _arm(self) -> None:
        deadline_ns = self.machine.deadline_ns()
        if deadline_ns >= self._timer_ns:
            return
        if self._timer is not None:
            self._timer.cancel()
        self._timer_ns = deadline_ns
        delay_s = max(0, deadline_ns - self._clock.now_ns()) / 1e9
        self._timer = asyncio.get_running_loop().call_later(delay_s, self._ring)

    def _ring(self) -> None:
        self._timer = None
        self._timer_ns = NEVER
        self.conversation.wake()

    def _check(self) -> None:
        if self._error is not None:
            raise self._error


def replicated_operations(
    conversation: Conversation, execute: Callable[[Operation], None], manner: FilterOptions | None = None
) -> ConversationFilter[Operations, Operation]:
    """Operations on an object that every participant has a copy of; some commute (4.3)."""
    leisurely = FilterOptions(window=128, ack_every=16, ack_delay_ns=5 * MILLISECOND_NS)
    machine = Operations(conversation.core, manner or leisurely, forgets=not conversation.keeps)
    return ConversationFilter(conversation, machine, machine.poll, execute)


def ordered_broadcast(
    conversation: Conversation, handle: Callable[[tuple[Handle, bytes]], None], manner: FilterOptions | None = None
) -> ConversationFilter[OrderedBroadcast, tuple[Handle, bytes]]:
    """All messages, in one order at all participants (4.2)."""
    machine = OrderedBroadcast(conversation.core, manner or FilterOptions(window=128), forgets=not conversation.keeps)
    return ConversationFilter(conversation, machine, machine.poll, handle)


def virtual_circuit(
    conversation: Conversation, handle: Callable[[tuple[Handle, bytes]], None], manner: FilterOptions | None = None
) -> ConversationFilter[Circuit, tuple[Handle, bytes]]:
    """Streams in both directions, with a window (4.1)."""
    machine = Circuit(conversation.core, manner or FilterOptions(window=128))
    return ConversationFilter(conversation, machine, machine.poll, handle)


async def send_stable(
    conversation: Conversation, payload: bytes, *, tries: int = 5, timeout_s: float = 0.5, quorum: bool = False
) -> tuple[Handle, bool, list[tuple[Handle, bytes]]]:
    """Send, and wait until everybody has it, or a majority (Figure 6, 3.4).

    The message, whether that succeeded, and what the others have said meanwhile.
    """
    wanted = majority(len(conversation.participants)) if quorum else ALL
    while not conversation.core.may_send():
        await conversation.changed()
    now_ns = conversation.clock.now_ns
    sending = StableSend(
        conversation.core, payload, now_ns(), tries=tries, timeout_ns=int(timeout_s * 1e9), participants=wanted
    )
    conversation.flush()
    while sending.outcome == WAITING:
        await conversation.changed(max(0, sending.deadline_ns() - now_ns()) / 1e9)
        sending.poll(now_ns())
        conversation.flush()
    return sending.node, sending.outcome == SUCCESS, sending.received
