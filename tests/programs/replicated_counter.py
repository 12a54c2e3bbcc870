"""The counter and the dictionary of docs/examples as they are: in the end all show the same.

Nobody recovers a group of these that has lost its majority for good: the examples leave that to an operator. If the
founder fails, or is cut off, before anybody else has the state, the state is lost, and all the others are told so.
"""

import asyncio
from functools import partial

from antiphon.testing import Host, Result
from antiphon.toolkit import StateError
from tests.programs.common import Play, draw
from tests.programs.example import Example

NAMES = ("a", "b", "c")
SHOW_S = 13.0
LOST = "lost"


async def main(host: Host, file: str, holders: set[str]) -> str:
    """The last that was shown, or LOST. Adds itself to `holders` if it had the state, as the founder or by transfer."""
    random = draw()
    lines: list[tuple[float, str]] = []
    time_s = 2.0
    for number in range(10):
        time_s += random.random() * 0.8
        text = f"{int(random.random() * 100)}" if "counter" in file else f"{'xyz'[number % 3]} {host.name}{number}"
        lines.append((time_s, text))
    lines += [(10.0, "5" if "counter" in file else f"{host.name} healed"), (SHOW_S, ""), (SHOW_S + 1, "")]
    await asyncio.sleep(0.0 if host.name == NAMES[0] else 0.5)
    example = Example(file, lines)
    contacts = [address for name, address in host.members().items() if name != host.name]
    founds = host.name == NAMES[0] and host.starts == 1
    try:
        await example.run(host.name, host.at(), *([] if founds else contacts))
    except StateError:
        return LOST
    finally:
        if example.printed and not founds:
            holders.add(f"{host.name}/{host.starts}")
    return next(text for text in reversed(example.printed) if not text.startswith("members"))


def agree(result: Result, holders: set[str]) -> None:
    shown = set(result.returned.values())
    assert LOST not in shown or not holders, f"the state is lost, although {sorted(holders)} had it: {result.returned}"
    assert len(shown - {LOST}) <= 1, f"{result.returned}"


def play(seed: int) -> Play:
    file = ("replicated_counter.py", "replicated_dictionary.py")[seed // 2 % 2]
    holders: set[str] = set()

    async def start(host: Host) -> str:
        return await main(host, file, holders)

    return Play(dict.fromkeys(NAMES, start), partial(agree, holders=holders), may_stall=True)
