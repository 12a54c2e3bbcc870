"""One copy of a ledger on disk: `python -m tests.networks.durable_member SETTINGS`.

It writes line after line, WRITERS at a time; each that was acknowledged goes to a file, synchronously, before the next.
It tells the parent, by lines of its own file, of views and of what it waits for. On a line of standard input it writes
no more, brings its copy up to date, stores what it holds, and ends.
"""

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import Any, Final

from antiphon import ClosedError, Node, Options
from tests.networks.member import JOIN_S, commands, keys_of
from tests.programs.ledgers import Ledger

WRITERS: Final = 4
TELL_S: Final = 0.05


async def write(ledger: Ledger, writer: str, acknowledged: int) -> None:
    number = 0
    while True:
        number += 1
        line = f"{writer}:{number}"
        try:
            place = await ledger.write(line)
        except (ClosedError, TimeoutError):
            continue  # executed or not
        os.write(acknowledged, f"{place} {line}\n".encode())
        await asyncio.sleep(0.02)


async def tell(ledger: Ledger, file: Path) -> None:
    """Keep the parent up to date."""
    while True:
        copy: Any = ledger._copy
        members = [member.name for member in copy.tools.view.members]
        state = {"members": members, "waits_for": copy.waits_for(), "lines": len(ledger.lines)}
        beside = file.with_suffix(".new")
        beside.write_text(json.dumps(state))
        beside.replace(file)
        await asyncio.sleep(TELL_S)


async def main() -> None:
    settings: dict[str, Any] = json.loads(sys.argv[1])
    name, directory = settings["name"], Path(settings["directory"])
    orders = await commands()
    acknowledged = os.open(directory / "acknowledged", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    options = Options(**settings["options"])
    keys, history = keys_of(settings["group"]), settings["history"]
    async with Node(name, address=settings["address"], options=options, history=history, keyring=keys) as node:
        group = await node.join(
            settings["group"], contacts=settings["contacts"], timeout_s=JOIN_S, found_after_s=settings["found_after_s"]
        )
        ledger = Ledger(group, path=directory / f"{name}.ledger", founders=settings["founders"])
        telling = asyncio.create_task(tell(ledger, directory / f"{name}.state"))
        async with ledger:
            life = f"{name}/{node.process.incarnation}/{os.getpid()}"
            writing = [
                asyncio.create_task(write(ledger, f"{life}/{writer}", acknowledged)) for writer in range(WRITERS)
            ]
            await orders.readline()
            for task in (telling, *writing):
                task.cancel()
            await asyncio.gather(*writing, return_exceptions=True)
            await ledger.catch_up("agreed")
            (directory / f"{name}.lines").write_text("\n".join(ledger.lines))
            print("stored", flush=True)
            await orders.readline()


if __name__ == "__main__":
    asyncio.run(main())
