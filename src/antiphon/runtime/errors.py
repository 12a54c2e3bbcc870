"""Errors of the runtime. A UsageError is the caller's mistake; a failed node is our own, or its surroundings'."""

from antiphon.kernel.errors import AntiphonError, UsageError


class AddressError(UsageError):
    """An address cannot be read, resolved or bound."""

    def __init__(self, address: str, why: str) -> None:
        super().__init__(f"the address {address!r} cannot be used: {why}")
        self.address = address


class ReaderError(UsageError):
    """A second reader came to a stream of events that has one already."""

    def __init__(self, group: str) -> None:
        super().__init__(
            f"the events of group {group!r} have another reader; each event goes to one reader only, "
            "so read in one place and pass the events on from there"
        )
        self.group = group


class NodeFailedError(AntiphonError):
    """The node stopped because of something that is not the caller's mistake: the cause is chained."""

    def __init__(self, name: str, cause: BaseException) -> None:
        super().__init__(
            f"node {name!r} has failed and takes no part any more "
            f"({type(cause).__name__}: {cause}); start it again as a new incarnation"
        )
        self.name = name
