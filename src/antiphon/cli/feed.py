"""`antiphon feed`: join a group and multicast the rows that a streaming query has written to a spool."""

from pathlib import Path
from typing import Annotated

import typer

from antiphon import Trust
from antiphon.cli.key import InsecureOption, KeyringOption
from antiphon.cli.streaming import Runnable, place_of, run_until_stopped
from antiphon.history.spool import Spool
from antiphon.streams.feeder import Feeder


def feed(
    group: Annotated[str, typer.Option(metavar="G", help="The group to multicast to.")],
    contacts: Annotated[str, typer.Option(metavar="A,B", help="Addresses of members, to join through.")],
    spool: Annotated[Path, typer.Option(metavar="DIR", help="The spool that the query writes to; created if missing.")],
    name: Annotated[str, typer.Option(metavar="NAME", help="Its name in the group.")] = "feeder",
    address: Annotated[str, typer.Option(metavar="HOST:PORT", help="The address it receives on.")] = "127.0.0.1:0",
    join_s: Annotated[float, typer.Option(metavar="S", help="How long it tries to join.")] = 30.0,
    keyring: KeyringOption = None,
    insecure: InsecureOption = False,
    fast: Annotated[bool, typer.Option("--fast", help="Use Options.fast(), if the group does.")] = False,
) -> None:
    """Join a group and multicast the rows of a spool, batch by batch, until Ctrl-C.

    A streaming query writes to the spool (frame.writeStream.format("antiphon")). Each row is multicast at its level,
    with its number; batches that are at all members are deleted. A feeder that was killed continues when it is started
    again; members that read through antiphon.toolkit.Feeds see each row once.

    \b
      antiphon feed --group quotes --contacts 127.0.0.1:7400 --spool quotes-spool
    """
    place = place_of(group, name, contacts, address, join_s, fast, Trust(keyring, insecure))
    opened = Spool(spool)

    def make() -> Runnable:
        return Feeder(opened, place)

    run_until_stopped(make, f"feeding {group}", lambda: f"{opened.position().next - 1:,} rows are at all members")
