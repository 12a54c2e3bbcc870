"""From group to group: causal order over the overlapping groups of one domain (isis-1991, sections 6.1 to 6.7).

One of these per process and domain; it knows the vector time of every group of the domain that the process is in, and
what it has heard of the times of others.

Receiving (6.1). A causal packet may carry times of other groups. It waits until what they name is delivered here,
in groups that this process is in and in the view that they name. An older view is over: its packets were delivered in
its flush, and its time is ignored (6.5). A later view is waited for.

Sending, at level `causal` or above, and under the rules `conservative` and `epochs` at any level:
1. Messages leave in the order in which the application gave them to the domain, whatever their group.
2. Atomicity (6.5). Before a process sends in one group, all that it has sent or delivered in others is k-stable. The
   message that follows can then not outlive what it follows. Where `agreed` messages are in use, or the rule is
   `conservative`, they must be delivered at all members.
3. What may be undelivered elsewhere travels along (6.1), but for what this sender has told this group before, or has
   learned from it (6.3), and for what every member has delivered (6.3, inactive groups). The view of the other group
   travels once in any case: a process that was excluded from it, and has not heard of that yet, must not go on in
   groups where others have.

While rule 2 makes a process wait it delivers nothing in its other groups, or its past would grow as fast as it
becomes stable (6.7). It does so for short times only, with pauses drawn at random: two processes that each wait for
the other to deliver would otherwise wait for ever.

Why agreed messages must be delivered everywhere first: the total orders of two groups are made by two holders that do
not know of each other. A1 before A2 in one and B1 before B2 in the other, B1 after A2 and A1 after B2 by chains
through third groups, and a member of both can deliver none of the four. The paper (6.2) does not meet this case.

Epochs (6.7). Every view of a group has an epoch. A process that turns from group to group around an excluded one, or
has left a group, first has the group flushed into a higher epoch; whoever installs a view of a higher epoch has its
other groups flushed into it too, and delivers nothing in it before they are. So what was sent in an earlier epoch comes
first everywhere.

Garbage collection (6.4). A time of a group that this process is not in is kept until a later view of that group is
heard of: then everything of the earlier view was delivered in its flush. Members flush active groups from time to
time, so that such a view comes. At most TIMES_MAX times are kept; a packet that names more groups is not accepted, and
its sender waits.

Deviations. Times are not dropped by their age: the paper's rule needs every group to be flushed in time, and a group
that has lost its majority, or whose policy is `static`, is not. A group counts as inactive when everything in it is
delivered at all members, not merely received. Then nobody can be waiting for it any more, and no rule for the order of
receipt (6.3) is needed.
"""

from random import Random
from typing import Final, final

from antiphon.kernel.causality_domain import CARRY, CONSERVATIVE, EPOCHS, CausalityDomain
from antiphon.kernel.effects import NEVER
from antiphon.kernel.identity import wire_id
from antiphon.kernel.levels import CAUSAL
from antiphon.kernel.options import Options
from antiphon.parts.pending import PendingQueue, TicketCounter
from antiphon.stacks.stack import Stack
from antiphon.stacks.vector.group_time import GroupTime
from antiphon.stacks.vector.structure import components
from antiphon.stacks.vector.timestamp import ForeignTime

TIMES_MAX: Final = 10_000
"""Groups elsewhere whose times are kept."""


@final
class _Abroad:
    """What was heard of the time of a group that this process is not in, or not in that view yet."""

    __slots__ = ("counts", "version", "view_id")

    def __init__(self, view_id: int) -> None:
        self.view_id = view_id
        self.counts: dict[int, int] = {}
        self.version = 0


@final
class _Told:
    """What the members of one group know of the time of another, by what I told them or learned from them."""

    __slots__ = ("counts", "version", "view_id")

    def __init__(self) -> None:
        self.view_id = -1
        self.version = -1
        self.counts: dict[int, int] = {}

    def raise_to(self, view_id: int, entries: list[tuple[int, int]]) -> None:
        if view_id > self.view_id:
            self.view_id = view_id
            self.counts = {}
            self.version = -1
        if view_id == self.view_id:
            for rank, count in entries:
                if count > self.counts.get(rank, 0):
                    self.counts[rank] = count


@final
class InterGroupOrder:
    """The causal order of one process over the groups of one domain."""

    def __init__(
        self, domain: CausalityDomain, random: Random, options: Options, hold_ns: int, stack: Stack | None = None
    ) -> None:
        """`hold_ns`: how long deliveries are held back at a time; `stack`: told when groups begin to depend on each
        other."""
        self.domain = domain
        self._hold_ns = hold_ns
        self._stack = stack
        self._random = random
        self._options = options
        self._times: dict[int, GroupTime] = {}
        self._queues: dict[int, PendingQueue] = {}
        self._stalled: set[int] = set()
        self._joining: dict[int, int] = {}
        """Groups that this process has asked to be let into, and when a packet first came in that names a time there
        (0: none)."""
        self._passed_over: dict[int, int] = {}
        """The last view of such a group that packets named and that was not waited for."""
        self._abroad: dict[int, _Abroad] = {}
        self._ahead: set[int] = set()
        """Groups that this process is in and has heard of in a later view."""
        self._told: dict[int, dict[int, _Told]] = {}
        """By group, what its members know of the times of others."""
        self._touches = 0
        self._step_began = 1
        self._touched: dict[int, int] = {}
        """Groups whose time may have changed, the last one last, each with a number that rises."""
        self._looked: dict[int, int] = {}
        """By group, the number from which on others have to be looked at before something is sent there."""
        self._unsettled: dict[int, None] = {}
        """Groups of which not all may be stable, or delivered everywhere, as rule 2 wants."""
        self._with_pending: dict[int, None] = {}
        """Groups in which something may wait to be sent."""
        self._has_epochs = False
        self.tickets = TicketCounter()
        """Numbers what the application sends to the groups of the domain, in its order."""
        self.free = domain.rule != EPOCHS
        """Whether what is sent depends on no other group: there is none, and no epoch."""
        self._acks_requested: list[int] = []
        self._waiting = 0
        self._hold_until_ns = NEVER
        self._rest_until_ns = NEVER
        self.now_ns = 0
        self._highest_epoch = 0
        """Of all groups that this process is in."""
        self._left = False
        self.heard_in: set[int] = set()
        """The groups that messages came from since the last change of epoch."""
        self._excluded = {wire_id(group) for group in domain.excluded}
        pairs = domain.overlaps if domain.rule == CARRY else ()
        self._components = [{wire_id(group) for group in part} for part in components(pairs)]
        self.busy_group = 0
        """The group in which a point-to-point message or a barrier is on its way: nothing else may leave."""

    # ---- who is there ----------------------------------------------------------------------------------------------

    def touch(self, group: int) -> None:
        """The time of a group may change, or has changed: looking at those alone makes a step independent of the number
        of groups."""
        self._touches += 1
        self._touched.pop(group, None)
        self._touched[group] = self._touches
        self._unsettled[group] = None
        self._with_pending[group] = None

    def end_step(self) -> None:
        """Begin the next step: a group touched from here on is touched in that one."""
        self._step_began = self._touches + 1

    def _changed_for(self, group: int) -> list[int]:
        """The groups whose times may have changed since something was last sent to `group`, oldest first. Those of this
        very step may still change and will be looked at again."""
        since = self._looked.get(group, 0)
        self._looked[group] = self._step_began
        changed: list[int] = []
        for other in reversed(self._touched):
            if self._touched[other] < since:
                break
            if other != group and self._travels(other, group):
                changed.append(other)
        changed.reverse()
        return changed

    def enter(self, group: int, time: GroupTime | None, queue: PendingQueue, newcomers: bool = True) -> None:
        """Note that this process is in a new view of the group, or (without a time) has asked to join it."""
        self._queues[group] = queue
        self._stalled.discard(group)
        if time is None:
            self._joining[group] = 0
            self._with_pending[group] = None
            self._note_company()
            return
        self._joining.pop(group, None)
        self._passed_over.pop(group, None)
        self._times[group] = time
        ahead = self._abroad.get(group)
        self.touch(group)
        if ahead is not None and ahead.view_id <= time.view_id:
            del self._abroad[group]
            self._ahead.discard(group)
            entries = list(ahead.counts.items())
            if ahead.view_id == time.view_id and time.is_plausible(entries):
                time.causal.learn(entries)
        if newcomers:  # they have not heard what the members were told before
            self._told.pop(group, None)
            self._looked.pop(group, None)
        time.hold = self._hold_until_ns != NEVER and self._waiting != group
        self._block_epochs(time.epoch)
        self._note_company()

    def leave(self, group: int, is_void: bool = False) -> None:
        """This process is no longer in the group, but what it did there is still in its past; unless that is void,
        since nobody is in the view any more that it was in. What it has heard of a later view stays in its past."""
        self._joining.pop(group, None)
        self._stalled.discard(group)
        self._queues.pop(group, None)
        self._told.pop(group, None)
        self._looked.pop(group, None)
        self._unsettled.pop(group, None)
        self._with_pending.pop(group, None)
        self._ahead.discard(group)
        time = self._times.pop(group, None)
        if time is None:
            if group not in self._abroad:
                self._touched.pop(group, None)
            self._note_company()
            return
        self._left = True
        if self.domain.rule != EPOCHS:
            self.heard_in.discard(group)
        abroad = self._abroad.get(group)
        if is_void and (abroad is None or abroad.view_id <= time.view_id):
            self._abroad.pop(group, None)
            self._touched.pop(group, None)
            for told in self._told.values():
                told.pop(group, None)
        elif not is_void:
            entries = [(rank, count) for rank, count in enumerate(time.causal.known) if count]
            self._hear(ForeignTime(group, time.view_id, entries))
        if self._waiting == group:
            self._stop_waiting()
        if self.busy_group == group:
            self.busy_group = 0
        self._block_epochs(0)
        self._note_company()

    def _block_epochs(self, epoch: int) -> None:
        """A group has come into this epoch, or (0) was left."""
        self._has_epochs = self._has_epochs or epoch > 0
        if not self._has_epochs:
            return
        lowest = min((time.epoch for time in self._times.values()), default=0)
        self._highest_epoch = max((time.epoch for time in self._times.values()), default=0)
        for time in self._times.values():
            time.blocked = time.epoch > lowest

    def stall(self, group: int) -> None:
        """The group stands still, perhaps for good. What waits to be sent there holds up messages to other groups only
        where they must come after it, and deliveries in other groups are no longer held back for it."""
        if group not in self._stalled:
            self._stalled.add(group)
            self._release()

    def is_alone(self) -> bool:
        return len(self._queues) <= 1 and not self._abroad

    def _note_company(self) -> None:
        """Find out anew which groups share members, after one was joined, left or heard of."""
        self.free = self.domain.rule != EPOCHS and self.is_alone()
        if self._stack is not None and not self.free:
            self._stack.groups_apart = False

    # ---- receiving -------------------------------------------------------------------------------------------------

    def has_room(self, foreign: list[ForeignTime]) -> bool:
        """Whether the times of all these groups can be kept."""
        if len(self._abroad) + len(foreign) <= TIMES_MAX:
            return True
        return all(heard.group in self._abroad or heard.group in self._times for heard in foreign)

    def blocks(self, foreign: list[ForeignTime]) -> bool:
        """Return whether a message that these times name is still to be delivered here."""
        for heard in foreign:
            time = self._times.get(heard.group)
            if time is None:
                if heard.group in self._joining and self._wait_at_door(heard):
                    return True
            elif heard.view_id > time.view_id or (
                heard.view_id == time.view_id and not time.causal.has_delivered(heard.entries)
            ):
                return True
        return False

    def note_arrival(self, foreign: list[ForeignTime]) -> None:
        """A packet came in that names these times. The wait at the doors of groups that it names, and that this process
        asks to join, begins now, at all of them together: one after the other they could last until the members that
        wait for this process suspect it."""
        if not self._joining:
            return
        for heard in foreign:
            if self._joining.get(heard.group) == 0:
                self._joining[heard.group] = max(self.now_ns, 1)

    def _wait_at_door(self, heard: ForeignTime) -> bool:
        """Return whether to hold a packet that names a group which may already have let this process in: then the group
        owes it earlier messages. After a while the packet goes on, and this process will not enter that view."""
        since_ns = self._joining[heard.group]
        # 0: the packet came before this process asked to join, so the view that it names cannot have let it in.
        if since_ns and self.now_ns < since_ns + self._options.silence_ns_min:
            return True
        self._passed_over[heard.group] = max(heard.view_id, self._passed_over.get(heard.group, 0))
        return False

    def may_enter(self, group: int, view_id: int) -> bool:
        """Whether a joining process can still be a member of this view from its beginning."""
        return view_id > self._passed_over.get(group, 0)

    def learn(self, group: int, foreign: list[ForeignTime], waited: bool) -> None:
        """A packet of `group` was delivered, before which these happened. `waited`: all members wait for them before
        they deliver it, so they need not be told again."""
        for heard in foreign:
            time = self._times.get(heard.group)
            if time is None:
                carried = self.domain.rule == CARRY or not waited
                self._hear(heard if carried else ForeignTime(heard.group, heard.view_id, []))
            elif heard.view_id > time.view_id:
                self._hear(heard)
            elif heard.view_id == time.view_id and time.is_plausible(heard.entries):
                time.causal.learn(heard.entries)
                self.touch(heard.group)
            if waited and (heard.group in self._times or heard.group in self._abroad):
                self._told_to(group, heard.group).raise_to(heard.view_id, heard.entries)

    def _hear(self, heard: ForeignTime) -> None:
        abroad = self._abroad.get(heard.group)
        if abroad is None:
            abroad = _Abroad(heard.view_id)
            self._abroad[heard.group] = abroad
        if heard.view_id > abroad.view_id:
            abroad.view_id = heard.view_id
            abroad.counts = {}
        if heard.view_id == abroad.view_id:
            for rank, count in heard.entries:
                if count > abroad.counts.get(rank, 0):
                    abroad.counts[rank] = count
        abroad.version += 1
        self.touch(heard.group)
        if heard.group in self._times:
            self._ahead.add(heard.group)
        self._note_company()

    def _told_to(self, group: int, about: int) -> _Told:
        by_group = self._told.get(group)
        if by_group is None:
            by_group = self._told[group] = {}
        told = by_group.get(about)
        if told is None:
            told = by_group[about] = _Told()
        return told

    # ---- sending ---------------------------------------------------------------------------------------------------

    def may_send(self, group: int, level: int, ticket: int, now_ns: int, private: bool = False) -> bool:
        """Rules 1 and 2. What is private may not be told on by its receiver where times do not travel freely, so there
        it waits until it need not carry any. While a point-to-point message is on its way, further ones in its group
        may follow it."""
        if self.busy_group and not (private and self.busy_group == group):
            return False
        if self.is_alone():
            return True
        if self._goes_before(group, level, ticket):
            return False
        if level < CAUSAL and self.domain.rule == CARRY:
            return True
        strict = private and (bool(self._components) or self.domain.rule == EPOCHS)
        if self._is_settled(group, strict):
            if self._waiting:
                self._stop_waiting()
            return True
        self._wait(group, now_ns)
        return False

    def _goes_before(self, group: int, level: int, ticket: int) -> bool:
        """Whether something that the application sent to another group before this has yet to leave, and this has to
        wait for it: for a group that stands still, only messages wait that must come after."""
        idle: list[int] = []
        found = False
        for other in self._with_pending:
            queue = self._queues.get(other)
            if queue is None or not queue.runs:
                idle.append(other)
            elif other == group or (other in self._stalled and level < CAUSAL):
                continue
            elif queue.runs[0].ticket < ticket:
                found = True
                break
        for other in idle:
            del self._with_pending[other]
        return found

    def _is_settled(self, group: int, strict: bool) -> bool:
        if self._ahead:
            return False  # a message below causal told of a view that I am not in yet
        for other in list(self._times if strict else self._unsettled):
            time = self._times.get(other)
            if time is None:
                del self._unsettled[other]
                continue
            if other == group:
                continue
            if time.settled_at == time.causal.version and not strict:
                if self._touched[other] < self._step_began:  # else this step may still change it
                    del self._unsettled[other]
                continue
            if strict or time.agreed.used or self.domain.rule == CONSERVATIVE:
                if not time.is_delivered_everywhere():
                    return False
            elif not time.is_stable(self.domain.resilience):
                return False
            time.settled_at = time.causal.version
        return True

    def times(self, group: int) -> list[ForeignTime]:
        """Rule 3: what the next packet to `group` has to carry."""
        result: list[ForeignTime] = []
        if self.is_alone():
            return result
        for other in self._changed_for(group):
            if other in self._times:
                self._add_own(group, other, self._times[other], result)
            if other in self._abroad:
                self._add_abroad(group, other, self._abroad[other], result)
        return result

    def _add_abroad(self, group: int, other: int, abroad: _Abroad, result: list[ForeignTime]) -> None:
        told = self._told_to(group, other)
        if (told.view_id, told.version) == (abroad.view_id, abroad.version):
            return
        known = told.counts if told.view_id == abroad.view_id else {}
        entries = [(rank, count) for rank, count in abroad.counts.items() if count > known.get(rank, 0)]
        if entries or told.view_id != abroad.view_id:
            result.append(ForeignTime(other, abroad.view_id, entries))
        told.raise_to(abroad.view_id, entries)
        told.version = abroad.version

    def all_times(self, group: int) -> list[ForeignTime]:
        """All that a message to a single member of `group` has to carry, who may have heard nothing of it yet."""
        result: list[ForeignTime] = []
        if self.is_alone():
            return result
        for other, time in self._times.items():
            if other != group:
                entries: list[tuple[int, int]] = []
                for rank, count in enumerate(time.causal.known):
                    if count > time.exchange.consumed_by_all(rank):
                        entries.append((rank, count))
                result.append(ForeignTime(other, time.view_id, entries))
        for other, abroad in self._abroad.items():
            result.append(ForeignTime(other, abroad.view_id, list(abroad.counts.items())))
        return result

    def _add_own(self, group: int, other: int, time: GroupTime, result: list[ForeignTime]) -> None:
        told = self._told_to(group, other)
        if (told.view_id, told.version) == (time.view_id, time.causal.version):
            return
        news = told.view_id != time.view_id
        known = {} if news else told.counts
        entries: list[tuple[int, int]] = []
        for rank, count in enumerate(time.causal.known):
            if count > known.get(rank, 0) and count > time.exchange.consumed_by_all(rank):
                entries.append((rank, count))
        if entries or news:
            result.append(ForeignTime(other, time.view_id, entries))
        told.raise_to(time.view_id, [(rank, count) for rank, count in enumerate(time.causal.known) if count])
        told.version = time.causal.version

    def _travels(self, about: int, group: int) -> bool:
        """Whether times of group `about` matter to `group` (6.6)."""
        if not self._components:
            return True
        return any(about in part and group in part for part in self._components)

    # ---- waiting to send -------------------------------------------------------------------------------------------

    def _wait(self, group: int, now_ns: int) -> None:
        if self._waiting == group:
            return
        self._stop_waiting()
        self._waiting = group
        self._start_hold(now_ns)

    def _start_hold(self, now_ns: int) -> None:
        self._hold_until_ns = now_ns + self._hold_ns
        self._rest_until_ns = NEVER
        for group, time in self._times.items():
            if group != self._waiting:
                time.hold = not self._stalled  # no hold would make a group go on that stands still
                if time.settled_at != time.causal.version:
                    time.exchange.request_acks()
                    self._acks_requested.append(group)

    def take_acks_requested(self) -> list[int]:
        """The groups in which this has made members send something."""
        hastened = self._acks_requested
        self._acks_requested = []
        return hastened

    def _release(self) -> None:
        for time in self._times.values():
            time.hold = False

    def _stop_waiting(self) -> None:
        self._waiting = 0
        self._hold_until_ns = NEVER
        self._rest_until_ns = NEVER
        self._release()

    def deadline_ns(self) -> int:
        deadline_ns = min(self._hold_until_ns, self._rest_until_ns)
        for since_ns in self._joining.values():
            if since_ns and since_ns + self._options.silence_ns_min > self.now_ns:
                deadline_ns = min(deadline_ns, since_ns + self._options.silence_ns_min)
        return deadline_ns

    def tick(self, now_ns: int) -> None:
        """Alternate between holding deliveries back and letting them through."""
        if now_ns >= self._hold_until_ns:
            self._hold_until_ns = NEVER
            self._rest_until_ns = now_ns + int(self._random.random() * self._hold_ns)
            self._release()
        elif now_ns >= self._rest_until_ns:
            self._start_hold(now_ns)

    # ---- epochs ----------------------------------------------------------------------------------------------------

    def epoch_wanted(self, group: int, sending: bool) -> int:
        """The epoch that the group should be flushed into; 0 if it may stay as it is."""
        if self.domain.rule != EPOCHS or group not in self._times:
            return 0
        if sending and not self._is_safe(group):
            return self._highest_epoch + 1
        return self._highest_epoch if self._highest_epoch > self._times[group].epoch else 0

    def _is_safe(self, group: int) -> bool:
        if self._left:
            return False
        for other in self.heard_in:
            if other != group and (not self._excluded or other in self._excluded or group in self._excluded):
                return False
        return True

    def raised(self) -> None:
        """Note that a group was flushed into a higher epoch: all earlier messages, in all groups, are of a lower
        one."""
        self._left = False
        self.heard_in.clear()
