"""What an application reads from a group: one stream of messages and view changes, in the promised order.

In a group whose view can change (policy `primary`) the stream may also hold Stalled, which the next ViewChange ends,
and Excluded, which is its last event.
"""

from dataclasses import dataclass

from antiphon.kernel.identity import ProcessId, View


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """One message, in its promised place."""

    payload: bytes
    sender: ProcessId
    number: int
    """The sender numbers its messages to this group 1, 2, 3… in the order of sending."""
    order: str
    """The level it was sent at."""
    group: str
    view_id: int
    """The view in which it is delivered."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """Consecutive messages of one sender at one level: `payloads[0]` is message `number`, the next is `number + 1`…"""

    payloads: list[bytes]
    sender: ProcessId
    number: int
    order: str
    group: str
    view_id: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ViewChange:
    """From here on the group is in `view`; the first event of every stream is one of these."""

    group: str
    view: View
    joined: tuple[ProcessId, ...]
    """In this view and not in the one before; at the first view, everybody."""
    left: tuple[ProcessId, ...]
    """Gone by their own will."""
    failed: tuple[ProcessId, ...]
    """Gone because they were given up."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stalled:
    """No majority of the view can be reached: nothing is sent or delivered until the next ViewChange."""

    group: str
    view: View
    """The view in which the group stands still here; others may have gone on, if they are a majority of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Excluded:
    """The others went on without this process, which must join again as a new incarnation. Nothing comes after this."""

    group: str
    view: View
    """The last view that this process was in."""


StreamEvent = Message | ViewChange | Stalled | Excluded
"""What a reader of single messages gets."""
BatchEvent = Batch | ViewChange | Stalled | Excluded
"""What a reader of batches gets."""
