"""Errors of the toolkit, beyond those that a group raises."""

from typing import TYPE_CHECKING

from antiphon import AntiphonError, ProcessId

if TYPE_CHECKING:
    from antiphon.toolkit.requests import Reply


class UnansweredError(AntiphonError):
    """A request did not get the replies that it wanted. `replies` holds those that came, in view order."""

    def __init__(self, want: str, why: str, replies: "list[Reply]") -> None:
        given = sum(reply.is_good for reply in replies)
        super().__init__(
            f"the request wanted {want} of the replies and got {given} of {len(replies)}: {why}; "
            "look at `replies`, then ask again or for fewer"
        )
        self.want = want
        self.replies = replies


class MergeOverflowError(AntiphonError):
    """More operations came while states were being merged than may be held back."""

    def __init__(self, group: str, held_max: int) -> None:
        super().__init__(
            f"more than {held_max} operations came in group {group!r} before all components had described their state; "
            "send less, or give a higher `held_max`"
        )
        self.group = group
        self.held_max = held_max


class StateError(AntiphonError):
    """The state of the group could not be fetched: no member has it, or every attempt failed."""


class TransferError(AntiphonError):
    """One attempt to fetch the state failed; the joiner tries again."""


class GatewayError(AntiphonError):
    """No gateway has served this client for as long as it was told to try."""

    def __init__(self, group: str, patience_s: float, why: str) -> None:
        super().__init__(
            f"no gateway of group {group!r} has served this client for {patience_s:g} s; the last one tried: {why}; "
            "see that one is running and reachable, then make a new client"
        )
        self.group = group


class ServerGoneError(AntiphonError):
    """The server that a client chose is no longer a member; whether it acted on the request is unknown."""

    def __init__(self, group: str, server: ProcessId) -> None:
        super().__init__(
            f"{server} is no member of group {group!r} any more, and may or may not have acted on the request; "
            "choose one of `Client.servers`"
        )
        self.group = group
        self.server = server


class NoLeafError(AntiphonError):
    """None of the roots could name a leaf of the hierarchy."""

    def __init__(self, why: str) -> None:
        super().__init__(
            f"no root of the hierarchy named a leaf; the last one asked: {why}; see that a root is running"
        )


class StaleTokenError(AntiphonError):
    """A resource was accessed with a token that is lower than one it has admitted: somebody else holds the lock."""

    def __init__(self, token: int, highest: int) -> None:
        super().__init__(
            f"token {token} is refused: the resource has admitted {highest}; the lock was lost meanwhile, so claim it "
            "again. If all members of the group were restarted and their clocks went back, claim it with "
            f"`above={highest}`"
        )
        self.token = token
        self.highest = highest


class LockLostError(AntiphonError):
    """A lock, or a leader's term, ended before its holder released it: another process may hold it now."""

    def __init__(self, what: str, why: str) -> None:
        super().__init__(f"{what} was lost: {why}; what was done without a guard may be undone by another holder")
        self.why = why


class DeadlockError(AntiphonError):
    """The tasks that this one would wait for wait for this one: it gives way, having asked last."""

    def __init__(self, what: str) -> None:
        super().__init__(
            f"{what} cannot be had: its holders wait for a lock that this task holds; release that, then try again, "
            "and take locks in one order everywhere"
        )


class WorkError(AntiphonError):
    """The work of a coordinator, or an operation of a resilient object, raised an exception; the text names it."""


class ObjectDiskError(AntiphonError):
    """The file of a replicated object could not be written, so this copy of it is over."""

    def __init__(self, path: str, why: Exception) -> None:
        super().__init__(
            f"{path} could not be written ({why}), so this member has left: whether calls that had not returned were "
            "executed is unknown here; mend the disk and start the member again"
        )
        self.path = path


class ObjectRestartError(AntiphonError):
    """An operator had a minority of the group go on, so the object comes back from the members' disks."""

    def __init__(self, name: str) -> None:
        super().__init__(
            f"the group has lost its majority and goes on without it, so object {name!r} comes back from the disks of "
            "its members; whether this call was executed is unknown here"
        )
