"""Reading a history: which files belong to it, whether they can be used, and rows by row group.

A file that is not what it should be is refused with a sentence that says why. A file that was being written when
its process died is no error: `….parquet.partial`, or a `….parquet` that begins like one and has no end. It is left
over, and the log that it belongs to was cut short. So it is with a file that a manifest lists and that is gone
(`antiphon.history.manifest`), and so with a log of which a row group cannot be read, because bytes of it are damaged;
where pages carry checksums, as those of the recorder do, no damage in them goes unnoticed. Only if nothing at all can
be read is the history unusable.

Memory: one row group at a time, except for `read_rows`, which is meant for small histories.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, NamedTuple, Self

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq
from pyarrow.fs import LocalFileSystem

from antiphon.history.errors import DamagedRowGroupError, UnusableHistoryError
from antiphon.history.manifest import NAME, Manifest
from antiphon.history.schema import SCHEMA, SCHEMA_VERSION, Row
from antiphon.history.segments import PARTIAL, SUFFIX, log_of
from antiphon.history.validity import column_problems, row_problem
from antiphon.history.versions import upgrade, version_of

MAGIC: Final = b"PAR1"
LOG_COLUMNS: Final = ("run", "process", "incarnation")
CAUSE_LENGTH_MAX: Final = 120


@dataclass(frozen=True)
class Unit:
    """One row group of one file: the piece of work of a pass over a history."""

    file: str
    row_group: int
    first_row: int
    """How many rows of the file come before it."""
    rows: int


class RowSpan(NamedTuple):
    """The rows of one log in a row group."""

    run: str
    process: str
    incarnation: int
    first_index: int
    last_index: int


class HeldFile(NamedTuple):
    """A file that somebody else has read: its bytes, and the run of its rows where its folder tells that."""

    data: pa.Buffer
    run: str | None = None

    def whole(self, table: pa.Table) -> pa.Table:
        """A table with the column that the folder tells."""
        if self.run is None or "run" in table.column_names:
            return table
        return table.append_column("run", pa.array([self.run] * len(table), pa.string()))


class Damage(NamedTuple):
    """A row group that cannot be read, and why."""

    unit: Unit
    cause: str


@dataclass(frozen=True)
class HistoryFiles:
    """The files of a history, looked at but not yet read."""

    path: Path
    units: tuple[Unit, ...]
    leftovers: tuple[Path, ...]
    """Files that were being written when their process died, or that a manifest lists and that are gone."""
    damages: tuple[Damage, ...] = ()
    """The row groups that turned out to be damaged when they were read. They are not among the units."""

    @classmethod
    def open(cls, path: Path | str) -> Self:
        """Look at a directory, with everything below it, or at one file."""
        path = Path(path)
        if not path.exists():
            raise UnusableHistoryError(path, "there is no such file or directory")
        found = sorted(path.rglob(f"*{SUFFIX}*")) if path.is_dir() else [path]
        files = [file for file in found if file.name.endswith((SUFFIX, SUFFIX + PARTIAL)) or file == path]
        manifests = [Manifest.read(file) for file in sorted(path.rglob(NAME))] if path.is_dir() else []
        units: list[Unit] = []
        leftovers = [gone for manifest in manifests for gone in manifest.missing()]
        if not files and not leftovers:
            raise UnusableHistoryError(path, f"the directory holds no history: no file in it ends with {SUFFIX}")
        listing = {manifest.file.parent: manifest for manifest in manifests}
        for file in files:
            own = None if file.name.endswith(PARTIAL) else units_of(file)
            if own is None:
                leftovers.append(file)
                continue
            if file.parent in listing:
                listing[file.parent].check(file, sum(unit.rows for unit in own))
            units.extend(own)
        if not units:
            raise UnusableHistoryError(path, _nothing_readable(leftovers))
        return cls(path, tuple(units), tuple(leftovers))

    @property
    def rows(self) -> int:
        return sum(unit.rows for unit in self.units)

    def without(self, damages: Iterable[Damage]) -> Self:
        """The rest, where some row groups cannot be read."""
        damages = (*self.damages, *damages)
        lost = {damage.unit for damage in damages}
        units = tuple(unit for unit in self.units if unit not in lost)
        if not units:
            raise UnusableHistoryError(self.path, f"no row group in it can be read: {damages[0].cause}")
        return replace(self, units=units, damages=damages)

    def checked(self) -> Self:
        """The rest, where some row groups cannot be read; reads them all to see."""
        damages = []
        for unit in self.units:
            try:
                read_unit(unit)
            except DamagedRowGroupError as error:
                damages.append(Damage(unit, error.problem))
        return self.without(damages) if damages else self

    def tables(self) -> Iterator[pa.Table]:
        """All rows, one row group at a time, checked."""
        return (read_unit(unit) for unit in self.units)

    def read_rows(self) -> list[Row]:
        """All rows at once."""
        return [row for table in self.tables() for row in rows_of_table(table)]

    def unfinished(self) -> dict[tuple[str, str], str]:
        """Of which logs a leftover or a damaged row group shows that they were cut short, and which it is.

        A log is named by its run and "name/incarnation". A leftover's name tells the process; its runs are those of
        the readable files beside it, or all runs where there are none. One that is not named as a segment stands for a
        log of its own. A damaged row group tells its log if that much can be read, or else by its file, as a leftover.
        """
        if not self.leftovers and not self.damages:
            return {}
        causes: dict[tuple[str, str], list[str]] = {}
        runs = self._runs_by_folder()
        for damage in self.damages:
            stretch = stretch_of(damage.unit)
            known = [(stretch.run, f"{stretch.process}/{stretch.incarnation}")] if stretch else None
            for log in known or _logs_by_name(Path(damage.unit.file), runs):
                causes.setdefault(log, []).append(extent_text(damage, stretch))
        for leftover in self.leftovers:
            for log in _logs_by_name(leftover, runs):
                causes.setdefault(log, []).append(_leftover_text(leftover))
        return {log: " and ".join(texts) for log, texts in causes.items()}

    def _runs_by_folder(self) -> dict[Path, set[str]]:
        runs: dict[Path, set[str]] = {}
        for unit in self.units:
            stretch = stretch_of(unit)
            names = {stretch.run} if stretch else set(pc.unique(read_places(unit)["run"]).to_pylist())
            runs.setdefault(Path(unit.file).parent, set()).update(names)
        return runs

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
        row_groups: dict[str, list[int]] = {}
        for unit in self.units:
            row_groups.setdefault(unit.file, []).append(unit.row_group)
        system, parquet = LocalFileSystem(), ds.ParquetFileFormat()
        parts = [parquet.make_fragment(file, system, row_groups=own) for file, own in sorted(row_groups.items())]
        dataset = ds.FileSystemDataset(parts, SCHEMA, parquet, system)
        return min(rows_of_table(dataset.to_table(filter=chosen)), key=lambda row: row.index, default=None)


def _in_log(run: str, process: str) -> pc.Expression:
    name, _, incarnation = process.rpartition("/")
    of_run = (pc.field("run") == run) & (pc.field("process") == name)
    return of_run & (pc.field("incarnation") == int(incarnation))


def units_of(file: Path, held: HeldFile | None = None) -> list[Unit] | None:
    """The row groups of a file, or None if the file was cut short. Where it is held, its bytes are not read again."""
    try:
        beginning = _beginning(file) if held is None else held.data[: len(MAGIC)].to_pybytes()
        metadata = pq.read_metadata(_source(file, held)) if beginning == MAGIC else None
        schema = metadata.schema.to_arrow_schema() if metadata is not None else None
    except (pa.ArrowException, UnicodeDecodeError):
        return None
    except OSError as error:
        if error.errno is None:  # Arrow's word for an end that makes no sense
            return None
        raise UnusableHistoryError(file, f"it cannot be read: {error.strerror or error}") from error
    if metadata is None or schema is None:
        if beginning and not MAGIC.startswith(beginning):
            raise UnusableHistoryError(file, "it is no Parquet file; take it away or name another directory")
        return None
    _check_schema(file, schema if held is None else held.whole(schema.empty_table()).schema, metadata.metadata)
    units: list[Unit] = []
    first_row = 0
    for place in range(metadata.num_row_groups):
        rows = metadata.row_group(place).num_rows
        if rows:
            units.append(Unit(str(file), place, first_row, rows))
        first_row += rows
    return units


def _beginning(file: Path) -> bytes:
    with file.open("rb") as stream:
        return stream.read(len(MAGIC))


def _source(file: Path, held: HeldFile | None) -> Path | pa.BufferReader:
    return file if held is None else pa.BufferReader(held.data)


def _check_schema(file: Path, schema: pa.Schema, metadata: Mapping[bytes, bytes] | None) -> None:
    try:
        version = version_of({**(schema.metadata or {}), **(metadata or {})})
    except UnusableHistoryError as error:
        raise UnusableHistoryError(file, error.problem) from None
    if version < SCHEMA_VERSION:
        schema = upgrade(schema.empty_table(), version).schema
    if problems := column_problems(schema):
        more = f" and {len(problems) - 3} more" if len(problems) > 3 else ""
        raise UnusableHistoryError(file, f"it is no history of Antiphon: {', '.join(problems[:3])}{more}")


def _nothing_readable(leftovers: list[Path]) -> str:
    if not leftovers:
        return "the history holds no rows at all"
    example = leftovers[0].name
    if not leftovers[0].exists():
        return f"no file in it can be read: {example}, which {NAME} lists, is gone; bring it back"
    return f"no file in it can be read: {example} was cut short before it was complete; record the run again"


def stretch_of(unit: Unit, held: HeldFile | None = None) -> RowSpan | None:
    """Whose rows a row group holds, and which; None if they are of several logs, or not even that can be read."""
    try:
        return stretch_of_places(read_places(unit, held))
    except DamagedRowGroupError:
        return None


def stretch_of_places(table: pa.Table) -> RowSpan | None:
    """The same, of what `read_places` gave."""
    names = [pc.unique(table[column]) for column in LOG_COLUMNS]
    if any(len(distinct) != 1 for distinct in names):
        return None
    run, process, incarnation = (distinct[0].as_py() for distinct in names)
    bounds = pc.min_max(table["index"]).as_py()
    return RowSpan(run, process, incarnation, bounds["min"], bounds["max"])


def stretches(unit: Unit) -> list[RowSpan]:
    """Of each log in a row group; rows that name none are left out. Raises DamagedRowGroupError."""
    table = read_places(unit).drop_null()
    if stretch := stretch_of_places(table):
        return [stretch]
    table = table.cast(pa.schema([(name, SCHEMA.field(name).type) for name in table.column_names]))
    grouped = table.group_by(list(LOG_COLUMNS)).aggregate([("index", "min"), ("index", "max")])
    names = (*LOG_COLUMNS, "index_min", "index_max")
    return [RowSpan(*(row[name] for name in names)) for row in grouped.to_pylist()]


def read_places(unit: Unit, held: HeldFile | None = None) -> pa.Table:
    """Of each row of a row group, which log it is in, and its index there.

    Read from the rows, not from the file's statistics: damage there goes unnoticed, and Arrow may end the process.
    """
    return _read(unit, _PLACES, held=held)


def read_unit(unit: Unit, columns: Sequence[str] | None = None, held: HeldFile | None = None) -> pa.Table:
    """The rows of one row group, as SCHEMA has them; refused if a row makes no sense.

    Raises DamagedRowGroupError where the bytes are not what was written. Who has read all of it once may read some
    columns again, by name; these are then not checked any more.
    """
    if columns is not None:
        return _read(unit, pa.schema([_NULLABLE.field(name) for name in columns]), checked=False)
    table = _read(unit, _NULLABLE, held=held)
    if problem := row_problem(table):
        raise UnusableHistoryError(Path(unit.file), f"row {unit.first_row + problem[0]} makes no sense: {problem[1]}")
    return table


def _read(unit: Unit, schema: pa.Schema, checked: bool = True, held: HeldFile | None = None) -> pa.Table:
    """Some columns, in these types."""
    file = Path(unit.file)
    encoded = [field.name for field in schema if pa.types.is_dictionary(field.type)]
    try:
        with pq.ParquetFile(
            _source(file, held), page_checksum_verification=checked, read_dictionary=encoded
        ) as parquet:
            version = version_of({**(parquet.schema_arrow.metadata or {}), **(parquet.metadata.metadata or {})})
            wanted = schema.names if version == SCHEMA_VERSION else None
            table = upgrade(parquet.read_row_group(unit.row_group, columns=wanted, use_threads=False), version)
        table = (table if held is None else held.whole(table)).select(schema.names).cast(schema)
        if checked:
            table.validate(full=True)
    except (pa.ArrowException, OSError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise UnusableHistoryError(file, f"it cannot be read: {error.strerror}") from error
        cause = " ".join(str(error).split())[:CAUSE_LENGTH_MAX]
        raise DamagedRowGroupError(file, unit.row_group, f"cannot be read ({cause})") from error
    if len(table) != unit.rows:
        raise DamagedRowGroupError(file, unit.row_group, f"holds {len(table)} rows instead of {unit.rows}")
    return table


def _logs_by_name(file: Path, runs: Mapping[Path, set[str]]) -> list[tuple[str, str]]:
    """The logs to which a file belongs by its name and by the files beside it."""
    log = log_of(file)
    process = f"{log[0]}/{log[1]}" if log else file.name
    return sorted((run, process) for run in runs.get(file.parent, set().union(*runs.values())))


def _leftover_text(file: Path) -> str:
    if file.name.endswith(PARTIAL):
        return f"{file.name} was never completed"
    if not file.exists():
        return f"{file.name}, which {NAME} lists, is gone"
    return f"{file.name} has no readable end" if file.stat().st_size else f"{file.name} is empty"


def extent_text(damage: Damage, stretch: RowSpan | None) -> str:
    """Which rows are lost, in words."""
    first, last = damage.unit.first_row, damage.unit.first_row + damage.unit.rows - 1
    which = (
        f"rows {first} to {last} of the file" if stretch is None else f"rows {stretch[3]} to {stretch[4]} of the log"
    )
    return f"{which} are damaged: {Path(damage.unit.file).name}, {damage.cause}"


def rows_of_table(table: pa.Table) -> list[Row]:
    """The rows as plain values."""
    columns = [table[name].to_pylist() for name in SCHEMA.names]
    for name in ("members", "destinations"):
        place = SCHEMA.get_field_index(name)
        columns[place] = [None if names is None else tuple(names) for names in columns[place]]
    return [Row(*cells) for cells in zip(*columns, strict=True)]


_NULLABLE: Final = pa.schema([field.with_nullable(True) for field in SCHEMA])
"""To read what others wrote: nulls where there should be none are a matter of `row_problem`, not of Arrow."""

_NAME: Final = pa.dictionary(pa.int32(), pa.string())
_PLACES: Final = pa.schema([("run", _NAME), ("process", _NAME), ("incarnation", pa.int64()), ("index", pa.int64())])
"""Names as they lie in the file, each once: that is quickly looked through."""
