"""The engine on a real network: Node and Group on asyncio over UDP."""

from antiphon.runtime.conversations import (
    Checkpoint,
    Conversation,
    ConversationTimeoutError,
    DivergedError,
    RemovedError,
)
from antiphon.runtime.discovery import FileDiscovery, NameDiscovery
from antiphon.runtime.discovery_beacon import BeaconDiscovery
from antiphon.runtime.errors import AddressError, ExcludedError, JoinError, NodeFailedError, ReaderError
from antiphon.runtime.events import Barrier, Batch, Excluded, Message, Stalled, ViewChange
from antiphon.runtime.filters import (
    ConversationFilter,
    ordered_broadcast,
    replicated_operations,
    send_stable,
    virtual_circuit,
)
from antiphon.runtime.group import Group
from antiphon.runtime.node import Node
from antiphon.runtime.plan import Plan, PlanError, load_plan
from antiphon.stacks.conversation.free.limits import Limits as ConversationLimits
from antiphon.stacks.conversation.library.filter_base import FilterOptions
from antiphon.stacks.conversation.library.operations import Operation

__all__ = [
    "AddressError",
    "Barrier",
    "Batch",
    "BeaconDiscovery",
    "Checkpoint",
    "Conversation",
    "ConversationFilter",
    "ConversationLimits",
    "ConversationTimeoutError",
    "DivergedError",
    "Excluded",
    "ExcludedError",
    "FileDiscovery",
    "FilterOptions",
    "Group",
    "JoinError",
    "Message",
    "NameDiscovery",
    "Node",
    "NodeFailedError",
    "Operation",
    "Plan",
    "PlanError",
    "ReaderError",
    "RemovedError",
    "Stalled",
    "ViewChange",
    "load_plan",
    "ordered_broadcast",
    "replicated_operations",
    "send_stable",
    "virtual_circuit",
]
