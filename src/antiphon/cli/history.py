"""`antiphon history`: what can be done with the files of a history."""

from typing import Annotated

import typer
from rich.text import Text

from antiphon.cli.auditing import refuse_without_spark, unreachable_hint
from antiphon.cli.console import quiet_standard_output, show, show_json, steps
from antiphon.kernel.errors import UsageError

history = typer.Typer(
    name="history", no_args_is_help=True, help="Work on the files of a history.", rich_markup_mode=None
)


@history.callback()
def _history() -> None:
    """Work on the files of a history."""


@history.command()
def pack(
    source: Annotated[str, typer.Argument(metavar="SRC", help="The history: a folder, or a URI that Spark reads.")],
    target: Annotated[str, typer.Argument(metavar="URI", help="Where to; it must not exist yet.")],
    master: Annotated[
        str | None,
        typer.Option(metavar="M", help="Spark master to run on; by default Spark runs in this process."),
    ] = None,
    rows_per_file: Annotated[int, typer.Option(metavar="N", help="About so many rows in a file.")] = 2_000_000,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """Turn many small files into few sorted ones, partitioned by run.

    The rows are the same, and so is the verdict of an audit. Both places may be on any file system that Spark knows.

    \b
      antiphon history pack runs packed
      antiphon history pack hdfs:///runs s3a://bucket/packed --master yarn
    """
    if rows_per_file < 1:
        raise UsageError(f"--rows-per-file {rows_per_file} is too few; allow 1 or more")
    refuse_without_spark("packing")
    with quiet_standard_output(), steps("starting Spark") as step:
        from antiphon.pipeline.failures import spark_failures
        from antiphon.pipeline.pack import pack_history
        from antiphon.pipeline.session import make_session

        with spark_failures(unreachable_hint(master)):
            spark = make_session(master)
            step(f"packing {source}")
            packed = pack_history(spark, source, target, rows_per_file)
    if json:
        show_json({"source": source, "target": target, **vars(packed)})
        return
    lost = f"\nNote: {packed.lost:,} segments are lost; the manifests list them" if packed.lost else ""
    show(
        Text(
            f"{packed.rows:,} rows of {packed.runs:,} runs in {packed.files_before:,} files are now in "
            f"{packed.files:,} files in {target}{lost}"
        )
    )
