"""Errors, by who is to blame.

UsageError     the caller's: raised to the caller, before anything has changed.
MalformedError a peer's, or the network's: never leaves the engine; the packet is counted and dropped.
Our own mistakes are plain asserts.
"""


class AntiphonError(Exception):
    """The root of everything that Antiphon raises on purpose."""


class UsageError(AntiphonError):
    """The caller asked for something that cannot be done; the text says what to do instead."""


class MessageTooLargeError(UsageError):
    """A message is longer than the group allows."""

    def __init__(self, size: int, size_max: int) -> None:
        super().__init__(
            f"the message has {size} bytes, but this group carries at most {size_max}; "
            "send it in parts or raise message_bytes_max for the group"
        )
        self.size = size
        self.size_max = size_max


class LevelNotOfferedError(UsageError):
    """A stack does not offer the service level that was asked for."""

    def __init__(self, level: str, stack: str, offered: tuple[str, ...], others: tuple[str, ...]) -> None:
        where = f"stacks that do: {', '.join(others)}" if others else "no stack offers it yet"
        super().__init__(f"stack {stack!r} offers {', '.join(offered)}, not {level!r}; {where}")
        self.level = level
        self.stack = stack


class ClosedError(UsageError):
    """The node or group was closed."""


class MalformedError(AntiphonError):
    """A packet does not follow the wire format; `reason` is a short word for the counter it goes to."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason
