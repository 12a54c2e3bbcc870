"""Groups whose views part and merge, for the reference auditor: what is owed per component, transitional and merged.

A group parts if a start row of it names the policy `partitionable`. Its views have transitional rows: what a process
delivers in a view before the first such row it delivers in the *regular* configuration, what it delivers behind it in
the *transitional* one. Processes whose view row with id v is followed by one with the same id v' make the same step:
they are *companions*, and so are survivors whose last view is the same. In a group that parts:

* A process is owed what was sent in the views that it has a view row of, not in those that only name it. So what was
  sent in a view that no row describes (its sender was killed before its application was told of the view) may be owed
  to those alone whose logs lack rows: logs that are missing or cut short, and processes that say that they were not
  told of their last views.
* Where a process goes from v to v', what was sent in v is *written off* to it with the row of v', but for what a
  companion in this step delivered in v, and what a companion sent. Fifo and causal count it as delivered from there on.
  At the end, what was sent in the last view of a process is written off but for what a survivor with the same last view
  delivered there or sent. Settled holds nobody to what was written off.
* total looks for cycles twice. Over all: the regular deliveries, and the safe ones in a transitional configuration of
  messages that anybody delivered as safe in the regular one. And among companions in each step: the transitional
  deliveries. So what a member delivered regularly is in one order everywhere, and safe messages too; the rest is in one
  order among those that came along. What takes no part in other groups takes no part here.
* safe holds all members of a view to what was delivered as safe in the regular configuration, as in other groups; and
  to what was delivered in a transitional one, the companions in that step.
* transitional holds those that make a step of which one has a transitional row. What any of them delivered in the
  regular configuration all must have delivered there, and what any delivered in the transitional one, there; as in
  view_synchrony, messages and processes are counted. And the row of each must have the members that most have (of
  equally many, those of the first, logs by name), and name all that make the step: one more count for each process.
* merged holds the survivors of a group that parts. The last view of each must be the one that most survivors are in (of
  equally many, the highest id), and its members must be survivors, or processes that are open or stopped early, with no
  survivor missing. Each process that is open or stopped early, and was in the group, counts as unknown.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field

from antiphon.history.schema import Row
from antiphon.history.start import StartFacts
from antiphon.pipeline.explain import MessageName, merged_text, transitional_members_text, transitional_text
from antiphon.pipeline.guarantees import MERGED, TRANSITIONAL
from antiphon.pipeline.reference_views import FindTally, MakeExample
from antiphon.pipeline.reference_world import ReferenceWorld, messages_of
from antiphon.pipeline.roots import fewer_names

Step = tuple[str, int, int]
"""A group, and the ids of a view and of the next one."""


def parted_groups(starts: Iterable[tuple[str, StartFacts]]) -> frozenset[str]:
    """The groups whose views part and merge, by their start rows."""
    return frozenset(group for group, facts in starts if facts.parts)


@dataclass
class Stay:
    """One process in one view of a group."""

    process: str
    view: Row
    following: Row | None = None
    """The next view row."""
    transit: Row | None = None
    """The first transitional row."""
    regular: dict[MessageName, Row] = field(default_factory=dict)
    """What was delivered before that, each message with its first row…"""
    late: dict[MessageName, Row] = field(default_factory=dict)
    """…and what was delivered behind it."""


class GroupSteps:
    """Who was with whom in some groups of a run: in those that part, unless others are named."""

    def __init__(self, world: ReferenceWorld, groups: Collection[str] | None = None) -> None:
        self._world = world
        chosen = sorted(world.parted if groups is None else groups)
        self.stays: dict[str, dict[str, list[Stay]]] = {group: defaultdict(list) for group in chosen}
        """group → process → its stays, in order."""
        for log in world.logs.values():
            for row in log.rows:
                if row.group in self.stays:
                    self._read(self.stays[row.group][log.process], log.process, row)
        self.steps: dict[Step, list[Stay]] = defaultdict(list)
        for group, by_process in self.stays.items():
            for own in by_process.values():
                for stay in own:
                    if stay.following is not None:
                        self.steps[group, stay.view.view or 0, stay.following.view or 0].append(stay)

    def _read(self, own: list[Stay], process: str, row: Row) -> None:
        if row.kind == "view":
            if own:
                own[-1].following = row
            own.append(Stay(process, row))
        elif row.kind == "transitional" and own and own[-1].transit is None:
            own[-1].transit = row
        elif row.kind == "deliver" and own:
            into = own[-1].regular if own[-1].transit is None else own[-1].late
            for message in messages_of(row):
                if message in self._world.bit:
                    into.setdefault(message, row)

    def write_offs(self, only: Collection[tuple[str, int]] | None = None) -> dict[str, list[tuple[int | None, int]]]:
        """By process: the row from which on, or None at the end, and the messages that it is not owed any more. With
        `only`, of what was sent in these views."""
        result: dict[str, list[tuple[int | None, int]]] = defaultdict(list)
        brought: dict[tuple[str, int, int | None], int] = {}
        for group, by_process in self.stays.items():
            sent_in: dict[int, int] = defaultdict(int)
            for message, view in self._world.left_in.items():
                if message.group == group:
                    sent_in[view] |= self._world.bit[message]
            for process, own in by_process.items():
                for stay in own:
                    view, following = stay.view.view or 0, stay.following
                    if only is not None and (group, view) not in only:
                        continue
                    to = None if following is None else following.view
                    if (group, view, to) not in brought:
                        companions = self._companions(group, view, to)
                        brought[group, view, to] = self._brought(group, companions)
                    index = None if following is None else following.index
                    result[process].append((index, sent_in[view] & ~brought[group, view, to]))
        return result

    def _companions(self, group: str, view: int, to: int | None) -> list[Stay]:
        return self._last_companions(group, view) if to is None else self.steps[group, view, to]

    def _last_companions(self, group: str, view: int) -> list[Stay]:
        """Of the survivors whose last view is this one, their stays there."""
        ends = [(process, own[-1]) for process, own in self.stays[group].items() if own]
        return [stay for process, stay in ends if stay.view.view == view and self._survives(process, group)]

    def _survives(self, process: str, group: str) -> bool:
        return self._world.logs[process].is_survivor(group)

    def _brought(self, group: str, companions: Sequence[Stay]) -> int:
        """What these delivered in the view, and what they have ever sent."""
        result = 0
        for stay in companions:
            for message in (*stay.regular, *stay.late):
                result |= self._world.bit[message]
            sent = self._world.sent.get((group, stay.process), 0)
            for number in range(1, sent + 1):
                result |= self._world.bit[MessageName(group, stay.process, number)]
        return result


class ComponentJudge:
    """Holds the groups of a run that part to transitional and merged. `tally` says where to count, if at all."""

    def __init__(self, world: ReferenceWorld, components: GroupSteps, tally: FindTally, example: MakeExample) -> None:
        self._world = world
        self._components = components
        self._tally = tally
        self._example = example
        self._lacking: dict[str, tuple[set[object], set[str]]] = defaultdict(lambda: (set(), set()))
        """group → messages and steps that break transitional, and the processes that differ."""

    def judge(self) -> None:
        for step, stays in sorted(self._components.steps.items(), key=lambda item: item[0]):
            if any(stay.transit is not None for stay in stays):
                self._judge_transitional(step, stays)
        for group, names in self._lacking.items():
            if (tally := self._tally(TRANSITIONAL, group)) is not None:
                tally.roots += fewer_names(*names)
        for group in self._components.stays:
            self._judge_merged(group)

    def _judge_transitional(self, step: Step, stays: list[Stay]) -> None:
        if (tally := self._tally(TRANSITIONAL, step[0])) is None:
            return
        group, view, following = step
        processes = {stay.process for stay in stays}
        told = [tuple(stay.transit.members or ()) if stay.transit is not None else () for stay in stays]
        standard = max(Counter(told).items(), key=lambda item: item[1])[0]
        for stay, members in zip(stays, told, strict=True):
            tally.checked += 1
            if members != standard or not processes <= set(members):
                tally.violations += 1
                self._note(group, (view, following), stay.process)
                if tally.example is None:
                    text = transitional_members_text(stay.process, group, view, following, members)
                    tally.example = self._example(text, group, [stay.transit, stay.following])
        if len(processes) < 2:
            return
        for part in ("regular", "late"):
            by_process: dict[str, dict[MessageName, Row]] = defaultdict(dict)
            for stay in stays:
                for message, row in getattr(stay, part).items():
                    by_process[stay.process].setdefault(message, row)
            together = sorted({message for own in by_process.values() for message in own})
            for process in dict.fromkeys(stay.process for stay in stays):
                for message in together:
                    if not self._world.is_meant_for(message, process):
                        continue
                    tally.checked += 1
                    if message in by_process[process]:
                        continue
                    if message in self._world.unsaid:
                        tally.unknown += 1
                        continue
                    tally.violations += 1
                    self._note(group, message, process)
                    if tally.example is None:
                        other = next(name for name, own in by_process.items() if message in own)
                        text = transitional_text(process, message, other, view, part == "late")
                        tally.example = self._example(text, group, [by_process[other][message]])

    def _note(self, group: str, name: object, process: str) -> None:
        self._lacking[group][0].add(name)
        self._lacking[group][1].add(process)

    def _judge_merged(self, group: str) -> None:
        if (tally := self._tally(MERGED, group)) is None:
            return
        logs = self._world.logs
        inside = {process: own[-1] for process, own in self._components.stays[group].items() if own}
        survivors = {process: stay for process, stay in inside.items() if logs[process].is_survivor(group)}
        early = {process for process, log in logs.items() if log.is_early(group)}
        tally.unknown += len(early & inside.keys())
        tally.checked += len(survivors)
        if not survivors:
            return
        most = Counter(stay.view.view or 0 for stay in survivors.values())
        standard = max(most, key=lambda view: (most[view], view))
        apart = []
        for process, stay in survivors.items():
            members = set(stay.view.members or ())
            fits = survivors.keys() <= members <= survivors.keys() | early
            if stay.view.view != standard or not fits:
                apart.append(process)
                tally.violations += 1
                if tally.example is None:
                    text = merged_text(process, group, stay.view.view or 0, members, sorted(survivors))
                    tally.example = self._example(text, group, [stay.view, logs[process].rows[-1]])
        tally.roots += fewer_names(apart, {survivors[process].view.view for process in apart})
