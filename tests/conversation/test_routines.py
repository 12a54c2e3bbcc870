"""Conventional protocols over conversations, as coroutines, in virtual time (psync-1989, 3.4 and 4.1)."""

import asyncio

import pytest

from antiphon.conversation import (
    ConversationTimeoutError,
    RespondingServer,
    accept_conversation,
    agreed_session,
    datagram_receiver,
    open_conversation,
    request_client,
    request_server,
    send_datagram,
    send_reliably,
    taking_turns,
)
from antiphon.conversation.conversation import Conversation
from antiphon.kernel.errors import UsageError
from tests.conversation.stage import Stage, on_stage


async def echo(server: RespondingServer, name: bytes) -> None:
    async for request in server:
        server.reply(request, name + request.payload)


def test_requests_are_answered_by_as_many_servers_as_are_wanted() -> None:
    async def test(stage: Stage) -> None:
        a, b, c = await stage.begin()
        async with request_client(a) as client, request_server(b) as one, request_server(c) as other:
            serving = [asyncio.create_task(echo(one, b"b")), asyncio.create_task(echo(other, b"c"))]
            assert sorted(payload for _, payload in await client.ask(b"1", wanted=2)) == [b"b1", b"c1"]
            assert (await client.ask(b"2"))[0][1][1:] == b"2"
            await stage.kill("c")
            with pytest.raises(ConversationTimeoutError, match="1 of 2 replies"):
                await client.ask(b"3", wanted=2)
            for task in serving:
                task.cancel()

    on_stage(test)


def test_datagrams_are_acknowledged_if_that_is_asked_for() -> None:
    async def test(stage: Stage) -> None:
        a, b = await stage.begin(("a", "b"))
        async with datagram_receiver(b) as receiver:
            assert await send_reliably(a, b"one")
            assert (await receiver.receive())[1] == b"one"
            await send_datagram(a, b"two")
            assert (await receiver.receive())[1] == b"two"
        await stage.kill("b")
        assert not await send_reliably(a, b"three", tries=3)

    on_stage(test)


def test_two_speak_by_turns() -> None:
    async def talk(stage: Stage) -> None:
        one, other = await stage.node("a"), await stage.node("b")
        a = await open_conversation(one, {"b": other.address})
        async with taking_turns(a) as mine:
            assert mine.is_my_turn
            await mine.say(b"MAIL")
            b = await accept_conversation(other, 5)
            async with taking_turns(b) as theirs:
                for number in range(5):
                    assert await theirs.hear() == (b"MAIL" if number == 0 else b"%d" % number)
                    await theirs.say(b"250")
                    assert await mine.hear() == b"250"
                    with pytest.raises(UsageError, match="other's turn"):
                        await theirs.say(b"again")
                    await mine.say(b"%d" % (number + 1))
                assert a.core.replica.graph.last == [6, 5], "no message but theirs"
            await stage.kill("b")
            with pytest.raises(ConversationTimeoutError):
                await mine.hear()

    on_stage(talk)


def test_a_session_begins_and_ends_for_all() -> None:
    async def test(stage: Stage) -> None:
        talks = await stage.begin()
        said = await asyncio.gather(*(attend(talk) for talk in talks))
        assert [sorted(heard) for heard in said] == [
            [f"{other.name}{number}".encode() for other in talks if other is not talk for number in range(3)]
            for talk in talks
        ]

    on_stage(test)


async def attend(talk: Conversation) -> list[bytes]:
    heard: list[bytes] = []
    async with agreed_session(talk) as session:
        for number in range(3):
            await session.send(b"%s%d" % (talk.name.encode(), number))
        while len(heard) < 6:
            async for _, payload in session:
                heard.append(payload)
                if len(heard) == 6:
                    break
        if talk.name == "a":
            await session.end()
        async for _, payload in session:
            heard.append(payload)
    return heard


def test_a_session_does_not_begin_without_everybody() -> None:
    async def test(stage: Stage) -> None:
        a, b, _ = await stage.begin()
        await stage.kill("c")

        async def begin(talk: Conversation) -> None:
            async with agreed_session(talk, tries=3):
                pass

        for outcome in await asyncio.gather(begin(a), begin(b), return_exceptions=True):
            assert isinstance(outcome, ConversationTimeoutError)

    on_stage(test)
