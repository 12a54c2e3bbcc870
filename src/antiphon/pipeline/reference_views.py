"""The guarantees about views, for the reference auditor; its rules are at the top of `antiphon.pipeline.reference`."""

from collections import defaultdict
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field

from antiphon.history.schema import LEAVES, LEFT, RECOVERS, Row
from antiphon.pipeline.explain import (
    MessageName,
    broken_chain_text,
    fork_text,
    members_differ_text,
    no_majority_text,
    not_in_view_text,
    silence_text,
    view_falls_text,
    view_sending_text,
    view_synchrony_text,
)
from antiphon.pipeline.guarantees import PRIMARY, SILENCE, VIEW_AGREEMENT, VIEW_SENDING, VIEW_SYNCHRONY
from antiphon.pipeline.reference_world import MISSING, KnownLog, ReferenceWorld, messages_of
from antiphon.pipeline.result import Example
from antiphon.pipeline.roots import fewer_names, series
from antiphon.pipeline.verdicts import Tally

FindTally = Callable[[str, str], Tally | None]
MakeExample = Callable[[str, str, Sequence[Row | None]], Example]


@dataclass
class _Step:
    """Who went from one view to the same next one, and what they delivered in the first, each with its row."""

    delivered: dict[str, dict[MessageName, Row]] = field(default_factory=lambda: defaultdict(dict))
    arrival: dict[str, Row] = field(default_factory=dict)
    """The first view row of the next view."""


class ViewJudge:
    """Holds one run to what it promised about views. `tally` says where to count, if at all."""

    def __init__(self, world: ReferenceWorld, tally: FindTally, example: MakeExample) -> None:
        self._world = world
        self._tally = tally
        self._example = example
        self._views: dict[str, dict[int, dict[tuple[str, ...], Row]]] = defaultdict(lambda: defaultdict(dict))
        """group → id → members → the first row that says so."""
        self._steps: dict[tuple[str, int, int], _Step] = defaultdict(_Step)
        self._left: dict[str | None, set[str]] = defaultdict(set)
        """group → who left it, or announced so; None is every group."""
        self._standards = self._find_standards()
        self._lacking: dict[str, tuple[set[MessageName], set[str]]] = defaultdict(lambda: (set(), set()))
        """group → messages that break view_synchrony, and the processes that lack them."""
        self._differing: dict[str, tuple[set[int], set[str]]] = defaultdict(lambda: (set(), set()))
        """group → views that break view_agreement, and the processes that differ."""

    def overrides(self) -> list[tuple[str, str, int | None]]:
        """Group, process and next view where a process was told to go on without a majority, if it was held to one."""
        found: dict[tuple[str, str, int | None], None] = {}
        for log in self._world.logs.values():
            for row in log.rows:
                if (row.kind, row.label) == ("note", RECOVERS) and self._tally(PRIMARY, row.group or "") is not None:
                    views = [each for each in log.rows if (each.kind, each.group) == ("view", row.group)]
                    following = next((each.view for each in views if each.index > row.index), None)
                    found[row.group or "", log.process, following] = None
        return sorted(found, key=lambda each: (each[0], each[1], each[2] or 0))

    def judge(self) -> None:
        for log in self._world.logs.values():
            self._walk(log)
        for (group, view, following), step in sorted(self._steps.items()):
            self._judge_synchrony(group, view, following, step)
        for group, views in sorted(self._views.items()):
            self._judge_primary(group, views)
        for guarantee, sides in ((VIEW_SYNCHRONY, self._lacking), (VIEW_AGREEMENT, self._differing)):
            for group, names in sides.items():
                if (tally := self._tally(guarantee, group)) is not None:
                    tally.roots += fewer_names(*names)

    def _find_standards(self) -> dict[tuple[str, int], Row]:
        """(group, view id) → the first of the rows with the members that most rows have."""
        rows: dict[tuple[str, int], dict[tuple[str, ...], list[Row]]] = defaultdict(lambda: defaultdict(list))
        for log in self._world.logs.values():
            for row in log.rows:
                if row.kind == "view":
                    rows[row.group or "", _id(row)][tuple(row.members or ())].append(row)
        return {view: max(by_members.values(), key=len)[0] for view, by_members in rows.items()}

    def _walk(self, log: KnownLog) -> None:
        current: dict[str, Row] = {}
        former: dict[str, set[str]] = defaultdict(set)
        here: dict[str, dict[MessageName, Row]] = defaultdict(dict)
        for row in log.rows:
            group = row.group or ""
            if row.kind == "view":
                self._judge_agreement(log, row, current.get(group))
                if group in current:
                    step = self._steps[group, _id(current[group]), _id(row)]
                    step.arrival.setdefault(log.process, row)
                    for message, delivery in here[group].items():
                        step.delivered[log.process].setdefault(message, delivery)
                current[group], here[group] = row, {}
                former[group] |= set(row.members or ())
            elif row.kind == "deliver":
                for message in messages_of(row):
                    if message in self._world.bit:
                        self._judge_sending(log, row, message, current.get(group))
                        self._judge_silence(log, row, message, current.get(group), former[group])
                        here[group].setdefault(message, row)
            elif row.kind == "note" and (row.label == LEAVES or (row.label == LEFT and row.group is not None)):
                self._left[row.group].add(log.process)
            elif (row.kind, row.label) == ("stop", LEFT):
                self._left[None].add(log.process)

    def _judge_agreement(self, log: KnownLog, row: Row, before: Row | None) -> None:
        group, view, members = row.group or "", _id(row), tuple(row.members or ())
        self._views[group][view].setdefault(members, row)
        if (tally := self._tally(VIEW_AGREEMENT, group)) is None:
            return
        tally.checked += 1
        standard = self._standards[group, view]
        if members != tuple(standard.members or ()):
            text = members_differ_text(log.process, group, view, members, _name(standard))
            rows = [standard, row]
        elif before is not None and view <= _id(before):
            text, rows = view_falls_text(log.process, group, view, _id(before)), [before, row]
        elif log.process not in members:
            text, rows = not_in_view_text(log.process, group, view, members), [row]
        else:
            return
        tally.violations += 1
        self._differing[group][0].add(view)
        self._differing[group][1].add(log.process)
        tally.example = tally.example or self._example(text, group, rows)

    def _judge_sending(self, log: KnownLog, row: Row, message: MessageName, current: Row | None) -> None:
        if (tally := self._tally(VIEW_SENDING, message.group)) is None:
            return
        send = self._world.send_row.get(message)
        if send is not None and send.destinations is not None:
            return
        sender = self._world.logs[message.sender]
        if sender.ending != MISSING and message.group not in sender.last_view:
            return  # never a member, so it sent in no view
        tally.checked += 1
        sent_in = self._world.left_in.get(message)
        if sent_in is None:
            tally.unknown += 1
            return
        seen = None if current is None else _id(current)
        if seen == sent_in == _id(row):
            return
        tally.violations += 1
        tally.causes.add(message)
        if tally.example is None:
            delivered_in = seen if seen != sent_in else _id(row)
            text = view_sending_text(log.process, message, sent_in, delivered_in)
            tally.example = self._example(text, message.group, [send, row])

    def _judge_silence(
        self, log: KnownLog, row: Row, message: MessageName, current: Row | None, former: set[str]
    ) -> None:
        if (tally := self._tally(SILENCE, message.group)) is None:
            return
        dropped = former.difference(current.members or ()) if current is not None else former
        tally.checked += bool(dropped)
        if current is not None and message.sender in dropped:
            tally.violations += 1
            tally.causes.add((message.group, message.sender))
            if tally.example is None:
                text = silence_text(log.process, message, _id(current))
                tally.example = self._example(text, message.group, [current, row])

    def _judge_synchrony(self, group: str, view: int, following: int, step: _Step) -> None:
        if (tally := self._tally(VIEW_SYNCHRONY, group)) is None:
            return
        if len(step.arrival) < 2:
            return
        together = sorted({message for delivered in step.delivered.values() for message in delivered})
        for process, arrival in step.arrival.items():
            for message in together:
                if not self._world.is_meant_for(message, process):
                    continue
                tally.checked += 1
                if message in step.delivered[process]:
                    continue
                if message in self._world.unsaid:
                    tally.unknown += 1
                    continue
                tally.violations += 1
                self._lacking[group][0].add(message)
                self._lacking[group][1].add(process)
                if tally.example is None:
                    other = next(name for name in step.arrival if message in step.delivered[name])
                    text = view_synchrony_text(process, message, other, view, following)
                    rows = [step.delivered[other][message], step.arrival[other], arrival]
                    tally.example = self._example(text, group, rows)

    def _judge_primary(self, group: str, views: dict[int, dict[tuple[str, ...], Row]]) -> None:
        if (tally := self._tally(PRIMARY, group)) is None:
            return
        wrong: set[int] = set()
        for view, by_members in sorted(views.items()):
            before = tally.violations
            (members, row), *forks = by_members.items()
            tally.checked += 1 + len(forks)
            tally.violations += len(forks)
            if view != min(views):
                self._judge_succession(tally, group, row, views.get(view - 1))
            if tally.violations > before:
                wrong.add(view)
            if forks and tally.example is None:
                text = fork_text(group, view, forks[0][0], members)
                tally.example = self._example(text, group, [row, forks[0][1]])
        tally.roots += series(wrong)

    def _judge_succession(self, tally: Tally, group: str, row: Row, before: dict[tuple[str, ...], Row] | None) -> None:
        if before is None:
            if any(log.lacks_views(group) for log in self._world.logs.values()):
                tally.unknown += 1
            else:
                tally.violations += 1
                tally.example = tally.example or self._example(broken_chain_text(group, _id(row)), group, [row])
            return
        electors, row_before = next(iter(before.items()))
        surely = self._left[group].union(self._left[None], row.members or ()).intersection(electors)
        perhaps = {member for member in electors if self._world.logs[member].lacks_views(group)}
        if is_majority(surely, electors):
            return
        if is_majority(surely | perhaps, electors):
            tally.unknown += 1
            return
        tally.violations += 1
        if tally.example is None:
            text = no_majority_text(group, _id(row), len(surely), len(electors))
            tally.example = self._example(text, group, [row_before, row])


def is_majority(present: Collection[str], electors: Collection[str]) -> bool:
    """More than half, or exactly half with the oldest."""
    half = 2 * len(present) == len(electors)
    return 2 * len(present) > len(electors) or (half and next(iter(electors), None) in present)


def _id(row: Row) -> int:
    assert row.view is not None
    return row.view


def _name(row: Row) -> str:
    return f"{row.process}/{row.incarnation}"
