"""What is known of each log, put together from the summaries of its pieces."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final

import numpy as np

from antiphon.history.errors import UnusableHistoryError
from antiphon.history.schema import LEFT, QUIET
from antiphon.pipeline.audit.departures import with_departures
from antiphon.pipeline.audit.rows import Key
from antiphon.pipeline.audit.summary import Summary
from antiphon.pipeline.intervals import Spans, union

CRASHED: Final = "crashed"
GONE: Final = (CRASHED, LEFT)
"""The endings after which nothing more is owed."""
CUT_SHORT: Final = "cut short"
MISSING: Final = "missing"
ENDLESS: Final = 2**63 - 1


@dataclass(frozen=True)
class LogFacts:
    """One log: the pieces up to its first gap, in order, and how it ends."""

    process: str
    pieces: tuple[Summary, ...]
    ending: str
    """"quiet", "left", "stopped: why", CRASHED, CUT_SHORT, or MISSING if nothing of it is on record."""
    left: Mapping[str, int] = field(default_factory=dict)
    """The groups that the process left for good while it lived on, and the index of the note that says so."""
    behind: int = 0
    """How many rows lie behind the first gap."""
    cause: str = ""
    """Which file or row group shows that it was cut short, in words."""

    @cached_property
    def apart(self) -> int:
        """From which row on the process reads each group apart, so that order between groups is not promised to it."""
        return min((piece["apart"] for piece in self.pieces if piece["apart"] is not None), default=ENDLESS)

    @cached_property
    def untold(self) -> frozenset[str]:
        """The groups of which it says that it was in views that are not on record."""
        return frozenset(note["group"] for piece in self.pieces for note in piece["untold"])

    @cached_property
    def delivered(self) -> dict[Key, Spans]:
        """Everything that the process delivered, by key."""
        parts: dict[Key, list[Spans]] = defaultdict(list)
        for piece in self.pieces:
            for entry in piece["delivered"]:
                parts[entry["group"], entry["sender"]].append(Spans(entry["starts"], entry["ends"]))
        return {key: union(*spans) for key, spans in parts.items()}

    @cached_property
    def sent(self) -> dict[str, int]:
        """How many messages the process sent to each group; refuses numbers that do not follow each other."""
        sent: dict[str, int] = {}
        for piece in self.pieces:
            number, count = piece["send_number"], piece["send_count"]
            expected = np.zeros_like(number)
            for place, group in enumerate(piece["send_groups"]):
                own = np.flatnonzero(piece["send_group"] == place)
                ends = sent.get(group, 0) + np.cumsum(count[own])
                expected[own] = ends - count[own] + 1
                sent[group] = int(ends[-1])
            wrong = np.flatnonzero(number != expected)
            if len(wrong):
                group = piece["send_groups"][piece["send_group"][wrong[0]]]
                raise UnusableHistoryError(
                    None,
                    f"the log of {self.process} sends message {number[wrong[0]]} to {group} where "
                    f"{expected[wrong[0]]} should come; a sender numbers its messages to a group 1, 2, 3…",
                )
        return sent

    @property
    def rows(self) -> int:
        return int(self.pieces[-1]["known_end"]) if self.pieces else 0

    @property
    def open(self) -> bool:
        """Whether there may have been more than is on record."""
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

    def completed_ends(self) -> dict[str, int]:
        """By group, the index from which on it is not on record that the process completed its view."""
        last_view = {view["group"]: view["index"] for piece in self.pieces for view in piece["views"]}
        endless = set(last_view) if self.ending in (QUIET, LEFT) else set(self.left)
        return last_view | dict.fromkeys(endless, ENDLESS)


def gather_logs(
    summaries: Iterable[Summary], unfinished: Mapping[tuple[str, str], str]
) -> dict[str, dict[str, LogFacts]]:
    """run → process → log, with those that are missing but named by others; `unfinished`: cut short, and why."""
    pieces: dict[str, dict[str, list[Summary]]] = defaultdict(lambda: defaultdict(list))
    for summary in summaries:
        pieces[summary["run"]][summary["process"]].append(summary)
    for run, process in unfinished:
        pieces[run].setdefault(process, [])
    result: dict[str, dict[str, LogFacts]] = {}
    for run, of_run in sorted(pieces.items()):
        logs = {
            process: _log_facts(process, of_log, unfinished.get((run, process)))
            for process, of_log in sorted(of_run.items())
        }
        for process in sorted(_named(logs.values()) - logs.keys()):
            logs[process] = LogFacts(process, (), MISSING)
        result[run] = logs
    return result


def _log_facts(process: str, pieces: list[Summary], cause: str | None) -> LogFacts:
    known: list[Summary] = []
    whole = cause is None
    expected = 0
    for piece in sorted(pieces, key=lambda piece: int(piece["first_index"])):
        if piece["first_index"] != expected:
            whole = False
            break
        if piece["early_end"] or (known and known[-1]["end_kind"] in ("stop", "crash")):
            raise UnusableHistoryError(None, f"the log of {process} goes on after its stop or crash row")
        known.append(piece)
        expected = piece["known_end"]
        if piece["has_gap"]:
            whole = False
            break
    behind = sum(piece["rows"] for piece in pieces) - expected
    return LogFacts(process, with_departures(known), _ending(known, whole), _left(known), behind, cause or "")


def _left(known: list[Summary]) -> dict[str, int]:
    """The first note that the process left a group behind the last view row of that group."""
    last_view = {view["group"]: view["index"] for piece in known for view in piece["views"]}
    left: dict[str, int] = {}
    for piece in known:
        for note in piece["left"]:
            if note["index"] > last_view.get(note["group"], -1):
                left.setdefault(note["group"], note["index"])
    return left


def _ending(known: list[Summary], whole: bool) -> str:
    if not known:
        return MISSING
    kind, label = known[-1]["end_kind"], known[-1]["end_label"]
    if not whole or kind not in ("stop", "crash"):
        return CUT_SHORT
    if kind == "crash":
        return CRASHED
    return label if label in (QUIET, LEFT) else f"stopped: {label}"


def _named(logs: Iterable[LogFacts]) -> set[str]:
    """Every process that a view or a delivery names."""
    pieces = [piece for log in logs for piece in log.pieces]
    members = {member for piece in pieces for view in piece["views"] for member in view["members"]}
    return members | {delivered["sender"] for piece in pieces for delivered in piece["delivered"]}
