"""Membership: who is in the group, and how the members agree on it (isis-1991, sections 5.5 and 7.4).

A view ends by agreement of its own members on one proposal: the next view, and the cut, that is the packets with
which the old view ends. The oldest member that is not suspected coordinates:

  FLUSH(r)       coordinator → members    stop, and tell me what you hold
  STATE(r)       member → coordinator     my holdings, and the proposal that I have accepted, if any
  PROPOSE(r, p)  coordinator → members    p: the next view, and the union of all holdings
  DONE(r)        member → coordinator     I accept p, hold its whole cut, and have delivered it
  INSTALL(p)     coordinator → everybody  p it is

Rounds. r is greater than any round the coordinator has seen, and names it; members answer to the greatest round only.
A coordinator that comes later takes over, where a STATE shows one, the accepted proposal with the greatest round;
else it makes its own.

Safe: a proposal is installed when a majority of the view has accepted it (half counts if it holds the oldest), and a
round goes on to propose only with the states of such a majority. Any two of these share a member, so a later round
finds the proposal that may have been installed. Hence one chain of views. Whoever is in the next view gave its
holdings to the round that made it, or has installed the view; it takes in nothing but the cut afterwards: all deliver
the same.

Live: each question is asked again until it is answered or the one asked is suspected; a suspected coordinator is
followed by the next oldest. Without a majority the members stall, say so, and go on asking; when they hear each other
again they go on.

Deviations from 5.5: members report what they hold instead of sending it, and fetch what they lack from whoever has
it, so a cut costs what is really missing. No view is skipped. An outside view server is not needed.
"""

from typing import Final, final

from antiphon.kernel.effects import NEVER, Effects, Ended, Stalled, Suspected, Transmit
from antiphon.kernel.errors import MalformedError
from antiphon.kernel.identity import ProcessId, View
from antiphon.kernel.options import Options
from antiphon.parts.ranges import Ranges
from antiphon.parts.suspicion import Suspicion
from antiphon.stacks.vector import messages
from antiphon.stacks.vector.messages import Message, Proposal
from antiphon.stacks.vector.rounds import Round, is_quorum, round_after
from antiphon.stacks.vector.session import ViewSession, members_max

JOINING: Final = 0
NORMAL: Final = 1
FLUSHING: Final = 2
CLOSING: Final = 3
PARTING: Final = 4
OUT: Final = 5

_JOINERS_MAX: Final = 200
_GONE_MAX: Final = 1000


@final
class Membership:
    """One process's part in the membership of one group.

    The stack calls `receive`, `tick` and, at the end of each step, `progress`; when `decided` is set and `ready` says
    so, it installs the view and calls `begin`.
    """

    def __init__(self, group: str, group_id: int, process: ProcessId, address: str, options: Options) -> None:
        self._group = group
        self._group_id = group_id
        self._process = process
        self._address = address
        self._options = options
        self._view = View(0, ())
        self._session: ViewSession | None = None
        self._me = -1
        self._contacts: tuple[str, ...] = ()
        self._ask_at_ns = NEVER
        self._suspicion = Suspicion(0, 0, 0, options)
        self._told: set[int] = set()
        self._round: Round | None = None
        self._promised = 0
        self._outbid = 0
        self._proposed_round = 0
        self._proposed: Proposal | None = None
        self._accepted_round = 0
        self._accepted: Proposal | None = None
        self._coordinator: ProcessId | None = None
        self._joiners: dict[ProcessId, str] = {}
        self._leavers: set[ProcessId] = set()
        self._gone: dict[str, int] = {}
        self._change_at_ns = NEVER
        self._leaving = False
        self._stalled = False
        self._last_install: bytes = b""
        self._remaining: list[ProcessId] = []
        self._part_at_ns = NEVER
        self._last_step_ns = 0
        self.phase = JOINING
        self.decided: Proposal | None = None

    # ---- entry and exit --------------------------------------------------------------------------------------------

    def ask_to_join(self, contacts: tuple[str, ...], now_ns: int) -> None:
        self._contacts = contacts
        self._ask_at_ns = now_ns

    def leave(self, now_ns: int) -> None:
        """Ask to be let out, again and again."""
        self._leaving = True
        self._leavers.add(self._process)
        self._ask_at_ns = now_ns
        self._want_change(now_ns)

    def begin(self, view: View, session: ViewSession, now_ns: int) -> None:
        """The view is installed."""
        self._view = view
        self._session = session
        self._last_step_ns = now_ns
        self._me = view.rank(self._process)
        self._suspicion = Suspicion(len(view.members), self._me, now_ns, self._options)
        self._told = set()
        self._round = None
        self._promised = 0
        self._outbid = 0
        self._proposed_round = 0
        self._proposed = None
        self._accepted_round = 0
        self._accepted = None
        self._coordinator = None
        self._stalled = False
        self.decided = None
        self.phase = NORMAL
        self._joiners = {process: at for process, at in self._joiners.items() if view.rank(process) < 0}
        self._leavers = {process for process in self._leavers if view.rank(process) >= 0}
        self._ask_at_ns = now_ns if self._leaving else NEVER
        self._change_at_ns = NEVER
        if self._joiners or self._leavers:
            self._want_change(now_ns)

    def notice_time(self, effects: Effects, now_ns: int) -> None:
        """Called before anything else in a step.

        A process that stood still for so long that the others may have gone on without it delivers and sends nothing
        before it has their word: it has the view confirmed by a round.
        """
        stood_still = now_ns - self._last_step_ns >= self._options.silence_ns_min
        self._last_step_ns = now_ns
        if stood_still and self.phase == NORMAL and len(self._view.members) > 1:
            self._start_round(effects, now_ns)

    # ---- what comes in ---------------------------------------------------------------------------------------------

    def heard(self, rank: int, now_ns: int) -> None:
        """A packet of the current view came from this member."""
        self._suspicion.heard(rank, now_ns)
        self._told.discard(rank)

    def receive(self, message: Message, effects: Effects, now_ns: int) -> None:
        """A message about membership. Raises MalformedError where it makes no sense, before anything has changed."""
        if self.phase == OUT:
            return
        rank = self._view.rank(message.sender)
        if rank >= 0 and message.view_id == self._view.id:
            self.heard(rank, now_ns)
        kind = message.kind
        if kind == messages.JOIN:
            self._receive_join(message, effects, now_ns)
        elif kind == messages.INSTALL:
            self._receive_install(message, effects, now_ns)
        elif kind == messages.OUTDATED:
            if message.about == self._process and message.view_id > self._view.id:
                self._end(True, effects)
        elif self.phase == JOINING:
            return
        elif self.phase == PARTING:
            if kind == messages.INSTALLED and message.sender in self._remaining:
                self._remaining.remove(message.sender)
                if not self._remaining:
                    self._end(False, effects)
        elif message.view_id < self._view.id:
            self._answer_straggler(message, effects)
        elif message.view_id == self._view.id and rank >= 0:
            self._receive_in_view(kind, message, rank, effects, now_ns)

    def _receive_in_view(self, kind: int, message: Message, rank: int, effects: Effects, now_ns: int) -> None:
        if kind == messages.LEAVE:
            self._leavers.add(message.sender)
            self._want_change(now_ns)
            self._forward(message, effects)
        elif kind == messages.DOUBT and message.about is not None:
            about = self._view.rank(message.about)
            if about >= 0 and self._suspicion.hears(about, now_ns):
                self._tell(message.sender, self._message(messages.VOUCH, about=message.about), effects)
        elif kind == messages.VOUCH and message.about is not None:
            about = self._view.rank(message.about)
            if about >= 0:
                self._suspicion.vouched(about, now_ns)
                self._told.discard(about)
        elif kind == messages.FLUSH:
            self._receive_flush(message, effects)
        elif kind == messages.STATE:
            self._receive_state(message, rank, effects, now_ns)
        elif kind == messages.PROPOSE:
            self._receive_propose(message, effects, now_ns)
        elif kind == messages.DONE:
            current = self._round
            if current is not None and current.number == message.round:
                current.done.add(rank)
                self._try_install(effects, now_ns)
        else:
            raise MalformedError("membership")

    def _receive_join(self, message: Message, effects: Effects, now_ns: int) -> None:
        if self.phase == JOINING or message.sender == self._process:
            return
        if self._view.rank(message.sender) >= 0:
            if self._last_install:
                self._transmit(message.sender, message.address, self._last_install, effects)
            return
        if self._gone.get(message.sender.name, 0) >= message.sender.incarnation:
            # It was let in once, and given up before it knew: whoever saw that view took it for a member.
            self._tell_outdated(message, effects)
            return
        for rank, member in enumerate(self._view.members):
            if member.name == message.sender.name and member.incarnation < message.sender.incarnation:
                self._suspicion.suspects.add(rank)  # its successor is here
            elif member.name == message.sender.name:
                return  # an earlier life of a member
        room = min(_JOINERS_MAX, members_max(self._options) - len(self._view.members))
        if message.sender not in self._joiners and len(self._joiners) >= room:
            return  # it will ask again
        self._joiners[message.sender] = message.address
        self._want_change(now_ns + self._options.gather_ns)
        self._forward(message, effects)

    def _forward(self, message: Message, effects: Effects) -> None:
        """Pass a wish on to the coordinator, unless it came from it or I am it."""
        acting = self._acting()
        if acting != self._me and self._view.members[acting] != message.sender:
            self._tell(self._view.members[acting], message, effects)

    def _receive_flush(self, message: Message, effects: Effects) -> None:
        if self.phase == CLOSING:
            return
        if message.round < self._promised:
            # It has to outbid the round that I am in, whose coordinator may be gone.
            self._tell(message.sender, self._message(messages.STATE, round=self._promised), effects)
            return
        self._promise(message.round, message.sender)
        self._tell(message.sender, self._state(message.round), effects)

    def _promise(self, round: int, coordinator: ProcessId) -> None:
        """Take part in this round and no earlier one."""
        if self._round is not None and self._round.number < round:
            self._round = None
        self._promised = round
        self._coordinator = coordinator
        self.phase = FLUSHING
        assert self._session is not None
        self._session.freeze()

    def _state(self, round: int) -> Message:
        assert self._session is not None
        return self._message(
            messages.STATE,
            round=round,
            accepted_round=self._accepted_round,
            accepted=self._accepted,
            holdings=self._session.holdings(),
        )

    def _receive_state(self, message: Message, rank: int, effects: Effects, now_ns: int) -> None:
        current = self._round
        if current is not None and message.round > current.number:
            self._outbid = max(self._outbid, message.round)
        if current is None or current.number != message.round or current.proposal is not None:
            return
        assert self._session is not None
        if not self._session.is_genuine(message.holdings):
            raise MalformedError("membership")
        current.states[rank] = message
        self._try_propose(effects, now_ns)

    def _receive_propose(self, message: Message, effects: Effects, now_ns: int) -> None:
        proposal = message.accepted
        if message.round < self._promised or self.phase == CLOSING:
            return
        self._check(proposal)
        assert proposal is not None
        if message.round != self._proposed_round:
            self._promise(message.round, message.sender)
            self._consider(message.round, proposal, now_ns)
        elif message.round == self._accepted_round:
            self._tell(message.sender, self._message(messages.DONE, round=message.round), effects)

    def _check(self, proposal: Proposal | None) -> None:
        members = len(self._view.members)
        assert self._session is not None
        if proposal is None or proposal.view.id != self._view.id + 1 or not self._session.is_genuine(proposal.cut):
            raise MalformedError("membership")
        if len(proposal.view.members) > members_max(self._options):
            raise MalformedError("membership")
        for rank in (*proposal.sources, *proposal.left, *proposal.failed):
            if not 0 <= rank < members:
                raise MalformedError("membership")

    def _consider(self, round: int, proposal: Proposal, now_ns: int) -> None:
        """Fetch the cut of a proposal. It counts as accepted when the cut is complete, and not before: whoever has
        the last copy of a packet may be gone by now, and then the proposal leads nowhere."""
        self._proposed_round = round
        self._proposed = proposal
        assert self._session is not None
        self._session.close_at(proposal.cut, proposal.sources, now_ns)

    def _done(self) -> bool:
        return self._session is not None and self._session.is_closed() and self._session.complete()

    def _receive_install(self, message: Message, effects: Effects, now_ns: int) -> None:
        proposal = message.accepted
        if proposal is None or self.decided is not None:
            return
        if self.phase == JOINING:
            if proposal.view.rank(self._process) >= 0 and len(proposal.view.members) <= members_max(self._options):
                self.decided = proposal
            return
        if message.view_id != self._view.id:
            if proposal.view.id == self._view.id:
                self._tell(message.sender, self._message(messages.INSTALLED), effects, message.address)
            return
        if self.phase == PARTING:
            self._tell(message.sender, self._message(messages.INSTALLED), effects)
            return
        self._check(proposal)
        self._decide(proposal, effects, now_ns)

    def _decide(self, proposal: Proposal, effects: Effects, now_ns: int) -> None:
        """This proposal is what comes after the view."""
        self._last_install = self._message(messages.INSTALL, accepted=proposal).encode(self._group_id)
        for rank in (*proposal.left, *proposal.failed):
            member = self._view.members[rank]
            self._gone[member.name] = max(member.incarnation, self._gone.get(member.name, 0))
        while len(self._gone) > _GONE_MAX:
            del self._gone[next(iter(self._gone))]
        if proposal.view.rank(self._process) < 0:
            self._part(proposal, effects, now_ns)
            return
        assert self._session is not None
        if self._proposed is not proposal:
            self._session.close_at(proposal.cut, proposal.sources, now_ns)
        self.phase = CLOSING
        self.decided = proposal
        self._round = None

    def _part(self, proposal: Proposal, effects: Effects, now_ns: int) -> None:
        """I am not in the next view. Whoever leaves in good order stays until those that go on have heard of it; if
        nobody goes on, until the others that leave have."""
        self._remaining = [member for member in proposal.view.members if self._view.rank(member) >= 0]
        patience_ns = self._options.silence_ns_max
        if not self._remaining:
            self._remaining = [self._view.members[rank] for rank in proposal.left if rank != self._me]
            patience_ns = self._options.silence_ns_min  # some of them may be gone already
        if self._me not in proposal.left:
            self._end(True, effects)
        elif not self._remaining:
            self._end(False, effects)
        else:
            self.phase = PARTING
            self._ask_at_ns = now_ns
            self._part_at_ns = now_ns + patience_ns

    def _end(self, excluded: bool, effects: Effects) -> None:
        self.phase = OUT
        effects.events.append(Ended(self._group, excluded))

    def _answer_straggler(self, message: Message, effects: Effects) -> None:
        """Somebody speaks of a view that is over: it learns what came after it, or that it is out."""
        if message.view_id == self._view.id - 1 and self._last_install:
            self._transmit(message.sender, message.address, self._last_install, effects)
        else:
            self._tell_outdated(message, effects)

    def _tell_outdated(self, message: Message, effects: Effects) -> None:
        outdated = self._message(messages.OUTDATED, about=message.sender)
        self._tell(message.sender, outdated, effects, message.address)

    def answer_old_packet(self, sender: ProcessId, effects: Effects) -> None:
        """A member of the view before sent a packet of that view."""
        if self._view.rank(sender) >= 0 and self._last_install:
            self._transmit(sender, None, self._last_install, effects)

    # ---- coordination ----------------------------------------------------------------------------------------------

    def _acting(self) -> int:
        """The oldest member that I do not suspect, of those that stay if there are any."""
        for rank, member in enumerate(self._view.members):
            if rank not in self._suspicion.suspects and member not in self._leavers:
                return rank
        for rank in range(len(self._view.members)):
            if rank not in self._suspicion.suspects:
                return rank
        return self._me

    def _want_change(self, at_ns: int) -> None:
        self._change_at_ns = min(self._change_at_ns, at_ns)

    def _start_round(self, effects: Effects, now_ns: int) -> None:
        highest = max(self._promised, self._outbid, 0 if self._round is None else self._round.number)
        current = Round(round_after(highest, self._me), now_ns + self._options.silence_ns_min)
        self._round = current
        self._promise(current.number, self._process)
        current.states[self._me] = self._state(current.number)
        self._change_at_ns = NEVER
        self._ask_round(effects, now_ns)
        self._try_propose(effects, now_ns)

    def _ask_round(self, effects: Effects, now_ns: int) -> None:
        """Ask whoever has not answered. The suspected are asked too: they may be back."""
        current = self._round
        assert current is not None
        current.retry_at_ns = now_ns + self._options.retry_ns
        for rank, member in enumerate(self._view.members):
            if rank == self._me:
                continue
            if current.proposal is None:
                if rank not in current.states:
                    self._tell(member, self._message(messages.FLUSH, round=current.number), effects)
            elif rank in current.states and rank not in current.done:
                propose = self._message(messages.PROPOSE, round=current.number, accepted=current.proposal)
                self._tell(member, propose, effects)

    def _try_propose(self, effects: Effects, now_ns: int) -> None:
        """With the states of all that are not suspected, and of a majority, the round has its proposal."""
        current = self._round
        if current is None or current.proposal is not None:
            return
        for rank in range(len(self._view.members)):
            if rank not in current.states and rank not in self._suspicion.suspects:
                return
        if not is_quorum(set(current.states), len(self._view.members)):
            if not self._stalled:
                self._stalled = True
                effects.events.append(Stalled(self._group))
            return
        current.proposal = current.accepted() or current.make_proposal(self._view, self._leavers, self._joiners)
        self._check(current.proposal)
        self._consider(current.number, current.proposal, now_ns)
        self._ask_round(effects, now_ns)

    def _try_install(self, effects: Effects, now_ns: int) -> None:
        """When all that are still there have accepted, and a majority has, the proposal is installed."""
        current = self._round
        if current is None or current.proposal is None or self.decided is not None:
            return
        if self._me not in current.done:
            return
        for rank in current.states:
            if rank not in current.done and rank not in self._suspicion.suspects:
                return
        if not is_quorum(current.done, len(self._view.members)):
            return
        proposal = current.proposal
        install = self._message(messages.INSTALL, accepted=proposal)
        for member in self._view.members:
            if member != self._process:
                self._tell(member, install, effects)
        for member, address in zip(proposal.view.members, proposal.view.addresses, strict=True):
            if self._view.rank(member) < 0:
                self._tell(member, install, effects, address)
        self._decide(proposal, effects, now_ns)

    # ---- time and progress -----------------------------------------------------------------------------------------

    def tick(self, effects: Effects, now_ns: int) -> None:
        """Do what is due."""
        if self.phase == OUT:
            return
        if now_ns >= self._ask_at_ns:
            self._ask_at_ns = now_ns + self._options.retry_ns
            self._ask(effects)
        if self.phase == PARTING and now_ns >= self._part_at_ns:
            self._end(False, effects)
        if self.phase in (JOINING, PARTING, OUT):
            return
        self._look_around(effects, now_ns)
        if self.phase == CLOSING:
            return
        if self._round is not None:
            overdue = self._round.proposal is not None and now_ns >= self._round.overdue_at_ns
            due = now_ns >= self._round.retry_at_ns
            if overdue or (due and self._outbid > self._round.number):
                self._start_round(effects, now_ns)
            elif due:
                self._ask_round(effects, now_ns)
            self._try_propose(effects, now_ns)
            self._try_install(effects, now_ns)
        elif now_ns >= self._change_at_ns and self._acting() == self._me:
            self._start_round(effects, now_ns)

    def _ask(self, effects: Effects) -> None:
        if self.phase == JOINING:
            for contact in self._contacts:
                if contact != self._address:
                    self._transmit(None, contact, self._message(messages.JOIN).encode(self._group_id), effects)
        elif self.phase == PARTING:
            for member in self._remaining:
                self._transmit(member, None, self._last_install, effects)
        elif self._leaving:
            acting = self._acting()
            if acting != self._me:
                self._tell(self._view.members[acting], self._message(messages.LEAVE), effects)

    def _look_around(self, effects: Effects, now_ns: int) -> None:
        """Doubt the silent, suspect the doubted; whoever is now the oldest acts on it."""
        for rank in self._suspicion.due(now_ns):
            doubt = self._message(messages.DOUBT, about=self._view.members[rank])
            for other, member in enumerate(self._view.members):
                if other not in (self._me, rank):
                    self._tell(member, doubt, effects)
        restart = False
        for rank in sorted(self._suspicion.suspects - self._told):
            self._told.add(rank)
            current = self._round
            if current is not None and current.proposal is not None and rank in current.states:
                restart = restart or rank not in current.done
            effects.events.append(Suspected(self._group, self._view.id, self._view.members[rank]))
            self._want_change(now_ns)
        if restart and self.phase != CLOSING:
            self._start_round(effects, now_ns)  # the cut may name packets that only the lost one had
        if self.phase == FLUSHING and self._round is None and self._coordinator is not None:
            # The round I am in may have lost its coordinator: then it is for the next oldest to start another.
            rank = self._view.rank(self._coordinator)
            if rank in self._suspicion.suspects or rank == self._me:
                self._want_change(now_ns)

    def progress(self, effects: Effects, now_ns: int) -> None:
        """At the end of a step: the cut may have become complete."""
        if self.phase != FLUSHING or self._proposed is None or not self._done():
            return
        assert self._session is not None
        if self._session.finish_cut(effects, now_ns):
            self._accepted_round = self._proposed_round
            self._accepted = self._proposed
            if self._round is not None and self._round.number == self._accepted_round:
                self._round.done.add(self._me)
                self._try_install(effects, now_ns)
            elif self._coordinator is not None:
                done = self._message(messages.DONE, round=self._accepted_round)
                self._tell(self._coordinator, done, effects)

    def ready(self) -> bool:
        """Whether the decided view can be installed: whoever comes from the old one holds its whole cut."""
        return self.decided is not None and (self.phase == JOINING or self._done())

    def deadline_ns(self) -> int:
        if self.phase == OUT:
            return NEVER
        if self.phase in (JOINING, PARTING):
            return min(self._ask_at_ns, self._part_at_ns)
        deadline_ns = min(self._ask_at_ns, self._suspicion.deadline_ns(NEVER))
        if self._round is not None:
            deadline_ns = min(deadline_ns, self._round.retry_at_ns)
        elif self.phase != CLOSING and self._change_at_ns != NEVER and self._acting() == self._me:
            deadline_ns = min(deadline_ns, self._change_at_ns)
        return deadline_ns

    # ---- sending ---------------------------------------------------------------------------------------------------

    def _message(
        self,
        kind: int,
        round: int = 0,
        accepted_round: int = 0,
        accepted: Proposal | None = None,
        holdings: list[Ranges] | None = None,
        about: ProcessId | None = None,
    ) -> Message:
        return Message(
            kind,
            self._process,
            self._address,
            self._view.id,
            round=round,
            accepted_round=accepted_round,
            accepted=accepted,
            holdings=holdings,
            about=about,
        )

    def _tell(self, to: ProcessId, message: Message, effects: Effects, address: str | None = None) -> None:
        self._transmit(to, address, message.encode(self._group_id), effects)

    def _transmit(self, to: ProcessId | None, address: str | None, packet: bytes, effects: Effects) -> None:
        effects.transmits.append(Transmit(self._group, to, [packet], address))
