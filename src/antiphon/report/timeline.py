"""Who was in which view when: one lane per process, one piece of it per view.

A piece lasts from the row that installs a view until the next one of the same log and group, or until the log ends. It
is *behind* from the moment at which another process installs a later view without it: there the others have gone on,
and this process is cut off, or stalled, or dead without knowing it. Incarnations of one name share a lane, so that a
crash and the return after it are a gap; where two of them overlap in time, the later one gets a lane of its own.

However long the run, the pieces stay bounded: short neighbours are joined to one piece that says how many views it
stands for, and the shortest go first.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from antiphon.history.schema import LEFT
from antiphon.pipeline.explain import process_name
from antiphon.report.rows import LogRow, reading_order
from antiphon.report.words import clipped, printable

PIECES_MAX: Final = 5_000
MARKS_MAX: Final = 2_000
ENDS_MAX: Final = 2_000
LANES_MAX: Final = 200
LIVES_PER_LANE_MAX: Final = 50
MEMBERS_MAX: Final = 32
TEXT_LENGTH_MAX: Final = 160
LIFE_KINDS: Final = ("start", "view", "suspect", "note", "crash", "stop")
ENDS: Final = ("crash", "stop")

ViewKey = tuple[int, tuple[str, ...]]
"""Id and members: two components of a partition may number their views alike."""


@dataclass(slots=True)
class TimelineSpan:
    """A stretch of one log's time in one group."""

    from_ns: int
    until_ns: int
    view: ViewKey
    count: int = 1
    """How many views it stands for; `view` is the last of them."""
    behind_ns: int | None = None


@dataclass(slots=True)
class TimelineLog:
    """What is known of one log in one group."""

    process: str
    group: str
    pieces: list[TimelineSpan] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class TimelineEvent:
    """Something that happened to a process, in one group or (None) in all."""

    process: str
    group: str | None
    time_ns: int
    kind: str
    text: str


class Lives:
    """Collects the life rows of a run. Rows of one log come in its own order; logs may come in any."""

    def __init__(self, pieces_max: int = PIECES_MAX) -> None:
        self.lives: dict[tuple[str, str], TimelineLog] = {}
        self.marks: list[TimelineEvent] = []
        self.marks_left_out = 0
        self.grain_ns = 0
        """Neighbouring pieces that are shorter than this together are joined."""
        self.changes_ns: list[int] = []
        """When something changed: views but each log's first, crashes, suspicions. Bounded as the marks are."""
        self._pieces_max = pieces_max
        self._join_at = 2 * pieces_max
        self._count = 0
        self._views: dict[ViewKey, ViewKey] = {}
        self._open: dict[str, list[TimelineLog]] = {}

    def add(self, row: LogRow) -> None:
        """Take one row in."""
        if row.kind == "view" and row.group is not None and row.view is not None:
            self._install(row)
        elif row.kind in ENDS:
            for life in self._open.pop(row.process, []):
                if life.pieces:
                    life.pieces[-1].until_ns = row.time_ns
            self._mark(row, row.kind if row.kind == "crash" or row.label != LEFT else "left", row.label or "")
        elif row.kind == "suspect":
            self._mark(row, "suspect", f"suspects {row.label}")
        elif row.kind == "note":
            if row.label == LEFT and row.group is not None:
                self._leave(row)
            self._mark(row, "left" if row.label == LEFT else "note", row.label or "")
        elif row.kind == "start":
            self._mark(row, "start", "")

    def seen_until(self, process: str, time_ns: int) -> None:
        """The log has a row at this time, so its open pieces last at least so long."""
        for life in self._open.get(process, []):
            if life.pieces:
                life.pieces[-1].until_ns = max(life.pieces[-1].until_ns, time_ns)

    def _install(self, row: LogRow) -> None:
        assert row.group is not None
        assert row.view is not None
        life = self.lives.get((row.process, row.group))
        if life is None:
            life = self.lives[row.process, row.group] = TimelineLog(row.process, row.group)
        if life not in self._open.setdefault(row.process, []):
            self._open[row.process].append(life)
        if life.pieces:
            life.pieces[-1].until_ns = row.time_ns
            self._changed(row.time_ns)
        view = (row.view, row.members)
        life.pieces.append(TimelineSpan(row.time_ns, row.time_ns, self._views.setdefault(view, view)))
        self._count += 1
        if self._count > self._join_at:
            self.join_short()

    def _leave(self, row: LogRow) -> None:
        life = self.lives.get((row.process, row.group or ""))
        if life is not None and life.pieces:
            life.pieces[-1].until_ns = row.time_ns
            self._open[row.process] = [other for other in self._open.get(row.process, []) if other is not life]

    def _mark(self, row: LogRow, kind: str, text: str) -> None:
        if kind in ("crash", "suspect"):
            self._changed(row.time_ns)
        if len(self.marks) >= MARKS_MAX + (ENDS_MAX if row.kind in ENDS else 0):
            self.marks_left_out += 1
        else:
            self.marks.append(TimelineEvent(row.process, row.group, row.time_ns, kind, clipped(text, TEXT_LENGTH_MAX)))

    def _changed(self, time_ns: int) -> None:
        if len(self.changes_ns) < 10 * MARKS_MAX:
            self.changes_ns.append(time_ns)

    def join_short(self) -> None:
        """Join short neighbours, ever longer ones, until no more are left than allowed, or none can be joined."""
        while self._count > self._pieces_max and self.grain_ns < 1 << 62:
            for life in self.lives.values():
                life.pieces = list(_joined(life.pieces, self.grain_ns))
            self._count = sum(len(life.pieces) for life in self.lives.values())
            if self._count > self._pieces_max:  # what was short so far is not enough
                self.grain_ns = max(1_000, 2 * self.grain_ns)
        # Each life keeps a piece; where lives alone are many, trying again at each row would only cost time.
        self._join_at = 2 * max(self._count, self._pieces_max)
        self._views = {piece.view: piece.view for life in self.lives.values() for piece in life.pieces}

    def finish(self) -> None:
        """After the last row: find out who was left behind, and keep within the limit."""
        self.join_short()
        by_group: dict[str, list[TimelineLog]] = {}
        for life in self.lives.values():
            by_group.setdefault(life.group, []).append(life)
        for lives in by_group.values():
            _find_left_behind(lives)


def _joined(pieces: list[TimelineSpan], grain_ns: int) -> Iterator[TimelineSpan]:
    """The last piece is never joined: it may still grow, and it is how things ended."""
    held: TimelineSpan | None = None
    for piece in pieces:
        if held is not None and piece is not pieces[-1] and piece.until_ns - held.from_ns < grain_ns:
            held = TimelineSpan(held.from_ns, piece.until_ns, piece.view, held.count + piece.count)
            continue
        if held is not None:
            yield held
        held = piece
    if held is not None:
        yield held


def _find_left_behind(lives: list[TimelineLog]) -> None:
    """Set `behind_ns` wherever a member of the same view installs its next view without this process."""
    gone_on: dict[ViewKey, list[tuple[int, frozenset[str]]]] = {}
    for life in lives:
        for piece, after in zip(life.pieces, life.pieces[1:], strict=False):
            gone_on.setdefault(piece.view, []).append((after.from_ns, frozenset(after.view[1])))
    for life in lives:
        for piece in life.pieces:
            times = [at for at, members in gone_on.get(piece.view, ()) if life.process not in members]
            inside = [at for at in times if piece.from_ns <= at < piece.until_ns]
            piece.behind_ns = min(inside, default=None)


def timeline_data(lives: Lives, origin_ns: int) -> dict[str, Any]:
    """The timeline as the page's script reads it; times are nanoseconds since `origin_ns`."""
    of_group: dict[str, list[TimelineLog]] = {}
    for life in lives.lives.values():
        of_group.setdefault(life.group, []).append(life)
    views: dict[tuple[str, ViewKey], int] = {}
    names: dict[str, int] = {}
    parts: list[dict[str, Any]] = []
    # The groups in which most happens come first, while there is room for them.
    for group in sorted(of_group, key=lambda group: (-sum(len(life.pieces) for life in of_group[group]), group)):
        if sum(len(part["pieces"]) for part in parts) < PIECES_MAX:
            parts.append(_group_data(group, of_group[group], lives.marks, origin_ns, views, names))
    return {
        "groups": sorted(parts, key=lambda part: str(part["name"])),
        "groups_left_out": len(of_group) - len(parts),
        "views": [_view_data(key, names) for _, key in views],
        "names": [printable(process_name(name)) for name in names],
        "grain_ns": lives.grain_ns,
        "marks_left_out": lives.marks_left_out,
    }


def _group_data(
    group: str,
    lives: list[TimelineLog],
    marks_all: list[TimelineEvent],
    origin_ns: int,
    views: dict[tuple[str, ViewKey], int],
    names: dict[str, int],
) -> dict[str, Any]:
    lanes = _lanes(lives)
    shown = [lane[-LIVES_PER_LANE_MAX:] for lane in lanes[:LANES_MAX]]
    lane_of = {life.process: number for number, lane in enumerate(shown) for life in lane}
    pieces = []
    for lane in shown:
        for life in lane:
            process = names.setdefault(life.process, len(names))
            for piece in life.pieces:
                view = views.setdefault((group, piece.view), len(views))
                behind = None if piece.behind_ns is None else piece.behind_ns - origin_ns
                span = (piece.from_ns - origin_ns, piece.until_ns - origin_ns)
                pieces.append([lane_of[life.process], process, *span, view, piece.count, behind])
    marks = [
        [lane_of[mark.process], names.setdefault(mark.process, len(names)), mark.time_ns - origin_ns, mark.kind,
         printable(mark.text)]
        for mark in marks_all
        if mark.process in lane_of and mark.group in (None, group)
    ]  # fmt: skip
    return {
        "name": printable(clipped(group, TEXT_LENGTH_MAX)),
        "lanes": [printable(clipped(_name(lane[0].process), 40)) for lane in shown],
        "lanes_left_out": len(lanes) - len(shown),
        "lives_left_out": sum(map(len, lanes[:LANES_MAX])) - sum(map(len, shown)),
        "pieces": pieces,
        "marks": marks,
    }


def _name(process: str) -> str:
    return process.rpartition("/")[0]


def _lanes(lives: list[TimelineLog]) -> list[list[TimelineLog]]:
    """The lives by name, one after the other; a life that overlaps the one before it begins a lane of its own."""
    lanes: list[list[TimelineLog]] = []
    for life in sorted(lives, key=lambda life: reading_order(life.process)):
        before = lanes[-1][-1] if lanes else None
        follows = before is not None and _name(before.process) == _name(life.process)
        if follows and before is not None and before.pieces[-1].until_ns <= life.pieces[0].from_ns:
            lanes[-1].append(life)
        else:
            lanes.append([life])
    return lanes


def _view_data(key: ViewKey, names: dict[str, int]) -> dict[str, Any]:
    number, members = key
    shown = [names.setdefault(member, len(names)) for member in members[:MEMBERS_MAX]]
    return {"id": number, "size": len(members), "members": shown}
