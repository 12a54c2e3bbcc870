"""The members' side of sending from outside (guests.py): links of guests, and what they are told.

A process that wants to send to a group knocks at a member, by a packet. The member begins to accept links, if it did
not before, and says where to dial. By its link a guest is told the view and, in each view, which of its messages need
not be sent in it; it hands in messages for that view, and is told when all their destinations have delivered them.

A member whose group is `static` does not answer: there no view ends when a door fails.
"""

from typing import Final, final

from antiphon.kernel.calls import Frames, Hang, Listen
from antiphon.kernel.codec import seal
from antiphon.kernel.effects import Effects, Route, Transmit
from antiphon.kernel.errors import MalformedError
from antiphon.kernel.identity import ProcessId
from antiphon.kernel.packet_kinds import KNOCK
from antiphon.parts.member import Member, StabilityMark
from antiphon.stacks.label.guest_frames import (
    COME,
    HELLO,
    MESSAGE,
    NUDGE,
    PING,
    SETTLED,
    GuestView,
    decode_address,
    decode_message,
    decode_number,
    encode_number,
    encode_refusal,
    encode_view,
)
from antiphon.stacks.label.guests import KnockListener
from antiphon.stacks.label.member import LabelMember
from antiphon.stacks.label.offers import NUMBER

GUEST_LINKS_MAX: Final = 1024
"""Further links are ended at once."""


@final
class GuestLink:
    """One guest at this door."""

    __slots__ = ("guest", "is_asked", "mark", "marked", "member", "settled", "told_view")

    def __init__(self, guest: ProcessId) -> None:
        self.guest = guest
        self.member: LabelMember | None = None
        """In the group that the guest sends to, when it has said which."""
        self.told_view = 0
        self.mark: StabilityMark | None = None
        """When this is stable, all messages of the guest up to `marked` are settled."""
        self.marked = 0
        self.settled = 0
        self.is_asked = False
        """The guest wants to hear something."""


@final
class Doorway(KnockListener):
    """All guests of one process."""

    __slots__ = ("_links", "_members", "is_listening", "listen_token", "touched")

    def __init__(self, members: dict[int, Member]) -> None:
        self._members = members
        """The stack's own, by group."""
        self._links: dict[int, GuestLink] = {}
        self.is_listening = False
        self.listen_token = 0
        """What to listen with: a token of the stack."""
        self.touched: list[LabelMember] = []
        """Members that have been handed something, for the stack to finish in this step."""

    def knocked(self, group_id: int, flags: int, data: bytes, effects: Effects) -> None:
        member = self._open_member(group_id)
        address = decode_address(data)
        if flags or member is None or not member.address:
            raise MalformedError("knock")
        self.listen(effects)
        packet = seal(NUMBER, KNOCK, group_id, 0, 0, COME, 0, [member.address.encode()])
        effects.transmits.append(Transmit(Route((), (address,)), [packet]))

    def listen(self, effects: Effects) -> None:
        """Accept links, from here on."""
        if not self.is_listening:
            self.is_listening = True
            effects.call(Listen(self.listen_token))

    def _open_member(self, group_id: int) -> LabelMember | None:
        member = self._members.get(group_id)
        return member if isinstance(member, LabelMember) and member.is_open() else None

    # ---- links -----------------------------------------------------------------------------------------------------

    def link_up(self, link: int, guest: ProcessId, effects: Effects) -> None:
        if len(self._links) >= GUEST_LINKS_MAX:
            effects.call(Hang(link))
        else:
            self._links[link] = GuestLink(guest)

    def link_down(self, link: int) -> None:
        self._links.pop(link, None)

    def release(self, link: int) -> ProcessId | None:
        """Give up a link that is no guest's, since it is a process that wants to be attached (site.py); whose it is."""
        held = self._links.get(link)
        if held is None or held.member is not None:
            return None
        del self._links[link]
        return held.guest

    def receive(self, link: int, frames: list[bytes], effects: Effects, now_ns: int) -> None:
        """Take frames of a guest; what cannot be read, or is too much, ends the link."""
        for frame in frames:
            guest = self._links.get(link)
            if guest is None:
                return
            try:
                reason = self._take(guest, frame, now_ns)
            except MalformedError:
                reason = "a frame cannot be read"
            if reason:
                self._refuse(link, reason, effects)

    def _take(self, guest: GuestLink, frame: bytes, now_ns: int) -> str:
        """Do what a frame asks for; why it cannot be done, or nothing. Raises MalformedError."""
        kind = frame[0] if frame else 0
        if kind == HELLO:
            guest.member = self._open_member(decode_number(frame))
            return "" if guest.member is not None else "this process is not in a view of the group"
        member = guest.member
        if member is None or member.session is None or not member.is_open():
            return "this process is not in a view of the group"
        session = member.session
        if kind == PING:
            guest.is_asked = True
            return ""
        if kind == NUDGE:
            if decode_number(frame) == session.view.id:
                self.touched.append(member)
                member.end_view(now_ns)
            return ""
        if kind != MESSAGE:
            raise MalformedError("frame")
        view_id, message = decode_message(frame, guest.guest)
        if view_id != session.view.id or session.cut.frozen:
            return ""  # rejected, by all members alike: it is told which view follows
        if not session.guests.admit(guest.guest):
            return "the group remembers as many senders from outside as it can"
        if not session.admit(message):
            return "more than is taken at once"
        self.touched.append(member)
        return ""

    def _refuse(self, link: int, reason: str, effects: Effects) -> None:
        effects.call(Frames(link, [encode_refusal(reason)]))
        effects.call(Hang(link))
        del self._links[link]

    # ---- the end of a step -----------------------------------------------------------------------------------------

    def finish(self, effects: Effects, now_ns: int) -> None:
        """Tell guests what has changed."""
        for link in list(self._links):
            guest = self._links[link]
            member = guest.member
            if member is None:
                continue
            if member.session is None or not member.is_open():
                self._refuse(link, "this process is no longer in the group", effects)
                continue
            frames = self._news(guest, member, now_ns)
            if frames:
                effects.call(Frames(link, frames))

    def _news(self, guest: GuestLink, member: LabelMember, now_ns: int) -> list[bytes]:
        session = member.session
        assert session is not None
        guests = session.guests
        guests.see(guest.guest, now_ns)
        frames: list[bytes] = []
        if guest.told_view != session.view.id:
            guest.told_view = session.view.id
            who = guest.guest
            told = GuestView(session.view, guests.before(who), guests.last(who), guests.knows(who))
            frames.append(encode_view(told))
        held = guests.held(guest.guest)
        if guest.mark is None and held > guest.settled:
            guest.mark, guest.marked = member.mark(), held
        if guest.mark is not None and member.are_all_present() and member.is_stable(guest.mark, 0):
            guest.settled, guest.mark = guest.marked, None
            guest.is_asked = True
        if guest.is_asked:
            guest.is_asked = False
            frames.append(encode_number(SETTLED, guest.settled))
        return frames
