"""The incremental audit: what an audit found is kept beside the history, and the next one reads only what is new.

Kept are, in the folder `.antiphon-audit` of the history,

* the summary of each task, under the content of its row groups;
* the judgement of each task, under that content and a digest of all else that it hangs on
  (`antiphon.pipeline.audit.fingerprint`);
* the rows that were looked at once more, under that content and what was asked for.

So nothing is ever believed because of a name or a date: a file counts as known if it has the same bytes, all of which
are read to see it, and a judgement counts as known if everything that could change it is the same. What the driver does
between the passes, it does again. A state that is damaged, of another schema, or made by other code is thrown away
with a note that says so; so is what was known of files that have changed or gone.

`state.json` names the files of the state and of the history; it is written last, and by renaming. One audit at a
time may work with a state: it holds a lock on the folder.
"""

import fcntl
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa

from antiphon.history.reader import HistoryFiles
from antiphon.kernel.errors import UsageError
from antiphon.pipeline.audit.fingerprint import Fingerprints, joined
from antiphon.pipeline.audit.judge import JUDGED, PieceKnowledge
from antiphon.pipeline.audit.logs import LogFacts
from antiphon.pipeline.audit.pieces import FileTask
from antiphon.pipeline.audit.preparation import RunFacts
from antiphon.pipeline.audit.row_queries import QUERIED_ROWS, RowQueries, RowQuery
from antiphon.pipeline.audit.summary import SUMMARY, Summary
from antiphon.pipeline.promises import Promises
from antiphon.pipeline.result_store import SUFFIX, DamagedStoreError, ResultStore, digest_of_file, digest_of_files

STATE_FOLDER: Final = ".antiphon-audit"
STATE_FILE: Final = "state.json"
LOCK: Final = "lock"
STATE_VERSION: Final = 1

SUMMARIES: Final = "summaries"
JUDGEMENTS: Final = "judgements"
QUERIED: Final = "results"
TASK: Final = pa.field("task", pa.int64())
"""Which task a row comes from: the column by which rows are put away, and by which they come back."""
SCHEMAS: Final = {SUMMARIES: SUMMARY, JUDGEMENTS: JUDGED.append(TASK), QUERIED: QUERIED_ROWS.append(TASK)}

Make = Callable[[list[int]], pa.Table]
"""Does the work for some tasks, by their places; each row says in the column `task` for which."""


@dataclass
class Reuse:
    """How much an incremental audit could build on the one before."""

    row_groups: int = 0
    """In the history."""
    summarised: int = 0
    """Row groups that were read by the first pass, because they are new."""
    judged: int = 0
    """Row groups that were read by the second pass, because they are new or what they hang on has changed."""
    looked_at: int = 0
    """Row groups from which single rows were read once more."""
    notes: list[str] = field(default_factory=list)
    """What was thrown away, and why."""

    def sentence(self) -> str:
        return (
            f"of {self.row_groups:,} row groups, {self.summarised:,} were read as new, {self.judged:,} judged, "
            f"and {self.looked_at:,} looked at once more; the rest is known from an earlier audit"
        )


class Increment:
    """What is known when an audit begins, and what it adds. Made by `opened`."""

    def __init__(self, history: HistoryFiles, tasks: Sequence[FileTask], folder: Path) -> None:
        self.reuse = Reuse(row_groups=len(history.units))
        self._folder = folder
        self._tasks = tasks
        self._files = _describe(history)
        digests = {file: facts["digest"] for file, facts in self._files.items()}
        names = {unit.file: str(Path(unit.file).relative_to(history.path)) for unit in history.units}
        self._keys = [joined(f"{digests[names[unit.file]]} {unit.row_group}" for unit in task) for task in tasks]
        self._stores = self._read()

    def summaries(self, make: Make) -> pa.Table:
        """Rows of SUMMARY for all tasks."""
        keys = dict(enumerate(self._keys))
        table, read = self._recall(SUMMARIES, keys, make)
        self.reuse.summarised += read
        return table

    def judgements(self, runs: Mapping[str, RunFacts], promises: Promises, make: Make) -> pa.Table:
        """Rows of JUDGED for all tasks."""
        hangs_on: dict[int, list[str]] = {place: [] for place in range(len(self._tasks))}
        for run in runs.values():
            fingerprints = Fingerprints(run.order, run.positions, promises)
            for log in run.logs.values():
                for piece, known in PieceKnowledge.of_log(log, run.order):
                    hangs_on[piece["task"]].append(fingerprints.of(piece, known))
        keys = {place: joined([self._keys[place], *sorted(own)]) for place, own in hangs_on.items()}
        table, read = self._recall(JUDGEMENTS, keys, make)
        self.reuse.judged += read
        return table

    def results(self, queries: RowQueries, logs: Mapping[str, Mapping[str, LogFacts]], make: Make) -> pa.Table:
        """Rows of QUERIED_ROWS for all tasks that may hold what is wished for."""
        asked: dict[int, list[str]] = {}
        for (run, process), own in sorted(queries.items()):
            for piece in logs[run][process].pieces:
                if within := sorted({repr(query) for query in _clipped(own, piece)}):
                    asked.setdefault(piece["task"], []).append(joined([run, process, *within]))
        keys = {place: joined([self._keys[place], *own]) for place, own in sorted(asked.items())}
        table, read = self._recall(QUERIED, keys, make)
        self.reuse.looked_at += read
        return table

    def save(self) -> None:
        """Keep what was used and made; what was not used is of no use any more."""
        stores = {kind: store.write(self._folder) for kind, store in self._stores.items()}
        manifest = {"version": STATE_VERSION, "code": code_digest(), "files": self._files, "stores": stores}
        fresh = self._folder / f"{STATE_FILE}.new"
        fresh.write_text(json.dumps(manifest, indent=1) + "\n")
        fresh.rename(self._folder / STATE_FILE)
        for file in self._folder.glob(f"*{SUFFIX}"):
            if file.name not in stores.values():
                file.unlink()

    def _recall(self, kind: str, keys: Mapping[int, str], make: Make) -> tuple[pa.Table, int]:
        """The rows of some tasks, made where they are not known; and how many row groups were read for it."""
        store, schema = self._stores[kind], SCHEMAS[kind]
        missing = [place for place, key in keys.items() if key not in store]
        if missing:
            for place, rows in _by_task(make(missing), missing):
                store.put(keys[place], rows)
        column = schema.get_field_index("task")
        parts = [
            batch.set_column(column, TASK, pa.array([place] * len(batch), pa.int64()))
            for place, key in keys.items()
            if len(batch := store.take(key))
        ]
        return pa.Table.from_batches(parts, schema), sum(len(self._tasks[place]) for place in missing)

    def _read(self) -> dict[str, ResultStore]:
        """What is known, as far as it can be believed."""
        empty = {kind: ResultStore(schema) for kind, schema in SCHEMAS.items()}
        file = self._folder / STATE_FILE
        if not file.exists():
            return empty
        try:
            manifest = json.loads(file.read_text())
            if manifest["version"] != STATE_VERSION or manifest["code"] != code_digest():
                raise DamagedStoreError("it was made by another version")
            names = manifest["stores"]
            stores = {kind: ResultStore.read(self._folder, names[kind], schema) for kind, schema in SCHEMAS.items()}
            self._note_changes(manifest["files"])
        except DamagedStoreError as error:
            problem = str(error)
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            problem = f"{STATE_FILE} cannot be read"
        else:
            return stores
        self.reuse.notes.append(f"what was kept of earlier audits is thrown away: {problem}")
        return empty

    def _note_changes(self, before: Mapping[str, Mapping[str, Any]]) -> None:
        """Say of which files something was known that is of no use any more."""
        for what, names in (
            ("has changed", sorted(n for n in before.keys() & self._files.keys() if before[n] != self._files[n])),
            ("is gone", sorted(before.keys() - self._files.keys())),
        ):
            if names:
                more = f" (and of {len(names) - 1} more)" if len(names) > 1 else ""
                self.reuse.notes.append(f"what was known of {names[0]} is thrown away{more}: it {what}")


@contextmanager
def opened(history: HistoryFiles, tasks: Sequence[FileTask]) -> Iterator[Increment]:
    """The state of a history, for one audit; saved if the audit comes to an end."""
    if not history.path.is_dir():
        raise UsageError(f"an incremental audit keeps its state in the history's directory; {history.path} is a file")
    folder = history.path / STATE_FOLDER
    try:
        folder.mkdir(exist_ok=True)
        lock = (folder / LOCK).open("w")
    except OSError as error:
        problem = f"an incremental audit keeps its state in {folder}, which cannot be written: {error.strerror}"
        raise UsageError(f"{problem}; audit without it, or copy the history") from error
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise UsageError(
                f"another incremental audit of {history.path} is at work; wait until it is done"
            ) from error
        increment = Increment(history, tasks, folder)
        yield increment
        increment.save()


def _by_task(rows: pa.Table, places: Sequence[int]) -> Iterator[tuple[int, pa.Table]]:
    """The rows of each task, also of those that have none."""
    rows = rows.take(np.argsort(rows["task"].to_numpy(), kind="stable"))
    bounds = np.searchsorted(rows["task"].to_numpy(), [[place, place + 1] for place in places])
    for place, (first, end) in zip(places, bounds.tolist(), strict=True):
        yield place, rows.slice(first, end - first)


def _clipped(queries: Sequence[RowQuery], piece: Summary) -> Iterator[RowQuery]:
    """What of the queries concerns a piece."""
    for query in queries:
        first = max(query.first_index, piece["first_index"])
        end = min(query.end_index, piece["known_end"])
        if first < end:
            yield query._replace(first_index=first, end_index=end)


def _describe(history: HistoryFiles) -> dict[str, dict[str, Any]]:
    """Each file of the history: its size, rows and row groups, and the digest of its bytes."""
    files: dict[str, dict[str, Any]] = {}
    for unit in history.units:
        file = Path(unit.file)
        name = str(file.relative_to(history.path))
        if name not in files:
            files[name] = {"bytes": file.stat().st_size, "digest": digest_of_file(file), "rows": 0, "row_groups": 0}
        files[name]["rows"] += unit.rows
        files[name]["row_groups"] += 1
    return files


def code_digest() -> str:
    """Of the code that audits: other code might find otherwise."""
    package = Path(__file__).parent.parent
    folders = (package / "history", package / "pipeline")
    return digest_of_files(file for folder in folders for file in sorted(folder.rglob("*.py")))
