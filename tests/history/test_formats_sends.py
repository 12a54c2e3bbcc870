"""Which send rows a delivery row draws from."""

from pathlib import Path

import pytest

from antiphon.history.formats.sends import SendRows
from antiphon.history.logs import find_logs
from antiphon.history.schema import Row
from tests.history.histories import write_logs
from tests.pipeline.script import make_logs


@pytest.mark.parametrize(
    ("number", "count", "expected"),
    [
        (1, 1, [1]),
        (2, 1, [1]),
        (3, 1, [3]),  # where one row ends, the next begins
        (4, 2, [4]),
        (2, 3, [1, 3, 4]),
        (1, 9, [1, 3, 4]),
        (5, 4, [4]),
        (6, 1, []),
    ],
)
def test_rows_that_overlap(tmp_path: Path, number: int, count: int, expected: list[int]) -> None:
    write = write_logs(tmp_path, make_logs(p="s1-2 s3 s1@h s4-5 quiet", q="s1 quiet"), row_group_size=3)
    sends = SendRows(find_logs(write))
    delivery = Row(
        *("r", "q", 1, 9, 0, "deliver"), group="g", sender="p", sender_incarnation=1, number=number, count=count
    )
    assert list(sends.drawn_from(delivery)) == expected
    delivery.sender = "z"
    assert list(sends.drawn_from(delivery)) == []
