"""What shows that a proposal was accepted: the statements of the members that accepted it, each with its proof.

An INSTALL carries them, so whoever is in the view before believes the members that decided and not the process that
tells it. A member that was excluded, or one that stood still and was lied to, cannot make a view by itself. Where no
identities are known (kernel/credentials.py) proofs are empty and everything is believed, as the seal of a shared key
tells members from outsiders only.
"""

from hashlib import blake2b
from typing import Annotated, Final

import msgspec

from antiphon.kernel.errors import MalformedError
from antiphon.kernel.identity import View
from antiphon.parts.membership.messages import Proposal

PROOF_BYTES_MAX: Final = 64
_PROOFS_MAX: Final = 240
"""So many fit what may be added to a message: with more members than twice as many, identities cannot be used."""

Proof = tuple[Annotated[int, msgspec.Meta(ge=0, le=0xFFFF)], bytes]
_ENCODER: Final = msgspec.msgpack.Encoder()
_DECODER: Final = msgspec.msgpack.Decoder(list[Proof])


def accepted_statement(group: str, view: View, proposal: Proposal) -> bytes:
    """What a member of `view` says that has accepted this proposal for what follows it."""
    what = _ENCODER.encode((group, view.id, [(one.name, one.incarnation) for one in view.members], proposal.body()))
    return b"accepted" + blake2b(what, digest_size=32).digest()


def encode_proofs(proofs: dict[int, bytes]) -> bytes:
    """These proofs, by rank; nothing if they are empty. Of too many, those of the oldest."""
    given = [(rank, proof) for rank, proof in sorted(proofs.items()) if proof]
    return _ENCODER.encode(given[:_PROOFS_MAX]) if given else b""


def decode_proofs(encoded: bytes) -> list[Proof]:
    """Rank and proof of each. Raises MalformedError."""
    if not encoded:
        return []
    try:
        proofs = _DECODER.decode(encoded)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise MalformedError("proof") from error
    if len(proofs) > _PROOFS_MAX or any(len(proof) > PROOF_BYTES_MAX for _, proof in proofs):
        raise MalformedError("proof")
    return proofs
