"""What can be held against a group while it runs, from the journals of its listeners: a function from rows to findings.

guarantee        how it is judged here
duplication      a listener has the same message twice
fifo             a message of level fifo or above comes after a later one, of such a level, of the same sender
total            in one view, the agreed and safe messages (and barriers) stand in the same order at all listeners
view_agreement   a view has the same members at all listeners, ids rise, and a listener is in its own views
primary          views of one id are one view; a view without a majority of the one before is unknown, since members
                 that leave in good order count as present, and a journal does not say who left
silence          nothing is delivered of a process that is not in the view
view_synchrony   listeners that go from one view to the same next one had the same messages in it, private ones aside
view_sending     no message is delivered in one view here and in the next elsewhere
safe             listeners that complete a view had the same safe messages in it
group_broadcast  listeners had the same messages in the view before a barrier
content          listeners that had the same messages in a view had them with the same levels and payloads

Broken is said at once, where one journal shows it. Agreed messages in different order are *unknown* at first: a process
that does not complete the view may have had an order of its own, and is not held to it; when both listeners have gone
on to a next view, the finding is said again, as broken. Safe messages count at once. Which of two listeners is right,
nobody can tell from their journals.

Not judged here: creation, gaps in fifo, causal and label_order take the senders' logs; settled takes an end;
total_pairwise and total_global take one order of several groups, and a journal has one group; transitional and merged
are promised where views part, and listeners are in primary groups. Of view_sending, safe and content only what
listeners contradict each other in is found. Record a history and audit that.

Each journal is read in its order, and the rows of one may come before or after those of another. The findings do not
depend on it, but for who is named first.

Limits of the state, beside one entry per listener and per member of its view: VIEWS_MAX views; ORDER_MAX agreed
messages of a view by which one listener may be ahead of another; and MISSING_MAX runs of numbers per sender that have
not come (a private message to somebody else leaves one). Beyond them, the oldest are forgotten, and what would need
them is unknown or not said.
"""

from collections.abc import Iterable, Iterator
from hashlib import blake2b
from typing import Any, Final, NamedTuple

import msgspec

VIEWS_MAX: Final = 64
ORDER_MAX: Final = 100_000
MISSING_MAX: Final = 64
FORGET_PLACES: Final = 1024
"""So many at once: a list is cut at its front in one go."""
BROKEN: Final = "broken"
UNKNOWN: Final = "unknown"
ORDERED: Final = frozenset(("fifo", "causal", "agreed", "safe"))
TOTAL: Final = frozenset(("agreed", "safe"))


class WatchedRow(NamedTuple):
    """What the watch needs of a row of a journal."""

    listener: str
    offset: int
    kind: str
    view: int | None = None
    members: tuple[str, ...] | None = None
    sender: str | None = None
    number: int | None = None
    level: str | None = None
    private: bool | None = None
    content: int | None = None
    """A hash of the payload."""
    time_ns: int = 0


class LiveFinding(NamedTuple):
    """Something that should not be, or cannot be told."""

    guarantee: str
    verdict: str
    listener: str
    offset: int
    view: int | None
    text: str


class Heard(msgspec.Struct):
    """What one listener has of one sender."""

    last: int = 0
    last_ordered: int = 0
    """The highest number at a level of ORDERED."""
    missing: list[tuple[int, int]] = msgspec.field(default_factory=list)
    """Runs of numbers below `last` that have not come: first and last of each, rising."""
    forgotten: int = 0
    """Up to here, `missing` is not kept any more."""

    def take(self, number: int) -> bool | None:
        """A number comes; whether it is new. None: it is too old to tell."""
        if number > self.last:
            if number > self.last + 1:
                self.missing.append((self.last + 1, number - 1))
            self.last = number
            if len(self.missing) > MISSING_MAX:
                self.forgotten = self.missing.pop(0)[1]
            return True
        for place, (first, last) in enumerate(self.missing):
            if first <= number <= last:
                self.missing[place : place + 1] = [
                    run for run in ((first, number - 1), (number + 1, last)) if run[0] <= run[1]
                ]
                return True
        return None if number <= self.forgotten else False


class ListenerView(msgspec.Struct):
    """One listener in one view."""

    places: int = 0
    """Agreed and safe messages so far."""
    messages: int = 0
    digest: int = 0
    """Of the messages that are not private, in any order."""
    safe_messages: int = 0
    safe_digest: int = 0
    content_digest: int = 0
    """Of the same, with their levels and payloads."""
    barriers: dict[str, tuple[int, int]] = msgspec.field(default_factory=dict)
    """What `messages` and `digest` were before each barrier."""
    next_view: int = 0
    """The view that it went on to; 0: it has not."""
    astray: list[str] = msgspec.field(default_factory=list)
    """Once its order differs from another's: that other, and what is to be said."""


class SharedView(msgspec.Struct):
    """One view, as its listeners see it."""

    members: tuple[str, ...]
    stays: dict[str, ListenerView] = msgspec.field(default_factory=dict)
    base: int = 0
    """How many places at the front of the order all listeners have been through."""
    order: list[tuple[str, str, str]] = msgspec.field(default_factory=list)
    """From there on, message, level, and who had it there first."""
    numbers: dict[str, list[tuple[int, int]]] = msgspec.field(default_factory=dict)
    """By sender, the numbers that were delivered in this view, as runs, rising."""

    def hears(self, sender: str, number: int) -> None:
        """A message was delivered in this view."""
        runs = self.numbers.setdefault(sender, [])
        if runs and runs[-1][0] <= number <= runs[-1][1]:
            return
        if runs and number == runs[-1][1] + 1:
            runs[-1] = (runs[-1][0], number)
        elif not self.has(sender, number):
            runs.append((number, number))
            runs.sort()
            del runs[:-MISSING_MAX]

    def has(self, sender: str, number: int) -> bool:
        return any(first <= number <= last for first, last in self.numbers.get(sender, ()))


class ListenerState(msgspec.Struct):
    """One listener."""

    view: int = 0
    heard: dict[str, Heard] = msgspec.field(default_factory=dict)
    offset: int = -1
    """Of its last row."""
    time_ns: int = 0
    messages: int = 0


class ListenerStatus(NamedTuple):
    """How far a listener is followed."""

    listener: str
    offset: int
    view: int
    members: tuple[str, ...]
    messages: int
    time_ns: int


class WatchState(msgspec.Struct):
    """All that is remembered of one group."""

    listeners: dict[str, ListenerState] = msgspec.field(default_factory=dict)
    views: dict[int, SharedView] = msgspec.field(default_factory=dict)


class Watch:
    """Judges one group, which so many listeners are in. `state` is all that it knows, and goes through bytes
    unchanged."""

    def __init__(self, listeners: int, state: bytes | None = None) -> None:
        self._listeners = listeners
        self.state = WatchState() if state is None else msgspec.msgpack.decode(state, type=WatchState)

    def save(self) -> bytes:
        return msgspec.msgpack.encode(self.state)

    def feed(self, rows: Iterable[WatchedRow]) -> Iterator[LiveFinding]:
        """Rows of one or more journals, those of each in order; what is to be said about them."""
        for row in rows:
            if row.kind == "view":
                yield from self._view(row)
            elif row.kind in ("message", "barrier"):
                yield from self._message(row)
            if row.listener in self.state.listeners:
                listener = self.state.listeners[row.listener]
                listener.offset, listener.time_ns = row.offset, row.time_ns

    def status(self) -> list[ListenerStatus]:
        """How far each listener is followed, by name."""
        views = self.state.views
        return [
            ListenerStatus(
                name,
                listener.offset,
                listener.view,
                views[listener.view].members if listener.view in views else (),
                listener.messages,
                listener.time_ns,
            )
            for name, listener in sorted(self.state.listeners.items())
        ]

    def _view(self, row: WatchedRow) -> Iterator[LiveFinding]:
        assert row.view is not None
        assert row.members is not None
        listener = self._listener(row.listener)
        former, listener.view = listener.view, row.view
        listener.heard = {sender: heard for sender, heard in listener.heard.items() if sender in row.members}
        shared = self.state.views.get(row.view)
        if shared is None:
            shared = self.state.views[row.view] = SharedView(row.members)
        elif shared.members != row.members:
            first = next(iter(shared.stays), "another listener")
            text = f"view {row.view} has the members {list(row.members)} here and {list(shared.members)} at {first}"
            yield _finding(row, "view_agreement", BROKEN, text)
            if set(shared.members) != set(row.members):
                yield _finding(row, "primary", BROKEN, f"there are two views {row.view}: {text}")
        if row.listener not in row.members:
            yield _finding(row, "view_agreement", BROKEN, f"{row.listener} is not a member of its own view {row.view}")
        if row.view <= former:
            yield _finding(row, "view_agreement", BROKEN, f"view {row.view} comes after view {former}")
            return
        if former in self.state.views and not _is_majority(row.members, self.state.views[former].members):
            text = f"view {row.view} holds no majority of view {former}, unless members of that left in good order"
            yield _finding(row, "primary", UNKNOWN, text)
        shared.stays.setdefault(row.listener, ListenerView())
        if former in self.state.views:
            yield from self._leave(row, former)
        for view in sorted(self.state.views)[:-VIEWS_MAX]:
            del self.state.views[view]

    def _listener(self, listener: str) -> ListenerState:
        """What is known of a listener; its former incarnations are forgotten."""
        if listener not in self.state.listeners:
            name = listener.rpartition("/")[0]
            for former in [other for other in self.state.listeners if other.rpartition("/")[0] == name]:
                del self.state.listeners[former]
            self.state.listeners[listener] = ListenerState()
        return self.state.listeners[listener]

    def _leave(self, row: WatchedRow, former: int) -> Iterator[LiveFinding]:
        """The listener has completed a view: it can be held to what others had in it."""
        shared = self.state.views[former]
        stay = shared.stays[row.listener]
        assert row.view is not None
        stay.next_view = row.view
        for other, theirs in shared.stays.items():
            if other == row.listener or theirs.next_view == 0:
                continue
            for mine, whose in ((stay, other), (theirs, row.listener)):
                if mine.astray and mine.astray[0] == whose:
                    yield _finding(row, "total", BROKEN, mine.astray[1])
            if theirs.next_view == row.view and (theirs.messages, theirs.digest) != (stay.messages, stay.digest):
                text = (
                    f"{row.listener} and {other} went from view {former} to view {row.view}, but delivered different "
                    f"messages in it ({stay.messages} and {theirs.messages})"
                )
                yield _finding(row, "view_synchrony", BROKEN, text)
            elif theirs.digest == stay.digest and theirs.content_digest != stay.content_digest:
                text = f"{row.listener} and {other} had a message of view {former} with different levels or payloads"
                yield _finding(row, "content", BROKEN, text)
            if (theirs.safe_messages, theirs.safe_digest) != (stay.safe_messages, stay.safe_digest):
                text = (
                    f"{row.listener} and {other} completed view {former} with different safe messages "
                    f"({stay.safe_messages} and {theirs.safe_messages})"
                )
                yield _finding(row, "safe", BROKEN, text)

    def _message(self, row: WatchedRow) -> Iterator[LiveFinding]:
        assert row.sender is not None
        assert row.number is not None
        listener = self._listener(row.listener)
        if listener.view in self.state.views and (row.view or 0) > listener.view:
            # A barrier, or an epoch, has ended the view; the next, of the same members, is not told of.
            yield from self._view(row._replace(members=self.state.views[listener.view].members))
        heard = listener.heard.setdefault(row.sender, Heard())
        is_new = heard.take(row.number)
        name = f"{row.sender}#{row.number}"
        if is_new is None:
            text = f"{name} comes so late that it cannot be told whether it was there before"
            yield _finding(row, "duplication", UNKNOWN, text)
        elif not is_new:
            yield _finding(row, "duplication", BROKEN, f"{row.listener} delivered {name} twice")
            return
        if row.level in ORDERED:
            if row.number < heard.last_ordered:
                text = f"{row.listener} delivered {name} after {row.sender}#{heard.last_ordered}"
                yield _finding(row, "fifo", BROKEN, text)
            heard.last_ordered = max(heard.last_ordered, row.number)
        shared = self.state.views.get(row.view or 0)
        if shared is None:
            return  # it is forgotten
        if row.sender not in shared.members:
            text = f"{row.listener} delivered {name} in view {row.view}, of which {row.sender} is no member"
            yield _finding(row, "silence", BROKEN, text)
        if row.private:
            return
        yield from self._in_one_view(row, shared, name)
        stay = shared.stays.setdefault(row.listener, ListenerView())
        if row.kind == "barrier":
            yield from self._barrier(row, shared, stay, name)
        stay.messages += 1
        listener.messages += 1
        stay.digest = (stay.digest + _hash(name)) % (1 << 63)
        stay.content_digest = (stay.content_digest + _hash(f"{name} {row.level} {row.content}")) % (1 << 63)
        if row.level == "safe":
            stay.safe_messages += 1
            stay.safe_digest = (stay.safe_digest + _hash(name)) % (1 << 63)
        if row.level in TOTAL and not stay.astray:
            yield from self._place(row, shared, stay, name)

    def _in_one_view(self, row: WatchedRow, shared: SharedView, name: str) -> Iterator[LiveFinding]:
        """What is delivered in this view must not have been in the one before or after it, at another listener."""
        assert row.view is not None
        assert row.sender is not None
        assert row.number is not None
        for other in (row.view - 1, row.view + 1):
            if other in self.state.views and self.state.views[other].has(row.sender, row.number):
                text = f"{row.listener} delivered {name} in view {row.view}, another listener in view {other}"
                yield _finding(row, "view_sending", BROKEN, text)
        shared.hears(row.sender, row.number)

    def _barrier(self, row: WatchedRow, shared: SharedView, stay: ListenerView, name: str) -> Iterator[LiveFinding]:
        """All listeners must have had the same before it."""
        stay.barriers[name] = (stay.messages, stay.digest)
        for other, theirs in shared.stays.items():
            if theirs.barriers.get(name, stay.barriers[name]) != stay.barriers[name]:
                text = (
                    f"before the barrier {name}, {row.listener} had {stay.messages} messages in view {row.view} and "
                    f"{other} had {theirs.barriers[name][0]}, not the same ones"
                )
                yield _finding(row, "group_broadcast", BROKEN, text)
                return

    def _place(self, row: WatchedRow, shared: SharedView, stay: ListenerView, name: str) -> Iterator[LiveFinding]:
        """An agreed or safe message stands at the listener's next place; it must stand there for all."""
        place = stay.places - shared.base
        stay.places += 1
        if place < 0:
            stay.astray = ["", ""]  # what stood there is forgotten
            text = (
                f"{row.listener} is more than {ORDER_MAX:,} agreed messages behind; its order is not followed further"
            )
            yield _finding(row, "total", UNKNOWN, text)
            return
        if place == len(shared.order):
            shared.order.append((name, row.level or "", row.listener))
            self._forget(shared)
            return
        theirs, level, other = shared.order[place]
        if theirs != name:
            text = (
                f"in view {row.view}, {row.listener} delivered {name} where {other} delivered {theirs}, "
                f"as agreed message {stay.places}"
            )
            stay.astray = [other, text]
            is_over = stay.next_view and shared.stays[other].next_view
            yield _finding(row, "total", BROKEN if is_over or "safe" in (row.level, level) else UNKNOWN, text)
        else:
            self._forget(shared)

    def _forget(self, shared: SharedView) -> None:
        """Places that all have been through, and those too far back."""
        done = len(shared.order) - ORDER_MAX
        if len(shared.stays) >= self._listeners:
            followed = [stay.places for stay in shared.stays.values() if not stay.astray]
            done = max(done, min(followed) - shared.base)
        if done >= FORGET_PLACES:
            del shared.order[:done]
            shared.base += done


def _hash(name: str) -> int:
    return int.from_bytes(blake2b(name.encode(), digest_size=8).digest(), "little") >> 1


def _is_majority(present: tuple[str, ...], electors: tuple[str, ...]) -> bool:
    """More than half of the electors, or exactly half with the oldest."""
    doubled = 2 * len(set(present).intersection(electors))
    return doubled > len(electors) or (doubled == len(electors) and electors[0] in present)


def _finding(row: WatchedRow, guarantee: str, verdict: str, text: str) -> LiveFinding:
    return LiveFinding(guarantee, verdict, row.listener, row.offset, row.view, text)


def watched(columns: dict[str, list[Any]]) -> list[WatchedRow]:
    """The rows of a batch of a journal, given by its columns."""
    return [
        WatchedRow(
            listener,
            offset,
            kind,
            view,
            None if members is None else tuple(members),
            None if sender is None else f"{sender}/{incarnation}",
            number,
            level,
            private,
            content,
            time_ns,
        )
        for listener, offset, kind, view, members, sender, incarnation, number, level, private, content, time_ns in zip(
            *(columns[name] for name in WATCHED_COLUMNS), strict=True
        )
    ]


WATCHED_COLUMNS: Final = (
    *("listener", "offset", "kind", "view", "members", "sender"),
    *("sender_incarnation", "number", "level", "private", "content", "time_ns"),
)
