"""`antiphon bench`: the measurements, which are in the folder `bench` of the sources and not in the package.

Each command passes its arguments on to the program of that name, runs it as a child process and exits with its code.
"""

import os
import subprocess
import sys
from pathlib import Path
from typing import Final

import typer

from antiphon import _build
from antiphon.kernel.errors import UsageError

PASSED_ON: Final = {"allow_extra_args": True, "ignore_unknown_options": True}

bench = typer.Typer(
    name="bench", no_args_is_help=True, rich_markup_mode=None, help="Measure Antiphon, alone or beside other systems."
)


@bench.command(context_settings=PASSED_ON, add_help_option=False)
def throughput(context: typer.Context) -> None:
    """Messages per second, of each order (--help tells what can be chosen)."""
    _run("bench.throughput", context.args)


@bench.command(context_settings=PASSED_ON, add_help_option=False)
def peers(context: typer.Context) -> None:
    """Antiphon beside other systems under the same load (--help tells what can be chosen)."""
    _run("bench.peers", context.args)


@bench.command(context_settings=PASSED_ON, add_help_option=False)
def latency(context: typer.Context) -> None:
    """Round trips beside a raw echo, and one way, idle and at half load (--help tells what can be chosen)."""
    _run("bench.latency", context.args)


@bench.command(context_settings=PASSED_ON, add_help_option=False)
def growth(context: typer.Context) -> None:
    """Throughput and processor time as members, sizes and groups grow (--help tells what can be chosen)."""
    _run("bench.scaling", context.args)


@bench.command(context_settings=PASSED_ON, add_help_option=False)
def paper(context: typer.Context) -> None:
    """The tables of isis-1991 and psync-1989, ours beside the papers' (--help tells what can be chosen)."""
    _run("bench.paper", context.args)


def checkout() -> Path:
    """Return the root of the source checkout that this package runs from."""
    root = _build.PACKAGE.parents[1]
    if not (root / "bench" / "peers").is_dir():
        raise UsageError(
            "the benchmarks are not part of the installed package; run this from a checkout of the sources, "
            "after `make setup` there, as .venv/bin/antiphon bench"
        )
    return root


def _run(module: str, arguments: list[str]) -> None:
    root = checkout()
    paths = [str(root / "src"), str(root), *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
    done = subprocess.run([sys.executable, "-m", module, *arguments], env=environment, check=False)
    raise typer.Exit(done.returncode)
