"""What the core knows of identities: names that others are known by, and statements that can be shown to third parties.

The core has no cryptography. The runtime hands each datagram in with the name of its author, where it knows one
(`inputs.Receive`), and the core refuses what speaks in another name. A statement that members pass on to each other, as
"I have accepted this proposal", goes with a proof, which is bytes without meaning here.
"""


class Credentials:
    """Where nobody's identity is known: proofs are empty, and all are believed. The runtime has another."""

    def are_known(self) -> bool:
        """Whether names are known at all: then what needs a proof is refused without."""
        return False

    def attest(self, statement: bytes) -> bytes:
        """A proof, for whoever sees it, that this process has said so."""
        return b""

    def is_attested(self, name: str, statement: bytes, proof: bytes) -> bool:
        """Whether the process of this name has said so."""
        return True

    def may_coordinate(self, name: str) -> bool:
        """Whether a process of this name may lead changes of views. Members may differ on this for a moment: then they
        wait for one that does not come forward, as for one that has failed."""
        return True
