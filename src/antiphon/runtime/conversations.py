"""Conversations on a node's socket: open, accept, send, receive, ask the graph, come back (psync-1989).

    conversation = await node.open_conversation({"bob": "10.0.0.2:7400"})      # alice, participant 0
    handle = await conversation.send(b"shall we?")

    conversation = await node.accept_conversation()                            # bob, elsewhere
    handle, payload = await conversation.receive(timeout_s=2.0)
    await conversation.send(b"we shall")                                       # in the context of the question

A handle stands for a message of the graph. A message is sent in the context of all that its sender has sent or received
before, and received after all that it was sent in the context of. The rules are those of `stacks.conversation`; here is
what waits, and what touches the network, the clock and the disk.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from antiphon.kernel.effects import NEVER
from antiphon.kernel.errors import AntiphonError, ClosedError, UsageError
from antiphon.kernel.options import Options
from antiphon.parts.message_graph import GraphNode as Handle
from antiphon.parts.message_graph import Mid
from antiphon.runtime.address import SocketAddress, numeric
from antiphon.runtime.clock import Clock
from antiphon.runtime.conversation_store import ConversationStore, path_of, read_all, read_stored
from antiphon.runtime.transport import Transport
from antiphon.stacks.conversation.free.conversation import ConversationCore as Core
from antiphon.stacks.conversation.free.host import ConversationHost
from antiphon.stacks.conversation.free.limits import Limits
from antiphon.stacks.conversation.free.recovery import Recovery

RECOVER_S: Final = 10.0


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
            f"the other participants of conversation {cid:016x} went on without this one, which was silent too long; "
            "come back by `restart_conversation` in a new life"
        )
        self.cid = cid


@dataclass(frozen=True)
class Checkpoint:
    """What a participant has to know to come back (5.1); to be written down together with the application's state."""

    cid: int
    participants: dict[str, str]
    """Names and addresses, in their order."""
    leaves: tuple[Mid, ...]
    """The view: sender's rank and number of each message that nothing follows there."""
    unstable: tuple[bytes, ...] = ()
    """Messages of the view that the others may lack."""


class Conversation:
    """One participant in one conversation."""

    def __init__(self, talks: "Conversations", core: Core) -> None:
        self._talks = talks
        self.core = core
        """The participant itself, which never waits (stacks/conversation/free/conversation.py). Callers
        `flush` afterwards."""
        self.cid = core.cid
        self.participants = tuple(process.name for process in core.participants)
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._closed = False
        self._error: Exception | None = None

    def __repr__(self) -> str:
        return f"<Conversation of {', '.join(self.participants)}{', closed' if self._closed else ''}>"

    @property
    def clock(self) -> Clock:
        """The time by which the conversation's host goes."""
        return self._talks.clock

    @property
    def keeps(self) -> bool:
        """Whether all that is said is kept, so that whoever fails can come back."""
        return self.core.keeps

    @property
    def name(self) -> str:
        """The name of this participant."""
        return self.participants[self.core.me]

    # ---- talking ---------------------------------------------------------------------------------------------------

    async def send(self, payload: bytes) -> Handle:
        """Send in the context of all that was sent or received here. Waits for flow control only: while too much of
        what this participant has said is not stable, that is, not followed by something from everybody else."""
        self._check()
        while not self.core.may_send():
            if self.core.is_replaying():
                break  # to wait for what only the caller can do would be for ever
            await self._next(None)
        handle = self.core.send(payload)
        self.flush()
        return handle

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
            got = self.core.receive()
            if got is not None:
                self._flush_answer()
                return got

    def receive_nowait(self) -> tuple[Handle, bytes] | None:
        """The same, or None if there is nothing now."""
        self._check()
        got = self.core.receive()
        if got is not None:
            self._flush_answer()
        return got

    def _flush_answer(self) -> None:
        """To receive is seldom to have something to send; time is seen to when something comes."""
        if self.core.image.out:
            self.flush()

    def resend(self, handle: Handle) -> None:
        """Send a message once more, in case it was lost; whoever has it sends back what follows it. A stable one is not
        resent."""
        self._check()
        self.core.resend(handle)
        self.flush()

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
        await self._talks.write_down(self)
        self._talks.forget(self)
        self.end(None)

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
        return self.core.view.outstanding()

    def stable(self, handle: Handle) -> bool:
        """Whether everybody else that takes part has sent something in its context."""
        return self.core.image.graph.is_stable(handle)

    def n_stable(self, handle: Handle, n: int) -> bool:
        """Whether n - 1 others have: so it is in n images at least."""
        return self.core.image.graph.is_n_stable(handle, n)

    def free(self, handle: Handle) -> int:
        """Forget a message and all that precede it, as far as they are stable; how many."""
        return self.core.free(handle)

    # ---- failures --------------------------------------------------------------------------------------------------

    def remove(self, name: str) -> None:
        """Have a participant taken out of the conversation, by all that run. It comes about when a majority agrees:
        then `removed` names it, messages become stable without it, and it learns that it was removed."""
        self._check()
        self.core.remove(self._rank(name))
        self.flush()

    def add(self, name: str) -> None:
        """Have one that was removed, and that `restarted` has named, taken in again, by all."""
        self._check()
        self.core.add(self._rank(name))
        self.flush()

    @property
    def removed(self) -> tuple[str, ...]:
        """Who was removed."""
        return tuple(self.participants[rank] for rank in sorted(self.core.removal.removed))

    def mask_out(self, name: str) -> None:
        """Do not wait for a participant, here, and do not listen to it. Others are not asked: `remove` does that."""
        self.core.mask_out(self._rank(name))
        self.flush()

    def mask_in(self, name: str) -> None:
        """Wait for it again, and listen to it."""
        self.core.mask_in(self._rank(name))
        self.flush()

    def restarted(self) -> list[str]:
        """Who has said to be back since this was last asked."""
        ranks, self.core.restarted = self.core.restarted, []
        return [self.participants[rank] for rank in ranks]

    def checkpoint(self) -> Checkpoint:
        """What is needed to come back to this point."""
        addresses = dict(zip(self.participants, self.core.addresses, strict=True))
        return Checkpoint(
            self.cid, addresses, tuple(self.core.checkpoint_leaves()), tuple(self.core.checkpoint_sections())
        )

    def statistics(self) -> dict[str, int]:
        """What was dropped, asked for and resent, by reason."""
        return dict(self.core.image.counts)

    def _rank(self, name: str) -> int:
        if name not in self.participants:
            raise UsageError(f"{name!r} does not take part; the participants are {', '.join(self.participants)}")
        return self.participants.index(name)

    # ---- coming back -----------------------------------------------------------------------------------------------

    @property
    def recovery(self) -> Recovery | None:
        """If this participant has come back: who was silent, and what is lacking, if anything is."""
        return self.core.recovery

    async def recover(self, timeout_s: float) -> None:
        """Wait until the graph is here; after `timeout_s` go on with what is."""
        try:
            async with asyncio.timeout(timeout_s):
                while self.core.is_recovering():
                    await self._next(None)
        except TimeoutError:
            self.core.settle_for_less()
            self.flush()

    # ---- inside ----------------------------------------------------------------------------------------------------

    def flush(self) -> None:
        """Send what there is to send."""
        self._talks.flush(self)

    def wake(self) -> None:
        """Something has happened."""
        while self._waiting:
            waiter = self._waiting.popleft()
            if not waiter.done():
                waiter.set_result(None)

    def end(self, error: Exception | None) -> None:
        """It is over, by `close` or because the node is."""
        self._closed = True
        self._error = self._error or error
        self.wake()

    def _check(self) -> None:
        if self._error is not None:
            raise self._error
        if self._closed:
            raise ClosedError(f"conversation {self.cid:016x} was closed here")
        if self.core.removal.is_out:
            raise RemovedError(self.cid)
        if self.core.image.conflict:
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


class Conversations:
    """The conversations of one node: routes datagrams to them, and keeps one timer."""

    def __init__(
        self,
        name: str,
        life: int,
        options: Options,
        limits: Limits | None,
        *,
        broadcast: bool,
        clock: Clock,
        family: int,
        transport: Transport,
        fail: Callable[[Exception], Exception],
        storage: Path | None = None,
    ) -> None:
        recording = storage is not None
        self.host = ConversationHost(name, options, life=life, limits=limits, broadcast=broadcast, recording=recording)
        self._name = name
        self._storage = storage
        self._stores: dict[int, ConversationStore] = {}
        self.clock = clock
        self._family = family
        self._transport = transport
        self._fail = fail
        self._loop = asyncio.get_running_loop()
        self._conversations: dict[int, Conversation] = {}
        self._addresses: dict[str, SocketAddress | None] = {}
        self._accepting: deque[asyncio.Future[None]] = deque()
        self._timer: asyncio.TimerHandle | None = None
        self._timer_ns = NEVER
        self._ended = False

    # ---- opening ---------------------------------------------------------------------------------------------------

    def open(self, others: Mapping[str, str], own_address: str, keep: bool) -> Conversation:
        return self._make(self.host.active_open(dict(others), own_address, keep=keep))

    async def accept(self, timeout_s: float | None) -> Conversation:
        """Wait for somebody to begin a conversation with this process."""
        try:
            async with asyncio.timeout(timeout_s):
                while not self.host.pending():
                    waiter: asyncio.Future[None] = self._loop.create_future()
                    self._accepting.append(waiter)
                    try:
                        await waiter
                    finally:
                        if waiter in self._accepting:
                            self._accepting.remove(waiter)
        except TimeoutError:
            assert timeout_s is not None
            raise ConversationTimeoutError("nobody began a conversation with this process", timeout_s) from None
        core = self.host.passive_open()
        assert core is not None
        return self._make(core)

    def restart(self, checkpoint: Checkpoint, leaves: Sequence[Mid]) -> Conversation:
        sections = list(checkpoint.unstable)
        if self._storage is not None:
            stored = read_stored(path_of(self._storage, self._name, checkpoint.cid))
            if stored is not None:
                sections = stored.sections + sections
        return self._make(self.host.restart(checkpoint.cid, checkpoint.participants, list(leaves), sections))

    def _make(self, core: Core) -> Conversation:
        conversation = Conversation(self, core)
        self._conversations[core.cid] = conversation
        if core.records is not None and self._storage is not None:
            self._stores[core.cid] = ConversationStore(self._storage, core)
        self.flush(conversation)
        return conversation

    def stored(self) -> list[Checkpoint]:
        """The conversations that this process has written down, each from its beginning."""
        if self._storage is None:
            return []
        return [Checkpoint(stored.cid, stored.participants, ()) for stored in read_all(self._storage, self._name)]

    async def close_stores(self) -> None:
        """Wait until all that was kept is written down."""
        for store in list(self._stores.values()):
            await store.close()

    def forget(self, conversation: Conversation) -> None:
        """It is closed."""
        if self._conversations.get(conversation.cid) is conversation:
            del self._conversations[conversation.cid]
            self.host.close(conversation.cid)

    async def write_down(self, conversation: Conversation) -> None:
        """Wait until all that a conversation has kept is written down."""
        store = self._stores.get(conversation.cid)
        if store is not None:
            await store.close()

    # ---- the network and time --------------------------------------------------------------------------------------

    def sift(self, datagrams: list[bytes]) -> list[bytes]:
        """Take what is for conversations; the rest comes back."""
        wants = self.host.wants
        own: list[bytes] = []
        rest: list[bytes] = []
        for datagram in datagrams:
            (own if wants(datagram) else rest).append(datagram)
        if own:
            try:
                self._take(own)
            except Exception as error:
                self._fail(error)
        return rest

    def _take(self, datagrams: list[bytes]) -> None:
        now_ns = self.clock.now_ns()
        touched: dict[int, Core] = {}
        for datagram in datagrams:
            core = self.host.take(datagram, now_ns)
            if core is not None:
                touched[core.cid] = core
        for cid, core in touched.items():
            conversation = self._conversations[cid]
            conversation.wake()
            if core.image.out or not core.is_stirred():
                self.flush(conversation)
            else:  # who was woken runs first, and what it sends takes this along
                self._loop.call_soon(self._flush_late, conversation)
        while self._accepting and self.host.pending():
            waiter = self._accepting.popleft()
            if not waiter.done():
                waiter.set_result(None)
                break

    def flush(self, conversation: Conversation) -> None:
        """Send what a conversation has to send, and see to the timer; nothing, once it is closed."""
        if self._ended or self._conversations.get(conversation.cid) is not conversation:
            return
        for outgoing in self.host.flush(conversation.core, self.clock.now_ns()):
            addresses = [where for where in map(self._resolve, outgoing.addresses) if where is not None]
            self._transport.send(outgoing.packets, addresses)
        store = self._stores.get(conversation.cid)
        if store is not None:
            store.collect()
        self._arm()

    def _flush_late(self, conversation: Conversation) -> None:
        try:
            if conversation.core.is_stirred():
                self.flush(conversation)
        except Exception as error:
            self._fail(error)

    def _resolve(self, address: str) -> SocketAddress | None:
        """Addresses that came over the network are taken in figures only; others get nothing."""
        if address not in self._addresses:
            if len(self._addresses) > 4096:
                self._addresses.clear()
            self._addresses[address] = numeric(address, self._family)
        return self._addresses[address]

    def _arm(self) -> None:
        deadline_ns = self.host.deadline_ns()
        if deadline_ns >= self._timer_ns:
            return
        if self._timer is not None:
            self._timer.cancel()
        self._timer_ns = deadline_ns
        delay_s = max(0, deadline_ns - self.clock.now_ns()) / 1e9
        self._timer = self._loop.call_later(delay_s, self._ring)

    def _ring(self) -> None:
        self._timer = None
        self._timer_ns = NEVER
        if self._ended:
            return
        try:
            for core in self.host.tick(self.clock.now_ns()):
                conversation = self._conversations[core.cid]
                self.flush(conversation)
                conversation.wake()
            self._arm()
        except Exception as error:
            self._fail(error)

    def end(self, error: Exception | None) -> None:
        """The node is over."""
        if self._ended:
            return
        self._ended = True
        if self._timer is not None:
            self._timer.cancel()
        closed = error or ClosedError("the node was closed")
        for conversation in list(self._conversations.values()):
            conversation.end(closed)
        for waiter in self._accepting:
            if not waiter.done():
                waiter.set_exception(closed)
