"""Resilient objects (isis-1987, 5 and 5.2): a class whose objects survive the failure of the processes they run in.

    @resilient
    class Account:
        def __init__(self) -> None:
            self.balance = 0

        @operation
        async def deposit(self, amount: int) -> int:
            self.balance += amount
            return self.balance

    account = make_resilient(tools, Account)    # a component of the object, at each member
    async with tools:
        await account.deposit(5)                # at any member: executed once, with effect at all

The rule. A call goes to all components by a `safe` message, so they have the calls in one queue. The first is executed,
by one of them: its coordinator, the component nearest to the caller (`cohorts.py`). It works on a copy of the
object's attributes and tells all components, by one `safe` message, which attributes changed, and the result. When that
is delivered, every component takes over the attributes, the caller gets the result, and the next call is executed. If
the coordinator is gone before, another component executes the call, from the state before it, which all have.

Exactly once. The effects of an operation come into being by one message, which all components deliver or none; a second
one for the same call is ignored. The caller gets the result when all components have it, so it cannot be lost.

Nested calls. An operation may call operations of other resilient objects whose components are at the same processes.
Such a call bears the name of the calling one and its place in it, so that when a cohort executes the calling operation
again, the called object recognises the call and returns the result that it has retained, instead of executing it
again. So an operation must make the same nested calls whenever it is executed in the same state: it must depend on
arguments, attributes and results of nested calls alone. If it does not, it fails with WorkError. Called within an
operation, the object's own operations are plain methods.

Deadlock: while an operation is executed its object does nothing else, so a nested call must not lead back to an object
that waits for it; that is refused where the chain of calls shows it, and ends by `timeout_s` otherwise.

Attributes, arguments and results are what MessagePack holds, or msgspec makes of it by the annotations of class and
operation. Reading an attribute reads this component's copy, which may lag behind. An exception in an operation undoes
its changes and is told to the caller as WorkError.

Limits: CALLS_MAX open calls of a component; RETAINED_MAX results are retained, the oldest are forgotten first.
"""

import asyncio
import contextvars
import copy
import inspect
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final, Generic, TypeVar, get_type_hints

import msgspec

from antiphon import Message, MessageTooLargeError, ProcessId, UsageError
from antiphon.toolkit.cohorts import ERROR_CHARACTERS_MAX, choose_coordinator
from antiphon.toolkit.errors import WorkError
from antiphon.toolkit.messages import WireProcess, from_wire, to_wire
from antiphon.toolkit.tools import Tool, Tools

CALLS_MAX: Final = 1024
RETAINED_MAX: Final = 4096
CALL_S: Final = 30.0

T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])

_ENCODER: Final = msgspec.msgpack.Encoder()


class _OperationCall(msgspec.Struct, array_like=True, tag="call"):
    id: str
    name: str
    arguments: bytes
    chain: list[str]
    """The objects whose operations wait for this call."""


class _OperationEffect(msgspec.Struct, array_like=True, tag="effect"):
    id: str
    changed: dict[str, bytes]
    removed: list[str]
    result: bytes
    error: str


class _WireOperationCall(msgspec.Struct, array_like=True):
    caller: WireProcess
    place: int
    call: _OperationCall


class _RetainedResult(msgspec.Struct, array_like=True):
    name: str
    arguments: bytes
    result: bytes
    error: str


class _ObjectState(msgspec.Struct, array_like=True):
    attributes: dict[str, bytes]
    calls: list[_WireOperationCall]
    retained: dict[str, _RetainedResult]


_DECODER: Final = msgspec.msgpack.Decoder(_OperationCall | _OperationEffect)
_STATE: Final = msgspec.msgpack.Decoder(_ObjectState)


@dataclass
class _Execution:
    """The operation that the current task executes."""

    id: str
    chain: list[str]
    calls: int = field(default=0)
    """How many nested calls it has made."""


_CURRENT: contextvars.ContextVar[_Execution | None] = contextvars.ContextVar("antiphon_operation", default=None)


def operation(function: F) -> F:
    """Mark a coroutine method as an operation of a resilient object."""
    if not inspect.iscoroutinefunction(function):
        raise UsageError(f"an operation is a coroutine: make it `async def {function.__name__}`")
    function.__antiphon_operation__ = True  # type: ignore[attr-defined]
    return function


class ResilientClass(Generic[T]):
    """The operations of a class whose objects can be resilient, and how its values travel."""

    def __init__(self, kind: type[T]) -> None:
        self.kind = kind
        self.operations: dict[str, Callable[..., Any]] = {
            name: value
            for name, value in inspect.getmembers(kind, inspect.isfunction)
            if getattr(value, "__antiphon_operation__", False)
        }
        if not self.operations:
            raise UsageError(f"{kind.__name__} has no operations; mark some methods with @operation")
        self._hints = get_type_hints(kind)
        self.proxy = type(f"Resilient{kind.__name__}", (kind,), {name: _forward(name) for name in self.operations})
        self.proxy.__getattr__ = _get  # type: ignore[attr-defined]
        self.proxy.__setattr__ = _refuse  # type: ignore[method-assign, assignment]

    def __repr__(self) -> str:
        return f"<ResilientClass of {self.kind.__name__}: {', '.join(self.operations)}>"

    def make(self, tools: Tools, name: str, timeout_s: float) -> T:
        """Return a component of the object `name`, as an object of the class."""
        component = Component(self, tools, name, timeout_s)
        proxy: T = object.__new__(self.proxy)
        proxy.__dict__["antiphon_component"] = component
        return proxy

    def encode_arguments(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bytes:
        """Return the encoded arguments; raises TypeError or msgspec.ValidationError if they do not fit."""
        bound = inspect.signature(self.operations[name]).bind(None, *args, **kwargs)
        bound.apply_defaults()
        encoded = _ENCODER.encode(list(bound.arguments.values())[1:])
        self.decode_arguments(name, encoded)
        return encoded

    def decode_arguments(self, name: str, encoded: bytes) -> tuple[Any, ...]:
        """Return the arguments, of the types that the operation wants."""
        function = self.operations[name]
        hints = get_type_hints(function)
        parameters = list(inspect.signature(function).parameters)[1:]
        values = msgspec.msgpack.decode(encoded, type=list[msgspec.Raw])
        if len(values) != len(parameters):
            raise msgspec.ValidationError(f"{name} takes {len(parameters)} arguments, not {len(values)}")
        pairs = zip(parameters, values, strict=True)
        return tuple(msgspec.msgpack.decode(value, type=hints.get(each, Any)) for each, value in pairs)

    def decode_result(self, name: str, encoded: bytes) -> Any:
        """Return the result, of the type that the operation says."""
        return msgspec.msgpack.decode(encoded, type=get_type_hints(self.operations[name]).get("return", Any))

    def decode_attribute(self, name: str, encoded: bytes) -> Any:
        """Return the value of an attribute, of the type that the class says."""
        return msgspec.msgpack.decode(encoded, type=self._hints.get(name, Any))


def resilient(kind: type[T]) -> type[T]:
    """Let objects of a class be resilient; its constructor takes no arguments. What `make_resilient` makes of it is
    resilient; what the class itself makes is an ordinary object."""
    kind.__antiphon_resilient__ = ResilientClass(kind)  # type: ignore[attr-defined]
    return kind


def make_resilient(tools: Tools, kind: type[T], name: str | None = None, *, timeout_s: float = CALL_S) -> T:
    """Return this member's component of the object `name`, by default the name of the class. All members make one.

    A call that takes longer than `timeout_s` raises TimeoutError; the operation may still be executed.
    """
    found: ResilientClass[T] | None = vars(kind).get("__antiphon_resilient__")
    if found is None:
        raise UsageError(f"{kind.__name__} is not resilient; put @resilient before the class")
    return found.make(tools, name or kind.__name__, timeout_s)


def component_of(proxy: object) -> "Component":
    """Return the component behind a resilient object."""
    found: Component = proxy.__dict__["antiphon_component"]
    return found


def _forward(name: str) -> Callable[..., Any]:
    async def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        return await component_of(self).call(name, args, kwargs)

    call.__name__ = name
    return call


def _get(self: Any, name: str) -> Any:
    if name.startswith("__") or "antiphon_component" not in self.__dict__:
        raise AttributeError(name)
    return getattr(component_of(self).object, name)


def _refuse(self: Any, name: str, value: object) -> None:
    raise UsageError(f"only operations change a resilient object: set {name!r} in one of them")


@dataclass(slots=True)
class _OpenOperation:
    caller: ProcessId
    place: int
    call: _OperationCall


class Component(Tool):
    """One member's part of a resilient object."""

    def __init__(self, kind: ResilientClass[Any], tools: Tools, name: str, timeout_s: float) -> None:
        super().__init__(tools, name)
        self.kind = kind
        self.object: Any = kind.kind()
        self.executed = 0
        """How many operations this component has executed as coordinator."""
        self._attributes = {name: _ENCODER.encode(value) for name, value in vars(self.object).items()}
        self._calls: list[_OpenOperation] = []
        self._retained: dict[str, _RetainedResult] = {}
        self._waiting: dict[str, list[asyncio.Future[_RetainedResult]]] = {}
        self._number = 0
        self._timeout_s = timeout_s
        self._running: tuple[str, asyncio.Task[None]] | None = None

    async def call(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Have an operation executed once, and return its result."""
        arguments = self.kind.encode_arguments(name, args, kwargs)
        execution = _CURRENT.get()
        if execution is not None and self.name in execution.chain:
            raise UsageError(
                f"{self.name}.{name} was called by an operation that {self.name} waits for itself "
                f"({' calls '.join(execution.chain)}): it would wait for ever"
            )
        if len(self._waiting) >= CALLS_MAX:
            raise UsageError(f"{CALLS_MAX} calls of this component are open; await some of them first")
        async with asyncio.timeout(self._timeout_s):
            await self.tools.live()
            call = _OperationCall(
                self._name_call(execution), name, arguments, [] if execution is None else execution.chain
            )
            answer: asyncio.Future[_RetainedResult] = asyncio.get_running_loop().create_future()
            waiting = self._waiting.setdefault(call.id, [])
            waiting.append(answer)
            try:
                self.tools.post(self, _ENCODER.encode(call), order="safe")
                retained = await answer
            finally:
                waiting.remove(answer)
                if not waiting:
                    self._waiting.pop(call.id, None)
        if (retained.name, retained.arguments) != (name, arguments):
            raise WorkError(
                f"{self.name}.{name}: an operation that was executed again made another nested call than the first "
                "time; it must depend on arguments, attributes and results of nested calls alone"
            )
        if retained.error:
            raise WorkError(retained.error)
        return self.kind.decode_result(name, retained.result)

    def _name_call(self, execution: _Execution | None) -> str:
        if execution is None:
            self._number += 1
            return f"{self.tools.process.full} {self._number}"
        execution.calls += 1
        return f"{execution.id}.{execution.calls}"

    # ---- what the group delivers -------------------------------------------------------------------------------------

    def take(self, event: Message, payload: bytes) -> None:
        message = _DECODER.decode(payload)
        if isinstance(message, _OperationEffect):
            self._take_effect(message)
        elif message.name not in self.kind.operations:
            self.tools.strays += 1
        elif message.id in self._retained:
            self._answer(message.id)
        elif all(open_call.call.id != message.id for open_call in self._calls):
            self._calls.append(_OpenOperation(event.sender, self.tools.view.rank(event.sender), message))
        self._execute_next()

    def _take_effect(self, effect: _OperationEffect) -> None:
        if not self._calls or self._calls[0].call.id != effect.id:
            return  # a second one, of a coordinator that had begun before
        call = self._calls.pop(0).call
        if self._running is not None and self._running[0] == effect.id:
            self._running = None
        for name, encoded in effect.changed.items():
            self._attributes[name] = encoded
            setattr(self.object, name, self.kind.decode_attribute(name, encoded))
        for name in effect.removed:
            self._attributes.pop(name, None)
            self.object.__dict__.pop(name, None)
        self._retained[call.id] = _RetainedResult(call.name, call.arguments, effect.result, effect.error)
        if len(self._retained) > RETAINED_MAX:
            del self._retained[next(iter(self._retained))]
        self._answer(call.id)

    def _answer(self, id: str) -> None:
        for waiting in self._waiting.get(id, ()):
            if not waiting.done():
                waiting.set_result(self._retained[id])

    def resume(self) -> None:
        self._execute_next()

    def suspend(self, why: str, excluded: bool) -> None:
        if excluded:
            self.end(self.tools.lost_error())

    def end(self, error: Exception) -> None:
        if self._running is not None:
            self._running[1].cancel()
            self._running = None
        for waiting in self._waiting.values():
            for answer in waiting:
                if not answer.done():
                    answer.set_exception(error)

    def export(self) -> bytes:
        calls = [_WireOperationCall(to_wire(each.caller), each.place, each.call) for each in self._calls]
        return _ENCODER.encode(_ObjectState(self._attributes, calls, self._retained))

    def restore(self, state: bytes) -> None:
        decoded = _STATE.decode(state)
        restored = object.__new__(self.kind.kind)
        for name, encoded in decoded.attributes.items():
            setattr(restored, name, self.kind.decode_attribute(name, encoded))
        self.object = restored
        self._attributes = decoded.attributes
        self._calls = [_OpenOperation(from_wire(each.caller), each.place, each.call) for each in decoded.calls]
        self._retained = decoded.retained

    # ---- executing ---------------------------------------------------------------------------------------------------

    def _execute_next(self) -> None:
        """Execute the first call, if this component is its coordinator in the present view."""
        if not self._calls or not self.tools.is_live:
            return
        first = self._calls[0]
        if self._running is not None and self._running[0] == first.call.id:
            return
        if choose_coordinator(self.tools.view, first.caller, first.place) == self.tools.process:
            self._running = (first.call.id, asyncio.create_task(self._execute(first.call)))

    async def _execute(self, call: _OperationCall) -> None:
        _CURRENT.set(_Execution(call.id, [*call.chain, self.name]))
        working = copy.deepcopy(self.object)
        changed: dict[str, bytes] = {}
        removed: list[str] = []
        result, error = b"", ""
        try:
            arguments = self.kind.decode_arguments(call.name, call.arguments)
            result = _ENCODER.encode(await self.kind.operations[call.name](working, *arguments))
            self.kind.decode_result(call.name, result)
            for name, value in vars(working).items():
                encoded = _ENCODER.encode(value)
                if self._attributes.get(name) != encoded:
                    self.kind.decode_attribute(name, encoded)
                    changed[name] = encoded
            removed = [name for name in self._attributes if name not in vars(working)]
        except Exception as failure:  # undoes the changes, and goes to the caller
            changed, removed, result = {}, [], b""
            error = f"{type(failure).__name__}: {failure}"[:ERROR_CHARACTERS_MAX]
        self.executed += 1
        try:
            self._tell(_OperationEffect(call.id, changed, removed, result, error))
        except MessageTooLargeError as failure:
            self._tell(_OperationEffect(call.id, {}, [], b"", f"the changes cannot be told: {failure}"))

    def _tell(self, effect: _OperationEffect) -> None:
        self.tools.post(self, _ENCODER.encode(effect), order="safe")
