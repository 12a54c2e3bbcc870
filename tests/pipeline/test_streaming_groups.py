"""Several groups are several tasks of the watch, each with a state of its own; the state alone is Spark's."""

from typing import Any

import pandas as pd
import pytest

from antiphon.pipeline.streaming.audit import _judge
from antiphon.pipeline.streaming.watch import WATCHED_COLUMNS, Watch
from tests.pipeline.test_streaming_watch import Journal


class KeptState:
    """What Spark keeps for one group between batches."""

    def __init__(self) -> None:
        self.value: tuple[Any, ...] | None = None

    @property
    def exists(self) -> bool:
        return self.value is not None

    @property
    def get(self) -> tuple[Any, ...]:
        assert self.value is not None
        return self.value

    def update(self, value: tuple[Any, ...]) -> None:
        self.value = value


def frame(*journals: Journal) -> pd.DataFrame:
    rows = [
        (*row[:5], None if row.sender is None else row.sender[0], row.sender and 1, *row[6:])
        for journal in journals
        for row in journal.rows
    ]
    return pd.DataFrame(rows, columns=list(WATCHED_COLUMNS))


def judged(group: str, listeners: dict[str, int], *batches: pd.DataFrame) -> list[tuple[Any, ...]]:
    state = KeptState()
    return [
        (row["group"], row["guarantee"], row["verdict"], row["listener"], row["offset"])
        for batch in batches
        for found in _judge(listeners, True, (group,), iter([batch]), state)  # type: ignore[arg-type]
        for row in found.to_dict("records")
    ]


def test_each_group_has_its_own_listeners_and_state(monkeypatch: pytest.MonkeyPatch) -> None:
    told: dict[int, int] = {}
    begin = Watch.__init__

    def count(self: Watch, listeners: int, state: bytes | None = None) -> None:
        told[listeners] = told.get(listeners, 0) + 1
        begin(self, listeners, state)

    monkeypatch.setattr(Watch, "__init__", count)
    listeners = {"g": 2, "h": 1}
    x, y = Journal("x/1").view(1).heard("a1", "b1", level="safe"), Journal("y/1").view(1).heard("b1", level="safe")
    assert judged("g", listeners, frame(x), frame(y)) == [
        ("g", "", "followed", "x/1", 2),
        ("g", "total", "broken", "y/1", 1),
        ("g", "", "followed", "x/1", 2),
        ("g", "", "followed", "y/1", 1),
    ]
    assert judged("h", listeners, frame(y)) == [("h", "", "followed", "y/1", 1)]
    assert told == {2: 2, 1: 1}
