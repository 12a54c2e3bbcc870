"""One run as the reference auditor sees it: single messages, who is owed them, and which of them are lost.

A set of messages is an integer with one bit per message. The terms are those of `antiphon.pipeline.reference`.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from antiphon.history.errors import UnusableHistoryError
from antiphon.history.schema import LEFT, QUIET, READS_APART, UNTOLD, Row
from antiphon.pipeline.domains import domain_of
from antiphon.pipeline.explain import MessageName
from antiphon.pipeline.reference_calls import LAST, PLACES, places_of_calls

CRASHED = "crashed"
GONE = (CRASHED, LEFT)
"""The endings after which nothing more is owed."""
CUT_SHORT = "cut short"
MISSING = "missing"


@dataclass
class KnownLog:
    """What is known of the log of one process incarnation."""

    process: str
    rows: list[Row]
    ending: str
    """"quiet", "left", "stopped: why", CRASHED, CUT_SHORT, or MISSING if nothing of it is on record."""
    last_view: dict[str, Row] = field(default_factory=dict)
    """The last view row of each group."""
    left: dict[str, int] = field(default_factory=dict)
    """The groups that the process left for good while it lived on, and the index of the note that says so."""
    events: list[tuple[Row, MessageName]] = field(default_factory=list)
    """Every single message sent or delivered, in order."""
    behind: int = 0
    """How many rows lie behind the first gap."""
    apart: int = LAST
    """The row from which on the process reads each group apart."""
    untold: set[str] = field(default_factory=set)
    """The groups of which it says that it was in views that are not on record."""
    cause: str = ""
    """Which file or row group shows that it was cut short, in words."""

    @property
    def open(self) -> bool:
        return self.ending in (CUT_SHORT, MISSING)

    def lacks_views(self, group: str) -> bool:
        """Whether it may have been in views of the group that are not on record."""
        return self.open or group in self.untold

    @property
    def early(self) -> bool:
        """Whether the process stopped before the run went quiet, or may have."""
        return self.ending not in (QUIET, *GONE)

    def is_gone(self, group: str) -> bool:
        """Whether nothing more is owed to the process in the group, nor by it."""
        return self.ending in GONE or group in self.left

    def is_early(self, group: str) -> bool:
        """Whether the process was in the group when it ended early."""
        return self.early and group not in self.left

    def is_survivor(self, group: str) -> bool:
        return not self.is_gone(group) and self.ending == QUIET

    def completes(self, group: str, index: int) -> bool:
        """Whether the process completed the view of the group in which it was at this row."""
        last = self.last_view.get(group)
        return self.ending in (QUIET, LEFT) or group in self.left or (last is not None and index < last.index)


def known_log(process: str, rows: Iterable[Row], cause: str | None) -> KnownLog:
    """The rows up to the first gap, checked; `cause` tells what of this log could not be read, if anything."""
    ordered = sorted(rows, key=lambda row: row.index)
    indexes = [row.index for row in ordered]
    if len(set(indexes)) < len(indexes):
        raise UnusableHistoryError(None, f"the log of {process} holds two rows with the same index")
    prefix = [row for place, row in enumerate(ordered) if row.index == place]
    last = prefix[-1] if prefix else None
    if any(row.kind in ("stop", "crash") for row in prefix[:-1]):
        raise UnusableHistoryError(None, f"the log of {process} goes on after its stop or crash row")
    if last is None:
        ending = MISSING
    elif cause is not None or len(prefix) < len(ordered) or last.kind not in ("stop", "crash"):
        ending = CUT_SHORT
    elif last.kind == "crash":
        ending = CRASHED
    else:
        ending = last.label if last.label in (QUIET, LEFT) else f"stopped: {last.label}"
    log = KnownLog(process, prefix, ending, {row.group or "": row for row in prefix if row.kind == "view"})
    log.behind, log.cause = len(ordered) - len(prefix), cause or ""
    for row in prefix:
        if row.kind == "note" and row.label == UNTOLD:
            log.untold.add(row.group or "")
        if row.kind == "note" and row.label == READS_APART:
            log.apart = min(log.apart, row.index)
        if row.kind == "note" and row.label == LEFT and row.group is not None:
            last_view = log.last_view.get(row.group)
            if last_view is None or last_view.index < row.index:
                log.left.setdefault(row.group, row.index)
    return log


class ReferenceWorld:
    """Built once per run; everything else is looked up here."""

    def __init__(
        self, logs: dict[str, KnownLog], domains: Mapping[str, str], parted: frozenset[str] = frozenset()
    ) -> None:
        self.logs = logs
        self.parted = parted
        """The groups whose views part and merge."""
        self.write_offs: dict[str, list[tuple[int | None, int]]] = {}
        """By process: from which row on (or None: at the end) it is not owed some messages any more…"""
        self.left_open: dict[str, list[tuple[int | None, int]]] = {}
        """…and from which row on nobody can say whether it is, by an operator's word."""
        self._domains = domains
        self.sent: dict[tuple[str, str], int] = defaultdict(int)
        """(group, sender) → how many of its messages are on record."""
        self.bit: dict[MessageName, int] = {}
        """Every message on record, and those off record that somebody delivered. What was never sent is not here."""
        self.on_record = 0
        self.send_row: dict[MessageName, Row] = {}
        self.left_in: dict[MessageName, int] = {}
        """The view in which each message left, where that is known."""
        self.told_destinations: dict[MessageName, set[str]] = {}
        """Of messages without a send row, for whom they were by those who delivered them, where these name any."""
        self.unsaid: set[MessageName] = set()
        """Messages without a send row of which nobody says for whom they were."""
        self.owed: dict[str, int] = defaultdict(int)
        self._perhaps_owed: dict[str, int] = defaultdict(int)
        self.undescribed: set[tuple[str, str, int]] = set()
        """Group, sender and view of what left in a view that no view row describes."""
        self.members: dict[tuple[str, int], set[str]] = defaultdict(set)
        """(group, view id) → everybody whom a view row with this id names."""
        self.sent_at: dict[MessageName, int] = {}
        """The place of its send among the events of its sender's log."""
        self.off_record: dict[tuple[str, str], list[MessageName]] = defaultdict(list)
        self._base: dict[tuple[str, str], int] = {}
        self._in_group: dict[str, int] = defaultdict(int)
        self._read_sends()
        self._name_missing_logs()
        self._read_deliveries()
        self._settle_owed()
        self.lost = self._find_lost()

    def message(self, bit: int) -> MessageName:
        """The message of the lowest bit of a set."""
        lowest = bit & -bit
        return next(message for message, value in self.bit.items() if value == lowest)

    def first_message(self, bits: int) -> MessageName:
        """The first message of a set, by group, sender and number."""
        keys = {(message.group, message.sender) for message in self.bit}
        for key in sorted(keys):
            of_key = ((1 << self.sent.get(key, 0)) - 1) << self._base.get(key, 0)
            if bits & of_key:
                return self.message(bits & of_key)
        return min(message for message, bit in self.bit.items() if bit & bits)  # off record

    def before(self, message: MessageName) -> int:
        """What its sender sent to the group before it, as far as it is on record."""
        key = (message.group, message.sender)
        count = min(message.number - 1, self.sent[key])
        return ((1 << count) - 1) << self._base.get(key, 0)

    def domain(self, group: str) -> str:
        """Among which groups causal order holds."""
        return domain_of(self._domains, group)

    def in_group(self, group: str) -> int:
        """All messages of a group that are on record."""
        return self._in_group[group]

    def _read_sends(self) -> None:
        for log in self.logs.values():
            for row in log.rows:
                if row.kind == "send":
                    for message in messages_of(row):
                        key = (message.group, message.sender)
                        if message.number != self.sent[key] + 1:
                            raise UnusableHistoryError(None, numbering_problem(message, self.sent[key]))
                        self.sent[key] += 1
                        self.send_row[message] = row
                        if row.view is not None:
                            self.left_in[message] = row.view
        for log in self.logs.values():
            for row in log.rows:
                if row.kind == "depart":
                    for message in messages_of(row):
                        if message in self.send_row:
                            self.left_in.setdefault(message, row.view or 0)
        for key, count in self.sent.items():
            self._base[key] = len(self.bit)
            self._in_group[key[0]] |= ((1 << count) - 1) << len(self.bit)
            for number in range(1, count + 1):
                self.bit[MessageName(*key, number)] = 1 << len(self.bit)
        self.on_record = (1 << len(self.bit)) - 1

    def _name_missing_logs(self) -> None:
        named: set[str] = set()
        for log in self.logs.values():
            for row in log.rows:
                if row.kind == "view":
                    named.update(row.members or ())
                elif row.kind == "deliver":
                    named.add(f"{row.sender}/{row.sender_incarnation}")
        for process in sorted(named - self.logs.keys()):
            self.logs[process] = KnownLog(process, [], MISSING)

    def _read_deliveries(self) -> None:
        for log in self.logs.values():
            for row in log.rows:
                if row.kind not in ("send", "deliver"):
                    continue
                for message in messages_of(row):
                    if row.kind == "send":
                        self.sent_at[message] = len(log.events)
                    elif message not in self.bit and self.logs[message.sender].open:
                        self.bit[message] = 1 << len(self.bit)
                        self.off_record[message.group, message.sender].append(message)
                    if row.kind == "deliver" and message not in self.send_row and row.destinations is not None:
                        self._note_destinations(message, row.destinations)
                    log.events.append((row, message))
            self._put_in_order(log)
        self.unsaid -= self.told_destinations.keys()

    def _put_in_order(self, log: KnownLog) -> None:
        """Put the events of a log into the order in which its process sent."""
        left: dict[MessageName, int] = {}
        for row in log.rows:
            if row.kind == "depart":
                for message in messages_of(row):
                    left.setdefault(message, row.index)
        calls = [(row, message) for row, message in log.events if row.kind == "send"]
        of_calls = iter(places_of_calls(log.rows, calls, left))
        places = [next(of_calls) if row.kind == "send" else PLACES * row.index for row, _ in log.events]
        order = sorted(range(len(places)), key=places.__getitem__)
        log.events = [log.events[at] for at in order]
        self.sent_at.update({message: at for at, (row, message) in enumerate(log.events) if row.kind == "send"})

    def _note_destinations(self, message: MessageName, destinations: tuple[str, ...]) -> None:
        """An empty tuple means that nothing was recorded of them."""
        if destinations:
            self.told_destinations.setdefault(message, set()).update(destinations)
        else:
            self.unsaid.add(message)

    def _settle_owed(self) -> None:
        for log in self.logs.values():
            for row in log.rows:
                if row.kind == "view" and row.group is not None and row.view is not None:
                    self.members[row.group, row.view].update(row.members or ())
        installed = {
            (row.group, row.view, log.process) for log in self.logs.values() for row in log.rows if row.kind == "view"
        }
        for message in self.send_row:
            if message not in self.left_in:
                continue  # it is owed to nobody
            view = (message.group, self.left_in[message])
            owed, members = self.owed, self.members.get(view)
            if members is None:
                owed, members = self._perhaps_owed, self._perhaps_there(message.group)
                self.undescribed.add((message.group, message.sender, view[1]))
            elif message.group in self.parted:
                members = {each for each in members if (*view, each) in installed or self.logs[each].ending == MISSING}
            for process in members:
                if self.is_meant_for(message, process) and self.is_held(process, message.group):
                    owed[process] |= self.bit[message]

    def _perhaps_there(self, group: str) -> set[str]:
        """Who may have been in a view of the group that no view row describes. Where views part, whoever was there has
        a row of it, unless its log lacks some."""
        return {each for each, log in self.logs.items() if group not in self.parted or log.lacks_views(group)}

    def is_held(self, process: str, group: str) -> bool:
        """Whether a process that a view names has been in the group, as far as is known."""
        log = self.logs[process]
        return group in log.last_view or log.ending == MISSING

    def is_meant_for(self, message: MessageName, process: str) -> bool:
        """Whether no destinations are known that leave the process out: by the send row, or else by deliver rows."""
        send = self.send_row.get(message)
        if send is None:
            return message not in self.told_destinations or process in self.told_destinations[message]
        return send.destinations is None or process in send.destinations

    def owed_at(self, log: KnownLog, index: int) -> int:
        """What the process of a log is owed at a row: nothing in the groups that it has left by then."""
        return self._without_left(self.owed[log.process] & ~self._left_open_at(log, index), log, index)

    def _left_open_at(self, log: KnownLog, index: int) -> int:
        result = 0
        for from_row, bits in self.left_open.get(log.process, ()):
            result |= bits if from_row is not None and from_row < index else 0
        return result

    def is_left_open(self, process: str, message: MessageName) -> bool:
        """Whether nobody can say, in the end, if the process is owed a message."""
        return any(bits & self.bit[message] for _, bits in self.left_open.get(process, ()))

    def is_written_off(self, process: str, message: MessageName) -> bool:
        """Whether the process, in the end, is not owed a message that was sent in a view of its."""
        return any(bits & self.bit[message] for _, bits in self.write_offs.get(process, ()))

    def perhaps_owed_at(self, log: KnownLog, index: int) -> int:
        """What it may be owed beside that: nobody knows, since no view row describes the view in which it left, or
        since the process was in a view that was left on an operator's word."""
        left_open = self._left_open_at(log, index) & self.owed[log.process]
        return self._without_left(self._perhaps_owed[log.process] | left_open, log, index)

    def is_perhaps_owed(self, log: KnownLog, message: MessageName) -> bool:
        return bool(self._perhaps_owed[log.process] & self.bit[message])

    def _without_left(self, owed: int, log: KnownLog, index: int) -> int:
        for group, left_at in log.left.items():
            if left_at < index:
                owed &= ~self._in_group[group]
        return owed

    def _find_lost(self) -> int:
        """What a crashed process sent in its last view, and nobody who completed that view delivered."""
        lost = 0
        for message in self.send_row:
            sender = self.logs[message.sender]
            last = sender.last_view.get(message.group)
            if sender.ending == CRASHED and last is not None and last.view == self.left_in.get(message):
                lost |= self.bit[message]
        completed: dict[str, set[tuple[str, int]]] = defaultdict(set)
        for log in self.logs.values():
            for row in log.rows:
                if row.kind == "view" and log.completes(row.group or "", row.index):
                    completed[log.process].add((row.group or "", row.view or 0))
            for row, message in log.events:
                bit = self.bit.get(message, 0)
                if row.kind == "deliver" and lost & bit:
                    sent_in = (message.group, self.left_in[message])
                    lost &= ~bit if sent_in in completed[log.process] else -1
        return lost


def messages_of(row: Row) -> Sequence[MessageName]:
    """The single messages that a send or deliver row stands for."""
    assert row.group is not None
    assert row.number is not None
    assert row.count is not None
    sender = f"{row.sender}/{row.sender_incarnation}"
    return [MessageName(row.group, sender, number) for number in range(row.number, row.number + row.count)]


def numbering_problem(message: MessageName, sent: int) -> str:
    return (
        f"the log of {message.sender} sends message {message.number} to {message.group} where {sent + 1} should come; "
        "a sender numbers its messages to a group 1, 2, 3…"
    )
