"""A copy of a replicated object at a participant of a conversation (psync-1989, 4.3).

Operations marked `commuting` are executed at each copy in the order in which they arrive, mostly at once; those marked
`ordered` are executed in one order at all copies, each in the same state (`replicated_operations`).

Whoever has failed holds up the ordered operations of all others until they have removed it by agreement. With
`remove_silent` that is asked for as soon as somebody has not answered through all retries of the filter. A copy that
the others have removed executes nothing more: its calls raise RemovedError. It can come back by running again from the
beginning (`restart_conversation` with `again`): calls that it had made before return what they then returned.
"""

import asyncio
import logging
from collections import deque
from typing import TYPE_CHECKING, Any, Final

from antiphon import UsageError
from antiphon.conversation import Conversation, FilterOptions, Operation, replicated_operations
from antiphon.toolkit.operations import NotAnOperationError, OperationMethod, apply_call, decode_call

if TYPE_CHECKING:
    from antiphon.toolkit.replicated import ReplicatedObject

log: Final = logging.getLogger("antiphon")


class ConversationCopy:
    """One participant's copy. Nobody else may use its conversation."""

    def __init__(
        self,
        target: "ReplicatedObject",
        conversation: Conversation,
        options: FilterOptions | None = None,
        remove_silent: bool = False,
    ) -> None:
        self._remove_silent = remove_silent
        self._watching: asyncio.Task[None] | None = None
        self._former: tuple[deque[asyncio.Future[Any]], deque[asyncio.Future[Any]]] = (deque(), deque())
        """What own calls of a former life came to, which were executed again and not called again."""
        self.conversation = conversation
        self.strays = 0
        self.filter = replicated_operations(conversation, self._execute, options)
        self._target = target
        self._me = conversation.core.me
        self._calls: tuple[deque[asyncio.Future[Any]], deque[asyncio.Future[Any]]] = (deque(), deque())
        """Own calls that were not executed yet, ordered ones and commuting ones, each in the order of the calls."""

    @property
    def place(self) -> Conversation:
        return self.conversation

    async def begin(self) -> None:
        await self.filter.__aenter__()
        self._watching = asyncio.create_task(self._watch())

    async def _watch(self) -> None:
        """Ask for the removal of who is silent, and end the calls that wait when this copy takes no more part."""
        try:
            while True:
                await self.filter.changed()
                for name in self._silent() if self._remove_silent else ():
                    self.conversation.remove(name)
        except Exception as error:
            for call in (*self._calls[False], *self._calls[True]):
                if not call.done():
                    call.set_exception(error)

    def _silent(self) -> list[str]:
        """Who is to be removed for its silence: nobody, if no majority can be heard. Then it is this copy that is cut
        off, and its votes, which the others may well hear, would leave none of them to decide anything."""
        silent = self.filter.laggards()
        present = len(self.conversation.participants) - len(self.conversation.removed)
        return silent if 2 * len(silent) < present else []

    async def finish(self) -> None:
        if self._watching is not None:
            self._watching.cancel()
        await self.filter.close()
        for call in (*self._calls[False], *self._calls[True]):
            call.cancel()

    async def settled(self, timeout_s: float | None) -> None:
        await self.filter.settled(timeout_s)

    async def catch_up(self, consistency: str) -> None:
        raise UsageError("in a conversation the copies are read as they are; `catch_up` is for objects in groups")

    def laggards(self) -> list[str]:
        return self.filter.laggards()

    async def call(self, method: OperationMethod[Any, Any, Any], payload: bytes) -> Any:
        await self.filter.room()
        if self.filter.offer(payload, method.commutes):
            result = self._apply(payload)  # before another message is received
            await self.filter.give_way()
            return result
        if self._former[method.commutes]:
            return await self._former[method.commutes].popleft()  # as it was called then
        call: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._calls[method.commutes].append(call)
        return await call

    def _execute(self, operation: Operation) -> None:
        call: asyncio.Future[Any] | None = None
        if operation.sender == self._me:
            if self._calls[operation.commutes]:
                call = self._calls[operation.commutes].popleft()
            else:  # of a former life
                call = asyncio.get_running_loop().create_future()
                self._former[operation.commutes].append(call)
        try:
            result = self._apply(operation.payload)
        except Exception as error:
            if call is None or call.done():
                log.debug("an operation of participant %d: %s", operation.sender, error)
            else:
                call.set_exception(error)
            return
        if call is not None and not call.done():
            call.set_result(result)

    def _apply(self, payload: bytes) -> Any:
        try:
            return apply_call(self._target, decode_call(payload))
        except NotAnOperationError:
            self.strays += 1
            return None
