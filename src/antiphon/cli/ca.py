"""`antiphon ca`: the authority of a cluster, which gives each member a key and a certificate (docs/security.md)."""

from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table
from rich.text import Text

from antiphon.cli.console import show
from antiphon.runtime.authority import DAY_S, DAYS, Authority, create_authority
from antiphon.runtime.certificates import ROLES
from antiphon.runtime.environment import current_environment

ca = typer.Typer(name="ca", help="Give members identities: keys and certificates.", no_args_is_help=True)
Directory = Annotated[Path, typer.Argument(metavar="DIR", help="Where the authority is.")]
DirectoryOption = Annotated[Path, typer.Option("--dir", metavar="DIR", help="Where the authority is.")]
Name = Annotated[str, typer.Argument(metavar="NAME", help="The name of a process.")]
HERE = Path("ca")


@ca.command()
def new(directory: Directory = HERE) -> None:
    """Make an authority. Keep the directory where no member runs: whoever has it can make members.

    \b
      antiphon ca new ca
      antiphon ca issue alice --dir ca
      scp -p ca/alice.identity HOST:                then Node("alice", identity="alice.identity")
    """
    show(Text(f"{directory}: an authority, {create_authority(directory).public.hex()[:16]}…"))


@ca.command()
def issue(
    name: Name,
    directory: DirectoryOption = HERE,
    role: Annotated[str, typer.Option("--role", help=f"What it may do: {', '.join(ROLES)}.")] = "member",
    days: Annotated[int, typer.Option("--days", metavar="N", help="How long the certificate holds.")] = DAYS,
) -> None:
    """Make a key and a certificate for a process, in DIR/NAME.identity. Copy that file to its machine alone.

    A member joins groups, sends, and coordinates changes of views; a sender does not coordinate; a reader does not
    send either; a guest does not join: it only makes connections.
    """
    show(Text(f"{Authority(directory).issue(name, role, days)}: {name}, {role}, for {days} days"))


@ca.command()
def revoke(name: Name, directory: DirectoryOption = HERE) -> None:
    """Take back all certificates of a process. Copy DIR/revocations beside the identity of any member that runs, or
    that is going to: the nodes pass it on. Exclusion from a group does not keep a process from coming back; this does.
    """
    after = Authority(directory).revoke(name)
    show(Text(f"{directory / 'revocations'}: version {after.version}, {len(after.serials)} revoked"))


@ca.command("show")
def show_issued(directory: Directory = HERE) -> None:
    """List what was issued. Keys are not shown."""
    authority = Authority(directory)
    now_s = current_environment().time_ns() // 10**9
    table = Table(title=f"authority {authority.public.hex()[:16]}…, revocations {authority.revocations().version}")
    for column in ("serial", "name", "role", "holds"):
        table.add_column(column)
    for one in authority.issued():
        left = (one.until_s - now_s) // DAY_S
        holds = "revoked" if one.is_revoked else f"for {left} days" if one.until_s > now_s else "run out"
        table.add_row(str(one.serial), one.name, one.role, holds)
    show(table)
