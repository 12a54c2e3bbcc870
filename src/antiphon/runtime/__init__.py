"""The engine on a real network: Node and Group on asyncio over UDP."""

from antiphon.runtime.errors import AddressError, ExcludedError, JoinError, NodeFailedError, ReaderError
from antiphon.runtime.events import Batch, Excluded, Message, Stalled, ViewChange
from antiphon.runtime.group import Group
from antiphon.runtime.node import Node

__all__ = [
    "AddressError",
    "Batch",
    "Excluded",
    "ExcludedError",
    "Group",
    "JoinError",
    "Message",
    "Node",
    "NodeFailedError",
    "ReaderError",
    "Stalled",
    "ViewChange",
]
