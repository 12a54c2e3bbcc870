"""What a stack can have disks and links do. These are effects; what becomes of them are inputs (kernel/outcomes.py).

Tokens and ids of links are made by the stack (`Stack.new_token`); the outcome bears the same number, and so the engine
knows whose it is. Ids of links that somebody else opened are made by whoever accepts them, from the token of `Listen`
(`accepted_link`).

Disk. A log is a sequence of records, known by its name, which belongs to one process. `Store` appends; `Stored` says
that the records, and all that were stored before them in any log, would survive a crash and a power loss. `Load` reads
a log from its beginning; `Loaded` brings it. `Trim` drops records from the front of a log; it may take effect late.

Links. A link carries whole frames between two processes, in order. When it breaks, what arrived is a prefix of what was
sent: only a suffix is lost. A link that is full says by `LinkRoom` when it has room again; until then what is given to
it is kept, so whoever sends much waits for that. Each link ends with one `LinkDown`, or by `Hang`.
"""

from typing import Final, final

FRAME_BYTES_MAX: Final = 16 * 1024 * 1024
"""A longer frame ends the link that it comes in by."""
OUTSIDE_BYTES_MAX: Final = FRAME_BYTES_MAX // 2
"""The longest message of a sender outside a group, which goes to a member in one frame."""
LINK_BYTES_MAX: Final = 1024 * 1024
"""Bytes given to a link and not yet sent, from which on it is full."""
_TOKEN_BITS: Final = 32
_ACCEPTED: Final = 1 << 31


def token_of(stack: int, count: int) -> int:
    """The token that a stack with this number gives to the `count`-th thing that it asks for."""
    return stack << _TOKEN_BITS | count % _ACCEPTED


def stack_of_token(token: int) -> int:
    """The number of the stack that made a token, or for which the id of a link was made."""
    return token >> _TOKEN_BITS


def accepted_link(listen: int, count: int) -> int:
    """The id of the `count`-th link that was accepted for a `Listen` with this token."""
    return stack_of_token(listen) << _TOKEN_BITS | _ACCEPTED | count % _ACCEPTED


@final
class Store:
    """Append records to a log; `Stored` with this token follows when they are safe."""

    __slots__ = ("log", "records", "token")

    def __init__(self, log: str, records: list[bytes], token: int) -> None:
        self.log = log
        self.records = records
        self.token = token


@final
class Load:
    """Read a log; `Loaded` with this token follows. A log that was never written has no records."""

    __slots__ = ("log", "token")

    def __init__(self, log: str, token: int) -> None:
        self.log = log
        self.token = token


@final
class Trim:
    """Drop so many records from the front of a log."""

    __slots__ = ("count", "log")

    def __init__(self, log: str, count: int) -> None:
        self.log = log
        self.count = count


@final
class Listen:
    """Accept links from others, who dial the address of this process."""

    __slots__ = ("token",)

    def __init__(self, token: int) -> None:
        self.token = token


@final
class Dial:
    """Open a link to whoever listens at an address, on the same stack. `LinkUp` or `LinkDown` with this id follows."""

    __slots__ = ("address", "link")

    def __init__(self, link: int, address: str) -> None:
        self.link = link
        self.address = address


@final
class Frames:
    """Send frames by a link."""

    __slots__ = ("frames", "link")

    def __init__(self, link: int, frames: list[bytes]) -> None:
        self.link = link
        self.frames = frames


@final
class Hang:
    """Close a link, after what was given to it before. Nothing more will be heard of it."""

    __slots__ = ("link",)

    def __init__(self, link: int) -> None:
        self.link = link


Call = Store | Load | Trim | Listen | Dial | Frames | Hang
