"""The manifest: what a history held when it was closed, in `manifest.json` beside its files.

    {"schema": 2, "runs": ["r"], "processes": ["a/1", "b/1"], "files": [{"name": "a-1-00000.parquet", "rows": 5}, …]}

Whoever closes a history writes it. Reading works without it: the members of a group may each write their own files, and
a run that was killed is closed by nobody. Where there is one, it is held against the files: a listed file that is gone
was lost, so the log that it belongs to counts as cut short; a file with other rows than listed is refused. Files that
are not listed came later and are read like any other.
"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Self

import pyarrow as pa
import pyarrow.parquet as pq

from antiphon.history.errors import UnusableHistoryError
from antiphon.history.schema import SCHEMA_VERSION
from antiphon.history.segments import SUFFIX
from antiphon.history.versions import check_version

NAME: Final = "manifest.json"
BYTES_MAX: Final = 256 * 1024 * 1024


@dataclass(frozen=True)
class Manifest:
    """What a manifest says of the files beside it."""

    file: Path
    rows: dict[str, int]
    """By name of file."""

    @classmethod
    def read(cls, file: Path) -> Self:
        try:
            if file.stat().st_size > BYTES_MAX:
                raise UnusableHistoryError(file, f"it is longer than {BYTES_MAX} bytes; it can be taken away")
            document = json.loads(file.read_bytes())
        except ValueError as error:
            raise UnusableHistoryError(file, f"it is no JSON document ({error}); it can be taken away") from None
        version = document.get("schema") if isinstance(document, dict) else None
        listed = document.get("files") if isinstance(document, dict) else None
        if not isinstance(version, int) or not isinstance(listed, list) or not all(map(_is_entry, listed)):
            problem = 'it lacks a "schema" version or a list "files" of {"name", "rows"}; it can be taken away'
            raise UnusableHistoryError(file, problem)
        try:
            check_version(version)
        except UnusableHistoryError as error:
            raise UnusableHistoryError(file, error.problem) from None
        return cls(file, {entry["name"]: entry["rows"] for entry in listed})

    def missing(self) -> list[Path]:
        """Files that are listed and gone."""
        return [path for name in sorted(self.rows) if not (path := self.file.with_name(name)).exists()]

    def check(self, file: Path, rows: int) -> None:
        """Refuse a file of this directory that has other rows than listed."""
        listed = self.rows.get(file.name)
        if listed is not None and listed != rows:
            problem = f"it holds {rows} rows, but {NAME} lists {listed}; take the changed file, or {NAME}, away"
            raise UnusableHistoryError(file, problem)


def close_history(directory: Path) -> None:
    """Write a manifest into each folder of a history that holds any of its files."""
    for folder in sorted({file.parent for file in directory.rglob(f"*{SUFFIX}")}):
        _write(folder)


def _write(folder: Path) -> None:
    runs: set[str] = set()
    processes: set[str] = set()
    listed = []
    for file in sorted(folder.glob(f"*{SUFFIX}")):
        try:
            table = pq.read_table(file, columns=["run", "process", "incarnation"], partitioning=None)
        except pa.ArrowInvalid:
            continue  # cut short: it is no part of what was closed, and the reader will see to it
        owners = table.group_by(table.column_names).aggregate([]).to_pylist()
        runs |= {owner["run"] for owner in owners}
        processes |= {f"{owner['process']}/{owner['incarnation']}" for owner in owners}
        listed.append({"name": file.name, "rows": len(table)})
    document = {"schema": SCHEMA_VERSION, "runs": sorted(runs), "processes": sorted(processes), "files": listed}
    partial = folder / f".{NAME}.partial"
    partial.write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    partial.replace(folder / NAME)


def _is_entry(entry: Any) -> bool:
    if not isinstance(entry, dict):
        return False
    name, rows = entry.get("name"), entry.get("rows")
    return isinstance(name, str) and Path(name).name == name and isinstance(rows, int)
