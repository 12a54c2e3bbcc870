"""Conversations without a group (psync-1989): messages in the context of those that came before, and a library on them.

`open_conversation`, `accept_conversation` and `restart_conversation` make a `Conversation` of a node. The functions
`virtual_circuit`, `ordered_broadcast` and `replicated_operations` put a discipline on one: a circuit with a window, one
order for all, operations that commute. `request_client`, `request_server`, `send_reliably`, `taking_turns` and
`agreed_session` are conventional protocols over one. `antiphon.conversation.sync` has conversations for plain threads.
"""

from antiphon import _build
from antiphon.conversation.checkpoint import Checkpoint
from antiphon.conversation.conversation import (
    Conversation,
    ConversationTimeoutError,
    DivergedError,
    IncompleteRecoveryError,
    RemovedError,
)
from antiphon.conversation.conversations import (
    accept_conversation,
    open_conversation,
    restart_conversation,
    stored_conversations,
    take_part,
)
from antiphon.conversation.filters import (
    ConversationFilter,
    ordered_broadcast,
    replicated_operations,
    send_stable,
    virtual_circuit,
)
from antiphon.conversation.routines import (
    AgreedSession,
    DatagramReceiver,
    RequestingClient,
    RespondingServer,
    TurnTaking,
    agreed_session,
    datagram_receiver,
    request_client,
    request_server,
    send_datagram,
    send_reliably,
    taking_turns,
)
from antiphon.stacks.conversation.free.limits import Limits as ConversationLimits
from antiphon.stacks.conversation.free.recovery import ReplayError
from antiphon.stacks.conversation.library.filter_base import FilterOptions
from antiphon.stacks.conversation.library.handed_out import Operation
from antiphon.stacks.conversation.library.requests import ReceivedRequest

__all__ = [
    "AgreedSession",
    "Checkpoint",
    "Conversation",
    "ConversationFilter",
    "ConversationLimits",
    "ConversationTimeoutError",
    "DatagramReceiver",
    "DivergedError",
    "FilterOptions",
    "IncompleteRecoveryError",
    "Operation",
    "ReceivedRequest",
    "RemovedError",
    "ReplayError",
    "RequestingClient",
    "RespondingServer",
    "TurnTaking",
    "accept_conversation",
    "agreed_session",
    "datagram_receiver",
    "open_conversation",
    "ordered_broadcast",
    "replicated_operations",
    "request_client",
    "request_server",
    "restart_conversation",
    "send_datagram",
    "send_reliably",
    "send_stable",
    "stored_conversations",
    "take_part",
    "taking_turns",
    "virtual_circuit",
]

_build.restore_docstrings(globals()[name] for name in __all__)
