"""What the driver finds out about the pieces of a long run, and how what is found of a piece travels. Free of Spark."""

import pyarrow as pa

from antiphon.pipeline.on_spark import in_a_cell, mixed_logs, old_logs, out_of_cells


def extents(*rows: tuple[str, int, int, int | None]) -> pa.Table:
    names = ("process", "first_index", "last_index", "version")
    types = (pa.string(), pa.int64(), pa.int64(), pa.int64())
    return pa.Table.from_pylist(
        [dict(zip(names, row, strict=True)) for row in rows], pa.schema(zip(names, types, strict=True))
    )


def test_logs_whose_pieces_overlap_are_found_in_any_order() -> None:
    apart = (("p/1", 10, 19, None), ("p/1", 0, 9, None), ("q/1", 0, 30, None))
    assert mixed_logs(extents(*apart)) == []
    assert mixed_logs(extents(*apart, ("q/1", 20, 25, None))) == ["q/1"], "within an earlier one"
    assert mixed_logs(extents(*apart, ("p/1", 19, 40, None))) == ["p/1"], "by one row"


def test_a_log_is_as_old_as_its_oldest_start_row() -> None:
    found = old_logs(extents(("p/1", 0, 9, 1), ("p/1", 10, 19, 2), ("q/1", 0, 9, 2), ("r/1", 0, 9, None)))
    assert found == {"p/1": 1}


def test_what_is_found_comes_out_of_cells_as_it_went_in() -> None:
    schema = pa.schema([("run", pa.string()), ("starts", pa.list_(pa.struct([("index", pa.int64())])))])
    batches = [pa.RecordBatch.from_pylist([{"run": run, "starts": [{"index": 1}]}], schema) for run in ("a", "b")]
    cells = pa.chunked_array([pa.array([in_a_cell(batch)], pa.binary()) for batch in batches])
    assert out_of_cells(cells, schema).to_pylist() == [row for batch in batches for row in batch.to_pylist()]
    assert out_of_cells(pa.chunked_array([], pa.binary()), schema) == schema.empty_table(), "no piece, nothing found"
