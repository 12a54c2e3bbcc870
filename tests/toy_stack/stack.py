"""The toy stack, as one process runs it: members of groups, and clients that send to a group from outside.

A client opens the role `client` and dials a member. What it sends goes there by the link; the member asks its
application whether the client may, stores the message, and only when that is safe multicasts it as its own.
"""

from random import Random
from struct import Struct
from typing import Final

from antiphon.kernel.calls import Dial, Frames, Hang, Listen, Store
from antiphon.kernel.effects import Effects, RequestRefused
from antiphon.kernel.errors import UsageError
from antiphon.kernel.identity import ProcessId, View, wire_id
from antiphon.kernel.inputs import Close, Join, Open, Send
from antiphon.kernel.options import MILLISECOND_NS, Options
from antiphon.kernel.outcomes import ApplicationAnswer, CallOutcome, LinkDown, LinkFrames, LinkUp, Stored
from antiphon.kernel.packet_kinds import DATA, MEMBERSHIP, REQUEST, STATUS
from antiphon.kernel.policies import POLICIES, STATIC
from antiphon.parts.member import Member
from antiphon.parts.membership.group import GroupMember
from antiphon.parts.membership.session import Session
from antiphon.stacks.stack import GROUP, Capabilities, Promise, Stack, group_promises
from tests.toy_stack.session import NUMBER, ToySession

CLIENT: Final = "client"
LOG: Final = "from outside"
YES: Final = b"yes"
ANSWER_NS: Final = 1000 * MILLISECOND_NS
_REQUEST: Final = Struct("<QQB")
"""What a client sends by its link: request, group, level, and then the message; back come refusals alone."""
_REFUSAL: Final = Struct("<Q")

OFFERS: Final = Capabilities(
    name="toy",
    number=NUMBER,
    levels=("fifo", "causal", "agreed"),
    policies=POLICIES,
    packet_kinds=(DATA, STATUS, REQUEST, MEMBERSHIP),
    promised=group_promises(Promise("causal", GROUP, (STATIC,))),
)


class ToyMember(GroupMember):
    """One member of one group."""

    def __init__(self, join: Join, process: ProcessId, last_number: int, random: Random, options: Options) -> None:
        super().__init__(NUMBER, join, process, last_number, options)
        self._random = random
        self._found(join, (options.packet_bytes_max - 200) // 28)

    def _make_session(self, view: View, annex: bytes) -> Session:
        declared = self._declaration.id
        return ToySession(self.group, self._process, view, self._pending, self._random, self._options, declared)


class ToyStack(Stack):
    """All that one process does on the toy stack."""

    def __init__(self, process: ProcessId, random: Random, options: Options) -> None:
        super().__init__(OFFERS, process, random, options)
        self._listening = self._is_open = False
        self._link = 0
        """As a client: the link to a member; 0 if there is none."""
        self._guests: dict[int, ProcessId] = {}
        """As a member: the clients, by link."""
        self._waiting: dict[int, tuple[int, bytes]] = {}
        """What was asked or stored, by token: link and request."""

    def make_member(self, join: Join, last_number: int) -> Member:
        return ToyMember(join, self._process, last_number, self._random, self._options)

    def end_step(self, effects: Effects, now_ns: int) -> None:
        if self.members and not self._listening:
            self._listening = True
            effects.call(Listen(self.new_token()))

    # ---- as a client -----------------------------------------------------------------------------------------------

    def open(self, input: Open, effects: Effects, now_ns: int) -> None:
        if input.role != CLIENT or not input.contacts:
            raise UsageError(f"stack 'toy' has the role {CLIENT!r}, for which a contact must be named")
        self._link = self.new_token()
        effects.call(Dial(self._link, input.contacts[0]))

    def close(self, input: Close, effects: Effects, now_ns: int) -> None:
        effects.call(Hang(self._link))
        self._link, self._is_open = 0, False

    def send_outside(self, input: Send, effects: Effects, now_ns: int) -> int:
        if not self._link:
            raise UsageError(f"to send to group {input.group!r} from outside, open the role {CLIENT!r} first")
        if not self._is_open:
            return 0
        head = _REQUEST.pack(input.request, wire_id(input.group), input.level)
        effects.call(Frames(self._link, [head + payload for payload in input.payloads]))
        return len(input.payloads)

    # ---- what comes back -------------------------------------------------------------------------------------------

    def outcome(self, outcome: CallOutcome, effects: Effects, now_ns: int) -> None:
        token = outcome.token
        if isinstance(outcome, LinkUp) and outcome.listen:
            self._guests[token] = outcome.identity
        elif isinstance(outcome, LinkUp):
            self._is_open = token == self._link
        elif isinstance(outcome, LinkDown):
            if token == self._link:
                self._link, self._is_open = 0, False
            self._guests.pop(token, None)
        elif isinstance(outcome, LinkFrames):
            for frame in outcome.frames:
                if token in self._guests:
                    self._ask(token, frame, effects, now_ns)
                elif len(frame) >= _REFUSAL.size:
                    reason = frame[_REFUSAL.size :].decode(errors="replace")
                    effects.events.append(RequestRefused("", _REFUSAL.unpack_from(frame)[0], reason))
        elif token in self._waiting:
            link, request = self._waiting.pop(token)
            if isinstance(outcome, Stored):
                self._relay(link, request, effects, now_ns)
            elif isinstance(outcome, ApplicationAnswer) and outcome.answer == YES:
                token = self.new_token()
                self._waiting[token] = link, request
                effects.call(Store(LOG, [request], token))
            elif isinstance(outcome, ApplicationAnswer):
                reason = "says no" if outcome.answer else "did not answer in time"
                self._refuse(link, request, f"the application {reason}", effects)

    def _ask(self, link: int, request: bytes, effects: Effects, now_ns: int) -> None:
        if len(request) < _REQUEST.size:
            effects.call(Hang(link))
            del self._guests[link]
            return
        member = self.members.get(_REQUEST.unpack_from(request)[1])
        if member is None:
            self._refuse(link, request, "there is no such group here", effects)
        else:
            question = f"may {self._guests[link]} send to this group?".encode()
            self._waiting[self.ask(member.group, question, ANSWER_NS, effects, now_ns)] = link, request

    def _relay(self, link: int, request: bytes, effects: Effects, now_ns: int) -> None:
        """What a client has sent is on disk: send it to the group."""
        _, group, level = _REQUEST.unpack_from(request)
        member = self.members.get(group)
        if member is None or member.over or not OFFERS.level_bits >> level & 1:
            self._refuse(link, request, "there is no such group or level here any more", effects)
            return
        self.touch(member, now_ns)
        member.unfinished = True
        if not member.send(Send(group=member.group, payloads=[request[_REQUEST.size :]], level=level), effects, now_ns):
            self._refuse(link, request, "the group has no room; send it again", effects)

    def _refuse(self, link: int, request: bytes, reason: str, effects: Effects) -> None:
        if link in self._guests:
            effects.call(Frames(link, [_REFUSAL.pack(_REQUEST.unpack_from(request)[0]) + reason.encode()]))
