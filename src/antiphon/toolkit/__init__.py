"""Tools for programs on groups and conversations, built on the public API: requests with replies, state transfer,
clients, hierarchies, rows of feeds, replicated objects."""

from antiphon.toolkit.clients import Client, Diffusion, Missed
from antiphon.toolkit.errors import GatewayError, StateError, TransferError, UnansweredError
from antiphon.toolkit.feeds import Feeds
from antiphon.toolkit.gateway import Gateway
from antiphon.toolkit.hierarchy import Everywhere, Hierarchy
from antiphon.toolkit.replicated import ReplicatedObject, commuting, ordered
from antiphon.toolkit.requests import Reply, Request
from antiphon.toolkit.service import ClientMessage, Service
from antiphon.toolkit.terminal import input_lines

__all__ = [
    "Client",
    "ClientMessage",
    "Diffusion",
    "Everywhere",
    "Feeds",
    "Gateway",
    "GatewayError",
    "Hierarchy",
    "Missed",
    "ReplicatedObject",
    "Reply",
    "Request",
    "Service",
    "StateError",
    "TransferError",
    "UnansweredError",
    "commuting",
    "input_lines",
    "ordered",
]
