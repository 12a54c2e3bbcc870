"""Membership: who is in the group, who comes and goes, and how members find out (isis-1991, sections 5.5 and 7.4).

A view ends by agreement of its own members (agreement.py), because somebody asks to join or to leave, is suspected, or
because something waits for a flush. The oldest member that is not suspected coordinates; requests are passed on to it.

Without a majority the members stall, say so, and go on asking; when they hear each other again they go on. Who was
given up meanwhile is told that it is outdated when it speaks up.

A view also ends without a change of members: for barriers, which their senders' STATEs bring into the proposal, and
which are delivered where the views meet; or because the stack asks for it. The paper counts
these as minor views; here they are views like any other, with the same members.

Deviations from 5.5: members report what they hold instead of sending it, and fetch what they lack from whoever has
it, so a cut costs what is really missing. No view is skipped. An outside view server is not needed.
"""

from typing import final

from antiphon.kernel.effects import NEVER, Effects, Ended, Suspected
from antiphon.kernel.errors import MalformedError
from antiphon.kernel.identity import ProcessId, View
from antiphon.kernel.options import Options
from antiphon.parts.membership import messages
from antiphon.parts.membership.entrance import Entrance
from antiphon.parts.membership.founding import Founding
from antiphon.parts.membership.messages import MembershipMessage, Proposal
from antiphon.parts.membership.phases import CLOSING, FLUSHING, JOINING, NORMAL, OUT, PARTING
from antiphon.parts.membership.session import ViewEnd
from antiphon.parts.suspicion import STRAIN_MAX, STRAINED


@final
class Membership(Entrance):
    """One process's part in the membership of one group.

    The stack calls `receive`, `tick` and, at the end of each step, `progress`; when `decided` is set and `ready` says
    so, it installs the view and calls `begin`.
    """

    def __init__(
        self,
        stack: int,
        group: str,
        group_id: int,
        declared: int,
        process: ProcessId,
        address: str,
        options: Options,
        members_max: int,
    ) -> None:
        super().__init__(stack, group, group_id, declared, process, address, options, members_max)
        self._address = address
        self._contacts: tuple[str, ...] = ()
        self._ask_at_ns = NEVER
        self._told: set[int] = set()
        self._leaving = False
        self._wishing = False
        self._remaining: dict[ProcessId, str] = {}
        """Who has yet to hear that I have left, and where it is."""
        self._part_at_ns = NEVER
        self._last_step_ns = 0
        self._early_flush: MembershipMessage | None = None
        self.excluded = False
        """The others went on without this process."""
        self._left_to: View | None = None
        self._began_ns = 0
        """When the view was installed."""
        self._hears_at_ns = NEVER
        """When to tell the others whom I hear; NEVER while no link is strained."""
        self._hears_sent_ns = 0
        self._door: tuple[str, ...] = ()
        """While I ask to join: the addresses of all members, as one of them told me."""

    # ---- entry and exit --------------------------------------------------------------------------------------------

    def ask_to_join(
        self, contacts: tuple[str, ...], last_view: int, now_ns: int, founding: Founding | None = None
    ) -> None:
        """Ask to be let in, again and again. `last_view`: the view from which this process left the group before.
        `founding`: this process is one of the founders."""
        self._founding = founding
        self._contacts = contacts
        self._last_view = last_view
        self._ask_at_ns = now_ns

    def leave(self, now_ns: int) -> None:
        """Ask to be let out, again and again."""
        self._leaving = True
        self._requests.leavers.add(self._process)
        self._ask_at_ns = now_ns
        self._want_change(now_ns)

    def is_left_by_all(self) -> bool:
        """Whether this process has left in good order, and everybody else has left the view that it was in."""
        return self.phase == OUT and self._left_to is not None and not self._remaining

    def request_flush(self, now_ns: int) -> None:
        """Ask that this view end, again and again: something waits for it."""
        if self.may_request():
            self._wishing = True
            self._ask_at_ns = min(self._ask_at_ns, now_ns)
            self._want_change(now_ns)

    def recover(self, effects: Effects, now_ns: int) -> None:
        """Go on with the members that answer, though they are no majority, because an operator said so."""
        self._recovering = True
        self._start_round(effects, now_ns)

    def may_request(self) -> bool:
        """Return whether a request for a flush would be new."""
        return not self._wishing and self.phase == NORMAL

    def begin(self, view: View, end: ViewEnd, effects: Effects, now_ns: int) -> None:
        """The view is installed."""
        self._begin(view, end, now_ns)
        self._last_step_ns = now_ns
        self._began_ns = now_ns
        self._hears_at_ns = NEVER
        self._told = set()
        self._requests.installed(view)
        self._wishing = False
        self._ask_at_ns = now_ns if self._leaving else NEVER
        if self._requests.are_open():
            self._want_change(now_ns)
        early = self._early_flush
        self._early_flush = None
        if early is not None and early.view_id == view.id and view.rank(early.sender) >= 0:
            self._receive_flush(early, effects, now_ns)

    def notice_time(self, effects: Effects, now_ns: int) -> None:
        """Called before anything else in a step.

        A process that stood still for so long that the others may have gone on without it delivers and sends nothing
        before it has their word: it has the view confirmed by a round.
        """
        gap_ns = now_ns - self._last_step_ns
        self._last_step_ns = now_ns
        if gap_ns >= self._options.silence_ns_min // 2:
            self._suspicion.stood_still(gap_ns)
        stood_still = gap_ns >= self._options.silence_ns_min and self.phase == NORMAL
        if not stood_still or len(self._view.members) == 1 or self._is_shunned(self._me):
            return
        if self._may_lead(self._me):
            self._start_round(effects, now_ns)
        else:
            self.request_flush(now_ns)
            self.become_flushing()

    # ---- what comes in ---------------------------------------------------------------------------------------------

    def heard(self, rank: int, now_ns: int) -> None:
        """A packet of the current view came from this member."""
        self._suspicion.heard(rank, now_ns)
        self._present.add(rank)
        if rank in self._suspects:
            self._reach.lost.discard(rank)
            self._update_suspects()

    def are_all_present(self) -> bool:
        """Whether every member is known to have installed the current view, and so to have delivered what came before
        it."""
        return len(self._present) >= len(self._view.members) - 1  # of itself nobody hears

    def _update_suspects(self) -> None:
        reach = self._reach
        self._suspects = self._suspicion.lost | reach.lost | reach.left_out | reach.estranged | self._succeeded
        self._told &= self._suspects

    def receive(self, message: MembershipMessage, effects: Effects, now_ns: int) -> None:
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
            if message.about == self._process and self._view.id <= message.round < message.view_id:
                self._pass_on_exclusion(message, effects)
                self._end(True, effects, self._refusal() if self.phase == JOINING else "")
        elif self.phase == JOINING:
            if kind == messages.KNOCK and message.accepted is not None:
                self._knocked[message.sender] = now_ns
                self._door = message.accepted.view.addresses
            elif self._founding is not None and self._founding.is_first:
                self._receive_founder(self._founding, message, effects, now_ns)
        elif self.phase == PARTING:
            if kind == messages.INSTALLED and message.sender in self._remaining:
                del self._remaining[message.sender]
                if not self._remaining:
                    self._end(False, effects)
        elif message.view_id < self._view.id:
            self._answer_straggler(message, effects)
        elif message.view_id > self._view.id:
            if kind == messages.FLUSH and self.decided is not None:
                self._early_flush = message  # I am on my way into that view
            else:
                # Its sender is ahead of me. Hearing from me in this view, it will tell me what came after it.
                self._post.tell(message.sender, self._post.message(messages.WISH), effects, message.address)
        elif rank >= 0:
            self._receive_in_view(kind, message, rank, effects, now_ns)

    def _receive_in_view(self, kind: int, message: MembershipMessage, rank: int, effects: Effects, now_ns: int) -> None:
        if kind == messages.LEAVE:
            self._requests.leavers.add(message.sender)
            self._want_change(now_ns)
            self._forward(message, effects)
        elif kind == messages.WISH:
            self._want_change(now_ns)
            self._forward(message, effects)
        elif kind == messages.HEARS:
            self._reach.check(message.rows)
            if self._reach.take(message.rows, now_ns):
                at_ns = max(now_ns, self._hears_sent_ns + self._options.retry_ns)
                self._hears_at_ns = min(self._hears_at_ns, at_ns)
        elif kind in (messages.FLUSH, messages.STATE, messages.PROPOSE) and self._is_shunned(rank):
            return
        elif kind == messages.STALL:
            if message.sender == self._coordinator and self.phase == FLUSHING:
                self._suspicion.answered(rank)
                self._stall(effects)
        elif kind == messages.FLUSH:
            self._receive_flush(message, effects, now_ns)
        elif kind == messages.STATE:
            self._receive_state(message, rank, effects, now_ns)
        elif kind == messages.PROPOSE:
            self._receive_propose(message, effects, now_ns)
        elif kind == messages.DONE:
            current = self._round
            self._suspicion.answered(rank)
            if current is not None and current.number == message.round and current.proposal is not None:
                if not self._has_accepted(rank, current.proposal, message.annex):
                    raise MalformedError("proof")
                current.done[rank] = message.annex
                self._try_install(effects, now_ns)
        else:
            raise MalformedError("membership")

    def _receive_join(self, message: MembershipMessage, effects: Effects, now_ns: int) -> None:
        founding = self._founding if self.phase == JOINING and self.decided is None else None
        if founding is not None and founding.answer(message.sender):
            outside = self._post.message(messages.OUTSIDE, round=self._last_view, about=message.sender)
            self._post.tell(message.sender, outside, effects, message.address)
        if self.phase == JOINING or message.sender == self._process:
            return
        rank = self._view.rank(message.sender)
        if rank >= 0:
            moved = bool(self._view.addresses) and self._view.addresses[rank] != message.address
            if rank in self._present or moved:
                self._tell_outdated(message, effects)  # it has been here before, and has begun again without a new life
            elif self._last_install:
                self._post.transmit(message.sender, message.address, self._last_install, effects)
            return
        if self._requests.is_gone(message.sender) and not self._requests.returns(message.sender, message.round):
            # It was let in once, and given up before it knew: whoever saw that view took it for a member.
            self._tell_outdated(message, effects)
            return
        if not self._may_come_in(message, effects):
            return
        if not self._may_succeed(message, effects, now_ns):
            return
        room = self._members_max - len(self._view.members)
        if not self._requests.let_in(message.sender, message.address, room):
            return  # it will ask again
        self._want_change(now_ns + self._options.gather_ns)
        self._forward(message, effects)

    def _may_succeed(self, message: MembershipMessage, effects: Effects, now_ns: int) -> bool:
        """Whether no member has the same name, or an earlier incarnation of it that this one takes the place of.

        The earlier incarnation goes in the same change of view, heard or not. If it is still heard, two processes may
        be running under one name; so that they cannot chase each other faster than that, a view lasts for
        `silence_ns_min` before a member of it that is heard is succeeded. Without a quorum of others nobody can be
        succeeded: then the next incarnation has to wait until the one before has left."""
        members = len(self._view.members)
        for rank, member in enumerate(self._view.members):
            if member.name != message.sender.name:
                continue
            if member in self._requests.leavers:
                return True  # it answers until it has left
            if member.incarnation > message.sender.incarnation:
                self._tell_outdated(message, effects)
                return False
            if self._suspicion.is_heard(rank, now_ns) and now_ns < self._began_ns + self._options.silence_ns_min:
                return False  # it will ask again
            if not self._policy.may_go_on({other for other in range(members) if other != rank}, members):
                return False
            self._succeeded.add(rank)
            self._update_suspects()
        return True

    def _may_come_in(self, message: MembershipMessage, effects: Effects) -> bool:
        """Whether a process whose name is barred has shown that it hears, and is heard by, all members that stay. Each
        member answers a JOIN that it got directly from such a process."""
        is_barred = self._requests.is_barred(message.sender.name)
        if message.about is None and (is_barred or message.heard or message.accepted_round):
            knock = self._post.message(messages.KNOCK, accepted=Proposal(self._view, [], [], [], [], [], b""))
            self._post.transmit(message.sender, message.address, self._post.encode_long(knock), effects)
        if not is_barred:
            return True
        for rank, member in enumerate(self._view.members):
            is_there = rank not in self._suspects and member.name != message.sender.name
            if is_there and (member.name, member.incarnation) not in message.heard:
                return False
        return True

    def _forward(self, message: MembershipMessage, effects: Effects) -> None:
        """Pass a request on to the coordinator, unless it came from the coordinator or this member coordinates."""
        acting = self._acting()
        if acting != self._me and self._view.members[acting] != message.sender:
            message.about = self._process
            self._post.tell(self._view.members[acting], message, effects)

    def _receive_install(self, message: MembershipMessage, effects: Effects, now_ns: int) -> None:
        proposal = message.accepted
        if proposal is None or self.decided is not None:
            return
        if self.phase == JOINING:
            founding = self._founding
            if founding is not None and founding.is_outdated(message.sender):
                return
            if founding is not None and founding.has_proposed(proposal.view):
                founding.confirm(message.sender)  # it has entered, and passes the view on
                self._try_begin(founding)
                return
            is_new = proposal.view.id > self._last_view
            if is_new and proposal.view.rank(self._process) >= 0 and len(proposal.view.members) <= self._members_max:
                self.decided = proposal
                self._requests.remember(proposal)
                # Others who join with me may not have heard, and whoever let us in may be gone.
                self._before_id = message.view_id or proposal.view.id - 1
                self._post.view_id = self._before_id
                self._proofs = message.annex
                install = self._post.message(messages.INSTALL, accepted=proposal, annex=self._proofs)
                self._last_install = self._post.encode(install)
                if self._founding is not None and self._founding.leads(message.sender):
                    self._post.tell(message.sender, self._post.message(messages.INSTALLED), effects, message.address)
            return
        if message.view_id != self._view.id:
            if proposal.view.id == self._view.id:
                self._post.tell(message.sender, self._post.message(messages.INSTALLED), effects, message.address)
            return
        if self.phase == PARTING:
            self._post.tell(message.sender, self._post.message(messages.INSTALLED), effects)
            return
        self._check(proposal)
        if not self._is_proven(proposal, message.annex):
            raise MalformedError("proof")
        self._proofs = message.annex
        self._decide(proposal, effects, now_ns)

    def _decide(self, proposal: Proposal, effects: Effects, now_ns: int) -> None:
        """This proposal is what comes after the view."""
        install = self._post.message(messages.INSTALL, accepted=proposal, annex=self._proofs)
        self._last_install = self._post.encode(install)
        self._requests.decided(self._view, proposal)
        for rank in proposal.failed:
            if rank in self._reach.left_out:
                self._requests.bar(self._view.members[rank].name)
        assert self._end_of_view is not None
        if self._proposed is not proposal:
            self._end_of_view.close_at(proposal.cut, proposal.sources, now_ns)
        if proposal.view.rank(self._process) < 0:
            self._part(proposal, effects, now_ns)
            return
        self.become_closing(proposal)
        self._ask_at_ns = now_ns + self._options.silence_ns_min

    def _part(self, proposal: Proposal, effects: Effects, now_ns: int) -> None:
        """I am not in the next view. Whoever leaves in good order stays until those of the next view have heard of it,
        newcomers too; if nobody goes on, until the others that leave have."""
        self._left_to = proposal.view
        self._remaining = dict(zip(proposal.view.members, proposal.view.addresses, strict=True))
        patience_ns = self._options.silence_ns_max
        if not self._remaining:
            self._remaining = {self._view.members[rank]: "" for rank in proposal.left if rank != self._me}
            patience_ns = self._options.silence_ns_min  # some of them may be gone already
        if self._me not in proposal.left:
            for member in self._view.members:
                if member != self._process:
                    self._post.transmit(member, None, self._last_install, effects)
            self._end(True, effects)
        elif not self._remaining:
            self._end(False, effects)
        else:
            self.become_parting(proposal)
            self._ask_at_ns = now_ns
            self._part_at_ns = now_ns + patience_ns

    def _end(self, excluded: bool, effects: Effects, reason: str = "") -> None:
        self.become_out()
        self.excluded = excluded
        effects.events.append(Ended(self._group, excluded, None if excluded else self._left_to, reason))

    def _refusal(self) -> str:
        """Why this process is not let in: its identity is taken, or used up."""
        return (
            f"a process {self._process} is, or has been, a member of group {self._group!r} already: "
            "choose a higher incarnation"
        )

    def _answer_straggler(self, message: MembershipMessage, effects: Effects) -> None:
        """Answer a process that is still in an earlier view: tell it the next view, or that it is excluded."""
        if message.kind == messages.INSTALLED:
            return  # it leaves, and knows the next view; it answers every INSTALL, so answers would never end
        if message.view_id == self._before_id and self._last_install:
            self._post.transmit(message.sender, message.address, self._last_install, effects)
        else:
            self._tell_outdated(message, effects)

    def answer_after_leaving(self, message: MembershipMessage, effects: Effects) -> None:
        """After leaving, answer members of the view that this process left, or of an earlier one: nobody else may be
        able to tell them what followed it."""
        if message.kind == messages.INSTALLED:
            return  # it has left too, as in `_answer_straggler`
        member = self._view.rank(message.sender) >= 0
        if member and message.view_id == self._view.id and self._last_install:
            self._post.transmit(message.sender, message.address, self._last_install, effects)
        elif 0 < message.view_id < (self._before_id if member else self._view.id):
            self._tell_outdated(message, effects)

    def _tell_outdated(self, message: MembershipMessage, effects: Effects) -> None:
        """Tell a process that this view, and all earlier ones, are over and that it is excluded."""
        outdated = self._post.message(messages.OUTDATED, round=message.view_id, about=message.sender)
        self._post.tell(message.sender, outdated, effects, message.address)

    def _pass_on_exclusion(self, message: MembershipMessage, effects: Effects) -> None:
        """Tell the other members of this process's view that they are excluded as well."""
        for member in self._view.members:
            if member not in (self._process, message.sender):
                message.about = member
                self._post.tell(member, message, effects)

    def answer_old_packet(self, sender: ProcessId, effects: Effects) -> None:
        """A member of the view before sent a packet of that view: tell it of this one. If it is not in this one it was
        excluded; it may wait for a coordinator that is gone, and ask nobody."""
        if self._last_install:
            self._post.transmit(sender, None, self._last_install, effects)

    # ---- time and progress -----------------------------------------------------------------------------------------

    def tick(self, effects: Effects, now_ns: int) -> None:
        """Do what is due."""
        if self.phase == OUT:
            return
        if now_ns >= self._ask_at_ns:
            closing = self.phase == CLOSING
            self._ask_at_ns = now_ns + (self._options.silence_ns_min if closing else self._options.retry_ns)
            self._ask(effects, now_ns)
        if self.phase == PARTING and now_ns >= self._part_at_ns:
            self._end(False, effects)
        if self.phase in (JOINING, PARTING, OUT):
            return
        self._look_around(effects, now_ns)
        if self.phase in (CLOSING, OUT):
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

    def _ask(self, effects: Effects, now_ns: int) -> None:
        if self.phase == JOINING:
            since_ns = now_ns - self._options.silence_ns_min
            heard = [(who.name, who.incarnation) for who, at_ns in self._knocked.items() if at_ns >= since_ns]
            founding = self._founding
            founds = founding is not None and founding.is_first
            message = self._post.message(
                messages.JOIN, round=self._last_view, accepted_round=1 if founds else 0, heard=heard
            )
            join = self._post.encode_long(message) if heard else self._post.encode(message)
            for contact in dict.fromkeys((*self._contacts, *self._door)):
                if contact != self._address:
                    self._post.transmit(None, contact, join, effects)
            if founds and founding is not None:
                self._try_found(founding, effects, now_ns)
        elif self.phase == PARTING:
            for member, address in self._remaining.items():
                self._post.transmit(member, address or None, self._last_install, effects)
        elif self.decided is not None:
            # Those who had what I lack may have gone on, and on, and speak to me no more; but they answer stragglers.
            for member in self.decided.view.members:
                if member != self._process:
                    self._post.tell(member, self._post.message(messages.WISH), effects)
        elif self._leaving or self._wishing:
            acting = self._acting()
            if acting != self._me:
                kind = messages.LEAVE if self._leaving else messages.WISH
                self._post.tell(self._view.members[acting], self._post.message(kind), effects)

    def _look_around(self, effects: Effects, now_ns: int) -> None:
        """Suspect silent members, tell the others which links work, and start a round if this member is now the
        oldest."""
        end = self._end_of_view
        assert end is not None
        if end.has_former_life(now_ns):
            self._end(True, effects, self._refusal())
            return
        if self.phase == NORMAL:
            self._watch_acks(end, now_ns)
        row = self._suspicion.row(now_ns)
        if self._hears_at_ns != NEVER or max(entry & STRAIN_MAX for entry in row) >= STRAINED:
            if self._suspicion.due(now_ns, self._reach.vouched(now_ns)):
                self._hears_at_ns = now_ns
            self._reach.choose(row, self._suspicion.lost, now_ns)
            self._tell_whom_i_hear(row, effects, now_ns)
            self._update_suspects()
            if self._round is not None:
                self._shun_in_round()
        else:
            self._suspicion.due(now_ns, set())
        restart = False
        for rank in sorted(self._suspects - self._told):
            self._told.add(rank)
            if rank == self._me:
                continue
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
            if rank in self._suspects or rank == self._me:
                self._want_change(now_ns)

    def _watch_acks(self, end: ViewEnd, now_ns: int) -> None:
        """Note which members have acknowledged nothing new since the last check."""
        sent = end.sent()
        for rank in range(len(self._view.members)):
            self._suspicion.acknowledged(rank, end.received_by(rank), sent, now_ns)

    def _tell_whom_i_hear(self, row: bytes, effects: Effects, now_ns: int) -> None:
        """Multicast what I know of the links, once per heartbeat, as long as one of them is strained."""
        if not self._reach.is_troubled(now_ns):
            self._hears_at_ns = NEVER
        elif now_ns >= self._hears_at_ns or self._hears_at_ns == NEVER:
            hears = self._post.message(messages.HEARS, rows=self._reach.rows(row, now_ns))
            self._post.multicast(hears, effects)
            self._hears_sent_ns = now_ns
            self._hears_at_ns = now_ns + self._options.heartbeat_interval_ns

    def _shun_in_round(self) -> None:
        """Take members that are left out of the running round, and give the round up if this member is one of them."""
        assert self._round is not None
        if self._is_shunned(self._me):
            self._drop_round()
        elif self._round.proposal is None:
            for rank in range(len(self._view.members)):
                if self._is_shunned(rank):
                    self._round.states.pop(rank, None)

    def ready(self) -> bool:
        """Whether the decided view can be installed: whoever comes from the old one holds its whole cut."""
        return self.decided is not None and (self.phase == JOINING or self._done())

    def deadline_ns(self) -> int:
        if self.phase == OUT:
            return NEVER
        if self.phase in (JOINING, PARTING):
            return min(self._ask_at_ns, self._part_at_ns)
        deadline_ns = min(self._ask_at_ns, self._suspicion.deadline_ns(NEVER), self._hears_at_ns)
        deadline_ns = min(deadline_ns, self._reach.deadline_ns(NEVER))
        if self._round is not None:
            deadline_ns = min(deadline_ns, self._round.retry_at_ns)
        elif self.phase != CLOSING and self._change_at_ns != NEVER and self._acting() == self._me:
            deadline_ns = min(deadline_ns, self._change_at_ns)
        return deadline_ns
