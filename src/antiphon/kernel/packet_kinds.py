"""All kinds of packets, in one table. A packet's header names its stack and its kind; a stack says in its capabilities
which kinds it uses (stacks/stack.py), and so several can use the same kind, each in its own way.

kind         carries
DATA         messages of one sender, with what orders them
STATUS       what its sender holds, perhaps with a question for the same
REQUEST      which packets its sender lacks
MEMBERSHIP   agreement on views (parts/membership/messages.py)
PRIVATE      a message to one member
PRIVATE_ACK  that it has come
START        the first message of a conversation, with its participants
ADD          a node of the context graph
ASK          which nodes its sender lacks
RESTART      that its sender has come back
PART         a slice of a long node
ASK_PARTS    which slices its sender lacks
KNOCK        that its sender, who is no member, wants to send to a group; or where it may dial for that

Numbers from 128 on are for stacks that are registered from outside the package.
"""

from typing import Final

DATA: Final = 1
STATUS: Final = 2
REQUEST: Final = 3
MEMBERSHIP: Final = 4
PRIVATE: Final = 5
PRIVATE_ACK: Final = 6
START: Final = 7
ADD: Final = 8
ASK: Final = 9
RESTART: Final = 10
PART: Final = 11
ASK_PARTS: Final = 12
KNOCK: Final = 13

KIND_NAMES: Final = {
    DATA: "data",
    STATUS: "status",
    REQUEST: "request",
    MEMBERSHIP: "membership",
    PRIVATE: "private",
    PRIVATE_ACK: "private ack",
    START: "start",
    ADD: "add",
    ASK: "ask",
    RESTART: "restart",
    PART: "part",
    ASK_PARTS: "ask parts",
    KNOCK: "knock",
}
