"""Reading a history: which files belong to it, whether they can be used, and rows by row group.

A file that is not what it should be is refused with a sentence that says why. A file that was being written when
its process died is no error: `….parquet.partial`, or a `….parquet` that begins like one and has no end. It is left
over, and the log that it belongs to was cut short. Only if nothing at all can be read is the history unusable.

Memory: one row group at a time, except for `read_rows`, which is meant for small histories.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from antiphon.history.errors import UnusableHistoryError
from antiphon.history.schema import SCHEMA, Row
from antiphon.history.segments import PARTIAL, SUFFIX, log_of
from antiphon.history.start import check_version
from antiphon.history.validity import column_problems, row_problem

MAGIC: Final = b"PAR1"
VERSION_KEY: Final = b"antiphon.schema"


@dataclass(frozen=True)
class Unit:
    """One row group of one file: the piece of work of a pass over a history."""

    file: str
    row_group: int
    first_row: int
    """How many rows of the file come before it."""
    rows: int


@dataclass(frozen=True)
class History:
    """The files of a history, looked at but not yet read."""

    path: Path
    units: tuple[Unit, ...]
    leftovers: tuple[Path, ...]
    """Files that were being written when their process died."""

    @classmethod
    def open(cls, path: Path | str) -> Self:
        """Look at a directory, with everything below it, or at one file."""
        path = Path(path)
        if not path.exists():
            raise UnusableHistoryError(path, "there is no such file or directory")
        found = sorted(path.rglob(f"*{SUFFIX}*")) if path.is_dir() else [path]
        files = [file for file in found if file.name.endswith((SUFFIX, SUFFIX + PARTIAL)) or file == path]
        if not files:
            raise UnusableHistoryError(path, f"the directory holds no history: no file in it ends with {SUFFIX}")
        units: list[Unit] = []
        leftovers: list[Path] = []
        for file in files:
            own = None if file.name.endswith(PARTIAL) else _units_of(file)
            if own is None:
                leftovers.append(file)
            else:
                units.extend(own)
        if not units:
            raise UnusableHistoryError(path, _nothing_readable(leftovers))
        return cls(path, tuple(units), tuple(leftovers))

    @property
    def rows(self) -> int:
        return sum(unit.rows for unit in self.units)

    def tables(self) -> Iterator[pa.Table]:
        """All rows, one row group at a time, checked."""
        return (read_unit(unit) for unit in self.units)

    def read_rows(self) -> list[Row]:
        """All rows at once."""
        return [row for table in self.tables() for row in rows_of_table(table)]

    def unfinished(self) -> frozenset[tuple[str, str]]:
        """(run, "name/incarnation") of the logs to which leftovers belong.

        A leftover's name tells the process; its runs are those of the readable files beside it, or all runs where
        there are none. A leftover that is not named as a segment stands for a log of its own.
        """
        if not self.leftovers:
            return frozenset()
        runs: dict[Path, set[str]] = {}
        for file in sorted({unit.file for unit in self.units}):
            column = pq.read_table(file, columns=["run"])["run"]
            runs.setdefault(Path(file).parent, set()).update(pc.unique(column).to_pylist())
        everywhere = set().union(*runs.values())
        result = set()
        for leftover in self.leftovers:
            log = log_of(leftover)
            process = f"{log[0]}/{log[1]}" if log else leftover.name
            result |= {(run, process) for run in runs.get(leftover.parent, everywhere)}
        return frozenset(result)

    def first_delivery(self, run: str, process: str, group: str, sender: str, number: int) -> Row | None:
        """The row by which a process first delivered a message. Row groups that cannot hold it are not read."""
        name, _, incarnation = sender.rpartition("/")
        chosen = (
            _in_log(run, process)
            & (pc.field("kind") == "deliver")
            & (pc.field("group") == group)
            & (pc.field("sender") == name)
            & (pc.field("sender_incarnation") == int(incarnation))
            & (pc.field("number") <= number)
            & (pc.field("number") + pc.field("count") > number)
        )
        files = sorted({unit.file for unit in self.units})
        found = rows_of_table(ds.dataset(files, schema=SCHEMA, format="parquet").to_table(filter=chosen))
        return min(found, key=lambda row: row.index, default=None)


def _in_log(run: str, process: str) -> pc.Expression:
    name, _, incarnation = process.rpartition("/")
    of_run = (pc.field("run") == run) & (pc.field("process") == name)
    return of_run & (pc.field("incarnation") == int(incarnation))


def _units_of(file: Path) -> list[Unit] | None:
    """The row groups of a file, or None if the file was cut short."""
    try:
        with file.open("rb") as stream:
            beginning = stream.read(len(MAGIC))
        metadata = pq.read_metadata(file) if beginning == MAGIC else None
        schema = metadata.schema.to_arrow_schema() if metadata is not None else None
    except pa.ArrowInvalid:
        return None
    except OSError as error:
        raise UnusableHistoryError(file, f"it cannot be read: {error.strerror or error}") from error
    if metadata is None or schema is None:
        if beginning and not MAGIC.startswith(beginning):
            raise UnusableHistoryError(file, "it is no Parquet file; take it away or name another directory")
        return None
    _check_schema(file, schema, metadata.metadata)
    units: list[Unit] = []
    first_row = 0
    for place in range(metadata.num_row_groups):
        rows = metadata.row_group(place).num_rows
        if rows:
            units.append(Unit(str(file), place, first_row, rows))
        first_row += rows
    return units


def _check_schema(file: Path, schema: pa.Schema, metadata: Mapping[bytes, bytes] | None) -> None:
    version = ((metadata or {}).get(VERSION_KEY) or (schema.metadata or {}).get(VERSION_KEY) or b"1").decode()
    if not version.isdecimal():
        raise UnusableHistoryError(file, f"its schema version {version!r} is no number")
    try:
        check_version(int(version))
    except UnusableHistoryError as error:
        raise UnusableHistoryError(file, error.problem) from None
    if problems := column_problems(schema):
        more = f" and {len(problems) - 3} more" if len(problems) > 3 else ""
        raise UnusableHistoryError(file, f"it is no history of Antiphon: {', '.join(problems[:3])}{more}")


def _nothing_readable(leftovers: list[Path]) -> str:
    if not leftovers:
        return "the history holds no rows at all"
    example = leftovers[0].name
    return f"no file in it can be read: {example} was cut short before it was complete; record the run again"


def read_unit(unit: Unit, columns: Sequence[str] | None = None) -> pa.Table:
    """The rows of one row group, as SCHEMA has them; refused if a row makes no sense.

    Who has read all of it once may read some columns again, by name; these are then not checked any more.
    """
    file = Path(unit.file)
    names = SCHEMA.names if columns is None else list(columns)
    try:
        with pq.ParquetFile(file) as parquet:
            table = parquet.read_row_group(unit.row_group, columns=names, use_threads=False)
        table = table.select(names).cast(pa.schema([_NULLABLE.field(name) for name in names]))
    except (pa.ArrowException, OSError) as error:
        raise UnusableHistoryError(file, f"row group {unit.row_group} cannot be read ({error})") from error
    if columns is None and (problem := row_problem(table)):
        raise UnusableHistoryError(file, f"row {unit.first_row + problem[0]} makes no sense: {problem[1]}")
    return table


def rows_of_table(table: pa.Table) -> list[Row]:
    """The rows as plain values."""
    columns = [table[name].to_pylist() for name in SCHEMA.names]
    for name in ("members", "destinations"):
        place = SCHEMA.get_field_index(name)
        columns[place] = [None if names is None else tuple(names) for names in columns[place]]
    return [Row(*cells) for cells in zip(*columns, strict=True)]


_NULLABLE: Final = pa.schema([field.with_nullable(True) for field in SCHEMA])
"""To read what others wrote: nulls where there should be none are a matter of `row_problem`, not of Arrow."""
