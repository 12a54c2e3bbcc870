"""What `listen` and `feed` share: the options for joining, and running until Ctrl-C or SIGTERM."""

import asyncio
import signal
from collections.abc import Callable
from typing import Final, Protocol

from antiphon import Options, Trust
from antiphon.cli.console import errors, steps
from antiphon.kernel.errors import UsageError
from antiphon.streams.membership import StreamPlace

SAY_S: Final = 5.0
"""Seconds between two reports of progress."""


class Runnable(Protocol):
    """A listener or a feeder."""

    async def run(self) -> None: ...

    def stop(self) -> None: ...


def place_of(
    group: str, name: str, contacts: str, address: str, join_s: float, fast: bool, trust: Trust
) -> StreamPlace:
    """Return the options of the command line as a StreamPlace."""
    addresses = [text.strip() for text in contacts.split(",") if text.strip()]
    if not addresses:
        raise UsageError("name at least one member to join through, as in --contacts 127.0.0.1:7400")
    options = Options.fast() if fast else None
    return StreamPlace(
        group=group, name=name, contacts=addresses, address=address, join_s=join_s, options=options, trust=trust
    )


def run_until_stopped(
    make: Callable[[], Runnable],
    what: str,
    progress: Callable[[], str],
    factory: Callable[[], asyncio.AbstractEventLoop] | None = None,
) -> None:
    """Run until Ctrl-C or SIGTERM, then leave the group; report progress on standard error. `factory` makes the event
    loop."""
    with steps(what) as step, asyncio.Runner(loop_factory=factory) as runner:
        runner.run(_run(make, lambda: step(f"{what}: {progress()}")))


async def _run(make: Callable[[], Runnable], say: Callable[[], None]) -> None:
    running = make()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, running.stop)
    work = asyncio.create_task(running.run())
    while not work.done():
        await asyncio.wait((work,), timeout=SAY_S)
        if errors.is_terminal or work.done():
            say()
    await work
