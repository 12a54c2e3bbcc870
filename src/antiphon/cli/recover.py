"""`antiphon recover`: an operator revives a group that has lost its majority for good."""

import asyncio
from typing import Annotated

import typer
from rich.text import Text

from antiphon import Trust
from antiphon.cli.console import show
from antiphon.cli.key import InsecureOption, KeyringOption
from antiphon.runtime.recovering import recover as recover_group
from antiphon.stacks.registry import DEFAULT


def recover(
    group: Annotated[str, typer.Argument(metavar="GROUP", help="The group that stands still.")],
    contacts: Annotated[str, typer.Option(metavar="A,B", help="Addresses of members that are left.")],
    confirm: Annotated[
        str | None, typer.Option(metavar="GROUP", help="The name of the group again: its other members are gone.")
    ] = None,
    stack: Annotated[str, typer.Option(metavar="S", help="The stack of the group.")] = DEFAULT,
    keyring: KeyringOption = None,
    insecure: InsecureOption = False,
    timeout_s: Annotated[float, typer.Option(metavar="S", help="How long to wait for answers.")] = 10.0,
) -> None:
    """Have a group that stands still for want of a majority go on with the members that can be reached.

    Safe only if the other members are gone for good: killed, or on machines that are lost. If they live on, there are
    two groups of one name from then on. So nothing happens before the name of the group is confirmed; without that,
    the command says how the group stands.

    \b
      antiphon recover quotes --contacts 127.0.0.1:7400
      antiphon recover quotes --contacts 127.0.0.1:7400 --confirm quotes
    """
    addresses = [address.strip() for address in contacts.split(",") if address.strip()]
    if not addresses:
        raise typer.BadParameter("name at least one address", param_hint="--contacts")
    before, after = asyncio.run(
        recover_group(
            group, addresses, stack=stack, confirm=confirm, timeout_s=timeout_s, trust=Trust(keyring, insecure)
        )
    )
    lost = ", ".join(repr(process) for process in before.view.members if process not in after.view.members)
    show(Text(f"group {group} goes on in {after.view}, without {lost or 'nobody'}"))
