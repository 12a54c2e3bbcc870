"""Who made a packet, when another passes it on: members resend each other's packets byte for byte.

    by codes       1 | life of the author 16 | number u64 | codes u8 | (receiver's life, 4 bytes of it | code 16) each
    by signature   2 | length u16 | certificate of the author | signature 64

A packet that its author transmits itself needs nothing of this: the seal of the pair says who transmits. But its
receiver may have to resend it when the author is gone, to somebody who has no reason to believe the receiver. So the
author adds a *mark*: one authentication code for each other member of the group, under the keys that it shares with
each (AES-256-GMAC; the nonce is the number, which is never used twice in a life), or, where they are more than
CIRCLE_MAX or it has not met one of them, its signature. The receiver keeps the mark as long as it may have to resend
the packet, and passes it on; whoever gets the packet that way finds its own code in the mark, or checks the signature.

Codes are several hundred times as fast as signatures, which matters for each packet, and shorter up to four receivers.
What they cannot do: a receiver cannot tell whether the codes for others are right, so an author that wants to can make
packets that one member takes and others refuse as resends. That is a member that breaks the protocol on purpose, which
nothing here promises to withstand.

Only packets that carry messages of their sender (kind DATA) are marked: no stack passes others on as they are. A mark
is found by the beginning of its packet, which has a checksum of all of it. Bounds: MARKS_MAX marks of one author; that
is several windows. A packet whose mark is gone is transmitted as if it were an own one, and refused as such, like lost.
"""

from collections import deque
from collections.abc import Callable, Sequence
from struct import Struct
from typing import Final, final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from antiphon.kernel.codec import HEADER_SIZE, packet_kind
from antiphon.kernel.packet_kinds import DATA
from antiphon.runtime.certificates import SIGNATURE_BYTES, Certificate, is_signed

CIRCLE_MAX: Final = 32
MARKS_MAX: Final = 8192
AUTHORS_MAX: Final = 1024
_CODES: Final = 1
_SIGNED: Final = 2
_HEAD: Final = Struct("<B16sQB")
_CODE: Final = Struct("<4s16s")
_LENGTH: Final = Struct("<BH")
_BEGINNING_BYTES: Final = 64
_GROUP: Final = Struct("<Q")
_GROUP_AT: Final = 8
_STATEMENT: Final = b"antiphon packet 1"


class MarkedPeer:
    """What a mark needs to know of another process."""

    __slots__ = ("certificate", "life", "marks_in", "marks_out")

    def __init__(self, life: bytes, certificate: Certificate, marks_out: AESGCM, marks_in: AESGCM) -> None:
        self.life = life
        self.certificate = certificate
        self.marks_out = marks_out
        self.marks_in = marks_in


def _nonce(number: int) -> bytes:
    return number.to_bytes(12, "little")


def is_marked(packet: bytes) -> bool:
    """Whether packets like this go with a mark."""
    return len(packet) >= HEADER_SIZE and packet_kind(packet) == DATA


def group_of(packet: bytes) -> int:
    """The number that stands for the group of a packet."""
    return int(_GROUP.unpack_from(packet, _GROUP_AT)[0])


def sign_packet(packet: bytes, certificate: Certificate, key: Ed25519PrivateKey) -> bytes:
    """A mark for everybody."""
    encoded = certificate.encoded
    return _LENGTH.pack(_SIGNED, len(encoded)) + encoded + key.sign(_STATEMENT + packet)


def mark_packet(packet: bytes, life: bytes, number: int, peers: Sequence[MarkedPeer]) -> bytes:
    """A mark for these."""
    nonce = _nonce(number)
    codes = [_CODE.pack(peer.life[:4], peer.marks_out.encrypt(nonce, b"", packet)) for peer in peers]
    return _HEAD.pack(_CODES, life, number, len(codes)) + b"".join(codes)


def find_author(
    packet: bytes,
    mark: bytes,
    own_life: bytes,
    find_peer: Callable[[bytes], MarkedPeer | None],
    read: Callable[[bytes], Certificate | None],
) -> Certificate | None:
    """Whose packet it is, if the mark shows that to this process. `read` reads certificates of the authority."""
    if len(mark) >= _HEAD.size and mark[0] == _CODES:
        _, life, number, count = _HEAD.unpack_from(mark)
        peer = find_peer(life)
        if peer is None or len(mark) != _HEAD.size + count * _CODE.size:
            return None
        for place in range(count):
            receiver, code = _CODE.unpack_from(mark, _HEAD.size + place * _CODE.size)
            if receiver == own_life[:4] and _is_code(peer.marks_in, number, code, packet):
                return peer.certificate
        return None
    if len(mark) >= _LENGTH.size and mark[0] == _SIGNED:
        length = _LENGTH.unpack_from(mark)[1]
        end = _LENGTH.size + length
        certificate = read(mark[_LENGTH.size : end]) if len(mark) == end + SIGNATURE_BYTES else None
        if certificate is not None and is_signed(certificate.public, mark[end:], _STATEMENT + packet):
            return certificate
    return None


def _is_code(cipher: AESGCM, number: int, code: bytes, packet: bytes) -> bool:
    try:
        cipher.decrypt(_nonce(number), code, packet)
    except InvalidTag:
        return False
    return True


@final
class Marks:
    """The marks of others' packets that may have to be resent."""

    def __init__(self) -> None:
        self._marks: dict[bytes, bytes] = {}
        self._of: dict[str, deque[bytes]] = {}

    def __len__(self) -> int:
        return len(self._marks)

    def keep(self, author: str, packet: bytes, mark: bytes) -> None:
        """A packet of this author came with this mark. The first mark of a packet stays."""
        beginning = packet[:_BEGINNING_BYTES]
        if beginning in self._marks:
            return
        kept = self._of.get(author)
        if kept is None:
            if len(self._of) == AUTHORS_MAX:
                for gone in self._of.pop(next(iter(self._of))):
                    del self._marks[gone]
            kept = self._of[author] = deque()
        self._marks[beginning] = mark
        kept.append(beginning)
        if len(kept) > MARKS_MAX:
            del self._marks[kept.popleft()]

    def find(self, packet: bytes) -> bytes | None:
        """The mark of a packet that another made; None: it is this process's own, or the mark is gone."""
        return self._marks.get(packet[:_BEGINNING_BYTES])
