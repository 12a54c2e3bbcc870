"""Filters over a conversation: what the library of the stack does (stacks/conversation/library), for applications.

    async with ordered_broadcast(conversation, handle) as broadcast:            # psync-1989, 4.2
        await broadcast.room()
        broadcast.offer(b"…")

A filter owns its conversation: nobody else receives from it or sends to it meanwhile. It runs in the engine. Whenever
something has come, and at the filter's own deadlines, it takes a turn there: receives, sends, acknowledges, and hands
out what may be handed out; `handle` is called for each. What was offered goes out when all that is ready to run has
run, so that what several tasks offer travels together.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any, Final, Generic, Self, TypeVar

from antiphon.conversation.conversation import Conversation, ConversationTimeoutError
from antiphon.kernel.effects import StackEvent
from antiphon.kernel.errors import ClosedError, UsageError
from antiphon.kernel.options import MILLISECOND_NS
from antiphon.parts.message_graph import GraphNode as Handle
from antiphon.stacks.conversation.free.filter_machine import FilterMachine
from antiphon.stacks.conversation.library.broadcast import OrderedBroadcast
from antiphon.stacks.conversation.library.circuit import Circuit
from antiphon.stacks.conversation.library.filter_base import FilterOptions
from antiphon.stacks.conversation.library.filtering import (
    AdoptOffers,
    BeginBroadcast,
    BeginCircuit,
    BeginOperations,
    BeginStableSend,
    EndFilter,
    OfferMessage,
    OfferOperation,
)
from antiphon.stacks.conversation.library.handed_out import FilteredMessages, FilteredOperations, Operation
from antiphon.stacks.conversation.library.operations import Operations
from antiphon.stacks.conversation.library.stable import ALL, SUCCESS, WAITING, majority

T = TypeVar("T")
MachineT = TypeVar("MachineT", bound=FilterMachine)
Begin = BeginBroadcast | BeginCircuit | BeginOperations
IN_A_ROW_MAX: Final = 512
"""Operations that one task may have executed at once before others get to run."""


class ConversationFilter(Generic[MachineT, T]):
    """One participant's end of a filtered conversation."""

    def __init__(self, conversation: Conversation, begin: Begin, handle: Callable[[T], None]) -> None:
        self.conversation = conversation
        self._begin = begin
        self._handle = handle
        self._in_a_row = 0
        self._error: Exception | None = None
        self._pending: deque[T] = deque()
        """What the filter has handed out and `handle` was not called for."""
        self._handling = False

    def __repr__(self) -> str:
        return f"<ConversationFilter, {type(self._begin.machine).__name__} on {self.conversation!r}>"

    @property
    def machine(self) -> MachineT:
        """The filter itself, to look at (stacks/conversation/library); it runs in the engine."""
        if self._begin.machine is None:
            raise UsageError("the filter was not begun; use it as `async with`")
        return self._begin.machine  # type: ignore[return-value]  # each function below pairs the two

    async def __aenter__(self) -> Self:
        self._begin.state, self.conversation.restored_state = self.conversation.restored_state, b""
        self.conversation._on_filtered = self._take
        self.conversation._filter_state = self._state
        self._handling = True  # what comes at once is handled after what the caller does first, as in its first life
        try:
            self.conversation.ask(self._begin)
        finally:
            self._handling = False
        asyncio.get_running_loop().call_soon(self._handle_pending)
        return self

    def _state(self) -> bytes:
        """What a checkpoint holds of the filter."""
        pending: list[Any] = list(self._pending)  # messages; the filter of operations has no state
        return self.machine.state(pending)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Take no more turns. The conversation itself stays as it is."""
        if self._error is None:
            self._fail(ClosedError("this end of the conversation was closed"))
        self.conversation._on_filtered = None
        self.conversation._filter_state = None
        if not self.conversation.is_closed:
            self.conversation.ask(EndFilter(self.conversation.cid))

    def offer(self, payload: bytes, commutes: bool = False) -> bool:
        """Have something sent as soon as the window lets it; wait for `room` first. Of an operation, say whether it
        commutes: if this is True, the caller is to execute it at once, and `handle` will not be called for it."""
        self._check()
        cid = self.conversation.cid
        if not isinstance(self._begin, BeginOperations):
            self.conversation.ask(OfferMessage(cid, payload))
            return False
        request = OfferOperation(cid, payload, commutes)
        self.conversation.ask(request)
        return request.at_once

    def former(self) -> list[bytes]:
        """What was offered here in former lives, after the point at which this participant came back, and has not been
        offered again. A program that runs again offers the same; one that cannot looks here, and calls `adopt`."""
        return [payload for _, payload in self.machine.former()]

    def adopt(self) -> list[bytes]:
        """Take what `former` tells as offered; it is returned."""
        self._check()
        request = AdoptOffers(self.conversation.cid)
        self.conversation.ask(request)
        return [payload for _, payload in request.former]

    async def give_way(self) -> None:
        """Now and then, let others run: for whoever offers much that is done at once."""
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

    def _take(self, event: StackEvent) -> Callable[[], None]:
        """Take what the filter hands out; call what is returned to have it handled."""
        handed_out: Sequence[object] = ()
        if isinstance(event, FilteredMessages):
            handed_out = event.messages
        elif isinstance(event, FilteredOperations):
            handed_out = event.operations
        self._pending.extend(handed_out)  # type: ignore[arg-type]  # each function below pairs the two
        return self._handle_pending

    def _handle_pending(self) -> None:
        """Call `handle` for all that was handed out, one after the other, whatever it does."""
        if self._handling:
            return
        self._handling = True
        try:
            while self._pending and self._error is None:
                self._handle(self._pending.popleft())
        except Exception as error:
            self._fail(error)
        finally:
            self._handling = False

    def _fail(self, error: Exception) -> None:
        """Whoever uses the filter next is told."""
        self._error = self._error or error
        self.conversation._wake()

    def _check(self) -> None:
        if self._error is not None:
            raise self._error
        self.conversation._check()


def replicated_operations(
    conversation: Conversation, execute: Callable[[Operation], None], options: FilterOptions | None = None
) -> ConversationFilter[Operations, Operation]:
    """Operations on an object that every participant has a copy of; some commute (4.3)."""
    leisurely = FilterOptions(window=128, ack_every=16, ack_delay_ns=5 * MILLISECOND_NS)
    return ConversationFilter(conversation, BeginOperations(conversation.cid, options or leisurely), execute)


def ordered_broadcast(
    conversation: Conversation, handle: Callable[[tuple[Handle, bytes]], None], options: FilterOptions | None = None
) -> ConversationFilter[OrderedBroadcast, tuple[Handle, bytes]]:
    """All messages, in one order at all participants (4.2)."""
    begin = BeginBroadcast(conversation.cid, options or FilterOptions(window=128))
    return ConversationFilter(conversation, begin, handle)


def virtual_circuit(
    conversation: Conversation, handle: Callable[[tuple[Handle, bytes]], None], options: FilterOptions | None = None
) -> ConversationFilter[Circuit, tuple[Handle, bytes]]:
    """Streams in both directions, with a window (4.1)."""
    begin = BeginCircuit(conversation.cid, options or FilterOptions(window=128))
    return ConversationFilter(conversation, begin, handle)


async def send_stable(
    conversation: Conversation, payload: bytes, *, tries: int = 5, timeout_s: float = 0.5, quorum: bool = False
) -> tuple[Handle, bool, list[tuple[Handle, bytes]]]:
    """Send, and wait until everybody has it, or a majority (Figure 6, 3.4).

    The message, whether that succeeded, and what the others have said meanwhile.
    """
    wanted = majority(len(conversation.participants)) if quorum else ALL
    while not conversation.core.may_send():
        await conversation.changed()
    begin = BeginStableSend(
        conversation.cid, payload, tries=tries, timeout_ns=int(timeout_s * 1e9), participants=wanted
    )
    conversation.ask(begin)
    sending = begin.machine
    assert sending is not None
    try:
        while sending.outcome == WAITING:
            await conversation.changed()
    finally:
        if not conversation.is_closed:
            conversation.ask(EndFilter(conversation.cid))
    return sending.node, sending.outcome == SUCCESS, sending.received
