"""Liveness, readiness and status of nodes through splits, on real sockets and in virtual time."""

import asyncio
from typing import Any

import pytest

from antiphon import Node, UsageError
from antiphon.faults import Partition
from antiphon.observe import Observer
from antiphon.testing import Host, simulate
from tests.observe.asking import get_json
from tests.runtime.cluster import run
from tests.runtime.places import HASTY, LOOPBACK, Walls, everyone, founded, talk

SECOND_NS = 1_000_000_000


async def until_ready(address: str, wanted: bool) -> dict[str, Any]:
    """Ask until the readiness is as wanted."""
    while True:
        status, document = await get_json(address, "/ready")
        assert (status == 200) == document["ready"]
        if document["ready"] == wanted:
            return document
        await asyncio.sleep(0.02)


def test_a_split_is_told_and_healed_on_real_sockets() -> None:
    async def test() -> None:
        walls = Walls()
        async with founded("abc", faults=walls.faults, rejoin=True) as places:
            a, b, c = places
            async with Observer(a.node, LOOPBACK) as larger, Observer(c.node, LOOPBACK) as smaller:
                await talk(places)
                await until_ready(larger.address, True)
                await until_ready(smaller.address, True)
                walls.between([a, b], [c])
                reasons = (await until_ready(smaller.address, False))["reasons"]
                assert [(reason["group"], reason["reason"]) for reason in reasons] == [("g", "stalled")]
                assert (await get_json(smaller.address, "/live"))[0] == 200
                await everyone([a, b], "a/1", "b/1")
                assert (await get_json(larger.address, "/ready"))[0] == 200
                walls.between()
                back = asyncio.create_task(c.view("a/1", "b/1", "c/2"))
                await until_ready(smaller.address, True)
                await back
                document = (await get_json(smaller.address, "/status"))[1]
                kinds = [event["kind"] for event in document["events"]]
                assert {"stall", "excluded", "view"} <= set(kinds)

    run(test)


def test_status_counts_what_was_sent_and_delivered() -> None:
    async def test() -> None:
        async with founded("ab") as places, Observer(places[0].node, LOOPBACK) as observer:
            for _ in range(10):
                await places[0].group.send(b"12345", order="agreed")
            await places[1].group.send(b"123")
            for _ in range(11):
                await places[0].message()
            document = (await get_json(observer.address, "/status"))[1]
            group = document["groups"][0]
            assert (group["name"], group["state"], group["stack"], group["policy"]) == (
                "g",
                "ready",
                "vector",
                "primary",
            )
            assert [member["process"] for member in group["members"]] == ["a/1", "b/1"]
            assert group["sent"] == {"agreed": 10}
            assert group["sent_bytes"] == {"agreed": 50}
            assert group["delivered"] == {"causal": 1, "agreed": 10}
            assert group["delivered_bytes"] == {"causal": 3, "agreed": 50}
            assert 1 <= group["latency"]["agreed"]["count"] <= 10

    run(test)


def test_who_is_excluded_for_good_is_not_ready() -> None:
    async def test() -> None:
        walls = Walls()
        async with (
            founded("abc", faults=walls.faults) as places,
            Observer(places[2].node, LOOPBACK) as observer,
        ):
            walls.between(places[:2], places[2:])
            await everyone(places[:2], "a/1", "b/1")
            walls.between()
            while (await until_ready(observer.address, False))["reasons"][0]["reason"] != "excluded":
                await asyncio.sleep(0.02)
            assert (await get_json(observer.address, "/live"))[0] == 200

    run(test)


def test_groups_that_are_expected_have_to_be_joined() -> None:
    async def test() -> None:
        async with (
            Node("a", address=LOOPBACK, options=HASTY) as node,
            Observer(node, LOOPBACK, groups=["g"]) as observer,
        ):
            reasons = (await until_ready(observer.address, False))["reasons"]
            assert [(reason["group"], reason["reason"]) for reason in reasons] == [("g", "absent")]
            group = await node.join("g", members={"a": node.address})
            await until_ready(observer.address, True)
            await group.leave()
            await until_ready(observer.address, False)

    run(test)


def test_a_node_that_failed_is_neither_live_nor_ready() -> None:
    async def test() -> None:
        async with Node("a", address=LOOPBACK) as node, Observer(node, LOOPBACK) as observer:
            assert (await get_json(observer.address, "/live")) == (200, {"live": True, "reason": ""})
            assert node._driver is not None
            node._driver.fail(RuntimeError("on purpose"))
            status, document = await get_json(observer.address, "/live")
            assert status == 503
            assert "on purpose" in document["reason"]
            assert (await until_ready(observer.address, False))["reasons"][0]["reason"] == "dead"

    run(test)


def test_a_stuck_timer_is_not_live() -> None:
    async def test() -> None:
        async with founded("ab") as places, Observer(places[0].node, LOOPBACK) as observer:
            driver = places[0].node._driver
            assert driver is not None
            driver._deadline_ns = driver.clock.now_ns() - 11_000_000_000
            assert not observer.live()["live"]
            assert "overdue" in observer.live()["reason"]
            driver._deadline_ns = driver.clock.now_ns()

    run(test)


def test_a_node_has_one_observer_and_is_started_before_it() -> None:
    async def test() -> None:
        node = Node("a", address=LOOPBACK)
        with pytest.raises(UsageError, match="has not been started"):
            await Observer(node, LOOPBACK).start()
        async with node:
            async with Observer(node, LOOPBACK):
                with pytest.raises(UsageError, match="has an observer already"):
                    await Observer(node, LOOPBACK).start()
            async with Observer(node, LOOPBACK):
                pass

    run(test)


async def watched(host: Host) -> list[tuple[bool, str]]:
    """A member whose readiness is asked for each tenth of a second; each change, in order."""
    changes: list[tuple[bool, str]] = []
    async with Node(host.name, address=host.at(), rejoin=True) as node:
        group = await node.join("g", members=host.members(), timeout_s=60)
        async with Observer(node, host.at(9400)) as observer:

            async def ask() -> None:
                while True:
                    _, document = await get_json(observer.address, "/ready")
                    now = (document["ready"], document["reasons"][0]["reason"] if document["reasons"] else "")
                    if not changes or changes[-1] != now:
                        changes.append(now)
                    await asyncio.sleep(0.1)

            async def read() -> None:
                async for _ in group:
                    pass

            tasks = [asyncio.create_task(ask()), asyncio.create_task(read())]
            await host.ending.wait()
            for task in tasks:
                task.cancel()
    return changes


@pytest.mark.parametrize("seed", range(3))
def test_a_split_is_told_and_healed_in_virtual_time(seed: int) -> None:
    rest, alone = frozenset("ab"), frozenset("c")
    span = (SECOND_NS, 15 * SECOND_NS)
    layers = [Partition(rest, alone, *span), Partition(alone, rest, *span)]
    result = simulate(dict.fromkeys("abc", watched), seed=seed, faults=layers, active_s=16)
    assert result.kept, result.report("partition")
    assert result.returned["a"] == [(True, "")]
    assert result.returned["b"] == [(True, "")]
    smaller = result.returned["c"]
    assert smaller[0] == (True, "")
    assert (False, "stalled") in smaller
    assert smaller[-1] == (True, "")
