"""One run as the reference auditor sees it: single messages, who is owed them, and what lies in their past.

A set of messages is an integer with one bit per message. The terms are those of `antiphon.pipeline.reference`.
"""

from collections import defaultdict, deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from antiphon.history.errors import UnusableHistoryError
from antiphon.history.schema import LEFT, QUIET, Row
from antiphon.pipeline.explain import Link, Message

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
    events: list[tuple[Row, Message]] = field(default_factory=list)
    """Every single message sent or delivered, in order."""

    @property
    def open(self) -> bool:
        return self.ending in (CUT_SHORT, MISSING)


def known_log(process: str, rows: Iterable[Row], unfinished: bool) -> KnownLog:
    """The rows up to the first gap, checked; `unfinished` if a file of this log could not be read."""
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
    elif unfinished or len(prefix) < len(ordered) or last.kind not in ("stop", "crash"):
        ending = CUT_SHORT
    elif last.kind == "crash":
        ending = CRASHED
    else:
        ending = last.label if last.label in (QUIET, LEFT) else f"stopped: {last.label}"
    return KnownLog(process, prefix, ending)


class World:
    """Built once per run; everything else is looked up here."""

    def __init__(self, logs: dict[str, KnownLog]) -> None:
        self.logs = logs
        self.sent: dict[tuple[str, str], int] = defaultdict(int)
        """(group, sender) → how many of its messages are on record."""
        self.bit: dict[Message, int] = {}
        """Every message on record, and those off record that somebody delivered. What was never sent is not here."""
        self.on_record = 0
        self.send_row: dict[Message, Row] = {}
        self.owed: dict[str, int] = defaultdict(int)
        self.past: dict[Message, int] = {}
        self._base: dict[tuple[str, str], int] = {}
        self._sent_at: dict[Message, int] = {}
        self._off_record: dict[tuple[str, str], list[Message]] = defaultdict(list)
        self._read_sends()
        self._name_missing_logs()
        self._read_deliveries()
        self._settle_owed()
        self._find_pasts()

    def message(self, bit: int) -> Message:
        """The message of the lowest bit of a set."""
        lowest = bit & -bit
        return next(message for message, value in self.bit.items() if value == lowest)

    def before(self, message: Message) -> int:
        """What its sender sent to the group before it, as far as it is on record."""
        key = (message.group, message.sender)
        count = min(message.number - 1, self.sent[key])
        return ((1 << count) - 1) << self._base.get(key, 0)

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
        for key, count in self.sent.items():
            self._base[key] = len(self.bit)
            for number in range(1, count + 1):
                self.bit[Message(*key, number)] = 1 << len(self.bit)
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
                        self._sent_at[message] = len(log.events)
                    elif message not in self.bit and self.logs[message.sender].open:
                        self.bit[message] = 1 << len(self.bit)
                        self._off_record[message.group, message.sender].append(message)
                    log.events.append((row, message))

    def _settle_owed(self) -> None:
        members: dict[tuple[str, int], set[str]] = defaultdict(set)
        joined: set[tuple[str, str]] = set()
        for log in self.logs.values():
            for row in log.rows:
                if row.kind == "view" and row.group is not None and row.view is not None:
                    members[row.group, row.view].update(row.members or ())
                    joined.add((row.group, log.process))
        for message, row in self.send_row.items():
            view = (message.group, row.view or 0)
            if view not in members:
                problem = f"{message.sender} sent to {message.group} in view {row.view}, which no view row describes"
                raise UnusableHistoryError(None, problem)
            audience = members[view] if row.destinations is None else members[view].intersection(row.destinations)
            for process in audience:
                if (message.group, process) in joined or self.logs[process].ending == MISSING:
                    self.owed[process] |= self.bit[message]

    def _find_pasts(self) -> None:
        """Walk all logs side by side, each waiting where it delivers what is not yet sent.

        A cycle makes some wait for ever; then everything is swept over again and again until nothing changes.
        """
        walks = {log.process: _Walk(log) for log in self.logs.values()}
        runnable = deque(walks.values())
        waiting: dict[Message, list[_Walk]] = defaultdict(list)
        while runnable:
            walk = runnable.popleft()
            for message in self._advance(walk, waiting):
                runnable.extend(waiting.pop(message, ()))
        while waiting:
            before = dict(self.past)
            for log in self.logs.values():
                for _ in self._advance(_Walk(log), None):
                    pass
            if self.past == before:
                break

    def _advance(self, walk: "_Walk", waiting: dict[Message, list["_Walk"]] | None) -> Iterator[Message]:
        """Walk on and tell which messages were sent; without `waiting`, what is not yet sent counts as without past."""
        events = walk.log.events
        while walk.place < len(events):
            row, message = events[walk.place]
            bit = self.bit.get(message)
            if row.kind == "send":
                self.past[message] = walk.known
                walk.known |= self.bit[message]
                yield message
            elif bit is not None:
                if waiting is not None and message not in self.past:
                    waiting[message].append(walk)
                    return
                walk.known |= bit | self.past.get(message, 0)
            walk.place += 1
        for (_, sender), messages in self._off_record.items():
            if sender == walk.log.process:
                known = walk.known
                for message in sorted(messages):
                    self.past[message] = known
                    known |= self.bit[message]
                    yield message

    def chain(self, message: Message, wanted: int) -> list[Link]:
        """The shortest chain of steps that leads from one of the `wanted` messages to `message`, first step first."""
        step: dict[Message, Message] = {}
        frontier = deque([message])
        while frontier:
            sent = frontier.popleft()
            for earlier in self._known_at_send(sent):
                if earlier in step or earlier not in self.bit:
                    continue
                step[earlier] = sent
                if self.bit[earlier] & wanted:
                    return _links(step, earlier, message)
                frontier.append(earlier)
        raise AssertionError("what lies in the past is reached by a chain")

    def _known_at_send(self, sent: Message) -> Iterator[Message]:
        """What its sender had sent or delivered when it sent `sent`."""
        place = self._sent_at.get(sent)
        for _, earlier in self.logs[sent.sender].events[:place]:
            yield earlier
        if place is None:
            yield from (other for other in self._off_record[sent.group, sent.sender] if other.number < sent.number)


@dataclass
class _Walk:
    """How far one log has been walked, and what its process knew there."""

    log: KnownLog
    place: int = 0
    known: int = 0


def _links(step: dict[Message, Message], first: Message, last: Message) -> list[Link]:
    links = [Link(first, step[first])]
    while links[-1].sent != last:
        links.append(Link(links[-1].sent, step[links[-1].sent]))
    return links


def messages_of(row: Row) -> Sequence[Message]:
    """The single messages that a send or deliver row stands for."""
    assert row.group is not None
    assert row.number is not None
    assert row.count is not None
    sender = f"{row.sender}/{row.sender_incarnation}"
    return [Message(row.group, sender, number) for number in range(row.number, row.number + row.count)]


def numbering_problem(message: Message, sent: int) -> str:
    return (
        f"the log of {message.sender} sends message {message.number} to {message.group} where {sent + 1} should come; "
        "a sender numbers its messages to a group 1, 2, 3…"
    )
