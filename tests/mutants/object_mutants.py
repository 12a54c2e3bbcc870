"""Replicated objects in groups broken on purpose, hunted with whole programs in virtual time; a few on the table."""

import asyncio
import os
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from antiphon.toolkit import durability, group_copy, object_log, object_state
from antiphon.toolkit.durability import FileContent, RestartDecision
from antiphon.toolkit.group_copy import GroupCopy
from antiphon.toolkit.object_log import ObjectLog
from antiphon.toolkit.object_messages import CallPack, DiskReport, EpochPromise
from antiphon.toolkit.own_calls import resolve
from antiphon.toolkit.ready_made import ReplicatedCounter, ReplicatedSet
from tests.mutants.runtime_mutants import ANYTHING, RuntimeMutant

MEMORY: Final = ("ledger",)
DISK: Final = ("durable_ledger",)
MERGING: Final = ("merging_objects",)

_post = GroupCopy._post
_execute = GroupCopy._execute
_restore = GroupCopy.restore
_decide = durability.decide


# ---- in memory ------------------------------------------------------------------------------------------------------


def _send_in_causal_order(self: GroupCopy, message: Any, order: Any = None) -> None:
    """Operations have no one order."""
    _post(self, message, "causal" if isinstance(message, CallPack) else order)


async def _read_at_once(self: GroupCopy, consistency: str) -> None:
    """An agreed reading is a local one."""


def _join_without_the_state(self: GroupCopy, state: bytes) -> None:
    before = object_state.encode_state(self._target)
    _restore(self, state)
    if self._restart is None:
        object_state.adopt(self._target, object_state.decode_state(self._target, before))


def _execute_own_twice(self: GroupCopy, sender: Any, pack: CallPack) -> None:
    """A call of a pack with several is executed again for each of them."""
    _execute(self, sender, pack)
    if len(pack.calls) > 1:
        for call in pack.calls[1:]:
            self._execute_call(call)


def _answer_the_next_call(self: GroupCopy, sender: Any, pack: CallPack) -> None:
    """Results go to the wrong callers where several calls share a pack."""
    if len(pack.calls) > 1 and sender == self.tools.process:
        first, last = pack.first, pack.first + len(pack.calls) - 1
        calls = self._calls.open
        if first in calls and last in calls:
            calls[first], calls[last] = calls[last], calls[first]
    _execute(self, sender, pack)


# ---- on disk --------------------------------------------------------------------------------------------------------


def _acknowledge_at_once(self: GroupCopy) -> None:
    """A call returns before it is on any disk."""
    while self._unacknowledged:
        _, future, result, error = self._unacknowledged.popleft()
        resolve(future, result, error)


def _execute_and_acknowledge(self: GroupCopy, sender: Any, pack: CallPack) -> None:
    _execute(self, sender, pack)
    _acknowledge_at_once(self)


def _one_disk_is_enough(reports: dict[str, int], bases: Sequence[Sequence[str]]) -> int:
    return max(reports.values(), default=0)


async def _report_before_the_sync(self: GroupCopy) -> None:
    """The others are told what is on disk before it is."""
    assert self._file is not None
    while True:
        await self._dirty.wait()
        self._dirty.clear()
        epoch, index, promised = self._epoch, self._index, self._promised
        if self._restart is None and index:
            self._post(DiskReport(epoch, index), "causal")
            self._note_report(self.tools.process, index)
        elif self._restart is not None and self._restart.decision is not None:
            self._post(EpochPromise(self._restart.view_id, promised), "safe")
        await asyncio.sleep(0.3)
        await self._file.sync()


def _write_without_sync(self: ObjectLog) -> None:
    """What is written stays in the cache."""
    with self._writing:
        while self._batches:
            framed, replaces = self._batches.popleft()
            if replaces:
                self._write_anew(b"".join(framed))
            else:
                os.write(self._file, b"".join(framed))


def _shortest_wins(known: dict[str, FileContent], ranks: Sequence[str]) -> str:
    return min(known, key=lambda name: (known[name].is_new, known[name].epoch, known[name].index))


def _oldest_wins(known: dict[str, FileContent], ranks: Sequence[str]) -> str:
    """The file of the member that founded the group anew, whatever it holds."""
    return min(known, key=ranks.index)


def _no_quorum_needed(present: Any, bases: Sequence[Sequence[str]]) -> bool:
    """Whoever is there decides."""
    return True


def _load_the_snapshot_alone(self: GroupCopy, record: Any) -> None:
    """What was written since the snapshot is not executed again."""
    if not isinstance(record, object_log.PackRecord):
        _replay(self, record)
    else:
        self._index = record.index
        self._operations += 1


_replay = GroupCopy._replay


def _keep_nothing(self: GroupCopy, record: Any) -> None:
    """Packs are not written."""
    if isinstance(record, object_log.PackRecord):
        self._dirty.set()
    else:
        _write(self, record)


_write = GroupCopy._write


# ---- merging --------------------------------------------------------------------------------------------------------


def _first_wins(components: Any) -> dict[str, Any]:
    """The state of one component, whatever the others had."""
    state: dict[str, Any] = components[0].state
    return state


def _add_up(components: Any) -> dict[str, Any]:
    """What was added before the components parted is counted once for each."""
    amounts: dict[str, tuple[int, int]] = {}
    for component in components:
        for author, (count, total) in component.state["amounts"].items():
            before = amounts.get(author, (0, 0))
            amounts[author] = (before[0] + count, before[1] + total)
    return {"amounts": amounts}


# ---- on the table ---------------------------------------------------------------------------------------------------


def _last_base_alone(present: Any, bases: Sequence[Sequence[str]]) -> bool:
    """Only the last view is asked."""
    return durability.is_quorum(present, bases[-1]) if bases else True


def _half_is_enough(present: Any, view: Sequence[object]) -> bool:
    """Any half of a view counts as a quorum, so two of them need not meet."""
    return 2 * sum(name in present for name in view) >= len(view) > 0


def _count_new_files(known: dict[str, FileContent], winner: FileContent) -> set[str]:
    """A member that lost its disk counts."""
    return set(known)


def _epoch_above_files(known: dict[str, FileContent], ranks: Sequence[str], forced: bool) -> RestartDecision | None:
    """A new epoch is above those of files, and not above those that were promised."""
    decision = _decide(known, ranks, forced)
    if decision is None:
        return None
    return RestartDecision(decision.winner, 1 + max(each.epoch for each in known.values()), decision.bases)


def _rule(name: str) -> Callable[[], str]:
    """What a test of the rules says."""

    def play() -> str:
        from tests.toolkit import test_durability

        return _said_by(getattr(test_durability, name))

    return play


def _copies(name: str) -> Callable[[], str]:
    """What a test of copies on disk says."""

    def play() -> str:
        from tests.toolkit import test_group_copy

        with TemporaryDirectory() as directory:
            return _said_by(partial(getattr(test_group_copy, name), Path(directory)))

    return play


def _said_by(test: Callable[[], None]) -> str:
    try:
        test()
    except Exception as error:
        return f"{type(error).__name__}: {error}"[:200]
    return ""


OBJECT_STAGED: Final = {
    "one disk is enough": _copies("test_a_call_waits_for_enough_disks"),
    "calls return before they are on disk": _copies("test_a_call_waits_for_enough_disks"),
    "only the snapshot is loaded": _copies("test_the_state_outlives_all_members"),
    "operations are not written": _copies("test_the_state_outlives_all_members"),
    "the shortest file wins": _rule("test_the_longest_file_wins_when_a_quorum_of_its_bases_is_there"),
    "the file of the oldest member wins": _rule("test_the_longest_file_wins_when_a_quorum_of_its_bases_is_there"),
    "whoever is there decides": _rule("test_the_longest_file_wins_when_a_quorum_of_its_bases_is_there"),
    "only the last view is asked at a restart": _rule("test_every_base_needs_a_quorum"),
    "any half is a quorum": _rule("test_two_quorums_of_a_view_meet"),
    "lost disks count at a restart": _rule("test_new_files_count_until_there_is_something_to_lose"),
    "an epoch that was promised is used again": _rule("test_a_higher_epoch_wins_over_a_higher_index"),
}


def _object(name: str, programs: tuple[str, ...], *patches: tuple[Any, str, Any]) -> RuntimeMutant:
    return RuntimeMutant(name, (ANYTHING,), patches, programs=programs)


OBJECT_MUTANTS: Final = (
    _object("operations in causal order", MEMORY, (GroupCopy, "_post", _send_in_causal_order)),
    _object("an agreed reading is local", MEMORY, (GroupCopy, "catch_up", _read_at_once)),
    _object("a copy joins without the state", MEMORY, (GroupCopy, "restore", _join_without_the_state)),
    _object("calls of a pack are executed twice", MEMORY, (GroupCopy, "_execute", _execute_own_twice)),
    _object("results go to the wrong callers", MEMORY, (GroupCopy, "_execute", _answer_the_next_call)),
    _object("calls return before they are on disk", DISK, (GroupCopy, "_execute", _execute_and_acknowledge)),
    _object("one disk is enough", DISK, (group_copy, "index_on_disks", _one_disk_is_enough)),
    _object("disks are reported before they are synced", DISK, (GroupCopy, "_keep_synced", _report_before_the_sync)),
    _object("files are not synced", DISK, (ObjectLog, "_write", _write_without_sync)),
    _object("the shortest file wins", DISK, (durability, "longest", _shortest_wins)),
    _object("the file of the oldest member wins", DISK, (durability, "longest", _oldest_wins)),
    _object("whoever is there decides", DISK, (durability, "have_quorums", _no_quorum_needed)),
    _object("only the snapshot is loaded", DISK, (GroupCopy, "_replay", _load_the_snapshot_alone)),
    _object("operations are not written", DISK, (GroupCopy, "_write", _keep_nothing)),
    _object("sets of one component survive a merge", MERGING, (ReplicatedSet, "merge_rule", staticmethod(_first_wins))),
    _object("a merge counts twice", MERGING, (ReplicatedCounter, "merge_rule", staticmethod(_add_up))),
    _object("only the last view is asked at a restart", DISK, (durability, "have_quorums", _last_base_alone)),
    _object("any half is a quorum", DISK, (durability, "is_quorum", _half_is_enough)),
    _object("lost disks count at a restart", DISK, (durability, "counted", _count_new_files)),
    _object("an epoch that was promised is used again", DISK, (durability, "decide", _epoch_above_files)),
)
