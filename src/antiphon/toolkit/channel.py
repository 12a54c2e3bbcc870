"""The part of `antiphon.Group` that the toolkit uses, as a protocol, so that tests can supply a group of their own."""

from collections.abc import AsyncIterator
from typing import Protocol

from antiphon import (
    Barrier,
    Excluded,
    Message,
    Order,
    ProcessId,
    Question,
    Stalled,
    TransitionalView,
    Trust,
    ViewChange,
)

GroupEvent = Message | ViewChange | Barrier | Stalled | Excluded | TransitionalView | Question
"""An event of a group."""


class Channel(Protocol):
    """One member of a group."""

    @property
    def name(self) -> str:
        """The name of the group."""

    @property
    def process(self) -> ProcessId:
        """The process that is the member."""

    @property
    def trust(self) -> Trust:
        """Who may connect to this process."""

    async def send(self, payload: bytes, *, order: Order = "causal", to: ProcessId | None = None) -> None:
        """Multicast, or send to one member; waits only for flow control."""

    async def barrier(self, payload: bytes) -> None:
        """Multicast an event that has the same position among all deliveries, at all members."""

    async def flush(self) -> None:
        """Wait until all that was sent or delivered here is at every member."""

    def __aiter__(self) -> AsyncIterator[GroupEvent]: ...
