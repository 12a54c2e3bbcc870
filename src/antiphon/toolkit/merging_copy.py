"""A copy of a replicated object at a member of a `partitionable` group: components go on apart, and merge.

Within a component all members execute the same operations in the same order. When components merge, the class's
`merge_rule` makes one state of theirs, the same at every member (merging.py). A call returns when it was executed here,
in whichever component this member is then; what becomes of it when components merge is for the rule to say. A pack that
is under way while the view changes is executed after the merge.
"""

import asyncio
import logging
from typing import TYPE_CHECKING, Any, Final

import msgspec

from antiphon import ClosedError, Group, Order, ProcessId, UsageError, log_event
from antiphon.toolkit.merging import Merge, MergingState
from antiphon.toolkit.object_state import adopt, attributes_of, state_type
from antiphon.toolkit.operations import NotAnOperationError, OperationCall, OperationMethod, apply_call

if TYPE_CHECKING:
    from antiphon.toolkit.replicated import ReplicatedObject

CALLS_MAX: Final = 16_384

_ENCODER: Final = msgspec.msgpack.Encoder()
_PACK: Final = msgspec.msgpack.Decoder(tuple[int, list[OperationCall | None]])


class MergingCopy:
    """One member's copy."""

    def __init__(
        self,
        target: "ReplicatedObject",
        group: Group,
        rule: Merge[dict[str, Any]],
        order: Order,
        timeout_s: float,
    ) -> None:
        if order == "causal":
            raise UsageError("in a partitionable group operations are `agreed` or `safe`, so that components are alike")
        self.place = group
        self.strays = 0
        self._target = target
        self._rule = rule
        self._order: Order = order
        self._timeout_s = timeout_s
        self._state: MergingState[dict[str, Any]] | None = None
        self._number = 0
        self._outbox: list[bytes] = []
        self._open: dict[int, asyncio.Future[Any]] = {}
        self._sending: asyncio.Task[None] | None = None
        self._watching: asyncio.Task[None] | None = None

    async def begin(self) -> None:
        self._state = MergingState(
            self.place,
            state_type(self._target),
            attributes_of(self._target),
            self._apply,
            merge=self._merge,
            order=self._order,
        )
        await self._state.__aenter__()
        self._watching = asyncio.create_task(self._watch())

    async def finish(self) -> None:
        for task in (self._sending, self._watching):
            if task is not None:
                task.cancel()
        self._fail(ClosedError(f"this copy of the object in group {self.place.name!r} was closed"))
        if self._state is not None:
            await self._state.__aexit__(None, None, None)

    async def call(self, method: OperationMethod[Any, Any, Any], payload: bytes) -> Any:
        return await self._issue(payload)

    async def catch_up(self, consistency: str) -> None:
        match consistency:
            case "local":
                return
            case "mine":
                if self._open:
                    await asyncio.wait(list(self._open.values()))
            case "agreed":
                await self._issue(_ENCODER.encode(None))
            case _:
                raise UsageError(f"a reading is `local`, `mine` or `agreed`, not {consistency!r}")

    async def settled(self, timeout_s: float | None) -> None:
        async with asyncio.timeout(timeout_s):
            await self.catch_up("mine")
            await self.place.flush()

    async def _issue(self, payload: bytes) -> Any:
        if self._state is None or (self._watching is not None and self._watching.done()):
            raise ClosedError(f"this process is no longer a member of group {self.place.name!r}")
        if len(self._open) >= CALLS_MAX:
            raise UsageError(f"{CALLS_MAX} calls of this copy are under way; await some of them first")
        async with asyncio.timeout(self._timeout_s):
            self._number += 1
            future = self._open[self._number] = asyncio.get_running_loop().create_future()
            self._outbox.append(payload)
            if self._sending is None or self._sending.done():
                self._sending = asyncio.create_task(self._send())
            return await future

    async def _send(self) -> None:
        """Send what was called in one turn as one message, and go on until nothing is left."""
        assert self._state is not None
        while self._outbox:
            calls, self._outbox = self._outbox, []
            first = self._number - len(calls) + 1
            await self._state.send(_ENCODER.encode((first, [msgspec.Raw(call) for call in calls])))

    async def _watch(self) -> None:
        """Fail all calls when the group is over here."""
        assert self._state is not None
        error: Exception = ClosedError(f"this process is no longer a member of group {self.place.name!r}")
        try:
            await self._state.until(lambda _: False)
        except Exception as raised:
            if not isinstance(raised, UsageError):
                error = raised
        self._fail(error)

    def _fail(self, error: Exception) -> None:
        failed, self._open = self._open, {}
        for future in failed.values():
            if not future.done():
                future.set_exception(error)

    # ---- what the group delivers -------------------------------------------------------------------------------------

    def _apply(self, state: dict[str, Any], payload: bytes, sender: ProcessId) -> dict[str, Any]:
        try:
            first, calls = _PACK.decode(payload)
        except msgspec.DecodeError:
            self.strays += 1
            return state
        for place, call in enumerate(calls):
            future = self._open.pop(first + place, None) if sender == self.place.process else None
            try:
                result = None if call is None else apply_call(self._target, call)
            except NotAnOperationError:
                self.strays += 1
            except Exception as error:
                if future is None or future.done():
                    log_event(logging.DEBUG, "operation_failed", str(error), member=sender)
                else:
                    future.set_exception(error)
            else:
                if future is not None and not future.done():
                    future.set_result(result)
        return attributes_of(self._target)

    def _merge(self, components: Any) -> dict[str, Any]:
        merged = self._rule(components)
        adopt(self._target, merged)
        return merged
