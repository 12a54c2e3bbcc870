"""Conversations for plain threads, on a node of `antiphon.sync`.

    with antiphon.sync.Node("alice", address="10.0.0.1:7400") as node:
        conversation = open_conversation(node, {"bob": "10.0.0.2:7400"})
        conversation.send(b"shall we?")
        for handle, payload in conversation:
            ...

Every call may come from any thread but the node's own, and blocks until done; those that take a `timeout_s` raise
ConversationTimeoutError. All that `antiphon.conversation.Conversation` can be asked is in `asynchronous`, for use by
`call`.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import TypeVar

from antiphon.conversation import conversations
from antiphon.conversation.checkpoint import Checkpoint
from antiphon.conversation.conversation import Conversation as AsynchronousConversation
from antiphon.kernel.errors import ClosedError
from antiphon.parts.message_graph import GraphNode as Handle
from antiphon.runtime.sync import Node

T = TypeVar("T")


class BlockingConversation:
    """One participant in one conversation, for plain threads; made by the functions of this module."""

    def __init__(self, node: Node, conversation: AsynchronousConversation) -> None:
        self._node = node
        self.asynchronous = conversation
        """The same for the node's own thread."""

    def __repr__(self) -> str:
        return f"sync.{self.asynchronous!r}"

    @property
    def participants(self) -> tuple[str, ...]:
        """The names of all participants, in their order."""
        return self.asynchronous.participants

    def send(self, payload: bytes) -> Handle:
        """See `Conversation.send`."""
        return self._node.call(self.asynchronous.send(payload))

    def receive(self, timeout_s: float | None = None) -> tuple[Handle, bytes]:
        """See `Conversation.receive`."""
        return self._node.call(self.asynchronous.receive(timeout_s))

    def __iter__(self) -> Iterator[tuple[Handle, bytes]]:
        while True:
            try:
                got = self.receive()
            except ClosedError:
                if self.asynchronous.is_closed:
                    return
                raise
            yield got

    def call(self, function: Callable[[AsynchronousConversation], T]) -> T:
        """Call a function with the conversation, in the thread in which it lives; what it returns."""
        return self._node.call(_call(function, self.asynchronous))

    def checkpoint(self) -> Checkpoint:
        """See `Conversation.checkpoint`."""
        return self.call(AsynchronousConversation.checkpoint)

    def stable(self, handle: Handle) -> bool:
        """See `Conversation.stable`."""
        return self.call(lambda conversation: conversation.stable(handle))

    def close(self) -> None:
        """See `Conversation.close`."""
        self._node.call(self.asynchronous.close())


async def _call(function: Callable[[AsynchronousConversation], T], conversation: AsynchronousConversation) -> T:
    return function(conversation)


def open_conversation(node: Node, others: Mapping[str, str], *, keep: bool = False) -> BlockingConversation:
    """See `antiphon.conversation.open_conversation`."""
    return BlockingConversation(node, node.call(conversations.open_conversation(node.asynchronous, others, keep=keep)))


def accept_conversation(node: Node, timeout_s: float | None = None) -> BlockingConversation:
    """See `antiphon.conversation.accept_conversation`."""
    return BlockingConversation(node, node.call(conversations.accept_conversation(node.asynchronous, timeout_s)))


def restart_conversation(
    node: Node,
    checkpoint: Checkpoint,
    *,
    again: bool = False,
    timeout_s: float = conversations.RECOVER_S,
    accept_less: bool = False,
) -> BlockingConversation:
    """See `antiphon.conversation.restart_conversation`."""
    restarting = conversations.restart_conversation(
        node.asynchronous, checkpoint, again=again, timeout_s=timeout_s, accept_less=accept_less
    )
    return BlockingConversation(node, node.call(restarting))


def stored_conversations(node: Node) -> list[Checkpoint]:
    """See `antiphon.conversation.stored_conversations`."""
    return node.call(conversations.stored_conversations(node.asynchronous))
