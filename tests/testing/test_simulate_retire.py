"""A process that is excluded from one group of a causality domain leaves the others in good order, in virtual time."""

import asyncio
from typing import Any

import pytest

import antiphon
from antiphon.faults import Delay, Partition
from antiphon.history.schema import LEAVES, Row
from antiphon.runtime.events import StreamEvent
from antiphon.testing import FaultPlan, Host, NetworkFault, Result, simulate
from antiphon.testing.fault_plan import SECOND_NS

BOTH = frozenset("bc")
AB, C = frozenset("ab"), frozenset("c")
PAIRS = {"with b": ("b", "a"), "with c": ("c", "a")}


def broken_link() -> FaultPlan:
    """b and c do not hear each other for a while, a hears both: of the three, one has to go."""
    faults = [NetworkFault(Partition(frozenset(one), BOTH - {one}, SECOND_NS, 4 * SECOND_NS)) for one in ("b", "c")]
    return FaultPlan(Delay(200_000, 300_000), faults, 5 * SECOND_NS)


def program(rejoin: bool) -> Any:
    async def main(host: Host) -> dict[str, list[StreamEvent]]:
        seen: dict[str, list[StreamEvent]] = {}
        options = antiphon.Options.fast()
        async with antiphon.Node(host.name, address=host.at(), incarnation=1, options=options, rejoin=rejoin) as node:
            mine = {"all": tuple(host.addresses)} | {name: pair for name, pair in PAIRS.items() if host.name in pair}
            for name, founders in mine.items():
                await node.join(name, members={founder: host.members()[founder] for founder in founders})
            reading = asyncio.create_task(read(node, seen))
            for number in range(60):
                for group in list(node._groups.values()):
                    if not group.is_stalled:
                        await group.send(b"%d" % number)
                await asyncio.sleep(0.1)
            if node._groups:  # else it was excluded
                await host.ending.wait()
            reading.cancel()
        return seen

    return main


async def read(node: antiphon.Node, seen: dict[str, list[StreamEvent]]) -> None:
    async for event in node:
        seen.setdefault(event.group, []).append(event)


def excluded_one(result: Result) -> str:
    """Whom the others gave up in the group of all."""
    views = [event for event in result.returned["a"]["all"] if isinstance(event, antiphon.ViewChange)]
    (gone,) = [process.name for view in views for process in view.failed]
    return gone


def note_labels(result: Result, process: str) -> list[tuple[str | None, str | None]]:
    """Of the first life of a process."""
    rows: tuple[Row, ...] = min(
        (rows for rows in result.rows if rows[0].process == process), key=lambda rows: rows[0].incarnation
    )
    return [(row.group, row.label) for row in rows if row.kind in ("note", "crash")]


@pytest.mark.parametrize("seed", range(2))
def test_who_is_excluded_from_one_group_leaves_the_others_in_good_order(seed: int) -> None:
    result = simulate({name: program(False) for name in "abc"}, seed=seed, faults=broken_link())
    assert result.kept, result.report("…")
    gone = excluded_one(result)
    pair = f"with {gone}"
    events = result.returned["a"][pair]
    last = [event for event in events if isinstance(event, antiphon.ViewChange)][-1]
    # It was the oldest of two: had it just gone, the other would have no majority.
    assert not any(isinstance(event, antiphon.Stalled) for event in events)
    assert [process.name for process in last.left] == [gone]
    assert [process.name for process in last.view.members] == ["a"]
    assert isinstance(result.returned[gone][pair][-1], antiphon.Excluded)
    assert (pair, LEAVES) in note_labels(result, gone)
    assert note_labels(result, gone)[-1] == (None, "excluded")


def test_the_next_incarnation_begins_when_this_one_has_left() -> None:
    result = simulate({name: program(True) for name in "abc"}, seed=1, faults=broken_link())
    assert result.kept, result.report("…")
    gone = excluded_one(result)
    for group in ("all", f"with {gone}"):
        events = result.returned["a"][group]
        assert not any(isinstance(event, antiphon.Stalled) for event in events)
        last = [event for event in events if isinstance(event, antiphon.ViewChange)][-1]
        assert {process.name for process in last.view.members} == ({"a", "b", "c"} if group == "all" else {"a", gone})
        assert next(process.incarnation for process in last.view.members if process.name == gone) > 1


def test_who_is_refused_again_and_again_asks_more_and_more_seldom() -> None:
    """Another process uses the name, with a higher incarnation, and lives."""

    async def member(host: Host) -> None:
        async with antiphon.Node("a", address=host.at(), incarnation=1000) as node:
            group = await node.join("g", members={"a/1000": host.at()})
            await asyncio.gather(host.ending.wait(), read_group(group, host))

    async def other(host: Host) -> list[int]:
        async with antiphon.Node("a", address=host.at(), incarnation=1, rejoin=True) as node:
            joining = asyncio.create_task(node.join("g", contacts=[host.members()["member"]], timeout_s=60))
            seen = []
            for _ in range(5):
                await asyncio.sleep(1)
                seen.append(node.process.incarnation)
            joining.cancel()
        return seen

    result = simulate({"member": member, "other": other}, seed=1, faults="none")
    assert result.kept, result.report("…")
    seen = result.returned["other"]
    assert 1 < seen[0] < 7  # after 0.1, 0.3 and 0.7 s
    assert seen[-1] - seen[1] <= 3


async def read_group(group: antiphon.Group, host: Host) -> None:
    async for _ in group:
        if host.ending.is_set():
            break


def alone_for_a_while() -> FaultPlan:
    """c hears nobody, and nobody hears c."""
    cuts = [NetworkFault(Partition(one, other, 2 * SECOND_NS, 6 * SECOND_NS)) for one, other in ((C, AB), (AB, C))]
    return FaultPlan(Delay(200_000, 300_000), cuts, 10 * SECOND_NS)


async def joins_one_after_the_other(host: Host) -> list[StreamEvent]:
    """Nothing is read before both groups are joined; meanwhile c is excluded from the first."""
    seen: dict[str, list[StreamEvent]] = {}
    options = antiphon.Options.fast()
    async with antiphon.Node(host.name, address=host.at(), options=options, rejoin=True) as node:
        if host.name == "c":
            contacts = [host.members()["a"], host.members()["b"]]
            first = await node.join("first", contacts=contacts)
            await first.send(b"from a life that nobody has read of")
            await asyncio.sleep(2.5)
            await node.join("second", contacts=contacts, timeout_s=20)
        else:
            for name in ("first", "second"):
                await node.join(name, members={founder: host.members()[founder] for founder in "ab"})
        reading = asyncio.create_task(read(node, seen))
        await host.ending.wait()
        reading.cancel()
    return [event for events in seen.values() for event in events]


def test_a_life_that_nobody_has_read_of_does_not_hold_up_the_next_one() -> None:
    result = simulate(dict.fromkeys("abc", joins_one_after_the_other), seed=3, faults=alone_for_a_while())
    assert result.kept, result.report("…")
    events = result.returned["c"]
    assert not any(isinstance(event, antiphon.Excluded) for event in events), "it had been handed nothing of that life"
    views = {event.group: event.view for event in events if isinstance(event, antiphon.ViewChange)}
    assert {group: sorted(process.name for process in view.members) for group, view in views.items()} == {
        "first": ["a", "b", "c"],
        "second": ["a", "b", "c"],
    }
    assert note_labels(result, "c")[-1] == (None, "excluded")
