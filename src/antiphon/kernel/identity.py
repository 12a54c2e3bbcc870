"""Who is who: processes, views and messages.

A process is a name plus an incarnation number. A process that restarts takes a higher incarnation and is a
stranger to everybody: nothing of its former life is ever taken for its own, and no message id is used twice.

A message is named by (group, sender, incarnation, number); a sender numbers its messages to one group 1, 2, 3…
in the order in which it sent them, through all views, without gaps.
"""

from hashlib import blake2b
from typing import Final, final

from antiphon.kernel.wire_versions import VERSION_MIN

NAME_BYTES_MAX: Final = 200
NUMBER_MAX: Final = (1 << 62) - 1
"""No count, number, view id or incarnation is greater: histories keep 64 bits with a sign, and the compiled core is
fast below 2^62."""


_FROM_CLOCK: Final = 36**7
"""Incarnations from here on are times in milliseconds, and have eight digits to base 36 for the next 60 years."""
_DIGITS: Final = "0123456789abcdefghijklmnopqrstuvwxyz"


def _short(number: int) -> str:
    digits: list[str] = []
    while number:
        number, digit = divmod(number, 36)
        digits.append(_DIGITS[digit])
    return "".join(reversed(digits))


@final
class ProcessId:
    """One life of one process. Immutable, ordered by (name, incarnation), usable as a key."""

    __slots__ = ("incarnation", "name")

    def __init__(self, name: str, incarnation: int = 1) -> None:
        self.name = name
        self.incarnation = incarnation

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ProcessId) and other.name == self.name and other.incarnation == self.incarnation

    def __hash__(self) -> int:
        return hash((self.name, self.incarnation))

    def __lt__(self, other: "ProcessId") -> bool:
        return (self.name, self.incarnation) < (other.name, other.incarnation)

    @property
    def full(self) -> str:
        """Name and incarnation in figures, as histories have them."""
        return f"{self.name}/{self.incarnation}"

    @property
    def is_from_clock(self) -> bool:
        """Whether the incarnation is a time in milliseconds."""
        return self.incarnation >= _FROM_CLOCK

    def __repr__(self) -> str:
        """Name and incarnation; one that came from the clock in fewer digits, to base 36."""
        return f"{self.name}~{_short(self.incarnation)}" if self.is_from_clock else self.full


def is_name(text: str) -> bool:
    """Whether this can be the name of a process: not empty, not too long, printable, and without a slash, which stands
    between a name and an incarnation."""
    return 0 < len(text.encode(errors="replace")) <= NAME_BYTES_MAX and text.isprintable() and "/" not in text


@final
class View:
    """The membership of a group as its members see it. `members` is ranked by age: the oldest comes first.

    `addresses`, if known, stand in the same order; what they mean is the runtime's affair.
    """

    __slots__ = ("addresses", "id", "members", "version")

    def __init__(
        self, id: int, members: tuple[ProcessId, ...], addresses: tuple[str, ...] = (), version: int = VERSION_MIN
    ) -> None:
        self.id = id
        self.members = members
        self.addresses = addresses
        self.version = version
        """The highest that its packets may be of (wire_versions.py)."""

    def rank(self, process: ProcessId) -> int:
        """The place of `process` among the members, or -1 for a stranger."""
        for rank, member in enumerate(self.members):
            if member == process:
                return rank
        return -1

    def __repr__(self) -> str:
        return f"View({self.id}, {', '.join(repr(member) for member in self.members)})"


def wire_id(group: str) -> int:
    """The 64-bit number that stands for a group's name in packets."""
    return int.from_bytes(blake2b(group.encode(), digest_size=8).digest(), "little")
