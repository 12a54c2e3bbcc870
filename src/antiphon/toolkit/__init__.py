"""Tools for programs on groups and conversations, built on the public API alone: requests with replies, state
transfer, clients, hierarchies, rows of feeds, replicated objects, states that merge after a partition, locks and
leaders with fencing tokens, coordinators with cohorts, resilient objects, bulletin boards, properties and rankings of
groups, a directory of groups, and lines from standard input."""

from antiphon.toolkit.bulletin_board import BulletinBoard, Post
from antiphon.toolkit.causal_dictionary import CausalDictionary
from antiphon.toolkit.client_domain import ClientDomain
from antiphon.toolkit.clients import Client, ClientReply, Diffusion, Missed
from antiphon.toolkit.cohorts import Cohorts
from antiphon.toolkit.directory import Directory, DirectoryEntry
from antiphon.toolkit.errors import (
    DeadlockError,
    GatewayError,
    LockLostError,
    MergeOverflowError,
    NoLeafError,
    ObjectDiskError,
    ObjectRestartError,
    ServerGoneError,
    StaleTokenError,
    StateError,
    TransferError,
    UnansweredError,
    WorkError,
)
from antiphon.toolkit.feeds import Feeds
from antiphon.toolkit.gateway import Gateway
from antiphon.toolkit.hierarchy import Everywhere, Hierarchy
from antiphon.toolkit.hierarchy_root import HierarchyRoot, LeafPlace, find_leaf
from antiphon.toolkit.leader import Leader
from antiphon.toolkit.locks import LockClaim, Locks
from antiphon.toolkit.merging import (
    ComponentState,
    MergingState,
    SharedDictionary,
    largest_wins,
    last_writer,
    union,
)
from antiphon.toolkit.operations import commuting, ordered
from antiphon.toolkit.properties import Properties
from antiphon.toolkit.ready_made import ReplicatedCounter, ReplicatedDict, ReplicatedQueue, ReplicatedSet
from antiphon.toolkit.replicated import ObjectPlace, ReplicatedObject
from antiphon.toolkit.requests import Reply, Request
from antiphon.toolkit.resilient import make_resilient, operation, resilient
from antiphon.toolkit.service import ClientMessage, Service
from antiphon.toolkit.shared_cache import SharedCache
from antiphon.toolkit.terminal import input_lines
from antiphon.toolkit.token_guard import TokenGuard
from antiphon.toolkit.tools import Tool, Tools

__all__ = [
    "BulletinBoard",
    "CausalDictionary",
    "Client",
    "ClientDomain",
    "ClientMessage",
    "ClientReply",
    "Cohorts",
    "ComponentState",
    "DeadlockError",
    "Diffusion",
    "Directory",
    "DirectoryEntry",
    "Everywhere",
    "Feeds",
    "Gateway",
    "GatewayError",
    "Hierarchy",
    "HierarchyRoot",
    "Leader",
    "LeafPlace",
    "LockClaim",
    "LockLostError",
    "Locks",
    "MergeOverflowError",
    "MergingState",
    "Missed",
    "NoLeafError",
    "ObjectDiskError",
    "ObjectPlace",
    "ObjectRestartError",
    "Post",
    "Properties",
    "ReplicatedCounter",
    "ReplicatedDict",
    "ReplicatedObject",
    "ReplicatedQueue",
    "ReplicatedSet",
    "Reply",
    "Request",
    "ServerGoneError",
    "Service",
    "SharedCache",
    "SharedDictionary",
    "StaleTokenError",
    "StateError",
    "TokenGuard",
    "Tool",
    "Tools",
    "TransferError",
    "UnansweredError",
    "WorkError",
    "commuting",
    "find_leaf",
    "input_lines",
    "largest_wins",
    "last_writer",
    "make_resilient",
    "operation",
    "ordered",
    "resilient",
    "union",
]
