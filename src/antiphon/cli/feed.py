"""`antiphon feed`: a member that multicasts what a streaming query has published in a spool."""

from pathlib import Path
from typing import Annotated

import typer

from antiphon.cli.streaming import Runnable, place_of, run_until_stopped
from antiphon.history.spool import Spool
from antiphon.streams.feeder import Feeder


def feed(
    group: Annotated[str, typer.Option(metavar="G", help="The group to multicast to.")],
    contacts: Annotated[str, typer.Option(metavar="A,B", help="Addresses of members that may let it in.")],
    spool: Annotated[Path, typer.Option(metavar="DIR", help="The spool that the query writes to; made if need be.")],
    name: Annotated[str, typer.Option(metavar="NAME", help="Who it is in the group.")] = "feeder",
    address: Annotated[str, typer.Option(metavar="HOST:PORT", help="Where it receives.")] = "127.0.0.1:0",
    join_s: Annotated[float, typer.Option(metavar="S", help="How long it tries to get in, at most.")] = 30.0,
    fast: Annotated[bool, typer.Option("--fast", help="The group runs on Options.fast(), and so must this.")] = False,
) -> None:
    """Join a group and multicast the rows of a spool, batch by batch, until Ctrl-C.

    A streaming query writes to the spool (frame.writeStream.format("antiphon")). Each row is multicast at its level and
    under its number; what is at all members is let go. Killed and started again, it goes on where it was; members that
    read through antiphon.toolkit.Feeds see each row once.

    \b
      antiphon feed --group quotes --contacts 127.0.0.1:7400 --spool quotes-spool
    """
    place = place_of(group, name, contacts, address, join_s, fast)
    opened = Spool(spool)

    def make() -> Runnable:
        return Feeder(opened, place)

    run_until_stopped(make, f"feeding {group}", lambda: f"{opened.position().next - 1:,} rows are at all members")
