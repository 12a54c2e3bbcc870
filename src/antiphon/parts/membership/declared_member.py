"""A member of a group, as far as it compares how the group is declared here and elsewhere.

All members of a group declare it alike (kernel/declaration.py). Whoever gets a packet from a process that
has not answers with its own declaration. A process that asks to be let in, and learns so that a member has declared
the group differently, is refused. Founders are all in the first view, and no one of them is more right than another:
those of one declaration go on if the policy lets them without the others, and the others are refused.
"""

from antiphon.kernel.declaration import Declaration, declare, read_shown
from antiphon.kernel.effects import DeclaredDifferently, Effects, Ended, Route, Transmit
from antiphon.kernel.identity import ProcessId
from antiphon.kernel.inputs import Join
from antiphon.kernel.options import Options
from antiphon.kernel.packet_kinds import MEMBERSHIP
from antiphon.kernel.policies import STATIC
from antiphon.parts.member import Member
from antiphon.parts.membership.membership import Membership
from antiphon.parts.membership.messages import DECLARED, JOIN, Chunks, MembershipMessage
from antiphon.parts.membership.policies import PRIMARY_POLICY
from antiphon.parts.membership.session import Session


class DeclaredMember(Member):
    """What a member of a group has declared, its view if there is one, and what others have said of their
    declarations. group.py has the rest."""

    __slots__ = (
        "_address",
        "_chunks",
        "_declaration",
        "_declare_at_ns",
        "_differing",
        "_founders",
        "_is_founder",
        "_membership",
        "_met",
        "_options",
        "_policy",
        "_process",
        "_session",
        "_stack",
        "_warned_of",
    )

    def __init__(self, stack: int, join: Join, process: ProcessId, options: Options) -> None:
        super().__init__(join.group)
        self._stack = stack
        """The number of the stack, which its packets bear."""
        self._process = process
        self._options = options
        self._policy = join.policy
        self._founders = join.founders
        self._address = join.address
        self._declaration = Declaration(declare(join.stack, join.policy, join.domain, options))
        self._is_founder = join.view is not None
        """Whether this process is in the view that it was given at the start."""
        self._differing: set[int] = set()
        """Ranks of other founders that have declared the group differently…"""
        self._warned_of: set[ProcessId] = set()
        """…and those that have before there was a view."""
        self._met: set[int] = set()
        """Ranks of founders that have sent something of the view that founded the group: they declare it alike."""
        self._declare_at_ns: dict[int, int] = {}
        """By rank, from when on a founder whose packets are of another view is told this process's declaration."""
        self._chunks = Chunks()
        self._session: Session | None = None
        self._membership: Membership | None = None

    def _end(self, effects: Effects) -> None:
        """Take no part in the group from now on."""
        raise NotImplementedError

    def answer_other_stack(self, stack: int, kind: int, flags: int, data: bytes, effects: Effects) -> None:
        if kind != MEMBERSHIP or self._session is None:
            return
        message = self._chunks.take(flags, data, self.author)
        if message is not None and _asks(message) and message.sender != self._process:
            route = Route((message.sender,), (message.address,))
            self._tell_declaration(message.sender, route, effects, stack)

    def _receive_different(self, tag: int, flags: int, data: bytes, effects: Effects) -> None:
        """A message about membership whose sender has declared the group differently, or says how it has."""
        message = self._chunks.take(flags, data, self.author)
        if message is None or message.sender == self._process or tag == self._declaration.id:
            return
        if message.kind == DECLARED and not (self._session is not None and _asks(message)):
            self._compare(message, effects)
        elif not self.over and (self._session is not None or self._is_listed(message.sender)):
            self._tell_declaration(message.sender, Route((message.sender,), (message.address,)), effects)

    def _is_listed(self, process: ProcessId) -> bool:
        """Whether this is one of the founders that meet."""
        return any(name == process.name for name, _ in self._founders)

    def _tell_founder(self, rank: int, effects: Effects, now_ns: int) -> None:
        """Tell another founder how the group is declared here: its packets are of another view than this, and none was
        ever of this one."""
        session = self._session
        if session is None or not self._is_founder or rank >= len(session.view.members) or rank in self._met:
            return
        member = session.view.members[rank]
        if member != self._process and now_ns >= self._declare_at_ns.get(rank, 0):
            self._declare_at_ns[rank] = now_ns + self._options.retry_ns
            self._tell_declaration(member, session.route(rank), effects)

    def _tell_declaration(self, to: ProcessId | None, route: Route, effects: Effects, stack: int | None = None) -> None:
        view_id = 0 if self._session is None else self._session.view.id
        message = MembershipMessage(
            DECLARED, self._process, self._address, view_id, about=to, annex=self._declaration.shown()
        )
        stack = self._stack if stack is None else stack
        packets = message.encode(stack, self.group_id, self._declaration.id, self._options.packet_bytes_max)
        effects.transmits.append(Transmit(route, packets))

    def _compare(self, message: MembershipMessage, effects: Effects) -> None:
        """A process says that it has declared the group differently: find out who of the two takes no part."""
        session = self._session
        if message.about is not None and message.about != self._process:
            return
        reason = (
            f"{self._process} has declared group {self.group!r} differently: {self._declaration.text}. "
            f"{message.sender} has declared it as: {read_shown(message.annex)}"
        )
        if session is None:
            self._compare_outside(message, reason, effects)
            return
        rank = session.view.rank(message.sender)
        if rank < 0 or rank in self._differing or not self._is_founder:
            return
        self._differing.add(rank)
        members = len(session.view.members)
        alike = {other for other in range(members) if other not in self._differing}
        if self._membership is None or not PRIMARY_POLICY.may_go_on(alike, members):
            self._refuse(reason, effects)
        else:
            effects.events.append(DeclaredDifferently(self.group, message.sender, reason))

    def _compare_outside(self, message: MembershipMessage, reason: str, effects: Effects) -> None:
        """Nothing is founded yet here: what members say counts, and what the first of the founders says. Under `static`
        no founder can be missing."""
        first = self._founders[0][0] if self._founders else ""
        is_listed = self._is_listed(message.sender)
        if message.view_id or (is_listed and (message.sender.name == first or self._policy == STATIC)):
            self._refuse(reason, effects)
        elif first == self._process.name and is_listed and message.sender not in self._warned_of:
            self._warned_of.add(message.sender)
            effects.events.append(DeclaredDifferently(self.group, message.sender, reason))

    def _refuse(self, reason: str, effects: Effects) -> None:
        """Take no part: the group is declared differently by others. Founders that are still to meet are told, since
        nobody will answer them from here."""
        if self._session is None:
            for name, address in self._founders:
                if name != self._process.name:
                    self._tell_declaration(None, Route((), (address,)), effects)
        if self._membership is not None:
            self._membership.become_out()
        effects.events.append(Ended(self.group, True, reason=reason, refused=True))
        self._end(effects)


def _asks(message: MembershipMessage) -> bool:
    """Whether a process asks to be let in: by a request, or, where views part, by showing its declaration to whoever is
    at an address."""
    return message.kind == JOIN or (message.kind == DECLARED and message.about is None and not message.view_id)
