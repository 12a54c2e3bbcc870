"""A copy of a replicated object at a member of a `primary` group; a tool, so that it can share the group with others.

    call ──▶ pack ──▶ safe message ──▶ executed at every member, in one order ──▶ file ──▶ reports ──▶ the call returns

The rule. What is called in one turn of the event loop travels as one pack, by a `safe` message. Every member executes
the packs in the order of their delivery, so all copies are equal at equal places. A joiner gets the state at one place
of that order (tools.py). Without a file, a call returns when it was executed here: by then every member has it, and
executes it unless it fails. With files, it returns when it is on enough disks (durability.py).

Reading. `agreed` sends a mark with the packs and returns when it comes back, and when all that was executed here before
is on enough disks: every operation that had returned anywhere before is executed here by then, since its pack was
delivered before the mark; and nothing that is read can be lost.

A restart. A founder with a file begins without a state: all members tell, by safe messages in each view, what their
files hold (`RestartRound`). All come to the same decision at the same place. Those present promise the new epoch, on
disk; then the winner sends its state to all, in parts, and with the last part the object is live, at all members. A new
view begins the round anew. So does a view that does not hold a quorum of the one before: an operator had a minority go
on (`Group.recover`), and the others, whose files may hold more, may have gone on before they failed.

What fails a call: an exclusion (ExcludedError: executed or not, nobody here can know), the end of the membership, a
disk that fails (ObjectDiskError), a restart (ObjectRestartError), and `timeout_s`: a group without a majority waits for
it, and so do calls.

Limits: those of own_calls.py; and what waits for the disk (object_log.py).
"""

import asyncio
import logging
from collections import deque
from collections.abc import Coroutine
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, Literal

import msgspec

from antiphon import (
    AntiphonError,
    ClosedError,
    Group,
    Message,
    MessageTooLargeError,
    Order,
    ProcessId,
    UsageError,
    View,
    log_event,
)
from antiphon.toolkit.durability import (
    FileContent,
    counted,
    decide,
    have_quorums,
    index_on_disks,
    is_quorum,
    missing,
)
from antiphon.toolkit.errors import ObjectDiskError, ObjectRestartError, StateError
from antiphon.toolkit.messages import from_wire, to_wire
from antiphon.toolkit.object_log import (
    BaseRecord,
    ObjectLog,
    ObjectRecord,
    ObjectSnapshot,
    PackRecord,
    PromiseRecord,
    ViewRecord,
)
from antiphon.toolkit.object_messages import (
    CallPack,
    CopyMessage,
    CopyState,
    DiskReport,
    DisksGivenUp,
    EpochPromise,
    FileReport,
    RestartRound,
    StatePart,
    WinningState,
)
from antiphon.toolkit.object_state import adopt, decode_state, encode_state
from antiphon.toolkit.operations import NotAnOperationError, OperationCall, OperationMethod, apply_call
from antiphon.toolkit.own_calls import PACK_BYTES_MAX, OwnCalls, resolve
from antiphon.toolkit.tools import OVERHEAD_BYTES, Tool, Tools

if TYPE_CHECKING:
    from antiphon.toolkit.replicated import ReplicatedObject

PART_BYTES: Final = 256 * 1024
WAITING_S: Final = 10.0
"""How often a copy that waits for other members' disks says so in the log."""
MARK: Final = msgspec.msgpack.encode(None)
"""A call that executes nothing."""

Consistency = Literal["local", "mine", "agreed"]
_ENCODER: Final = msgspec.msgpack.Encoder()
_DECODER: Final = msgspec.msgpack.Decoder(CopyMessage)
_STATE: Final = msgspec.msgpack.Decoder(CopyState)
_WINNING: Final = msgspec.msgpack.Decoder(WinningState)


class GroupCopy(Tool):
    """One member's copy."""

    def __init__(
        self,
        target: "ReplicatedObject",
        place: Group | Tools,
        name: str,
        order: Order,
        file: ObjectLog | None,
        founders: tuple[str, ...],
        timeout_s: float,
    ) -> None:
        self._owns_tools = not isinstance(place, Tools)
        super().__init__(place if isinstance(place, Tools) else Tools(place), name)
        if file is not None and not founders:
            raise UsageError(
                "an object on disk needs to know who is there in the beginning: give all copies the same `founders`"
            )
        self.place = self.tools.group
        self.strays = 0
        self.error: Exception | None = None
        self._target = target
        self._order = order
        self._file = file
        self._founders = founders
        self._timeout_s = timeout_s
        self._epoch = 0
        self._index = 0
        self._operations = 0
        self._bases: list[list[str]] = []
        self._reports: dict[str, int] = {}
        """By name, how far the files of the members of this view are synced."""
        self._members: tuple[ProcessId, ...] = ()
        self._view_index = 0
        """Where the last view stands."""
        self._promised = 0
        self._is_new = True
        self._loaded = file is None
        self._restart: RestartRound | None = None if file is None else RestartRound(0, False, {})
        """The restart that is under way; None: the object is live."""
        self._told_view = 0
        self._calls = OwnCalls(timeout_s, self._post_pack, self._state)
        self._unacknowledged: deque[tuple[int, asyncio.Future[Any], Any, Exception | None]] = deque()
        """Own calls that were executed and are not on enough disks, with their index and what came of them."""
        self._changed = asyncio.Event()
        self._dirty = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()

    # ---- for the object ----------------------------------------------------------------------------------------------

    async def begin(self) -> None:
        self._load()
        if self._owns_tools:
            await self.tools.__aenter__()
        await self._ready()

    async def finish(self) -> None:
        if self._owns_tools:
            await self.tools.close()
        self.end(ClosedError(f"this copy of the object in group {self.place.name!r} was closed"))
        self._calls.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._file is not None:
            self._file.close()

    async def call(self, method: OperationMethod[Any, Any, Any], payload: bytes) -> Any:
        bytes_max = int(getattr(self.place, "message_bytes_max", PACK_BYTES_MAX)) - 2 * OVERHEAD_BYTES
        if len(payload) > bytes_max:
            raise MessageTooLargeError(len(payload), bytes_max)
        return await self._issue(payload)

    async def catch_up(self, consistency: Consistency) -> None:
        match consistency:
            case "local":
                return
            case "mine":
                own = [*self._calls.open.values(), *(each[1] for each in self._unacknowledged)]
                if own:
                    await asyncio.wait(own)
            case "agreed":
                if self._order == "causal":
                    raise UsageError("an object whose operations are `causal` has no agreed state; read it as it is")
                await self._issue(MARK)
            case _:
                raise UsageError(f"a reading is `local`, `mine` or `agreed`, not {consistency!r}")

    async def settled(self, timeout_s: float | None) -> None:
        async with asyncio.timeout(timeout_s):
            await self.catch_up("mine")
            await self.tools.flush()

    async def go_on_without(self, confirm: str) -> None:
        if self._file is None:
            raise UsageError("only an object on disk waits for disks")
        if confirm != self.place.name:
            raise UsageError(f"to give up disks for good, confirm it by the name of the group, {self.place.name!r}")
        await self.tools.live()
        await self.tools.send(self, _ENCODER.encode(DisksGivenUp()), order="safe")

    def waits_for(self) -> list[str]:
        """Return the members without whose disks the object does not come back; empty if it has."""
        if self._restart is None:
            return []
        return missing(self._restart.known, [self._founders])

    # ---- calls -------------------------------------------------------------------------------------------------------

    async def _issue(self, payload: bytes) -> Any:
        if self.error is not None or self._restart is not None or not self.tools.is_live or self._calls.is_full:
            await self._wait_to_issue()
        return await self._calls.issue(payload)

    async def _wait_to_issue(self) -> None:
        """Wait until a call can be sent."""
        patience = asyncio.timeout(self._timeout_s)
        try:
            async with patience:
                await self._ready()
                while self._calls.is_full:
                    self._changed.clear()
                    await self._changed.wait()
                    await self._ready()
        except TimeoutError:
            if not patience.expired():
                raise
            raise TimeoutError(f"the call was not sent in {self._timeout_s:g} s: {self._state()}") from None

    def _state(self) -> str:
        if self._restart is not None:
            return f"the object waits for the disks of {', '.join(self.waits_for()) or 'nobody'}"
        return "the group is live" if self.tools.is_live else "the group has no majority here"

    async def _ready(self) -> None:
        """Wait until calls can be executed; raises what ended the object here."""
        while True:
            if self.error is not None:
                raise self.error
            if self.tools.error is not None:
                raise self.tools.error
            if self._restart is None and self.tools.is_live:
                return
            self._changed.clear()
            try:
                async with asyncio.timeout(WAITING_S):
                    await self._changed.wait()
            except TimeoutError:
                log_event(logging.WARNING, "object_waiting", self._state(), object=self.name, group=self.place.name)

    def _post_pack(self, first: int, calls: list[msgspec.Raw]) -> None:
        self._post(CallPack(first, calls))  # type: ignore[arg-type]  # encoded already

    def _post(self, message: Any, order: Order | None = None) -> None:
        self.tools.post(self, _ENCODER.encode(message), order=order or self._order)

    # ---- what the group delivers -------------------------------------------------------------------------------------

    def take(self, event: Message, payload: bytes) -> None:
        message = _DECODER.decode(payload)
        match message:
            case CallPack():
                self._execute(event.sender, message)
            case DiskReport():
                self._hear_report(event.sender, message)
            case FileReport():
                self._hear_file(event.sender, message)
            case EpochPromise():
                self._hear_promise(event.sender, message)
            case StatePart():
                self._hear_part(event.sender, message)
            case DisksGivenUp():
                self._give_up_disks()

    def _execute(self, sender: ProcessId, pack: CallPack) -> None:
        if self._restart is not None or self.error is not None:
            return
        calls = [call for call in pack.calls if call is not None]
        if calls:
            self._index += 1
            self._operations += 1
        own = sender == self.tools.process
        for place, call in enumerate(pack.calls):
            result, error = self._execute_call(call)
            future = self._calls.take(pack.first + place) if own else None
            if future is not None:
                if self._file is None:
                    resolve(future, result, error)
                else:
                    self._unacknowledged.append((self._index, future, result, error))
            elif error is not None:
                log_event(logging.DEBUG, "operation_failed", str(error), member=sender)
        if own:
            self._changed.set()
        if calls:
            self._write(PackRecord(self._index, calls))
        elif own:
            self._acknowledge()

    def _execute_call(self, call: OperationCall | None) -> tuple[Any, Exception | None]:
        if call is None:
            return None, None
        try:
            return apply_call(self._target, call), None
        except NotAnOperationError as error:
            self.strays += 1
            return None, error
        except Exception as error:
            return None, error

    def install(self, view: View, gone: tuple[ProcessId, ...]) -> None:
        self._load()
        before, self._members = self._members, view.members
        stayed = set(before).intersection(view.members)
        if self._file is not None and self._restart is None and before and not is_quorum(stayed, before):
            self._restart = RestartRound(view.id, False, {})
            self._fail_calls(ObjectRestartError(self.name))
        if self._restart is not None:
            self._restart = RestartRound(view.id, self._restart.forced, {})
            return
        if self._file is None:
            return
        names = [member.name for member in view.members]
        self._reports = {member.name: self._reports[member.name] for member in stayed if member.name in self._reports}
        self._index = self._view_index = self._index + 1
        self._bases.append(names)
        self._write(ViewRecord(self._index, names))

    def suspend(self, why: str, excluded: bool) -> None:
        if excluded:
            self._fail_calls(self.tools.lost_error())
            self._members = ()

    def resume(self) -> None:
        if self._restart is not None and self._told_view != self._restart.view_id:
            self._told_view = self._restart.view_id
            bases = [list(self._founders)] if self._is_new else self._bases
            content = FileContent(self._epoch, self._index, self._promised, self._operations, bases, self._is_new)
            self._post(FileReport(self._restart.view_id, content), "safe")
        self._changed.set()

    def end(self, error: Exception) -> None:
        if self.error is None:
            self.error = error
        self._fail_calls(self.error)

    def _fail_calls(self, error: Exception) -> None:
        failed = [*self._calls.forget(), *(each[1] for each in self._unacknowledged)]
        self._unacknowledged.clear()
        for future in failed:
            resolve(future, None, error)
        self._changed.set()

    # ---- the file ----------------------------------------------------------------------------------------------------

    def _load(self) -> None:
        """Take over what the file holds."""
        if self._loaded:
            return
        assert self._file is not None
        self._loaded = True
        for record in self._file.load():
            self._is_new = False
            self._replay(record)
        self._background(self._keep_synced())

    def _replay(self, record: ObjectRecord) -> None:
        match record:
            case ObjectSnapshot():
                self._epoch, self._index, self._promised = record.epoch, record.index, record.promised
                self._operations, self._bases = record.operations, record.bases
                adopt(self._target, decode_state(self._target, record.state))
            case PackRecord():
                self._index = record.index
                self._operations += 1
                for call in record.calls:
                    self._execute_call(call)
            case ViewRecord():
                self._index = record.index
                self._bases.append(record.members)
            case BaseRecord():
                self._bases = self._bases[-1:]
            case PromiseRecord():
                self._promised = record.epoch

    def _write(self, record: ObjectRecord) -> None:
        if self._file is None:
            return
        if self._file.is_long:
            self._write_all()
        else:
            self._file.append(record)
            self._dirty.set()

    def _write_all(self) -> None:
        if self._file is not None:
            held = (self._epoch, self._index, self._promised, self._operations, self._bases)
            self._file.replace(ObjectSnapshot(*held, encode_state(self._target)))
            self._dirty.set()

    async def _keep_synced(self) -> None:
        """Sync the file whenever something waits, and tell the others how far it is."""
        assert self._file is not None
        while True:
            await self._dirty.wait()
            self._dirty.clear()
            epoch, index, promised = self._epoch, self._index, self._promised
            try:
                await self._file.sync()
            except OSError as error:
                self._fail_disk(error)
                return
            if self._restart is None:
                if epoch == self._epoch and index:
                    self._post(DiskReport(epoch, index), "causal")
                    self._note_report(self.tools.process, index)
            elif self._restart.decision is not None and promised == self._restart.decision.epoch:
                self._post(EpochPromise(self._restart.view_id, promised), "safe")

    def _fail_disk(self, error: OSError) -> None:
        assert self._file is not None
        log_event(logging.ERROR, "object_disk_failed", str(error), object=self.name, file=str(self._file.path))
        self.end(ObjectDiskError(str(self._file.path), error))
        self._background(self._leave())

    async def _leave(self) -> None:
        leave = getattr(self.place, "leave", None)
        if leave is not None:
            with suppress(AntiphonError):
                await leave()

    def _background(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _hear_report(self, sender: ProcessId, report: DiskReport) -> None:
        if self._restart is not None or report.epoch != self._epoch or sender not in self._members:
            return
        self._note_report(sender, report.index)

    def _note_report(self, member: ProcessId, index: int) -> None:
        self._reports[member.name] = max(index, self._reports.get(member.name, 0))
        if len(self._bases) > 1 and self._view_index <= index_on_disks(self._reports, self._bases):
            self._bases = self._bases[-1:]
            self._write(BaseRecord())
        self._acknowledge()

    def _acknowledge(self) -> None:
        """Return to their callers the calls that are on enough disks."""
        if not self._unacknowledged:
            return
        reached = index_on_disks(self._reports, self._bases)
        while self._unacknowledged and self._unacknowledged[0][0] <= reached:
            _, future, result, error = self._unacknowledged.popleft()
            resolve(future, result, error)

    # ---- restart -----------------------------------------------------------------------------------------------------

    def _hear_file(self, sender: ProcessId, report: FileReport) -> None:
        restart = self._restart
        if restart is None or report.view_id != restart.view_id or sender not in self._members:
            return
        restart.known[sender.name] = report.content
        self._decide(restart)

    def _decide(self, restart: RestartRound) -> None:
        ranks = [member.name for member in self._members]
        if restart.decision is not None or not restart.known:
            return
        if restart.forced and restart.known.keys() != set(ranks):
            return
        restart.decision = decision = decide(restart.known, ranks, restart.forced)
        if decision is not None and self.tools.process.name in counted(restart.known, restart.known[decision.winner]):
            self._promise(decision.epoch)
        self._changed.set()

    def _promise(self, epoch: int) -> None:
        """Promise the epoch, on disk; `_keep_synced` tells the others when that is done."""
        assert self._file is not None
        self._promised = epoch
        if self._is_new:
            self._is_new = False
            self._bases = [list(self._founders)]
            self._write_all()
        else:
            self._file.append(PromiseRecord(epoch))
            self._dirty.set()

    def _hear_promise(self, sender: ProcessId, promise: EpochPromise) -> None:
        restart = self._restart
        if restart is None or restart.decision is None or sender not in self._members:
            return
        if (promise.view_id, promise.epoch) != (restart.view_id, restart.decision.epoch):
            return
        before = self._has_promises(restart)
        if sender.name not in restart.promised:
            restart.promised.append(sender.name)
        if not before and self._has_promises(restart) and restart.decision.winner == self.tools.process.name:
            self._send_state(restart.view_id)

    def _has_promises(self, restart: RestartRound) -> bool:
        assert restart.decision is not None
        decision = restart.decision
        if decision.winner not in restart.promised:
            return False
        counting = counted(restart.known, restart.known[decision.winner])
        return have_quorums(counting.intersection(restart.promised), decision.bases)

    def _send_state(self, view_id: int) -> None:
        data = _ENCODER.encode(WinningState(self._index, self._operations, encode_state(self._target)))
        count = -(-len(data) // PART_BYTES)
        for index in range(count):
            part = data[index * PART_BYTES : (index + 1) * PART_BYTES]
            self._post(StatePart(view_id, index, count, part), "safe")

    def _hear_part(self, sender: ProcessId, part: StatePart) -> None:
        restart = self._restart
        if restart is None or restart.decision is None or part.view_id != restart.view_id:
            return
        if sender.name != restart.decision.winner or part.index != len(restart.parts):
            return
        restart.parts.append(part.data)
        if len(restart.parts) == part.count:
            won = _WINNING.decode(b"".join(restart.parts))
            self._index, self._operations = won.index, won.operations
            adopt(self._target, decode_state(self._target, won.state))
            self._begin_epoch(restart.decision.epoch, restart.decision.bases)

    def _begin_epoch(self, epoch: int, bases: list[list[str]]) -> None:
        """The object is live, in a new epoch, whose first base is the view of now beside those before."""
        self._restart = None
        self._epoch = epoch
        self._promised = max(self._promised, epoch)
        self._index = self._view_index = self._index + 1
        self._bases = [*bases, [member.name for member in self._members]]
        self._reports = {}
        self._is_new = False
        self._write_all()
        self._changed.set()

    def _give_up_disks(self) -> None:
        if self._restart is not None:
            self._restart.forced = True
            self._restart.decision = None
            self._restart.promised, self._restart.parts = [], []
            self._decide(self._restart)
        elif self._file is not None:
            self._begin_epoch(self._epoch + 1, [])

    # ---- state transfer ----------------------------------------------------------------------------------------------

    def export(self) -> bytes:
        self._load()
        members = [to_wire(member) for member in self._members]
        copy = (self._epoch, self._index, self._view_index, self._operations, self._bases, self._reports, members)
        return _ENCODER.encode(CopyState(self._file is not None, *copy, self._restart, encode_state(self._target)))

    def restore(self, state: bytes) -> None:
        self._load()
        restored = _STATE.decode(state)
        if self.error is not None:
            return
        if restored.has_files != (self._file is not None):
            raise UsageError(
                f"the other copies of {self.name!r} are {'' if restored.has_files else 'not '}on disk, and this one is "
                f"{'not' if restored.has_files else 'so'}: give all a `path`, or none"
            )
        self._members = tuple(from_wire(member) for member in restored.members)
        self._restart = restored.restart
        if self._restart is not None:
            return
        if (self._epoch, self._index) > (restored.epoch, restored.index):
            self.end(
                StateError(
                    f"the file of this copy of {self.name!r} holds more than the other members have: they were started "
                    "from older disks; stop all, and start them again together with this one"
                )
            )
            return
        self._epoch, self._index, self._operations = restored.epoch, restored.index, restored.operations
        self._bases, self._reports, self._view_index = restored.bases, restored.reports, restored.view_index
        self._promised = max(self._promised, self._epoch)
        self._is_new = False
        adopt(self._target, decode_state(self._target, restored.state))
        self._write_all()
