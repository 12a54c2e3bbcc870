"""label_order, for the reference auditor: labelled messages respect `precedes` (isis-1987, 3.3).

A message is labelled if it was sent at level reliable with a label `comparison=value`. Among the labelled messages of a
group, B precedes B' if the label of B is less than that of B', and the sender of B' had sent B, or delivered it in a
view of the group, before the row of its call for B'; or by a chain of such steps. A process that delivers a labelled
message at level reliable, in a view of the group, must have delivered before, likewise, all that precede it and that it
is owed. If nothing that it is owed is missing, but something that it may have been owed, the delivery is unknown. So is
one whose comparison the auditor does not know (`antiphon.register_comparison`). Of each message a process's first
delivery counts; messages off record take no part.
"""

from collections.abc import Iterator

from antiphon.history.schema import Row
from antiphon.kernel.labels import SEPARATOR, is_known, precedes
from antiphon.pipeline.explain import MessageName, comparison_text, label_text
from antiphon.pipeline.guarantees import LABEL_ORDER
from antiphon.pipeline.reference_order import order_label
from antiphon.pipeline.reference_views import FindTally, MakeExample
from antiphon.pipeline.reference_world import KnownLog, ReferenceWorld, messages_of
from antiphon.pipeline.verdicts import Tally


class LabelJudge:
    """Holds one run to the order of its labels."""

    def __init__(self, world: ReferenceWorld, tally: FindTally, example: MakeExample) -> None:
        self._world = world
        self._tally = tally
        self._example = example
        self._labels = {
            message: order_label(row)
            for message, row in world.send_row.items()
            if row.level == "reliable" and order_label(row)
        }

    def judge(self) -> None:
        for group in sorted({group for log in self._world.logs.values() for group in log.last_view}):
            tally = self._tally(LABEL_ORDER, group)
            if tally is not None:
                preceding = self._preceding(group)
                for log in self._world.logs.values():
                    self._judge_log(tally, group, log, preceding)
                tally.open_logs += self._unknown_comparisons(group)

    def _events(self, group: str, log: KnownLog) -> Iterator[tuple[Row, MessageName]]:
        """The labelled messages of a group that a process called for, or delivered in a view of it, in order."""
        in_view = False
        for row in log.rows:
            if row.group != group:
                continue
            in_view |= row.kind == "view"
            if row.kind == "send" or (row.kind == "deliver" and row.level == "reliable" and in_view):
                for message in messages_of(row):
                    if message in self._labels:
                        yield row, message

    def _preceding(self, group: str) -> dict[MessageName, int]:
        """By message, all that precede it."""
        world = self._world
        direct: dict[MessageName, list[MessageName]] = {}
        for log in world.logs.values():
            known: dict[MessageName, bytes] = {}
            for row, message in self._events(group, log):
                label = self._labels[message].encode()
                if row.kind == "send":
                    direct[message] = [before for before, other in known.items() if precedes(other, label)]
                known.setdefault(message, label)
        preceding = {message: sum(world.bit[before] for before in own) for message, own in direct.items()}
        changed = True
        while changed:
            changed = False
            for message, own in direct.items():
                closed = preceding[message]
                for before in own:
                    closed |= preceding.get(before, 0)
                changed |= closed != preceding[message]
                preceding[message] = closed
        return preceding

    def _judge_log(self, tally: Tally, group: str, log: KnownLog, preceding: dict[MessageName, int]) -> None:
        world = self._world
        done = 0
        for row, message in self._events(group, log):
            if row.kind != "deliver" or done & world.bit[message]:
                continue
            tally.checked += 1
            lacking = preceding.get(message, 0) & ~done
            missing = lacking & world.owed_at(log, row.index)
            done |= world.bit[message]
            if missing:
                wanted = world.first_message(missing)
                tally.violations += 1
                tally.causes.add(wanted)
                if tally.example is None:
                    later = [
                        each for each, other in self._events(group, log) if other == wanted and each.kind != "send"
                    ]
                    text = label_text(
                        log.process, message, wanted, bool(later), self._labels[wanted], self._labels[message]
                    )
                    tally.example = self._example(text, group, [row, *later[:1], world.send_row[wanted]])
            elif not is_known(self._labels[message]) or lacking & world.perhaps_owed_at(log, row.index):
                tally.unknown += 1

    def _unknown_comparisons(self, group: str) -> list[str]:
        """What to say of comparisons that are not known here."""
        labels = {label for message, label in self._labels.items() if message.group == group and not is_known(label)}
        return [comparison_text(name) for name in sorted({label.partition(SEPARATOR)[0] for label in labels})]
