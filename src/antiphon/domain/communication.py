"""One member of a domain that is linked with other domains. What is promised, and why, is in stacks/domain/export.py.

Every member feeds the same records, in the agreed order of the group, to its own `DomainExports`. Members that were
given `listen` or `links` are relays. There may be several in a domain: all of them know everything, and the first one
in the order of the view does the work until it is gone.

A process that comes into the group later gets the state from the oldest member that has it, as of the beginning of a
view, and until then holds back what it reads. If that member fails first, the next one tells it in the next view. One
that was excluded forgets its state and comes back in the same way, as another incarnation: what the former one had
called for and the group had not taken is lost with it.

What the application sends and is handed is recorded under names that are the same in all domains (history.py).

Limits: EVENTS_MAX events that the application has not read, then the group is not read either, and its senders wait;
EARLY_MAX messages that a newcomer holds back, then its reader ends with LateStateError.
"""

import asyncio
import ssl
from collections.abc import Coroutine, Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Final, Self

from antiphon.domain.history import DomainHistory
from antiphon.domain.relay import RECEIVED_MAX, Relay
from antiphon.domain.wire import (
    AckedRecord,
    DomainState,
    FrameBody,
    GlobalRecord,
    HeldRecord,
    ImportRecord,
    LocalRecord,
    Record,
    RelayHere,
    decode_record,
    encode,
    frame_of,
    restore,
    state_of,
)
from antiphon.kernel.errors import AntiphonError, UsageError
from antiphon.kernel.identity import ProcessId
from antiphon.kernel.levels import Order
from antiphon.kernel.policies import PARTITIONABLE
from antiphon.runtime.events import Excluded, Message, ViewChange
from antiphon.runtime.group import Group
from antiphon.stacks.domain.export import AGREED_EXPORT, CAUSAL_EXPORT, SAFE_EXPORT, DomainExports

FIRST_VIEW: Final = 1
EVENTS_MAX: Final = 20_000
EARLY_MAX: Final = 100_000
BATCH_MAX: Final = 64
ACKED_EVERY: Final = 32
LEVELS: Final = {"causal": CAUSAL_EXPORT, "agreed": AGREED_EXPORT, "safe": SAFE_EXPORT}
NAMES: Final = {level: name for name, level in LEVELS.items()}


class LateStateError(AntiphonError):
    """A newcomer had to hold back too much before it was told the state of its domain."""

    def __init__(self, group: str) -> None:
        super().__init__(
            f"{EARLY_MAX} messages came in group {group!r} before the state of the domain; see that its oldest member "
            "is not overloaded, and join again"
        )
        self.group = group


@dataclass(frozen=True, slots=True, kw_only=True)
class DomainMessage:
    """A message of a member of this domain or of another one."""

    payload: bytes
    sender: str
    """ "name/incarnation"."""
    number: int
    """Among what its sender, in this incarnation, has sent to these domains: 1, 2, 3…"""
    domain: str
    """The domain that it was sent in."""
    order: str
    domains: tuple[str, ...]
    """The domains that it is for."""


DomainEvent = DomainMessage | ViewChange | Excluded


class CommunicationDomain:
    """Reads the stream of `group`, which nobody else may read. All members of the group use it alike."""

    def __init__(
        self,
        group: Group,
        domain: str,
        domains: Sequence[str],
        *,
        listen: str | None = None,
        links: Mapping[str, Sequence[str]] | None = None,
        routes: Mapping[str, str] | None = None,
        tls: tuple[ssl.SSLContext, ssl.SSLContext] | None = None,
        name: str = "",
    ) -> None:
        """`domains` names all domains, alike everywhere. `links` has addresses of relays of neighbouring domains,
        `routes` says by which neighbour a domain without a link is reached. `tls`: contexts for listening and for
        dialling; without them links are sealed by the keys of the node, or plain where that is (docs/security.md).
        `name` tells histories of several sets of linked domains apart, where a node is in more than one; it is the
        same in all domains."""
        if domain not in domains or len(set(domains)) != len(domains):
            raise UsageError(f"`domains` must name {domain!r} and each other domain once, not {list(domains)!r}")
        if group.policy == PARTITIONABLE:
            raise UsageError("a domain with relays needs one line of views: join its group with the policy `primary`")
        unknown = sorted({*(links or {}), *(routes or {}), *(routes or {}).values()} - set(domains))
        if unknown:
            raise UsageError(f"`links` and `routes` name {unknown[0]!r}, which is not of `domains`, {list(domains)!r}")
        self.group = group
        self.domain = domain
        self.exports = DomainExports(domain, tuple(domains))
        self._history = DomainHistory(group._driver, name, domain, domains)
        self._relay: Relay | None = None
        if listen is not None or links:
            self._relay = Relay(
                self.exports, listen, links or {}, routes or {}, tls, group.trust, self._receive, self._acknowledged
            )
        self.strays = 0
        """Records and frames that were dropped because no member and no relay that goes by the rules sends such."""
        self._has_state = False
        self._view_id = 0
        self._lacking: set[ProcessId] = set()
        """Members that came later and have not been told the state."""
        self._early: list[tuple[Message, Record]] = []
        """What came before the state."""
        self._held: list[HeldRecord] = []
        self._ordered_sent = 0
        self._received: dict[str, dict[int, FrameBody]] = {}
        """By domain and number, what came over links and is not imported yet."""
        self._importing: dict[str, int] = {}
        """By domain, up to which number its frames are in records on their way."""
        self._acked: dict[str, int] = {}
        self._members: tuple[ProcessId, ...] = ()
        self._relays: set[ProcessId] = set()
        self._events: asyncio.Queue[tuple[int, DomainEvent | None]] = asyncio.Queue()
        """What the application has not read, and in which view of the history."""
        self._room = asyncio.Event()
        self._entered = asyncio.Event()
        """Set while this member is in the group, or its stream has ended."""
        self._sending = asyncio.Lock()
        self._error: Exception | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    def __repr__(self) -> str:
        relay = "" if self._relay is None else ", a relay"
        return f"<CommunicationDomain {self.domain!r}, group {self.group.name!r}{relay}>"

    async def __aenter__(self) -> Self:
        self._history.claim()
        if self._relay is not None:
            await self._relay.start()
        self._start(self._read())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._relay is not None:
            await self._relay.close()
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._history.close()

    @property
    def address(self) -> str:
        """Where relays of other domains reach this one; empty if it does not listen."""
        return "" if self._relay is None else self._relay.address

    @property
    def link_bytes(self) -> int:
        """Bytes that this relay has sent over links."""
        return 0 if self._relay is None else self._relay.bytes_sent

    async def send(self, payload: bytes, *, to: Sequence[str] = (), order: Order = "causal") -> None:
        """Send to all members of this domain, and of the domains `to`. Messages leave in the order of the calls. Raises
        UsageError and MessageTooLargeError, as `Group.send` does."""
        if not isinstance(payload, bytes):
            raise UsageError(f"a payload is bytes, not {type(payload).__name__}; encode it first")
        if isinstance(to, str):
            raise UsageError(f"`to` is a list of domains, not a text; write to=[{to!r}]")
        others = set(to) - {self.domain}
        if not others:
            if order not in self.group._offered.levels:
                raise UsageError(f"there is no level {order!r}; levels: {list(self.group._offered.levels)}")
            async with self._sending:
                await self._entered.wait()
                await self._send((self.domain,), payload, order)
            return
        unknown = sorted(others - set(self.exports.domains))
        if unknown or order not in LEVELS:
            problem = f"there is no domain {unknown[0]!r}" if unknown else f"no level {order!r} goes beyond a domain"
            raise UsageError(f"{problem}; domains: {list(self.exports.domains)}, levels: {list(LEVELS)}")
        async with self._sending:
            await self._entered.wait()
            while self.exports.is_full():
                await asyncio.sleep(0.05)
            await self._send(tuple(sorted({self.domain, *others})), payload, order)

    async def _send(self, domains: tuple[str, ...], payload: bytes, order: Order) -> None:
        """Multicast a message as a record. One for several domains is safe, whatever its level (rule 7)."""
        after, incarnation = self._ordered_sent, self.group.process.incarnation
        number = self._history.call(domains, order, payload)
        record: Record = LocalRecord(incarnation, number, after, payload)
        ordered = False
        if len(domains) > 1:
            record = GlobalRecord(incarnation, number, after, LEVELS[order], domains, payload)
            ordered = order != "causal"
        self._ordered_sent += ordered
        try:
            await self.group.send(encode(record), order=order if len(domains) == 1 else "safe")
        except AntiphonError:  # it is too large, so nothing is to wait for it; or the group is over
            if self.group.process.incarnation == incarnation:
                self._ordered_sent -= ordered
            raise
        if self.group.process.incarnation == incarnation:
            self._history.depart(domains, number, len(payload))

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> DomainEvent:
        view_id, event = await self._events.get()
        self._room.set()
        if event is None:
            self._events.put_nowait((view_id, None))
            if self._error is not None:
                raise self._error
            raise StopAsyncIteration
        if isinstance(event, DomainMessage) and view_id == self._history.view_id:  # else its life is over
            self._history.deliver(event.domains, event.sender, event.number, event.order, event.payload)
        return event

    # ---- the stream of the group -----------------------------------------------------------------------------------

    async def _read(self) -> None:
        try:
            async for event in self.group:
                if isinstance(event, ViewChange):
                    self._install(event)
                elif isinstance(event, Excluded):
                    self._lapse(event)
                elif isinstance(event, Message):
                    record = decode_record(event.payload)
                    if record is not None:
                        self._take(event, record)
                while self._events.qsize() >= EVENTS_MAX:
                    self._room.clear()
                    await self._room.wait()
        except AntiphonError as error:
            self._error = error
        finally:
            self._entered.set()
            self._put(None)
            if self._relay is not None:
                self._relay.leave()

    def _put(self, event: DomainEvent | None) -> None:
        """Have the application read this next."""
        self._events.put_nowait((self._history.view_id, event))

    def _lapse(self, excluded: Excluded) -> None:
        """The others went on without this process: forget everything, and begin as a newcomer in its next life."""
        self._put(excluded)
        self._entered.clear()
        self._history.lapse()
        self._has_state = False
        self._members = ()
        self._ordered_sent = 0
        for table in (self._lacking, self._early, self._held, self._received, self._importing, self._acked):
            table.clear()
        self._relays.clear()
        restore(self.exports, state_of(DomainExports(self.domain, self.exports.domains), 0, []))
        if self._relay is not None:
            self._relay.leave()

    def _install(self, change: ViewChange) -> None:
        view = change.view
        if not self._members:
            self._has_state = view.id == FIRST_VIEW or len(view.members) == 1
            self._history.open(self.group.process, self._has_state)
            self._entered.set()
            if self._relay is not None:
                self._relay.is_out = False
        else:
            self._lacking.update(change.joined)
        self._view_id = view.id
        self._early.clear()  # the state of this view has it
        self._lacking.intersection_update(view.members)
        if self._has_state and self._lacking:
            old = [member for member in view.members if member not in self._lacking]
            if old[0] == self.group.process:
                self._start(self._tell(state_of(self.exports, view.id, list(self._held))))
        self._members = view.members
        self._relays.intersection_update(view.members)
        if self._relay is not None:
            self._importing.clear()
            if change.joined:
                self._start(self._tell(RelayHere()))
            self._rank()
        self._put(change)

    def _rank(self) -> None:
        """Find out how many relays come before this one; the first one does the work."""
        if self._relay is not None and self.group.process in self._relays:
            relays = [member for member in self._members if member in self._relays]
            self._relay.rank = relays.index(self.group.process)
            self._relay.flush()

    def _take(self, event: Message, record: Record) -> None:
        if isinstance(record, RelayHere):
            self._relays.add(event.sender)
            self._rank()
            return
        if isinstance(record, DomainState):
            if record.view_id == self._view_id:
                self._lacking.clear()
            if not self._has_state and record.view_id == self._view_id:
                restore(self.exports, record)
                self._held = list(record.held)
                self._has_state = True
                early, self._early = self._early, []
                for earlier, what in early:
                    self._take(earlier, what)
            return
        if not self._has_state:
            if len(self._early) >= EARLY_MAX:
                raise LateStateError(self.group.name)
            self._early.append((event, record))
            return
        if isinstance(record, GlobalRecord) and not self._is_sound(record):
            self.strays += 1
            return
        if isinstance(record, LocalRecord | GlobalRecord):
            if record.incarnation != event.sender.incarnation:
                return  # what it counts by was its former life's
            level = record.level if isinstance(record, GlobalRecord) else None
            domains = record.domains if isinstance(record, GlobalRecord) else (self.domain,)
            order = NAMES[level] if level is not None else event.order
            self._held.append(
                HeldRecord(event.sender.full, record.number, record.after, order, level, domains, record.payload)
            )
        elif isinstance(record, ImportRecord):
            self._import(record.frames)
        else:
            self.exports.acknowledge(record.domain, record.count)
        self._release()
        if self._relay is not None:
            self._relay.flush()
            self._import_more()

    def _is_sound(self, record: GlobalRecord) -> bool:
        domains = set(record.domains)
        return record.level in NAMES and self.domain in domains and domains <= set(self.exports.domains)

    def _release(self) -> None:
        """Do what waits for nothing any more: in the order in which it came, sender by sender (rule 6)."""
        self._emit_ready()
        again = True
        while again:
            again = False
            waiting: list[HeldRecord] = []
            blocked: set[str] = set()
            for held in self._held:
                ordered = held.level is not None and held.level != CAUSAL_EXPORT
                late = not ordered and self.exports.delivered_of.get(held.sender, 0) < held.after
                if late or held.sender in blocked:
                    blocked.add(held.sender)
                    waiting.append(held)
                    continue
                again = True
                self._do(held)
            self._held = waiting

    def _do(self, held: HeldRecord) -> None:
        if held.level is None:
            self._put(
                DomainMessage(
                    payload=held.payload,
                    sender=held.sender,
                    number=held.number,
                    domain=self.domain,
                    order=held.order,
                    domains=held.domains,
                )
            )
        else:
            self.exports.submit(held.sender, held.number, held.level, held.domains, held.payload)
            self._emit_ready()

    def _emit_ready(self) -> None:
        for message in self.exports.delivered:
            self._put(
                DomainMessage(
                    payload=message.payload,
                    sender=message.sender,
                    number=message.number,
                    domain=message.id[0],
                    order=NAMES[message.level],
                    domains=message.domains,
                )
            )
        self.exports.delivered = []

    # ---- links -----------------------------------------------------------------------------------------------------

    def _receive(self, frame: FrameBody) -> None:
        """A frame for this domain has come over a link."""
        number = frame_of(frame).number()
        if not self.exports.is_sound(frame_of(frame)):
            self.strays += 1
            return
        if not self._has_state:
            return
        if number <= self.exports.counters.get((frame.origin, self.domain), 0):
            assert self._relay is not None
            self._relay.acknowledge(frame.origin)  # it was lost
            return
        waiting = self._received.setdefault(frame.origin, {})
        if len(waiting) < RECEIVED_MAX:
            waiting.setdefault(number, frame)
        self._import_more()

    def _import_more(self) -> None:
        """Multicast what may be imported now, and with it what comes right behind on the same link."""
        for origin, waiting in self._received.items():
            done = self.exports.counters.get((origin, self.domain), 0)
            for number in [number for number in waiting if number <= done]:
                del waiting[number]
            if self._importing.get(origin, 0) > done or done + 1 not in waiting:
                continue
            if not self.exports.may_import(frame_of(waiting[done + 1])):
                continue
            batch: list[FrameBody] = []
            while len(batch) < BATCH_MAX and done + 1 + len(batch) in waiting:
                batch.append(waiting[done + 1 + len(batch)])
            self._importing[origin] = done + len(batch)
            self._start(self._tell(ImportRecord(batch)))

    def _import(self, frames: list[FrameBody]) -> None:
        origins: dict[str, None] = {}
        for body in frames:
            if self.exports.is_sound(frame_of(body)):
                self.exports.import_frame(frame_of(body))
            self._release()
            origins[body.origin] = None
        for origin in origins:
            # What of a record could not be imported yet is tried again.
            self._importing.pop(origin, None)
            if self._relay is not None:
                self._relay.acknowledge(origin)

    def _acknowledged(self, domain: str, count: int) -> None:
        """A relay of another domain tells how much that has imported: all relays of this one are told."""
        box = self.exports.outbox.get(domain)
        if not box or box[0].number() > count or count <= self._acked.get(domain, 0):
            return
        if count >= self._acked.get(domain, 0) + ACKED_EVERY or count >= box[-1].number():
            self._acked[domain] = count
            self._start(self._tell(AckedRecord(domain, count)))

    async def _tell(self, record: Record) -> None:
        """Multicast a record; one that imports frames as safe (rules 5 and 7)."""
        try:
            await self.group.send(encode(record), order="safe" if isinstance(record, ImportRecord) else "agreed")
        except AntiphonError:
            return  # the group is over here

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
