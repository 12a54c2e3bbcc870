"""`antiphon demo`: real processes over a bad network, then an audit of what they did."""

from collections import Counter
from pathlib import Path
from typing import Annotated, Final

import typer
from rich.text import Text

from antiphon.cli.auditing import EXIT_CODES, audit_history
from antiphon.cli.console import complain, counting, errors, show
from antiphon.history.manifest import close_history
from antiphon.report.table import audit_table
from antiphon.runtime.demo import DemoResult, run_demo

DUPLICATION: Final = 0.02
REORDERING: Final = 0.05


def demo(
    members: Annotated[int, typer.Option(metavar="N", help="How many processes to start.")] = 5,
    messages: Annotated[int, typer.Option(metavar="M", help="How many messages each of them sends.")] = 10_000,
    loss: Annotated[float, typer.Option(metavar="P", min=0, max=0.5, help="Probability that a packet is lost.")] = 0.05,
    seed: Annotated[int, typer.Option(metavar="K", help="Seed of the random faults.")] = 1,
    directory: Annotated[
        Path, typer.Option(metavar="DIR", help="Where each demo makes a new folder for its history and report.")
    ] = Path("demo"),
) -> None:
    """Run processes over a bad network, and audit what they did.

    Starts real processes on this machine that multicast to each other at level `causal`, over sockets that lose,
    duplicate and reorder packets; records what each one sends and delivers; audits the record on Spark; and writes a
    report for a browser. Exit code 0: every promise was kept.

    \b
      antiphon demo
      antiphon demo --members 3 --messages 1000 --loss 0.2
    """
    place = _new_place(directory)
    history, report = place / "history", place / "report.html"
    errors.print(
        Text(
            f"{members} processes, {messages:,} causal messages each; the network loses {loss:.0%}, "
            f"doubles {DUPLICATION:.0%} and reorders {REORDERING:.0%} of all packets"
        )
    )
    with counting("delivered") as progress:
        result = run_demo(
            history,
            members=members,
            messages=messages,
            loss=loss,
            duplication=DUPLICATION,
            reordering=REORDERING,
            seed=seed,
            progress=progress,
        )
    close_history(history)
    show(Text(_sentence(result)))
    if not result.completed:
        complain("some messages had not arrived when time was up, so the audit cannot tell whether they would have")
    audit, _ = audit_history(history, master=None, promise=None, report=report)
    show(audit_table(audit))
    show(Text(f"\nhistory  {history}\nreport   {report}  (open it in a browser)"))
    raise typer.Exit(EXIT_CODES[audit.verdict])


def _new_place(directory: Path) -> Path:
    """Make and return a folder that no earlier demo has used."""
    directory.mkdir(parents=True, exist_ok=True)
    number = 1 + max((int(entry.name) for entry in directory.iterdir() if entry.name.isdecimal()), default=0)
    place = directory / str(number)
    place.mkdir()
    return place


def _sentence(result: DemoResult) -> str:
    members = len(result.members)
    counts: Counter[str] = Counter()
    for statistics in result.statistics.values():
        counts.update(statistics)
    return (
        f"{members} processes sent {members * result.messages:,} messages and delivered "
        f"{sum(result.delivered.values()):,} of {members * result.expected:,} in {result.elapsed_s:.1f} s; "
        f"the network lost {counts['flights_lost']:,} packets, doubled {counts['flights_duplicated']:,} and held back "
        f"{counts['flights_delayed']:,}, and the members resent {counts['resends']:,}\n"
    )
