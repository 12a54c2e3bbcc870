"""`antiphon listen`: a member that only reads, and keeps what it reads in a journal for streaming queries."""

from pathlib import Path
from typing import Annotated

import typer

from antiphon.cli.streaming import Runnable, place_of, run_until_stopped
from antiphon.history.journal_writer import JournalWriter
from antiphon.streams.listener import Listener


def listen(
    group: Annotated[str, typer.Option(metavar="G", help="The group to listen to.")],
    contacts: Annotated[str, typer.Option(metavar="A,B", help="Addresses of members that may let it in.")],
    log: Annotated[Path, typer.Option(metavar="DIR", help="Where the journal goes; made, or gone on with.")],
    name: Annotated[str, typer.Option(metavar="NAME", help="Who it is in the group.")] = "listener",
    address: Annotated[str, typer.Option(metavar="HOST:PORT", help="Where it receives.")] = "127.0.0.1:0",
    join_s: Annotated[float, typer.Option(metavar="S", help="How long it tries to get in, at most.")] = 30.0,
    fast: Annotated[bool, typer.Option("--fast", help="The group runs on Options.fast(), and so must this.")] = False,
) -> None:
    """Join a group as a silent member, and write all that it delivers into a journal, until Ctrl-C.

    Every message and view gets an offset, 0, 1, 2…, and is on disk before it counts; Spark reads the journal as a
    stream (spark.readStream.format("antiphon")). Started again, it goes on in the same journal as a new incarnation;
    what the group delivered meanwhile is missing, and a row of kind `gap` marks the place.

    \b
      antiphon listen --group quotes --contacts 127.0.0.1:7400 --log quotes-journal
      antiphon listen --group quotes --contacts 10.0.0.1:7400,10.0.0.2:7400 --address 10.0.0.9:0 --log quotes-journal
    """
    place = place_of(group, name, contacts, address, join_s, fast)
    with JournalWriter(log, group=group, listener=name) as journal:

        def make() -> Runnable:
            return Listener(journal, place)

        run_until_stopped(make, f"listening to {group}", lambda: f"{journal.end:,} rows")
