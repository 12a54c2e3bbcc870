"""One member of a domain that is linked with other domains. What is promised, and why, is in stacks/domain/export.py.

Every member feeds the same records, in the agreed order of the group, to its own `DomainExports`. Members that were
given `listen` or `links` are relays. There may be several in a domain: all of them know everything, and the first one
in the order of the view does the work until it is gone.

A process that comes into the group later gets the state from the oldest member that has it, as of the beginning of a
view, and until then holds back what it reads. If that member fails first, the next one tells it in the next view.

Limits: EVENTS_MAX events that the application has not read, then the group is not read either, and its senders wait;
EARLY_MAX messages that a newcomer holds back, then its reader ends with LateStateError.
"""

import asyncio
import ssl
from collections.abc import Coroutine, Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Final, Self

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
from antiphon.runtime.events import Message, ViewChange
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
    domain: str
    """The domain that it was sent in."""
    order: str
    domains: tuple[str, ...]
    """The domains that it is for."""


DomainEvent = DomainMessage | ViewChange


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
    ) -> None:
        """`domains` names all domains, alike everywhere. `links` has addresses of relays of neighbouring domains,
        `routes` says by which neighbour a domain without a link is reached. `tls`: contexts for listening and for
        dialling; without them links are sealed by the keys of the node, or plain where that is (docs/security.md)."""
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
        self._events: asyncio.Queue[DomainEvent | None] = asyncio.Queue()
        self._room = asyncio.Event()
        self._error: Exception | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    def __repr__(self) -> str:
        relay = "" if self._relay is None else ", a relay"
        return f"<CommunicationDomain {self.domain!r}, group {self.group.name!r}{relay}>"

    async def __aenter__(self) -> Self:
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

    @property
    def address(self) -> str:
        """Where relays of other domains reach this one; empty if it does not listen."""
        return "" if self._relay is None else self._relay.address

    @property
    def link_bytes(self) -> int:
        """Bytes that this relay has sent over links."""
        return 0 if self._relay is None else self._relay.bytes_sent

    async def send(self, payload: bytes, *, to: Sequence[str] = (), order: Order = "causal") -> None:
        """Send to all members of this domain, and of the domains `to`. Raises UsageError and MessageTooLargeError, as
        `Group.send` does."""
        if not isinstance(payload, bytes):
            raise UsageError(f"a payload is bytes, not {type(payload).__name__}; encode it first")
        if isinstance(to, str):
            raise UsageError(f"`to` is a list of domains, not a text; write to=[{to!r}]")
        others = set(to) - {self.domain}
        if not others:
            await self.group.send(encode(LocalRecord(self._ordered_sent, payload)), order=order)
            return
        unknown = sorted(others - set(self.exports.domains))
        if unknown or order not in LEVELS:
            problem = f"there is no domain {unknown[0]!r}" if unknown else f"no level {order!r} goes beyond a domain"
            raise UsageError(f"{problem}; domains: {list(self.exports.domains)}, levels: {list(LEVELS)}")
        while self.exports.is_full():
            await asyncio.sleep(0.05)
        domains = tuple(sorted({self.domain, *others}))
        record = GlobalRecord(self._ordered_sent, LEVELS[order], domains, payload)
        ordered = order != "causal"
        self._ordered_sent += ordered
        try:
            await self.group.send(encode(record), order="safe" if order == "safe" else "agreed")
        except AntiphonError:  # it is too large, so nothing is to wait for it; or the group is over
            self._ordered_sent -= ordered
            raise

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> DomainEvent:
        event = await self._events.get()
        self._room.set()
        if event is None:
            self._events.put_nowait(None)
            if self._error is not None:
                raise self._error
            raise StopAsyncIteration
        return event

    # ---- the stream of the group -----------------------------------------------------------------------------------

    async def _read(self) -> None:
        try:
            async for event in self.group:
                if isinstance(event, ViewChange):
                    self._install(event)
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
            self._events.put_nowait(None)

    def _install(self, change: ViewChange) -> None:
        view = change.view
        if not self._members:
            self._has_state = view.id == FIRST_VIEW or len(view.members) == 1
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
        self._events.put_nowait(change)

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
            level = record.level if isinstance(record, GlobalRecord) else None
            domains = record.domains if isinstance(record, GlobalRecord) else (self.domain,)
            order = NAMES[level] if level is not None else event.order
            self._held.append(HeldRecord(event.sender.full, record.after, order, level, domains, record.payload))
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
            self._events.put_nowait(
                DomainMessage(
                    payload=held.payload, sender=held.sender, domain=self.domain, order=held.order, domains=held.domains
                )
            )
        else:
            self.exports.submit(held.sender, held.level, held.domains, held.payload)
            self._emit_ready()

    def _emit_ready(self) -> None:
        for message in self.exports.delivered:
            self._events.put_nowait(
                DomainMessage(
                    payload=message.payload,
                    sender=message.sender,
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
        """Multicast a record. One that imports a safe message is safe itself (rule 5)."""
        frames = record.frames if isinstance(record, ImportRecord) else []
        is_safe = any(body.message is not None and body.message.level == SAFE_EXPORT for body in frames)
        try:
            await self.group.send(encode(record), order="safe" if is_safe else "agreed")
        except AntiphonError:
            return  # the group is over here

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
