"""The guarantees about one order for all, for the reference auditor: total, safe and group_broadcast.

Its rules are at the top of `antiphon.pipeline.reference`.
"""

from collections import defaultdict
from collections.abc import Mapping
from typing import NamedTuple

from antiphon.history.schema import BARRIER, Row
from antiphon.kernel.labels import SEPARATOR
from antiphon.pipeline.cycle import APART, cycle_through, inversions, process_of, strongly_connected_sets
from antiphon.pipeline.explain import MessageName, group_broadcast_text, pairwise_text, safe_text, total_text
from antiphon.pipeline.guarantees import GROUP_BROADCAST, SAFE, TOTAL, TOTAL_GLOBAL, TOTAL_PAIRWISE
from antiphon.pipeline.reference_calls import LAST
from antiphon.pipeline.reference_components import GroupSteps, Step
from antiphon.pipeline.reference_recoveries import Recoveries
from antiphon.pipeline.reference_views import FindTally, MakeExample
from antiphon.pipeline.reference_world import KnownLog, ReferenceWorld, messages_of
from antiphon.pipeline.roots import fewer_names
from antiphon.pipeline.verdicts import Tally

IN_ORDER = ("agreed", "safe", "causal-total", "abcast")
Firsts = dict[MessageName, Row]
"""Messages in the order in which a process first delivered them, each with its row."""
Forced = dict[tuple[str, MessageName], Step]
"""By process and message: the step on an operator's word before which it was delivered."""


def order_label(send: Row) -> str:
    """The label that orders the messages of a send row; empty if none does."""
    label = send.label or ""
    return label if send.level == "abcast" or (send.level == "reliable" and SEPARATOR in label) else ""


class _Delivery(NamedTuple):
    """One single message that a process delivered in a view."""

    process: str
    message: MessageName
    row: Row
    view: int
    is_late: bool = False
    """In a transitional configuration."""
    following: int | None = None
    """The next view of the process, in groups that part."""
    forced: Step | None = None
    """The step that the process made from the view on an operator's word."""


class _BarrierSets(NamedTuple):
    """A barrier at one process: what it had delivered of the group before it, and what it delivered after it."""

    before: set[MessageName]
    after: set[MessageName]


class OrderJudge:
    """Holds one run to what it promised about order among all members. `tally` says where to count, if at all."""

    def __init__(
        self,
        world: ReferenceWorld,
        components: GroupSteps,
        recoveries: Recoveries,
        delivered: Mapping[str, Firsts],
        tally: FindTally,
        example: MakeExample,
    ) -> None:
        self._world = world
        self._components = components
        self._recoveries = recoveries
        self._delivered = delivered
        self._tally = tally
        self._example = example

    def judge(self) -> None:
        deliveries = self._deliveries()
        for group in sorted({group for log in self._world.logs.values() for group in log.last_view}):
            self._judge_total(group, [each for each in deliveries[group] if each.row.level != "abcast"])
            self._judge_queues(group, [each for each in deliveries[group] if each.row.level == "abcast"])
            self._judge_safe(group, [each for each in deliveries[group] if each.row.level == "safe"])
            self._judge_broadcast(group)
        for guarantee in (TOTAL_GLOBAL, TOTAL_PAIRWISE):
            self._judge_over_groups(guarantee)

    def _deliveries(self) -> dict[str, list[_Delivery]]:
        """What was delivered as agreed, safe and the like in views, by group."""
        result: dict[str, list[_Delivery]] = defaultdict(list)
        for log in self._world.logs.values():
            views: dict[str, int] = {}
            late: set[str] = set()
            following = self._next_views(log)
            for row in log.rows:
                group = row.group or ""
                if row.kind == "view":
                    views[group] = row.view or 0
                    late.discard(group)
                elif row.kind == "transitional" and group in self._world.parted and group in views:
                    late.add(group)
                elif row.kind == "deliver" and row.level in IN_ORDER and group in views:
                    messages = [message for message in messages_of(row) if message in self._world.bit]
                    to = next((view for index, view in following.get(group, ()) if index > row.index), None)
                    is_common = row.level == "safe"
                    forced = None if is_common else self._recoveries.forced_step(group, views[group], log.process)
                    result[group] += [
                        _Delivery(log.process, message, row, views[group], group in late, to, forced)
                        for message in messages
                    ]
        return result

    def _next_views(self, log: KnownLog) -> dict[str, list[tuple[int, int]]]:
        """Of groups that part: index and id of each view row."""
        result: dict[str, list[tuple[int, int]]] = defaultdict(list)
        for row in log.rows:
            if row.kind == "view" and row.group in self._world.parted:
                result[row.group or ""].append((row.index, row.view or 0))
        return result

    def _judge_total(self, group: str, deliveries: list[_Delivery]) -> None:
        if (tally := self._tally(TOTAL, group)) is None:
            return
        sequences: dict[str, Firsts] = defaultdict(dict)
        in_components: dict[tuple[int, int], dict[str, Firsts]] = defaultdict(lambda: defaultdict(dict))
        doubtful: set[tuple[str, MessageName]] = set()
        safe = {(each.message, each.view) for each in deliveries if each.row.level == "safe" and not each.is_late}
        forced: Forced = {}
        for process, message, row, view, is_late, following, step in deliveries:
            log = self._world.logs[process]
            if row.level != "safe" and not log.completes(group, row.index):
                if log.is_early(group):
                    doubtful.add((process, message))
            elif not is_late or (row.level == "safe" and (message, view) in safe):
                if step is not None and message not in sequences[process]:
                    forced[process, message] = step
                sequences[process].setdefault(message, row)
            if is_late and following is not None:
                in_components[view, following][process].setdefault(message, row)
        tally.unknown += len(doubtful)
        self._judge_sequences(tally, group, sequences, forced)
        for _, own in sorted(in_components.items(), key=lambda item: item[0]):
            self._judge_sequences(tally, group, own, {})

    def _judge_queues(self, group: str, deliveries: list[_Delivery]) -> None:
        """The same for the messages of each label, of those at level abcast."""
        if (tally := self._tally(TOTAL, group)) is None:
            return
        by_label: dict[str, dict[str, Firsts]] = defaultdict(lambda: defaultdict(dict))
        forced: Forced = {}
        doubtful: set[tuple[str, MessageName]] = set()
        for each in deliveries:
            log, send = self._world.logs[each.process], self._world.send_row.get(each.message)
            if not log.completes(group, each.row.index):
                if log.is_early(group):
                    doubtful.add((each.process, each.message))
            elif send is None:
                doubtful.add((each.process, each.message))
            else:
                own = by_label[order_label(send)][each.process]
                if each.forced is not None and each.message not in own:
                    forced[each.process, each.message] = each.forced
                own.setdefault(each.message, each.row)
        tally.unknown += len(doubtful)
        for _, sequences in sorted(by_label.items()):
            self._judge_sequences(tally, group, sequences, forced)

    def _judge_sequences(
        self, tally: Tally, group: str, sequences: Mapping[str, Firsts], forced: Mapping[tuple[str, MessageName], Step]
    ) -> None:
        """Count what of some deliveries, by process, is in no order. What is `forced` is another message to all but the
        companions; what is in no order only if it is not, is unknown."""
        tally.checked += len({message for own in sequences.values() for message in own})
        strong_sets = strongly_connected_sets(sequences.values())
        if strong_sets and forced:
            nodes = [
                [(message, forced.get((process, message), ("", 0, 0))) for message in own]
                for process, own in sequences.items()
            ]
            sure = [{message for message, _ in one} for one in strongly_connected_sets(nodes)]
            tally.unknown += max(0, len(strong_sets) - len(sure))
            strong_sets = sure
        tally.violations += len(strong_sets)
        tally.roots += len(strong_sets)
        if strong_sets and tally.example is None:
            strong_set = min(strong_sets, key=min)
            cycle = cycle_through(
                min(strong_set),
                {process: [message for message in own if message in strong_set] for process, own in sequences.items()},
            )
            rows = [sequences[step.process][message] for step in cycle for message in (step.before, step.after)]
            tally.example = self._example(total_text(cycle), group, rows)

    def _judge_over_groups(self, guarantee: str) -> None:
        """The same for all groups together that are held to it, of agreed and safe messages."""
        tally: Tally | None = None
        sequences: dict[str, Firsts] = defaultdict(dict)
        doubtful: set[tuple[str, MessageName]] = set()
        for log in self._world.logs.values():
            views: set[str] = set()
            for row in log.rows:
                group = row.group or ""
                if row.kind == "view":
                    views.add(group)
                    tally = self._tally(guarantee, group) or tally
                if row.kind != "deliver" or row.level not in ("agreed", "safe") or group not in views:
                    continue
                if self._tally(guarantee, group) is None:
                    continue
                for message in messages_of(row):
                    if message not in self._world.bit:
                        continue
                    if row.level == "safe" or log.completes(group, row.index):
                        if row.index < log.apart:
                            sequences[log.process].setdefault(message, row)
                        if log.apart != LAST:
                            sequences[f"{log.process}{APART}{group}"].setdefault(message, row)
                    elif log.is_early(group):
                        doubtful.add((log.process, message))
        if tally is None:
            return
        tally.checked += len({message for own in sequences.values() for message in own})
        tally.unknown += len(doubtful)
        strong_sets = strongly_connected_sets(sequences.values())
        if guarantee == TOTAL_PAIRWISE:
            self._count_pairs(tally, sequences, strong_sets)
            return
        tally.violations += len(strong_sets)
        tally.roots += len(strong_sets)
        if strong_sets and tally.example is None:
            strong_set = min(strong_sets, key=min)
            told = {process: [one for one in own if one in strong_set] for process, own in sequences.items()}
            cycle = cycle_through(min(strong_set), told)
            rows = [sequences[step.process][message] for step in cycle for message in (step.before, step.after)]
            named = [step._replace(process=process_of(step.process)) for step in cycle]
            tally.example = self._example(total_text(named), min(strong_set).group, rows)

    def _count_pairs(self, tally: Tally, sequences: Mapping[str, Firsts], strong_sets: list[set[MessageName]]) -> None:
        pairs = inversions(sequences, strong_sets)
        tally.violations += len(pairs)
        tally.roots += len({pair.strong_set for pair in pairs})
        if pairs and tally.example is None:
            first, second, one, other, _ = min(pairs)
            rows = [sequences[one][first], sequences[one][second], sequences[other][second], sequences[other][first]]
            text = pairwise_text(process_of(one), process_of(other), first, second)
            tally.example = self._example(text, first.group, rows)

    def _judge_safe(self, group: str, deliveries: list[_Delivery]) -> None:
        if (tally := self._tally(SAFE, group)) is None:
            return
        wanted: dict[str, dict[MessageName, _Delivery]] = defaultdict(dict)
        demanded: dict[str, dict[MessageName, _Delivery]] = defaultdict(dict)
        """Of these, what no operator's word leaves open."""
        for each in deliveries:
            held = self._world.members[group, each.view]
            if each.is_late:
                step = (group, each.view, each.following) if each.following is not None else None
                held = {stay.process for stay in self._components.steps.get(step, ())} if step is not None else set()
            for member in held:
                if self._world.is_meant_for(each.message, member):
                    wanted[member].setdefault(each.message, each)
                    if self._recoveries.is_demanded(group, each.view, each.row, member):
                        demanded[member].setdefault(each.message, each)
        lacking: tuple[set[MessageName], set[str]] = (set(), set())
        """Messages, and the processes that lack them."""
        for process, log in self._world.logs.items():
            if log.is_gone(group) or not self._world.is_held(process, group):
                continue
            for message in sorted(wanted[process]):
                tally.checked += 1
                if message in self._delivered[process]:
                    continue
                surely = demanded[process].get(message)
                if surely is None or log.is_early(group) or message in self._world.unsaid:
                    tally.unknown += 1
                    continue
                tally.violations += 1
                lacking[0].add(message)
                lacking[1].add(process)
                if tally.example is None:
                    text = safe_text(process, message, surely.process, surely.view)
                    tally.example = self._example(text, group, [surely.row, log.rows[-1]])
        tally.roots += fewer_names(*lacking)

    def _judge_broadcast(self, group: str) -> None:
        if (tally := self._tally(GROUP_BROADCAST, group)) is None:
            return
        barriers: dict[MessageName, dict[str, _BarrierSets]] = defaultdict(dict)
        for process in self._world.logs:
            for barrier, marked in self._marked(process, group).items():
                barriers[barrier][process] = marked
        astray: tuple[set[MessageName], set[MessageName]] = (set(), set())
        """Barriers, and the messages on different sides of them."""
        for barrier, by_process in sorted(barriers.items()):
            before = {message for marked in by_process.values() for message in marked.before}
            after = {message for marked in by_process.values() for message in marked.after}
            tally.checked += len(before | after)
            tally.violations += len(before & after)
            if before & after:
                astray[0].add(barrier)
                astray[1].update(before & after)
            if before & after and tally.example is None:
                message = min(before & after)
                one = next(process for process, marked in by_process.items() if message in marked.before)
                other = next(process for process, marked in by_process.items() if message in marked.after)
                rows = [self._delivered[process][each] for process in (one, other) for each in (message, barrier)]
                text = group_broadcast_text(message, barrier, one, other)
                tally.example = self._example(text, group, [*rows[:2], *rows[:1:-1]])
        tally.roots += fewer_names(*astray)

    def _marked(self, process: str, group: str) -> dict[MessageName, _BarrierSets]:
        """Each barrier that a process delivered, by its first row that says so."""
        places: dict[MessageName, int] = {}
        barriers: dict[MessageName, int] = {}
        for place, (row, message) in enumerate(self._world.logs[process].events):
            if row.kind == "deliver" and message.group == group and message in self._world.bit:
                places.setdefault(message, place)
                if row.label == BARRIER:
                    barriers.setdefault(message, place)
        result = {}
        for barrier, at in barriers.items():
            before = {message for message, place in places.items() if place < at} - {barrier}
            result[barrier] = _BarrierSets(before, places.keys() - before - {barrier})
        return result
