"""`antiphon lineage`: what caused a message, what it caused, and what its delivery waited for."""

from pathlib import Path
from typing import Annotated

import typer

from antiphon.cli.auditing import refuse_without_spark, unreachable_hint
from antiphon.cli.console import quiet_standard_output, show, show_json, steps
from antiphon.history.reader import HistoryFiles
from antiphon.kernel.errors import UsageError


def lineage(
    history: Annotated[Path, typer.Argument(metavar="DIR", help="The history: a directory of Parquet files.")],
    message: Annotated[
        str, typer.Argument(metavar="MESSAGE", help="GROUP:PROCESS#NUMBER; GROUP: may be omitted if only one fits.")
    ],
    run: Annotated[str | None, typer.Option(metavar="R", help="The run, if the history holds several.")] = None,
    depth: Annotated[int, typer.Option(metavar="N", help="How many steps to follow in each direction.")] = 3,
    limit: Annotated[int, typer.Option(metavar="N", help="How many messages to show in each direction.")] = 20,
    at: Annotated[
        str | None, typer.Option(metavar="PROCESS", help="Also show what its delivery at this process waited for.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON document instead of the tables.")] = False,
    picture: Annotated[
        Path | None, typer.Option(metavar="FILE.html", help="Also write a drawing, as one HTML file.")
    ] = None,
    master: Annotated[
        str | None,
        typer.Option(metavar="M", help="Spark master to run on; by default Spark runs in this process."),
    ] = None,
) -> None:
    """Show what caused a message and what it caused.

    A direct cause is a message that the sender had sent or delivered when it sent this one, with no other message in
    between. With --at, the time from the send to the delivery at one process is divided by what it was spent on: the
    link, earlier messages, the position in the total order, or members that had not received the message.

    \b
      antiphon lineage run1 quotes:alice#42
      antiphon lineage run1 alice#42 --depth 5 --limit 50
      antiphon lineage run1 alice/2#7 --at carol
      antiphon lineage run1 alice#42 --picture alice42.html
    """
    _refuse_early(history, depth, limit, picture)
    with quiet_standard_output(), steps("starting Spark") as step:
        # Imported here: Spark is an optional dependency, and its import is slow.
        from antiphon.pipeline.failures import spark_failures
        from antiphon.pipeline.graph.critical import critical_path
        from antiphon.pipeline.graph.document import lineage_document
        from antiphon.pipeline.graph.lineage import lineage as lineage_of
        from antiphon.pipeline.graph.names import find_message, find_process
        from antiphon.pipeline.graph.reading import read_causal_history
        from antiphon.pipeline.graph.rows import RowReader
        from antiphon.pipeline.session import make_session
        from antiphon.report.lineage_page import write_lineage_page
        from antiphon.report.lineage_table import lineage_table

        opened = HistoryFiles.open(history)
        with spark_failures(unreachable_hint(master)):
            session = make_session(master)
            step(f"reading {opened.rows:,} rows")
            causal = read_causal_history(opened, session)
        found_run, found = find_message(causal.runs, message, run)
        process = None if at is None else find_process(found_run, at)
        step(f"following {message}")
        reader = RowReader(opened, found_run.name, found_run.logs)
        result = lineage_of(found_run, reader, found, depth, limit)
        path = [] if process is None else critical_path(found_run, reader, found, process)
        if picture is not None:
            step(f"drawing {picture}")
            write_lineage_page(result, path, reader, picture)
    if json:
        show_json(lineage_document(result, path))
    else:
        show(lineage_table(result, path))


def _refuse_early(history: Path, depth: int, limit: int, picture: Path | None) -> None:
    """Raise for mistakes that can be seen before Spark is started, which takes seconds."""
    HistoryFiles.open(history)
    if depth < 1 or limit < 1:
        raise UsageError("--depth and --limit must be at least 1")
    if picture is not None and (picture.is_dir() or not picture.parent.is_dir()):
        raise UsageError(f"the picture cannot be written to {picture}; name a file in a directory that exists")
    refuse_without_spark("the lineage")
