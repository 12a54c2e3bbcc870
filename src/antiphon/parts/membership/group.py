"""One member of one group, as far as all stacks are alike.

    application ──▶ PendingQueue ──▶ Session (one per view) ──▶ application
                                        ▲ freeze, cut, install
                                     Membership

A group lives through views, one session each; what was accepted and has not left goes over into the next. The session
of the view before stays to answer members that are still catching up with its cut. A stack says what a session is, and
what else happens when a view comes and goes. declared_member.py has how members find out that they have declared a
group differently.
"""

from typing import Final

from antiphon.kernel.effects import (
    NEVER,
    Effects,
    Ended,
    Installed,
    RecoveryAsked,
    Route,
    Transmit,
    Writable,
)
from antiphon.kernel.errors import MalformedError, MessageTooLargeError, UsageError
from antiphon.kernel.identity import ProcessId, View
from antiphon.kernel.inputs import Join, Send
from antiphon.kernel.levels import SAFE
from antiphon.kernel.options import Options
from antiphon.kernel.packet_kinds import DATA, MEMBERSHIP
from antiphon.kernel.policies import PRIMARY, STATIC
from antiphon.parts.member import PeerState, StabilityMark, add_counts, add_statistics
from antiphon.parts.membership.declared_member import DeclaredMember
from antiphon.parts.membership.founding import Founding
from antiphon.parts.membership.membership import Membership
from antiphon.parts.membership.messages import (
    DECLARED,
    RECOVERY,
    RECOVERY_STATE,
    MembershipMessage,
    Proposal,
)
from antiphon.parts.membership.phases import NORMAL, OUT
from antiphon.parts.membership.session import Session
from antiphon.parts.pending import PendingQueue, TicketCounter

BARRIER_BYTES_MAX: Final = 16_384
"""A barrier travels with the agreement on the view that it ends, so it should be short."""


class GroupMember(DeclaredMember):
    """One member of one group."""

    __slots__ = (
        "_founded",
        "_founds_at_ns",
        "_last_view",
        "_paused",
        "_pending",
        "_previous",
        "_retires_by_ns",
        "_situations",
        "_totals",
    )

    def __init__(
        self,
        stack: int,
        join: Join,
        process: ProcessId,
        last_number: int,
        options: Options,
        tickets: TicketCounter | None = None,
    ) -> None:
        super().__init__(stack, join, process, options)
        self._pending = PendingQueue(options, last_number, tickets)
        self._last_view = join.last_view
        self._paused = False
        self._retires_by_ns = NEVER
        """When a member that retires is out even if the others do not agree."""
        self._previous: Session | None = None
        self._situations: list[int] = []
        """Of the views before this one…"""
        self._totals: dict[str, int] = {}
        """…and the statistics of those."""
        self._founds_at_ns = join.found_after_ns
        self._founded: Membership | None = None
        """Under `static`, what has met the other founders, and still answers the first of them."""
        if join.view is None and not join.founders and (join.policy == STATIC or not join.contacts):
            raise UsageError(f"to join group {join.group!r}, name its first view, or contacts and the policy `primary`")

    def _found(self, join: Join, members_max: int) -> None:
        """The end of a stack's own `__init__`: its sessions can be made now."""
        if join.view is not None:
            self._session = self._make_session(join.view, b"")
        if join.view is None and len(join.founders) > members_max:
            raise UsageError(
                f"group {join.group!r} has {len(join.founders)} founders, but with packets of "
                f"{self._options.packet_bytes_max} bytes a view has at most {members_max} members"
            )
        if join.policy == PRIMARY or (join.view is None and join.founders):
            self._membership = Membership(
                self._stack, join.group, self.group_id, self._declaration.id, self._process, join.address,
                self._options, members_max,
            )  # fmt: skip

    # ---- what a stack adds -----------------------------------------------------------------------------------------

    def _make_session(self, view: View, annex: bytes) -> Session:
        raise NotImplementedError

    def _check_destinations(self, level: int, destinations: tuple[ProcessId, ...]) -> None:
        """Raise UsageError where the stack cannot send such a message to some members only."""

    def _entered(self, old: Session | None, proposal: Proposal | None, joined: bool, now_ns: int) -> None:
        """This process is in a view, or (no session yet) asks to be let in; `joined`: others came with the view."""

    def _gone(self) -> None:
        """This process is no longer a member."""

    def _may_enter(self, view: View) -> bool:
        """Whether a newcomer may still enter the view that it was let into."""
        return True

    def _stalled(self) -> None:
        """The view has no majority."""

    def _ask_for_flush(self, session: Session, membership: Membership, now_ns: int) -> None:
        """Have the view end if something waits for that."""
        if session.end.barrier is not None:
            membership.request_flush(now_ns)

    # ---- the application's side ------------------------------------------------------------------------------------

    def start(self, contacts: tuple[str, ...], effects: Effects, now_ns: int) -> None:
        """Begin, in the first view or outside."""
        session = self._session
        if session is not None:
            effects.events.append(Installed(self.group, session.view, session.view.members, founded=True))
        self._entered(None, None, False, now_ns)
        if self._membership is None:
            return
        self._membership.credentials = self.credentials
        if session is not None:
            self._membership.begin(session.view, session.end, effects, now_ns)
        else:
            asked = contacts or tuple([address for _, address in self._founders])
            self._membership.ask_to_join(asked, self._last_view, now_ns, self._make_founding(now_ns))

    def _make_founding(self, now_ns: int) -> Founding | None:
        if not self._founders:
            return None
        is_static = self._policy == STATIC
        return Founding(
            self._founders,
            self._process,
            is_static,
            now_ns + self._founds_at_ns,
            self._last_view,
            self._options.wire_version,
        )

    def send(self, input: Send, effects: Effects, now_ns: int) -> int:
        """Accept messages; `finish` puts on the wire what may leave."""
        payloads = input.payloads
        if input.destinations:
            self._check_destinations(input.level, input.destinations)
        if self.over:
            raise self._no_member()
        for payload in payloads:
            if len(payload) > self._options.message_bytes_max:
                raise MessageTooLargeError(len(payload), self._options.message_bytes_max)
        if self._membership is not None:
            self._membership.notice_time(effects, now_ns)
        return self._pending.accept(payloads, input.level, input.destinations, label=input.label)

    def barrier(self, payload: bytes, effects: Effects, now_ns: int) -> int:
        """Accept a barrier; it ends the view when its turn comes."""
        if self._membership is None:
            raise UsageError(f"a barrier ends a view, and that of group {self.group!r} is static; join with `primary`")
        if self.over:
            raise self._no_member()
        if len(payload) > BARRIER_BYTES_MAX:
            raise MessageTooLargeError(len(payload), BARRIER_BYTES_MAX)
        self._membership.notice_time(effects, now_ns)
        return self._pending.accept([payload], SAFE, barrier=True)

    def _no_member(self) -> UsageError:
        return UsageError(f"{self._process} is no longer a member of group {self.group!r}")

    def leave(self, now_ns: int) -> None:
        if self._membership is None:
            raise UsageError(f"the view of group {self.group!r} is static: nobody can leave it; join with `primary`")
        self._membership.leave(now_ns)

    def abandon(self) -> None:
        if not self.over:
            if self._membership is not None:
                self._membership.become_out()
            super().abandon()
            self._gone()

    def is_stalled(self) -> bool:
        return self._membership is not None and self._membership.is_stalled()

    def recover(self, effects: Effects, now_ns: int) -> None:
        if self._membership is None or not self.is_stalled():
            super().recover(effects, now_ns)
        else:
            self._membership.recover(effects, now_ns)

    def pause(self) -> None:
        self._paused = True
        if self._session is not None:
            self._session.pause()

    def resume(self, effects: Effects, now_ns: int) -> None:
        self._paused = False
        if self._membership is not None:
            self._membership.notice_time(effects, now_ns)
        if self._session is not None:
            self._session.resume(effects, now_ns)

    # ---- the network's side ----------------------------------------------------------------------------------------

    def receive(
        self, kind: int, tag: int, sender: int, flags: int, level: int, data: bytes, effects: Effects, now_ns: int
    ) -> None:
        """One packet for this group. Raises MalformedError, before anything has changed."""
        membership = self._membership
        retiring, before = self.retiring, len(effects.events)
        if self.over:
            self._receive_after_the_end(kind, tag, sender, flags, data, effects, now_ns)
            return
        if membership is not None:
            membership.notice_time(effects, now_ns)
            if retiring:  # here as well, since what follows may raise
                self._mute(effects, before)
        if kind == MEMBERSHIP and flags == RECOVERY:
            self._answer_operator(data, effects)
        elif kind == MEMBERSHIP and (tag != self._declaration.id or flags == DECLARED):
            self._receive_different(tag, flags, data, effects)
        elif kind == MEMBERSHIP and membership is not None:
            message = self._chunks.take(flags, data, self.author)
            if message is not None:
                membership.receive(message, effects, now_ns)
                if membership.excluded:
                    self._end(effects)  # at once: nothing that came with this packet may be delivered any more
        elif kind == MEMBERSHIP and self._founded is not None:
            message = self._chunks.take(flags, data, self.author)
            if message is not None:
                self._founded.answer_founder(message, effects)
        elif self._session is not None and tag == self._session.tag:
            if self.author:
                self._check_author(self._session.view, sender)
            self._session.receive(kind, sender, flags, level, data, effects, now_ns)
            if kind != DATA:
                # Data may be somebody else's copy; status and requests come from the member itself.
                if self._is_founder:
                    self._met.add(sender)
                if membership is not None:
                    membership.heard(sender, now_ns)
        elif self._previous is not None and tag == self._previous.tag and membership is not None:
            self._receive_late(self._previous, membership, kind, sender, data, effects, now_ns)
        else:
            self._tell_founder(sender, effects, now_ns)
            raise MalformedError("view")
        if retiring:
            self._mute(effects, before)

    def _receive_after_the_end(
        self, kind: int, tag: int, sender: int, flags: int, data: bytes, effects: Effects, now_ns: int
    ) -> None:
        if self.refused:
            self._tell_founder(sender, effects, now_ns)
        if self._membership is None or self.excluded or kind != MEMBERSHIP or tag != self._declaration.id:
            raise MalformedError("group")
        message = self._chunks.take(flags, data, self.author)
        if message is not None:
            self._membership.answer_after_leaving(message, effects)

    def _receive_late(
        self,
        previous: Session,
        membership: Membership,
        kind: int,
        sender: int,
        data: bytes,
        effects: Effects,
        now_ns: int,
    ) -> None:
        """A packet of the view before: its sender has yet to install this one, and may lack packets of the cut."""
        if sender >= len(previous.view.members):
            raise MalformedError("rank")
        self._check_author(previous.view, sender)
        previous.answer_late(kind, sender, data, effects, now_ns)
        membership.answer_old_packet(previous.view.members[sender], effects)

    def _answer_operator(self, data: bytes, effects: Effects) -> None:
        """An operator, who is no member, asks how the group stands, or says, by its name, that it may go on."""
        message = self._chunks.take(RECOVERY, data, self.author)
        if message is None or self._session is None:
            return
        membership = self._membership
        is_stalled = membership is not None and membership.is_stalled()
        if is_stalled and message.annex == self.group.encode():
            effects.events.append(RecoveryAsked(self.group, message.sender))
        state = MembershipMessage(
            RECOVERY_STATE, self._process, self._address, self._session.view.id, round=1 if is_stalled else 0,
            accepted=Proposal(self._session.view, [], [], [], [], [], b""),
            heard=[] if membership is None else membership.reached(), about=message.sender,
        )  # fmt: skip
        packets = state.encode(self._stack, self.group_id, self._declaration.id, self._options.packet_bytes_max)
        effects.transmits.append(Transmit(Route((message.sender,), (message.address,)), packets))

    # ---- the end of a step -----------------------------------------------------------------------------------------

    def tick(self, effects: Effects, now_ns: int) -> None:
        if self._membership is not None:
            self._membership.notice_time(effects, now_ns)
        if self._session is not None and self._session.deadline_ns() <= now_ns:
            self._session.tick(effects, now_ns)
        if self._membership is not None and self._membership.deadline_ns() <= now_ns:
            self._membership.tick(effects, now_ns)

    def finish(self, effects: Effects, now_ns: int) -> None:
        """Send what may leave, change the view if it is time, then collect what is to be transmitted."""
        self.unfinished = False
        if self.over:
            return
        retiring, before = self.retiring, len(effects.events)
        membership = self._membership
        if self._session is not None:
            self._session.finish(effects, now_ns)
            if membership is not None:
                self._ask_for_flush(self._session, membership, now_ns)
        if membership is not None:
            membership.progress(effects, now_ns)
            self._change(membership, effects, now_ns)
        if self._session is not None:
            self._session.collect(effects)
        if self._pending.was_full and self._pending.take_writable():
            effects.events.append(Writable(self.group))
        if retiring:
            self._mute(effects, before)

    def _mute(self, effects: Effects, before: int) -> None:
        """Tell the application nothing of what a step did to a member that retires: its life is over. Views are told
        all the same, for the history, which has to say that there were some."""
        told = [event for event in effects.events[before:] if event.group != self.group or isinstance(event, Installed)]
        del effects.events[before:]
        effects.events.extend(told)

    def _change(self, membership: Membership, effects: Effects, now_ns: int) -> None:
        """Go over into the next view, or out, if it is time."""
        if membership.is_stalled():
            self._stalled()
        session = self._session
        if membership.parted_by is not None and session is not None:
            if session.end.is_complete() and not self.retiring:
                session.end.take_annex(membership.parted_by.annex)
                session.finish_cut(membership.parted_by.barriers, effects, now_ns)
            membership.parted_by = None
        elif membership.decided is not None and session is None and not self._may_enter(membership.decided.view):
            membership.become_out()
            effects.events.append(Ended(self.group, True))
        elif membership.ready() and self._finish_view(membership, effects, now_ns):
            self._install(membership, effects, now_ns)
        if membership.phase == OUT:
            self._end(effects)

    def _end(self, effects: Effects) -> None:
        self.over = True
        for event in effects.events:
            if isinstance(event, Ended) and event.group == self.group:
                # Whoever was never let in has done nothing in the group that could have been lost.
                self.abandoned = event.refused and self._session is None
                self.excluded = event.excluded and not self.abandoned
                self.refused = event.refused
        self._gone()

    def _finish_view(self, membership: Membership, effects: Effects, now_ns: int) -> bool:
        """Deliver what is left of the view, if there is one; false while other groups have to come first."""
        decided, session = membership.decided, self._session
        assert decided is not None
        if session is None:
            return True
        session.end.take_annex(decided.annex)
        return session.finish_cut(decided.barriers, effects, now_ns)

    def _install(self, membership: Membership, effects: Effects, now_ns: int) -> None:
        proposal = membership.decided
        assert proposal is not None
        old = self._session
        before: tuple[ProcessId, ...] = ()
        session = self._make_session(proposal.view, proposal.annex)
        if old is not None:
            old.collect(effects)
            before = old.view.members
            self._situations = add_counts(self._situations, old.situations())
            add_statistics(self._totals, old.statistics())
        self._previous = old
        self._session = session
        self._is_founder = False
        self._pending.restart_message()
        joined = tuple(member for member in proposal.view.members if member not in before)
        effects.events.append(
            Installed(
                self.group,
                proposal.view,
                joined,
                tuple(before[rank] for rank in proposal.left) if before else (),
                tuple(before[rank] for rank in proposal.failed) if before else (),
                () if old is None else (old.view.id,),
                old is None and not proposal.cut,  # a view that ends has a cut for each of its members
            )
        )
        self._entered(old, proposal, bool(joined), now_ns)
        membership.begin(proposal.view, session.end, effects, now_ns)
        if self._policy == STATIC:
            self._founded, self._membership = membership, None
        if self._paused:
            session.pause()
        session.finish(effects, now_ns)

    # ---- questions -------------------------------------------------------------------------------------------------

    def deadline_ns(self) -> int:
        if self.over:
            return NEVER
        deadline_ns = NEVER if self._session is None else self._session.deadline_ns()
        if self._membership is not None:
            deadline_ns = min(deadline_ns, self._membership.deadline_ns())
        return min(deadline_ns, self._retires_by_ns)

    def outstanding(self) -> int:
        """Own messages not yet in packets, and own packets not yet stable or not yet delivered here."""
        in_view = 0 if self._session is None else self._session.outstanding()
        return self._pending.messages() + in_view

    def held(self) -> int:
        """Packets and private messages of others that wait here for their place."""
        return 0 if self._session is None or self.over else self._session.held()

    def phase(self) -> int:
        """The phase of the membership; a group that keeps its view is always in the same one."""
        return NORMAL if self._membership is None else self._membership.phase

    def mark(self) -> StabilityMark:
        """All that was sent or delivered here until now."""
        session = self._session
        if session is None:
            return StabilityMark(self.group, 0, [], self._pending.accepted)
        return StabilityMark(self.group, session.view.id, session.known(), self._pending.accepted)

    def is_stable(self, mark: StabilityMark, copies: int) -> bool:
        """Whether all that the mark stands for is at so many members beside its sender; 0: at all of them."""
        session = self._session
        if self.over:
            return True
        if session is None or self._pending.next_message() <= mark.accepted:
            return False
        if session.view.id == mark.view_id:
            if not session.is_stable(mark.known, copies):
                return False
        elif not copies and self._membership is not None and not self._membership.are_all_present():
            return False  # all hold what came before this view, but deliver it when they install it
        return session.are_own_stable(mark.accepted, copies)

    def peers(self, now_ns: int) -> list[PeerState]:
        session = self._session
        if session is None or self.over:
            return []
        sent = session.end.sent()
        peers: list[PeerState] = []
        for rank in range(len(session.view.members)):
            behind = max(0, sent - session.end.received_by(rank))
            if session.view.members[rank] == self._process:
                continue
            if self._membership is None:
                peers.append(PeerState(session.view.members[rank], behind, 0, 0, False))
            else:
                peers.append(self._membership.peer(rank, behind, now_ns))
        return peers

    def last_number(self) -> int:
        return self._pending.accepted

    def statistics(self) -> dict[str, int]:
        result = {"messages_accepted": self._pending.accepted, "pending_bytes": self._pending.pending_bytes}
        result.update(self._totals)
        if self._session is not None:
            for name, value in self._session.statistics().items():
                result[name] = result.get(name, 0) + value
        return result

    def situations(self) -> list[int]:
        return add_counts(self._situations, [] if self._session is None else self._session.situations())
