"""The tools of section 5 of isis-1987 broken on purpose, hunted with whole programs in virtual time."""

from collections.abc import Callable, Sequence
from typing import Any, Final

from antiphon import ProcessId, View
from antiphon.toolkit import Locks, TokenGuard
from antiphon.toolkit.lock_table import LockTable, WriteRequest
from antiphon.toolkit.locks import LockClaim
from antiphon.toolkit.token_guard import is_read_token
from tests.mutants.runtime_mutants import ANYTHING, RuntimeMutant
from tests.programs.campaign import run_program

LOCKS: Final = ("locks",)
OBJECTS: Final = ("resilient_counter",)

# ---- tokens and guards ----------------------------------------------------------------------------------------------

_request = LockTable.request
_install = LockTable.install


def _one_token_for_two(self: LockTable, item: str, owner: ProcessId, number: int, task: int, at: int) -> WriteRequest:
    """Every second request bears the token of the one before."""
    before = self.last
    request = _request(self, item, owner, number, task, at)
    if before and number % 2 == 0:
        self.last = request.token = before
    return request


def _count_anew(self: LockTable, view_id: int, members: tuple[ProcessId, ...]) -> None:
    """Tokens begin again in each view."""
    _install(self, view_id, members)
    self.last = 0


def _without_the_clock(self: LockTable, item: str, owner: ProcessId, number: int, task: int, at: int) -> WriteRequest:
    return _request(self, item, owner, number, task, 0)


def _admit_everything(self: TokenGuard, token: int) -> None:
    self._written = max(self._written, token)


def _admit_lower_ones(self: TokenGuard, token: int) -> None:
    """The comparison the wrong way round."""
    if self._written and token > self._written:
        from antiphon.toolkit import StaleTokenError

        raise StaleTokenError(token, self._written)
    self._written = token


def _forget_readers(self: TokenGuard, token: int) -> None:
    """What readers were admitted with does not count, and neither do they need a token."""
    if not is_read_token(token):
        _admit(self, token)


_admit = TokenGuard._admit

# ---- locks ----------------------------------------------------------------------------------------------------------


def _keep_the_dead(self: LockTable, view_id: int, members: tuple[ProcessId, ...]) -> None:
    """Locks and requests of members that are gone stay."""
    self._view_id, self._members = view_id, members
    for queue in self.queues.values():
        for request in queue:
            request.owed &= set(members)


def _owe_the_dead(self: LockTable, view_id: int, members: tuple[ProcessId, ...]) -> None:
    """A request waits for members that are gone."""
    owed = {request.key: set(request.owed) for queue in self.queues.values() for request in queue}
    _install(self, view_id, members)
    for queue in self.queues.values():
        for request in queue:
            request.owed = owed[request.key]


def _owe_nobody(self: LockTable, item: str, owner: ProcessId, number: int, task: int, at: int) -> WriteRequest:
    """A write lock is granted before the members have agreed."""
    request = _request(self, item, owner, number, task, at)
    request.owed = set()
    return request


def _grant_as_soon_as_agreed(self: Locks, item: str) -> None:
    """Whoever has all agreements holds the lock, whether it is first or not."""
    for request in self.table.queues.get(item, ()):
        claim = self._claims.get(request.number) if request.owner == self.tools.process else None
        if claim is not None and claim.is_waiting and request.owed <= claim.agreed:
            claim.grant(request.token)
    _advance(self, item)


_advance = Locks._advance


def _read_beside_writers(self: Locks, claim: LockClaim) -> None:
    """A read lock is granted while a write lock is held or wanted."""
    from antiphon.toolkit.locks import _Register

    claim.grant(self.table.last + 1)
    self._post(_Register(claim.item, claim.number, claim.task))


def _agree_while_reading(self: Locks, item: str) -> None:
    claims, self._claims = self._claims, {key: each for key, each in self._claims.items() if each.mode == "write"}
    try:
        _agree(self, item)
    finally:
        self._claims = claims


_agree = Locks._agree
_post = Locks._post


def _ask_in_causal_order(self: Locks, message: Any, order: str = "causal", to: ProcessId | None = None) -> None:
    """Requests have no one order, though they say so."""
    _post(self, message, order="causal", to=to)


def _take_any_order(self: Locks, event: Any, payload: bytes) -> None:
    from antiphon import Message

    safe = Message(event.payload, event.sender, event.number, "safe", event.group, event.view_id, event.private)
    _take(self, safe, payload)


_take = Locks.take


def _release_nothing(self: LockTable, item: str, key: Any) -> None:
    """A lock that was released stays with its holder."""


def _join_without_the_queue(self: Locks, state: bytes) -> None:
    last = self.table.last
    self.table.restore(state)
    self.table.queues.clear()
    self.table.last = last


# ---- resilient objects ----------------------------------------------------------------------------------------------


def _retain_nothing(self: Any, effect: Any) -> None:
    """A nested call that comes again is executed again."""
    _component_take_effect(self, effect)
    self._retained.clear()


def _take_every_effect(self: Any, effect: Any) -> None:
    """What a call did is taken over as often as it is told."""
    from antiphon.toolkit.resilient import _ENCODER

    for name, encoded in effect.changed.items():
        value = self.kind.decode_attribute(name, encoded)
        if isinstance(value, int):
            value = getattr(self.object, name) + 1
        self._attributes[name] = _ENCODER.encode(value)
        setattr(self.object, name, value)
    _component_take_effect(self, type(effect)(effect.id, {}, [], effect.result, effect.error))


def _execute_everywhere(self: Any) -> None:
    """Every component executes every call."""
    import asyncio

    if self._calls and self.tools.is_live:
        first = self._calls[0]
        if self._running is None or self._running[0] != first.call.id:
            self._running = (first.call.id, asyncio.create_task(self._execute(first.call)))


def _no_takeover(view: View, caller: ProcessId, place: int) -> ProcessId:
    """The caller coordinates, also when it is gone."""
    return caller


def _lose_effects(self: Any, effect: Any) -> None:
    """The cohorts do not take over what changed."""
    if self._running is None or self._running[0] != effect.id:
        effect = type(effect)(effect.id, {}, [], effect.result, effect.error)
    _component_take_effect(self, effect)


def _join_without_the_state(self: Any, state: bytes) -> None:
    attributes = dict(self._attributes)
    _component_restore(self, state)
    self.object = self.kind.kind()
    self._attributes = attributes


_module: Any = __import__("antiphon.toolkit.resilient", fromlist=["Component"])
_component_take_effect: Callable[..., None] = _module.Component._take_effect
_component_restore: Callable[..., None] = _module.Component.restore


def _tool(name: str, programs: tuple[str, ...], *patches: tuple[Any, str, Callable[..., Any]]) -> RuntimeMutant:
    return RuntimeMutant(name, (ANYTHING,), patches, programs=programs)


TOOL_MUTANTS: Final = (
    _tool("one token for two requests", LOCKS, (LockTable, "request", _one_token_for_two)),
    _tool(
        "tokens begin again in each view",
        LOCKS,
        (LockTable, "install", _count_anew),
        (LockTable, "request", _without_the_clock),
    ),
    _tool("the guard admits everybody", LOCKS, (TokenGuard, "_admit", _admit_everything)),
    _tool("the guard compares the wrong way round", LOCKS, (TokenGuard, "_admit", _admit_lower_ones)),
    _tool("the guard does not look at readers", LOCKS, (TokenGuard, "_admit", _forget_readers)),
    _tool("locks of the dead are not released", LOCKS, (LockTable, "install", _keep_the_dead)),
    _tool("a request waits for the dead to agree", LOCKS, (LockTable, "install", _owe_the_dead)),
    _tool("granted before all have agreed", LOCKS, (LockTable, "request", _owe_nobody)),
    _tool("granted though others are before it", LOCKS, (Locks, "_advance", _grant_as_soon_as_agreed)),
    _tool("read locks beside write locks", LOCKS, (Locks, "_try_read", _read_beside_writers)),
    _tool("a reader agrees to a writer", LOCKS, (Locks, "_agree", _agree_while_reading)),
    _tool(
        "requests in no one order",
        LOCKS,
        (Locks, "_post", _ask_in_causal_order),
        (Locks, "take", _take_any_order),
    ),
    _tool("a release is not heard", LOCKS, (LockTable, "drop", _release_nothing)),
    _tool("a joiner without the queue", LOCKS, (Locks, "restore", _join_without_the_queue)),
    _tool("results of nested calls are not retained", OBJECTS, (_module.Component, "_take_effect", _retain_nothing)),
    _tool(
        "effects are taken as often as they are told",
        OBJECTS,
        (_module.Component, "_take_effect", _take_every_effect),
        (_module.Component, "_execute_next", _execute_everywhere),
    ),
    _tool("cohorts do not take the effects", OBJECTS, (_module.Component, "_take_effect", _lose_effects)),
    _tool("no cohort takes over", OBJECTS, (_module, "choose_coordinator", _no_takeover)),
    _tool("a component joins without the state", OBJECTS, (_module.Component, "restore", _join_without_the_state)),
)


def tool_symptoms(seed: int, breaks: Sequence[str], programs: Sequence[str]) -> str | None:
    """What goes wrong in this seed's program, whatever it raises."""
    try:
        problems = run_program(seed, programs[0]).problems
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return problems[0] if problems else None
