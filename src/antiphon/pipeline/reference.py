"""The plain-Python auditor, written straight from the definitions: the slow twin that the Spark auditor must equal.

It works on single messages and on one run at a time; `antiphon.pipeline.reference_world` says who is owed what and what
lies in a message's past. The rules of both auditors, where the definitions leave a choice:

* A log is what it holds from index 0 up to its first gap. It is *complete* if it has no gap, ends with `stop` or
  `crash`, and no unfinished file or damaged row group belongs to it. Otherwise it is *cut short*. It is *missing* if
  nothing of it is on record: the process is only named as a member, as a sender, or by an unfinished file. Cut short
  and missing logs are *open*.
* A message is *on record* if its sender's log holds its send. A number beyond that in an open log is *off record*: it
  is taken to have been sent after everything that the log holds. A number beyond a complete log was never sent:
  creation is broken, and the other guarantees take no notice of it, except that it must not be delivered twice.
* A process is owed the messages on record that were sent to a group in a view of which it is a member (by the view rows
  of the run), if it has a view row for that group; where a send names destinations, only these are owed it, and a
  delivery to anybody else breaks creation.
* Where a message left in a view that no view row of the run describes, nobody knows who was owed it. Of those who were
  in the group and are not left out by its destinations, fifo, causal and settled count as unknown what they would
  violate if it was owed to them.
* A process has *left* a group where its log notes "left" for it and no view row of that group follows. From there on it
  is owed nothing in that group; settled and safe do not hold it there.
* A process *completed* a view that it was in if its log has a later view row of the group, notes that it left the group
  for good, or ends with stop "quiet" or "left".
* A process sends in the order of its calls: by the index of send rows. What waits in a group that stands still is
  overtaken by calls below causal, and by no others (`antiphon.pipeline.reference_calls`).
* fifo holds deliveries at level fifo and above to all that the sender sent to the group before, at any level. If
  nothing owed is missing, but a message off record that precedes it is, the delivery is unknown.
* causal holds deliveries at level causal and above to everything in their past, at any level and in any group of the
  same causality domain. Start rows tell the domains (`antiphon.pipeline.domains`); chains lead through one domain. If
  nothing owed is missing, but the past or the message itself is partly off record, the delivery is unknown. A message
  that is in its own past (a cycle) is violated by every delivery of it.
* A process that notes READS_APART reads each group by itself: from there on causal, total_global and total_pairwise
  hold it to the messages of the same group only.
* A message on record is *lost* if its sender crashed in the view in which it sent it, and nobody who completed that
  view delivered it. What is delivered below causal does not wait for its past, and so may come from a past that nobody
  has any more. So of what is lost, causal demands only what lies in the *strong* past: with a message that it delivers
  below causal, a process gets to know that message, but not what came before it.
* total takes the deliveries at level agreed or safe in a view of the process, of each message the process's first.
  Those at level agreed in a view that the process did not complete take no part (they need not be what the others
  agree on in the flush: isis-1991, footnote 4); if its log is open or stopped early, each counts as unknown. Counted
  are the sets of messages, more than one, of which each is delivered before each other, somewhere or by a chain of
  such steps.
* Messages at level abcast are in one order for each label, by their send rows (no label is one, too). In a view that
  the process completed, a delivery of such a message off record is unknown. Level abcast is below fifo.
* total_global does the same for all groups together that are held to it, in the order of each log, and so does
  total_pairwise; but level causal-total, which total treats like agreed, takes no part in them. total_pairwise counts
  the pairs of messages that two processes both deliver, in different orders.
* label_order: `antiphon.pipeline.reference_labels` has the rule.
* safe holds the members of a view in which anybody delivered a message at level safe, if they have a view row for the
  group: each must have delivered it, anywhere. Those that crashed or left are not held; of those that are open or
  stopped early, it is unknown.
* group_broadcast: a process delivers a barrier with the first row for it that is labelled so. All that any process
  delivered in the group that also delivered the barrier makes a pair with it. Pairs are violated where one process
  has the message, by its first delivery, before the barrier and another one after it.
* settled holds the survivors of a group: those whose complete log ends with stop "quiet", and who have not left it. A
  survivor is owed a message if its sender is a survivor, or if any survivor delivered it. If neither, and the sender or
  any of those it was sent to is open or stopped early, it is unknown. What a process that is open or stopped early has
  not delivered is unknown, and so is what one survivor delivered off record and another member has not.
* A process is in the view of its last view row of the group. View ids are compared, never times.
* view_agreement holds each view row to the members, in their ranking, that most rows with its id have (among equally
  many, those of the first row, logs by name), to an id above that of the row before it in the log, and to name its own
  process.
* A message left in the view that its send row names, or else in that of its depart row. If there is neither, it is not
  known to have left, and owed to nobody.
* content holds each delivery of a message on record: the level must be that of the send, and so must the digest where
  both rows have one. If all are right, and a deliver row begins and ends where send rows do, the sizes must add up to
  the same; else all its messages are violated. Off record it is unknown.
* view_sending holds each delivery of a message that left: the view that the process is in, and the view that the row
  names, must be the one in which it left. If that is not known it is unknown. What was sent to named destinations is
  not held to it: a message from one to one is sent again in the next view if need be, as no flush cares for it.
  Neither is what a process sent whose log has no view of the group: it is in no view, and may send again in the next.
* view_synchrony compares those whose next view row after one with id v has the same id v'. What any of them delivered
  in v, all of them (two at least) must have delivered in v, unless the send row, or where it is lost a deliver row,
  names destinations that leave it out. Where a log makes the same step several times, what it delivered in them is
  taken together.
* silence holds each delivery in a view that lacks a member of an earlier view of the process: its sender must not have
  been in an earlier view of the process unless it is in the one the process is in.
* primary: a view is an id with its members. The second one with the same id is violated. Each but the one with the
  lowest id must hold more than half of the members of the (first) view with the id below, or half with the first
  ranked; those that ever noted "left" for the group, or "leaves" for it or for no group, or stopped as "left", count as
  present. A log tells of all views of a group unless it is open, or notes UNTOLD for the group. If only members whose
  logs do not could still make the majority, it is unknown. If no view has the id below, it is unknown if any log of the
  run does not, else violated. Where a process notes RECOVERS, an operator had it go on
  without a majority: the view counts like every other, and the reason names the process and its next view. What that
  leaves open of the other guarantees: `antiphon.pipeline.reference_recoveries`.
* In groups whose views part and merge some of this holds per component, and there are transitional and merged beside:
  `antiphon.pipeline.reference_components` has the rules.
* The rest of each open log counts as one unknown under every guarantee.
* Root causes are counted as `antiphon.pipeline.roots` says.
* A guarantee is broken if anything violates it, else unknown if anything is unknown, else kept if anything was checked,
  else *unchecked*: nothing of the kind happened. Where the caller named it, it is unknown in place of unchecked.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TypeAlias

import pyarrow as pa

from antiphon.history.log import MemoryLog
from antiphon.history.reader import HistoryFiles, rows_of_table
from antiphon.history.schema import LEVELS, Row
from antiphon.history.start import parse_start
from antiphon.pipeline.domains import domains_of
from antiphon.pipeline.explain import (
    MessageName,
    causal_text,
    creation_text,
    destination_text,
    duplication_text,
    early_text,
    fifo_text,
    forced_text,
    open_log_text,
    override_text,
    reader_apart_text,
    settled_text,
    undescribed_text,
    untold_text,
)
from antiphon.pipeline.guarantees import (
    CAUSAL,
    CHECKED,
    CREATION,
    DUPLICATION,
    FIFO,
    LEFT_OPEN,
    OF_OWED,
    OVER_GROUPS,
    PRIMARY,
    SETTLED,
)
from antiphon.pipeline.observe import observe
from antiphon.pipeline.promises import Promises, gather
from antiphon.pipeline.reference_calls import LAST
from antiphon.pipeline.reference_components import ComponentJudge, GroupSteps, parted_groups
from antiphon.pipeline.reference_content import ContentJudge
from antiphon.pipeline.reference_labels import LabelJudge
from antiphon.pipeline.reference_order import OrderJudge
from antiphon.pipeline.reference_past import AT_LEAST_CAUSAL, Pasts, chain, has_weak_deliveries
from antiphon.pipeline.reference_recoveries import Recoveries
from antiphon.pipeline.reference_views import ViewJudge
from antiphon.pipeline.reference_world import KnownLog, ReferenceWorld, known_log
from antiphon.pipeline.result import Audit, Example
from antiphon.pipeline.roots import fewer_names
from antiphon.pipeline.verdicts import Tally, conclude

AT_LEAST_FIFO = frozenset(LEVELS[LEVELS.index("fifo") :])

Source: TypeAlias = Path | str | pa.Table | Iterable[Row] | Iterable[MemoryLog]


def audit(source: Source, promise: Sequence[str] | None = None, *, heed_recoveries: bool = True) -> Audit:
    """Audit a history: a directory or file, a table, rows, or logs in memory. All of it is held in memory.

    Without `heed_recoveries` a run is held to everything, as if no operator had said a word.
    """
    rows, unfinished = _load(source)
    starts = [(row.run, row.group or "", parse_start(row.label)) for row in rows if row.kind == "start"]
    promises = gather(starts, promise)
    by_run: dict[str, dict[str, list[Row]]] = defaultdict(lambda: defaultdict(list))
    for row in rows:
        by_run[row.run][f"{row.process}/{row.incarnation}"].append(row)
    for run, process in unfinished:
        by_run[run].setdefault(process, [])
    tallies = {guarantee: Tally() for guarantee in CHECKED}
    observations = []
    for run, logs in sorted(by_run.items()):
        known = {name: known_log(name, own, unfinished.get((run, name))) for name, own in sorted(logs.items())}
        joins = [row for log in known.values() for row in log.rows if row.kind == "start"]
        said = [(row.group or "", parse_start(row.label)) for row in joins]
        world = ReferenceWorld(known, domains_of(said), parted_groups(said))
        recoveries = Recoveries(world, heeded=heed_recoveries)
        _Judge(run, world, recoveries, promises, tallies, several_runs=len(by_run) > 1).judge()
        observations += observe(run, world)
    return conclude(
        promises,
        tallies,
        events=sum(row.count or 1 for row in rows),
        rows=len(rows),
        runs=len(by_run),
        observations=observations,
    )


def _load(source: Source) -> tuple[list[Row], dict[tuple[str, str], str]]:
    """All rows, and the (run, process) of the logs of which something cannot be read, with what that is."""
    if isinstance(source, Path | str):
        history = HistoryFiles.open(source).checked()
        return history.read_rows(), history.unfinished()
    if isinstance(source, pa.Table):
        return rows_of_table(source), {}
    rows: list[Row] = []
    for item in source:
        if isinstance(item, MemoryLog):
            rows.extend(item.rows())
        else:
            rows.append(item)
    return rows, {}


class _Judge:
    """Holds one run to its promises and adds up what it finds."""

    def __init__(
        self,
        run: str,
        world: ReferenceWorld,
        recoveries: Recoveries,
        promises: Promises,
        tallies: dict[str, Tally],
        *,
        several_runs: bool,
    ) -> None:
        self._run = run
        self._told_run = run if several_runs else None
        self._world = world
        self._recoveries = recoveries
        self._promises = promises
        self._tallies = tallies
        self._components = GroupSteps(world)
        world.write_offs = self._components.write_offs()
        self._past = Pasts(world)
        # Where nothing below causal was delivered, or nothing is lost, the strong past decides nothing.
        self._strong = Pasts(world, strong=True) if world.lost and has_weak_deliveries(world) else self._past

    def judge(self) -> None:
        delivered = {log.process: self._judge_deliveries(log) for log in self._world.logs.values()}
        self._judge_settled(delivered)
        ContentJudge(self._world, self._tally, self._example).judge()
        views = ViewJudge(self._world, self._tally, self._example)
        views.judge()
        for group, process, view in views.overrides():
            self._tallies[PRIMARY].overrides.append(override_text(process, group, view, self._told_run))
        for guarantee in OVER_GROUPS:
            if self._promises.in_run(guarantee, self._run):
                for log in sorted(self._world.logs.values(), key=lambda log: log.process):
                    if log.apart != LAST:
                        words = reader_apart_text(log.process, log.apart, self._told_run)
                        self._tallies[guarantee].readers_apart.append(words)
        OrderJudge(self._world, self._components, self._recoveries, delivered, self._tally, self._example).judge()
        LabelJudge(self._world, self._tally, self._example).judge()
        ComponentJudge(self._world, self._components, self._tally, self._example).judge()
        self._count_open_logs()
        for tally in self._tallies.values():
            tally.end_run()

    def _tally(self, guarantee: str, group: str) -> Tally | None:
        """Where to count, or None if the group is not held to the guarantee."""
        return self._tallies[guarantee] if self._promises.holds(guarantee, self._run, group) else None

    def _judge_deliveries(self, log: KnownLog) -> dict[MessageName, Row]:
        """Creation, duplication, fifo and causal of one log; gives back the first delivery of each message."""
        done: dict[MessageName, Row] = {}
        done_bits = 0
        offs = [(index, bits) for index, bits in self._world.write_offs.get(log.process, ()) if index is not None]
        for row, message in log.events:
            if row.kind != "deliver":
                continue
            for index, bits in offs:
                done_bits |= bits if index < row.index else 0
            self._judge_creation(log, row, message)
            self._judge_duplication(log, row, message, done)
            if message in self._world.bit:
                if row.level in AT_LEAST_FIFO:
                    self._judge_fifo(log, row, message, done, done_bits)
                if row.level in AT_LEAST_CAUSAL:
                    self._judge_causal(log, row, message, done_bits)
                done_bits |= self._world.bit[message]
            done.setdefault(message, row)
        return done

    def _judge_creation(self, log: KnownLog, row: Row, message: MessageName) -> None:
        if (tally := self._tally(CREATION, message.group)) is None:
            return
        tally.checked += 1
        if message not in self._world.bit:
            tally.violations += 1
            tally.causes.add(message)
            if tally.example is None:
                sent = self._world.sent[message.group, message.sender]
                text = creation_text(log.process, message, sent)
                tally.example = self._example(text, message.group, [row])
        elif message not in self._world.send_row:
            tally.unknown += 1
        elif not self._world.is_meant_for(message, log.process):
            tally.violations += 1
            tally.causes.add(message)
            if tally.example is None:
                send = self._world.send_row[message]
                text = destination_text(log.process, message, send.destinations or ())
                tally.example = self._example(text, message.group, [send, row])

    def _judge_duplication(self, log: KnownLog, row: Row, message: MessageName, done: dict[MessageName, Row]) -> None:
        if (tally := self._tally(DUPLICATION, message.group)) is None:
            return
        tally.checked += 1
        if message in done:
            tally.violations += 1
            tally.causes.add(message)
            if tally.example is None:
                text = duplication_text(log.process, message)
                tally.example = self._example(text, message.group, [done[message], row])

    def _judge_fifo(
        self, log: KnownLog, row: Row, message: MessageName, done: dict[MessageName, Row], done_bits: int
    ) -> None:
        if (tally := self._tally(FIFO, message.group)) is None:
            return
        tally.checked += 1
        lacking = self._world.before(message) & ~done_bits
        missing = lacking & self._world.owed_at(log, row.index)
        if missing:
            tally.violations += 1
            tally.causes.add(self._world.first_message(missing))
            if tally.example is None:
                wanted = self._world.message(missing)
                later = _delivery(log, wanted)
                text = fifo_text(log.process, message, wanted, later is not None)
                tally.example = self._example(text, message.group, [self._world.send_row[wanted], row, later])
            return
        sent = self._world.sent[message.group, message.sender]
        off_record = max(message.number - 1 - sent, 0)
        key = (message.group, message.sender)
        seen = sum(1 for m in done if (m.group, m.sender) == key and sent < m.number < message.number)
        tally.unknown += seen < off_record or bool(lacking & self._world.perhaps_owed_at(log, row.index))

    def _judge_causal(self, log: KnownLog, row: Row, message: MessageName, done_bits: int) -> None:
        if (tally := self._tally(CAUSAL, message.group)) is None:
            return
        tally.checked += 1
        world = self._world
        past = self._past.of(message)
        itself = past & world.bit[message]
        expected = past & ~world.lost | self._strong.of(message) & world.lost
        lacking = expected & ~done_bits
        if row.index >= log.apart:
            lacking &= world.in_group(message.group)
        missing = itself or lacking & world.owed_at(log, row.index)
        if missing:
            tally.violations += 1
            tally.causes.add(self._world.first_message(missing))
            if tally.example is None:
                tally.example = self._causal_example(log, row, message, missing)
        elif (past | world.bit[message]) & ~world.on_record or lacking & world.perhaps_owed_at(log, row.index):
            tally.unknown += 1

    def _causal_example(self, log: KnownLog, row: Row, message: MessageName, missing: int) -> Example:
        world = self._world
        links = chain(world, message, missing)
        wanted = links[0].after
        later = _delivery(log, wanted)
        text = causal_text(log.process, message, wanted, later is not None, links)
        rows = [world.send_row.get(wanted)]
        for link in links:
            if link.after.sender != link.sent.sender:
                rows.append(_delivery(world.logs[link.sent.sender], link.after))
            rows.append(world.send_row.get(link.sent))
        return self._example(text, message.group, [*rows, row, later if wanted != message else None])

    def _judge_settled(self, delivered: dict[str, dict[MessageName, Row]]) -> None:
        world = self._world
        had_by_survivor = {
            message
            for log in world.logs.values()
            for message in delivered[log.process]
            if log.is_survivor(message.group)
        }
        lacking: dict[str, tuple[set[MessageName], set[str]]] = defaultdict(lambda: (set(), set()))
        """group → messages, and the processes that lack them."""
        for message, bit in world.bit.items():
            if (tally := self._tally(SETTLED, message.group)) is None:
                continue
            if message not in world.send_row:
                if message in had_by_survivor:
                    for log in world.logs.values():
                        if log.is_survivor(message.group) and message.group in log.last_view:
                            tally.unknown += message not in delivered[log.process]
                continue
            for log in world.logs.values():
                if world.is_perhaps_owed(log, message) and not log.is_gone(message.group):
                    tally.unknown += message not in delivered[log.process]
            owed = [log for log in world.logs.values() if world.owed[log.process] & bit]
            owed = [log for log in owed if not log.is_gone(message.group)]
            owed = [log for log in owed if not world.is_written_off(log.process, message)]
            sender = world.logs[message.sender]
            surely = sender.is_survivor(message.group) or message in had_by_survivor
            perhaps = any(log.is_early(message.group) for log in (sender, *owed))
            for log in owed:
                tally.checked += 1
                if message in delivered[log.process]:
                    continue
                is_open = perhaps if not surely else world.is_left_open(log.process, message)
                if log.is_early(message.group) or is_open:
                    tally.unknown += 1
                elif surely:
                    tally.violations += 1
                    lacking[message.group][0].add(message)
                    lacking[message.group][1].add(log.process)
                    if tally.example is None:
                        rows = [world.send_row[message], log.rows[-1]]
                        text = settled_text(log.process, message)
                        tally.example = self._example(text, message.group, rows)
        self._tallies[SETTLED].roots += sum(fewer_names(*names) for names in lacking.values())

    def _count_open_logs(self) -> None:
        for guarantee, tally in self._tallies.items():
            if not self._promises.in_run(guarantee, self._run):
                continue
            for log in self._world.logs.values():
                if log.open:
                    tally.unknown += 1
                    tally.open_logs.append(_open_text(log, self._told_run))
                elif guarantee == SETTLED and log.early:
                    tally.open_logs.append(early_text(log.process, log.ending, self._told_run))
                elif guarantee == PRIMARY and log.untold:
                    tally.open_logs.append(untold_text(log.process, log.untold, self._told_run))
            if guarantee in LEFT_OPEN:
                for (group, view, following), told in sorted(self._recoveries.forced.items()):
                    if self._promises.holds(guarantee, self._run, group):
                        tally.open_logs.append(forced_text(sorted(told), group, view, following, self._told_run))
            if guarantee in OF_OWED:
                for group, sender, view in sorted(self._world.undescribed):
                    tally.open_logs.append(undescribed_text(sender, group, view, self._told_run))

    def _example(self, text: str, group: str, rows: Sequence[Row | None]) -> Example:
        events = tuple((f"{row.process}/{row.incarnation}", row.index) for row in rows if row is not None)
        return Example(text=text, run=self._run, group=group, events=tuple(dict.fromkeys(events)))


def _open_text(log: KnownLog, run: str | None) -> str:
    return open_log_text(log.process, len(log.rows), run, log.behind, log.cause)


def _delivery(log: KnownLog, message: MessageName) -> Row | None:
    """The row by which the process first delivered it."""
    return next((row for row, other in log.events if other == message and row.kind == "deliver"), None)
