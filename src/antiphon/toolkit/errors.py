"""What can go wrong in the toolkit, beyond what can go wrong in a group."""

from typing import TYPE_CHECKING

from antiphon import AntiphonError

if TYPE_CHECKING:
    from antiphon.toolkit.requests import Reply


class UnansweredError(AntiphonError):
    """A request did not get the replies that it wanted; those that came are in `replies`, in view order."""

    def __init__(self, want: str, why: str, replies: "list[Reply]") -> None:
        given = sum(reply.is_good for reply in replies)
        super().__init__(
            f"the request wanted {want} of the replies and got {given} of {len(replies)}: {why}; "
            "look at `replies`, then ask again or for fewer"
        )
        self.want = want
        self.replies = replies


class StateError(AntiphonError):
    """The state of a group could not be had: it is lost, or every try to fetch it failed."""


class TransferError(AntiphonError):
    """One try to fetch the state failed; the next provider, or the same, is asked again."""


class GatewayError(AntiphonError):
    """No gateway serves this client."""

    def __init__(self, group: str, patience_s: float, why: str) -> None:
        super().__init__(
            f"no gateway of group {group!r} has served this client for {patience_s:g} s; the last one tried: {why}; "
            "see that one is running and reachable, then make a new client"
        )
        self.group = group
