"""One participant in one conversation: send, receive, ask the graph, come back (psync-1989).

A handle stands for a message of the graph. A message is sent in the context of all that its sender has sent or received
before, and received after all that it was sent in the context of. The rules are those of the stack
(stacks/conversation/free); all that changes a conversation goes through the engine, as a request. Here is what waits.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Sequence

from antiphon.conversation.checkpoint import Checkpoint
from antiphon.kernel.effects import Changed, Event, StackEvent
from antiphon.kernel.errors import AntiphonError, ClosedError, UsageError
from antiphon.kernel.inputs import StackRequest
from antiphon.parts.message_graph import GraphNode as Handle
from antiphon.parts.message_graph import Mid
from antiphon.runtime.driver import Driver
from antiphon.stacks.conversation.free.conversation import ConversationCore
from antiphon.stacks.conversation.free.recovery import Recovery
from antiphon.stacks.conversation.free.requests import (
    AddParticipant,
    AdoptFormer,
    CloseConversation,
    FreeMessages,
    MaskParticipant,
    RemoveParticipant,
    ResendMessage,
    SendMessage,
    SettleForLess,
    TakeMessage,
    TakeRestarted,
)
from antiphon.stacks.conversation.free.restart_packets import is_truncated
from antiphon.stacks.conversation.free.wire import payload_of


class ConversationTimeoutError(AntiphonError, TimeoutError):
    """Nothing came in time."""

    def __init__(self, what: str, timeout_s: float) -> None:
        super().__init__(f"{what} within {timeout_s:g} s")
        self.timeout_s = timeout_s


class RemovedError(ClosedError):
    """The others took this participant out of the conversation."""

    def __init__(self, cid: int) -> None:
        super().__init__(
            f"the other participants of conversation {cid:016x} removed this one, which they took to have failed; come "
            "back by `restart_conversation`, from the beginning, in a new life, and have them `add` it"
        )
        self.cid = cid


class DivergedError(ClosedError):
    """The others went on without this participant; what it has is not what they have."""

    def __init__(self, cid: int) -> None:
        super().__init__(
            f"the other participants of conversation {cid:016x} went on without this one: they have other messages, or "
            "have forgotten what it lacks; come back by `restart_conversation` in a new life, if it is kept"
        )
        self.cid = cid


class IncompleteRecoveryError(AntiphonError):
    """A participant did not get back all that it needs."""

    def __init__(
        self, cid: int, timeout_s: float, silent: Sequence[str], lacking: Sequence[Mid], loading: bool
    ) -> None:
        reasons = [f"{', '.join(silent)} did not answer"] if silent else []
        reasons += (
            [f"messages {', '.join(map(str, lacking[:8]))} and what leads to them are lacking"] if lacking else []
        )
        reasons += ["the storage was not read"] if loading else []
        super().__init__(
            f"conversation {cid:016x} was not recovered within {timeout_s:g} s: "
            f"{'; '.join(reasons) or 'the beginning of its history is not to be had'}; try again when all are back, or "
            "say `accept_less=True` to go on with what is there"
        )
        self.cid = cid
        self.timeout_s = timeout_s
        self.silent = tuple(silent)
        """Who did not answer."""
        self.lacking = tuple(lacking)
        """Messages that are known of and not here: rank of the sender, and number."""


class Conversation:
    """One participant in one conversation."""

    def __init__(self, core: ConversationCore, driver: Driver) -> None:
        self._driver = driver
        self.core = core
        """The stack's side of it, to look at (stacks/conversation/free/conversation.py): only requests change it."""
        self.cid = core.cid
        self.participants = tuple(process.name for process in core.participants)
        self._on_filtered: Callable[[StackEvent], Callable[[], None]] | None = None
        """Called with what a filter on the conversation hands out; what it returns has that handled."""
        self._filter_state: Callable[[], bytes] | None = None
        """What a checkpoint holds of the filter on the conversation, if there is one."""
        self.restored_state = b""
        """What the checkpoint that this participant came back from had of the filter, for a filter of that kind."""
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._closed = False
        self._error: Exception | None = None

    def __repr__(self) -> str:
        return f"<Conversation of {', '.join(self.participants)}{', closed' if self._closed else ''}>"

    @property
    def is_closed(self) -> bool:
        """Whether this process takes no more part."""
        return self._closed

    @property
    def keeps(self) -> bool:
        """Whether all that is said is kept, so that whoever fails can come back."""
        return self.core.keeps

    @property
    def name(self) -> str:
        """The name of this participant."""
        return self.participants[self.core.me]

    def ask(self, request: StackRequest) -> None:
        """Put a request into the engine. Raises UsageError for what the stack refuses."""
        self._driver.ask(request)

    # ---- talking ---------------------------------------------------------------------------------------------------

    async def send(self, payload: bytes) -> Handle:
        """Send in the context of all that was sent or received here. Waits for flow control only: while too much of
        what this participant has said is not stable, that is, not followed by something from everybody else."""
        self._check()
        while not self.core.may_send():
            if self.core.is_replaying() or self.core.is_mute():
                break  # to wait for what only the caller can do would be for ever
            await self._next(None)
        return self.send_nowait(payload)

    def send_nowait(self, payload: bytes) -> Handle:
        """The same at once. Raises UsageError where `send` would wait."""
        self._check()
        request = SendMessage(self.cid, payload)
        self.ask(request)
        assert request.node is not None
        return request.node

    async def receive(self, timeout_s: float | None = None) -> tuple[Handle, bytes]:
        """The earliest message that was not received yet. Raises ConversationTimeoutError if none comes in time: then
        something may have been lost, and `resend` helps."""
        got = self.receive_nowait()
        if got is not None:
            return got
        if timeout_s is None:
            return await self._receive_some_day()
        try:
            async with asyncio.timeout(timeout_s):
                return await self._receive_some_day()
        except TimeoutError:
            raise ConversationTimeoutError("no message came", timeout_s) from None

    async def _receive_some_day(self) -> tuple[Handle, bytes]:
        while True:
            await self._next(None)
            got = self.receive_nowait()
            if got is not None:
                return got

    async def __aiter__(self) -> AsyncIterator[tuple[Handle, bytes]]:
        """All messages as they are received, until the conversation is closed here."""
        while not self._closed:
            try:
                got = await self.receive()
            except ClosedError:
                if self._error is None and self._closed:
                    return
                raise
            yield got

    def receive_nowait(self) -> tuple[Handle, bytes] | None:
        """The same, or None if there is nothing now."""
        self._check()
        if not self.core.has_outstanding():
            return None
        request = TakeMessage(self.cid)
        self.ask(request)
        return request.taken

    def resend(self, handle: Handle) -> None:
        """Send a message once more, in case it was lost; whoever has it sends back what follows it. A stable one is not
        resent."""
        self._check()
        self.ask(ResendMessage(self.cid, handle))

    async def changed(self, timeout_s: float | None = None) -> bool:
        """Wait until something has happened: messages came, or became stable, or a limit gave way. False if nothing
        did in time."""
        self._check()
        try:
            await self._next(timeout_s)
        except TimeoutError:
            return False
        return True

    async def close(self) -> None:
        """Take no more part. The others are not told: agree on the end first, if they are to know."""
        if not self._closed and self._error is None:
            self.ask(CloseConversation(self.cid))
            self._end(None)

    # ---- asking ----------------------------------------------------------------------------------------------------

    def sender(self, handle: Handle) -> str:
        return self.participants[handle.sender]

    def roots(self) -> list[Handle]:
        """The messages received or sent here that nothing precedes."""
        return self.core.view.roots()

    def leaves(self) -> list[Handle]:
        """Those that nothing follows; the next message is sent in their context."""
        return self.core.view.leaves()

    def next(self, handle: Handle) -> list[Handle]:
        """The immediate successors of a message, as far as they were received."""
        return self.core.view.next(handle)

    def prev(self, handle: Handle) -> list[Handle]:
        """Its immediate predecessors."""
        return self.core.view.prev(handle)

    def precedes(self, one: Handle, other: Handle) -> bool:
        """Whether the other was sent in the context of the one."""
        return self.core.view.precedes(one, other)

    def outstanding(self) -> bool:
        """Whether there is something to receive."""
        return self.core.has_outstanding()

    def stable(self, handle: Handle) -> bool:
        """Whether everybody else that takes part has sent something in its context, as far as it was received here."""
        return self.core.view.is_stable(handle)

    def n_stable(self, handle: Handle, n: int) -> bool:
        """Whether n - 1 others have: so it is in n images at least."""
        return self.core.view.is_n_stable(handle, n)

    def free(self, handle: Handle) -> int:
        """Forget a message and all that precede it, as far as they are stable; how many."""
        request = FreeMessages(self.cid, handle)
        self.ask(request)
        return request.count

    # ---- failures --------------------------------------------------------------------------------------------------

    def remove(self, name: str) -> None:
        """Have a participant taken out of the conversation, by all that run. It comes about when a majority agrees:
        then `removed` names it, messages become stable without it, and it learns that it was removed."""
        self._check()
        self.ask(RemoveParticipant(self.cid, self._rank(name)))

    def add(self, name: str) -> None:
        """Have one that was removed, and that `restarted` has named, taken in again, by all."""
        self._check()
        self.ask(AddParticipant(self.cid, self._rank(name)))

    @property
    def removed(self) -> tuple[str, ...]:
        """Who was removed."""
        return tuple(self.participants[rank] for rank in sorted(self.core.removal.removed))

    @property
    def masked(self) -> tuple[str, ...]:
        """Who is masked out here, those that were removed among them."""
        graph = self.core.replica.graph
        return tuple(name for rank, name in enumerate(self.participants) if graph.is_masked(rank))

    def mask_out(self, name: str) -> None:
        """Do not wait for a participant, here, and do not listen to it. Others are not asked: `remove` does that."""
        self._check()
        self.ask(MaskParticipant(self.cid, self._rank(name), True))

    def mask_in(self, name: str) -> None:
        """Wait for it again, and listen to it."""
        self._check()
        self.ask(MaskParticipant(self.cid, self._rank(name), False))

    def restarted(self) -> list[str]:
        """Who has said to be back since this was last asked."""
        if not self.core.restarted:
            return []
        request = TakeRestarted(self.cid)
        self.ask(request)
        return [self.participants[rank] for rank in request.ranks]

    def origin(self) -> Checkpoint:
        """What is needed to come back by running again from the beginning (5.2)."""
        addresses = dict(zip(self.participants, self.core.addresses, strict=True))
        return Checkpoint(self.cid, addresses, (), incarnation=self.core.life)

    def checkpoint(self) -> Checkpoint:
        """What is needed to come back to this point."""
        addresses = dict(zip(self.participants, self.core.addresses, strict=True))
        return Checkpoint(
            self.cid,
            addresses,
            tuple(self.core.checkpoint_leaves()),
            tuple(self.core.checkpoint_sections()),
            incarnation=self.core.life,
            base=self.core.checkpoint_base(),
            filter_state=b"" if self._filter_state is None else self._filter_state(),
        )

    def statistics(self) -> dict[str, int]:
        """What was dropped, asked for and resent, by reason."""
        return dict(self.core.replica.counts)

    def _rank(self, name: str) -> int:
        if name not in self.participants:
            raise UsageError(f"{name!r} does not take part; the participants are {', '.join(self.participants)}")
        return self.participants.index(name)

    # ---- coming back -----------------------------------------------------------------------------------------------

    @property
    def recovery(self) -> Recovery | None:
        """If this participant has come back: who was silent, and what is lacking, if anything is."""
        return self.core.recovery

    def former(self) -> list[tuple[Handle, bytes]]:
        """What this participant said in former lives, after the point at which it came back, and has not said again. A
        program that runs again says the same; one that cannot looks here, and calls `adopt`."""
        return [(node, payload_of(node.body or b"")) for node in self.core.former()]

    def adopt(self) -> list[tuple[Handle, bytes]]:
        """Take what `former` tells as said; it is returned. Nothing has to be said again from then on, but what that
        was said in the context of has to be received before something new can be sent."""
        self._check()
        request = AdoptFormer(self.cid)
        self.ask(request)
        return [(node, payload_of(node.body or b"")) for node in request.former]

    async def _recover(self, timeout_s: float, accept_less: bool) -> bool:
        """Wait until the graph is here; false if the others have forgotten its beginning. Raises
        IncompleteRecoveryError after `timeout_s`, unless the caller accepts less."""
        try:
            async with asyncio.timeout(timeout_s):
                while self.core.is_recovering():
                    if is_truncated(self.core):
                        return False
                    await self._next(None)
                    self._check_life()
        except TimeoutError:
            recovery = self.core.recovery
            assert recovery is not None
            if not accept_less:
                silent = [self.participants[rank] for rank in recovery.waits_for()]
                lacking = recovery.missing(self.core.replica.graph)
                raise IncompleteRecoveryError(self.cid, timeout_s, silent, lacking, recovery.loading) from None
            self.ask(SettleForLess(self.cid))
        return True

    def _check_life(self) -> None:
        """Refuse an incarnation that was used before."""
        recovery = self.core.recovery
        if recovery is not None and recovery.reused:
            raise UsageError(
                f"incarnation {self.core.life} of {self.name!r} took part in conversation {self.cid:016x} before; come "
                "back in a higher one"
            )

    # ---- inside ----------------------------------------------------------------------------------------------------

    def _take(self, event: Event) -> None:
        """Take what the engine tells of this conversation."""
        if isinstance(event, Changed):
            self._wake()
        elif isinstance(event, StackEvent) and self._on_filtered is not None:
            hand_out = self._on_filtered(event)
            if not self._driver.afterwards(hand_out):
                hand_out()

    def _wake(self) -> None:
        """Something has happened."""
        while self._waiting:
            waiter = self._waiting.popleft()
            if not waiter.done():
                waiter.set_result(None)

    def _end(self, error: Exception | None) -> None:
        """It is over, by `close` or because the node is."""
        self._closed = True
        self._error = self._error or error
        self._wake()

    def _check(self) -> None:
        if self._error is not None:
            raise self._error
        if self._closed:
            raise ClosedError(f"conversation {self.cid:016x} was closed here")
        if self.core.removal.is_out:
            raise RemovedError(self.cid)
        if self.core.has_diverged():
            raise DivergedError(self.cid)

    async def _next(self, timeout_s: float | None) -> None:
        """Wait until something has happened. Raises TimeoutError."""
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(waiter)
        try:
            if timeout_s is None:
                await waiter
            else:
                async with asyncio.timeout(timeout_s):
                    await waiter
        finally:
            if waiter in self._waiting:
                self._waiting.remove(waiter)
        self._check()
