"""State transfer: whoever joins gets the state that the others have, at one exact place in the order.

The rule. A snapshot belongs to a *position*: of each member, the number of the last message that it contains. It is
taken between two events of the provider's own stream, when the application has dealt with the first and not yet seen
the second. The joiner deals with nothing before it has the state; then it drops what the state contains (numbers up to
the position) and goes on with the rest. So every message is in the state or comes after it, and none is both.
The condition: messages of one sender come in the order of their numbers, so `reliable` is refused here.

Who provides. Members are ranked by age. The oldest that has the state provides, by making each member that lacks it an
offer in the view in which it joins. All know who lacks it: whoever joins does, until it says `Complete`; those who
join learn the rest of this with their state. A provider that fails or leaves is followed by the next one, which makes
new offers, of new snapshots. An offer that comes to nothing is answered by `Again`, at most TRIES_MAX times.

Why a snapshot may be used at its end only. A process may deliver a message that is then lost with it (its own, say),
or deliver agreed messages in an order that the others, who go on without it, never saw. Were that in a snapshot, the
joiner would differ from everybody. So the provider first sees to it that all it has delivered is at all members
(`flush`), and only then says `end`; if it fails before, the joiner has got nothing.

Limits. What the joiner holds back is bounded by its inbox. At the limit it drops everything and asks again, for what it
dropped is in a newer snapshot; an older one is not used any more. If the state takes longer to fetch than that, time
and again, it raises StateError.
If all members of a view lack the state, it is lost: each says so (`Lacking`), and StateError is raised at all of them.

The founders, who are in view 1, have nothing to fetch.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from typing import Any, Final

from antiphon import AntiphonError, Barrier, Message, ProcessId, View, ViewChange
from antiphon.toolkit.channel import Channel
from antiphon.toolkit.errors import StateError, TransferError
from antiphon.toolkit.frames import split_host
from antiphon.toolkit.messages import Again, Complete, Own, SnapshotOffer, from_wire
from antiphon.toolkit.tables import Tables
from antiphon.toolkit.transfer import Chunks, Fetch, Header, SnapshotServer

FIRST_VIEW: Final = 1
TRIES_MAX: Final = 10

log: Final = logging.getLogger("antiphon")

Snapshot = Callable[[], Chunks]
"""Called between two events; it returns at once with an iterator over a state that no longer changes. The chunks are
taken from it later, while the application goes on: so it iterates over a copy, or a copy-on-write view."""
Restore = Callable[[Any], Awaitable[None]]
"""Given the chunks of a snapshot as an async iterator. If that raises, the snapshot is void, and `restore` is called
again with another: build the new state apart, and put it in place at the end."""
Tell = Callable[[Own, ProcessId | None], Coroutine[Any, Any, None]]
"""Sends to one member, or to all."""


class Provider:
    """The side that has the state. Everything here happens in the stream, between two events of the application."""

    def __init__(
        self,
        channel: Channel,
        tables: Tables,
        snapshot: Snapshot | None,
        tell: Tell,
        server: SnapshotServer,
        background: Callable[[Coroutine[Any, Any, None]], None],
    ) -> None:
        self._channel = channel
        self._tables = tables
        self._snapshot = snapshot
        self._tell = tell
        self._server = server
        self._background = background
        self._view: View | None = None
        self._adopted_view_id = 0
        """The view in which the state was taken that this process was given; 0 for a founder."""
        self._position: dict[ProcessId, int] = {}
        """Of each member, the last message that the application was given."""
        self._lacking: set[ProcessId] = set()
        self._offered: set[ProcessId] = set()
        """Those that this process has made an offer to."""

    def lapse(self) -> None:
        """This life of the process is over; the next one begins without state."""
        self._view = None
        self.adopt(Header(0, [], [], [], []))
        self._offered.clear()

    def adopt(self, header: Header) -> None:
        """The state is here: go on from where it was taken."""
        self._adopted_view_id = header.view_id
        self._position = {from_wire(process): number for process, number in header.position}
        self._lacking = {from_wire(process) for process in header.lacking}
        self._tables.restore(header)

    def is_past(self, view_id: int) -> bool:
        """Whether this view was over when the state was taken that this process was given."""
        return view_id < self._adopted_view_id

    def admit(self, sender: ProcessId, number: int, view_id: int) -> bool:
        """A message comes to the application; false if its state contains it."""
        if self.is_past(view_id) or number <= self._position.get(sender, 0):
            return False  # of a view that was over when the snapshot was taken, everything is in it
        self._position[sender] = number
        return True

    def install(self, change: ViewChange) -> None:
        """The application is about to be told of a view."""
        first = self._view is None
        self._view = change.view
        if change.view.id <= self._adopted_view_id:
            return  # what this view did is in the state
        if not first:
            self._lacking.update(change.joined)
        members = change.view.members
        self._lacking.intersection_update(members)
        self._offered.intersection_update(members)
        self._position = {member: number for member, number in self._position.items() if member in members}
        self._provide()

    def complete(self, member: ProcessId) -> None:
        """A member has the state now, and may be the one to provide it."""
        self._lacking.discard(member)
        self._offered.discard(member)
        self._server.withdraw(member)
        self._provide()

    def _provide(self) -> None:
        assert self._view is not None
        complete = [member for member in self._view.members if member not in self._lacking]
        if complete and complete[0] == self._channel.process:
            for joiner in sorted(self._lacking - self._offered):
                self.offer(joiner)

    def offer(self, joiner: ProcessId) -> None:
        """Take a snapshot here and now for `joiner`."""
        view, snapshot = self._view, self._snapshot
        if view is None or snapshot is None or joiner not in self._lacking or self._channel.process in self._lacking:
            return
        self._offered.add(joiner)
        header = self._tables.export(view.id, self._position, self._lacking)
        try:
            chunks = snapshot()
        except Exception as error:  # the joiner is told, and the application's log has the rest
            log.exception("the snapshot for %s could not be made", joiner)
            chunks = _failing(error)
        host, _ = split_host(view.addresses[view.rank(self._channel.process)])
        self._background(self._make_offer(host, joiner, header, chunks))

    async def _make_offer(self, host: str, joiner: ProcessId, header: Header, chunks: Chunks) -> None:
        try:
            offer = await self._server.offer(host, joiner, header, chunks)
        except OSError as error:
            log.error("the snapshot for %s cannot be offered at %s: %s", joiner, host, error)
            offer = SnapshotOffer("", b"")  # to be asked again, rather than waited for
        await self._tell(offer, joiner)


async def _failing(error: Exception) -> Any:
    raise error
    yield b""


class Joiner:
    """The side that lacks the state. It hears of offers and views as they come in, ahead of the application."""

    def __init__(self, restore: Restore | None, tell: Tell) -> None:
        self.is_lacking = restore is not None
        self._restore = restore
        self._tell = tell
        self._entered = asyncio.Event()
        self._view: View | None = None
        self._offer: SnapshotOffer | None = None
        self._provider: ProcessId | None = None
        self._others: set[ProcessId] = set()
        """Who said in this view that it lacks the state, too."""
        self._news = asyncio.Event()
        self._void = ""
        """Why the snapshot that is being fetched is of no use any more."""
        self._fruitless = False
        """The last offer came to nothing, and nobody has been told."""
        self._dropped: dict[ProcessId, tuple[int, int]] = {}
        """Of each sender, view and number of the last message that was held back and dropped."""
        self._lost: StateError | None = None
        self._ended = False

    def install(self, view: View) -> bool:
        """A view came in; whether to tell the others that the state is lacking here."""
        if self._view is None and view.id == FIRST_VIEW:
            self.is_lacking = False
        self._view = view
        self._others = set()
        if self._provider is not None and self._provider not in view.members:
            # From here on this process says that it lacks the state, so it may not turn out to have it after all.
            self._provider = self._offer = None
            self._void = "its provider is gone"
            self._news.set()
        self._entered.set()
        return self.is_lacking

    def lapse(self) -> None:
        """This life of the process is over; if there is another, it has to fetch the state again."""
        self.is_lacking = self._restore is not None
        self._view = self._offer = self._provider = None
        self._fruitless = False
        self._void = "this process was excluded"
        self._entered.clear()
        self._news.set()

    def hear_offer(self, offer: SnapshotOffer, provider: ProcessId) -> None:
        self._offer, self._provider = offer, provider
        self._news.set()

    def hear_lacking(self, member: ProcessId, view_id: int) -> None:
        view = self._view
        if view is None or view.id != view_id or not self.is_lacking:
            return
        self._others.add(member)
        if self._others.issuperset(view.members):
            why = f"the state is lost: nobody in {view} has it; restore it from elsewhere into a group founded anew"
            self._lost = StateError(why)
            self._news.set()

    def overflow(self, dropped: Iterable[Message | Barrier]) -> None:
        """What was held back has been dropped: only a snapshot that contains it is of use now."""
        for event in dropped:
            self._dropped[event.sender] = (event.view_id, event.number)
        self._offer = None
        self._void = "more messages came meanwhile than are held back"
        self._news.set()

    def end(self) -> None:
        """The group has come to its end here: there is no point in waiting any more."""
        self._ended = True
        self._entered.set()
        self._news.set()

    async def obtain(self, adopt: Callable[[Header], None]) -> bool:
        """Wait until the state is here; `adopt` is told where it belongs. False: the group has come to its end before.
        Cancelled, it can be called again."""
        await self._entered.wait()
        tries = 0
        while self.is_lacking:
            if self._fruitless and self._offer is None and self._provider is not None:
                await self._tell(Again(), self._provider)
            offer = await self._next_offer()
            if offer is None:
                return False
            self._fruitless = True
            tries += 1
            why = await self._try(offer, adopt)
            if not why:
                await self._tell(Complete(), None)
            elif tries == TRIES_MAX:
                raise StateError(f"the state could not be had in {tries} tries; the last failed because {why}")
            else:
                log.warning("the state could not be had, and is asked for again: %s", why)
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
        """Fetch what is offered, unless something newer makes it useless; empty, or why it came to nothing."""
        self._news.clear()
        fetching = asyncio.create_task(self._fetch(offer))
        hearing = asyncio.create_task(self._news.wait())
        try:
            await asyncio.wait((fetching, hearing), return_when=asyncio.FIRST_COMPLETED)
            if fetching.done() and not self._void:
                adopt(fetching.result())
                self.is_lacking = False  # at once: the pump must neither say otherwise nor drop anything from here on
                return ""
            return self._void or "there is a newer offer"
        except AntiphonError as error:
            return str(error)
        finally:
            for task in (fetching, hearing):
                task.cancel()
            await asyncio.gather(fetching, hearing, return_exceptions=True)

    def _covers(self, header: Header) -> bool:
        """Whether the snapshot contains what was dropped here. One that is made upon `Again` does: the word comes after
        what was delivered here before, at its receiver as well."""
        position = {from_wire(process): number for process, number in header.position}
        return all(
            view_id < header.view_id or (view_id == header.view_id and number <= position.get(sender, 0))
            for sender, (view_id, number) in self._dropped.items()
        )

    async def _fetch(self, offer: SnapshotOffer) -> Header:
        assert self._restore is not None
        async with Fetch(offer) as fetch:
            header = await fetch.header()
            if not self._covers(header):
                raise TransferError("the snapshot is older than messages that were dropped here")
            await self._restore(fetch.chunks())
            async for _ in fetch.chunks():  # what `restore` did not care to read, up to the word that it may be used
                pass
        return header
