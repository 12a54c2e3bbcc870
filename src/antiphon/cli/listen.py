"""`antiphon listen`: join a group, only read, and write what is read to a journal for streaming queries."""

from pathlib import Path
from typing import Annotated

import typer

from antiphon import Trust
from antiphon.cli.key import InsecureOption, KeyringOption
from antiphon.cli.streaming import Runnable, place_of, run_until_stopped
from antiphon.history.journal_writer import JournalWriter
from antiphon.streams.listener import Listener


def listen(
    group: Annotated[str, typer.Option(metavar="G", help="The group to listen to.")],
    contacts: Annotated[str, typer.Option(metavar="A,B", help="Addresses of members, to join through.")],
    log: Annotated[Path, typer.Option(metavar="DIR", help="The journal; created, or continued.")],
    name: Annotated[str, typer.Option(metavar="NAME", help="Its name in the group.")] = "listener",
    address: Annotated[str, typer.Option(metavar="HOST:PORT", help="The address it receives on.")] = "127.0.0.1:0",
    join_s: Annotated[float, typer.Option(metavar="S", help="How long it tries to join.")] = 30.0,
    keyring: KeyringOption = None,
    insecure: InsecureOption = False,
    fast: Annotated[bool, typer.Option("--fast", help="Use Options.fast(), if the group does.")] = False,
) -> None:
    """Join a group as a member that only reads, and write all that it delivers to a journal, until Ctrl-C.

    Every message and view gets an offset, 0, 1, 2…, and Spark reads the journal as a stream
    (spark.readStream.format("antiphon")), as far as it is on disk. A listener that is started again continues the same
    journal as a new incarnation; a row of kind `gap` marks where messages are missing.

    \b
      antiphon listen --group quotes --contacts 127.0.0.1:7400 --log quotes-journal
      antiphon listen --group quotes --contacts 10.0.0.1:7400,10.0.0.2:7400 --address 10.0.0.9:0 --log quotes-journal
    """
    place = place_of(group, name, contacts, address, join_s, fast, Trust(keyring, insecure))
    with JournalWriter(log, group=group, listener=name) as journal:

        def make() -> Runnable:
            return Listener(journal, place)

        run_until_stopped(make, f"listening to {group}", lambda: f"{journal.end:,} rows")
