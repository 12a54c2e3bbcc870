"""What an application reads from a group: one stream of messages and view changes, in the promised order.

In a group whose view can change (policy `primary`) the stream may also hold Stalled, which the next ViewChange ends,
and Excluded. That is its last event, unless the node was made with `rejoin`: then the stream goes on with the
ViewChange by which the next incarnation of this process comes in.
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
    private: bool = False
    """Whether it was sent to this process alone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """Consecutive messages of one sender at one level: `payloads[0]` is message `number`, the next is `number + 1`…"""

    payloads: list[bytes]
    sender: ProcessId
    number: int
    order: str
    group: str
    view_id: int
    private: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Barrier:
    """An event that has the same place among all deliveries at all members: with it the view ends, and the next, of the
    same members unless some have joined, left or failed, begins."""

    payload: bytes
    sender: ProcessId
    number: int
    """Its place among the messages of its sender, with which it is numbered."""
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
    """The others went on without this process, whose incarnation ends here.

    What they deliver between this and the view in which the next incarnation comes in is missed: whoever keeps a state
    must fetch it anew.
    """

    group: str
    view: View
    """The last view that this process was in."""
    unsettled: int = 0
    """Messages and packets of this incarnation that some member was not known to have: the others may have delivered
    them or not, and they are not sent again. 0: everybody has everything. What was sent after those, the next
    incarnation sends, if there is one."""


StreamEvent = Message | ViewChange | Barrier | Stalled | Excluded
"""What a reader of single messages gets."""
BatchEvent = Batch | ViewChange | Barrier | Stalled | Excluded
"""What a reader of batches gets."""
