"""Requests and replies over the graph (psync-1989, 4.1), on a calm and on a bad network."""

from random import Random

import pytest

from antiphon.kernel.options import MILLISECOND_NS
from antiphon.stacks.conversation.free.conversation import ConversationCore
from antiphon.stacks.conversation.library.requests import ReceivedRequest, RequestClient, RequestServer
from antiphon.stacks.conversation.library.stable import FAILURE, SUCCESS
from tests.stacks.conversation.library.plays import TIMEOUT_NS
from tests.stacks.conversation.library.stage import Actor, Stage, bad_stage


class Shop:
    """A client, and servers that answer when they are told to."""

    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        self.client = RequestClient(stage.hosts[0], tries=200, timeout_ns=TIMEOUT_NS)
        self.servers = [RequestServer(host) for host in stage.hosts]
        self.requests: list[list[ReceivedRequest]] = [[] for _ in stage.hosts]
        self.answers_at_once = True
        stage.cast(self._make)

    def _make(self, conversation: ConversationCore, rank: int) -> Actor:
        def poll(now_ns: int) -> None:
            if rank == 0:
                self.client.poll(now_ns)
                return
            for request in self.servers[rank].poll():
                self.requests[rank].append(request)
                if self.answers_at_once:
                    self.servers[rank].reply(request, request.payload.upper())

        return Actor(poll, self.client.deadline_ns) if rank == 0 else Actor(poll)

    def ask(self, payload: bytes, wanted: int) -> None:
        self.client.ask(payload, self.stage.now_ns, wanted=wanted)
        self.stage.flush(0)


@pytest.mark.parametrize("seed", range(40))
def test_requests_are_answered_on_a_bad_network(seed: int) -> None:
    stage = bad_stage(seed, 2 + seed % 4)
    shop = Shop(stage)
    for number in range(6):
        shop.ask(b"q%d" % number, stage.count - 1)
        stage.rest()
        assert shop.client.outcome == SUCCESS
        assert [payload for _, payload in shop.client.replies] == [b"Q%d" % number] * (stage.count - 1)
    assert all(len(requests) == 6 for requests in shop.requests[1:])


def test_requests_and_replies_are_all_there_is() -> None:
    stage = Stage(2, Random(1))
    shop = Shop(stage)
    for number in range(6):
        shop.ask(b"q%d" % number, 1)
        stage.rest()
    assert stage.hosts[0].replica.graph.last == [6, 6]
    assert [node.wave for node in stage.hosts[0].replica.graph.in_order()] == list(range(1, 13))


def test_servers_see_each_others_replies() -> None:
    stage = Stage(3, Random(1))
    shop = Shop(stage)
    shop.answers_at_once = False
    shop.ask(b"q", 1)
    stage.run(10 * MILLISECOND_NS)
    assert shop.servers[1].reply(shop.requests[1][0], b"one")
    stage.flush(1)
    stage.rest()
    assert shop.requests[2][0].answered_by == [1]  # it may save itself the work
    assert shop.client.outcome == SUCCESS
    shop.ask(b"r", 1)
    stage.run(10 * MILLISECOND_NS)
    assert not shop.servers[2].reply(shop.requests[2][0], b"late")


def test_too_few_replies_fail() -> None:
    stage = Stage(3, Random(1))
    shop = Shop(stage)
    shop.client = RequestClient(stage.hosts[0], tries=3, timeout_ns=TIMEOUT_NS)
    stage.cast(shop._make)
    stage.dead.add(2)
    shop.ask(b"q", 2)
    stage.rest()
    assert shop.client.outcome == FAILURE
    assert [node.sender for node, _ in shop.client.replies] == [1]
