"""`antiphon structure`: which groups of a history overlap, and a plan derived from it."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from antiphon.cli.auditing import refuse_without_spark, unreachable_hint
from antiphon.cli.console import quiet_standard_output, show, show_json, steps
from antiphon.history.reader import HistoryFiles
from antiphon.kernel.errors import UsageError

if TYPE_CHECKING:
    from antiphon.pipeline.structure.finding import Structure


def structure(
    history: Annotated[Path, typer.Argument(metavar="DIR", help="The history: a directory of Parquet files.")],
    master: Annotated[
        str | None,
        typer.Option(metavar="M", help="Spark master to run on; by default Spark runs in this process."),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON document instead of the tables.")] = False,
    plan: Annotated[
        Path | None, typer.Option(metavar="FILE.toml", help="Also write a plan, for `antiphon.load_plan`.")
    ] = None,
    picture: Annotated[
        Path | None, typer.Option(metavar="FILE.svg", help="Also write a drawing of the groups.")
    ] = None,
    sequencers: Annotated[
        int | None,
        typer.Option(metavar="N", help="At most so many sequencers; by default as many as can be independent."),
    ] = None,
) -> None:
    """Show which groups overlap, and derive a plan from it.

    Members and load are measured in a recorded history. The plan says which groups' vector times messages must carry
    (causality domains and their components), which groups need the same sequencer and where it should run, and which
    processes should share a broadcast domain. Several runs in one history are combined.

    \b
      antiphon structure run1
      antiphon structure run1 --picture run1.svg --plan run1.toml
      antiphon structure run1 --sequencers 3 --json
    """
    _refuse_early(history, plan, picture, sequencers)
    with quiet_standard_output(), steps("starting Spark") as step:
        from antiphon.pipeline.failures import spark_failures
        from antiphon.pipeline.session import make_session
        from antiphon.pipeline.structure.finding import find_structure

        with spark_failures(unreachable_hint(master)):
            found = find_structure(history, make_session(master), sequencers_max=sequencers, progress=step)
        _write(found, plan, picture)
    _show(found, json)


def _refuse_early(history: Path, plan: Path | None, picture: Path | None, sequencers: int | None) -> None:
    """Raise for mistakes that can be seen before Spark is started, which takes seconds."""
    HistoryFiles.open(history)
    for what, file in (("plan", plan), ("picture", picture)):
        if file is not None and (file.is_dir() or not file.parent.is_dir()):
            raise UsageError(f"the {what} cannot be written to {file}; name a file in a directory that exists")
    if sequencers is not None and sequencers < 1:
        raise UsageError(f"--sequencers {sequencers} is too few; allow 1 or more")
    refuse_without_spark("the search for structure", "rustworkx")


def _write(found: "Structure", plan: Path | None, picture: Path | None) -> None:
    from antiphon.pipeline.structure.plan import plan_text
    from antiphon.report.structure_picture import structure_picture

    if plan is not None:
        plan.write_text(plan_text(found))
    if picture is not None:
        picture.write_text(structure_picture(found))


def _show(found: "Structure", json: bool) -> None:
    from antiphon.pipeline.structure.document import structure_document
    from antiphon.report.structure_table import structure_table

    if json:
        show_json(structure_document(found))
    else:
        show(structure_table(found))
