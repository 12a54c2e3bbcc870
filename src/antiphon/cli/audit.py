"""`antiphon audit`: hold a recorded history to the promises of its run."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from antiphon.cli.auditing import EXIT_CODES, audit_history
from antiphon.cli.console import show, show_json
from antiphon.pipeline.document import audit_document
from antiphon.report.table import audit_table


def audit(
    history: Annotated[
        str,
        typer.Argument(
            metavar="URI",
            help="The history: a directory of Parquet files, here or wherever Spark can read (hdfs://, s3a://, …).",
        ),
    ],
    master: Annotated[
        str | None,
        typer.Option(metavar="M", help="A Spark master to run on; without it, Spark runs inside this process."),
    ] = None,
    promise: Annotated[
        str | None, typer.Option(metavar="A,B", help="Judge these guarantees instead of those that the run promised.")
    ] = None,
    quick: Annotated[
        bool,
        typer.Option("--quick", help="Audit in this process, without Spark: the same verdicts, for short histories."),
    ] = False,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON document instead of the table.")] = False,
    report: Annotated[
        Path | None, typer.Option(metavar="FILE.html", help="Also write a self-contained HTML report.")
    ] = None,
    table: Annotated[
        bool, typer.Option("--table", help="URI is the name of a table that the Spark session knows.")
    ] = False,
    run: Annotated[
        list[str] | None, typer.Option(metavar="RUN", help="Audit this run alone; can be given several times.")
    ] = None,
    output: Annotated[
        str | None,
        typer.Option(
            metavar="URI", help="Also write tables of verdicts, violations and observations there, by run, as Parquet."
        ),
    ] = None,
    incremental: Annotated[
        bool,
        typer.Option(
            "--incremental", help="Build on the last such audit; what is found is kept in DIR/.antiphon-audit."
        ),
    ] = False,
) -> None:
    """Prove from a recorded history whether every promise was kept.

    The verdict is kept, broken (with the shortest chain of events that shows it), unknown (the record leaves it
    open) or unchecked (promised, but nothing of the kind happened; asked for by --promise, that is unknown). The exit
    code: 0 kept, 1 broken, 2 the input is of no use, 3 unknown, or nothing was checked at all, 4 Spark or its cluster
    failed.

    \b
      antiphon audit run1
      antiphon audit run1 --quick                   at once, on one core and without Java
      antiphon audit run1 --report run1.html
      antiphon audit run1 --promise causal,settled --json
      antiphon audit run1 --incremental             again as run1 grows: only what is new is read
      antiphon audit run1 --master spark://cluster:7077
      antiphon audit s3a://runs/2026 --output s3a://results
      antiphon audit histories.events --table --run r17
    """
    promised = tuple(name.strip() for name in promise.split(",")) if promise is not None else None
    result, reuse = audit_history(
        history,
        master=master,
        promise=promised,
        report=report,
        incremental=incremental,
        quick=quick,
        table=table,
        runs=tuple(run or ()),
        output=output,
    )
    if json:
        show_json(audit_document(result) | ({} if reuse is None else {"incremental": asdict(reuse)}))
    else:
        show(audit_table(result))
        if reuse is not None:
            show("\n".join(["", *(f"Note: {note}." for note in reuse.notes), f"Incremental: {reuse.sentence()}."]))
    raise typer.Exit(EXIT_CODES[result.verdict])
