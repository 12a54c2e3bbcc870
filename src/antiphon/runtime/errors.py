"""Errors of the runtime. A UsageError is the caller's mistake; a failed node is our own, or its surroundings'."""

from collections.abc import Sequence

from antiphon.kernel.errors import AntiphonError, ClosedError, UsageError
from antiphon.kernel.identity import ProcessId


class AddressError(UsageError):
    """An address cannot be read, resolved or bound."""

    def __init__(self, address: str, why: str) -> None:
        super().__init__(f"the address {address!r} cannot be used: {why}")
        self.address = address


class ReaderError(UsageError):
    """A second reader came to a stream of events that has one already."""

    def __init__(self, source: str, instead: str = "") -> None:
        super().__init__(
            f"the events of {source} have another reader; each event goes to one reader only, "
            + (instead or "so read in one place and pass the events on from there")
        )
        self.source = source


class ReaderBlockedError(UsageError):
    """Whoever reads a stream waits for room to send that only reading can make."""

    def __init__(self, source: str, group: str) -> None:
        super().__init__(
            f"the events of {source} that wait to be read have reached their limit, so nothing leaves for group "
            f"{group!r} until they are read, and it is their reader that waits to send: it would wait for ever; read "
            "on first, send from another task or thread, or use `send_now` and keep what it does not take"
        )
        self.source = source
        self.group = group


class NodeFailedError(AntiphonError):
    """The node stopped because of something that is not the caller's mistake: the cause is chained."""

    def __init__(self, name: str, cause: BaseException) -> None:
        super().__init__(
            f"node {name!r} has failed and takes no part any more "
            f"({type(cause).__name__}: {cause}); start it again as a new incarnation"
        )
        self.name = name


class ExcludedError(ClosedError):
    """The other members of a group went on without this process: it takes no part any more."""

    def __init__(self, group: str, process: ProcessId, reason: str = "") -> None:
        why = reason or f"the other members of group {group!r} took {process} to have failed and went on without it"
        number = "" if process.is_from_clock else f"incarnation={process.incarnation + 1}, "
        super().__init__(f"{why}; join again as a new incarnation: Node({process.name!r}, {number}…)")
        self.group = group
        self.process = process


class JoinError(AntiphonError, TimeoutError):
    """Nobody let this process into a group in time."""

    def __init__(
        self, group: str, process: ProcessId, contacts: Sequence[str], timeout_s: float, waits_for: str = ""
    ) -> None:
        why = waits_for and f"because {waits_for}"
        why = why or (
            f"by asking {', '.join(contacts)}: nobody there is a member, or the members have no majority, "
            f"or know a later life of {process.name!r}"
            if contacts
            else "because nobody was found to ask"
        )
        super().__init__(
            f"{process} was not let into group {group!r} within {timeout_s:g} s {why}; try again when somebody is there"
        )
        self.group = group
        self.contacts = tuple(contacts)
        self.timeout_s = timeout_s


class ConnectError(AntiphonError, TimeoutError):
    """No peer of the service was reached in time."""

    def __init__(self, addresses: Sequence[str], timeout_s: float) -> None:
        super().__init__(
            f"no peer of the sequencing service answered at {', '.join(addresses)} within {timeout_s:g} s; "
            "start one by `antiphon sequencer --address HOST:PORT`, or name another address"
        )
        self.addresses = tuple(addresses)
        self.timeout_s = timeout_s


class PublishError(AntiphonError):
    """The service did not take what was published to a group."""

    def __init__(self, group: str, reason: str) -> None:
        super().__init__(f"what was published to group {group!r} was refused: {reason}")
        self.group = group
        self.reason = reason


class PositionLostError(AntiphonError):
    """The service does not have all that was published in a group since a position."""

    def __init__(self, group: str, position: str, first: str) -> None:
        super().__init__(
            f"the service does not have all that was published in group {group!r} since {position!r}, but only from "
            f'{first} on; have its peers keep more (`antiphon sequencer --retain`), or begin anew with ""'
        )
        self.group = group
        self.position = position


class FoundingError(JoinError):
    """The founders of a group have not met in time."""

    def __init__(self, group: str, process: ProcessId, first: str, founders: Sequence[str], timeout_s: float) -> None:
        AntiphonError.__init__(
            self,
            f"{process} was not let into group {group!r} within {timeout_s:g} s: its founders are "
            f"{', '.join(founders)}, and {first!r}, the first of them, founds it when it has heard all, or a majority "
            "for a while; start the others, or try again",
        )
        self.group = group
        self.contacts = tuple(founders)
        self.timeout_s = timeout_s


class DeclarationError(JoinError):
    """This process has declared a group differently from other members, and so takes no part in it."""

    def __init__(self, group: str, process: ProcessId, reason: str) -> None:
        AntiphonError.__init__(self, f"{reason}. Declare it alike at all members, and join again")
        self.group = group
        self.process = process
        self.contacts = ()
        self.timeout_s = 0.0


class KeyringError(UsageError):
    """A keyring cannot be used."""


class IdentityError(UsageError):
    """An identity, or something of an authority, cannot be used."""


class RightError(UsageError):
    """The certificate of this process does not allow what it wants to do."""

    def __init__(self, name: str, role: str, what: str) -> None:
        super().__init__(f"process {name!r} is a {role} by its certificate, and may not {what}")
        self.name = name
        self.role = role


class KeyMissingError(UsageError):
    """A node that other machines can reach has no key."""

    def __init__(self, what: str, address: str) -> None:
        super().__init__(
            f"{what} at {address} can be reached from other machines and has no key. Make one, and give it to all: "
            "`antiphon key new antiphon.key`, `scp -p antiphon.key HOST:`; then name the file, as in "
            'keyring="antiphon.key". On a network that you trust, insecure=True does without'
        )
        self.address = address
