"""Vector clocks of a log, checked: they are what the log claims, and nothing else in it bears them out.

The events of a host are numbered by its own component, 1, 2, 3…, whatever their order in the text. An event *learns* of
event k of another host if its clock has k there and the clock of the host's event before has less. Refused are

* two events of a host with the same number, and numbers that are left out;
* a component that is less than in the host's event before;
* a component that names an event that is not in the log;
* a clock that is not transitively closed: who learns of an event knows all that that event knew;
* two events each of which knows of the other.

What remains are sound clocks: an event's clock is the maximum of those of its causes, plus itself. The *direct* causes
are the events learned of, less those that another one of them knew of already: the arrows that ShiViz draws.
"""

from dataclasses import dataclass, field
from pathlib import Path

from antiphon.history.formats.errors import MalformedLogError
from antiphon.history.formats.shiviz_text import Event, Execution


@dataclass
class CheckedEvent:
    """An event whose clock is sound."""

    event: Event
    causes: list["CheckedEvent"]
    """Direct causes at other hosts, by host."""
    followers: list[str] = field(default_factory=list)
    """Hosts with an event of which this is a direct cause, by name."""

    @property
    def past(self) -> int:
        """How many events happened before it, or are it."""
        return sum(self.event.clock.values())


def check(file: Path, execution: Execution) -> dict[str, list[CheckedEvent]]:
    """The events of each host in order; raises MalformedLogError where clocks cannot be true."""
    by_host: dict[str, list[Event]] = {}
    for event in execution.events:
        by_host.setdefault(event.host, []).append(event)
    for unchecked in by_host.values():
        _check_numbers(file, unchecked)
    checked = {host: [CheckedEvent(event, []) for event in by_host[host]] for host in sorted(by_host)}
    for host, events in checked.items():
        before: dict[str, int] = {}
        for item in events:
            learned = _learned(file, item.event, before, by_host)
            item.causes = [checked[cause.host][cause.own - 1] for cause in _direct(learned)]
            for cause in item.causes:
                cause.followers.append(host)
            before = item.event.clock
    for events in checked.values():
        for item in events:
            item.followers = sorted(set(item.followers))
    return checked


def _check_numbers(file: Path, events: list[Event]) -> None:
    events.sort(key=lambda event: event.own)
    for place, event in enumerate(events):
        if event.own == place + 1:
            continue
        if place and event.own == events[place - 1].own:
            other = events[place - 1].line
            reason = f"component {event.own} of host {event.host!r} is used twice, here and on line {other}"
        else:
            reason = f"the first component of host {event.host!r} is {event.own}, not 1"
            if place:
                reason = f"the own component of host {event.host!r} goes from {place} to {event.own}, not up by 1"
        raise MalformedLogError(file, event.line, reason)


def _learned(file: Path, event: Event, before: dict[str, int], by_host: dict[str, list[Event]]) -> list[Event]:
    """The events of other hosts that the clock shows for the first time, each of them checked against it."""
    for host, value in before.items():
        if event.clock.get(host, 0) < value:
            reason = f"the component of host {host!r} falls from {value} to {event.clock.get(host, 0)}"
            raise MalformedLogError(file, event.line, reason)
    learned = []
    for host, value in event.clock.items():
        if host == event.host or value == before.get(host, 0):
            continue
        if value > len(by_host.get(host, ())):
            raise MalformedLogError(file, event.line, f"the clock knows event {value} of {host!r}, which the log lacks")
        learned.append(by_host[host][value - 1])
    for cause in learned:
        _check_cause(file, event, cause)
    return learned


def _check_cause(file: Path, event: Event, cause: Event) -> None:
    if cause.clock.get(event.host, 0) >= event.own:
        reason = f"this event and the one on line {cause.line} each know of the other"
        raise MalformedLogError(file, event.line, reason)
    for host, value in cause.clock.items():
        if event.clock.get(host, 0) < value:
            reason = (
                f"the clock knows event {cause.own} of {cause.host!r} (line {cause.line}), which knew event {value} of "
                f"{host!r}, but itself it knows only {event.clock.get(host, 0)}"
            )
            raise MalformedLogError(file, event.line, reason)


def _direct(learned: list[Event]) -> list[Event]:
    return sorted(
        (
            cause
            for cause in learned
            if not any(other.clock.get(cause.host, 0) >= cause.own for other in learned if other is not cause)
        ),
        key=lambda cause: cause.host,
    )
