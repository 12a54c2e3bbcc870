"""Stack `vector`: the ISIS protocols of 1991, composed. What all stacks have in common is in parts/membership/group.py.

Levels: all. Policies: `static` and `primary`. The groups of one causality domain share an InterGroupOrder, which keeps
them in order with each other.

The end of a life. A process that is excluded from one group is over in all of its domain: it sends and delivers nothing
more in any of them, at once, since that would follow what is lost (isis-1991, 6.5). From the others it *retires*: it
takes in nothing more, asks to leave, says what it holds when it is asked, fetches the cut and accepts it; then it is
out. Safe: it adds no packet (what it holds left its sender before, and what it had sent was k-stable in its other
groups before it left), and delivers none of the cut. So to the others it has left in good order, and its word counts
for the majority: a group of two goes on. Live: if they do not agree within `silence_ns_max`, it is out without them.

Limits: per sender `window_packets` packets, held back or kept for resending, and one half-received message; own
messages wait within `pending_bytes_max`. A paused application consumes nothing, so every sender's window closes in
turn.
"""

from random import Random
from typing import final

from antiphon.kernel.causality_domain import EPOCHS
from antiphon.kernel.effects import Effects, Ended
from antiphon.kernel.errors import UsageError
from antiphon.kernel.identity import ProcessId, View
from antiphon.kernel.inputs import Join
from antiphon.kernel.levels import CAUSAL, LEVEL_NAMES
from antiphon.kernel.options import Options
from antiphon.parts.membership.group import GroupMember
from antiphon.parts.membership.membership import Membership
from antiphon.parts.membership.messages import Proposal
from antiphon.parts.membership.phases import PARTING
from antiphon.parts.membership.session import Session
from antiphon.stacks.vector.inter_group_order import InterGroupOrder
from antiphon.stacks.vector.offers import NUMBER, OFFERS
from antiphon.stacks.vector.session import ViewSession, members_max
from antiphon.stacks.vector.view_end import epoch_of


@final
class VectorMember(GroupMember):
    """One member of one group."""

    __slots__ = (
        "_domain_members",
        "_letters_seen",
        "_random",
        "_time_life_ns",
        "_view_session",
        "order",
    )

    def __init__(
        self,
        join: Join,
        process: ProcessId,
        last_number: int,
        order: InterGroupOrder,
        domain_members: "dict[int, VectorMember]",
        random: Random,
        options: Options,
        time_life_ns: int,
    ) -> None:
        """`domain_members`: this process in all groups of the domain; `time_life_ns`: within this time a group that
        shares members with others is flushed twice, if it is active."""
        super().__init__(NUMBER, join, process, last_number, options, order.tickets)
        self.order = order
        self._domain_members = domain_members
        self._random = random
        self._time_life_ns = time_life_ns
        self._letters_seen: dict[ProcessId, int] = {}
        self._view_session: ViewSession | None = None
        """The session, by its own name."""
        self._found(join, members_max(options))

    def _make_session(self, view: View, annex: bytes) -> Session:
        session = ViewSession(
            self.group, self._process, view, self._pending, self.order, self._letters_seen, self._random,
            self._options, epoch_of(annex), self._declaration.id,
        )  # fmt: skip
        self._view_session = session
        return session

    def _check_destinations(self, level: int, destinations: tuple[ProcessId, ...]) -> None:
        if len(destinations) > 1:
            raise UsageError(f"stack {OFFERS.name!r} sends to all members or to one, not to {len(destinations)}")
        if level != CAUSAL:
            raise UsageError(f"a message to one member is `causal`; {LEVEL_NAMES[level]!r} is for multicasts")

    # ---- in and out of views, beside other groups ------------------------------------------------------------------

    def begin_step(self, now_ns: int) -> None:
        self.order.now_ns = now_ns
        self.order.touch(self.group_id)

    def _entered(self, old: Session | None, proposal: Proposal | None, joined: bool, now_ns: int) -> None:
        session = self._view_session
        if session is None:
            self.order.enter(self.group_id, None, self._pending)
            return
        if self.retiring:  # let into one more view, which it leaves as well
            session.pause()
            session.end.freeze()
            return
        for gone in [process for process in self._letters_seen if session.view.rank(process) < 0]:
            del self._letters_seen[gone]
        session.flush_at_ns = now_ns + self._time_life_ns // 2
        self.order.enter(self.group_id, session.time, self._pending, joined)
        if old is not None:
            assert isinstance(old, ViewSession)
            if session.time.epoch > old.time.epoch:
                self.order.raised()
            if self.order.busy_group == self.group_id:
                self.order.busy_group = 0
            session.follow(old, now_ns)

    def _gone(self) -> None:
        self.order.leave(self.group_id, self._membership is not None and self._membership.is_left_by_all())

    def _may_enter(self, view: View) -> bool:
        return self.order.may_enter(self.group_id, view.id)

    def _stalled(self) -> None:
        if not self.retiring:
            self.order.stall(self.group_id)

    def _ask_for_flush(self, session: Session, membership: Membership, now_ns: int) -> None:
        assert self._view_session is not None
        end = self._view_session.epochs
        if self.retiring:
            return
        if self.order.domain.rule == EPOCHS:
            end.epoch_wish = max(end.epoch_wish, self.order.epoch_wanted(self.group_id, False))
        if end.barrier is not None or end.epoch_wish:
            membership.request_flush(now_ns)

    def _end(self, effects: Effects) -> None:
        """End here, and after an exclusion in all groups of the domain, before anything more is sent or delivered in
        them: it would follow what is lost."""
        if self.retiring:
            self._retired()
            return
        super()._end(effects)
        if self.excluded:
            for member in self._domain_members.values():
                member.expel(effects)

    # ---- the end of a life -----------------------------------------------------------------------------------------

    def expel(self, effects: Effects) -> None:
        """This process was excluded from another group of the domain: its life is over in all of them."""
        membership, session = self._membership, self._view_session
        if self.over or self.retiring or membership is None:
            return
        if session is None or len(session.view.members) == 1:
            membership.become_out()
            effects.events.append(Ended(self.group, True))
            self._end(effects)
            return
        self.retiring = True
        self._retires_by_ns = self.order.now_ns + self._options.silence_ns_max
        session.pause()
        session.end.freeze()
        if membership.phase != PARTING:
            membership.leave(self.order.now_ns)
        effects.events.append(Ended(self.group, True, retires=True))
        self._gone()

    def _retired(self) -> None:
        """Parted, or nobody answers."""
        self.retiring = False
        self.over = self.excluded = True

    def resume(self, effects: Effects, now_ns: int) -> None:
        if not self.retiring:
            super().resume(effects, now_ns)

    def _finish_view(self, membership: Membership, effects: Effects, now_ns: int) -> bool:
        return self.retiring or super()._finish_view(membership, effects, now_ns)

    def tick(self, effects: Effects, now_ns: int) -> None:
        if self.retiring:
            before = len(effects.events)
            super().tick(effects, now_ns)
            if now_ns >= self._retires_by_ns and self._membership is not None and not self.over:
                self._membership.become_out()
                self._retired()
            self._mute(effects, before)
            return
        super().tick(effects, now_ns)
        session = self._view_session
        if session is not None and now_ns >= session.flush_at_ns:
            self._flush_in_time(session, now_ns)

    def _flush_in_time(self, session: ViewSession, now_ns: int) -> None:
        """Flush the group if it was active: the next view makes void what others keep of this view's time (6.4)."""
        session.flush_at_ns = now_ns + self._time_life_ns // 2
        if self._membership is not None and not self.order.is_alone() and any(session.known()):
            self._membership.request_flush(now_ns)

    def collect(self, effects: Effects) -> None:
        """What another group has made this one send."""
        if self._session is not None and not self.over and not self.retiring:
            self._session.collect(effects)

    def waits(self) -> bool:
        """Whether something here may have to wait for another group of the domain."""
        session = self._view_session
        if self.over or self.retiring or session is None:
            return False
        if session.waits() or self._pending.runs:
            return True
        if self._membership is not None and self._membership.decided is not None:
            return True
        return self.order.domain.rule == EPOCHS and self._is_behind(session, self._membership)

    def _is_behind(self, session: ViewSession, membership: Membership | None) -> bool:
        """Whether other groups of the domain have gone on, and this one has yet to do something about it."""
        end = session.epochs
        if session.has_output() or self.order.epoch_wanted(self.group_id, False) > end.epoch_wish:
            return True
        wants_flush = end.barrier is not None or end.epoch_wish > 0
        return wants_flush and membership is not None and membership.may_request()

    def retry_blocked(self, effects: Effects, now_ns: int) -> bool:
        """Something happened in another group of the domain; whether that changed anything here."""
        session = self._view_session
        if self.over or self.retiring or session is None:
            return False
        events = len(effects.events)
        session.retry_blocked(effects, now_ns)
        if self._membership is not None:
            self._ask_for_flush(session, self._membership, now_ns)
            self._change(self._membership, effects, now_ns)
        if self._session is not None:
            self._session.collect(effects)
        return len(effects.events) != events
