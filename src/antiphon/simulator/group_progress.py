"""Which groups are quiet, which have lost their majority, and which are held up by one that has.

A group is *quiet* when all its processes that run are in one view, of just them, and everything that was sent there is
stable. A group has *lost its majority* when so many members of its last view are gone that no view can follow it. Since
causal order makes a group wait for others, groups that share a process with one that has lost its majority may be held
up for good with it: both are *excused* from becoming quiet.

On a network that has healed every member hears all others, so none that runs may be given up any more, except by a
suspicion that was under way. A group where that happens is *wrongful*: it may come to rest all the same, when those
that were given up have come back.

Under the rule `epochs` there is one more exception. In a view of a higher epoch a process delivers nothing before its
other groups have come along, and one that has lost its majority never does. So the process cannot end that view, and
the others give it up when they have ended it (docs/architecture.md, from group to group); if they waited instead, they
would stand still with it. One such exclusion may take the majority from another group, so this goes on for longer than
a suspicion that was under way. A process that is in no group without a majority has no such excuse, nor has any under
the other rules, which make nobody wait for good to deliver.
"""

from typing import final

from antiphon.kernel.identity import ProcessId, View
from antiphon.parts.membership.policies import PRIMARY_POLICY
from antiphon.simulator.incarnation import NO_VIEW, Incarnation
from antiphon.simulator.script import ScriptedGroup


@final
class GroupProgress:
    """What the world knows of all groups; `running` is the world's own list, by host."""

    __slots__ = (
        "_ended",
        "_has_epochs",
        "_hosts",
        "_last_views",
        "_late_ns",
        "_left",
        "_members",
        "_needs_majority",
        "_running",
        "_wrongful",
        "first_views",
        "groups",
    )

    def __init__(
        self,
        plans: list[ScriptedGroup],
        hosts: dict[str, int],
        running: list[Incarnation | None],
        late_ns: int,
        needs_majority: bool = True,
        has_epochs: bool = False,
    ) -> None:
        self._needs_majority = needs_majority
        """False where a service holds the groups: they outlive any of their members."""
        self._has_epochs = has_epochs
        """Whether groups of a higher epoch wait for those of a lower one."""
        self._late_ns = late_ns
        """From when on nobody that runs may be given up."""
        self._wrongful: set[str] = set()
        self.groups = [plan.name for plan in plans]
        self.first_views: dict[str, View] = {}
        self._members: dict[str, list[str]] = {plan.name: plan.members for plan in plans}
        self._hosts = hosts
        self._running = running
        self._last_views: dict[str, View] = {}
        self._left: set[tuple[str, ProcessId]] = set()
        self._ended: set[str] = set()
        for plan in plans:
            first = View(1, tuple(ProcessId(name) for name in plan.founders), tuple(plan.founders))
            self.first_views[plan.name] = first
            self._last_views[plan.name] = first

    def note_view(self, group: str, view: View) -> None:
        """Somebody is in this view, or was told of it."""
        if view.id > self._last_views.get(group, NO_VIEW).id:
            self._last_views[group] = view

    def note_left(self, group: str, process: ProcessId, left_to: View | None) -> None:
        """A process has left in good order; `left_to` is the view that it left to the others."""
        self._left.add((group, process))
        if left_to is not None:  # perhaps no member of it has lived to install it
            self.note_view(group, left_to)
            if not left_to.members:
                self._ended.add(group)

    def have_entered(self) -> bool:
        """Whether all that run are in all their groups."""
        return all(NO_VIEW not in running.views.values() for running in self._running if running is not None)

    def note_excluded(self, group: str, incarnation: Incarnation, now_ns: int) -> None:
        """Note that a running process has learned of its exclusion from this group; it is still in its others."""
        if now_ns > self._late_ns and not self._is_held_up(incarnation):
            self._wrongful.add(group)

    def _is_held_up(self, incarnation: Incarnation) -> bool:
        """Return whether a group that has lost its majority may keep this process from entering the next views of its
        other groups."""
        return self._has_epochs and any(
            view is not NO_VIEW and self.has_lost_majority(group) for group, view in incarnation.views.items()
        )

    def is_wrongful(self, group: str) -> bool:
        """Return whether a running process was excluded although the network had healed long before."""
        return group in self._wrongful

    def is_quiet(self, group: str) -> bool:
        """Whether all that run in the group are in one view, of just them, and all that was sent there is stable."""
        members = self._in_group(group)
        for member in members:
            view = member.views[group]
            if view.id != members[0].views[group].id or len(view.members) != len(members) or member.backlog:
                return False
        return all(member.engine.outstanding(group) == 0 and member.engine.held(group) == 0 for member in members)

    def has_lost_majority(self, group: str) -> bool:
        """Whether no view can follow the last one. A process that left in good order did so by agreement of a majority,
        and counts as present: it does not take the majority with it, unless it was the last that the others knew of."""
        return (self._needs_majority and group in self._ended) or not self._survives(group, None)

    def may_lose(self, incarnation: Incarnation) -> bool:
        """Whether all groups of this incarnation keep their majority without it."""
        return all(
            view is NO_VIEW or self._survives(group, incarnation) for group, view in incarnation.views.items()
        )  # fmt: skip

    def excused(self) -> list[str]:
        """The groups that cannot become quiet."""
        stuck = {group: self._members[group] for group in self.groups if not self.is_quiet(group)}
        excused = [group for group in stuck if self.has_lost_majority(group)]
        for group in excused:  # grows as it goes
            for other, members in stuck.items():
                if other not in excused and any(member in members for member in stuck[group]):
                    excused.append(other)
        return [group for group in stuck if group in excused]

    def _survives(self, group: str, without: Incarnation | None) -> bool:
        """Whether the last view of the group, and the last one that a running process is in, have a majority that runs,
        also without this incarnation."""
        if not self._needs_majority:
            return True
        newest = NO_VIEW
        for member in self._in_group(group):
            if member.views[group].id > newest.id:
                newest = member.views[group]
        return all(self._has_majority(group, view, without) for view in (self._last_views[group], newest))

    def _has_majority(self, group: str, view: View, without: Incarnation | None) -> bool:
        present: set[int] = set()
        for rank, member in enumerate(view.members):
            other = self._running[self._hosts[member.name]]
            is_there = other is not None and other is not without and other.process == member and group in other.views
            if is_there or (group, member) in self._left:
                present.add(rank)
        return PRIMARY_POLICY.may_go_on(present, len(view.members))

    def _in_group(self, group: str) -> list[Incarnation]:
        return [one for one in self._running if one is not None and group in one.views]
