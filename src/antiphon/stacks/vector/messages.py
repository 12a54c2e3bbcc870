"""What members tell each other about membership. The kind of message stands in the packet's flags; the body is msgpack.

Everything here may be lost, doubled or late: each message says which view it is about, and each is sent again until
it is answered or no longer matters.
"""

from typing import Final, final

import msgspec

from antiphon.kernel.codec import HEADER_SIZE, MEMBERSHIP, seal
from antiphon.kernel.errors import MalformedError
from antiphon.kernel.identity import ProcessId, View
from antiphon.parts.ranges import Ranges

JOIN: Final = 1
LEAVE: Final = 2
DOUBT: Final = 3
VOUCH: Final = 4
FLUSH: Final = 5
STATE: Final = 6
PROPOSE: Final = 7
DONE: Final = 8
INSTALL: Final = 9
OUTDATED: Final = 10
INSTALLED: Final = 11

Member = tuple[str, int, str]
"""Name, incarnation, address."""
Cut = list[list[tuple[int, int]]]
ProposalBody = tuple[int, list[Member], list[int], list[int], Cut, list[int]]
Body = tuple[Member, int, int, int, ProposalBody | None, Cut, Member | None]
"""Sender, view id, round, round of the proposal that the sender accepted, that proposal, holdings, the member it is
about."""

_ENCODER: Final = msgspec.msgpack.Encoder()
_DECODER: Final = msgspec.msgpack.Decoder(Body)
_MEMBERS_MAX: Final = 1000


@final
class Proposal:
    """What may come after a view: the next view, why others are not in it, and the packets that the old view ends
    with."""

    __slots__ = ("cut", "failed", "left", "sources", "view")

    def __init__(self, view: View, left: list[int], failed: list[int], cut: list[Ranges], sources: list[int]) -> None:
        self.view = view
        self.left = left
        """Ranks in the old view of those that left, and…"""
        self.failed = failed
        """…of those that are taken to have failed."""
        self.cut = cut
        self.sources = sources
        """Ranks in the old view of those that hold the packets of the cut between them."""

    def body(self) -> ProposalBody:
        members = [
            (member.name, member.incarnation, address)
            for member, address in zip(self.view.members, self.view.addresses, strict=True)
        ]
        return (self.view.id, members, self.left, self.failed, [part.pairs for part in self.cut], self.sources)


def _proposal(body: ProposalBody) -> Proposal:
    view_id, members, left, failed, cut, sources = body
    if len(members) > _MEMBERS_MAX:
        raise MalformedError("membership")
    view = View(
        view_id,
        tuple(ProcessId(name, incarnation) for name, incarnation, _ in members),
        tuple(address for _, _, address in members),
    )
    return Proposal(view, left, failed, [Ranges(pairs) for pairs in cut], sources)


@final
class Message:
    """One message about membership, taken apart."""

    __slots__ = ("about", "accepted", "accepted_round", "address", "holdings", "kind", "round", "sender", "view_id")

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

    def encode(self, group: int) -> bytes:
        about = None if self.about is None else (self.about.name, self.about.incarnation, "")
        body: Body = (
            (self.sender.name, self.sender.incarnation, self.address),
            self.view_id,
            self.round,
            self.accepted_round,
            None if self.accepted is None else self.accepted.body(),
            [part.pairs for part in self.holdings],
            about,
        )
        return seal(MEMBERSHIP, group, 0, 0, self.kind, 0, [_ENCODER.encode(body)])


def decode(kind: int, data: bytes) -> Message:
    """Take a message apart. Raises MalformedError."""
    try:
        sender, view_id, round, accepted_round, accepted, holdings, about = _DECODER.decode(data[HEADER_SIZE:])
    except (msgspec.MsgspecError, RecursionError) as error:
        raise MalformedError("membership") from error
    return Message(
        kind,
        ProcessId(sender[0], sender[1]),
        sender[2],
        view_id,
        round=round,
        accepted_round=accepted_round,
        accepted=None if accepted is None else _proposal(accepted),
        holdings=[Ranges(pairs) for pairs in holdings],
        about=None if about is None else ProcessId(about[0], about[1]),
    )
