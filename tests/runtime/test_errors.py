"""Wrong use gets a clear, typed error, before anything has happened; our own mistakes fail the node aloud."""

import asyncio
import logging
from collections.abc import Callable
from typing import Any

import pytest

from antiphon.kernel.errors import ClosedError, MessageTooLargeError, UsageError
from antiphon.kernel.options import Options
from antiphon.runtime import AddressError, Group, Node, NodeFailedError
from tests.runtime.cluster import cluster, read, run, stalled

LOOPBACK = "127.0.0.1:0"


@pytest.mark.parametrize(
    ("address", "why"),
    [
        ("127.0.0.1", "host:port"),
        (":7400", "host:port"),
        ("127.0.0.1:", "not a number"),
        ("127.0.0.1:port", "not a number"),
        ("127.0.0.1:65536", "not a number from 0 to 65535"),
        ("::1:7400", "brackets"),
        (7400, "host:port"),
    ],
)
def test_an_address_that_cannot_be_read(address: Any, why: str) -> None:
    with pytest.raises(AddressError, match=why):
        Node("a", address=address, incarnation=1)


def test_an_address_that_cannot_be_resolved_or_bound() -> None:
    async def test() -> None:
        with pytest.raises(AddressError, match="not known here"):
            await Node("a", address="no such host:7400", incarnation=1).start()
        with pytest.raises(AddressError, match="cannot be used"):
            await Node("a", address="192.0.2.1:7400", incarnation=1, insecure=True).start()
        async with Node("a", address=LOOPBACK, incarnation=1) as node:
            with pytest.raises(AddressError, match="another program uses this port"):
                await Node("b", address=node.address, incarnation=1).start()

    run(test)


def test_ipv6_works_where_there_is_any() -> None:
    async def test() -> None:
        try:
            node = Node("a", address="[::1]:0", incarnation=1)
            await node.start()
        except AddressError as error:
            pytest.skip(str(error))
        group = await node.join("g", members={"a": node.address}, policy="static")
        await group.send(b"x")
        assert (await read(group, 1))[0].payload == b"x"
        await node.close()

    run(test)


@pytest.mark.parametrize("name", ["", "a/b", "a\nb", "n" * 201, 7])
def test_names_that_cannot_be(name: Any) -> None:
    with pytest.raises(UsageError, match="name of a process"):
        Node(name, address=LOOPBACK, incarnation=1)


@pytest.mark.parametrize(
    "settings", [{"incarnation": 0}, {"queue_messages_max": 0}, {"queue_bytes_max": 0}], ids=lambda it: next(iter(it))
)
def test_numbers_that_cannot_be(settings: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        Node("a", address=LOOPBACK, **settings)


@pytest.mark.parametrize(
    ("group", "members", "why"),
    [
        ("", {"a": LOOPBACK}, "name of a group"),
        ("g", {"b": "127.0.0.1:7401"}, "do not include this process"),
        ("g", {"a/2": "127.0.0.1:7401"}, "do not include this process"),
        ("g", {"a": "127.0.0.1:7401", "b": "127.0.0.1:7401"}, "share"),
        ("g", {"a": "127.0.0.1:7401", "a/1": "127.0.0.1:7402"}, "share"),
        ("g", {"a": "127.0.0.1:7401", "b": "nonsense"}, "host:port"),
        ("g", {"a": "127.0.0.1:7401", "b/x": "127.0.0.1:7402"}, "does not name a process"),
    ],
)
def test_memberships_that_cannot_be(group: str, members: dict[str, str], why: str) -> None:
    async def test() -> None:
        async with Node("a", address=LOOPBACK, incarnation=1) as node:
            with pytest.raises(UsageError, match=why):
                await node.join(group, members=members, policy="static")
            stack: Any = "gossip"
            with pytest.raises(UsageError, match="there is no stack 'gossip'"):
                await node.join("g", members={"a": node.address}, policy="static", stack=stack)
            # Nothing of it is left behind.
            await node.join("g", members={"a": node.address}, policy="static")
            with pytest.raises(UsageError, match="member of group 'g' already"):
                await node.join("g", members={"a": node.address}, policy="static")

    run(test)


@pytest.mark.parametrize(
    ("payload", "order", "error", "why"),
    [
        ("text", "causal", UsageError, "a payload is bytes, not str"),
        (b"x", "casual", UsageError, "there is no order 'casual'; choose one of reliable"),
        (b"x" * 101, "causal", MessageTooLargeError, "at most 100"),
    ],
)
def test_messages_that_cannot_be_sent(payload: Any, order: Any, error: type[UsageError], why: str) -> None:
    async def test() -> None:
        async with cluster(options=Options(message_bytes_max=100)) as (nodes, groups):
            with pytest.raises(error, match=why):
                await groups[0].send(payload, order=order)
            with pytest.raises(error, match=why):
                await groups[0].send_many([b"fine", payload], order=order)
            await groups[0].send(b"good")
            assert [message.payload for message in await read(groups[1], 1)] == [b"good"]
            assert nodes[0].statistics()["messages_accepted"] == 1

    run(test)


def test_before_the_start_and_after_the_end() -> None:
    async def test() -> None:
        node = Node("a", address=LOOPBACK, incarnation=1)
        with pytest.raises(UsageError, match="has not been started"):
            await node.join("g", members={"a": LOOPBACK}, policy="static")
        with pytest.raises(UsageError, match="has not been started"):
            node.statistics()
        assert await node.close()
        async with node:
            group = await node.join("g", members={"a": node.address}, policy="static")
        with pytest.raises(ClosedError):
            await group.send(b"x")
        with pytest.raises(ClosedError):
            await node.join("h", members={"a": node.address}, policy="static")
        with pytest.raises(UsageError, match="higher incarnation"):
            await node.start()
        assert [event async for event in group] == []
        assert await node.close()

    run(test)


def test_a_sender_that_waits_hears_of_the_close() -> None:
    async def test() -> None:
        options = Options(pending_bytes_max=16 * 1024, window_packets=16)
        async with cluster(["a", "b"], options=options, linger_s=0.2, queue_messages_max=1) as (nodes, groups):
            sending = asyncio.create_task(groups[0].send_many([b"x" * 1000] * 20_000))
            assert await stalled(lambda: nodes[0].statistics()["messages_accepted"], 20_000)  # nobody reads
            closing = asyncio.create_task(groups[0].close())
            with pytest.raises(ClosedError, match="was closed here"):
                await sending
            assert not closing.done()
            assert not await closing

    run(test)


def fail_engine(node: Node, monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Put a mistake into the engine of `node`."""

    class Broken:
        def __init__(self, engine: Any) -> None:
            self._engine = engine

        def __getattr__(self, name: str) -> Any:
            return getattr(self._engine, name)

        def step(self, input: object, now_ns: int) -> None:
            raise AssertionError("a mistake of ours")

    driver = node._driver
    assert driver is not None
    return lambda: monkeypatch.setattr(driver, "engine", Broken(driver.engine))


def test_a_mistake_in_the_engine_fails_the_node_and_everyone_hears(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def reading(group: Group) -> None:
        async for _ in group:
            pass

    async def test() -> None:
        async with cluster(linger_s=0.05) as (nodes, groups):
            waiting = asyncio.create_task(reading(groups[0]))
            sending = asyncio.create_task(groups[0].send_many([b"x" * 1000] * 50_000))
            await read(groups[1], 1)
            fail_engine(nodes[0], monkeypatch)()
            for task in (waiting, sending):
                with pytest.raises(NodeFailedError, match=r"node 'a' has failed .* a mistake of ours"):
                    await task
            with pytest.raises(NodeFailedError):
                await groups[0].send(b"x")
            with pytest.raises(NodeFailedError):
                await anext(aiter(groups[0]))
            with pytest.raises(NodeFailedError):
                await nodes[0].join("h", members={"a": nodes[0].address}, policy="static")
            assert not await groups[0].close()
            assert not await nodes[0].close()

    with caplog.at_level(logging.ERROR, logger="antiphon"):
        run(test)
    assert [record.exc_info is not None for record in caplog.records if record.levelno == logging.ERROR] == [True]


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({"incarnation": "2"}, "an incarnation is a whole number"),
        ({"incarnation": 0}, "an incarnation is a whole number from 1 on"),
        ({"incarnation": 2**62}, "less than 2"),
        ({"linger_s": "5"}, "linger_s is a number of seconds"),
        ({"queue_messages_max": 0}, "queue_messages_max is a whole number from 1 on"),
        ({"options": {"window_packets": 3}}, "options are an antiphon.Options"),
        ({"faults": [0.1]}, "faults are layers of antiphon.faults"),
        ({"faults": 0.1}, "faults are a list"),
    ],
)
def test_settings_that_cannot_be(settings: dict[str, Any], why: str) -> None:
    with pytest.raises(UsageError, match=why):
        Node("a", address=LOOPBACK, **settings)


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ({"members": ["a"]}, "members map names to addresses"),
        ({"members": {"a": 7400}}, "both text"),
        ({"contacts": [7400]}, "a contact is an address"),
        ({"contacts": 7400}, "a list of addresses or a discovery"),
        ({"members": {"a": LOOPBACK}, "stack": []}, "a stack is named by text"),
        ({"members": {"a": LOOPBACK}, "policy": []}, "a policy is named by text"),
        ({"members": {"a": LOOPBACK}, "domain": "main"}, "a domain is an antiphon.CausalityDomain"),
        ({"contacts": [LOOPBACK], "timeout_s": "x"}, "timeout_s is a number of seconds"),
    ],
)
def test_joins_that_cannot_be(arguments: dict[str, Any], why: str) -> None:
    async def test() -> None:
        async with Node("a", address=LOOPBACK, incarnation=1) as node:
            with pytest.raises(UsageError, match=why):
                await node.join("g", **arguments)

    run(test)


def test_calls_that_cannot_be() -> None:
    async def test() -> None:
        async with Node("a", address=LOOPBACK, incarnation=1) as node:
            group: Any = await node.join("g", members={"a": node.address})
            for why, call in (
                ("there is no order", lambda: group.send(b"x", order=[])),
                ("`to` is a process", lambda: group.send(b"x", to="b")),
                ("send_many takes a list", lambda: group.send_many(b"xy")),
                ("send_many takes a list", lambda: group.send_many(iter([b"x"]))),
                ("a payload is bytes", lambda: group.barrier("x")),
                ("k is a whole number", lambda: group.flush(k="1")),
                ("k is a whole number", lambda: node.flush(k=-1)),
                ("timeout_s is a number of seconds", lambda: group.leave(timeout_s="x")),
            ):
                with pytest.raises(UsageError, match=why):
                    await call()
            with pytest.raises(UsageError, match="a listener is a function"):
                group.listen("listener")
            await group.send(b"x")  # and nothing was closed by any of it
            assert (await read(group, 1))[0].payload == b"x"

    run(test)


def test_a_node_that_cannot_start_leaves_no_socket_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test() -> None:
        node = Node("a", address=LOOPBACK, incarnation=1)

        def fail(*_: object, **__: object) -> None:
            raise ValueError("no transport")

        with monkeypatch.context() as patch:
            patch.setattr(node, "_make_transport", fail)
            with pytest.raises(ValueError, match="no transport"):
                await node.start()
        async with Node("b", address=node.address, incarnation=1):  # the port is free again
            pass

    run(test)
