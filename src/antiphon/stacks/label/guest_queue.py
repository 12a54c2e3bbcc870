"""What guests have handed to one member in one view, and has not left. It ends with the view: what has not left by then
is the guest's to send again (guests.py, rule 1).

Limits: each guest keeps within GUEST_MESSAGES_MAX messages and GUEST_BYTES_MAX bytes that were not acknowledged to it
(visitor.py); of all guests together a door keeps `pending_bytes_max`, and hangs up on those that bring more.
"""

from collections import deque
from typing import Final, final

from antiphon.kernel.identity import ProcessId
from antiphon.kernel.options import Options
from antiphon.parts.pending import PacketLoad

GUEST_MESSAGES_MAX: Final = 256
GUEST_BYTES_MAX: Final = 1024 * 1024


@final
class GuestMessage:
    """One message of a guest."""

    __slots__ = ("destinations", "guest", "label", "level", "number", "payload")

    def __init__(
        self, guest: ProcessId, number: int, level: int, label: str, destinations: tuple[ProcessId, ...], payload: bytes
    ) -> None:
        self.guest = guest
        self.number = number
        self.level = level
        self.label = label
        """Of an ABCAST; others have none."""
        self.destinations = destinations
        """None: all members."""
        self.payload = payload


@final
class GuestQueue:
    """Messages of guests, in the order in which they came."""

    __slots__ = ("_bytes", "_bytes_max", "_fragment_index", "messages")

    def __init__(self, options: Options) -> None:
        self.messages: deque[GuestMessage] = deque()
        self._bytes = 0
        self._bytes_max = max(options.pending_bytes_max, options.message_bytes_max)
        self._fragment_index = 0

    def has_room(self, message: GuestMessage) -> bool:
        return not self.messages or self._bytes + len(message.payload) <= self._bytes_max

    def add(self, message: GuestMessage) -> None:
        self.messages.append(message)
        self._bytes += len(message.payload)

    def next_load(self, room: int) -> PacketLoad:
        """Take the next message off the front, or a fragment of `room` bytes if it is longer than that."""
        message = self.messages[0]
        payload, index = message.payload, self._fragment_index
        if not index and len(payload) <= room:
            self._remove()
            return PacketLoad(message.level, message.number, [payload], len(payload))
        total = (len(payload) + room - 1) // room
        complete = [payload] if index + 1 == total else []
        fragment = payload[index * room : (index + 1) * room]
        self._fragment_index = index + 1
        if complete:
            self._remove()
        return PacketLoad(message.level, message.number, complete, len(payload), fragment, index, total)

    def _remove(self) -> None:
        self._bytes -= len(self.messages.popleft().payload)
        self._fragment_index = 0
