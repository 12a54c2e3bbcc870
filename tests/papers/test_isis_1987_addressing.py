"""Section 3.6 of isis-1987: senders from outside a group, through the public API in virtual time."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import pytest

import antiphon
from antiphon.faults import Delay, Partition
from antiphon.testing import FaultPlan, Host, KillProgram, NetworkFault, simulate

SECOND_NS = 1_000_000_000
SPEED = Delay(2_000_000, 6_000_000)
"""A trip takes 2 to 6 ms."""
QUIET = FaultPlan(SPEED, [], heal_ns=SECOND_NS)
FOUNDERS = ("a", "b", "c")

Visit = Callable[[Host, antiphon.Node, antiphon.ReachedGroup], Awaitable[Any]]


def contacts(host: Host, names: Sequence[str] = FOUNDERS) -> list[str]:
    return [address for name, address in host.members().items() if name in names]


async def serve(host: Host, founders: Sequence[str] = FOUNDERS) -> list[tuple[int, str]]:
    """A member: the view and the text of all that it delivers."""
    log: list[tuple[int, str]] = []
    async with antiphon.Node(host.name, address=host.at(), options=antiphon.Options.fast()) as node:
        members = {name: address for name, address in host.members().items() if name in founders}
        group = await node.join("group", members=members, policy="primary", stack="label")
        return await listen(host, group, log)


async def arrive(host: Host, after_s: float = 2.0) -> list[tuple[int, str]]:
    """A process that joins later."""
    async with antiphon.Node(host.name, address=host.at(), options=antiphon.Options.fast()) as node:
        await asyncio.sleep(after_s)
        group = await node.join("group", contacts=contacts(host), stack="label")
        return await listen(host, group, [])


async def listen(host: Host, group: antiphon.Group, log: list[tuple[int, str]]) -> list[tuple[int, str]]:
    def hear(event: object) -> None:
        if isinstance(event, antiphon.Batch):
            log.extend((event.view_id, payload.decode()) for payload in event.payloads)

    group.listen(hear)
    await host.ending.wait()
    return log


def visitor(act: Visit, doors: Sequence[str] = FOUNDERS) -> Callable[[Host], Awaitable[Any]]:
    async def main(host: Host) -> Any:
        async with antiphon.Node(host.name, address=host.at(), options=antiphon.Options.fast()) as node:
            group = await node.reach("group", contacts=contacts(host, doors), stack="label")
            result = await act(host, node, group)
            await host.ending.wait()
            return result

    return main


def stage(act: Visit, plan: FaultPlan = QUIET, doors: Sequence[str] = FOUNDERS, **others: Any) -> dict[str, Any]:
    """What each host returned; the history is audited."""
    mains: dict[str, Any] = dict.fromkeys(FOUNDERS, serve) | others | {"x": visitor(act, doors)}
    result = simulate(mains, seed=1, faults=plan, may_stall=True)
    assert not result.problems, result.problems
    return dict(result.returned)


def texts(log: list[tuple[int, str]]) -> list[str]:
    return [text for _, text in log]


def test_3_6_a_process_outside_sends_to_all_members_or_some() -> None:
    async def act(host: Host, node: antiphon.Node, group: antiphon.ReachedGroup) -> None:
        a, b, _ = group.view.members
        await node.send(b"all", to="group", order="agreed")
        await node.send(b"two", to=[a, b], order="causal")
        await group.send(b"one", to=b, order="safe")
        await group.flush()

    returned = stage(act)
    assert texts(returned["a"]) == ["all", "two"]
    assert texts(returned["b"]) == ["all", "two", "one"]
    assert texts(returned["c"]) == ["all"]


def test_3_6_broadcasts_from_outside_have_one_order_with_those_of_members() -> None:
    async def act(host: Host, node: antiphon.Node, group: antiphon.ReachedGroup) -> None:
        for number in range(10):
            await group.send(f"x{number}".encode(), order="agreed")

    async def speak(host: Host) -> list[tuple[int, str]]:
        async with antiphon.Node(host.name, address=host.at(), options=antiphon.Options.fast()) as node:
            members = {name: address for name, address in host.members().items() if name in FOUNDERS}
            group = await node.join("group", members=members, policy="primary", stack="label")
            for number in range(10):
                await group.send(f"{host.name}{number}".encode(), order="agreed")
                await asyncio.sleep(0.01)
            return await listen(host, group, [])

    returned = stage(act, a=speak, b=speak)
    assert texts(returned["a"]) == texts(returned["b"]) == texts(returned["c"])
    assert len(returned["a"]) == 30


def test_3_6_a_cached_view_may_be_old_and_is_renewed() -> None:
    """The sender knows three members; a fourth joins; what is sent next is for all four, and the cache says so."""

    async def act(host: Host, node: antiphon.Node, group: antiphon.ReachedGroup) -> tuple[int, int]:
        before = len(group.view.members)
        await group.send(b"to three")
        await group.flush()
        while len(group.view.members) < 4:
            await group.send(b"while it grows")
            await asyncio.sleep(0.1)
        await group.send(b"to four")
        await group.flush()
        return before, len(group.view.members)

    returned = stage(act, d=arrive)
    assert returned["x"] == (3, 4)
    assert "to three" not in texts(returned["d"])
    assert texts(returned["d"])[-1] == "to four"


def test_3_6_all_reject_or_none_and_the_order_holds() -> None:
    """While a member joins, and views change, a stream of broadcasts goes on: each is delivered in one view by all its
    members, once, and none overtakes one that was rejected."""

    async def act(host: Host, node: antiphon.Node, group: antiphon.ReachedGroup) -> None:
        for number in range(400):
            await group.send(f"{number}".encode(), order="causal")
            await asyncio.sleep(0.005)
        await group.flush()

    returned = stage(act, d=arrive)
    everything = [f"{number}" for number in range(400)]
    for name in FOUNDERS:
        assert texts(returned[name]) == everything
        assert returned[name] == returned["a"]
    late = returned["d"]
    assert 0 < len(late) < 400
    assert late == returned["a"][-len(late) :]


@pytest.mark.parametrize("order", ["causal", "abcast"])
def test_3_6_what_a_door_that_fails_has_not_sent_is_sent_by_another(order: antiphon.Order) -> None:
    """All that was handed in is delivered once, in order, though the member that took it is killed in the middle."""

    async def act(host: Host, node: antiphon.Node, group: antiphon.ReachedGroup) -> None:
        for number in range(300):
            await group.send(f"{number}".encode(), order=order)
            await asyncio.sleep(0.005)
        await group.flush()

    plan = FaultPlan(SPEED, [KillProgram("a", at_ns=SECOND_NS, calls=7)], heal_ns=2 * SECOND_NS)
    returned = stage(act, plan, doors=("a",))
    assert texts(returned["b"]) == texts(returned["c"]) == [f"{number}" for number in range(300)]


def test_3_6_a_door_that_lives_and_is_cut_off_is_left_for_another() -> None:
    """The second door cannot know what the first has sent in this view: it ends the view first."""

    async def act(host: Host, node: antiphon.Node, group: antiphon.ReachedGroup) -> None:
        for number in range(300):
            await group.send(f"{number}".encode(), order="fifo")
            await asyncio.sleep(0.02)
        await group.flush()

    apart = Partition(frozenset(("x",)), frozenset(("a",)), SECOND_NS, 20 * SECOND_NS)
    back = Partition(frozenset(("a",)), frozenset(("x",)), SECOND_NS, 20 * SECOND_NS)
    plan = FaultPlan(SPEED, [NetworkFault(apart), NetworkFault(back)], heal_ns=20 * SECOND_NS)
    returned = stage(act, plan, doors=("a",))
    everything = [f"{number}" for number in range(300)]
    assert [texts(returned[name]) for name in FOUNDERS] == [everything] * 3
    assert len({view for view, _ in returned["b"]}) > 1


def test_3_6_hole_f_a_retry_from_outside_keeps_its_number_and_is_delivered() -> None:
    """The first try is rejected with the view; the second has the same number, and no list of ids forbids it."""

    async def act(host: Host, node: antiphon.Node, group: antiphon.ReachedGroup) -> int:
        for number in range(200):
            await group.send(f"{number}".encode(), order="causal" if number % 3 else "agreed")
            if number % 20 == 0:
                await asyncio.sleep(0.05)
        await group.flush()
        return group.view.id

    async def churn(host: Host) -> list[tuple[int, str]]:
        async with antiphon.Node(host.name, address=host.at(), options=antiphon.Options.fast()) as node:
            members = {name: address for name, address in host.members().items() if name in FOUNDERS}
            group = await node.join("group", members=members, policy="primary", stack="label")
            for _ in range(10):
                await group.barrier(b"|")
                await asyncio.sleep(0.05)
            return await listen(host, group, [])

    returned = stage(act, c=churn)
    assert returned["x"] > 3
    assert texts(returned["a"]) == texts(returned["b"]) == [f"{number}" for number in range(200)]


def test_3_6_what_a_sender_that_fails_had_handed_in_is_delivered_by_all_or_none() -> None:
    async def act(host: Host, node: antiphon.Node, group: antiphon.ReachedGroup) -> None:
        for number in range(1000):
            await group.send(f"{number}".encode(), order="causal")
            await asyncio.sleep(0.003)

    plan = FaultPlan(SPEED, [KillProgram("x", at_ns=SECOND_NS, calls=3)], heal_ns=2 * SECOND_NS)
    returned = stage(act, plan)
    delivered = texts(returned["a"])
    assert 0 < len(delivered) < 1000
    assert delivered == texts(returned["b"]) == texts(returned["c"]) == [f"{each}" for each in range(len(delivered))]


def test_3_6_who_cannot_send_from_outside_is_told() -> None:
    async def act(host: Host, node: antiphon.Node, group: antiphon.ReachedGroup) -> None:
        with pytest.raises(antiphon.UsageError, match="already"):
            await node.reach("group", contacts=contacts(host), stack="label")
        with pytest.raises(antiphon.UsageError, match="from outside; end that"):
            await node.join("group", contacts=contacts(host), stack="label")
        with pytest.raises(antiphon.UsageError, match="no member"):
            await group.send(b"x", to=node.process)
        with pytest.raises(antiphon.MessageTooLargeError):
            await group.send(bytes(group.message_bytes_max + 1))
        with pytest.raises(antiphon.UsageError, match="labels that are compared"):
            await group.send(b"x", order="reliable", label="clock=1")
        with pytest.raises(antiphon.UsageError, match="take no messages"):
            await node.reach("other", contacts=contacts(host), stack="vector")
        with pytest.raises(antiphon.JoinError):
            await node.reach("nobody's", contacts=contacts(host), stack="label", timeout_s=0.5)
        with pytest.raises(antiphon.UsageError, match="has not reached"):
            await node.send(b"x", to="other")
        await group.send(b"last")
        assert await group.close()
        with pytest.raises(antiphon.UsageError, match="nothing more is sent"):
            await group.send(b"x")
        member = await node.join("group", contacts=contacts(host), stack="label")
        await member.send(b"from inside")
        await member.leave()
        with pytest.raises(antiphon.UsageError, match="was a member"):
            await node.reach("group", contacts=contacts(host), stack="label")

    returned = stage(act)
    assert texts(returned["a"]) == ["last", "from inside"]
