"""`antiphon import` and `antiphon export`: convert other tools' logs to histories, and histories for other tools."""

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.text import Text

from antiphon.cli.console import show, show_json, steps
from antiphon.history.formats.cs451 import import_cs451
from antiphon.history.formats.importing import PROMISES, Imported, ImportOptions
from antiphon.history.formats.jepsen_export import export_jepsen
from antiphon.history.formats.jepsen_import import import_jepsen
from antiphon.history.formats.otlp import export_otlp
from antiphon.history.formats.perfetto import export_perfetto
from antiphon.history.formats.plume_import import import_plume
from antiphon.history.formats.shiviz_export import export_shiviz
from antiphon.history.formats.shiviz_import import import_shiviz
from antiphon.history.formats.target import new_directory, new_file
from antiphon.history.manifest import close_history
from antiphon.history.reader import HistoryFiles
from antiphon.kernel.errors import UsageError

IMPORTS = {"cs451": import_cs451, "shiviz": import_shiviz, "jepsen": import_jepsen, "plume": import_plume}
EXPORTS = {
    "shiviz": export_shiviz,
    "perfetto": export_perfetto,
    "otlp": export_otlp,
    "jepsen": export_jepsen,
}


def import_(
    source: Annotated[Path, typer.Argument(metavar="SRC", help="The log: a file; for cs451 a folder.")],
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="The new history; an empty or missing directory.")],
    format: Annotated[str, typer.Option("--format", metavar="F", help=f"The format of SRC: {', '.join(IMPORTS)}.")],
    run: Annotated[
        str | None, typer.Option(metavar="NAME", help="The name of the run; by default that of SRC.")
    ] = None,
    level: Annotated[
        str | None,
        typer.Option(metavar="LEVEL", help=f"The level that the logged system promises: {', '.join(PROMISES)}."),
    ] = None,
    parser: Annotated[
        str | None,
        typer.Option(metavar="REGEX", help="shiviz: the parser expression, if the log does not begin with it."),
    ] = None,
    delimiter: Annotated[
        str | None,
        typer.Option(metavar="REGEX", help="shiviz: the expression between executions, likewise."),
    ] = None,
    complete: Annotated[
        bool,
        typer.Option("--complete", help="cs451: the processes wrote all that they did before they ended."),
    ] = False,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """Convert another tool's log to a history, which can then be audited and drawn.

    If a line does not follow the format, the error names its number and the reason, and nothing is written. The level
    determines what the history promises (table in docs/formats.md); `antiphon audit --promise` overrides it.

    \b
      antiphon import --format cs451 outputs/ run1           a folder of N.output files
      antiphon import --format shiviz trace.log run2         a log with vector clocks
      antiphon import --format jepsen history.json run3      a broadcast or list-append workload
      antiphon import --format plume history.txt run4        transactions, as Plume and AWDIT read them
      antiphon audit run1
    """
    importer = IMPORTS.get(format)
    if importer is None:
        raise UsageError(f"the format {format!r} cannot be imported; choose from: {', '.join(IMPORTS)}")
    _refuse_option("--parser", parser is not None, "shiviz", format)
    _refuse_option("--delimiter", delimiter is not None, "shiviz", format)
    _refuse_option("--complete", complete, "cs451", format)
    if not source.exists():
        raise UsageError(f"there is no {source}; name the log to import")
    options = ImportOptions(
        run=run or source.resolve().stem, level=level, parser=parser, delimiter=delimiter, complete=complete
    )
    with steps(f"reading {source}") as step, new_directory(directory) as partial:
        result = importer(source, partial, options)
        step("writing the manifest")
        close_history(partial)
    if json:
        show_json({"format": format, "history": str(directory), **_counts(result)})
    else:
        show(Text(_import_sentence(directory, result)))


def export(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="The history: a directory of Parquet files.")],
    out: Annotated[Path, typer.Argument(metavar="OUT", help="The file to write; an existing one is replaced.")],
    format: Annotated[str, typer.Option("--format", metavar="F", help=f"The format of OUT: {', '.join(EXPORTS)}.")],
    run: Annotated[str | None, typer.Option(metavar="NAME", help="Only this run of the history.")] = None,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """Write a history in the format of another tool.

    \b
      antiphon export --format shiviz run1 run1.log          space-time diagrams with vector clocks
      antiphon export --format perfetto run1 run1.json       ui.perfetto.dev: views, messages, arrows
      antiphon export --format otlp run1 run1.jsonl          OpenTelemetry spans, links for causes
      antiphon export --format jepsen run1 run1.json         a list-append history, for Elle
    """
    exporter = EXPORTS.get(format)
    if exporter is None:
        raise UsageError(f"the format {format!r} cannot be exported; choose from: {', '.join(EXPORTS)}")
    history = HistoryFiles.open(directory)
    with steps(f"writing {history.rows:,} rows to {out}"), new_file(out) as stream:
        result = exporter(history, stream, run)
    if json:
        counts = {"runs": result.runs, "logs": result.logs, "rows": result.rows, "remarks": list(result.remarks)}
        show_json({"format": format, "file": str(out), **counts})
    else:
        remarks = "".join(f"\nNote: {remark}" for remark in result.remarks)
        show(Text(f"{result.logs:,} logs with {result.rows:,} rows are in {out}{remarks}"))


def _refuse_option(name: str, given: bool, owner: str, format: str) -> None:
    if given and format != owner:
        raise UsageError(f"{name} is for {owner} logs, and the format is {format}; leave it out")


def _counts(result: Imported) -> dict[str, Any]:
    return {"runs": result.runs, "logs": result.logs, "events": result.events, "remarks": list(result.remarks)}


def _import_sentence(directory: Path, result: Imported) -> str:
    runs = f" of {result.runs:,} runs" if result.runs > 1 else ""
    remarks = "".join(f"\nNote: {remark}" for remark in result.remarks)
    return (
        f"{result.logs:,} logs{runs} with {result.events:,} events became the history in {directory}; "
        f"next: antiphon audit {directory}{remarks}"
    )
