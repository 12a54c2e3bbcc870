"""Rows as Spark hands them over: checked, cut into pieces of logs, packed, and whole again."""

import re
from random import Random

import pyarrow as pa

from antiphon.history.schema import SCHEMA
from antiphon.pipeline.scan import FILE, PACKED_PIECES, find_problems, pack, pieces_of_logs
from tests.pipeline.histories import make_history, rows_of
from tests.pipeline.inprocess import pieces_of, table_of
from tests.pipeline.script import make_rows


def scanned(table: pa.Table, files: list[int]) -> pa.Table:
    """Rows with the files that they come from."""
    return table.append_column(FILE, pa.array(files, pa.int64()))


def packed(table: pa.Table, batch_rows: int) -> pa.Table:
    return pa.Table.from_batches(pack(table.to_batches(max_chunksize=batch_rows)), PACKED_PIECES)


def test_logs_come_back_as_they_were() -> None:
    rows = rows_of(make_history(Random(3), processes=4, groups=2, steps=80))
    expected = {(piece.run, piece.process): piece.table for piece in pieces_of(rows, len(rows))}
    for shuffled in (False, True):
        some = list(rows)
        if shuffled:
            Random(3).shuffle(some)
        found = pieces_of_logs(packed(scanned(table_of(some), [0] * len(some)), 37))
        assert {(piece.run, piece.process) for piece in found} == expected.keys()
        for piece in found:
            names = piece.table.column_names
            assert piece.table.to_pylist() == expected[piece.run, piece.process].select(names).to_pylist()


def test_a_piece_is_of_one_log_and_one_file() -> None:
    table = table_of(make_rows(p="s1 d:p1 quiet", q="d:p1 quiet"))
    files = [7] * 3 + [8] * (len(table) - 3)
    found = packed(scanned(table, files), 1000).to_pylist()
    assert [(row["process"], row[FILE], row["first_index"], row["last_index"], row["rows"]) for row in found] == [
        *(("p/1", 7, 0, 2, 3), ("p/1", 8, 3, 4, 2), ("q/1", 8, 0, 3, 4)),
    ]
    assert {row["version"] for row in found} == {2, None}


def test_scattered_rows_make_few_pieces() -> None:
    rows = rows_of(make_history(Random(4), processes=3, groups=1, steps=60))
    Random(4).shuffle(rows)
    assert len(packed(scanned(table_of(rows), [0] * len(rows)), 10_000)) == 3


def test_rows_of_version_1_do_not_say_for_whom_messages_were() -> None:
    table = table_of(make_rows(p="s1 d:p1 quiet"))
    labels = [label and re.sub(r'"schema": ?2', '"schema":1', label) for label in table["label"].to_pylist()]
    place = SCHEMA.get_field_index("label")
    table = table.set_column(place, SCHEMA.field("label"), pa.array(labels, pa.string()))
    (piece,) = pieces_of_logs(packed(scanned(table, [0] * len(table)), 2))
    told = piece.table.select(["kind", "destinations"]).to_pylist()
    assert [row["destinations"] for row in told if row["kind"] == "deliver"] == [[]]
    assert {str(row["destinations"]) for row in told if row["kind"] != "deliver"} == {"None"}


def test_a_row_that_makes_no_sense_is_found() -> None:
    table = table_of(make_rows(p="s1 d:p1 quiet"))
    kinds = table["kind"].to_pylist()
    kinds[3] = "dream"
    table = table.set_column(SCHEMA.get_field_index("kind"), SCHEMA.field("kind"), pa.array(kinds, pa.string()))
    (row,) = packed(scanned(table, [9] * len(table)), 1000).to_pylist()
    assert (row[FILE], row["body"]) == (9, None)
    assert "kind 'dream' is none of" in row["problem"]
    numbered = table.append_column("row_index", pa.array(range(10, 10 + len(table)), pa.int64()))
    assert [batch.to_pylist() for batch in find_problems(numbered.to_batches())] == [[{"place": 13}]]
