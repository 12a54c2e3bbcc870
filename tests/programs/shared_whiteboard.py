"""The whiteboard of docs/examples, on the context graph alone; all boards become equal.

Nobody is killed: who takes part in a conversation is fixed when it is opened, and this example writes nothing down from
which a participant could come back.
"""

from antiphon.testing import Host, Result
from tests.programs.common import Play, draw
from tests.programs.example import Example

NAMES = ("a", "b", "c")


async def main(host: Host) -> str:
    random = draw()
    lines: list[tuple[float, str]] = []
    time_s = 1.0
    for number in range(12):
        time_s += random.random() * 0.5
        lines.append((time_s, "clear" if random.random() < 0.1 else f"{host.name}{number}"))
    lines.append((13.0, ""))
    example = Example("shared_whiteboard.py", lines)
    others = [f"{name}={address}" for name, address in host.members().items() if name != host.name]
    await example.run(host.name, host.at(), *(others if host.name == NAMES[0] else []))
    return example.printed[-1]


def equal(result: Result) -> None:
    shown = set(result.returned.values())
    assert len(shown) <= 1, f"{result.returned}"
    assert all(text.startswith("board [") for text in shown), f"{result.returned}"


def play(seed: int) -> Play:
    return Play(dict.fromkeys(NAMES, main), equal, "network")
