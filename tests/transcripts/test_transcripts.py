"""Readable runs of changes of view, compared byte for byte; `--rewrite` writes them anew, to be read before commit."""

from collections.abc import Callable
from pathlib import Path

import pytest

from antiphon.faults import Fault, Partition
from antiphon.kernel.options import MILLISECOND_NS
from antiphon.simulator.actions import CRASH, LEAVE, SEND, START, Action
from tests.transcripts.transcript import GROUP, transcript

SECOND_NS = 1000 * MILLISECOND_NS
NAMES = ["p1", "p2", "p3"]
ALL = frozenset(NAMES)
HERE = Path(__file__).parent


def talk(*at_ms: int) -> list[Action]:
    """Each says something at these times."""
    return [Action(SEND, at * MILLISECOND_NS, name, GROUP, "agreed", (10,)) for at in at_ms for name in NAMES]


def join() -> str:
    """p3 asks to be let in."""
    actions = [*talk(50), Action(START, 100 * MILLISECOND_NS, "p3"), *talk(300)]
    return transcript(NAMES, ["p1", "p2"], actions, [], SECOND_NS // 2)


def leave() -> str:
    """p2 leaves in good order."""
    actions = [*talk(50), Action(LEAVE, 100 * MILLISECOND_NS, "p2", GROUP), *talk(200)]
    return transcript(NAMES, NAMES, actions, [], SECOND_NS // 2)


def crash() -> str:
    """p3, the youngest, crashes."""
    return transcript(NAMES, NAMES, [Action(CRASH, 100 * MILLISECOND_NS, "p3"), *talk(200, 800)], [], SECOND_NS)


def coordinator_crash() -> str:
    """p1, the oldest, crashes: the next oldest takes over."""
    return transcript(NAMES, NAMES, [Action(CRASH, 100 * MILLISECOND_NS, "p1"), *talk(200, 800)], [], SECOND_NS)


def one_way_link() -> str:
    """Nothing reaches p3, which goes on sending; after a second all is well again."""
    deaf: list[Fault] = [Partition(ALL, frozenset(("p3",)), 100 * MILLISECOND_NS, 1500 * MILLISECOND_NS)]
    return transcript(NAMES, NAMES, talk(50, 1200, 2200), deaf, 2 * SECOND_NS + SECOND_NS // 2)


def stall_and_heal() -> str:
    """No member hears any other for a second: none has a majority. Then all go on where they were."""
    cut: list[Fault] = [Partition(ALL, ALL, 100 * MILLISECOND_NS, 1100 * MILLISECOND_NS)]
    return transcript(NAMES, NAMES, talk(50, 600, 1800), cut, 2 * SECOND_NS)


def merge() -> str:
    """p3 is cut off for a second. Both sides go on, each in a view of its own, and merge when they meet again."""
    apart: list[Fault] = [
        Partition(frozenset(side), ALL - frozenset(side), 100 * MILLISECOND_NS, 1100 * MILLISECOND_NS)
        for side in (("p3",), ("p1", "p2"))
    ]
    return transcript(
        NAMES, NAMES, talk(50, 800, 2200), apart, 2 * SECOND_NS + SECOND_NS // 2, "domain", "partitionable"
    )


SCENES: dict[str, Callable[[], str]] = {
    "join": join,
    "leave": leave,
    "crash": crash,
    "coordinator_crash": coordinator_crash,
    "one_way_link": one_way_link,
    "stall_and_heal": stall_and_heal,
    "merge": merge,
}


@pytest.mark.parametrize("name", SCENES)
def test_the_run_is_the_one_that_was_written_down(name: str, request: pytest.FixtureRequest) -> None:
    path = HERE / f"{name}.txt"
    text = f"{SCENES[name].__doc__}\n\n{SCENES[name]()}"
    if request.config.getoption("--rewrite"):
        path.write_text(text)
    assert path.read_text() == text, f"the run has changed: read {path.name} after pytest {path.parent} --rewrite"
