"""Operations of replicated objects: methods whose calls travel as MessagePack and are executed at every copy.

Arguments are checked against the annotations before anything is sent. A copy that gets a call which it cannot read, or
whose operation it does not have, drops it.
"""

import inspect
from collections.abc import Callable, Coroutine
from types import GenericAlias
from typing import TYPE_CHECKING, Any, Concatenate, Final, Generic, ParamSpec, Self, TypeVar, get_type_hints, overload

import msgspec

from antiphon import UsageError

if TYPE_CHECKING:
    from antiphon.toolkit.replicated import ReplicatedObject

P = ParamSpec("P")
R = TypeVar("R")
S = TypeVar("S", bound="ReplicatedObject")

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
        self._plain = sum(
            each.kind in (each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD)
            for each in self._signature.parameters.values()
        )
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
        if kwargs or len(args) + 1 != self._plain:
            bound = self._signature.bind(instance, *args, **kwargs)
            bound.apply_defaults()
            args = tuple(bound.arguments.values())[1:]
        values = _ENCODER.encode(args)
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


class NotAnOperationError(ValueError):
    """A payload is no call of an operation that the object has."""


OperationCall = tuple[str, msgspec.Raw]
"""The name of an operation, and its arguments."""


def decode_call(payload: bytes) -> OperationCall:
    """Return an encoded call. Raises NotAnOperationError."""
    try:
        return _CALL.decode(payload)
    except msgspec.DecodeError as error:
        raise NotAnOperationError(str(error)) from error


def apply_call(target: "ReplicatedObject", call: OperationCall) -> Any:
    """Execute a call; returns or raises what the operation does. Raises NotAnOperationError."""
    try:
        method = target.operations[call[0]]
        arguments = method.decode(call[1])
    except (msgspec.DecodeError, KeyError) as error:
        raise NotAnOperationError(str(error)) from error
    return method.function(target, *arguments)
