"""A group whose views part and merge (stack `domain`, policy `partitionable`), under all faults: partitions, one-way
cuts, losses, pauses, kills and restarts. Beside the audit, the programs themselves compare what they were handed: those
that go from one view to the same next one were handed the same messages, ordered ones in one order, the same of them
before the transitional view; in the end all are in one view, and have the same messages in it."""

import asyncio
from dataclasses import dataclass, field

import antiphon
from antiphon.testing import Host, Result
from tests.programs.common import Play, names, node_at, talk, until_ending

GROUP = "parting"
Key = tuple[str, int]
"""Sender and number of a message."""


@dataclass
class Stay:
    """One view, as one program was in it."""

    view: int
    members: tuple[str, ...]
    handed: list[Key] = field(default_factory=list)
    ordered: list[Key] = field(default_factory=list)
    before: int | None = None
    """How many were handed before the transitional view."""


async def main(host: Host) -> list[Stay]:
    stays: list[Stay] = []
    async with node_at(host) as node:
        if host.starts == 1:
            group = await node.join(GROUP, members=host.members(), policy="partitionable", stack="domain")
        else:
            others = [address for name, address in host.members().items() if name != host.name]
            group = await node.join(GROUP, contacts=others, policy="partitionable", stack="domain")
        await until_ending(host, talk(host, [group], count=12), read(group, stays))
    return stays


async def read(group: antiphon.Group, stays: list[Stay]) -> None:
    async for event in group:
        match event:
            case antiphon.ViewChange(view=view):
                assert not stays or stays[-1].view < view.id
                stays.append(Stay(view.id, tuple(repr(member) for member in view.members)))
            case antiphon.TransitionalView():
                stays[-1].before = len(stays[-1].handed)
            case antiphon.Message(sender=sender, number=number, order=order):
                assert repr(sender) in stays[-1].members, f"{sender} is not in view {stays[-1].view}"
                stays[-1].handed.append((repr(sender), number))
                if order in ("agreed", "safe"):
                    stays[-1].ordered.append((repr(sender), number))
            case _:
                pass
        await asyncio.sleep(0)


def same_between_views(result: Result) -> None:
    """Virtual synchrony, by what the programs were handed."""
    seen: dict[tuple[int, int], tuple[str, Stay]] = {}
    for name, stays in result.returned.items():
        for stay, following in zip(stays, [*stays[1:], None], strict=True):
            key = (stay.view, 0 if following is None else following.view)
            other_name, other = seen.setdefault(key, (name, stay))
            where = f"{name} and {other_name} in view {key[0]}, before {key[1]}"
            assert set(stay.handed) == set(other.handed), f"{where}: {set(stay.handed) ^ set(other.handed)}"
            assert stay.ordered == other.ordered, f"{where}: {stay.ordered} and {other.ordered}"
            assert stay.before == other.before, f"{where}: {stay.before} and {other.before} before it parted"
            for one in (stay, other):
                assert len(set(one.handed)) == len(one.handed), f"{where}: a message twice"


def one_view_in_the_end(result: Result) -> None:
    """All that run to the end are in one view, of just them."""
    last = {name: stays[-1] for name, stays in result.returned.items()}
    assert len({stay.view for stay in last.values()}) <= 1, f"in the end: {last}"
    same_between_views(result)


def play(seed: int) -> Play:
    return Play(dict.fromkeys(names(seed), main), one_view_in_the_end)
