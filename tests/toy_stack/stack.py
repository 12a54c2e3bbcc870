"""The toy stack, as one process runs it: members of groups, and clients that send to a group from outside.

A client opens the role `client` and dials a member. What it sends goes there by the link; the member asks its
application whether the client may, stores the message, and only when that is safe multicasts it as its own.
"""

from random import Random
from struct import Struct
from typing import Final

from antiphon.kernel.calls import Dial, Frames, Hang, Listen, Store
from antiphon.kernel.effects import NEVER, AskApplication, Effects, RequestRefused
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
WAITING_MAX: Final = 64
"""Messages that a client holds while its link is not open; beyond that it waits."""
ANSWER_NS: Final = 1000 * MILLISECOND_NS
_REQUEST: Final = Struct("<QBH")
_REPLY: Final = Struct("<QB")

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

    def _check_destinations(self, level: int, destinations: tuple[ProcessId, ...]) -> None:
        if destinations:
            raise UsageError("stack 'toy' sends every message to all members; name no destination")


class ToyStack(Stack):
    """All that one process does on the toy stack."""

    def __init__(self, process: ProcessId, random: Random, options: Options) -> None:
        super().__init__(OFFERS, process, random, options)
        self._listening = False
        self._link = 0
        """As a client: the link to a member; 0 if there is none."""
        self._is_open = False
        self._waiting: list[bytes] = []
        self._guests: dict[int, ProcessId] = {}
        """As a member: the clients, by link."""
        self._wanted: dict[int, tuple[int, bytes, int]] = {}
        """What was asked or stored, by token: link, request, and until when the answer counts."""

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
        self._link, self._is_open, self._waiting = 0, False, []

    def send_outside(self, input: Send, effects: Effects, now_ns: int) -> int:
        if not self._link:
            raise UsageError(f"to send to group {input.group!r} from outside, open the role {CLIENT!r} first")
        group = input.group.encode()
        head = _REQUEST.pack(input.request, input.level, len(group)) + group
        taken = input.payloads if self._is_open else input.payloads[: WAITING_MAX - len(self._waiting)]
        self._waiting += [head + payload for payload in taken]
        self._flush(effects)
        return len(taken)

    def _flush(self, effects: Effects) -> None:
        if self._is_open and self._waiting:
            effects.call(Frames(self._link, self._waiting))
            self._waiting = []

    # ---- what comes back -------------------------------------------------------------------------------------------

    def outcome(self, outcome: CallOutcome, effects: Effects, now_ns: int) -> None:
        if isinstance(outcome, LinkUp):
            if outcome.listen:
                self._guests[outcome.token] = outcome.identity
            elif outcome.token == self._link:
                self._is_open = True
                self._flush(effects)
        elif isinstance(outcome, LinkDown):
            self._guests.pop(outcome.token, None)
            if outcome.token == self._link:
                self._link, self._is_open = 0, False
        elif isinstance(outcome, LinkFrames):
            for frame in outcome.frames:
                if outcome.token in self._guests:
                    self._ask(outcome.token, frame, effects, now_ns)
                elif not _REPLY.unpack_from(frame)[1]:
                    reason = frame[_REPLY.size :].decode(errors="replace")
                    effects.events.append(RequestRefused("", _REPLY.unpack_from(frame)[0], reason))
        elif outcome.token in self._wanted:
            link, request, until_ns = self._wanted.pop(outcome.token)
            if isinstance(outcome, Stored):
                self._relay(link, request, effects, now_ns)
            elif isinstance(outcome, ApplicationAnswer) and outcome.answer == YES and now_ns <= until_ns:
                token = self.new_token()
                self._wanted[token] = link, request, NEVER
                effects.call(Store(LOG, [request], token))
            else:
                self._reply(link, request, "the application says no", effects)

    def _ask(self, link: int, request: bytes, effects: Effects, now_ns: int) -> None:
        if len(request) < _REQUEST.size:
            effects.call(Hang(link))
            del self._guests[link]
            return
        token = self.new_token()
        self._wanted[token] = link, request, now_ns + ANSWER_NS
        question = f"may {self._guests[link]} send to this group?".encode()
        effects.events.append(AskApplication(_group_of(request), token, question, now_ns + ANSWER_NS))

    def _relay(self, link: int, request: bytes, effects: Effects, now_ns: int) -> None:
        """What a client has sent is on disk: send it to the group."""
        _, level, size = _REQUEST.unpack_from(request)
        member = self.members.get(wire_id(_group_of(request)))
        if member is None or member.over or not OFFERS.level_bits >> level & 1:
            self._reply(link, request, "there is no such group or level here", effects)
            return
        self.touch(member, now_ns)
        payload = request[_REQUEST.size + size :]
        if not member.send(Send(group=member.group, payloads=[payload], level=level), effects, now_ns):
            self._reply(link, request, "the group has no room; send it again", effects)
        else:
            member.finish(effects, now_ns)
            self._reply(link, request, "", effects)

    def _reply(self, link: int, request: bytes, reason: str, effects: Effects) -> None:
        if link in self._guests:
            number = _REQUEST.unpack_from(request)[0]
            effects.call(Frames(link, [_REPLY.pack(number, not reason) + reason.encode()]))

    # ---- time ------------------------------------------------------------------------------------------------------

    def deadline_ns(self) -> int:
        return min([until_ns for _, _, until_ns in self._wanted.values()], default=NEVER)

    def tick(self, effects: Effects, now_ns: int) -> None:
        for token, (link, request, until_ns) in list(self._wanted.items()):
            if until_ns <= now_ns:
                del self._wanted[token]
                self._reply(link, request, "the application did not answer in time", effects)


def _group_of(request: bytes) -> str:
    size = int(_REQUEST.unpack_from(request)[2])
    return request[_REQUEST.size : _REQUEST.size + size].decode(errors="replace")
