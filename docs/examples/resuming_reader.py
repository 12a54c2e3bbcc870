"""A reader of three groups that comes back after a crash at its position: no message twice, none missed.

    antiphon sequencer --address 127.0.0.1:7400 --retain 65536 --storage /var/lib/antiphon
    python resuming_reader.py 127.0.0.1:7400 ledger.jsonl

It writes each message to a file together with its new position, in one line: so the file tells exactly how far it came,
however it ended. Started again, it reads on from there. The service keeps 64 MiB of each group for those that are away.
"""

import asyncio
import contextlib
import json
import sys
from pathlib import Path

import antiphon

GROUPS = ("orders", "payments", "deliveries")


def positions_in(ledger: Path) -> dict[str, str]:
    """Where the last life came to; the last line may be cut short, and then its message was not handled."""
    positions = dict.fromkeys(GROUPS, "")  # "": from the first that the service has
    if ledger.exists():
        lines = ledger.read_bytes().split(b"\n")
        ledger.write_bytes(b"".join(line + b"\n" for line in lines[:-1]))
        for line in lines[:-1]:
            entry = json.loads(line)
            positions[entry["group"]] = entry["position"]
    return positions


async def main(address: str, path: str, count: int | None = None) -> None:
    ledger = Path(path)
    async with await antiphon.connect(address) as client:
        await client.subscribe(*GROUPS, after=positions_in(ledger))
        print("reading", flush=True)
        with ledger.open("a") as lines:
            async for event in client:
                if isinstance(event, antiphon.Message):
                    position = client.position(event.group)
                    entry = {"group": event.group, "text": event.payload.decode(), "position": position}
                    lines.write(json.dumps(entry) + "\n")
                    lines.flush()
                    count = count and count - 1
                    if count == 0:
                        break


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(main(*sys.argv[1:]))
