"""What members tell each other about membership. The kind of message stands in the packet's flags; the body is msgpack.

Numbers are bounded by NUMBER_MAX, names by what a process may be called; whatever is not is dropped as malformed.

Everything here may be lost, doubled or late: each message says which view it is about, and each is sent again until
it is answered or no longer matters.
"""

from hashlib import blake2b
from typing import Annotated, Final, final

import msgspec

from antiphon.kernel.codec import HEADER_SIZE, seal
from antiphon.kernel.errors import MalformedError
from antiphon.kernel.identity import NUMBER_MAX, ProcessId, View, is_name
from antiphon.kernel.packet_kinds import MEMBERSHIP
from antiphon.parts.ranges import Ranges

JOIN: Final = 1
LEAVE: Final = 2
HEARS: Final = 3
KNOCK: Final = 4
FLUSH: Final = 5
STATE: Final = 6
PROPOSE: Final = 7
DONE: Final = 8
INSTALL: Final = 9
OUTDATED: Final = 10
INSTALLED: Final = 11
WISH: Final = 12
CHUNK: Final = 13
STALL: Final = 14
DECLARED: Final = 15
OUTSIDE: Final = 16
RECOVERY: Final = 17
RECOVERY_STATE: Final = 18

_TEXT_MAX: Final = 1000
"""Characters of a name or an address; `is_name` asks for more."""

MESSAGE_NAMES: Final = {
    JOIN: "join",
    LEAVE: "leave",
    HEARS: "hears",
    KNOCK: "knock",
    FLUSH: "flush",
    STATE: "state",
    PROPOSE: "propose",
    DONE: "done",
    INSTALL: "install",
    OUTDATED: "outdated",
    INSTALLED: "installed",
    WISH: "wish",
    CHUNK: "chunk",
    STALL: "stall",
    DECLARED: "declared",
    OUTSIDE: "outside",
    RECOVERY: "recovery",
    RECOVERY_STATE: "recovery state",
}

Count = Annotated[int, msgspec.Meta(ge=0, le=NUMBER_MAX)]
Text = Annotated[str, msgspec.Meta(max_length=_TEXT_MAX)]
Member = tuple[Text, Count, Text]
"""Name, incarnation, address."""
Cut = list[list[tuple[Count, Count]]]
BarrierBody = tuple[Count, Count, bytes]
"""Rank of the sender, number, payload."""
Life = tuple[Text, Count]
"""Name, incarnation."""
ProposalBody = tuple[
    Count, list[Member], list[Count], list[Count], Cut, list[Count], list[BarrierBody], bytes, list[Life]
]
RowBody = tuple[Count, Count, bytes]
"""Rank of the owner, number of the row, strain of the owner's link to each member by rank (reachability.py)."""
Body = tuple[
    Member,
    Count,
    Count,
    Count,
    ProposalBody | None,
    Cut,
    Member | None,
    list[BarrierBody],
    bytes,
    list[RowBody],
    list[Life],
]
"""Sender, view id, round, round of the proposal that the sender accepted, that proposal, holdings, the member it is
about, the sender's barrier, what its stack adds, rows of the reachability matrix, members that answered a JOIN."""
ChunkBody = tuple[Count, int, Count, Count, bytes]
"""Kind of the whole message, its digest, number of this chunk, chunks in all, slice."""

_ENCODER: Final = msgspec.msgpack.Encoder()
_DECODER: Final = msgspec.msgpack.Decoder(Body)
_CHUNK_DECODER: Final = msgspec.msgpack.Decoder(ChunkBody)
_MEMBERS_MAX: Final = 1000
ANNEX_BYTES_MAX: Final = 16_384
"""What a stack may add to a message about membership."""
_CHUNK_OVERHEAD: Final = HEADER_SIZE + 40
_CHUNKS_MAX: Final = 4096
_PARTIAL_BYTES_MAX: Final = 16 * 1024 * 1024
_PARTIAL_MAX: Final = 32
"""Messages of which some chunks are here; beyond that the oldest are forgotten, and will come again."""


@final
class Proposal:
    """What may come after a view: the next view, why others are not in it, and the packets that the old view ends
    with."""

    __slots__ = ("annex", "barriers", "cut", "failed", "left", "sources", "unheard", "view")

    def __init__(
        self,
        view: View,
        left: list[int],
        failed: list[int],
        cut: list[Ranges],
        sources: list[int],
        barriers: list[BarrierBody],
        annex: bytes,
        unheard: list[Life] | None = None,
    ) -> None:
        self.view = view
        self.left = left
        """Ranks in the old view of those that left, and…"""
        self.failed = failed
        """…of those that are taken to have failed."""
        self.cut = cut
        self.sources = sources
        """Ranks in the old view of those that hold the packets of the cut between them."""
        self.barriers = barriers
        """The barriers with which the old view ends, by rank of the sender."""
        self.annex = annex
        """What the stack has made of its members' annexes (session.py)."""
        self.unheard: list[Life] = unheard if unheard is not None else []
        """Those who were let in once and given up before they were heard (requests.py)."""

    def body(self) -> ProposalBody:
        members = [
            (member.name, member.incarnation, address)
            for member, address in zip(self.view.members, self.view.addresses, strict=True)
        ]
        cut = [part.pairs for part in self.cut]
        return (
            self.view.id,
            members,
            self.left,
            self.failed,
            cut,
            self.sources,
            self.barriers,
            self.annex,
            self.unheard,
        )


def _process(name: str, incarnation: int, address: str) -> ProcessId:
    if not is_name(name) or incarnation < 1 or not address.isprintable():
        raise MalformedError("membership")
    return ProcessId(name, incarnation)


def _proposal(body: ProposalBody) -> Proposal:
    view_id, members, left, failed, cut, sources, barriers, annex, unheard = body
    if len(members) > _MEMBERS_MAX or len(unheard) > _MEMBERS_MAX or len(annex) > ANNEX_BYTES_MAX:
        raise MalformedError("membership")
    view = View(
        view_id,
        tuple([_process(name, incarnation, address) for name, incarnation, address in members]),
        tuple(address for _, _, address in members),
    )
    return Proposal(view, left, failed, [Ranges(pairs) for pairs in cut], sources, barriers, annex, unheard)


@final
class MembershipMessage:
    """One message about membership, taken apart."""

    __slots__ = (
        "about",
        "accepted",
        "accepted_round",
        "address",
        "annex",
        "barriers",
        "heard",
        "holdings",
        "kind",
        "round",
        "rows",
        "sender",
        "view_id",
    )

    def __init__(
        self,
        kind: int,
        sender: ProcessId,
        address: str,
        view_id: int,
        *,
        round: int = 0,
        accepted_round: int = 0,
        accepted: Proposal | None = None,
        holdings: list[Ranges] | None = None,
        about: ProcessId | None = None,
        barriers: list[BarrierBody] | None = None,
        annex: bytes = b"",
        rows: list[RowBody] | None = None,
        heard: list[Life] | None = None,
    ) -> None:
        self.kind = kind
        self.sender = sender
        self.address = address
        self.view_id = view_id
        self.round = round
        self.accepted_round = accepted_round
        self.accepted = accepted
        self.holdings: list[Ranges] = holdings if holdings is not None else []
        self.about = about
        self.barriers: list[BarrierBody] = barriers if barriers is not None else []
        self.annex = annex
        self.rows: list[RowBody] = rows if rows is not None else []
        self.heard: list[Life] = heard if heard is not None else []

    def speaker(self) -> str:
        """The name of the process that answers for this message: its sender, or who passes a request on."""
        if self.about is not None and self.kind in (JOIN, WISH):
            return self.about.name
        return self.sender.name

    def encode(self, stack: int, group: int, declared: int, packet_bytes_max: int) -> list[bytes]:
        """In one packet, or in as many as it takes; `declared`: the id of the sender's declaration."""
        about = None if self.about is None else (self.about.name, self.about.incarnation, "")
        body: Body = (
            (self.sender.name, self.sender.incarnation, self.address),
            self.view_id,
            self.round,
            self.accepted_round,
            None if self.accepted is None else self.accepted.body(),
            [part.pairs for part in self.holdings],
            about,
            self.barriers,
            self.annex,
            self.rows,
            self.heard,
        )
        encoded = _ENCODER.encode(body)
        return packets_of(self.kind, encoded, stack, group, declared, packet_bytes_max)


def packets_of(kind: int, encoded: bytes, stack: int, group: int, declared: int, packet_bytes_max: int) -> list[bytes]:
    """A message in one packet, or in chunks. The digest names the message, so that chunks of one try make up for those
    that another lost."""
    if len(encoded) + HEADER_SIZE <= packet_bytes_max:
        return [seal(stack, MEMBERSHIP, group, declared, 0, kind, 0, [encoded])]
    room = packet_bytes_max - _CHUNK_OVERHEAD
    total = (len(encoded) + room - 1) // room
    digest = int.from_bytes(blake2b(encoded, digest_size=8).digest(), "little")
    result: list[bytes] = []
    for index in range(total):
        chunk: ChunkBody = (kind, digest, index, total, encoded[index * room : (index + 1) * room])
        result.append(seal(stack, MEMBERSHIP, group, declared, 0, CHUNK, 0, [_ENCODER.encode(chunk)]))
    return result


def chunk_kind(kind: int, data: bytes) -> int:
    """The kind of the whole message that a packet about membership is, or is a chunk of; 0 if there is none."""
    if kind != CHUNK:
        return kind
    try:
        return int(_CHUNK_DECODER.decode(data[HEADER_SIZE:])[0])
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return 0


@final
class Chunks:
    """Puts messages together that came in chunks."""

    __slots__ = ("_bytes", "_partial")

    def __init__(self) -> None:
        self._partial: dict[int, dict[int, bytes]] = {}
        self._bytes = 0

    def take(self, kind: int, data: bytes, author: str = "") -> MembershipMessage | None:
        """A packet about membership; the message, when it is whole. Raises MalformedError, also if it speaks in another
        name than that of its author, where that is known."""
        whole = self.join(kind, data)
        if whole is None:
            return None
        message = decode(whole[0], whole[1])
        if author and message.speaker() != author:
            raise MalformedError("author")
        return message

    def join(self, kind: int, data: bytes) -> tuple[int, bytes] | None:
        """A packet about membership; kind and body of the message, when it is whole. Raises MalformedError."""
        if kind != CHUNK:
            return kind, data[HEADER_SIZE:]
        try:
            kind, digest, index, total, slice = _CHUNK_DECODER.decode(data[HEADER_SIZE:])
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            raise MalformedError("membership") from error
        if not 0 <= index < total <= _CHUNKS_MAX:
            raise MalformedError("membership")
        parts = self._partial.setdefault(digest, {})
        if index not in parts:
            parts[index] = slice
            self._bytes += len(slice)
        while len(self._partial) > _PARTIAL_MAX or self._bytes > _PARTIAL_BYTES_MAX:
            self._drop(next(iter(self._partial)))
        if len(parts) < total:
            return None
        self._drop(digest)
        whole = b"".join([parts.get(place, b"") for place in range(total)])
        if int.from_bytes(blake2b(whole, digest_size=8).digest(), "little") != digest:
            raise MalformedError("membership")
        return kind, whole

    def _drop(self, digest: int) -> None:
        for slice in self._partial.pop(digest, {}).values():
            self._bytes -= len(slice)


def decode(kind: int, encoded: bytes) -> MembershipMessage:
    """Take a message apart. Raises MalformedError."""
    try:
        body = _DECODER.decode(encoded)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise MalformedError("membership") from error
    sender, view_id, round, accepted_round, accepted, holdings, about, barriers, annex, rows, heard = body
    if len(annex) > ANNEX_BYTES_MAX:
        raise MalformedError("membership")
    return MembershipMessage(
        kind,
        _process(sender[0], sender[1], sender[2]),
        sender[2],
        view_id,
        round=round,
        accepted_round=accepted_round,
        accepted=None if accepted is None else _proposal(accepted),
        holdings=[Ranges(pairs) for pairs in holdings],
        about=None if about is None else _process(about[0], about[1], about[2]),
        barriers=barriers,
        annex=annex,
        rows=rows,
        heard=heard,
    )
