"""Conventional protocols over a conversation (psync-1989, 3.4 and 4.1): requests and replies, datagrams, turns, and a
beginning and an end that all agree on.

    async with request_client(conversation) as client:                     # one participant
        replies = await client.ask(b"what time is it?")

    async with request_server(conversation) as server:                     # the others
        async for request in server:
            server.reply(request, b"noon")

Each of them owns its conversation while it lasts, as filters do. It runs in the engine: retries need no task.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable
from types import TracebackType
from typing import Final, Self

from antiphon.conversation.conversation import Conversation, ConversationTimeoutError
from antiphon.kernel.errors import ClosedError, UsageError
from antiphon.parts.message_graph import GraphNode as Handle
from antiphon.stacks.conversation.library.continuity import Continuity
from antiphon.stacks.conversation.library.datagrams import Acknowledger
from antiphon.stacks.conversation.library.filtering import BeginStableSend, EndFilter
from antiphon.stacks.conversation.library.frames import DATA, framed
from antiphon.stacks.conversation.library.handshake import (
    ENDED,
    FAILED,
    LINGERING,
    OPENING,
    TALKING,
    HandshakeSession,
)
from antiphon.stacks.conversation.library.requests import ReceivedRequest, RequestClient, RequestServer
from antiphon.stacks.conversation.library.routines import (
    ACKNOWLEDGER,
    CLIENT,
    HANDSHAKE,
    SERVER,
    TURNS,
    AskServers,
    BeginRoutine,
    ReplyToClient,
    Routine,
    SayInTurn,
    SendDatagram,
    SendInSession,
)
from antiphon.stacks.conversation.library.stable import ALL, FAILURE, SUCCESS, WAITING

TRIES: Final = 8
TIMEOUT_S: Final = 0.2


class ConversationRoutine:
    """One participant's end of a routine of the library."""

    _name = ""

    def __init__(self, conversation: Conversation, tries: int = TRIES, timeout_s: float = TIMEOUT_S) -> None:
        self.conversation = conversation
        self._begin = BeginRoutine(conversation.cid, self._name, tries, int(timeout_s * 1e9))
        self._timeout_s = tries * timeout_s

    def __repr__(self) -> str:
        return f"<{type(self).__name__} in {self.conversation!r}>"

    async def __aenter__(self) -> Self:
        self.conversation._check()
        while self._name == HANDSHAKE and not self.conversation.core.may_send():
            await self.conversation.changed()
        self.conversation.ask(self._begin)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if not self.conversation.is_closed:
            self.conversation.ask(EndFilter(self.conversation.cid))

    @property
    def _routine(self) -> Routine:
        if self._begin.machine is None:
            raise UsageError("the routine was not begun; use it as `async with`")
        return self._begin.machine

    async def _until(self, condition: Callable[[], bool]) -> None:
        self.conversation._check()
        while not condition():
            await self.conversation.changed()


class RequestingClient(ConversationRoutine):
    """The participant that sends requests, one at a time; made by `request_client`."""

    _name = CLIENT

    async def ask(self, payload: bytes, *, wanted: int = 1) -> list[tuple[Handle, bytes]]:
        """Send a request to all servers and wait for so many replies. Raises ConversationTimeoutError when all tries
        were in vain."""
        client = self._routine
        assert isinstance(client, RequestClient)
        self.conversation.ask(AskServers(self.conversation.cid, payload, wanted))
        await self._until(lambda: client.outcome != WAITING)
        if client.outcome == FAILURE:
            raise ConversationTimeoutError(f"{len(client.replies)} of {wanted} replies came", self._timeout_s)
        return list(client.replies)


class RespondingServer(ConversationRoutine):
    """A participant that answers requests; made by `request_server`. Iterating over it gives the requests."""

    _name = SERVER

    def reply(self, request: ReceivedRequest, payload: bytes) -> bool:
        """Answer a request; false, and nothing is sent, if the client has asked something else since."""
        self.conversation._check()
        answer = ReplyToClient(self.conversation.cid, request, payload)
        self.conversation.ask(answer)
        return answer.sent

    async def receive(self) -> ReceivedRequest:
        """The next request."""
        server = self._routine
        assert isinstance(server, RequestServer)
        await self._until(lambda: bool(server.received))
        return server.received.pop(0)

    async def __aiter__(self) -> AsyncIterator[ReceivedRequest]:
        while True:
            try:
                request = await self.receive()
            except ClosedError:
                if self.conversation.is_closed:
                    return
                raise
            yield request


class DatagramReceiver(ConversationRoutine):
    """A participant that acknowledges what it receives; made by `datagram_receiver`."""

    _name = ACKNOWLEDGER

    async def receive(self) -> tuple[Handle, bytes]:
        """The next datagram."""
        receiver = self._routine
        assert isinstance(receiver, Acknowledger)
        await self._until(lambda: bool(receiver.received))
        return receiver.received.pop(0)


class TurnTaking(ConversationRoutine):
    """One of two that speak by turns, each answering what the other said; made by `taking_turns`."""

    _name = TURNS

    @property
    def is_my_turn(self) -> bool:
        """Whether this participant is to speak; the one that opened the conversation begins."""
        turns = self._routine
        assert isinstance(turns, Continuity)
        return turns.my_turn

    async def say(self, payload: bytes) -> None:
        """Answer the other's last message. Raises UsageError if it is the other's turn."""
        self.conversation._check()
        self.conversation.ask(SayInTurn(self.conversation.cid, payload))

    async def hear(self) -> bytes:
        """The other's answer. Raises ConversationTimeoutError when all tries were in vain."""
        turns = self._routine
        assert isinstance(turns, Continuity)
        await self._until(lambda: turns.heard is not None or turns.has_failed())
        if turns.heard is None:
            raise ConversationTimeoutError("the other did not answer", self._timeout_s)
        heard, turns.heard = turns.heard, None
        return heard


class AgreedSession(ConversationRoutine):
    """A conversation that begins and ends for all; made by `agreed_session`, which waits until it has begun. Iterating
    over it gives what the others say, until it has ended."""

    _name = HANDSHAKE

    def __init__(self, conversation: Conversation, tries: int = TRIES, timeout_s: float = TIMEOUT_S) -> None:
        super().__init__(conversation, tries, timeout_s)
        self._received: deque[tuple[Handle, bytes]] = deque()

    @property
    def _session(self) -> HandshakeSession:
        session = self._routine
        assert isinstance(session, HandshakeSession)
        return session

    async def __aenter__(self) -> Self:
        await super().__aenter__()
        await self._until(lambda: self._session.phase != OPENING)
        self._check_failure()
        return self

    def _check_failure(self) -> None:
        if self._session.phase == FAILED:
            raise ConversationTimeoutError("not everybody took part in beginning or ending", self._timeout_s)

    async def send(self, payload: bytes) -> None:
        """Say something. Raises UsageError once somebody has begun to end the conversation."""
        await self._until(lambda: self._session.may_send() or self._session.phase != TALKING)
        self.conversation.ask(SendInSession(self.conversation.cid, payload))

    async def end(self) -> None:
        """Have nothing more to say, and wait until nobody has. Raises ConversationTimeoutError."""
        self.conversation._check()
        self.conversation.ask(SendInSession(self.conversation.cid, None))
        await self._until(lambda: self._session.phase in (LINGERING, ENDED, FAILED))
        self._check_failure()

    async def __aiter__(self) -> AsyncIterator[tuple[Handle, bytes]]:
        session = self._session
        while True:
            await self._until(lambda: bool(session.received) or session.phase in (LINGERING, ENDED, FAILED))
            if not session.received:
                self._check_failure()
                return
            yield session.received.pop(0)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Stay while others may still ask for the last message."""
        if kind is None:
            await self._until(lambda: self._session.phase != LINGERING)
        await super().__aexit__(kind, error, traceback)


def request_client(conversation: Conversation, *, tries: int = TRIES, timeout_s: float = TIMEOUT_S) -> RequestingClient:
    """Send requests to all others of a conversation, which are servers (4.1). A request is retried so often, the first
    time after `timeout_s`."""
    return RequestingClient(conversation, tries, timeout_s)


def request_server(conversation: Conversation) -> RespondingServer:
    """Answer the requests of the one client of a conversation (4.1)."""
    return RespondingServer(conversation)


def datagram_receiver(conversation: Conversation) -> DatagramReceiver:
    """Receive and acknowledge what others send by `send_reliably` (4.1)."""
    return DatagramReceiver(conversation)


def taking_turns(conversation: Conversation, *, tries: int = TRIES, timeout_s: float = TIMEOUT_S) -> TurnTaking:
    """Speak by turns with the one other participant: conversational continuity, without any message but the
    application's (4.1)."""
    return TurnTaking(conversation, tries, timeout_s)


def agreed_session(conversation: Conversation, *, tries: int = TRIES, timeout_s: float = TIMEOUT_S) -> AgreedSession:
    """Begin and end a conversation together with all others, by handshakes (3.4: initialize and terminate)."""
    return AgreedSession(conversation, tries, timeout_s)


async def send_datagram(conversation: Conversation, payload: bytes) -> None:
    """Send a message once: nobody acknowledges it, and nobody repeats it (4.1)."""
    conversation._check()
    while not conversation.core.may_send():
        await conversation.changed()
    conversation.ask(SendDatagram(conversation.cid, payload))


async def send_reliably(
    conversation: Conversation, payload: bytes, *, tries: int = TRIES, timeout_s: float = TIMEOUT_S
) -> bool:
    """Send a message again until all others, which are datagram receivers, have acknowledged it (4.1); whether they
    have."""
    conversation._check()
    while not conversation.core.may_send():
        await conversation.changed()
    begin = BeginStableSend(
        conversation.cid, framed(DATA, payload), tries=tries, timeout_ns=int(timeout_s * 1e9), participants=ALL
    )
    conversation.ask(begin)
    sending = begin.machine
    assert sending is not None
    try:
        while sending.outcome == WAITING:
            await conversation.changed()
    finally:
        if not conversation.is_closed:
            conversation.ask(EndFilter(conversation.cid))
    await asyncio.sleep(0)
    return sending.outcome == SUCCESS
