"""What a participant writes down to come back (psync-1989, 5.1)."""

from dataclasses import dataclass
from typing import Self

import msgspec

from antiphon.kernel.errors import UsageError
from antiphon.parts.message_graph import Mid


@dataclass(frozen=True)
class Checkpoint:
    """What a participant has to know to come back, to be written down together with the application's state:
    `to_bytes` and `from_bytes` are there for that."""

    cid: int
    participants: dict[str, str]
    """Names and addresses, in their order."""
    leaves: tuple[Mid, ...]
    """The view: sender's rank and number of each message that nothing follows there."""
    unstable: tuple[bytes, ...] = ()
    """Messages of the view that the others may lack."""
    incarnation: int = 0
    """In which the participant was: it comes back in a higher one."""
    base: bytes = b""
    """What is needed of the graph if all others have forgotten what came before."""
    filter_state: bytes = b""
    """What the filter on the conversation had to send and to hand out."""

    def to_bytes(self) -> bytes:
        """Return the checkpoint in bytes."""
        return msgspec.msgpack.encode(self)

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """Return the checkpoint that `to_bytes` made these of. Raises UsageError."""
        try:
            return msgspec.msgpack.decode(data, type=cls)
        except msgspec.DecodeError as error:
            raise UsageError(f"these bytes are no checkpoint: {error}") from None
