"""What filters hand out to the application, as events of the engine."""

from typing import final

from antiphon.kernel.effects import StackEvent
from antiphon.parts.message_graph import GraphNode


@final
class Operation:
    """An operation to execute now."""

    __slots__ = ("commutes", "payload", "sender")

    def __init__(self, sender: int, commutes: bool, payload: bytes) -> None:
        self.sender = sender
        """The rank of who issued it."""
        self.commutes = commutes
        self.payload = payload

    def __repr__(self) -> str:
        return f"Operation(sender={self.sender}, commutes={self.commutes}, payload={self.payload!r})"


@final
class FilteredMessages(StackEvent):
    """Messages for the application, in this order."""

    __slots__ = ("messages",)

    def __init__(self, group: str, messages: list[tuple[GraphNode, bytes]]) -> None:
        super().__init__(group)
        self.messages = messages


@final
class FilteredOperations(StackEvent):
    """Operations for the application to execute, in this order."""

    __slots__ = ("operations",)

    def __init__(self, group: str, operations: list[Operation]) -> None:
        super().__init__(group)
        self.operations = operations
