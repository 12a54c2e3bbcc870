"""`antiphon watch`: audit running groups from the journals of their listeners, and show it on a page."""

import json
import time
from collections.abc import Sequence
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer
from rich.text import Text

from antiphon.cli.auditing import refuse_without_spark, unreachable_hint
from antiphon.cli.console import quiet_standard_output, show, steps
from antiphon.history.journal import JournalReader
from antiphon.kernel.errors import UsageError
from antiphon.report.live_page import LivePage

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

IDLE_WRITE_S: Final = 2


def watch(
    journals: Annotated[
        list[Path], typer.Argument(metavar="JOURNAL…", help="Journals of listeners (antiphon listen).")
    ],
    page: Annotated[Path, typer.Option(metavar="FILE.html", help="The page; it loads itself again.")],
    checkpoint: Annotated[Path, typer.Option(metavar="DIR", help="Where the watch remembers how far it is.")],
    master: Annotated[
        str | None,
        typer.Option(metavar="M", help="Spark master to run on; by default Spark runs in this process."),
    ] = None,
    once: Annotated[bool, typer.Option("--once", help="Stop at the end of the journals.")] = False,
) -> None:
    """Audit running groups, and show verdicts, views and lag on a page that is rewritten as they come, until Ctrl-C.

    \b
      antiphon watch quotes-journal --page quotes.html --checkpoint quotes-watch
      antiphon watch journal-1 journal-2 --page group.html --checkpoint group-watch
    """
    for journal in journals:
        JournalReader(journal)  # refused before Spark is started
    if page.is_dir() or not page.parent.is_dir():
        raise UsageError(f"the page cannot be written to {page}; name a file in a directory that exists")
    refuse_without_spark("the watch")
    live = LivePage.open(page)
    live.write(time.time_ns())
    with quiet_standard_output(), steps("starting Spark") as step:
        from antiphon.pipeline.failures import spark_failures
        from antiphon.pipeline.session import make_session
        from antiphon.pipeline.streaming.audit import watch as watch_stream

        with spark_failures(unreachable_hint(master)):
            spark = make_session(master)
            rows = watch_stream(spark, [str(journal) for journal in journals], status=True)
            step(f"watching; open {page}")
            follow(rows, live, journals, checkpoint, once)
    show(Text(f"{sum(own.total() for own in live.counts.values()):,} findings; {page}"))


def follow(rows: "DataFrame", live: LivePage, journals: Sequence[Path], checkpoint: Path, once: bool) -> None:
    """Run the query and keep the page up to date."""
    followed: dict[str, int] = {}
    lock = Lock()  # Spark calls `take` on a thread of its own
    if not (checkpoint / "metadata").exists():
        live.last_batch = -1  # a new query counts its batches from 0

    def take(batch: "DataFrame", number: int) -> None:
        found = [row.asDict() for row in batch.collect()]
        with lock:
            live.take(found, number)
            live.write(time.time_ns(), _behind(journals, followed))

    stream = rows.writeStream.foreachBatch(take).option("checkpointLocation", str(checkpoint))
    query = (stream.trigger(availableNow=True) if once else stream).start()
    try:
        while not query.awaitTermination(IDLE_WRITE_S):
            with lock:
                _note_progress(query.lastProgress, journals, followed)
                live.write(time.time_ns(), _behind(journals, followed))
        _note_progress(query.lastProgress, journals, followed)
    finally:
        query.stop()
        live.write(time.time_ns(), _behind(journals, followed))


def _note_progress(progress: Any, journals: Sequence[Path], followed: dict[str, int]) -> None:
    """How far each journal has been read, by the query's word."""
    for journal, source in zip(journals, progress["sources"] if progress else (), strict=False):
        end = source["endOffset"]
        offset = json.loads(end) if isinstance(end, str) else end
        if offset:
            followed[str(journal)] = int(offset["offset"])


def _behind(journals: Sequence[Path], followed: dict[str, int]) -> dict[str, int]:
    return {str(journal): max(JournalReader(journal).end() - followed.get(str(journal), 0), 0) for journal in journals}
