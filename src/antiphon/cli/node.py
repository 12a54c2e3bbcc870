"""`antiphon node` and `antiphon config`: run a member from a file, and check the file."""

import asyncio
import gc
import importlib
import os
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Final

import typer
from rich.text import Text

from antiphon.cli.console import errors, show
from antiphon.deployment.config import ConfigError, load_config
from antiphon.deployment.example import EXAMPLE
from antiphon.deployment.log_format import set_up_logging
from antiphon.deployment.member_config import MemberConfig
from antiphon.deployment.running import RunningMember, Service, find_service
from antiphon.deployment.schema import as_text

EXIT_UNUSABLE: Final = 2

config = typer.Typer(
    name="config", help="Check a file for `antiphon node`, or see what may stand there.", no_args_is_help=True
)
ConfigFile = Annotated[Path, typer.Argument(metavar="CONFIG.toml", help="The file.")]


def _load(file: Path) -> MemberConfig:
    """The configuration; exits with 2 if it cannot be used, after a line for each problem."""
    try:
        return load_config(file, os.environ)
    except ConfigError as error:
        for problem in error.problems:
            errors.print(Text(problem))
        raise typer.Exit(EXIT_UNUSABLE) from None


def node(
    file: ConfigFile,
    page: Annotated[bool, typer.Option("--page", help="Serve a live page, too, as `page` in [observe] does.")] = False,
) -> None:
    """Run a member of groups from a file, until SIGTERM or Ctrl-C; then leave in good order.

    The file says who the process is, whom it trusts, which groups it is in and what it does there: a function of yours
    (`service = "package.module:function"`), or nothing but to keep the groups alive and record. `antiphon config check`
    checks it, `antiphon config example` prints one. ANTIPHON_<TABLE>_<KEY> in the environment overrides a key.
    SIGHUP has the keyring read again.

    \b
      antiphon node member.toml
      ANTIPHON_NODE_NAME=second ANTIPHON_LOG_LEVEL=debug antiphon node member.toml

    \b
    exit  meaning
    0     left in good order: all members have what was sent here, and agreed on a view without this process
    2     the file or the machine is at fault, and nothing was begun: to start it again will not help
    5     left, but not in good order: somebody was not reached within linger_s
    6     failed: the node, its service, or a group that it was excluded from; start it again
    """
    found = _load(file)
    if page:
        found = found.with_page()
    set_up_logging(found.log_level, found.log_format)
    service = find_service(found.service, file.parent.resolve()) if found.service else None
    gc.freeze()  # what was loaded until now stays: the garbage collector shall not look at it again and again
    factory = importlib.import_module("uvloop").new_event_loop if find_spec("uvloop") else None
    with asyncio.Runner(loop_factory=factory) as runner:
        code = runner.run(_run(found, service))
    raise typer.Exit(code)


async def _run(found: MemberConfig, service: Service | None) -> int:
    return await RunningMember(found, service).run()


@config.command()
def check(file: ConfigFile) -> None:
    """Check a file for `antiphon node`, with what the environment overrides; exit 0 if it is sound, else 2.

    Each problem is a line on standard error: file, line, key, what is wrong, and what is allowed. Nothing is looked up
    on the network, and no file that it names is opened, so it can be checked on another machine.

    \b
      antiphon config check member.toml
    """
    found = _load(file)
    groups = ", ".join(group.name for group in found.groups) or "none"
    show(Text(f"{file}: sound; process {found.name} at {found.listen}, groups: {groups}"))


@config.command()
def example() -> None:
    """Print a file to begin with.

    \b
      antiphon config example > member.toml
    """
    print(EXAMPLE, end="")


@config.command()
def keys() -> None:
    """List all tables and keys, with what they take, their defaults, and the variables that override them."""
    show(Text(as_text()))
