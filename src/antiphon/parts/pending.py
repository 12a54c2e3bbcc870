"""Own messages that were accepted and have not left yet. They outlive the view: what one view did not send, the next
does.

    application ──accept──▶ pending (bytes bounded) ──next_load──▶ packet

Messages get their numbers here, in the order in which they were accepted, through all views. One load holds messages
of one level, as many as fit into a packet; a message that does not fit alone goes out in fragments, each a packet of
its own, one after the other. When pending is full the sender waits.
"""

from collections import deque
from typing import final

from antiphon.kernel.identity import ProcessId
from antiphon.kernel.options import Options
from antiphon.parts.packet import LENGTH_SIZE


@final
class TicketCounter:
    """Numbers what one process sends, to the groups of one causality domain or to one group."""

    __slots__ = ("last",)

    def __init__(self) -> None:
        self.last = 0


@final
class PendingRun:
    """Messages of one kind that were accepted one after the other: of one level and label, to the view or to some
    processes, or a barrier."""

    __slots__ = ("barrier", "destinations", "label", "level", "payloads", "position", "ticket")

    def __init__(
        self,
        level: int,
        payloads: list[bytes],
        destinations: tuple[ProcessId, ...],
        barrier: bool,
        label: str,
        ticket: int,
    ) -> None:
        self.level = level
        self.payloads = payloads
        self.destinations = destinations
        """None: all members of the view in which they leave."""
        self.barrier = barrier
        self.label = label
        self.ticket = ticket
        self.position = 0


@final
class PacketLoad:
    """What the next packet carries: whole messages, or (total > 0) one fragment of one message.

    `complete` holds the messages that are fully out once this packet is.
    """

    __slots__ = ("complete", "first_message", "fragment", "index", "level", "size", "total")

    def __init__(
        self,
        level: int,
        first_message: int,
        complete: list[bytes],
        size: int,
        fragment: bytes = b"",
        index: int = 0,
        total: int = 0,
    ) -> None:
        self.level = level
        self.first_message = first_message
        self.complete = complete
        self.size = size
        """The bytes of these together."""
        self.fragment = fragment
        self.index = index
        self.total = total


@final
class PendingQueue:
    """What this member has accepted for one group."""

    __slots__ = (
        "_fragment_index",
        "_next_message",
        "_options",
        "_tickets",
        "accepted",
        "pending_bytes",
        "runs",
        "was_full",
    )

    def __init__(self, options: Options, last_number: int = 0, tickets: TicketCounter | None = None) -> None:
        """`tickets`: what tells the place of each run among all that this process sends; else it counts its own."""
        self._options = options
        self._tickets = tickets or TicketCounter()
        self._fragment_index = 0
        self.runs: deque[PendingRun] = deque()
        """What waits, the next first."""
        self.was_full = False
        """Whether something was not accepted, and `take_writable` is to say when there is room."""
        self._next_message = last_number + 1
        self.accepted = last_number
        """The number of the last message that was accepted."""
        self.pending_bytes = 0

    def accept(
        self,
        payloads: list[bytes],
        level: int,
        destinations: tuple[ProcessId, ...] = (),
        barrier: bool = False,
        label: str = "",
    ) -> int:
        """Take messages from the front while there is room; how many."""
        count = 0
        size = 0
        room = self._options.pending_bytes_max - self.pending_bytes
        for payload in payloads:
            if size >= room:
                self.was_full = True
                break
            size += len(payload) + LENGTH_SIZE
            count += 1
        if count:
            taken = payloads if count == len(payloads) else payloads[:count]
            self._tickets.last += 1
            self.runs.append(PendingRun(level, list(taken), destinations, barrier, label, self._tickets.last))
            self.pending_bytes += size
            self.accepted += count
        return count

    def extend_barrier(self, payload: bytes, bytes_max: int) -> bool:
        """Append to the payload of a barrier that nothing was accepted after, up to so many bytes; whether there was
        one."""
        if not self.runs or not self.runs[-1].barrier:
            return False
        run = self.runs[-1]
        if len(run.payloads[0]) + len(payload) > bytes_max:
            return False
        run.payloads[0] += payload
        self.pending_bytes += len(payload)
        return True

    def messages(self) -> int:
        return self.accepted + 1 - self._next_message

    def next_message(self) -> int:
        """The number that the next message gets."""
        return self._next_message

    def fits(self, capacity: int) -> bool:
        """Whether the next message is whole and fits into so many bytes."""
        run = self.runs[0]
        return not self._fragment_index and len(run.payloads[run.position]) + LENGTH_SIZE <= capacity

    def take_message(self) -> tuple[int, bytes]:
        """Take the next message, whole; its number and itself."""
        run = self.runs[0]
        number = self._next_message
        message = run.payloads[run.position]
        self._advance(run, run.position + 1, len(message) + LENGTH_SIZE)
        return number, message

    def next_load(self, capacity: int, fragment_bytes: int) -> PacketLoad:
        """Take what fits into `capacity` bytes off the front; a fragment has `fragment_bytes`, but for the last one."""
        run = self.runs[0]
        payloads = run.payloads
        position = run.position
        first_message = self._next_message
        if self._fragment_index or len(payloads[position]) + LENGTH_SIZE > capacity:
            return self._next_fragment(run, fragment_bytes)
        end = position
        used = 0
        while end < len(payloads):
            size = len(payloads[end]) + LENGTH_SIZE
            if used + size > capacity:
                break
            used += size
            end += 1
        self._advance(run, end, used)
        return PacketLoad(run.level, first_message, payloads[position:end], used - LENGTH_SIZE * (end - position))

    def _next_fragment(self, run: PendingRun, size: int) -> PacketLoad:
        message = run.payloads[run.position]
        total = (len(message) + size - 1) // size
        index = self._fragment_index
        complete = [message] if index + 1 == total else []
        fragment = message[index * size : (index + 1) * size]
        load = PacketLoad(run.level, self._next_message, complete, len(message), fragment, index, total)
        self._fragment_index = index + 1
        if complete:
            self._fragment_index = 0
            self._advance(run, run.position + 1, len(message) + LENGTH_SIZE)
        return load

    def _advance(self, run: PendingRun, position: int, used: int) -> None:
        self._next_message += position - run.position
        self.pending_bytes -= used
        run.position = position
        if position == len(run.payloads):
            self.runs.popleft()

    def restart_message(self) -> None:
        """A new view: a message that was going out in fragments starts again from its first."""
        self._fragment_index = 0

    def take_writable(self) -> bool:
        """Whether pending was full and has half its room again; true once."""
        if self.was_full and self.pending_bytes <= self._options.pending_bytes_max // 2:
            self.was_full = False
            return True
        return False
