"""The engine on a real network: Node and Group on asyncio over UDP."""

from antiphon.runtime.connection import Connection, connect
from antiphon.runtime.discovery import FileDiscovery, NameDiscovery
from antiphon.runtime.discovery_beacon import BeaconDiscovery
from antiphon.runtime.errors import (
    AddressError,
    ConnectError,
    DeclarationError,
    ExcludedError,
    IdentityError,
    JoinError,
    KeyMissingError,
    KeyringError,
    NodeFailedError,
    PositionLostError,
    PublishError,
    ReaderBlockedError,
    ReaderError,
    RightError,
)
from antiphon.runtime.events import Barrier, Batch, Excluded, Message, Question, Stalled, TransitionalView, ViewChange
from antiphon.runtime.group import Group
from antiphon.runtime.node import Node
from antiphon.runtime.outside import ReachedGroup
from antiphon.runtime.plan import Plan, PlanError, load_plan
from antiphon.runtime.sealed_streams import open_connection, start_server
from antiphon.runtime.trust import Trust

__all__ = [
    "AddressError",
    "Barrier",
    "Batch",
    "BeaconDiscovery",
    "ConnectError",
    "Connection",
    "DeclarationError",
    "Excluded",
    "ExcludedError",
    "FileDiscovery",
    "Group",
    "IdentityError",
    "JoinError",
    "KeyMissingError",
    "KeyringError",
    "Message",
    "NameDiscovery",
    "Node",
    "NodeFailedError",
    "Plan",
    "PlanError",
    "PositionLostError",
    "PublishError",
    "Question",
    "ReachedGroup",
    "ReaderBlockedError",
    "ReaderError",
    "RightError",
    "Stalled",
    "TransitionalView",
    "Trust",
    "ViewChange",
    "connect",
    "load_plan",
    "open_connection",
    "start_server",
]
