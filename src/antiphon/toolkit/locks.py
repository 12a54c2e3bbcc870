"""Read and write locks that members of a group hold by name (isis-1987, 5.3), with fencing tokens.

    async with locks.write("ledger") as claim:          # waits for its turn
        with guard.admit(claim.token):                  # the resource compares tokens (token_guard.py)
            ...
    async with locks.read("ledger") as claim: ...

The rule.
  - A write lock is asked for by a `safe` message, so all members have the requests of an item in one queue. A request
    gets its token when it is delivered. It is served when it is first in the queue, and every member of the view has
    agreed; a member agrees once it holds no read lock on the item, and grants no read lock while a request is queued.
  - A read lock is granted by the member itself, at once if it knows of no request for the item; then it is registered
    with the others by a causal message, for which nobody waits.
  - Locks and requests of members that are gone in the next view are dropped at that view.
  - A holder that no longer reaches a majority, or was excluded, is told that it has lost the lock: the body of its
    `async with` is cancelled, and LockLostError is raised in its place.

One holder. Two members that are in the same view do not both hold an item for writing: one is not first in the queue.
Nor does one hold it for reading and another for writing: the reader has not agreed. What remains is a holder that the
others gave up and that does not know it yet. Nobody can prevent that; its token tells it apart.

Tokens rise. Requests get even tokens in the order of their `safe` delivery: each one more than the one before, and not
less than the requester's clock in nanoseconds, which the message carries. A view raises them by two for each step of
its id. A read lock gets the odd number above the last token that its member knows.
  - Within a group. A `safe` message that anybody has delivered is delivered by all that go on, at the same place, so
    no two requests get one token, whoever fails (with `agreed` they could: a member may deliver its own request first,
    and take that order with it). An item's queue is in the order of tokens, so a later holder has the higher one. A
    request that is delivered after a read lock was granted here has a token above it, and one before has one below it.
  - Over a partition. Only the majority delivers anything. What the minority holds was delivered before, and is lower.
  - After a restart of all members nothing is left of the group. Its successor takes tokens from its members' clocks.
    They are above the former ones if the clocks were not set back beyond the last request: tokens run ahead of the
    clocks only if there are more than 500 million requests a second. So nothing has to be stored by members.
  - If clocks were set back nevertheless, the guard refuses everybody (safe), with an error that says the token needed;
    `write(item, above=highest)` makes the tokens of the group rise above it. The guard's file is all that is on disk.
  - After `Group.recover` in error, two groups go on. Their tokens differ unless two clocks read the same nanosecond,
    and the resource admits one side at a time: the side with the higher token shuts out the other for good.

No deadlock on one item: it has one queue. Across items: the requests that are queued and the registered read locks show
who waits for whom; a task whose request closes a circle, and is the youngest in it, gets DeadlockError. A circle
through a read lock that another member's task waits for is not seen, and ends by the time-out.

Live: a request that is first waits for read locks to end and for members to agree; both end with their member's life.

Limits: CLAIMS_MAX claims of a member at a time; NAME_BYTES_MAX bytes in the name of an item.
"""

import asyncio
from types import TracebackType
from typing import Final, Literal, Self
from weakref import WeakKeyDictionary

import msgspec

from antiphon import Message, ProcessId, UsageError, View, current_environment
from antiphon.toolkit.errors import DeadlockError, LockLostError
from antiphon.toolkit.lock_table import Key, LockTable
from antiphon.toolkit.token_guard import TOKEN_MAX
from antiphon.toolkit.tools import Tool, Tools

CLAIMS_MAX: Final = 4096
NAME_BYTES_MAX: Final = 200
AT_MAX: Final = TOKEN_MAX // 4 * 3
"""A message that asks for a token above this (a time in the year 2079) is dropped, so that tokens cannot be used up."""

Mode = Literal["read", "write"]


class _Acquire(msgspec.Struct, array_like=True, tag="acquire"):
    item: str
    number: int
    task: int
    at: int


class _Release(msgspec.Struct, array_like=True, tag="release"):
    item: str
    number: int


class _Agree(msgspec.Struct, array_like=True, tag="agree"):
    item: str
    number: int


class _Register(msgspec.Struct, array_like=True, tag="register"):
    item: str
    number: int
    task: int


class _Unregister(msgspec.Struct, array_like=True, tag="unregister"):
    item: str
    number: int


_ENCODER: Final = msgspec.msgpack.Encoder()
_DECODER: Final = msgspec.msgpack.Decoder(_Acquire | _Release | _Agree | _Register | _Unregister)


class LockClaim:
    """One task's use of a lock, from the request to the release: `async with`, or `await acquire()` and `release()`.

    With `async with`, the body is cancelled when the lock is lost. Otherwise look at `is_held`, call `check`, or wait
    for `lost`.
    """

    def __init__(self, locks: "Locks", item: str, mode: Mode, timeout_s: float | None, above: int) -> None:
        self.item = item
        self.mode: Mode = mode
        self.token = 0
        """The fencing token; 0 until the lock is granted."""
        self.number = 0
        self.task = 0
        self.agreed: set[ProcessId] = set()
        """The members that have agreed to this request."""
        self._locks = locks
        self._timeout_s = timeout_s
        self.above = above
        self._granted: asyncio.Future[None] | None = None
        self._released = False
        self._lost = asyncio.Event()
        self._loss: str | None = None
        self._body: asyncio.Task[object] | None = None
        self._cancelling = 0

    def __repr__(self) -> str:
        state = "lost" if self._loss else "released" if self._released else "held" if self.token else "wanted"
        return f"<LockClaim to {self.mode} {self.item!r}: {state}, token {self.token}>"

    @property
    def is_held(self) -> bool:
        """Whether the lock is held, as far as this process knows."""
        return bool(self.token) and not self._released and self._loss is None

    def check(self) -> None:
        """Raise LockLostError if the lock was lost."""
        if self._loss is not None:
            raise LockLostError(f"the lock to {self.mode} {self.item!r}", self._loss) from None

    async def lost(self) -> None:
        """Wait until the lock is lost."""
        await self._lost.wait()

    async def acquire(self) -> Self:
        """Wait for the lock. Raises TimeoutError after the claim's `timeout_s`, DeadlockError, or what ended the
        group here."""
        if self._granted is not None:
            raise UsageError(f"{self!r} was used before; make a claim for each use")
        self._granted = asyncio.get_running_loop().create_future()
        try:
            async with asyncio.timeout(self._timeout_s):
                await self._locks.tools.live()
                self._locks.ask(self)
                await self._granted
        except BaseException as error:
            self.release()
            if isinstance(error, TimeoutError):
                why = f"the lock to {self.mode} {self.item!r} was not granted within {self._timeout_s:g} s"
                raise TimeoutError(why) from None
            raise
        return self

    def release(self) -> None:
        """Give the lock up, or the request for it. A second call does nothing."""
        if not self._released:
            self._released = True
            self._locks.give_up(self)

    def grant(self, token: int) -> None:
        """Note that the lock is held from now on."""
        assert self._granted is not None
        if not self._granted.done():
            self.token = token
            self._granted.set_result(None)

    def fail(self, error: Exception | str) -> None:
        """Note that the lock was lost, or will not be granted, and why."""
        if isinstance(error, str):
            error = LockLostError(f"the claim to {self.mode} {self.item!r}", error)
        if self._granted is not None and not self._granted.done():
            self._granted.set_exception(error)
        if self.is_held:
            self._loss = error.why if isinstance(error, LockLostError) else str(error)
            self._lost.set()
            if self._body is not None:
                self._body.cancel()

    @property
    def is_waiting(self) -> bool:
        """Whether the request is neither granted nor over."""
        return self._granted is not None and not self._granted.done() and not self._released

    async def __aenter__(self) -> Self:
        await self.acquire()
        self._body = asyncio.current_task()
        assert self._body is not None
        self._cancelling = self._body.cancelling()
        if self._loss is not None:
            self._body.cancel()  # lost between the grant and this task's turn
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        assert self._body is not None
        body, self._body = self._body, None
        self.release()
        if self._loss is not None:
            ours = body.uncancel() <= self._cancelling
            if error is None or (ours and isinstance(error, asyncio.CancelledError)):
                self.check()


class Locks(Tool):
    """The locks of a group, at one member."""

    def __init__(self, tools: Tools, name: str = "locks") -> None:
        super().__init__(tools, name)
        self.table = LockTable()
        self._claims: dict[int, LockClaim] = {}
        self._numbers = 0
        self._task_count = 0
        self._agreed_here: set[Key] = set()
        """The requests that this member has agreed to."""
        self._tasks: WeakKeyDictionary[asyncio.Task[object], int] = WeakKeyDictionary()

    def write(self, item: str, *, timeout_s: float | None = None, above: int = 0) -> LockClaim:
        """Claim an item for this task alone. `above`: a token that the resource has admitted and that the next one
        must exceed, if clocks were set back."""
        return LockClaim(self, self._check(item, timeout_s, above), "write", timeout_s, above)

    def read(self, item: str, *, timeout_s: float | None = None) -> LockClaim:
        """Claim an item together with other readers."""
        return LockClaim(self, self._check(item, timeout_s, 0), "read", timeout_s, 0)

    def holder(self, item: str) -> ProcessId | None:
        """Return the member that holds the item for writing, or is the next to hold it; as far as known here."""
        head = self.table.head(item)
        return None if head is None else head.owner

    def readers(self, item: str) -> list[ProcessId]:
        """Return the members that have registered read locks, as far as known here."""
        return sorted({process for process, _ in self.table.readers.get(item, ())})

    def waiting(self, item: str) -> list[ProcessId]:
        """Return the members whose requests are queued behind the first."""
        return [request.owner for request in self.table.queues.get(item, ())[1:]]

    def _check(self, item: str, timeout_s: float | None, above: int) -> str:
        if not 0 < len(item.encode(errors="replace")) <= NAME_BYTES_MAX:
            raise UsageError(f"the name of a lock has 1 to {NAME_BYTES_MAX} bytes; {item!r} has not")
        if timeout_s is not None and timeout_s < 0:
            raise UsageError(f"timeout_s={timeout_s} is negative; give seconds, or None to wait for ever")
        if not 0 <= above <= AT_MAX:
            raise UsageError(f"above={above} is no token; take it from StaleTokenError.highest")
        return item

    # ---- for claims --------------------------------------------------------------------------------------------------

    def ask(self, claim: LockClaim) -> None:
        """Send a request for a write lock, or grant a read lock if nothing stands against it."""
        if len(self._claims) >= CLAIMS_MAX:
            raise UsageError(f"this member has {CLAIMS_MAX} claims; release some before you make more")
        task = asyncio.current_task()
        assert task is not None
        if task not in self._tasks:
            self._task_count += 1
            self._tasks[task] = self._task_count
        claim.task = self._tasks[task]
        for other in self._claims.values():
            if other.is_held and other.task == claim.task and other.item == claim.item:
                raise UsageError(f"this task holds {claim.item!r} already, to {other.mode}: release that first")
        self._numbers += 1
        claim.number = self._numbers
        self._claims[claim.number] = claim
        if claim.mode == "read":
            self._try_read(claim)
        else:
            at = max(current_environment().time_ns(), claim.above + 1)
            self._post(_Acquire(claim.item, claim.number, claim.task, min(at, AT_MAX)), order="safe")

    def give_up(self, claim: LockClaim) -> None:
        """Tell the others that a claim is over."""
        if self._claims.pop(claim.number, None) is None or self.tools.error is not None:
            return
        if claim.mode == "write":
            self._post(_Release(claim.item, claim.number))
        elif claim.token:
            self._post(_Unregister(claim.item, claim.number))
            self._agree(claim.item)

    def _try_read(self, claim: LockClaim) -> None:
        if self.tools.is_live and self.table.head(claim.item) is None:
            claim.grant(self.table.last + 1)
            self._post(_Register(claim.item, claim.number, claim.task))

    def _post(
        self,
        message: _Acquire | _Release | _Agree | _Register | _Unregister,
        order: Literal["causal", "safe"] = "causal",
        to: ProcessId | None = None,
    ) -> None:
        self.tools.post(self, _ENCODER.encode(message), order=order, to=to)

    # ---- what the group delivers -------------------------------------------------------------------------------------

    def take(self, event: Message, payload: bytes) -> None:
        message = _DECODER.decode(payload)
        key = (event.sender, message.number)
        match message:
            case _Acquire():
                if event.order != "safe" or not 0 <= message.at <= AT_MAX:
                    self.tools.strays += 1
                    return
                self.table.request(message.item, event.sender, message.number, message.task, message.at)
                if event.sender == self.tools.process and message.number not in self._claims:
                    self._post(_Release(message.item, message.number))  # given up before it was delivered
                self._agree(message.item)
            case _Release():
                self.table.drop(message.item, key)
                self._agreed_here.discard(key)
            case _Agree():
                claim = self._claims.get(message.number)
                if claim is not None:
                    claim.agreed.add(event.sender)
            case _Register():
                self.table.register(message.item, key, message.task)
            case _Unregister():
                self.table.unregister(message.item, key)
        self._advance(message.item)

    def install(self, view: View, gone: tuple[ProcessId, ...]) -> None:
        self.table.install(view.id, view.members)

    def resume(self) -> None:
        """Agree to what is owed, also from before this member had the state, and see who is served now."""
        self._agreed_here = {key for key in self._agreed_here if key[0] in self.tools.view.members}
        items = {claim.item for claim in self._claims.values()} | set(self.table.queues)
        for item in sorted(items):
            self._agree(item)
            self._advance(item)

    def suspend(self, why: str, excluded: bool) -> None:
        """What is held is lost; requests survive a stall, but not an exclusion."""
        if excluded:
            self._agreed_here.clear()
        for claim in list(self._claims.values()):
            if claim.is_held or excluded:
                claim.fail(why)
                if excluded:
                    del self._claims[claim.number]
                else:
                    self.give_up(claim)

    def end(self, error: Exception) -> None:
        for claim in self._claims.values():
            claim.fail(error)
        self._claims.clear()

    def close(self) -> None:
        for claim in list(self._claims.values()):
            claim.fail("the tools were closed")
            claim.release()

    def export(self) -> bytes:
        return self.table.export()

    def restore(self, state: bytes) -> None:
        self.table.restore(state)

    def _agree(self, item: str) -> None:
        """Agree to the requests for an item, unless a task here holds it for reading."""
        if any(claim.mode == "read" and claim.item == item and claim.token for claim in self._claims.values()):
            return
        me = self.tools.process
        for request in self.table.queues.get(item, ()):
            if me not in request.owed or request.key in self._agreed_here:
                continue
            self._agreed_here.add(request.key)
            if request.owner != me:
                self._post(_Agree(item, request.number), to=request.owner)
            elif request.number in self._claims:
                self._claims[request.number].agreed.add(me)

    def _advance(self, item: str) -> None:
        """Grant what can be granted here, and end what waits for itself."""
        if not self.tools.is_live:
            return
        head = self.table.head(item)
        if head is not None and head.owner == self.tools.process:
            claim = self._claims.get(head.number)
            if claim is not None and claim.is_waiting and head.owed <= claim.agreed:
                claim.grant(head.token)
        for claim in list(self._claims.values()):
            if not claim.is_waiting:
                continue
            if claim.mode == "read" and head is None and claim.item == item:
                self._try_read(claim)
            elif self._is_deadlocked(claim):
                claim.fail(DeadlockError(f"the lock to {claim.mode} {claim.item!r}"))

    def _is_deadlocked(self, claim: LockClaim) -> bool:
        party = (self.tools.process, claim.task)
        key = (self.tools.process, claim.number)
        request = self.table.find(claim.item, key)
        if claim.mode == "write" and request is None:
            return False  # not delivered yet
        if request is None:
            writers = [each.party for each in self.table.queues.get(claim.item, ())]
            return self.table.is_deadlocked(party, writers, TOKEN_MAX)
        return self.table.is_deadlocked(party, self.table.blockers(claim.item, key), request.token)
