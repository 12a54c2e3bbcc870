"""The counter and the dictionary of docs/examples as they are: in the end all show the same.

Nobody recovers a group of these that has lost its majority for good: the examples leave that to an operator.
"""

import asyncio

from antiphon.testing import Host, Result
from tests.programs.common import Play, draw
from tests.programs.example import Example

NAMES = ("a", "b", "c")
SHOW_S = 13.0


async def main(host: Host, file: str) -> str:
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
    await example.run(host.name, host.at(), *([] if host.name == NAMES[0] and host.starts == 1 else contacts))
    return next(text for text in reversed(example.printed) if not text.startswith("members"))


def agree(result: Result) -> None:
    shown = set(result.returned.values())
    assert len(shown) <= 1, f"{result.returned}"


def play(seed: int) -> Play:
    file = ("replicated_counter.py", "replicated_dictionary.py")[seed // 2 % 2]

    async def start(host: Host) -> str:
        return await main(host, file)

    return Play(dict.fromkeys(NAMES, start), agree, may_stall=True)
