"""Certificates: the cluster's authority says which public key belongs to which name, and what that name may do.

    certificate    MAGIC | serial u64 | until u64 | rights u8 | public key 32 | name, its length first | signature 64
    revocations    MAGIC | version u64 | count u32 | serial u64 each | signature 64

Both are signed by the authority (Ed25519). `until` is in seconds since 1970. The list of revocations only grows: each
has a higher version than the one before, and whoever has two of them believes the higher. Nothing else can take a
certificate back before its time, and a serial is never used twice, so a name that was revoked can be given a new key.

Rights: a name may join groups, send to them, and coordinate changes of their views. A *member* has all three, a
*sender* does not coordinate, a *reader* joins only, and a *guest* does not even that: it may make connections.
"""

from dataclasses import dataclass, field
from struct import Struct
from typing import Final

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from antiphon.kernel.identity import is_name
from antiphon.runtime.errors import IdentityError

KEY_BYTES: Final = 32
SIGNATURE_BYTES: Final = 64
CERTIFICATE_BYTES_MAX: Final = 1200
REVOKED_MAX: Final = 4000
"""Of one authority; the list fits one datagram."""

JOIN_RIGHT: Final = 1
SEND_RIGHT: Final = 2
COORDINATE_RIGHT: Final = 4
ROLES: Final = {
    "member": JOIN_RIGHT | SEND_RIGHT | COORDINATE_RIGHT,
    "sender": JOIN_RIGHT | SEND_RIGHT,
    "reader": JOIN_RIGHT,
    "guest": 0,
}

_CERTIFICATE_MAGIC: Final = b"antiphon certificate 1\0"
_REVOCATIONS_MAGIC: Final = b"antiphon revocations 1\0"
_FIELDS: Final = Struct("<QQB32sH")
_HEAD: Final = Struct("<QI")


def role_of(rights: int) -> str:
    """The name of the role with these rights."""
    return next((role for role, has in ROLES.items() if has == rights), "unknown")


def is_signed(public: bytes, signature: bytes, statement: bytes) -> bool:
    """Whether the holder of this public key has signed this statement."""
    try:
        Ed25519PublicKey.from_public_bytes(public).verify(signature, statement)
    except (InvalidSignature, ValueError):
        return False
    return True


@dataclass(frozen=True)
class Certificate:
    """What the authority says of one key. `until_s`: seconds since 1970."""

    serial: int
    name: str
    until_s: int
    rights: int
    public: bytes = field(repr=False)
    encoded: bytes = field(repr=False, default=b"")

    def may(self, right: int) -> bool:
        return self.rights & right == right

    @property
    def role(self) -> str:
        return role_of(self.rights)


def issue(
    authority: Ed25519PrivateKey, serial: int, name: str, until_s: int, rights: int, public: bytes
) -> Certificate:
    """A certificate, signed."""
    text = name.encode()
    said = _CERTIFICATE_MAGIC + _FIELDS.pack(serial, until_s, rights, public, len(text)) + text
    return Certificate(serial, name, until_s, rights, public, said + authority.sign(said))


def read_certificate(encoded: bytes, authority: bytes) -> Certificate | None:
    """The certificate, or None if this authority has not signed it, or it is none."""
    start = len(_CERTIFICATE_MAGIC)
    least = start + _FIELDS.size + SIGNATURE_BYTES
    if not least <= len(encoded) <= CERTIFICATE_BYTES_MAX or not encoded.startswith(_CERTIFICATE_MAGIC):
        return None
    said, signature = encoded[:-SIGNATURE_BYTES], encoded[-SIGNATURE_BYTES:]
    if not is_signed(authority, signature, said):
        return None
    serial, until_s, rights, public, length = _FIELDS.unpack_from(said, start)
    text = said[start + _FIELDS.size :]
    name = text.decode(errors="replace")
    if len(text) != length or not is_name(name):
        return None
    return Certificate(serial, name, until_s, rights, public, encoded)


@dataclass(frozen=True)
class Revocations:
    """Which certificates of an authority count no more."""

    version: int = 0
    serials: frozenset[int] = frozenset()
    encoded: bytes = field(repr=False, default=b"")

    def has(self, certificate: Certificate) -> bool:
        return certificate.serial in self.serials


def revoke(authority: Ed25519PrivateKey, version: int, serials: frozenset[int]) -> Revocations:
    """A list, signed."""
    if len(serials) > REVOKED_MAX:
        raise IdentityError(f"an authority can revoke {REVOKED_MAX} certificates; begin a new one")
    listed = Struct(f"<{len(serials)}Q").pack(*sorted(serials))
    said = _REVOCATIONS_MAGIC + _HEAD.pack(version, len(serials)) + listed
    return Revocations(version, serials, said + authority.sign(said))


def read_revocations(encoded: bytes, authority: bytes) -> Revocations | None:
    """The list, or None if this authority has not signed it, or it is none."""
    start = len(_REVOCATIONS_MAGIC) + _HEAD.size
    if len(encoded) < start + SIGNATURE_BYTES or not encoded.startswith(_REVOCATIONS_MAGIC):
        return None
    said, signature = encoded[:-SIGNATURE_BYTES], encoded[-SIGNATURE_BYTES:]
    version, count = _HEAD.unpack_from(said, len(_REVOCATIONS_MAGIC))
    if count > REVOKED_MAX or len(said) != start + 8 * count or not is_signed(authority, signature, said):
        return None
    return Revocations(version, frozenset(Struct(f"<{count}Q").unpack_from(said, start)), encoded)
