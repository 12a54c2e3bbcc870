"""State transfer: a process that joins gets the state of the others, at one exact point in the order of messages.

The rule. A snapshot has a *position*: for each member, the number of that member's last message that it contains. The
provider takes it between two events of its own stream, when its application is done with the first and has not seen the
second. The joiner's application gets no event before the state is restored; then the joiner drops the messages that the
snapshot contains (numbers up to the position) and goes on with the rest. So every message is either in the snapshot or
delivered after it. This needs each sender's messages in the order of their numbers, so `reliable` is refused.

Who provides. Members are ranked by age, and the oldest one that has the state makes an offer to each member that lacks
it, in the view in which that one joins. All members know who lacks the state: a joiner does until it multicasts
`Complete`, and joiners learn the current set with their snapshot. If the provider fails or leaves, the next one makes
new offers of new snapshots. A joiner whose transfer failed sends `Again`, at most TRIES_MAX times. This is the scheme
of a coordinator with cohorts of isis-1987, 3.7. In the other one, for small states, all members that have the state
make offers (`every`): the joiner uses one, keeps the others, and goes on with the next at once if that fails.

Why a snapshot may be used only at its end. A process may deliver a message that is then lost with it (its own, say), or
deliver agreed messages in an order that the others, who go on without it, never saw. If a snapshot contained that, the
joiner would differ from everybody else. So the provider first waits until all it has delivered is at all members
(`flush`), and only then sends `end`. If it fails before, the joiner discards the snapshot.

Limits. The joiner holds back at most as many messages as its inbox takes. At the limit it drops them all and asks for a
newer snapshot, which contains them; older ones are not used any more. If that happens again and again, because the
state takes longer to fetch, it raises StateError. If all members of a view lack the state it is lost: each of them
multicasts `Lacking`, and all raise StateError.

Founders, for whom the group begins with their first view, have the state from the start.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from typing import Any, Final

from antiphon import AntiphonError, Barrier, Message, ProcessId, Trust, View, ViewChange, log_event
from antiphon.toolkit.channel import Channel
from antiphon.toolkit.errors import StateError, TransferError
from antiphon.toolkit.frames import split_host
from antiphon.toolkit.messages import Again, Complete, Own, SnapshotOffer, from_wire
from antiphon.toolkit.tables import Tables
from antiphon.toolkit.transfer import Chunks, Fetch, Header, SnapshotServer

TRIES_MAX: Final = 10

Snapshot = Callable[[], Chunks]
"""Called between two events. Returns at once, with an iterator over the state as it is now: the chunks are taken from
it later, while the application goes on, so it must iterate over a copy or a copy-on-write view."""
Restore = Callable[[Any], Awaitable[None]]
"""Called with the chunks of a snapshot as an async iterator. If that iterator raises, the snapshot is void and
`restore` is called again with another one: build the new state apart, and replace the old one at the end."""
Tell = Callable[[Own, ProcessId | None], Coroutine[Any, Any, None]]
"""Sends one of the toolkit's messages, to one member or to all."""


class Provider:
    """The side that has the state. All of it runs at the application's point, between two events."""

    def __init__(
        self,
        channel: Channel,
        tables: Tables,
        snapshot: Snapshot | None,
        tell: Tell,
        server: SnapshotServer,
        background: Callable[[Coroutine[Any, Any, None]], None],
        every: bool,
    ) -> None:
        self._every = every
        """Whether all that have the state offer it, or the oldest alone."""
        self._channel = channel
        self._tables = tables
        self._snapshot = snapshot
        self._tell = tell
        self._server = server
        self._background = background
        self._view: View | None = None
        self._adopted_view_id = 0
        """The view in which the snapshot was taken that this process started from; 0 for a founder."""
        self._position: dict[ProcessId, int] = {}
        """For each member, the number of its last message that the application was given."""
        self._lacking: set[ProcessId] = set()
        self._offered: set[ProcessId] = set()
        """The joiners that this process has made an offer to."""

    def reset(self) -> None:
        """Forget the state: this incarnation was excluded, and the next one begins without it."""
        self._view = None
        self.adopt(Header(0, [], [], [], []))
        self._offered.clear()

    def adopt(self, header: Header) -> None:
        """Go on from the position of the snapshot that was restored here."""
        self._adopted_view_id = header.view_id
        self._position = {from_wire(process): number for process, number in header.position}
        self._lacking = {from_wire(process) for process in header.lacking}
        self._tables.restore(header)

    def is_past(self, view_id: int) -> bool:
        """Whether the view had ended when the snapshot was taken that this process started from."""
        return view_id < self._adopted_view_id

    def admit(self, sender: ProcessId, number: int, view_id: int) -> bool:
        """Note that a message reaches the application; false if the application's state contains it already."""
        if self.is_past(view_id) or number <= self._position.get(sender, 0):
            return False  # a snapshot contains all messages of the views that had ended
        self._position[sender] = number
        return True

    def install(self, change: ViewChange) -> None:
        """Note that a view reaches the application."""
        first = self._view is None
        self._view = change.view
        if change.view.id <= self._adopted_view_id:
            return  # the snapshot was taken in this view or a later one
        if not first:
            self._lacking.update(change.joined)
        members = change.view.members
        self._lacking.intersection_update(members)
        self._offered.intersection_update(members)
        self._position = {member: number for member, number in self._position.items() if member in members}
        self._provide()

    def complete(self, member: ProcessId) -> None:
        """Note that a member has the state now; it may be the next provider."""
        self._lacking.discard(member)
        self._offered.discard(member)
        self._server.withdraw(member)
        self._provide()

    def _provide(self) -> None:
        assert self._view is not None
        complete = [member for member in self._view.members if member not in self._lacking]
        if self._channel.process in (complete if self._every else complete[:1]):
            for joiner in sorted(self._lacking - self._offered):
                self.offer(joiner)

    def offer(self, joiner: ProcessId) -> None:
        """Take a snapshot now and offer it to `joiner`."""
        view, snapshot = self._view, self._snapshot
        if view is None or snapshot is None or joiner not in self._lacking or self._channel.process in self._lacking:
            return
        self._offered.add(joiner)
        header = self._tables.export(view.id, self._position, self._lacking)
        try:
            chunks = snapshot()
        except Exception as error:  # the joiner gets the text of the error, the log here has the trace
            log_event(logging.ERROR, "snapshot_failed", str(error), joiner=joiner, exc_info=error)
            chunks = _failing(error)
        host, _ = split_host(view.addresses[view.rank(self._channel.process)])
        self._background(self._make_offer(host, joiner, header, chunks))

    async def _make_offer(self, host: str, joiner: ProcessId, header: Header, chunks: Chunks) -> None:
        try:
            offer = await self._server.offer(host, joiner, header, chunks)
        except OSError as error:
            log_event(logging.ERROR, "snapshot_not_offered", str(error), joiner=joiner, host=host)
            offer = SnapshotOffer("", b"")  # the joiner fails to fetch it and asks again
        await self._tell(offer, joiner)


async def _failing(error: Exception) -> Any:
    raise error
    yield b""


class Joiner:
    """The side that lacks the state. The pump tells it of offers and views, before the application reads them."""

    def __init__(self, restore: Restore | None, tell: Tell, trust: Trust | None = None) -> None:
        self.is_lacking = restore is not None
        self._restore = restore
        self._tell = tell
        self._trust = trust or Trust()
        self._entered = asyncio.Event()
        self._view: View | None = None
        self._offer: SnapshotOffer | None = None
        self._provider: ProcessId | None = None
        self._spares: dict[ProcessId, SnapshotOffer] = {}
        """Offers of others, beside that of the provider."""
        self._others: set[ProcessId] = set()
        """The members that said, in this view, that they lack the state."""
        self._news = asyncio.Event()
        self._void = ""
        """Why the snapshot that is being fetched cannot be used any more; empty: it can."""
        self._must_ask_again = False
        """The last transfer failed, and its provider has not been told."""
        self._dropped: dict[ProcessId, tuple[int, int]] = {}
        """For each sender, view and number of its last message that was held back and then dropped."""
        self._lost: StateError | None = None
        self._ended = False

    def install(self, view: View, founded: bool) -> bool:
        """Note a new view; return whether to tell the others that this process lacks the state."""
        if self._view is None and founded:
            self.is_lacking = False
        self._view = view
        self._others = set()
        if self._provider is not None and self._provider not in view.members:
            # This process announces below that it lacks the state, so the running transfer must not complete.
            self._provider = self._offer = None
            self._void = "its provider is gone"
            self._news.set()
        self._spares = {member: offer for member, offer in self._spares.items() if member in view.members}
        if self._provider is None:
            self._take_spare()
        self._entered.set()
        return self.is_lacking

    def _take_spare(self) -> None:
        """Go on with the offer of another member, if there is one."""
        if self._spares:
            self._provider = next(iter(self._spares))
            self._offer = self._spares.pop(self._provider)
            self._news.set()

    def reset(self) -> None:
        """Note the exclusion of this incarnation; the next one has to fetch the state again."""
        self.is_lacking = self._restore is not None
        self._view = self._offer = self._provider = None
        self._spares.clear()
        self._must_ask_again = False
        self._void = "this process was excluded"
        self._entered.clear()
        self._news.set()

    def hear_offer(self, offer: SnapshotOffer, provider: ProcessId) -> None:
        """Note an offer; it replaces earlier ones of the same member, and those of others wait for their turn."""
        if self._provider is not None and provider != self._provider:
            self._spares[provider] = offer
            return
        self._offer, self._provider = offer, provider
        self._news.set()

    def hear_lacking(self, member: ProcessId, view_id: int) -> None:
        """Note that a member lacks the state. If all members of the view do, the state is lost."""
        view = self._view
        if view is None or view.id != view_id or not self.is_lacking:
            return
        self._others.add(member)
        if self._others.issuperset(view.members):
            why = f"the state is lost: no member of {view} has it; restore it from elsewhere in a newly founded group"
            self._lost = StateError(why)
            self._news.set()

    def overflow(self, dropped: Iterable[Message | Barrier]) -> None:
        """Note that messages held back were dropped: only a snapshot that contains them can be used now."""
        for event in dropped:
            self._dropped[event.sender] = (event.view_id, event.number)
        self._offer = None
        self._spares.clear()
        self._void = "more messages came during the transfer than this member holds back"
        self._news.set()

    def end(self) -> None:
        """Stop waiting: this process is no longer a member."""
        self._ended = True
        self._entered.set()
        self._news.set()

    async def obtain(self, adopt: Callable[[Header], None]) -> bool:
        """Fetch the state, and call `adopt` with the header of its snapshot. False: this process is no longer a member.
        After a cancellation it can be called again."""
        await self._entered.wait()
        tries = 0
        while self.is_lacking:
            if self._must_ask_again and self._offer is None:
                self._take_spare()
            if self._must_ask_again and self._offer is None and self._provider is not None:
                await self._tell(Again(), self._provider)
            offer = await self._next_offer()
            if offer is None:
                return False
            self._must_ask_again = True
            tries += 1
            why = await self._try(offer, adopt)
            if not why:
                await self._tell(Complete(), None)
            elif tries == TRIES_MAX:
                raise StateError(
                    f"the state could not be fetched in {tries} attempts; the last one failed because {why}"
                )
            else:
                log_event(logging.WARNING, "state_not_fetched", why)
        return True

    async def _next_offer(self) -> SnapshotOffer | None:
        while self._offer is None:
            if self._lost is not None:
                raise self._lost
            if self._ended:
                return None
            self._news.clear()
            await self._news.wait()
        offer, self._offer = self._offer, None
        self._void = ""
        return offer

    async def _try(self, offer: SnapshotOffer, adopt: Callable[[Header], None]) -> str:
        """Fetch the offered snapshot until something newer voids it; return why it failed, or an empty text."""
        self._news.clear()
        fetching = asyncio.create_task(self._fetch(offer))
        hearing = asyncio.create_task(self._news.wait())
        try:
            await asyncio.wait((fetching, hearing), return_when=asyncio.FIRST_COMPLETED)
            if fetching.done() and not self._void:
                adopt(fetching.result())
                self.is_lacking = False  # no `await` before it: from here on the pump must not drop messages
                return ""
            return self._void or "there is a newer offer"
        except AntiphonError as error:
            return str(error)
        finally:
            for task in (fetching, hearing):
                task.cancel()
            await asyncio.gather(fetching, hearing, return_exceptions=True)

    def _covers(self, header: Header) -> bool:
        """Whether the snapshot contains what was dropped here. One that is made after `Again` does: that message
        follows, in causal order, all that was delivered here before it."""
        position = {from_wire(process): number for process, number in header.position}
        return all(
            view_id < header.view_id or (view_id == header.view_id and number <= position.get(sender, 0))
            for sender, (view_id, number) in self._dropped.items()
        )

    async def _fetch(self, offer: SnapshotOffer) -> Header:
        assert self._restore is not None
        async with Fetch(offer, self._trust) as fetch:
            header = await fetch.header()
            if not self._covers(header):
                raise TransferError("the snapshot does not contain messages that were dropped here")
            await self._restore(fetch.chunks())
            async for _ in fetch.chunks():  # the rest that `restore` did not read, up to `end`
                pass
        return header
