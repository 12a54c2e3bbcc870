"""One of several processes leads and writes to a file, which refuses those that led before: kill or stop the leader.

python leader.py log.txt alice 127.0.0.1:7400
python leader.py log.txt bob 127.0.0.1:7401 127.0.0.1:7400
"""

import asyncio
import contextlib
import sys

import antiphon
from antiphon.toolkit import Leader, LockLostError, StaleTokenError, TokenGuard, Tools


async def main(file: str, name: str, address: str, *contacts: str) -> None:
    guard = TokenGuard(f"{file}.guard")
    async with antiphon.Node(name, address=address, rejoin=True) as node:
        members = None if contacts else {name: address}
        tools = Tools(await node.join("writers", contacts=contacts, members=members))
        leader = Leader(tools)
        async with tools:
            await tools.live()
            print("joined", flush=True)
            while True:
                try:
                    async with leader.term() as term:  # waits until this process leads
                        print("leads", term.token, flush=True)
                        while True:
                            with (
                                guard.admit(term.token),
                                open(file, "a") as log,
                            ):  # refuses former leaders
                                log.write(f"{name} {term.token}\n")
                            await asyncio.sleep(0.05)
                except (LockLostError, StaleTokenError) as error:
                    print("leads no more:", error, flush=True)


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(main(*sys.argv[1:]))
