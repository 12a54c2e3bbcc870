"""The routines of 3.4 and 4.1 in the engine: requests that put one on a conversation, and tell it what to do."""

from typing import Final, final

from antiphon.kernel.errors import UsageError
from antiphon.stacks.conversation.free.conversation import ConversationCore
from antiphon.stacks.conversation.free.requests import ConversationRequest
from antiphon.stacks.conversation.library.continuity import Continuity
from antiphon.stacks.conversation.library.datagrams import Acknowledger, send_datagram
from antiphon.stacks.conversation.library.filter_base import FilterOptions
from antiphon.stacks.conversation.library.filtering import BeginFilter
from antiphon.stacks.conversation.library.handshake import HandshakeSession
from antiphon.stacks.conversation.library.requests import ReceivedRequest, RequestClient, RequestServer

CLIENT: Final = "client"
SERVER: Final = "server"
HANDSHAKE: Final = "handshake"
TURNS: Final = "turns"
ACKNOWLEDGER: Final = "acknowledger"

Routine = RequestClient | RequestServer | HandshakeSession | Continuity | Acknowledger


@final
class BeginRoutine(BeginFilter):
    """Put a routine of the library on a conversation; `machine` is this end of it."""

    __slots__ = ("machine", "name", "timeout_ns", "tries")

    def __init__(self, cid: int, name: str, tries: int, timeout_ns: int) -> None:
        super().__init__(cid, FilterOptions())
        self.name = name
        self.tries = tries
        self.timeout_ns = timeout_ns
        self.machine: Routine | None = None

    def act(self, conversation: ConversationCore, now_ns: int) -> None:
        self.check(conversation)
        tries, timeout_ns = self.tries, self.timeout_ns
        if self.name == CLIENT:
            machine: Routine = RequestClient(conversation, tries=tries, timeout_ns=timeout_ns)
        elif self.name == SERVER:
            machine = RequestServer(conversation)
        elif self.name == HANDSHAKE:
            machine = HandshakeSession(conversation, now_ns, tries=tries, timeout_ns=timeout_ns)
        elif self.name == TURNS:
            machine = Continuity(conversation, tries=tries, timeout_ns=timeout_ns)
        elif self.name == ACKNOWLEDGER:
            machine = Acknowledger(conversation)
        else:
            raise UsageError(f"the library has no routine {self.name!r}")
        self.machine = machine
        conversation.put_filter(machine)


@final
class SendDatagram(ConversationRequest):
    """Send a message once, without acknowledgement or retry."""

    __slots__ = ("payload",)

    def __init__(self, cid: int, payload: bytes) -> None:
        super().__init__(cid)
        self.payload = payload

    def act(self, conversation: ConversationCore, now_ns: int) -> None:
        send_datagram(conversation, self.payload)


@final
class AskServers(ConversationRequest):
    """Have the client send a request, for so many replies."""

    __slots__ = ("payload", "wanted")

    def __init__(self, cid: int, payload: bytes, wanted: int) -> None:
        super().__init__(cid)
        self.payload = payload
        self.wanted = wanted

    def act(self, conversation: ConversationCore, now_ns: int) -> None:
        machine = conversation.filter
        if not isinstance(machine, RequestClient):
            raise UsageError("no client stands on this conversation")
        machine.ask(self.payload, now_ns, wanted=self.wanted)


@final
class ReplyToClient(ConversationRequest):
    """Have the server answer a request; `sent` is false if the client has asked something else since."""

    __slots__ = ("payload", "received", "sent")

    def __init__(self, cid: int, received: ReceivedRequest, payload: bytes) -> None:
        super().__init__(cid)
        self.received = received
        self.payload = payload
        self.sent = False

    def act(self, conversation: ConversationCore, now_ns: int) -> None:
        machine = conversation.filter
        if not isinstance(machine, RequestServer):
            raise UsageError("no server stands on this conversation")
        self.sent = machine.reply(self.received, self.payload)


@final
class SayInTurn(ConversationRequest):
    """Answer the other's last message."""

    __slots__ = ("payload",)

    def __init__(self, cid: int, payload: bytes) -> None:
        super().__init__(cid)
        self.payload = payload

    def act(self, conversation: ConversationCore, now_ns: int) -> None:
        machine = conversation.filter
        if not isinstance(machine, Continuity):
            raise UsageError("nobody takes turns in this conversation")
        machine.say(self.payload, now_ns)


@final
class SendInSession(ConversationRequest):
    """Send a message between the beginning and the end that were agreed on; without a payload, begin to end."""

    __slots__ = ("payload",)

    def __init__(self, cid: int, payload: bytes | None) -> None:
        super().__init__(cid)
        self.payload = payload

    def act(self, conversation: ConversationCore, now_ns: int) -> None:
        machine = conversation.filter
        if not isinstance(machine, HandshakeSession):
            raise UsageError("no session stands on this conversation")
        if self.payload is None:
            machine.end(now_ns)
        else:
            machine.send(self.payload)
