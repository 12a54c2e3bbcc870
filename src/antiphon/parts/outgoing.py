"""Own packets of one view: numbered, and kept until every member has them."""

from typing import final


@final
class OutgoingStream:
    """What this member has sent to one group in one view."""

    __slots__ = ("copies", "sent", "stable")

    def __init__(self) -> None:
        self.sent = 0
        self.stable = 0
        self.copies: dict[int, bytes] = {}

    def keep(self, packet: bytes) -> None:
        """The packet numbered sent + 1 has been made."""
        self.sent += 1
        self.copies[self.sent] = packet

    def note_stable(self, stable: int) -> bool:
        """Every member has everything up to here; whether that is news."""
        if stable <= self.stable:
            return False
        for number in range(self.stable + 1, stable + 1):
            self.copies.pop(number, None)
        self.stable = stable
        return True
