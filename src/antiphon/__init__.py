"""Antiphon: fault-tolerant process groups with ordered multicast, and an audit of what they promised.

The public API is what this package exports; see README.md for a first program.
"""

from antiphon import _build

_build.choose_build()  # before anything else is imported: it decides where the rest is imported from

from antiphon.kernel.causality_domain import CausalityDomain
from antiphon.kernel.errors import (
    AntiphonError,
    ClosedError,
    LevelNotOfferedError,
    MessageTooLargeError,
    UsageError,
)
from antiphon.kernel.identity import ProcessId, View
from antiphon.kernel.options import Options
from antiphon.runtime import (
    AddressError,
    Barrier,
    Batch,
    BeaconDiscovery,
    Checkpoint,
    Conversation,
    ConversationFilter,
    ConversationLimits,
    ConversationTimeoutError,
    DivergedError,
    Excluded,
    ExcludedError,
    FileDiscovery,
    FilterOptions,
    Group,
    JoinError,
    Message,
    NameDiscovery,
    Node,
    NodeFailedError,
    Operation,
    Plan,
    PlanError,
    ReaderError,
    RemovedError,
    Stalled,
    ViewChange,
    load_plan,
    ordered_broadcast,
    replicated_operations,
    send_stable,
    sync,
    virtual_circuit,
)
from antiphon.runtime.environment import current_environment

__version__ = "0.1.0"

__all__ = [
    "AddressError",
    "AntiphonError",
    "Barrier",
    "Batch",
    "BeaconDiscovery",
    "CausalityDomain",
    "Checkpoint",
    "ClosedError",
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
    "LevelNotOfferedError",
    "Message",
    "MessageTooLargeError",
    "NameDiscovery",
    "Node",
    "NodeFailedError",
    "Operation",
    "Options",
    "Plan",
    "PlanError",
    "ProcessId",
    "ReaderError",
    "RemovedError",
    "Stalled",
    "UsageError",
    "View",
    "ViewChange",
    "current_environment",
    "load_plan",
    "ordered_broadcast",
    "replicated_operations",
    "send_stable",
    "sync",
    "virtual_circuit",
]
