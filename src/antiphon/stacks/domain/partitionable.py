"""A member of a group whose views part and merge: stack `domain` under the policy `partitionable` (transis-1992, 5).

    application ──▶ PendingQueue ──▶ DomainSession (one per configuration) ──▶ application
                                        ▲ freeze, cut, install
                                     Components

A process that joins by contacts is in a configuration of its own at once, and merges with the others when it hears of
them. If it was in the group before, in this life, that configuration follows the last one it was in: ids rise, or the
others would take its word for an old one. What was accepted and has not left goes over into the next configuration.
Before each new configuration the application is told which members of the old one come along (`Transitional`); what is
delivered between the two was decided among these alone. Sessions of configurations before this one answer processes
that lack some of their messages still.

A process that has declared the group differently, on this stack or on another, is told so if it asks to be let in
here. A process that has met nobody yet shows its declaration along with its attempts: a member of a group of this name
that is declared differently answers with its own, and then this process takes no part (parts/membership/declared_member
has the same for other policies).

Limits: EARLIER_MAX earlier sessions are kept.
"""

from collections import deque
from random import Random
from typing import Final, final

from antiphon.kernel.declaration import Declaration, declare, read_shown
from antiphon.kernel.effects import NEVER, Effects, Ended, Installed, Route, Suspected, Transitional, Transmit, Writable
from antiphon.kernel.errors import MalformedError, MessageTooLargeError, UsageError
from antiphon.kernel.identity import ProcessId, View
from antiphon.kernel.inputs import Join, Send
from antiphon.kernel.options import Options
from antiphon.kernel.packet_kinds import DATA, MEMBERSHIP
from antiphon.parts.member import Member, PeerState, StabilityMark, add_counts, add_statistics
from antiphon.parts.membership.messages import DECLARED, JOIN, Chunks, MembershipMessage, packets_of
from antiphon.parts.membership.phases import CLOSING, NORMAL, OUT
from antiphon.parts.membership.policies import PARTITIONABLE_POLICY
from antiphon.parts.pending import PendingQueue
from antiphon.parts.ranges import Ranges
from antiphon.stacks.domain.component_messages import ATTEMPT, COMMIT, decode_attempt, decode_commit
from antiphon.stacks.domain.components import Components
from antiphon.stacks.domain.offers import NUMBER
from antiphon.stacks.domain.session import DomainSession, members_max

EARLIER_MAX: Final = 4


@final
class PartitionableMember(Member):
    """One member of one group."""

    __slots__ = (
        "_address",
        "_chunks",
        "_closing_at",
        "_components",
        "_declaration",
        "_earlier",
        "_leave_by_ns",
        "_met",
        "_options",
        "_paused",
        "_pending",
        "_process",
        "_random",
        "_session",
        "_situations",
        "_totals",
    )

    def __init__(self, join: Join, process: ProcessId, last_number: int, random: Random, options: Options) -> None:
        super().__init__(join.group)
        self._process = process
        self._address = join.address
        self._random = random
        self._options = options
        self._pending = PendingQueue(options, last_number)
        self._declaration = Declaration(declare(join.stack, join.policy, join.domain, options))
        self._chunks = Chunks()
        self._paused = False
        view = join.view
        if view is None:
            alone = PARTITIONABLE_POLICY.merged_id([join.last_view], process, join.last_view)
            view = View(alone, (process,), (join.address,))
        self._met = len(view.members) > 1
        """Whether this process has ever been in a configuration with others."""
        self._session = self._make_session(view)
        self._earlier: deque[DomainSession] = deque(maxlen=EARLIER_MAX)
        self._components = Components(process, join.address, options, members_max(options))
        self._closing_at = 0
        """The id of the suggestion whose cut is being fetched."""
        self._leave_by_ns = NEVER
        self._situations: list[int] = []
        self._totals: dict[str, int] = {}

    def _make_session(self, view: View) -> DomainSession:
        return DomainSession(
            self.group, self._process, view, self._pending, self._random, self._options, self._declaration.id
        )

    # ---- the application's side ------------------------------------------------------------------------------------

    def start(self, contacts: tuple[str, ...], effects: Effects, now_ns: int) -> None:
        session = self._session
        effects.events.append(Installed(self.group, session.view, session.view.members, founded=True))
        self._components.begin(session.view, session.cut, contacts, now_ns)

    def send(self, input: Send, effects: Effects, now_ns: int) -> int:
        if self.over:
            raise UsageError(f"{self._process} is no longer a member of group {self.group!r}")
        for payload in input.payloads:
            if len(payload) > self._options.message_bytes_max:
                raise MessageTooLargeError(len(payload), self._options.message_bytes_max)
        return self._pending.accept(input.payloads, input.level, input.destinations)

    def barrier(self, payload: bytes, effects: Effects, now_ns: int) -> int:
        raise UsageError(f"group {self.group!r} may part, so it has no barriers; join with `primary`")

    def leave(self, now_ns: int) -> None:
        """Go when all that was sent is everywhere, or after a while."""
        if self._leave_by_ns == NEVER:
            self._leave_by_ns = now_ns + 2 * self._options.silence_ns_min

    def pause(self) -> None:
        self._paused = True
        self._session.pause()

    def resume(self, effects: Effects, now_ns: int) -> None:
        self._paused = False
        self._session.resume(effects, now_ns)

    # ---- the network's side ----------------------------------------------------------------------------------------

    def receive(
        self, kind: int, tag: int, sender: int, flags: int, level: int, data: bytes, effects: Effects, now_ns: int
    ) -> None:
        if self.over:
            raise MalformedError("group")
        if kind == MEMBERSHIP:
            if tag != self._declaration.id:
                self._receive_different(flags, data, effects)
                return
            message = self._chunks.join(flags, data)
            if message is not None and message[0] != DECLARED:
                self._receive_message(message[0], message[1], now_ns)
                self._follow()
        elif tag == self._session.tag:
            self._check_author(self._session.view, sender)
            self._session.receive(kind, sender, flags, level, data, effects, now_ns)
            if kind != DATA:
                self._components.heard(sender, now_ns)
        else:
            for session in self._earlier:
                if tag == session.tag:
                    if sender >= len(session.view.members):
                        raise MalformedError("rank")
                    self._check_author(session.view, sender)
                    session.answer_late(kind, sender, data, effects, now_ns)
                    return
            raise MalformedError("view")

    def answer_other_stack(self, stack: int, kind: int, flags: int, data: bytes, effects: Effects) -> None:
        message = self._chunks.take(flags, data, self.author) if kind == MEMBERSHIP else None
        if message is not None and message.kind == JOIN and message.sender != self._process:
            self._tell_declaration(message.sender, message.address, stack, effects)

    def _receive_different(self, flags: int, data: bytes, effects: Effects) -> None:
        """A message about membership whose sender has declared the group differently, or says how it has."""
        message = self._chunks.take(flags, data, self.author)
        if message is None or message.sender == self._process:
            return
        if message.kind == DECLARED and message.about == self._process and message.view_id and not self._met:
            reason = (
                f"{self._process} has declared group {self.group!r} differently: {self._declaration.text}. "
                f"{message.sender} has declared it as: {read_shown(message.annex)}"
            )
            self.over = True
            effects.events.append(Ended(self.group, True, reason=reason, refused=True))
        elif self._met and (message.kind == JOIN or (message.kind == DECLARED and message.about is None)):
            self._tell_declaration(message.sender, message.address, NUMBER, effects)

    def _tell_declaration(self, to: ProcessId | None, address: str, stack: int, effects: Effects) -> None:
        """Say how the group is declared here, to one that asked, or (None) to whoever is at an address."""
        view_id = self._session.view.id if to is not None else 0
        shown = MembershipMessage(
            DECLARED, self._process, self._address, view_id, about=to, annex=self._declaration.shown()
        )
        packets = shown.encode(stack, self.group_id, self._declaration.id, self._options.packet_bytes_max)
        effects.transmits.append(Transmit(Route((), (address,)), packets))

    def _receive_message(self, kind: int, body: bytes, now_ns: int) -> None:
        if kind == ATTEMPT:
            attempt = decode_attempt(body)
            if self.author and attempt.sender.name != self.author:
                raise MalformedError("author")
            self._components.receive_attempt(attempt, now_ns)
        elif kind == COMMIT:
            commit = decode_commit(body)
            if self.author and commit.sender.name != self.author:
                raise MalformedError("author")
            for process, word in commit.words.items():
                mate = commit.suggestion.origins[process] == self._session.view.id
                if mate and word.held and not self._session.cut.is_genuine(_as_holdings(word.held)):
                    raise MalformedError("number")
            self._components.receive_commit(commit, now_ns)
        else:
            raise MalformedError("kind")

    # ---- the end of a step -----------------------------------------------------------------------------------------

    def tick(self, effects: Effects, now_ns: int) -> None:
        if self._session.deadline_ns() <= now_ns:
            self._session.tick(effects, now_ns)
        self._components.tick(now_ns)
        self._follow()

    def _follow(self) -> None:
        """Have the session do what the agreement on the next configuration asks of it."""
        components = self._components
        self._session.limit(components.bounds(), components.suspects(), components.silent)
        if self._closing_at and not components.is_decided():
            self._closing_at = 0
            self._session.cut.reopen()

    def finish(self, effects: Effects, now_ns: int) -> None:
        self.unfinished = False
        if self.over:
            return
        self._session.finish(effects, now_ns)
        while self._closes(now_ns):
            self._install(effects, now_ns)
            self._session.finish(effects, now_ns)
        self._session.collect(effects)
        for process in self._components.suspected:
            effects.events.append(Suspected(self.group, self._session.view.id, process))
        self._components.suspected = []
        self._go(effects, now_ns)
        self._collect(effects)
        if self._pending.take_writable():
            effects.events.append(Writable(self.group))

    def _closes(self, now_ns: int) -> bool:
        """Whether the next configuration is decided and all messages of this one are here; if not, ask for them."""
        current, cut = self._components.current, self._session.cut
        if current is None or not current.is_decided():
            return False
        if self._closing_at != current.suggestion.id:
            self._closing_at = current.suggestion.id
            cut.gather(_as_holdings(current.cut()), current.mates(), now_ns)
            if cut.ask_at_ns <= now_ns:
                self._session.tick(Effects(), now_ns)
        return cut.is_complete()

    def _install(self, effects: Effects, now_ns: int) -> None:
        components, old = self._components, self._session
        assert components.current is not None
        suggestion = components.current.suggestion
        before, after = old.view, suggestion.view
        old.complete_cut(effects, now_ns)
        mates = tuple([before.members[rank] for rank in components.current.mates()])
        effects.events.append(Transitional(self.group, before.id, mates))
        old.finish_cut([], effects, now_ns)
        old.collect(effects)
        self._situations = add_counts(self._situations, old.situations())
        add_statistics(self._totals, old.statistics())
        self._earlier.append(old)
        self._pending.restart_message()
        self._session = self._make_session(after)
        gone = [process for process in before.members if after.rank(process) < 0]
        effects.events.append(
            Installed(
                self.group,
                after,
                tuple([process for process in after.members if before.rank(process) < 0]),
                tuple([process for process in gone if process in components.left]),
                tuple([process for process in gone if process not in components.left]),
                tuple(sorted(set(suggestion.origins.values()))),
            )
        )
        self._met = self._met or len(after.members) > 1
        components.begin(after, self._session.cut, (), now_ns)
        self._closing_at = 0
        if self._paused:
            self._session.pause()

    def _go(self, effects: Effects, now_ns: int) -> None:
        """Leave, if that is wanted and it is time."""
        if self._leave_by_ns == NEVER:
            return
        components = self._components
        if not components.leaving and (self.outstanding() == 0 or now_ns >= self._leave_by_ns):
            components.leaving = True
            self._leave_by_ns = max(self._leave_by_ns, now_ns + 2 * self._options.silence_ns_min)
            components.attempt_soon(now_ns)
        alone = len(self._session.view.members) == 1
        if components.leaving and (components.let_go or alone or now_ns >= self._leave_by_ns):
            self.over = True
            effects.events.append(Ended(self.group, False))

    def _collect(self, effects: Effects) -> None:
        for address, kind, body in self._components.sender.take():
            packets = packets_of(
                kind, body, NUMBER, self.group_id, self._declaration.id, self._options.packet_bytes_max
            )
            effects.transmits.append(Transmit(Route((), (address,)), packets))
            if kind == ATTEMPT and not self._met:
                self._tell_declaration(None, address, NUMBER, effects)

    # ---- questions -------------------------------------------------------------------------------------------------

    def deadline_ns(self) -> int:
        if self.over:
            return NEVER
        return min(self._session.deadline_ns(), self._components.deadline_ns(), self._leave_by_ns)

    def outstanding(self) -> int:
        return self._pending.messages() + self._session.outstanding()

    def held(self) -> int:
        return 0 if self.over else self._session.held()

    def phase(self) -> int:
        if self.over:
            return OUT
        return NORMAL if self._components.bounds() is None else CLOSING

    def mark(self) -> StabilityMark:
        session = self._session
        return StabilityMark(self.group, session.view.id, session.known(), self._pending.accepted)

    def is_stable(self, mark: StabilityMark, copies: int) -> bool:
        session = self._session
        if self.over:
            return True
        if self._pending.next_message() <= mark.accepted:
            return False
        if session.view.id == mark.view_id and not session.is_stable(mark.known, copies):
            return False
        return session.are_own_stable(mark.accepted, copies)

    def peers(self, now_ns: int) -> list[PeerState]:
        end = self._session.end
        sent = end.sent()
        others = [rank for rank, member in enumerate(self._session.view.members) if member != self._process]
        return [self._components.peer(rank, max(0, sent - end.received_by(rank)), now_ns) for rank in others]

    def last_number(self) -> int:
        return self._pending.accepted

    def statistics(self) -> dict[str, int]:
        result = {"messages_accepted": self._pending.accepted, "pending_bytes": self._pending.pending_bytes}
        result.update(self._totals)
        for name, value in self._session.statistics().items():
            result[name] = result.get(name, 0) + value
        return result

    def situations(self) -> list[int]:
        return add_counts(self._situations, self._session.situations())


def _as_holdings(vector: list[int]) -> list[Ranges]:
    return [Ranges([(1, count)] if count else []) for count in vector]
