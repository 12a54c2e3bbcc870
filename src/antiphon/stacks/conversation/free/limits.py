"""The limits of conversations (psync-1989, 3.3). Beside each stands what happens there.

What comes in beyond a limit is dropped and counted, as if it had been lost on the way; if it matters, it is asked for
again later.
"""

from dataclasses import dataclass, fields
from typing import Final

from antiphon.kernel.errors import UsageError

MIB: Final = 1024 * 1024


@dataclass(frozen=True, kw_only=True)
class Limits:
    """Limits of one process, or of each of its conversations; the same at all participants."""

    conversations_max: int = 1024
    """Conversations that one process has open. At the limit no more can be opened."""
    pending_max: int = 64
    """Conversations that others have opened and this process has not accepted, with their first message each. What
    comes beyond is dropped, and so is every further message of one that is pending."""
    closed_max: int = 1024
    """Conversations that are remembered to be closed here: a late first message does not open them again."""

    unstable_max: int = 1024
    """Messages of one sender that are not stable. At the limit the sender waits."""
    buffer_bytes_max: int = 16 * MIB
    """Bytes of messages that are not stable, shared evenly among the participants. At its share a sender waits, and
    what comes of one beyond its share is dropped."""
    held_max: int = 1024
    """Messages that wait for their predecessors; what comes beyond is dropped."""
    held_bytes_max: int = 16 * MIB
    """The same in bytes."""
    message_bytes_max: int = 64 * MIB
    """A longer message is refused at the call."""
    assembly_bytes_max: int = 96 * MIB
    """Bytes of long messages of which some slices have come. At the limit the one that has waited longest is given
    up."""
    assemblies_max: int = 64
    """Long messages of which some slices have come; the same happens there."""

    nodes_max: int = 100_000
    """How many messages the application may ask about, the threshold of 3.3: the earliest stable ones are forgotten
    beyond it, also where everything is kept. 0: none is forgotten but by `free`."""
    kept_bytes_max: int = 256 * MIB
    """Where everything is kept so that participants can come back: bytes of it that stay in memory. Beyond them the
    earliest is forgotten, and who comes back later finds a part of the history only."""

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            least = 0 if field.name == "nodes_max" else 1
            if value < least:
                raise UsageError(f"{field.name} is {value}; it must be at least {least}")
