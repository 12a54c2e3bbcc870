"""The reader: what it takes, what it refuses and in which words, and what a file cut short means."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from antiphon.history.errors import UnusableHistoryError
from antiphon.history.log import MemoryLog
from antiphon.history.reader import HistoryFiles, read_unit
from antiphon.history.schema import SCHEMA, Row


def make_table(process: str = "a", run: str = "r") -> pa.Table:
    log = MemoryLog(run=run, process=process)
    log.start(0, "g", "vector", "static", ["causal"], ["creation"])
    log.view(0, "g", 1, ["a/1", "b/1"])
    log.send(1, "g", 1, 1, 3, "causal", 30)
    log.deliver(2, "g", 1, "b", 1, 1, 2, "causal", 20)
    log.stop(3)
    return log.table()


def write(file: Path, table: pa.Table) -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(table, file)
    return file


def truncate(file: Path, size: int) -> None:
    file.write_bytes(file.read_bytes()[:size])


def with_column(name: str, values: list[object]) -> pa.Table:
    table = make_table()
    place = table.schema.get_field_index(name)
    return table.set_column(place, name, pa.array(values, SCHEMA.field(name).type))


def test_a_directory_is_read_whole(tmp_path: Path) -> None:
    write(tmp_path / "a-1-00000.parquet", make_table("a"))
    write(tmp_path / "deeper" / "b-1-00000.parquet", make_table("b"))
    (tmp_path / "README.txt").write_text("not part of it")
    history = HistoryFiles.open(tmp_path)
    assert history.rows == 10
    assert {row.process for row in history.read_rows()} == {"a", "b"}
    assert history.unfinished() == {}


def test_a_single_file_is_a_history(tmp_path: Path) -> None:
    file = write(tmp_path / "whatever", make_table())
    rows = HistoryFiles.open(file).read_rows()
    assert [row.kind for row in rows] == ["start", "view", "send", "deliver", "stop"]
    assert rows[1].members == ("a/1", "b/1")


def test_rows_come_by_row_group(tmp_path: Path) -> None:
    pq.write_table(make_table(), tmp_path / "a-1-00000.parquet", row_group_size=2)
    history = HistoryFiles.open(tmp_path)
    assert [len(read_unit(unit)) for unit in history.units] == [2, 2, 1]
    assert [unit.first_row for unit in history.units] == [0, 2, 4]


def test_strings_may_be_stored_otherwise(tmp_path: Path) -> None:
    table = make_table()
    for name, kind in (("kind", pa.dictionary(pa.int32(), pa.string())), ("group", pa.large_string())):
        table = table.set_column(table.schema.get_field_index(name), name, table[name].cast(kind))
    write(tmp_path / "a-1-00000.parquet", table)
    history = HistoryFiles.open(tmp_path)
    assert [row.kind for row in history.read_rows()] == ["start", "view", "send", "deliver", "stop"]
    assert history.first_delivery("r", "a/1", "g", "b/1", 2) == history.read_rows()[3]


def test_first_delivery(tmp_path: Path) -> None:
    log = MemoryLog(run="r", process="a")
    log.deliver(1, "g", 1, "b", 1, 1, 5, "causal", 1)
    log.note(1, "again")
    log.deliver(2, "g", 1, "b", 1, 4, 5, "causal", 1)
    write(tmp_path / "a-1-00000.parquet", log.table())
    history = HistoryFiles.open(tmp_path)

    def index(number: int, group: str = "g") -> int | None:
        row = history.first_delivery("r", "a/1", group, "b/1", number)
        return None if row is None else row.index

    assert [index(number) for number in (1, 5, 6, 8, 9)] == [0, 0, 2, 2, None]
    assert index(1, "h") is None


def refused(path: Path) -> str:
    with pytest.raises(UnusableHistoryError) as caught:
        HistoryFiles.open(path).read_rows()
    return str(caught.value)


def test_nothing_there(tmp_path: Path) -> None:
    assert "no such file or directory" in refused(tmp_path / "nowhere")


def test_an_empty_directory(tmp_path: Path) -> None:
    assert "holds no history" in refused(tmp_path)


def test_an_empty_file(tmp_path: Path) -> None:
    (tmp_path / "a-1-00000.parquet").touch()
    assert "a-1-00000.parquet was cut short" in refused(tmp_path)


def test_no_rows(tmp_path: Path) -> None:
    write(tmp_path / "a-1-00000.parquet", SCHEMA.empty_table())
    assert "no rows" in refused(tmp_path)


@pytest.mark.parametrize("name", ["a-1-00000.parquet", "history.parquet"])
def test_text_that_calls_itself_parquet(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("hello, world\n" * 10)
    assert f"{name}: it is no Parquet file" in refused(tmp_path)


def test_only_a_truncated_file(tmp_path: Path) -> None:
    file = write(tmp_path / "a-1-00000.parquet", make_table())
    truncate(file, 500)
    assert "no file in it can be read" in refused(tmp_path)
    assert "cut short" in refused(file)


def test_a_foreign_table(tmp_path: Path) -> None:
    write(tmp_path / "sales.parquet", pa.table({"price": [1.5], "kind": ["x"]}))
    assert "sales.parquet: it is no history of Antiphon: column 'run' is missing" in refused(tmp_path)


def test_a_wrong_type(tmp_path: Path) -> None:
    table = make_table()
    place = table.schema.get_field_index("number")
    write(tmp_path / "x.parquet", table.set_column(place, "number", table["number"].cast(pa.float64())))
    assert "column 'number' is double, not int64" in refused(tmp_path)


def test_a_newer_schema(tmp_path: Path) -> None:
    write(tmp_path / "x.parquet", make_table().replace_schema_metadata({"antiphon.schema": "3"}))
    assert "schema version 3" in refused(tmp_path)


def test_a_damaged_page(tmp_path: Path) -> None:
    file = write(tmp_path / "x.parquet", make_table())
    data = bytearray(file.read_bytes())
    data[4:300] = bytes(296)
    file.write_bytes(data)
    assert "row group 0 cannot be read" in refused(tmp_path)


Change = Callable[[Row], Row]

NONSENSE: list[tuple[str, int, Change]] = [
    ("kind 'sing' is none of", 0, lambda row: replace(row, kind="sing")),
    ("column 'time_ns' is null", 2, lambda row: replace(row, time_ns=None)),  # type: ignore[arg-type]
    ("number is 0", 2, lambda row: replace(row, number=0)),
    ("count is 0", 3, lambda row: replace(row, count=0)),
    ("count is -3", 3, lambda row: replace(row, count=-3)),
    ("size is -1", 3, lambda row: replace(row, size=-1)),
    ("index is -1", 0, lambda row: replace(row, index=-1)),
    ("at most 2^62", 3, lambda row: replace(row, number=2**63 - 1)),
    ("level 'best' is none of", 3, lambda row: replace(row, level="best")),
    ("a row of kind 'deliver' leaves column 'sender' null", 3, lambda row: replace(row, sender=None)),
    ("a row of kind 'view' leaves column 'members' null", 1, lambda row: replace(row, members=None)),
    ("names another sender", 2, lambda row: replace(row, sender="b")),
    ("must be of the form name/incarnation", 1, lambda row: replace(row, members=("a", "b/1"))),
    ("must be of the form name/incarnation", 1, lambda row: replace(row, members=())),
    ("destinations must be of the form", 2, lambda row: replace(row, destinations=("b/1", "b"))),
    ("destinations must be of the form", 3, lambda row: replace(row, destinations=(None,))),  # type: ignore[arg-type]
    ("a barrier is one message, but count is 3", 2, lambda row: replace(row, label="barrier")),
    ("is no JSON object", 0, lambda row: replace(row, label="causal")),
    ("is no JSON object", 0, lambda row: replace(row, label="[1]")),
    ('names no "schema" version', 0, lambda row: replace(row, label="{}")),
    ("schema version 99", 0, lambda row: replace(row, label='{"schema":99,"promises":[]}')),
    ('no list "promises"', 0, lambda row: replace(row, label='{"schema":1,"promises":"causal"}')),
]


@pytest.mark.parametrize(("words", "place", "change"), NONSENSE)
def test_rows_that_make_no_sense(tmp_path: Path, words: str, place: int, change: Change) -> None:
    rows = [Row(**cells) for cells in make_table().to_pylist()]
    rows[place] = change(rows[place])
    columns = {name: pa.array([getattr(row, name) for row in rows], SCHEMA.field(name).type) for name in SCHEMA.names}
    pq.write_table(pa.table(columns), tmp_path / "x.parquet", row_group_size=2)
    sentence = refused(tmp_path)
    assert words in sentence
    assert f"x.parquet: row {place} makes no sense" in sentence


def test_a_truncated_file_beside_readable_ones(tmp_path: Path) -> None:
    write(tmp_path / "a-1-00000.parquet", make_table("a"))
    truncate(write(tmp_path / "b-1-00000.parquet", make_table("b")), 700)
    history = HistoryFiles.open(tmp_path)
    assert {row.process for row in history.read_rows()} == {"a"}
    assert history.unfinished() == {("r", "b/1"): "b-1-00000.parquet has no readable end"}


def test_a_partial_file_is_a_fact(tmp_path: Path) -> None:
    write(tmp_path / "a-1-00000.parquet", make_table("a"))
    (tmp_path / "a-1-00001.parquet.partial").write_bytes(b"PAR1")
    assert HistoryFiles.open(tmp_path).unfinished() == {("r", "a/1"): "a-1-00001.parquet.partial was never completed"}


def test_leftovers_belong_to_the_runs_beside_them(tmp_path: Path) -> None:
    write(tmp_path / "one" / "a-1-00000.parquet", make_table("a", "first"))
    write(tmp_path / "two" / "a-1-00000.parquet", make_table("a", "second"))
    (tmp_path / "two" / "b-1-00000.parquet.partial").touch()
    (tmp_path / "three").mkdir()
    (tmp_path / "three" / "odd.parquet").touch()
    assert HistoryFiles.open(tmp_path).unfinished() == {
        ("second", "b/1"): "b-1-00000.parquet.partial was never completed",
        ("first", "odd.parquet"): "odd.parquet is empty",
        ("second", "odd.parquet"): "odd.parquet is empty",
    }
