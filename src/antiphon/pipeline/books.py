"""The books of an audit: what was found is entered guarantee by guarantee, with examples, reasons and, where that is
asked for, every violation."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

import pyarrow as pa

from antiphon.pipeline.audit import label_order, settled
from antiphon.pipeline.audit.logs import ENDLESS, LogFacts
from antiphon.pipeline.audit.missed import MissedMessages
from antiphon.pipeline.audit.overrides import overrides
from antiphon.pipeline.audit.preparation import RunFacts
from antiphon.pipeline.audit.reduce import findings, listed
from antiphon.pipeline.audit.view_intervals import ViewCounts
from antiphon.pipeline.example_builder import ExampleBuilder
from antiphon.pipeline.explain import (
    MessageName,
    early_text,
    forced_text,
    message_name,
    open_log_text,
    override_text,
    reader_apart_text,
    undescribed_text,
    untold_text,
)
from antiphon.pipeline.guarantees import (
    CAUSAL,
    CHECKED,
    CONTENT,
    CREATION,
    DUPLICATION,
    FIFO,
    LABEL_ORDER,
    LEFT_OPEN,
    OF_OWED,
    OVER_GROUPS,
    PRIMARY,
    SETTLED,
    SILENCE,
    VIEW_SENDING,
)
from antiphon.pipeline.promises import Promises
from antiphon.pipeline.result import Violation
from antiphon.pipeline.verdicts import Tally

WORDS: Final[Mapping[str, str]] = {
    CREATION: "delivered, but never sent, or not sent to this process",
    DUPLICATION: "delivered a second time",
    FIFO: "delivered before an earlier message of its sender",
    CAUSAL: "delivered before a message that may have caused it",
    CONTENT: "delivered with another level, size or digest than it was sent with",
    VIEW_SENDING: "delivered in another view than the one in which it was sent",
    SILENCE: "delivered after the view that dropped its sender",
}
"""What is wrong with a delivery, in a few words; the example of a finding tells one of them step by step."""
LACKED: Final = "not delivered by this process, which had to"


class Books:
    """Tallies by guarantee, over some runs."""

    def __init__(self, promises: Promises, listing: bool, tell_runs: bool) -> None:
        self.promises = promises
        self.tallies = {guarantee: Tally() for guarantee in CHECKED}
        self.violations: list[Violation] = []
        """Every one, if `listing`."""
        self._listing = listing
        self._tell_runs = tell_runs

    def add_deliveries(self, judged: pa.Table, builders: Mapping[str, ExampleBuilder]) -> None:
        """Enter what the second pass found, delivery by delivery."""
        for guarantee, found in findings(judged).items():
            tally = self.tallies[guarantee]
            tally.violations, tally.unknown, tally.checked = found.violations, found.unknown, found.checked
            tally.roots = found.roots
            if found.first_violation is not None:
                tally.example = builders[found.first_violation["run"]].of_delivery(guarantee, found.first_violation)
        if self._listing:
            self.violations += [_of_delivery(row, entry) for row, entry in listed(judged)]

    def add_group(self, run: str, guarantee: str, group: str, found: ViewCounts, builder: ExampleBuilder) -> None:
        """Enter what was found of whole views, or of a whole group."""
        tally = self.tallies[guarantee]
        tally.violations += found.violations
        tally.unknown += found.unknown
        tally.checked += found.checked
        tally.roots += found.roots
        if found.first_violation is not None and tally.example is None:
            tally.example = builder.of_view(group, found.first_violation)
        if self._listing and found.violations:
            self.violations += _of_group(run, guarantee, group, found)

    def add_run(self, run: RunFacts, builder: ExampleBuilder) -> None:
        """Enter what must hold in the end of a run, and what its logs leave open."""
        self._add_settled(run, builder)
        told_run = run.order.run if self._tell_runs else None
        self._add_overrides(run, told_run)
        for guarantee in OVER_GROUPS:
            if self.promises.in_run(guarantee, run.order.run):
                self.tallies[guarantee].readers_apart += _readers_apart(run, told_run)
        self._add_open_logs(run, told_run)

    def _add_settled(self, run: RunFacts, builder: ExampleBuilder) -> None:
        tally = self.tallies[SETTLED]
        for group, found in settled.count(run.order, run.logs).items():
            if self.promises.holds(SETTLED, run.order.run, group):
                tally.violations += found.violations
                tally.unknown += found.unknown
                tally.checked += found.checked
                tally.roots += found.missed.roots()
                if found.first_violation is not None and tally.example is None:
                    tally.example = builder.of_settled(*found.first_violation)
                if self._listing:
                    self.violations += _missed(run.order.run, SETTLED, group, found.missed)

    def _add_overrides(self, run: RunFacts, told_run: str | None) -> None:
        pieces = [piece for log in run.logs.values() for piece in log.pieces]
        for group in sorted({note["group"] for piece in pieces for note in piece["recovers"]}):
            if self.promises.holds(PRIMARY, run.order.run, group):
                for process, view in overrides(group, run.view_intervals.get(group, {}), run.logs):
                    self.tallies[PRIMARY].overrides.append(override_text(process, group, view, told_run))

    def _add_open_logs(self, run: RunFacts, told_run: str | None) -> None:
        for guarantee, tally in self.tallies.items():
            if not self.promises.in_run(guarantee, run.order.run):
                continue
            if guarantee == LABEL_ORDER:
                for group in sorted(run.view_intervals):
                    if self.promises.holds(LABEL_ORDER, run.order.run, group):
                        tally.open_logs += label_order.unknown_comparisons(run.order, group)
            for log in run.logs.values():
                _add_open_log(guarantee, tally, log, told_run)
            if guarantee in LEFT_OPEN:
                self._add_forced(guarantee, tally, run, told_run)
            if guarantee in OF_OWED:
                for group, sender, view in run.order.undescribed():
                    tally.open_logs.append(undescribed_text(sender, group, view, told_run))

    def _add_forced(self, guarantee: str, tally: Tally, run: RunFacts, told_run: str | None) -> None:
        for group, found in sorted(run.order.recoveries.items()):
            if self.promises.holds(guarantee, run.order.run, group):
                for (view, following), told in sorted(found.told.items()):
                    tally.open_logs.append(forced_text(sorted(told), group, view, following, told_run))


def _add_open_log(guarantee: str, tally: Tally, log: LogFacts, told_run: str | None) -> None:
    if log.open:
        tally.unknown += 1
        tally.open_logs.append(open_log_text(log.process, log.rows, told_run, log.behind, log.cause))
    elif guarantee == SETTLED and log.early:
        tally.open_logs.append(early_text(log.process, log.ending, told_run))
    elif guarantee == PRIMARY and (untold := log.untold):
        tally.open_logs.append(untold_text(log.process, untold, told_run))


def _readers_apart(run: RunFacts, told_run: str | None) -> list[str]:
    logs = sorted(run.logs.values(), key=lambda log: log.process)
    return [reader_apart_text(log.process, log.apart, told_run) for log in logs if log.apart != ENDLESS]


def _of_delivery(row: Mapping[str, Any], entry: Mapping[str, Any]) -> Violation:
    """A deliver row, as `judge` lists it."""
    lacked = entry["lacked"]
    message = MessageName(row["group"], entry["sender"], entry["number"])
    cause = message if lacked is None else MessageName(lacked["group"], lacked["sender"], lacked["number"])
    before = "" if lacked is None else f": {message_name(cause, True)}"
    return Violation(
        run=row["run"],
        guarantee=row["guarantee"],
        group=row["group"],
        process=row["process"],
        index=entry["index"],
        sender=entry["sender"],
        number=entry["number"],
        count=entry["count"],
        reason=WORDS[row["guarantee"]] + before,
        root_cause=entry["sender"] if row["guarantee"] == SILENCE else message_name(cause, True),
    )


def _of_group(run: str, guarantee: str, group: str, found: ViewCounts) -> Iterator[Violation]:
    """Message by message where it is known who lacks what, else all of a group together, told by the first."""
    if found.missed is not None:
        yield from _missed(run, guarantee, group, found.missed)
    rest = found.violations - (0 if found.missed is None else found.missed.size())
    if rest:
        shown = found.first_violation
        process, index = shown.events[-1] if shown is not None and shown.events else (None, None)
        reason = "" if shown is None else shown.text
        yield Violation(
            run=run, guarantee=guarantee, group=group, process=process, index=index, count=rest, reason=reason
        )


def _missed(run: str, guarantee: str, group: str, missed: MissedMessages) -> Iterator[Violation]:
    for process, sender, spans in missed.lacks:
        for start, end in zip(spans.starts.tolist(), spans.ends.tolist(), strict=True):
            message = MessageName(group, sender, start)
            yield Violation(
                run=run,
                guarantee=guarantee,
                group=group,
                process=process,
                sender=sender,
                number=start,
                count=end - start,
                reason=LACKED,
                root_cause=message_name(message, True),
            )
