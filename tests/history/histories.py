"""Histories on disk for tests of import and export."""

import io
from collections.abc import Callable, Iterable
from pathlib import Path
from random import Random
from typing import TextIO

import pyarrow.parquet as pq

from antiphon.history.formats.exporting import Exported
from antiphon.history.log import MemoryLog
from antiphon.history.reader import HistoryFiles
from antiphon.history.schema import Row
from tests.pipeline.histories import make_history

SAMPLES = Path(__file__).resolve().parent / "samples"

Export = Callable[[HistoryFiles, TextIO, str | None], Exported]


def write_logs(directory: Path, logs: Iterable[MemoryLog], row_group_size: int = 20) -> HistoryFiles:
    """Write each log into a file of several row groups."""
    directory.mkdir(parents=True, exist_ok=True)
    for place, log in enumerate(logs):
        pq.write_table(log.table(), directory / f"{place}.parquet", row_group_size=row_group_size)
    return HistoryFiles.open(directory)


def random_logs(seed: int, run: str = "r") -> list[MemoryLog]:
    """A run with several groups, all levels, views, a barrier and now and then a crash."""
    random = Random(seed)
    return make_history(
        random,
        run=run,
        processes=random.randint(1, 5),
        groups=random.randint(1, 3),
        steps=60,
        levels=("reliable", "fifo", "causal", "safe"),
        crashes=seed % 2,
        views=2,
        barriers=1,
    )


def exported(export: Export, history: HistoryFiles, run: str | None = None) -> tuple[str, Exported]:
    """The text of an export, and what it says of itself."""
    out = io.StringIO()
    result = export(history, out, run)
    return out.getvalue(), result


def in_order(rows: Iterable[Row]) -> list[Row]:
    return sorted(rows, key=lambda row: (row.run, row.process, row.incarnation, row.index))


def summary(directory: Path) -> list[str]:
    """Each row in a few words: process, kind, and what matters of it."""
    return [_words(row) for row in in_order(HistoryFiles.open(directory).read_rows())]


def _words(row: Row) -> str:
    words = [f"{row.process}/{row.incarnation}", row.kind]
    if row.kind in ("send", "deliver"):
        last = (row.number or 0) + (row.count or 1) - 1
        words.append(f"{row.group}:{row.sender}/{row.sender_incarnation}#{row.number}-{last}")
        words += [] if row.destinations is None else [f"to {','.join(row.destinations)}"]
    elif row.kind == "view":
        words += [str(row.group), ",".join(row.members or ())]
    elif row.kind != "start":
        words.append(str(row.label))
    return " ".join(words)
