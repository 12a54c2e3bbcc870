"""What became of something that a stack asked for: of a question to the application, of a disk, of a link. These are
inputs; what they answer are effects (kernel/calls.py, and `AskApplication` in kernel/effects.py)."""

from typing import final

from antiphon.kernel.identity import ProcessId


class CallOutcome:
    """What became of the thing that `token` stands for, or happened to the link with that id."""

    __slots__ = ("token",)

    def __init__(self, token: int) -> None:
        self.token = token


@final
class ApplicationAnswer(CallOutcome):
    """What the application says to the `AskApplication` with this token."""

    __slots__ = ("answer",)

    def __init__(self, token: int, answer: bytes) -> None:
        super().__init__(token)
        self.answer = answer


@final
class Stored(CallOutcome):
    """The records of the `Store` with this token are safe."""

    __slots__ = ()


@final
class Loaded(CallOutcome):
    """The records of the log that the `Load` with this token asked for."""

    __slots__ = ("records",)

    def __init__(self, token: int, records: list[bytes]) -> None:
        super().__init__(token)
        self.records = records


@final
class LinkUp(CallOutcome):
    """A link is open: one that was dialled, or (`listen` set) one that was accepted. `identity`: who is at the other
    end, as far as the runtime has made sure of it."""

    __slots__ = ("identity", "listen")

    def __init__(self, link: int, identity: ProcessId, listen: int = 0) -> None:
        super().__init__(link)
        self.identity = identity
        self.listen = listen


@final
class LinkFrames(CallOutcome):
    """Frames that came by a link, whole and in order."""

    __slots__ = ("frames",)

    def __init__(self, link: int, frames: list[bytes]) -> None:
        super().__init__(link)
        self.frames = frames


@final
class LinkRoom(CallOutcome):
    """A link that was full has room again."""

    __slots__ = ()


@final
class LinkDown(CallOutcome):
    """A link is no more: it broke, the other end hung up, or it could not be opened. The last frames that were sent by
    it may be lost."""

    __slots__ = ("reason",)

    def __init__(self, link: int, reason: str) -> None:
        super().__init__(link)
        self.reason = reason
