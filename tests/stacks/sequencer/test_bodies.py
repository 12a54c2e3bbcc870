"""Bodies that senders multicast themselves: on a table, in the simulated world with senders that are lost, and on real
sockets. tests/simulation/sequencers.py has more, with several sequencers."""

from dataclasses import replace
from unittest.mock import patch

import pytest

from antiphon import Node, _build
from antiphon.kernel.identity import ProcessId
from antiphon.kernel.inputs import MAIN
from antiphon.kernel.levels import AGREED
from antiphon.kernel.options import MILLISECOND_NS, Options
from antiphon.kernel.policies import PRIMARY
from antiphon.pipeline.campaign.judge import judge
from antiphon.simulator.actions import CRASH, CUT_LINKS, SEND, Action
from antiphon.simulator.churn_draw import FAST
from antiphon.simulator.run import add_services
from antiphon.simulator.script import Script, ScriptedGroup
from antiphon.simulator.script_run import run_script
from antiphon.stacks.sequencer import bodies
from antiphon.stacks.sequencer.bodies import Body, BodyExchange, BodyKey
from antiphon.stacks.sequencer.place import Place
from antiphon.stacks.sequencer.stack import SequencerStack
from tests.runtime.cluster import read, run
from tests.runtime.places import HASTY, LOOPBACK, free_address

DIRECT = {"sequencer.direct": 1, "sequencer.direct_kib": 0}
P, Q = ProcessId("p", 1), ProcessId("q", 1)


def large_script(seed: int, replicas: int, *, lost: bool) -> Script:
    """Four members that all send; one of them is lost in the middle of a burst, and links break."""
    names = ["p1", "p2", "p3", "p4"]
    settings = DIRECT | {"sequencer.replicas": replicas}
    script = Script(
        run=f"bodies-{seed}",
        seed=seed,
        policy=PRIMARY,
        processes=names,
        groups=[ScriptedGroup("g", names, names)],
        layers=[],
        options=replace(FAST, of_stacks=settings),
        domain=MAIN,
        heal_ns=1_500 * MILLISECOND_NS,
        stack="sequencer",
    )
    add_services(script, 2 * replicas + 1)
    for number in range(200):
        at_ns = (100 + 7 * number) * MILLISECOND_NS
        script.add(Action(SEND, at_ns, names[(seed + number) % 4], "g", "agreed", (1_000, 2_000)))
    if lost:
        at_ns = (600 + 7 * seed) * MILLISECOND_NS
        for _ in range(20):
            script.add(Action(SEND, at_ns, "p2", "g", "agreed", (1_000,)))
        script.add(Action(CRASH, at_ns + seed * MILLISECOND_NS // 4, "p2"))
        for number in range(6):
            script.add(Action(CUT_LINKS, (300 + 150 * number) * MILLISECOND_NS, names[number % 4]))
    return script


@pytest.mark.parametrize("replicas", [0, 1])
def test_bodies_go_from_senders_to_members(replicas: int) -> None:
    run = run_script(large_script(1, replicas, lost=False))
    assert run.mistake == ""
    assert judge(run).problems == ()
    assert run.coverage["body sent by its sender"] > 150
    assert run.coverage.get("missing messages fetched", 0) < 20


@pytest.mark.parametrize("seed", range(8))
def test_what_a_lost_sender_had_under_way_is_delivered_by_all_or_by_none(seed: int) -> None:
    run = run_script(large_script(seed, seed % 2, lost=True))
    assert run.mistake == ""
    assert judge(run).problems == ()
    assert run.coverage["body sent by its sender"] > 50


def lost_bodies_problem() -> str | None:
    """What goes wrong where bodies are lost, and nothing else: every third one of another member."""
    keep = BodyExchange._keep
    seen = 0

    def lose(self: BodyExchange, key: BodyKey, body: Body) -> None:
        nonlocal seen
        seen += key[1] != self._process
        if key[1] == self._process or seen % 3:
            keep(self, key, body)

    with patch.object(BodyExchange, "_keep", lose):
        run = run_script(large_script(1, 0, lost=False))
    problems = [str(problem) for problem in judge(run).problems]
    if run.coverage.get("missing messages fetched", 0) < 20 and not problems:
        return "nothing was lost"
    return next(iter(problems), None)


@pytest.mark.skipif(_build.is_compiled(), reason="patches the plain-Python core")
def test_bodies_that_are_lost_are_fetched_from_the_sequencer() -> None:
    assert lost_bodies_problem() is None


def bare_place(sender: ProcessId, first: int, count: int, size: int) -> Place:
    place = Place(7, 1, 1, {7: 1})
    place.sender, place.first, place.level = sender, first, AGREED
    place.count, place.size, place.is_bare = count, size, True
    return place


def test_only_the_body_that_a_place_names_completes_it() -> None:
    exchange = BodyExchange(P, Options(of_stacks=DIRECT))
    exchange.open("here:1")
    exchange.told(7, {Q: "there:1"})
    exchange._keep((7, Q, 5), Body(AGREED, [b"a", b"b"], 30))
    assert not exchange.fill(bare_place(Q, 4, 2, 30))
    assert not exchange.fill(bare_place(P, 5, 2, 30))
    place = bare_place(Q, 5, 2, 30)
    assert exchange.fill(place)
    assert (place.payloads, place.size, place.is_bare) == ([b"a", b"b"], 2, False)
    exchange._keep((7, Q, 9), Body(AGREED, [b"a", b"b"], 30))
    assert not exchange.fill(bare_place(Q, 9, 3, 30))  # not what was placed: it is fetched


def test_bodies_of_those_that_have_gone_are_buried_and_others_are_bounded() -> None:
    exchange = BodyExchange(P, Options(of_stacks=DIRECT))
    exchange.open("here:1")
    exchange.told(7, {Q: "there:1"})
    for first in range(10):
        exchange._keep((7, Q, first), Body(AGREED, [b"a"], bodies.BODIES_BYTES_MAX // 4))
    assert [key[2] for key in exchange._bodies] == [6, 7, 8, 9]
    exchange.gone(7, [Q])
    assert not exchange._bodies
    assert exchange._bytes == 0


def test_on_sockets_large_messages_go_directly_and_small_ones_do_not() -> None:
    async def test() -> None:
        options = replace(HASTY, of_stacks={"sequencer.direct": 1})
        address = free_address()
        async with Node("s", address=address, options=options) as peer:
            peer.serve("sequencer")
            nodes = [Node(name, address=LOOPBACK, options=options) for name in ("p1", "p2", "p3")]
            for node in nodes:
                await node.start()
            groups = [await node.join("g", stack="sequencer", contacts=[address]) for node in nodes]
            large, small = bytes(300_000), b"small"
            for group in groups:
                await group.send(large, order="agreed")  # links are dialled now
            await groups[0].send(small, order="agreed")
            for group in groups:
                assert len(await read(group, 4)) == 4
            for _ in range(10):
                await groups[1].send(large, order="agreed")
            for group in groups:
                assert [message.payload for message in await read(group, 10)] == [large] * 10
            counts = [exchange_of(node).counts for node in nodes]
            assert counts[1][0] == 10
            assert [count[1] for count in counts] == [10, 10, 10]
            for node in nodes:
                await node.close()

    run(test)


def exchange_of(node: Node) -> BodyExchange:
    driver = node._driver
    assert driver is not None
    stack = driver.engine._stacks_by_name["sequencer"]
    assert isinstance(stack, SequencerStack)
    return stack._client.exchange
