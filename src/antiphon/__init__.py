"""Antiphon: fault-tolerant process groups with ordered multicast, and an audit of what they promised.

The public API is what this package exports; see README.md for a first program. What only conversations need stands in
`antiphon.conversation`, the facade for plain threads in `antiphon.sync`.
"""

from antiphon import _build

_build.choose_build()  # before anything else is imported: it decides where the rest is imported from

from antiphon import conversation as conversation
from antiphon import sync as sync
from antiphon.kernel.causality_domain import CausalityDomain
from antiphon.kernel.errors import (
    AntiphonError,
    ClosedError,
    LevelNotOfferedError,
    MessageTooLargeError,
    UsageError,
)
from antiphon.kernel.functions import register_comparison
from antiphon.kernel.identity import ProcessId, View
from antiphon.kernel.levels import Order
from antiphon.kernel.options import Options
from antiphon.kernel.policies import Policy
from antiphon.runtime import (
    AddressError,
    Barrier,
    Batch,
    BeaconDiscovery,
    ConnectError,
    Connection,
    DeclarationError,
    Excluded,
    ExcludedError,
    FileDiscovery,
    Group,
    IdentityError,
    JoinError,
    KeyMissingError,
    KeyringError,
    Message,
    NameDiscovery,
    Node,
    NodeFailedError,
    Plan,
    PlanError,
    PositionLostError,
    PublishError,
    Question,
    ReachedGroup,
    ReaderBlockedError,
    ReaderError,
    RightError,
    Stalled,
    TransitionalView,
    Trust,
    ViewChange,
    connect,
    load_plan,
    open_connection,
    start_server,
)
from antiphon.runtime.environment import current_environment
from antiphon.stacks.registry import StackName

__version__ = "0.1.0"

__all__ = [
    "AddressError",
    "AntiphonError",
    "Barrier",
    "Batch",
    "BeaconDiscovery",
    "CausalityDomain",
    "ClosedError",
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
    "LevelNotOfferedError",
    "Message",
    "MessageTooLargeError",
    "NameDiscovery",
    "Node",
    "NodeFailedError",
    "Options",
    "Order",
    "Plan",
    "PlanError",
    "Policy",
    "PositionLostError",
    "ProcessId",
    "PublishError",
    "Question",
    "ReachedGroup",
    "ReaderBlockedError",
    "ReaderError",
    "RightError",
    "StackName",
    "Stalled",
    "TransitionalView",
    "Trust",
    "UsageError",
    "View",
    "ViewChange",
    "connect",
    "current_environment",
    "load_plan",
    "open_connection",
    "register_comparison",
    "start_server",
    "sync",
]

_build.restore_docstrings(globals()[name] for name in __all__)
