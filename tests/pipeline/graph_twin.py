"""The context graph straight from its definitions, in plain Python: sets of messages, and every pair looked at.

Slow on purpose: it shares no idea with `antiphon.pipeline.graph` but the words of the papers.
"""

from collections import defaultdict
from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass, field

from antiphon.history.errors import UnusableHistoryError
from antiphon.history.schema import Row
from antiphon.pipeline.explain import MessageName
from antiphon.pipeline.reference_world import KnownLog, known_log, messages_of

Edge = tuple[MessageName, MessageName, bool]
"""The message, its direct cause, and whether the record is certain of it."""
Stability = tuple[int | None, str | None, tuple[str, ...]]
"""When it was stable, who was last, and who lacks it."""


@dataclass
class Twin:
    """One run, message by message."""

    past: dict[MessageName, set[MessageName]] = field(default_factory=dict)
    sent: dict[MessageName, Row] = field(default_factory=dict)
    """The messages on record."""
    edges: set[Edge] = field(default_factory=set)
    waves: dict[MessageName, int] = field(default_factory=dict)
    stability: dict[MessageName, Stability] = field(default_factory=dict)
    circular: bool = False


def make_twin(rows: Iterable[Row]) -> Twin:
    by_process: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        by_process[f"{row.process}/{row.incarnation}"].append(row)
    logs = {process: known_log(process, own, None) for process, own in by_process.items()}
    twin = Twin()
    for log in logs.values():
        for row in log.rows:
            if row.kind == "send":
                _check_numbers(messages_of(row), twin.sent)
                twin.sent.update(dict.fromkeys(messages_of(row), row))
    _find_pasts(twin, logs)
    twin.circular = any(message in past for message, past in twin.past.items())
    if not twin.circular:
        _find_edges(twin)
        _find_waves(twin)
        _find_stability(twin, logs)
    return twin


def _check_numbers(messages: Sequence[MessageName], sent: Container[MessageName]) -> None:
    """A log whose sends are not numbered 1, 2, 3… is unusable."""
    first = messages[0]
    if first in sent or (first.number > 1 and first._replace(number=first.number - 1) not in sent):
        raise UnusableHistoryError(None, f"the log of {first.sender} sends message {first.number} out of turn")


def _find_pasts(twin: Twin, logs: dict[str, KnownLog]) -> None:
    """What the sender had sent or delivered before, then chains of such steps until there are no more."""
    for log in logs.values():
        known: set[MessageName] = set()
        for row in log.rows:
            if row.kind not in ("send", "deliver"):
                continue
            for message in messages_of(row):
                if row.kind == "send":
                    twin.past[message] = set(known)
                if message in twin.sent or _is_off_record(message, logs):
                    known.add(message)
                    # Who sent this one sent everything before it.
                    known |= {MessageName(message.group, message.sender, number) for number in range(1, message.number)}
        twin.past.update(_off_record(log.process, known, logs))
    for process in {message.sender for past in twin.past.values() for message in past} - logs.keys():
        twin.past.update(_off_record(process, set(), logs))
    growing = True
    while growing:
        growing = False
        for past in twin.past.values():
            further = set().union(past, *(twin.past[message] for message in past))
            if further != past:
                past |= further
                growing = True


def _is_off_record(message: MessageName, logs: dict[str, KnownLog]) -> bool:
    log = logs.get(message.sender)
    return log is None or log.open


def _off_record(
    process: str, known: set[MessageName], logs: dict[str, KnownLog]
) -> dict[MessageName, set[MessageName]]:
    """The messages of a process that others delivered and its own log does not tell of: it sent them afterwards."""
    highest: dict[str, int] = defaultdict(int)
    told: set[MessageName] = set()
    for log in logs.values():
        for row in log.rows:
            for message in messages_of(row) if row.kind in ("send", "deliver") else ():
                if message.sender == process:
                    highest[message.group] = max(highest[message.group], message.number)
                    told |= {message} if row.kind == "send" else set()
    if process in logs and not logs[process].open:
        return {}
    result: dict[MessageName, set[MessageName]] = {}
    for group, last in highest.items():
        before = set(known)
        for number in range(1, last + 1):
            message = MessageName(group, process, number)
            if message not in told:
                result[message] = set(before)
            before.add(message)
    return result


def _find_edges(twin: Twin) -> None:
    """m is a direct cause of m' if m is in the past of m', and in the past of no other message there."""
    for message in twin.sent:
        past = twin.past[message]
        certain = all(earlier in twin.sent for earlier in past)
        for cause in past:
            if not any(cause in twin.past[other] for other in past):
                twin.edges.add((message, cause, certain))


def _find_waves(twin: Twin) -> None:
    """Take the roots away, again and again."""
    left = set(twin.past)
    wave = 0
    while left:
        wave += 1
        roots = {message for message in left if not twin.past[message] & left}
        twin.waves.update({message: wave for message in roots if message in twin.sent})
        left -= roots


def _find_stability(twin: Twin, logs: dict[str, KnownLog]) -> None:
    members: dict[tuple[str | None, int | None], set[str]] = defaultdict(set)
    delivered_ns: dict[tuple[str, MessageName], list[int]] = defaultdict(list)
    left_in: dict[MessageName, int | None] = {}
    for process, log in logs.items():
        for row in log.rows:
            if row.kind == "depart":
                left_in.update(dict.fromkeys(messages_of(row), row.view))
            elif row.kind == "view":
                members[row.group, row.view].update(row.members or ())
            elif row.kind == "deliver":
                for message in messages_of(row):
                    delivered_ns[process, message].append(row.time_ns)
    for message, send in twin.sent.items():
        to_all = send.destinations is None
        view = left_in.get(message, send.view)
        meant = {name for name in members[send.group, view] if to_all or name in (send.destinations or ())}
        lacking = tuple(sorted(name for name in meant if not delivered_ns[name, message]))
        if lacking or not meant:
            twin.stability[message] = (None, None, lacking)
        else:
            time_ns, last = max((min(delivered_ns[name, message]), name) for name in meant)
            twin.stability[message] = (time_ns, last, ())
