"""What the driver and the streams tell a group, and what it makes of that: its view, its stream, its end."""

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final

from antiphon.engine import Engine
from antiphon.kernel.causality_domain import CausalityDomain
from antiphon.kernel.effects import AskApplication, BarrierReached, Delivered, Ended, Installed, Transitional
from antiphon.kernel.errors import AntiphonError, ClosedError
from antiphon.kernel.identity import ProcessId, View
from antiphon.kernel.levels import LEVELS
from antiphon.kernel.options import Options
from antiphon.kernel.outcomes import ApplicationAnswer
from antiphon.runtime.driver import Driver
from antiphon.runtime.errors import DeclarationError, ExcludedError, ReaderBlockedError
from antiphon.runtime.events import Barrier, Excluded, Question, Stalled, TransitionalView, ViewChange
from antiphon.runtime.node_streams import NodeStreams
from antiphon.runtime.outbox import Outbox, SendMode
from antiphon.stacks.registry import offer

NO_VIEW: Final = View(0, ())
"""Where a process is that has asked to be let in."""

TO_ALL: Final = {order: SendMode(level) for order, level in LEVELS.items()}


class GroupEvents:
    """One membership as the driver sees it (`GroupHandler`). `Group` adds what the application calls, and what every
    message passes through, so that the way of a message leads through few files."""

    def __init__(
        self,
        driver: Driver,
        name: str,
        *,
        stack: str,
        policy: str,
        domain: CausalityDomain,
        options: Options,
        linger_s: float,
        outbox: Outbox,
        streams: NodeStreams,
        on_over: "Callable[[Any], None]",
    ) -> None:
        self.name = name
        self.stack = stack
        self._offered = offer(stack)
        self.policy = policy
        self.domain = domain
        self.view = NO_VIEW
        self._named: tuple[str, ...] = ()
        """The names of all members, as `join` was told them, where views may part."""
        self._driver = driver
        self._message_bytes_max = options.message_bytes_max
        self._linger_s = linger_s
        self._closed = False
        self._left = False
        self._excluded = False
        self._refused = False
        self._refusal = ""
        self._settled = True
        self._unsettled = 0
        self._unsent = 0
        """Messages that were called for, and dropped before the engine had them, since the group is over."""
        self._entered = asyncio.Event()
        self._over = asyncio.Event()
        self._on_over = on_over
        self._forbidden: Exception | None = None
        """Why this process may not send here, whatever comes."""
        self._going = asyncio.Event()
        """Not set while the group stands still for want of a majority."""
        self._going.set()
        self._modes = {order: mode for order, mode in TO_ALL.items() if order in self._offered.levels}
        self._outbox = outbox
        self._lane = outbox.open(self._offer, self._called if streams.is_recorded else None, self._may_wait)
        self._streams = streams
        self._stream = streams.add(self)

    @property
    def process(self) -> ProcessId:
        """Who this process is in the group."""
        return self._driver.process

    @property
    def is_over(self) -> bool:
        """Whether this process is no longer a member."""
        raise NotImplementedError

    def outstanding(self) -> int:
        """Messages and packets sent here that some member is not yet known to have."""
        raise NotImplementedError

    def _offer(self, payloads: list[bytes], way: SendMode) -> int:
        """Put messages into the engine; how many of them it took."""
        raise NotImplementedError

    def _deliver(self, event: Delivered) -> None:
        """Put messages into the stream."""
        raise NotImplementedError

    def _check_open(self) -> None:
        if self._driver.error is not None:
            raise self._driver.error
        if self._closed:
            raise self._closed_error()

    def _closed_error(self) -> AntiphonError:
        if self._refused:
            return DeclarationError(self.name, self._driver.process, self._refusal)
        if self._excluded:
            return ExcludedError(self.name, self._driver.process, self._refusal)
        if self._left and not self._driver.is_stopped:
            return ClosedError(
                f"{self._driver.process} has left group {self.name!r}; to send there, join it again: "
                f"node.join({self.name!r}, contacts=[…])"
            )
        return ClosedError(f"group {self.name!r} was closed here; nothing can be sent to it any more")

    def _called(self, payloads: Sequence[bytes], way: SendMode, size: int) -> None:
        self._driver.record_call(self.name, payloads, way.level, way.destinations, size, way.barrier, way.label)

    def _may_wait(self, caller: object) -> None:
        """Refuse the reader of a full stream: room to send comes only when it reads on."""
        if self._stream.is_full and caller is not None and self._stream.reading is caller:
            raise ReaderBlockedError(self._stream.source, self.name)

    # What the driver and the streams tell.

    def _fill_up(self) -> None:
        """The stream is full: what its reader waits to send here would never leave."""
        if self._stream.reading is not None:
            error = ReaderBlockedError(self._stream.source, self.name)
            self._outbox.refuse(self._lane, self._stream.reading, error)

    def _send_queue(self) -> Outbox:
        return self._outbox

    def _unblock(self) -> None:
        self._outbox.unblock(self._lane)

    def _reach(self, event: BarrierReached) -> None:
        self._stream.put(
            Barrier(
                payload=event.payload,
                sender=event.sender,
                number=event.number,
                group=event.group,
                view_id=event.view_id,
            )
        )

    def _install(self, event: Installed) -> None:
        # Who comes into a group cannot tell who else is new to it: at the first view everybody joins.
        joined = event.view.members if self.view is NO_VIEW else event.joined
        self.view = event.view
        self._going.set()
        if not self._entered.is_set():
            self._entered.set()
            self._streams.entered(self)
        self._stream.put(
            ViewChange(
                group=self.name,
                view=event.view,
                joined=joined,
                left=event.left,
                failed=event.failed,
                founded=event.founded,
            )
        )

    def _stall(self) -> None:
        self._going.clear()
        self._stream.put(Stalled(group=self.name, view=self.view))

    def _transit(self, event: Transitional) -> None:
        self._stream.put(TransitionalView(group=self.name, view_id=event.view_id, members=event.members))

    def _ask(self, event: AskApplication, now_ns: int) -> None:
        reply = partial(self._answer, self._driver.engine, event.token)
        self._stream.put(Question(self.name, event.question, (event.deadline_ns - now_ns) / 1e9, reply))

    def _answer(self, engine: Engine, token: int, answer: bytes) -> None:
        self._driver.answer(engine, ApplicationAnswer(token, answer))

    def _part(self, event: Ended) -> None:
        if self._over.is_set():
            return
        self._left = not event.excluded
        self._excluded = event.excluded
        self._refused = event.refused
        self._refusal = event.reason
        if event.excluded:
            self._stream.put(Excluded(group=self.name, view=self.view, unsettled=self.outstanding()))
        self._finish()

    def _lapse(self) -> None:
        """This incarnation is over, and the next goes on in the same stream. What is in the outbox waits for it.

        An application that reads nothing yet has seen nothing of this incarnation, and is told nothing of it: it may
        be waiting to join a further group, which only the next incarnation can."""
        if self.view is not NO_VIEW and self._streams.drop_unseen(self):
            self.view = NO_VIEW
        if self.view is NO_VIEW:
            self._driver.return_to(self.name)
            return
        unsettled = self._driver.engine.outstanding(self.name)
        self._settled = unsettled == 0
        self._stream.put(Excluded(group=self.name, view=self.view, unsettled=unsettled))
        self.view = NO_VIEW

    def _finish(self) -> None:
        """No longer a member. What is in the stream can still be read."""
        self._unsettled = self.outstanding()
        self._closed = True
        self._entered.set()
        self._over.set()
        self._going.set()
        self._outbox.close(self._lane, self._closed_error())
        self._unsent = self._lane.messages
        self._outbox.discard(self._lane)
        self._streams.finish(self)
        self._streams.remove(self)
        self._driver.return_to(self.name)
        self._on_over(self)

    def _end(self, error: Exception | None) -> None:
        self._closed = True
        self._entered.set()
        self._going.set()
        if error is not None:
            self._over.set()
        self._outbox.close(self._lane, error or self._closed_error())
        self._streams.split_off(self).end(error)
        self._driver.return_to(self.name)
