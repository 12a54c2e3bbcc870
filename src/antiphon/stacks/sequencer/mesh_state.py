"""What a peer that is one of several keeps: links to the others, and what waits for an answer of theirs (mesh.py)."""

from typing import Final, final

from antiphon.kernel.effects import NEVER
from antiphon.kernel.identity import ProcessId
from antiphon.stacks.sequencer.sequenced_group import SequencedGroup
from antiphon.stacks.sequencer.served_client import ServedClient
from antiphon.stacks.sequencer.wire import FrameAssembler

CREATING: Final = 0
JOINING: Final = 1
RESUMING: Final = 2
SENDING: Final = 3


@final
class PeerLink:
    """The link that this peer has dialled to another."""

    __slots__ = ("address", "assembler", "dial_at_ns", "id", "identity", "is_open", "lost_ns", "out")

    def __init__(self, address: str, now_ns: int) -> None:
        self.address = address
        self.id = 0
        self.is_open = False
        self.identity: ProcessId | None = None
        """Who was there last."""
        self.dial_at_ns = now_ns
        self.lost_ns = now_ns
        """When it was last open."""
        self.out: list[bytes] = []
        self.assembler = FrameAssembler(0)


@final
class OutgoingTransfer:
    """Groups on their way to another peer."""

    __slots__ = ("address", "data", "groups", "identity", "token")

    def __init__(self, token: int, address: str, groups: list[SequencedGroup]) -> None:
        self.token = token
        self.address = address
        self.groups = groups
        self.identity: ProcessId | None = None
        """To whom it was first sent."""
        self.data = b""

    def processes(self) -> list[ProcessId]:
        """Whom the groups owe something."""
        found: dict[ProcessId, None] = {}
        for group in self.groups:
            found.update(dict.fromkeys(group.reported))
        return list(found)


@final
class GroupLookup:
    """A request for a group that is not here, or not yet: it waits for the directory, for a transfer, or for others."""

    __slots__ = ("asked", "client", "group", "kind", "last_number", "misses", "name", "others", "retry_at_ns", "told")

    def __init__(self, kind: int, client: ServedClient, group: int) -> None:
        self.kind = kind
        self.client = client
        self.group = group
        self.name = ""
        """Of joins and creations."""
        self.last_number = 0
        self.others: list[int] = []
        """The groups that a client that joins is in, or asks to join."""
        self.misses = 0
        """How often the group was not where the directory says."""
        self.asked: set[str] = set()
        """The peers that are being asked for it, and have not answered."""
        self.told = ""
        """The peer that the client was told it waits for."""
        self.retry_at_ns = NEVER
        """When to look again; NEVER while an answer is waited for."""

    def key(self) -> tuple[ProcessId, int, int]:
        """One is enough for each."""
        return (self.client.process, self.group, self.kind)
