"""The engine on a real network: Node and Group on asyncio over UDP."""

from antiphon.runtime.errors import AddressError, NodeFailedError, ReaderError
from antiphon.runtime.events import Batch, Message, ViewChange
from antiphon.runtime.group import Group
from antiphon.runtime.node import Node

__all__ = ["AddressError", "Batch", "Group", "Message", "Node", "NodeFailedError", "ReaderError", "ViewChange"]
