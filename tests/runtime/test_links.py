"""Links on real sockets: whole frames in order, in both directions, and an end that is told once."""

import asyncio
import socket
from struct import pack

import pytest

from antiphon.kernel.calls import Dial, Frames, Hang, Listen, token_of
from antiphon.kernel.identity import ProcessId
from antiphon.kernel.outcomes import CallOutcome, LinkDown, LinkFrames, LinkRoom, LinkUp
from antiphon.runtime.links import FrameBuffer, Links
from tests.runtime.cluster import run, until

LISTEN, LINK = token_of(9, 1), token_of(9, 2)


class End:
    """One end of links, and what it was told."""

    def __init__(self, name: str) -> None:
        self.told: list[CallOutcome] = []
        self.links = Links(ProcessId(name, 3), "127.0.0.1:0", self.told.append)

    def frames(self) -> list[bytes]:
        return [frame for told in self.told if isinstance(told, LinkFrames) for frame in told.frames]


async def connected() -> tuple[End, End]:
    server, client = End("server"), End("client")
    server.links.carry_out(Listen(LISTEN))
    await server.links.listening()
    client.links.carry_out(Dial(LINK, server.links.address))
    await until(lambda: bool(client.told) and bool(server.told))
    return server, client


def test_frames_arrive_whole_and_in_order_both_ways() -> None:
    async def test() -> None:
        server, client = await connected()
        up = server.told[0]
        assert isinstance(up, LinkUp)
        assert (up.identity, up.listen) == (ProcessId("client", 3), LISTEN)
        assert isinstance(client.told[0], LinkUp)
        assert client.told[0].identity == ProcessId("server", 3)
        frames = [bytes([number % 251]) * (number * 37) for number in range(200)]
        client.links.carry_out(Frames(LINK, frames))
        server.links.carry_out(Frames(up.token, frames[::-1]))
        await until(lambda: len(server.frames()) == len(client.frames()) == 200)
        assert server.frames() == frames
        assert client.frames() == frames[::-1]
        client.links.carry_out(Hang(LINK))
        await until(lambda: isinstance(server.told[-1], LinkDown))
        await asyncio.sleep(0.05)
        assert not any(isinstance(told, LinkDown) for told in client.told)
        await client.links.close()
        await server.links.close()

    run(test)


def test_nobody_at_the_address_is_told() -> None:
    async def test() -> None:
        client = End("client")
        client.links.carry_out(Dial(LINK, "127.0.0.1:1"))
        await until(lambda: bool(client.told))
        assert isinstance(client.told[0], LinkDown)
        assert client.told[0].token == LINK
        await client.links.close()

    run(test)


def test_a_full_link_tells_when_it_has_room() -> None:
    async def test() -> None:
        server, client = await connected()
        client.links.carry_out(Frames(LINK, [bytes(8 * 1024 * 1024), b"last"]))
        await until(lambda: any(isinstance(told, LinkRoom) for told in client.told))
        await until(lambda: server.frames()[-1:] == [b"last"])
        await client.links.close()
        await server.links.close()

    run(test)


def test_garbage_and_strangers_change_nothing() -> None:
    async def test() -> None:
        server, client = await connected()
        host, port = server.links.address.split(":")
        for garbage in (b"", b"\xff" * 100, pack("<I", 4) + b"abcd", pack("<IBQ", 10, 77, 1) + b"x"):
            with socket.create_connection((host, int(port))) as stranger:
                stranger.sendall(garbage)
        client.links.carry_out(Frames(LINK, [b"sense"]))
        await until(lambda: server.frames() == [b"sense"])
        assert sum(isinstance(told, LinkUp) for told in server.told) == 1
        await client.links.close()
        await server.links.close()

    run(test)


def test_links_that_are_accepted_at_the_same_time_have_ids_of_their_own() -> None:
    async def test() -> None:
        server, clients = End("server"), [End(f"client{number}") for number in range(8)]
        server.links.carry_out(Listen(LISTEN))
        await server.links.listening()
        for client in clients:
            client.links.carry_out(Dial(LINK, server.links.address))
        await until(lambda: len(server.told) == 8)
        assert len({told.token for told in server.told}) == 8
        for end in (server, *clients):
            await end.links.close()

    run(test)


def test_whoever_hangs_up_before_it_has_said_who_it_is_is_told_of() -> None:
    async def test() -> None:
        with socket.create_server(("127.0.0.1", 0)) as silent:
            client = End("client")
            client.links.carry_out(Dial(LINK, f"127.0.0.1:{silent.getsockname()[1]}"))
            await asyncio.sleep(0.05)
            silent.accept()[0].close()
            await until(lambda: bool(client.told))
            assert isinstance(client.told[0], LinkDown)
            await client.links.close()

    run(test)


def test_frames_are_whole_however_they_are_cut() -> None:
    frames = [b"", b"a", b"bc" * 700, b"d" * 5000, b"e"]
    data = b"".join(pack("<I", len(frame)) + frame for frame in frames)
    for step in (1, 2, 3, 5, 1000, 4000, len(data)):
        buffer = FrameBuffer()
        found = [frame for start in range(0, len(data), step)
                 for frame in buffer.take(memoryview(data)[start : start + step])]  # fmt: skip
        assert found == frames


def test_links_run_on_uvloop() -> None:
    uvloop = pytest.importorskip("uvloop")

    async def test() -> None:
        server, client = await connected()
        frames = [bytes([number % 251]) * (number * 997) for number in range(200)]
        client.links.carry_out(Frames(LINK, frames))
        await until(lambda: len(server.frames()) == len(frames))
        assert server.frames() == frames
        client.links.carry_out(Hang(LINK))
        await until(lambda: isinstance(server.told[-1], LinkDown))
        await client.links.close()
        await server.links.close()

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(asyncio.wait_for(test(), 20))
