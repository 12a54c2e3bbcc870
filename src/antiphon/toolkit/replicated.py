"""Objects of which every participant of a conversation has a copy (psync-1989, 4.3).

    class Bank(ReplicatedObject):
        def __init__(self, conversation: antiphon.Conversation) -> None:
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

To call an operation sends it to all, and waits until it was executed here: what it returns or raises here is what the
caller gets. Each copy executes every operation, once. Those marked `commuting` are executed at each copy in whatever
order they come, mostly at once; those marked `ordered` in one order at all copies, and each in the same state. Then all
copies become equal, if what is said of the operations is true:

  - of two commuting operations it does not matter which is executed first, whatever their arguments: neither what they
    return nor what they leave behind may depend on it. An operation and an ordered one need not commute.
  - what an operation does depends on its arguments and on the object alone: not on the time, on chance or on the copy.
  - nothing but operations changes the object.

Arguments travel as MessagePack and are checked against the annotations before anything is sent. An exception in an
operation is part of what it does: it is raised to the caller, and logged at the others.
"""

import asyncio
import inspect
import logging
from collections import deque
from collections.abc import Callable, Coroutine
from types import GenericAlias, TracebackType
from typing import Any, ClassVar, Concatenate, Final, Generic, ParamSpec, Self, TypeVar, get_type_hints, overload

import msgspec

from antiphon import Conversation, FilterOptions, Operation, UsageError, replicated_operations

P = ParamSpec("P")
R = TypeVar("R")
S = TypeVar("S", bound="ReplicatedObject")

log: Final = logging.getLogger("antiphon")
_ENCODER: Final = msgspec.msgpack.Encoder()
_CALL: Final = msgspec.msgpack.Decoder(tuple[str, msgspec.Raw])


class OperationMethod(Generic[S, P, R]):
    """A method that is executed at all copies."""

    def __init__(self, function: Callable[Concatenate[S, P], R], commutes: bool) -> None:
        if inspect.iscoroutinefunction(function):
            raise UsageError(f"{function.__name__} is executed at once at every copy: make it a plain function")
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
        """The call as it travels. Raises TypeError or msgspec.ValidationError if it cannot be made so."""
        bound = self._signature.bind(instance, *args, **kwargs)
        bound.apply_defaults()
        values = _ENCODER.encode(list(bound.arguments.values())[1:])
        self.decode(values)
        return _ENCODER.encode((self.name, msgspec.Raw(values)))

    def decode(self, values: bytes | msgspec.Raw) -> tuple[Any, ...]:
        """The arguments of a call."""
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
    """Mark an operation that commutes with every other commuting one."""
    return OperationMethod(function, True)


def ordered(function: Callable[Concatenate[S, P], R]) -> OperationMethod[S, P, R]:
    """Mark an operation that all copies execute in one order."""
    return OperationMethod(function, False)


class ReplicatedObject:
    """One copy of an object. It owns the conversation; all participants run the same class."""

    operations: ClassVar[dict[str, OperationMethod[Any, Any, Any]]] = {}
    """By name, those of this class and its bases."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        found = {name: each for name, each in vars(cls).items() if isinstance(each, OperationMethod)}
        cls.operations = cls.operations | found

    def __init__(self, conversation: Conversation, manner: FilterOptions | None = None) -> None:
        self.conversation = conversation
        self.strays = 0
        """Messages that were no operations of this class; they are dropped."""
        self._filter = replicated_operations(conversation, self._execute, manner)
        self._me = conversation.core.me
        self._calls: tuple[deque[asyncio.Future[Any]], deque[asyncio.Future[Any]]] = (deque(), deque())
        """Our own that were not executed yet, the ordered and the commuting: each in the order of issue."""

    async def __aenter__(self) -> Self:
        await self._filter.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self._filter.close()
        for call in (*self._calls[False], *self._calls[True]):
            call.cancel()

    async def settled(self, timeout_s: float | None = None) -> None:
        """Wait until everybody has all operations that were issued here. Raises ConversationTimeoutError."""
        await self._filter.settled(timeout_s)

    def laggards(self) -> list[str]:
        """Who has been silent for so long that the others may have to go on without: see `Conversation.remove`."""
        return self._filter.laggards()

    async def _issue(self, method: OperationMethod[Any, Any, R], payload: bytes) -> R:
        await self._filter.room()
        if self._filter.machine.offer(payload, method.commutes):
            self._filter.soon()
            result: R = self._apply(payload)  # before anything else is received
            await self._filter.give_way()
            return result
        call: asyncio.Future[R] = asyncio.get_running_loop().create_future()
        self._calls[method.commutes].append(call)
        self._filter.soon()
        return await call

    def _execute(self, operation: Operation) -> None:
        call = self._calls[operation.commutes].popleft() if operation.sender == self._me else None
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
