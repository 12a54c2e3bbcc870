"""What the core knows of identities: names that others are known by, and statements that can be shown to third parties.

The core has no cryptography. The runtime hands each datagram in with the name of its author, where it knows one
(`inputs.Receive`), and the core refuses what speaks in another name. A statement that members pass on to each other, as
"I have accepted this proposal", goes with a proof, which is bytes without meaning here.
"""

from collections.abc import Callable
from typing import final


def _say_nothing(statement: bytes) -> bytes:
    return b""


def _believe(name: str, statement: bytes, proof: bytes) -> bool:
    return True


def _allow(name: str) -> bool:
    return True


@final
class Credentials:
    """What the runtime knows of names. By default nothing: proofs are empty, and all are believed."""

    __slots__ = ("are_known", "attest", "is_attested", "may_coordinate")

    def __init__(
        self,
        attest: Callable[[bytes], bytes] | None = None,
        is_attested: Callable[[str, bytes, bytes], bool] = _believe,
        may_coordinate: Callable[[str], bool] = _allow,
    ) -> None:
        self.are_known = attest is not None
        """Whether names are known at all: then what needs a proof is refused without."""
        self.attest = attest or _say_nothing
        """A proof of a statement, for whoever sees it, that this process has made it."""
        self.is_attested = is_attested
        """Whether the process of this name has made this statement, by this proof."""
        self.may_coordinate = may_coordinate
        """Whether a process of this name may lead changes of views. Members may differ on this for a moment: then they
        wait for one that does not come forward, as for one that has failed."""
