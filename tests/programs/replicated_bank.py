"""The bank of docs/examples in a conversation: deposits commute, withdrawals are ordered; all copies become equal.

Nobody is killed: who takes part in a conversation is fixed when it is opened, and this example writes nothing down from
which a participant could come back. A participant that is cut off for seconds is removed by the two others, which go
on; it is told so and ends.
"""

import json
from functools import partial

from antiphon.conversation import DivergedError, RemovedError
from antiphon.testing import Host, Result
from tests.programs.common import Play, draw
from tests.programs.example import Example

NAMES = ("a", "b", "c")
REMOVED = "removed"
UNDECIDED = {
    "settled": "a participant that is removed ends before the run is quiet; the copies of the others are compared"
}


async def main(host: Host) -> str:
    random = draw()
    lines: list[tuple[float, str]] = []
    time_s = 1.0
    for _ in range(12):
        time_s += random.random() * 0.5
        verb = "deposit" if random.random() < 0.7 else "withdraw"
        lines.append((time_s, f"{verb} {'xyz'[int(random.random() * 3)]} {int(random.random() * 50)}"))
    lines.append((13.0, ""))
    example = Example("replicated_bank.py", lines)
    others = [f"{name}={address}" for name, address in host.members().items() if name != host.name]
    try:
        await example.run(host.name, host.at(), *(others if host.name == NAMES[0] else []))
    except (DivergedError, RemovedError):
        return REMOVED
    return example.printed[-1]


def equal(result: Result) -> None:
    removed = [name for name, text in result.returned.items() if text == REMOVED]
    assert len(removed) <= 1, f"{result.returned}"
    shown = set(result.returned.values()) - {REMOVED}
    assert len(shown) <= 1, f"{result.returned}"
    assert all(text.startswith("balances {") for text in shown), f"{result.returned}"
    for text in shown:
        assert all(value >= 0 for value in json.loads(text.removeprefix("balances ")).values()), text


def play(seed: int) -> Play:
    return Play(dict.fromkeys(NAMES, partial(main)), equal, "network", may_be_unknown=UNDECIDED)
