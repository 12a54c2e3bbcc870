"""Replicated objects: every participant of a conversation has a copy (psync-1989, 4.3).

    class Bank(ReplicatedObject):
        def __init__(self, conversation: antiphon.conversation.Conversation) -> None:
            super().__init__(conversation)
            self.balance: dict[str, int] = {}

        @commuting
        def deposit(self, account: str, amount: int) -> None:
            self.balance[account] = self.balance.get(account, 0) + amount

        @ordered
        def withdraw(self, account: str, amount: int) -> bool:
            ...

    async with Bank(conversation) as bank:
        await bank.deposit("alice", 5)

Calling an operation sends it to all participants and waits until it is executed here; the caller gets what it returns
or raises here. Each copy executes every operation once. Operations marked `commuting` are executed at each copy in the
order in which they arrive, mostly at once; those marked `ordered` are executed in one order at all copies, each in the
same state. All copies become equal if the following holds:

  - Two commuting operations have the same results and the same effect in either order, whatever their arguments. A
    commuting operation and an ordered one need not commute.
  - An operation depends on its arguments and on the object alone: not on time, on randomness or on the copy.
  - Only operations change the object.

Whoever has failed holds up the ordered operations of all others until they have removed it by agreement. With
`remove_silent` that is asked for as soon as somebody has not answered through all retries of the filter. A copy that
the others have removed executes nothing more: its calls raise RemovedError. It can come back by running again from the
beginning (`restart_conversation` with `again`): calls that it had made before return what they then returned.

Arguments travel as MessagePack and are checked against the annotations before anything is sent. An exception in an
operation is part of its effect: it is raised to the caller, and logged at the other copies.
"""

import asyncio
import inspect
import logging
from collections import deque
from collections.abc import Callable, Coroutine
from types import GenericAlias, TracebackType
from typing import Any, ClassVar, Concatenate, Final, Generic, ParamSpec, Self, TypeVar, get_type_hints, overload

import msgspec

from antiphon import UsageError
from antiphon.conversation import Conversation, FilterOptions, Operation, replicated_operations

P = ParamSpec("P")
R = TypeVar("R")
S = TypeVar("S", bound="ReplicatedObject")

log: Final = logging.getLogger("antiphon")
_ENCODER: Final = msgspec.msgpack.Encoder()
_CALL: Final = msgspec.msgpack.Decoder(tuple[str, msgspec.Raw])


class OperationMethod(Generic[S, P, R]):
    """A method of a replicated object: calling it executes it at all copies."""

    def __init__(self, function: Callable[Concatenate[S, P], R], commutes: bool) -> None:
        if inspect.iscoroutinefunction(function):
            raise UsageError(
                f"an operation runs without waiting: make {function.__name__} a plain function, not a coroutine"
            )
        self.function = function
        self.commutes = commutes
        self.name = function.__name__
        self.__doc__ = function.__doc__
        self._signature = inspect.signature(function)
        self._decoder: msgspec.msgpack.Decoder[tuple[Any, ...]] | None = None

    @overload
    def __get__(self, instance: None, owner: type[S]) -> Self: ...
    @overload
    def __get__(self, instance: S, owner: type[S]) -> Callable[P, Coroutine[Any, Any, R]]: ...
    def __get__(self, instance: S | None, owner: type[S]) -> Self | Callable[P, Coroutine[Any, Any, R]]:
        if instance is None:
            return self

        def call(*args: P.args, **kwargs: P.kwargs) -> Coroutine[Any, Any, R]:
            return instance._issue(self, self.encode(instance, args, kwargs))

        return call

    def encode(self, instance: S, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bytes:
        """Return the encoded call. Raises TypeError or msgspec.ValidationError if the arguments do not fit."""
        bound = self._signature.bind(instance, *args, **kwargs)
        bound.apply_defaults()
        values = _ENCODER.encode(list(bound.arguments.values())[1:])
        self.decode(values)
        return _ENCODER.encode((self.name, msgspec.Raw(values)))

    def decode(self, values: bytes | msgspec.Raw) -> tuple[Any, ...]:
        """Return the arguments of an encoded call."""
        if self._decoder is None:
            self._decoder = msgspec.msgpack.Decoder(self._arguments_type())
        return self._decoder.decode(values)

    def _arguments_type(self) -> Any:
        hints = get_type_hints(self.function)
        types = []
        for parameter in list(self._signature.parameters.values())[1:]:
            if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
                raise UsageError(f"{self.name}: an operation has a fixed number of arguments")
            types.append(hints.get(parameter.name, Any))
        return GenericAlias(tuple, tuple(types))


def commuting(function: Callable[Concatenate[S, P], R]) -> OperationMethod[S, P, R]:
    """Mark an operation that commutes with every other operation so marked."""
    return OperationMethod(function, True)


def ordered(function: Callable[Concatenate[S, P], R]) -> OperationMethod[S, P, R]:
    """Mark an operation that all copies execute in one order."""
    return OperationMethod(function, False)


class ReplicatedObject:
    """One copy of an object. Nobody else may use its conversation; all participants run the same class."""

    operations: ClassVar[dict[str, OperationMethod[Any, Any, Any]]] = {}
    """The operations of this class and its bases, by name."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        found = {name: each for name, each in vars(cls).items() if isinstance(each, OperationMethod)}
        cls.operations = cls.operations | found

    def __init__(
        self, conversation: Conversation, options: FilterOptions | None = None, *, remove_silent: bool = False
    ) -> None:
        self.conversation = conversation
        self._remove_silent = remove_silent
        self._watching: asyncio.Task[None] | None = None
        self.strays = 0
        """How many messages were dropped because they were no operations of this class."""
        self._filter = replicated_operations(conversation, self._execute, options)
        self._me = conversation.core.me
        self._calls: tuple[deque[asyncio.Future[Any]], deque[asyncio.Future[Any]]] = (deque(), deque())
        """Own calls that were not executed yet, ordered ones and commuting ones, each in the order of the calls."""
        self._former: tuple[deque[asyncio.Future[Any]], deque[asyncio.Future[Any]]] = (deque(), deque())
        """What own calls of a former life came to, which were executed again and not called again."""

    def __repr__(self) -> str:
        return f"<{type(self).__name__} in {self.conversation!r}>"

    async def __aenter__(self) -> Self:
        await self._filter.__aenter__()
        self._watching = asyncio.create_task(self._watch())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._watching is not None:
            self._watching.cancel()
        await self._filter.close()
        for call in (*self._calls[False], *self._calls[True]):
            call.cancel()

    async def _watch(self) -> None:
        """Ask for the removal of who is silent, and end the calls that wait when this copy takes no more part."""
        try:
            while True:
                await self._filter.changed()
                for name in self._filter.laggards() if self._remove_silent else ():
                    self.conversation.remove(name)
        except Exception as error:
            for call in (*self._calls[False], *self._calls[True]):
                if not call.done():
                    call.set_exception(error)

    async def settled(self, timeout_s: float | None = None) -> None:
        """Wait until all copies have all operations that were called here. Raises ConversationTimeoutError."""
        await self._filter.settled(timeout_s)

    def laggards(self) -> list[str]:
        """Return the participants that have been silent for too long; see `Conversation.remove`."""
        return self._filter.laggards()

    async def _issue(self, method: OperationMethod[Any, Any, R], payload: bytes) -> R:
        await self._filter.room()
        if self._filter.offer(payload, method.commutes):
            result: R = self._apply(payload)  # before another message is received
            await self._filter.give_way()
            return result
        if self._former[method.commutes]:
            return await self._former[method.commutes].popleft()  # type: ignore[no-any-return]  # as it was called then
        call: asyncio.Future[R] = asyncio.get_running_loop().create_future()
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
            name, values = _CALL.decode(payload)
            method = self.operations[name]
            arguments = method.decode(values)
        except (msgspec.DecodeError, KeyError):
            self.strays += 1
            return None
        return method.function(self, *arguments)
