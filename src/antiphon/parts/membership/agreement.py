"""Agreement on what comes after a view (isis-1991, section 5.5): one proposal, that is the next view, and the cut, the
packets with which the old view ends. The oldest member that is not suspected coordinates:

  FLUSH(r)       coordinator → members    stop, and tell me what you hold
  STATE(r)       member → coordinator     my holdings, and the proposal that I have accepted, if any
  PROPOSE(r, p)  coordinator → members    p: the next view, and the union of all holdings
  DONE(r)        member → coordinator     I accept p and hold its whole cut
  INSTALL(p)     coordinator → everybody  p it is

Rounds. r is greater than any round the coordinator has seen, and names it; members answer to the greatest round only.
A coordinator that comes later takes over, where a STATE shows one, the accepted proposal with the greatest round;
else it makes its own.

Safe: a proposal is installed when a majority of the view has accepted it (half counts if it holds the oldest), and a
round goes on to propose only with the states of such a majority. Any two of these share a member, so a later round
finds the proposal that may have been installed. Hence one chain of views. Whoever is in the next view gave its
holdings to the round that made it, or has installed the view; it takes in nothing but the cut afterwards: all deliver
the same. What remained to be delivered is delivered when p is decided, not before: so a `safe` message that one member
delivers is delivered by all that go on.

Live: each question is asked again until it is answered or the one asked is suspected; a suspected coordinator is
followed by the next oldest.

Recovery. A majority that is gone for good would stall the rest for ever. Where an operator says so (`recover`), the
members that answer decide alone. That is not safe if the others live on: then there are two chains of views.
"""

from typing import Final

from antiphon.kernel.credentials import Credentials
from antiphon.kernel.effects import NEVER, Effects, MajorityLost
from antiphon.kernel.errors import MalformedError
from antiphon.kernel.identity import ProcessId, View
from antiphon.kernel.options import Options
from antiphon.parts.member import PeerState
from antiphon.parts.membership import messages
from antiphon.parts.membership.messages import Life, MembershipMessage, Proposal
from antiphon.parts.membership.phases import CLOSING, FLUSHING, JOINING, NORMAL, OUT, PARTING, step
from antiphon.parts.membership.policies import PRIMARY_POLICY, MembershipPolicy
from antiphon.parts.membership.proofs import accepted_statement, decode_proofs, encode_proofs
from antiphon.parts.membership.reachability import Reachability
from antiphon.parts.membership.requests import MembershipRequests
from antiphon.parts.membership.rounds import ROUNDS_AHEAD_MAX, Round, round_after
from antiphon.parts.membership.sender import MembershipSender
from antiphon.parts.membership.session import ViewEnd
from antiphon.parts.suspicion import Suspicion

_STRANGERS_MAX: Final = 5


class Agreement:
    """One member's part in the agreement. Who is in a group, and why that changes, is for Membership, which this is the
    lower half of."""

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
        self._group = group
        self._process = process
        self._options = options
        self._members_max = members_max
        self._post = MembershipSender(stack, group_id, declared, process, address, options)
        self._requests = MembershipRequests()
        self._present: set[int] = set()
        """Who has been heard in this view."""
        self._change_at_ns = NEVER
        self.phase = JOINING
        self.decided: Proposal | None = None
        self.parted_by: Proposal | None = None
        """The proposal by which I left, whose cut is still to be delivered."""
        self._view = View(0, ())
        self._before_id = 0
        """The id of the view before this one."""
        self._end_of_view: ViewEnd | None = None
        self._me = -1
        self._suspicion = Suspicion(0, 0, 0, options)
        self._policy: MembershipPolicy = PRIMARY_POLICY
        self._reach = Reachability(0, 0, options, self._policy)
        self._succeeded: set[int] = set()
        """Ranks of members of which a later incarnation asks to join."""
        self._suspects: set[int] = set()
        """Ranks that are neither waited for nor followed: lost, left out (reachability.py) or succeeded."""
        self._round: Round | None = None
        self._promised = 0
        self._outbid = 0
        self._proposed_round = 0
        self._proposed: Proposal | None = None
        self._accepted_round = 0
        self._accepted: Proposal | None = None
        self._coordinator: ProcessId | None = None
        self._stalled = False
        self._last_install: list[bytes] = []
        self._proofs = b""
        """That the proposal which was decided last was accepted, where identities are known."""
        self._recovering = False
        self.credentials = Credentials()

    def peer(self, rank: int, behind: int, now_ns: int) -> PeerState:
        """What is known of the member with this rank, which lacks so many of my packets."""
        suspicion = self._suspicion
        return PeerState(
            self._view.members[rank], behind, suspicion.silent_ns(rank, now_ns), suspicion.strain(rank, now_ns),
            rank in self._suspects,
        )  # fmt: skip

    def _begin(self, view: View, end: ViewEnd, now_ns: int) -> None:
        """Start afresh with this view: nothing is agreed on yet about the next one."""
        if self._view.id:
            self._before_id = self._view.id
        self._view = view
        self._post.begin(view)
        self._present = set()
        self._end_of_view = end
        self._me = view.rank(self._process)
        self._suspicion = Suspicion(len(view.members), self._me, now_ns, self._options)
        self._reach = Reachability(len(view.members), self._me, self._options, self._policy)
        self._succeeded = set()
        self._suspects = set()
        self._round = None
        self._promised = 0
        self._outbid = 0
        self._proposed_round = 0
        self._proposed = None
        self._accepted_round = 0
        self._accepted = None
        self._coordinator = None
        self._stalled = False
        self._recovering = False
        self._change_at_ns = NEVER
        self.decided = None
        self.become_normal()

    def _decide(self, proposal: Proposal, effects: Effects, now_ns: int) -> None:
        """Note that this proposal is the next view."""
        raise NotImplementedError

    def is_stalled(self) -> bool:
        """Whether the view has no majority that this process can reach."""
        return self._stalled

    def reached(self) -> list[Life]:
        """The members that are not suspected."""
        members = enumerate(self._view.members)
        return [(member.name, member.incarnation) for rank, member in members if rank not in self._suspects]

    # ---- phases ----------------------------------------------------------------------------------------------------

    def become_normal(self) -> None:
        """Go on in a view that was just installed."""
        self.phase = step(self.phase, NORMAL)

    def become_flushing(self) -> None:
        """The view is to end: send and take in nothing more."""
        self.phase = step(self.phase, FLUSHING)
        assert self._end_of_view is not None
        self._end_of_view.freeze()

    def become_closing(self, proposal: Proposal) -> None:
        """Complete and deliver the cut of the decided proposal."""
        self.phase = step(self.phase, CLOSING)
        self.decided = proposal
        self._drop_round()

    def become_parting(self, proposal: Proposal) -> None:
        """Stay only until the members of the next view know that this process has left."""
        self.phase = step(self.phase, PARTING)
        self.parted_by = proposal

    def become_out(self) -> None:
        """End this process's membership."""
        self.phase = step(self.phase, OUT)

    # ---- as a member -----------------------------------------------------------------------------------------------

    def _receive_flush(self, message: MembershipMessage, effects: Effects, now_ns: int) -> None:
        if self.phase == CLOSING:
            # What comes after this view is decided already.
            self._post.transmit(message.sender, message.address, self._last_install, effects)
            return
        self._check_round(message.round)
        if message.round < self._promised:
            # It has to outbid the round that I am in, whose coordinator may be gone.
            self._post.tell(message.sender, self._post.message(messages.STATE, round=self._promised), effects)
            return
        self._promise(message.round, message.sender, now_ns)
        self._post.tell(message.sender, self._state(message.round), effects)

    def _promise(self, round: int, coordinator: ProcessId, now_ns: int) -> None:
        """Take part in this round and no earlier one. Its coordinator owes me the end of the view: a while longer than
        others owe it their answers, since it may have to wait for those."""
        if self._round is not None and self._round.number < round:
            self._drop_round()
        if coordinator != self._coordinator and self._coordinator is not None:
            self._suspicion.answered(self._view.rank(self._coordinator))
        if coordinator != self._process:
            self._suspicion.asked(self._view.rank(coordinator), now_ns + self._options.silence_ns_max)
        self._promised = round
        self._coordinator = coordinator
        self.become_flushing()

    def _drop_round(self) -> None:
        """Stop coordinating a round; no answers are expected any more."""
        self._round = None
        for rank in range(len(self._view.members)):
            self._suspicion.answered(rank)

    def _state(self, round: int) -> MembershipMessage:
        assert self._end_of_view is not None
        barrier = self._end_of_view.barrier
        return self._post.message(
            messages.STATE,
            round=round,
            accepted_round=self._accepted_round,
            accepted=self._accepted,
            holdings=self._end_of_view.holdings(),
            barriers=[] if barrier is None else [(self._me, *barrier)],
            annex=self._end_of_view.annex(),
        )

    def _receive_state(self, message: MembershipMessage, rank: int, effects: Effects, now_ns: int) -> None:
        current = self._round
        self._check_round(message.round)
        self._suspicion.answered(rank)
        if current is not None and message.round > current.number:
            self._outbid = max(self._outbid, message.round)
        if current is None or current.number != message.round or current.proposal is not None:
            return
        assert self._end_of_view is not None
        if not self._end_of_view.is_genuine(message.holdings) or not self._end_of_view.is_annex(message.annex):
            raise MalformedError("membership")
        current.states[rank] = message
        self._try_propose(effects, now_ns)

    def _receive_propose(self, message: MembershipMessage, effects: Effects, now_ns: int) -> None:
        proposal = message.accepted
        if message.round < self._promised or self.phase == CLOSING:
            return
        self._check_round(message.round)
        self._check(proposal)
        assert proposal is not None
        if message.round != self._proposed_round:
            self._promise(message.round, message.sender, now_ns)
            self._consider(message.round, proposal, now_ns)
        elif message.round == self._accepted_round:
            self._post.tell(message.sender, self._done_message(proposal), effects)

    def _done_message(self, accepted: Proposal) -> MembershipMessage:
        return self._post.message(messages.DONE, round=self._accepted_round, annex=self._proof(accepted))

    def _proof(self, accepted: Proposal) -> bytes:
        """My word that I have accepted a proposal for what follows this view."""
        if not self.credentials.are_known:
            return b""
        return self.credentials.attest(accepted_statement(self._group, self._view, accepted))

    def _is_proven(self, proposal: Proposal, proofs: bytes) -> bool:
        """Whether enough members of this view have accepted the proposal. Who tells of it does not matter."""
        if not self.credentials.are_known:
            return True
        done = {rank for rank, proof in decode_proofs(proofs) if self._has_accepted(rank, proposal, proof)}
        return bool(done) and self._suffices(done)

    def _has_accepted(self, rank: int, proposal: Proposal, proof: bytes) -> bool:
        if not self.credentials.are_known:
            return True
        members = self._view.members
        statement = accepted_statement(self._group, self._view, proposal)
        return rank < len(members) and self.credentials.is_attested(members[rank].name, statement, proof)

    def _check_round(self, round: int) -> None:
        """Raise MalformedError for a round that is too far ahead: nobody could ever outbid the last one there is."""
        if round > max(self._promised, self._outbid) + ROUNDS_AHEAD_MAX:
            raise MalformedError("membership")

    def _check(self, proposal: Proposal | None) -> None:
        members = len(self._view.members)
        assert self._end_of_view is not None
        if proposal is None or not self._policy.is_next_id(self._view.id, proposal.view.id):
            raise MalformedError("membership")
        if not self._end_of_view.is_genuine(proposal.cut):
            raise MalformedError("membership")
        if len(proposal.view.members) > self._members_max or not self._end_of_view.is_annex(proposal.annex):
            raise MalformedError("membership")
        barriers = [rank for rank, _, _ in proposal.barriers]
        for rank in (*proposal.sources, *proposal.left, *proposal.failed, *barriers):
            if not 0 <= rank < members:
                raise MalformedError("membership")

    def _consider(self, round: int, proposal: Proposal, now_ns: int) -> None:
        """Fetch the cut of a proposal. It counts as accepted when the cut is complete, and not before: whoever has
        the last copy of a packet may be gone by now, and then the proposal leads nowhere."""
        self._proposed_round = round
        self._proposed = proposal
        assert self._end_of_view is not None
        self._end_of_view.close_at(proposal.cut, proposal.sources, now_ns)

    def _done(self) -> bool:
        return self._end_of_view is not None and self._end_of_view.is_complete()

    def progress(self, effects: Effects, now_ns: int) -> None:
        """At the end of a step, accept a proposal whose cut has become complete."""
        if self.phase != FLUSHING or self._proposed is None or self._accepted_round == self._proposed_round:
            return
        if self._proposed_round != self._promised or not self._done():
            return
        self._accepted_round = self._proposed_round
        self._accepted = self._proposed
        if self._round is not None and self._round.number == self._accepted_round:
            self._round.done[self._me] = self._proof(self._accepted)
            self._try_install(effects, now_ns)
        elif self._coordinator is not None:
            self._post.tell(self._coordinator, self._done_message(self._accepted), effects)

    def _stall(self, effects: Effects) -> None:
        """No majority can be reached: tell the application, once per view."""
        if not self._stalled:
            self._stalled = True
            effects.events.append(MajorityLost(self._group))

    # ---- as the coordinator ----------------------------------------------------------------------------------------

    def _acting(self) -> int:
        """Return the oldest member that is not suspected, among those that stay if there are any."""
        for rank, member in enumerate(self._view.members):
            if rank not in self._suspects and member not in self._requests.leavers and self._may_lead(rank):
                return rank
        for rank in range(len(self._view.members)):
            if rank not in self._suspects and self._may_lead(rank):
                return rank
        return self._me

    def _may_lead(self, rank: int) -> bool:
        return self.credentials.may_coordinate(self._view.members[rank].name)

    def _is_shunned(self, rank: int) -> bool:
        """Whether this member is not to be in the next view although it may be heard: nothing is asked of it, and
        nothing done for it."""
        return rank in self._reach.left_out or rank in self._succeeded

    def _want_change(self, at_ns: int) -> None:
        self._change_at_ns = min(self._change_at_ns, at_ns)

    def _start_round(self, effects: Effects, now_ns: int) -> None:
        highest = max(self._promised, self._outbid, 0 if self._round is None else self._round.number)
        number = round_after(highest, self._me)
        next_id = self._policy.next_id(self._view.id, self._process, number)
        current = Round(number, now_ns + self._options.silence_ns_min, next_id)
        self._round = current
        self._promise(current.number, self._process, now_ns)
        current.states[self._me] = self._state(current.number)
        self._change_at_ns = NEVER
        self._ask_round(effects, now_ns)
        self._try_propose(effects, now_ns)

    def _suffices(self, ranks: set[int]) -> bool:
        """Whether these members may decide what comes after the view."""
        return self._recovering or self._policy.may_go_on(ranks, len(self._view.members))

    def _ask_round(self, effects: Effects, now_ns: int) -> None:
        """Ask all members that have not answered in this round, also those taken to be lost: they may be back."""
        current = self._round
        assert current is not None
        current.retry_at_ns = now_ns + self._options.retry_ns
        for rank, member in enumerate(self._view.members):
            if rank == self._me or self._is_shunned(rank):
                continue
            if current.proposal is None:
                if rank not in current.states:
                    self._suspicion.asked(rank, now_ns)
                    self._post.tell(member, self._post.message(messages.FLUSH, round=current.number), effects)
            elif rank in current.states and rank not in current.done:
                self._suspicion.asked(rank, now_ns)
                propose = self._post.message(messages.PROPOSE, round=current.number, accepted=current.proposal)
                self._post.tell(member, propose, effects)
        if self._stalled and current.proposal is None:
            # All of this view may be gone for good. Who wanted in may have been let in by others, and knows better.
            for process, address in list(self._requests.joiners.items())[:_STRANGERS_MAX]:
                flush = self._post.message(messages.FLUSH, round=current.number)
                self._post.tell(process, flush, effects, address)

    def _try_propose(self, effects: Effects, now_ns: int) -> None:
        """With the states of all that are not suspected, and of a majority, the round has its proposal. Those that were
        silent are waited for a little when others come back from silence (parts/suspicion.py)."""
        current = self._round
        if current is None or current.proposal is not None:
            return
        are_returning = self._suspicion.are_returning(now_ns)
        for rank in range(len(self._view.members)):
            if rank in current.states or self._is_shunned(rank):
                continue
            if are_returning or rank not in self._suspects:
                return
        if not self._suffices(set(current.states)):
            self._stall(effects)
            for rank in current.states:
                if rank != self._me:
                    self._post.tell(self._view.members[rank], self._post.message(messages.STALL), effects)
            return
        end = self._end_of_view
        assert end is not None
        if self._policy.may_go_on(set(current.states), len(self._view.members)):
            current.proposal = current.accepted()
        else:
            # On an operator's word. What somebody has accepted says nothing then: others may have decided otherwise.
            current.next_view_id = self._policy.recovered_id(self._view.id, self._process, current.number)
        if current.proposal is None:
            current.proposal = current.make_proposal(self._view, end, self._requests, self._present)
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
            if rank not in current.done and rank not in self._suspects:
                return
        if not self._suffices(set(current.done)):
            return
        proposal = current.proposal
        self._proofs = encode_proofs(current.done)
        install = self._post.message(messages.INSTALL, accepted=proposal, annex=self._proofs)
        for member in self._view.members:
            if member != self._process:
                self._post.tell(member, install, effects)
        for member, address in zip(proposal.view.members, proposal.view.addresses, strict=True):
            if self._view.rank(member) < 0:
                self._post.tell(member, install, effects, address)
        self._decide(proposal, effects, now_ns)
