"""Groups and traffic for the tests of structure: drawn by chance, or written down as histories."""

from collections.abc import Mapping
from pathlib import Path
from random import Random

from antiphon.history.recorder import Recorder
from antiphon.pipeline.structure.traffic import Share, Traffic

OFFICE: Mapping[str, tuple[str, ...]] = {
    "audit": ("dave", "erin"),
    "chat": ("ivan", "alice"),
    "lonely": ("judy",),
    "orders": ("bob", "carol", "dave"),
    "quotes": ("alice", "bob", "carol"),
    "risk": ("erin", "frank", "dave"),
}
"""audit and risk, and orders and quotes, share two; audit, orders and risk share dave, in a triangle; chat hangs on."""


def draw_members(random: Random, groups: int, processes: int) -> dict[str, frozenset[str]]:
    """Random groups, mostly small ones."""
    names = [f"p{place}" for place in range(processes)]
    return {
        f"g{place}": frozenset(random.sample(names, random.randint(1, min(processes, 4)))) for place in range(groups)
    }


def traffic_of(members: Mapping[str, frozenset[str]], random: Random) -> Traffic:
    """Everybody in a view of its groups, and sending some messages."""
    shares = []
    for group, names in sorted(members.items()):
        for process in sorted(names):
            messages = random.randrange(50)
            share = Share(
                group=group, process=process, messages=messages, bytes=10 * messages, ordered=0, private=0,
                delivered=messages, view_first=1, view_last=2,
            )  # fmt: skip
            shares.append(share)
    return Traffic(tuple(shares))


def record_office(directory: Path) -> None:
    """The groups of OFFICE: every member sends 4 messages of 10 bytes to each of its groups; the agreed group is risk.

    Dave leaves audit after its first view, and comes back in a second life to orders alone.
    """
    lives = [*((name, 1) for name in sorted({name for names in OFFICE.values() for name in names})), ("dave", 2)]
    logs = {life: Recorder(directory, run="office", process=life[0], incarnation=life[1]) for life in lives}
    for group, names in OFFICE.items():
        for name in names:
            log = logs[name, 1]
            log.start(0, group, "vector", "primary", ("causal", "agreed"), ("creation", "fifo"))
            log.view(0, group, 1, [f"{member}/1" for member in names])
            level = "agreed" if group == "risk" else "causal"
            log.send(1, group, 1, 1, 4, level, 40)
            log.send(2, group, 1, 5, 1, "causal", 7, (f"{names[0]}/1",))
        for name in names:
            for sender in names:
                logs[name, 1].deliver(3, group, 1, sender, 1, 1, 4, "causal", 40)
    logs["erin", 1].view(4, "audit", 2, ["erin/1"])
    after = ["bob/1", "carol/1", "dave/2"]
    logs["dave", 2].start(5, "orders", "vector", "primary", ("causal",), ("creation", "fifo"))
    for life in (("bob", 1), ("carol", 1), ("dave", 2)):
        logs[life].view(5, "orders", 3, after)
    for log in logs.values():
        log.stop(9)
        log.close()
