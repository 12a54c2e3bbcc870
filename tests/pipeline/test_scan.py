"""Rows as Spark hands them over: checked, cut into pieces of logs, packed, and whole again."""

import re
from collections.abc import Mapping
from dataclasses import replace
from random import Random

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from antiphon.history.schema import SCHEMA
from antiphon.history.versions import VERSION_KEY
from antiphon.pipeline import file_scan
from antiphon.pipeline.scan import FILE, PACKED_PIECES, pack, pieces_of_logs
from tests.pipeline.histories import make_history, rows_of
from tests.pipeline.inprocess import pieces_of, table_of
from tests.pipeline.script import make_rows


def packed(table: pa.Table, batch_rows: int) -> pa.Table:
    return pa.Table.from_batches(pack(table.to_batches(max_chunksize=batch_rows)), PACKED_PIECES)


def packed_from(files: Mapping[str, bytes], runs: frozenset[str] = frozenset(), folder: str | None = None) -> pa.Table:
    """The same from files, as Spark hands them over; `folder`: the run that their folder names."""
    cells: dict[str, list[object]] = {"path": list(files), "content": list(files.values())}
    if folder is not None:
        cells["run"] = [folder] * len(files)
    return pa.Table.from_batches(file_scan.pack([pa.RecordBatch.from_pydict(cells)], runs), PACKED_PIECES)


def as_file(table: pa.Table, row_group_size: int = 4) -> bytes:
    sink = pa.BufferOutputStream()
    table = table.replace_schema_metadata({VERSION_KEY: b"2"})
    pq.write_table(table, sink, row_group_size=row_group_size, write_page_checksum=True)
    data: bytes = sink.getvalue().to_pybytes()
    return data


def test_logs_come_back_as_they_were() -> None:
    rows = rows_of(make_history(Random(3), processes=4, groups=2, steps=80))
    expected = {(piece.run, piece.process): piece.table for piece in pieces_of(rows, len(rows))}
    for shuffled in (False, True):
        some = list(rows)
        if shuffled:
            Random(3).shuffle(some)
        found = pieces_of_logs(packed(table_of(some), 37))
        assert {(piece.run, piece.process) for piece in found} == expected.keys()
        for piece in found:
            names = piece.table.column_names
            assert piece.table.to_pylist() == expected[piece.run, piece.process].select(names).to_pylist()


def test_files_come_back_as_they_were_row_group_by_row_group() -> None:
    table = table_of(make_rows(p="s1 d:p1 quiet", q="d:p1 quiet"))
    found = packed_from({"x:/f/one.parquet": as_file(table[:3]), "x:/f/two.parquet": as_file(table[3:])})
    places = [tuple(row[name] for name in ("process", FILE, "first_index", "last_index")) for row in found.to_pylist()]
    one, two = "x:/f/one.parquet", "x:/f/two.parquet"
    assert places == [("p/1", one, 0, 2), ("p/1", two, 3, 4), ("q/1", two, 0, 1), ("q/1", two, 2, 3)]
    assert sum(found["rows"].to_pylist()) == len(table)
    pieces = {piece.process: piece.table for piece in pieces_of_logs(found)}
    for process, own in pieces.items():
        of_log = table.filter(pc.equal(table["process"], process.removesuffix("/1")))
        assert own.to_pylist() == of_log.select(own.column_names).to_pylist()


def test_other_runs_are_left_out_and_a_folder_may_name_the_run() -> None:
    rows = make_rows(p="s1 d:p1 quiet")
    table = table_of([*rows, *(replace(row, run="x") for row in rows)])
    found = packed_from({"a.parquet": as_file(table)}, frozenset(["x"]))
    assert set(found["run"].to_pylist()) == {"x"}
    assert sum(found["rows"].to_pylist()) == len(rows)
    named = packed_from({"a.parquet": as_file(table_of(rows).drop_columns("run"))}, folder="y")
    assert (set(named["run"].to_pylist()), sum(named["rows"].to_pylist())) == ({"y"}, len(rows))


def test_what_cannot_be_read_of_a_file_is_told() -> None:
    data = as_file(table_of(make_rows(p="s1 s2 d:p1 d:p2 quiet")))
    chunk = pq.read_metadata(pa.BufferReader(data)).row_group(1).column(SCHEMA.get_field_index("number"))
    harmed = bytearray(data)
    harmed[(chunk.dictionary_page_offset or chunk.data_page_offset) + chunk.total_compressed_size - 1] ^= 1
    rows = packed_from({"cut.parquet": data[:-9], "no.parquet": b"name,price", "harmed.parquet": bytes(harmed)})
    by_file = {row[FILE]: row for row in rows.to_pylist() if row["body"] is None}
    assert by_file["cut.parquet"]["damage"] == "cut.parquet has no readable end"
    assert "it is no Parquet file" in by_file["no.parquet"]["problem"]
    assert by_file["harmed.parquet"]["damage"].startswith("rows 4 to 6 of the log are damaged: harmed.parquet, row gr")
    assert (by_file["harmed.parquet"]["run"], by_file["harmed.parquet"]["process"]) == ("r", "p/1")
    assert [row["rows"] for row in rows.to_pylist() if row["body"] is not None] == [4], "the rest can be read"


def test_scattered_rows_make_few_pieces() -> None:
    rows = rows_of(make_history(Random(4), processes=3, groups=1, steps=60))
    Random(4).shuffle(rows)
    assert len(packed(table_of(rows), 10_000)) == 3


def test_rows_of_version_1_do_not_say_for_whom_messages_were() -> None:
    table = table_of(make_rows(p="s1 d:p1 quiet"))
    labels = [label and re.sub(r'"schema": ?2', '"schema":1', label) for label in table["label"].to_pylist()]
    place = SCHEMA.get_field_index("label")
    table = table.set_column(place, SCHEMA.field("label"), pa.array(labels, pa.string()))
    (piece,) = pieces_of_logs(packed(table, 2))
    told = piece.table.select(["kind", "destinations"]).to_pylist()
    assert [row["destinations"] for row in told if row["kind"] == "deliver"] == [[]]
    assert {str(row["destinations"]) for row in told if row["kind"] != "deliver"} == {"None"}


def test_a_row_that_makes_no_sense_is_found() -> None:
    table = table_of(make_rows(p="s1 d:p1 quiet"))
    kinds = table["kind"].to_pylist()
    kinds[3] = "dream"
    table = table.set_column(SCHEMA.get_field_index("kind"), SCHEMA.field("kind"), pa.array(kinds, pa.string()))
    (row,) = packed(table, 1000).to_pylist()
    assert row["body"] is None
    assert "a row makes no sense: kind 'dream' is none of" in row["problem"]
    (row,) = (row for row in packed_from({"a.parquet": as_file(table)}).to_pylist())
    assert "row 3 makes no sense: kind 'dream' is none of" in row["problem"]
