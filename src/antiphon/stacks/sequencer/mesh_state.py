"""What a peer that is one of several keeps: links to the others, and what waits for an answer of theirs (mesh.py)."""

from typing import final

from antiphon.kernel.identity import ProcessId
from antiphon.stacks.sequencer.peer import ServedClient
from antiphon.stacks.sequencer.sequenced_group import SequencedGroup
from antiphon.stacks.sequencer.wire import FrameAssembler


@final
class PeerLink:
    """The link that this peer has dialled to another."""

    __slots__ = ("address", "assembler", "dial_at_ns", "id", "identity", "is_open", "out")

    def __init__(self, address: str, now_ns: int) -> None:
        self.address = address
        self.id = 0
        self.is_open = False
        self.identity: ProcessId | None = None
        """Who was there last."""
        self.dial_at_ns = now_ns
        self.out: list[bytes] = []
        self.assembler = FrameAssembler(0)


@final
class OutgoingTransfer:
    """A component on its way to another peer."""

    __slots__ = ("address", "clients", "data", "groups", "identity", "token")

    def __init__(self, token: int, address: str, clients: list[ServedClient], groups: list[SequencedGroup]) -> None:
        self.token = token
        self.address = address
        self.clients = clients
        self.groups = groups
        self.identity: ProcessId | None = None
        """To whom it was first sent."""
        self.data: list[bytes] = []


@final
class WaitingJoin:
    """A join or a creation that waits for the directory, or for a transfer."""

    __slots__ = ("client", "creates", "last_number", "name", "retry_at_ns")

    def __init__(self, client: ServedClient, name: str, last_number: int, creates: bool) -> None:
        self.client = client
        self.name = name
        self.last_number = last_number
        self.creates = creates
        self.retry_at_ns = 0
        """When to look again; 0 while an answer is waited for."""


@final
class SearchForClient:
    """Peers are being asked for a client that came here and is not known here."""

    __slots__ = ("asked", "client", "groups")

    def __init__(self, client: ServedClient, groups: list[int], asked: set[str]) -> None:
        self.client = client
        self.groups = groups
        self.asked = asked
