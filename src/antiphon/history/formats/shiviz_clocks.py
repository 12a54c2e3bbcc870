"""Vector clocks of a log, checked and closed: they are what the log claims, and nothing else in it bears them out.

The events of a host are numbered by its own component, 1, 2, 3…, whatever their order in the text. Refused are

* two events of a host with the same number, and numbers that are left out;
* a component that names an event that is not in the log;
* events each of which is in the past of the other.

ShiViz takes clocks beyond that which no vector clock algorithm makes, and logs of real programs hold them: a component
that falls, and a clock that is not transitively closed, where an event knows another and not all that that one knew.
What is drawn is the same relation in either case, the closure of what the clocks say: the *closed* clock of an event is
the maximum of those of the host's event before and of all events that its own clock names, plus itself. How many clocks
were not closed is told; in an export of our own none may be.

An event *learns* of event k of another host if its closed clock has k there and that of the host's event before has
less. The *direct* causes are the events learned of, less those that another one of them knew of already: the arrows
that ShiViz draws.
"""

from dataclasses import dataclass, field
from pathlib import Path

from antiphon.history.formats.errors import MalformedLogError
from antiphon.history.formats.shiviz_text import Clock, Event, Execution


@dataclass
class CheckedEvent:
    """An event with its closed clock."""

    event: Event
    clock: Clock
    causes: list["CheckedEvent"]
    """Direct causes at other hosts, by host."""
    followers: list[str] = field(default_factory=list)
    """Hosts with an event of which this is a direct cause, by name."""

    @property
    def past(self) -> int:
        """How many events happened before it, or are it."""
        return sum(self.clock.values())


class CheckedExecution:
    """The events of each host in order; raises MalformedLogError where clocks cannot be true."""

    def __init__(self, file: Path, execution: Execution, *, strict: bool = False) -> None:
        self.amended_lines: list[int] = []
        """Where a clock says less than it should. Under `strict` the first of them is refused."""
        self._file = file
        self._strict = strict
        self._by_host: dict[str, list[Event]] = {}
        for event in execution.events:
            self._by_host.setdefault(event.host, []).append(event)
        for events in self._by_host.values():
            _check_numbers(file, events)
        self.hosts: dict[str, list[CheckedEvent]] = {host: [] for host in sorted(self._by_host)}
        self._close_all()
        self.amended_lines.sort()
        for checked in self.hosts.values():
            for item in checked:
                item.followers = sorted(set(item.followers))

    def _close_all(self) -> None:
        """Close the clocks, each event behind those that it names; hosts wait for one another."""
        waiting: dict[str, list[tuple[int, str]]] = {host: [] for host in self.hosts}
        ready = list(self.hosts)
        while ready:
            host = ready.pop()
            done = self.hosts[host]
            while len(done) < len(self._by_host[host]):
                lacking = self._lacking(self._by_host[host][len(done)])
                if lacking is not None:
                    waiting[lacking[0]].append((lacking[1], host))
                    break
                self._close(host)
            ready += [other for number, other in waiting[host] if number <= len(done)]
            waiting[host] = [pair for pair in waiting[host] if pair[0] > len(done)]
        self._refuse_cycle({other: host for host, pairs in waiting.items() for _, other in pairs})

    def _lacking(self, event: Event) -> tuple[str, int] | None:
        """An event, by host and number, that the clock names and that is not closed yet."""
        for host, number in event.clock.items():
            if host == event.host or number <= len(self.hosts.get(host, ())):
                continue
            if number > len(self._by_host.get(host, ())):
                reason = f"the clock knows event {number} of {host!r}, which the log lacks"
                raise MalformedLogError(self._file, event.line, reason)
            return host, number
        return None

    def _close(self, host: str) -> None:
        done = self.hosts[host]
        event = self._by_host[host][len(done)]
        before = done[-1].clock if done else {}
        clock = dict(before)
        for other, number in event.clock.items():
            if other != host and number > clock.get(other, 0):
                for name, value in self.hosts[other][number - 1].clock.items():
                    clock[name] = max(value, clock.get(name, 0))
        clock[host] = event.own
        if clock != event.clock:
            self._amend(event, clock)
        causes = _direct(
            [
                self.hosts[other][number - 1]
                for other, number in clock.items()
                if other != host and number > before.get(other, 0)
            ]
        )
        done.append(CheckedEvent(event, clock, causes))
        for cause in causes:
            cause.followers.append(host)

    def _amend(self, event: Event, clock: Clock) -> None:
        if self._strict:
            host = next(host for host, value in clock.items() if event.clock.get(host, 0) != value)
            told = f"{event.clock.get(host, 0)} events of {host!r}, but events that it knows know {clock[host]}"
            raise MalformedLogError(self._file, event.line, f"the clock knows {told}")
        self.amended_lines.append(event.line)

    def _refuse_cycle(self, blocked_by: dict[str, str]) -> None:
        """Raise if hosts wait for one another: the events that they stopped at are in each other's past."""
        if not blocked_by:
            return
        seen: list[str] = []
        host = next(iter(blocked_by))
        while host not in seen:
            seen.append(host)
            host = blocked_by[host]
        cycle = seen[seen.index(host) :]
        lines = sorted(self._by_host[name][len(self.hosts[name])].line for name in cycle)
        raise MalformedLogError(
            self._file, lines[0], f"this event and the one on line {lines[-1]} each know of the other"
        )


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


def _direct(learned: list[CheckedEvent]) -> list[CheckedEvent]:
    return sorted(
        (
            cause
            for cause in learned
            if not any(
                other.clock.get(cause.event.host, 0) >= cause.event.own for other in learned if other is not cause
            )
        ),
        key=lambda cause: cause.event.host,
    )
