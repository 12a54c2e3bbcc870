"""`antiphon key`: make and rotate the keys that the processes of a cluster share (docs/security.md)."""

from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from antiphon.cli.console import show
from antiphon.runtime.keyring import Keyring, add_key, create_keyring, load_keyring, replace_keys, retire_keys

KeyringOption = Annotated[
    str | None, typer.Option("--keyring", metavar="FILE", help="The keys of the cluster (antiphon key new).")
]
InsecureOption = Annotated[
    bool, typer.Option("--insecure", help="Do without keys, on a network where everybody is trusted.")
]

key = typer.Typer(name="key", help="Make and rotate the keys that a cluster shares.", no_args_is_help=True)
KeyFile = Annotated[Path, typer.Argument(metavar="FILE", help="The keyring.")]


def _describe(file: Path, keyring: Keyring) -> str:
    lines = [f"{file}: {len(keyring.keys)} key{'s' if len(keyring.keys) > 1 else ''}"]
    lines += [f"  {one.epoch}  tag {one.tag.hex()}" for one in keyring.keys]
    return "\n".join(lines)


@key.command()
def new(file: KeyFile) -> None:
    """Write a keyring with one new key, readable by you alone. Copy it to all machines of the cluster, by a safe way.

    \b
      antiphon key new antiphon.key
      scp -p antiphon.key HOST:
    """
    show(Text(_describe(file, create_keyring(file))))


@key.command()
def status(file: KeyFile) -> None:
    """Say which keys a keyring has. Secrets are not shown. `Node.statistics()` says which one a running node uses."""
    show(Text(_describe(file, load_keyring(file))))


@key.command()
def rotate(
    file: KeyFile,
    compromised: Annotated[
        bool, typer.Option("--compromised", help="Others may know the keys: take them out at once.")
    ] = False,
) -> None:
    """Add a new key to a keyring. Nodes read the file again by themselves and use the key when all others have it.

    Copy the file to all machines; when `key_epoch` of all nodes is the new key, take the former ones out:

    \b
      antiphon key rotate antiphon.key
      scp -p antiphon.key HOST:                     once for each machine, in any order, at any time
      antiphon key retire antiphon.key              and copy it again

    With --compromised the new key is the only one: a node that does not have it yet is alone until its file is
    replaced, too. Copy the file by a way that does not depend on the former keys.
    """
    show(Text(_describe(file, replace_keys(file) if compromised else add_key(file))))


@key.command()
def retire(file: KeyFile) -> None:
    """Take all keys but the newest out of a keyring: the end of a rotation. Who has only older ones stays outside."""
    show(Text(_describe(file, retire_keys(file))))
