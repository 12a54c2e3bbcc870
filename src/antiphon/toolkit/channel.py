"""What the toolkit needs of a group; `antiphon.Group` has it all."""

from collections.abc import AsyncIterator
from typing import Protocol

from antiphon import Barrier, Excluded, Message, ProcessId, Stalled, ViewChange

GroupEvent = Message | ViewChange | Barrier | Stalled | Excluded
"""What is read from a group."""


class Channel(Protocol):
    """One member's end of a group."""

    @property
    def name(self) -> str:
        """The name of the group."""

    @property
    def process(self) -> ProcessId:
        """Who this member is."""

    async def send(self, payload: bytes, *, order: str = "causal", to: ProcessId | None = None) -> None:
        """Multicast, or send to one member; waits only for flow control."""

    async def barrier(self, payload: bytes) -> None:
        """An event at the same place among all deliveries, at all members."""

    async def flush(self) -> None:
        """Wait until all that was sent or delivered here is at every member."""

    def __aiter__(self) -> AsyncIterator[GroupEvent]: ...
