"""Conversations without a group (psync-1989): messages in the context of those that came before, and a library on them.

`Node.open_conversation`, `Node.accept_conversation` and `Node.restart_conversation` make a `Conversation`; the
functions here put a discipline on one: a circuit with a window, one order for all, operations that commute.
"""

from antiphon import _build
from antiphon.runtime.conversations import (
    Checkpoint,
    Conversation,
    ConversationTimeoutError,
    DivergedError,
    RemovedError,
)
from antiphon.runtime.filters import (
    ConversationFilter,
    ordered_broadcast,
    replicated_operations,
    send_stable,
    virtual_circuit,
)
from antiphon.stacks.conversation.free.limits import Limits as ConversationLimits
from antiphon.stacks.conversation.library.filter_base import FilterOptions
from antiphon.stacks.conversation.library.operations import Operation

__all__ = [
    "Checkpoint",
    "Conversation",
    "ConversationFilter",
    "ConversationLimits",
    "ConversationTimeoutError",
    "DivergedError",
    "FilterOptions",
    "Operation",
    "RemovedError",
    "ordered_broadcast",
    "replicated_operations",
    "send_stable",
    "virtual_circuit",
]

_build.restore_docstrings(globals()[name] for name in __all__)
