"""The conversations of a node: open, accept, restart, and hand on what the engine tells of them.

    conversation = await open_conversation(node, {"bob": "10.0.0.2:7400"})       # alice, participant 0
    handle = await conversation.send(b"shall we?")

    conversation = await accept_conversation(node)                               # bob, elsewhere
    handle, payload = await conversation.receive(timeout_s=2.0)
    await conversation.send(b"we shall")                                         # in the context of the question

A node takes the role of a participant when it first has to do with conversations: what others begin with it before
that waits. `take_part` does so, and sets the limits.
"""

import asyncio
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Final

from antiphon.conversation.checkpoint import Checkpoint
from antiphon.conversation.conversation import Conversation, ConversationTimeoutError, IncompleteRecoveryError
from antiphon.kernel.effects import Event, RoleClosed
from antiphon.kernel.errors import ClosedError, UsageError
from antiphon.parts.message_graph import Mid
from antiphon.runtime.address import join_address, reachable, resolve
from antiphon.runtime.driver import Driver
from antiphon.runtime.naming import check_name
from antiphon.runtime.node import Node
from antiphon.stacks.conversation.free import requests
from antiphon.stacks.conversation.free.conversation import ConversationCore
from antiphon.stacks.conversation.free.limits import Limits
from antiphon.stacks.conversation.free.role import ANY, conversation_name
from antiphon.stacks.conversation.free.store import StoredConversation
from antiphon.stacks.conversation.offers import OFFERS

RECOVER_S: Final = 10.0


def take_part(node: Node, limits: Limits | None = None) -> None:
    """Let others begin conversations with this node, and say what its conversations may hold: the same at all
    participants. Raises UsageError if the node takes part already."""
    driver = node._running()
    if OFFERS.name in driver.roles:
        raise UsageError(f"node {driver.process.name!r} takes part in conversations already; set their limits before")
    driver.roles[OFFERS.name] = Conversations(driver, limits)


async def open_conversation(node: Node, others: Mapping[str, str], *, keep: bool = False) -> Conversation:
    """Begin a conversation with `others`, by name and address. Nothing is sent before the first message; the others
    call `accept_conversation`. With `keep`, all that is said is kept by all, so that who fails can come back by
    `restart_conversation`."""
    conversations = _conversations_of(node)
    for name in others:
        check_name("process", name)
    if not others:
        raise UsageError("a conversation needs somebody to talk to; name at least one other participant")
    family = node._family
    resolved = {name: (await resolve(address, family))[1] for name, address in others.items()}
    own = reachable(node.address, family, next(iter(resolved.values())))
    node._running()  # it may have ended while names were looked up
    return conversations.open({name: join_address(address) for name, address in resolved.items()}, own, keep)


async def accept_conversation(node: Node, timeout_s: float | None = None) -> Conversation:
    """Wait until somebody begins a conversation with this process, and take part. What was begun before waits, up to a
    limit. Raises ConversationTimeoutError."""
    return await _conversations_of(node).accept(timeout_s)


async def restart_conversation(
    node: Node,
    checkpoint: Checkpoint,
    *,
    again: bool = False,
    timeout_s: float = RECOVER_S,
    accept_less: bool = False,
) -> Conversation:
    """Come back into a conversation that was begun with `keep`, at the point of the checkpoint, or, with `again`, at
    the very beginning. The node's incarnation must be higher than before; its address may be another one.

    Returns when the graph is here. Raises IncompleteRecoveryError if it is not after `timeout_s`, because somebody does
    not answer or nobody has all of it any more. With `accept_less` it goes on with what is there instead: `recovery`
    tells what is lacking. Nothing can be sent then before a majority has answered, and while own messages are lacking.
    """
    conversations = _conversations_of(node)
    if checkpoint.incarnation >= node.process.incarnation:
        raise UsageError(
            f"the checkpoint is of incarnation {checkpoint.incarnation}, and this node has {node.process.incarnation}; "
            "come back in a higher one"
        )
    family = node._family
    others = [address for name, address in checkpoint.participants.items() if name != node.process.name]
    own = reachable(node.address, family, (await resolve(others[0], family))[1]) if others else node.address
    node._running()  # it may have ended while names were looked up
    leaves = () if again else checkpoint.leaves
    conversation = conversations.restart(checkpoint, leaves, own)
    try:
        if not await conversation._recover(timeout_s, accept_less):
            await conversation.close()
            if again or not checkpoint.base:
                raise IncompleteRecoveryError(checkpoint.cid, timeout_s, (), (), False)
            conversation = conversations.restart(checkpoint, leaves, own, checkpoint.base)
            await conversation._recover(timeout_s, accept_less)
    except BaseException:
        await conversation.close()
        raise
    conversation.restored_state = b"" if again else checkpoint.filter_state
    return conversation


async def stored_conversations(node: Node) -> list[Checkpoint]:
    """The kept conversations that this process has written to the node's `storage`, for `restart_conversation`."""
    return [Checkpoint(stored.cid, stored.participants, ()) for stored in await _conversations_of(node).stored()]


def _conversations_of(node: Node) -> "Conversations":
    driver = node._running()
    if OFFERS.name not in driver.roles:
        take_part(node)
    conversations = driver.roles[OFFERS.name]
    assert isinstance(conversations, Conversations)
    return conversations


class Conversations:
    """The role of a participant, between the engine of one node and its conversations."""

    def __init__(self, driver: Driver, limits: Limits | None) -> None:
        self._driver = driver
        self._conversations: dict[str, Conversation] = {}
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._has_storage = driver.devices is not None and driver.devices.has_storage
        driver.ask(requests.take_part(requests.ParticipantSettings(limits, self._has_storage)))

    def open(self, others: dict[str, str], own_address: str, keep: bool) -> Conversation:
        """Begin a conversation."""
        request = requests.OpenConversation(others, own_address, keep)
        self._driver.ask(request)
        assert request.conversation is not None
        return self._add(request.conversation)

    async def accept(self, timeout_s: float | None) -> Conversation:
        """Wait for somebody to begin a conversation with this process."""
        try:
            async with asyncio.timeout(timeout_s):
                while True:
                    request = requests.AcceptConversation()
                    self._driver.ask(request)
                    if request.conversation is not None:
                        return self._add(request.conversation)
                    await self._next()
        except TimeoutError:
            assert timeout_s is not None
            raise ConversationTimeoutError("nobody began a conversation with this process", timeout_s) from None

    def restart(
        self, checkpoint: Checkpoint, leaves: Sequence[Mid], own_address: str, base: bytes = b""
    ) -> Conversation:
        """Begin to come back into a conversation."""
        request = requests.RestartConversation(
            checkpoint.cid,
            checkpoint.participants,
            list(leaves),
            list(checkpoint.unstable),
            base=base,
            own_address=own_address,
        )
        self._driver.ask(request)
        assert request.conversation is not None
        return self._add(request.conversation)

    async def stored(self) -> list[StoredConversation]:
        """Wait for the disk, and tell which conversations it has."""
        if not self._has_storage:
            return []
        request = requests.ListStored()
        self._driver.ask(request)
        while request.stored is None:
            await self._next()
        return request.stored

    def _add(self, core: ConversationCore) -> Conversation:
        conversation = Conversation(core, self._driver)
        self._conversations[conversation_name(core.cid)] = conversation
        return conversation

    async def _next(self) -> None:
        """Wait until something has happened that concerns no single conversation."""
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(waiter)
        try:
            await waiter
        finally:
            if waiter in self._waiting:
                self._waiting.remove(waiter)

    def take(self, event: Event) -> None:
        """Hand on what the engine tells of the role."""
        if event.group == ANY:
            while self._waiting:
                waiter = self._waiting.popleft()
                if not waiter.done():
                    waiter.set_result(None)
            return
        conversation = self._conversations.get(event.group)
        if conversation is not None:
            conversation._take(event)
            if isinstance(event, RoleClosed) and not event.reason:
                del self._conversations[event.group]

    def end(self, error: Exception | None) -> None:
        """The node, or this life of its process, is over."""
        closed = error or ClosedError(f"node {self._driver.process.name!r} was closed")
        for conversation in list(self._conversations.values()):
            conversation._end(closed)
        for waiter in self._waiting:
            if not waiter.done():
                waiter.set_exception(closed)
