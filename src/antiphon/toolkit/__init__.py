"""Tools for programs on groups, built on the public API: requests with replies, state
transfer, clients, hierarchies, rows of feeds."""

from antiphon.toolkit.clients import Client, Diffusion, Missed
from antiphon.toolkit.errors import GatewayError, StateError, TransferError, UnansweredError
from antiphon.toolkit.feeds import Feeds
from antiphon.toolkit.gateway import Gateway
from antiphon.toolkit.hierarchy import Everywhere, Hierarchy
from antiphon.toolkit.requests import Reply, Request
from antiphon.toolkit.service import ClientMessage, Service

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
    "Reply",
    "Request",
    "Service",
    "StateError",
    "TransferError",
    "UnansweredError",
]
