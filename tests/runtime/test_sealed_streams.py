"""Sealed connections: whoever has no key is not heard, and what is changed on the way ends the connection."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from antiphon.runtime import sealed_streams
from antiphon.runtime.keyring import Keyring, KeySupply
from antiphon.runtime.sealed_streams import (
    RECORD_BYTES_MAX,
    STRANGERS_MAX,
    SealedConnection,
    Strangers,
    start_server,
)
from antiphon.runtime.trust import Trust
from tests.runtime.seal_table import ring


class Wire(asyncio.Transport):
    """One end of a connection whose bytes the test carries."""

    def __init__(self) -> None:
        super().__init__()
        self.written = bytearray()
        self.is_aborted = False
        self.is_closed = False

    def write(self, data: Any) -> None:
        self.written += data

    def close(self) -> None:
        self.is_closed = True

    def abort(self) -> None:
        self.is_aborted = self.is_closed = True

    def is_closing(self) -> bool:
        return self.is_closed

    def take(self) -> bytes:
        """What was written since the last time."""
        data = bytes(self.written)
        self.written.clear()
        return data


class Program(asyncio.Protocol):
    """What a program hears of a connection."""

    def __init__(self) -> None:
        self.transport: asyncio.Transport | None = None
        self.heard = b""
        self.has_ended = False
        self.lost: list[Exception | None] = []

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.heard += data

    def eof_received(self) -> bool:
        self.has_ended = True
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        self.lost.append(exc)


class End:
    """One end: program, seal and wire."""

    def __init__(self, dials: bool, keyring: Keyring | None = None, strangers: Strangers | None = None) -> None:
        self.program = Program()
        self.supply = KeySupply(keyring or ring(1))
        self.wire = Wire()
        strangers = Strangers() if strangers is None else strangers
        self.connection = SealedConnection(self.supply, lambda: self.program, dials, strangers)
        self.connection.connection_made(self.wire)

    def write(self, data: bytes) -> bytes:
        """What goes over the wire when the program writes this."""
        assert self.program.transport is not None
        self.program.transport.write(data)
        return self.wire.take()


def shake_hands(a: End, b: End) -> list[bytes]:
    """Carry what they say until they are silent; what `a` said."""
    said = []
    for _ in range(4):
        data = a.wire.take()
        if data:
            said.append(data)
            b.connection.data_received(data)
        if data := b.wire.take():
            a.connection.data_received(data)
    return said


def in_loop(scene: Callable[[], Awaitable[None]]) -> Callable[[], None]:
    """The scene as a test, on a loop of its own."""

    def test() -> None:
        asyncio.run(scene())  # type: ignore[arg-type]

    test.__doc__ = scene.__doc__
    return test


@in_loop
async def test_both_ends_hear_each_other() -> None:
    a, b = End(True), End(False)
    shake_hands(a, b)
    long = bytes(range(256)) * 1024
    wired = a.write(long)
    assert long[:64] not in wired
    for start in range(0, len(wired), 1000):
        b.connection.data_received(wired[start : start + 1000])
    a.connection.data_received(b.write(b"back"))
    assert (a.program.heard, b.program.heard) == (b"back", long)
    assert len(wired) > len(long) + RECORD_BYTES_MAX // 4096


@in_loop
async def test_a_program_does_not_hear_of_strangers() -> None:
    """Not even if they repeat what a friend said."""
    a, b = End(True), End(False)
    hello = shake_hands(a, b)[0]
    for data in (hello, hello + bytes(200), b"GET / HTTP/1.1\r\n\r\n", bytes(500), b"\1\0", b"\1\377" + bytes(100)):
        stranger = End(False)
        stranger.connection.data_received(data)
        assert stranger.program.transport is None
        assert stranger.wire.is_aborted == (data != hello)


@in_loop
async def test_ends_without_a_common_key_do_not_meet() -> None:
    a, b = End(True, ring(1, chance=1)), End(False)
    shake_hands(a, b)
    assert a.program.transport is None
    assert b.program.transport is None
    assert b.wire.is_aborted


@in_loop
async def test_the_newest_common_key_is_used() -> None:
    a, b = End(True, ring(1, 2, 3)), End(False, ring(2, 3, 4))
    shake_hands(a, b)
    assert a.program.transport is not None
    assert b.connection._key == ring(3).keys[0]


@in_loop
async def test_a_hello_cannot_be_changed() -> None:
    """To take the newer keys out of it ends the connection."""
    a, b = End(True, ring(1, 2)), End(False, ring(1, 2))
    hello = a.wire.take()
    changed = bytes((hello[0], 1)) + hello[2:6] + hello[10:]
    b.connection.data_received(changed)
    a.connection.data_received(b.wire.take())
    assert a.wire.is_aborted
    assert a.program.transport is None


@in_loop
async def test_records_cannot_be_repeated_swapped_or_left_out() -> None:
    for order in ((0, 0), (1, 0), (0, 2), (2,)):
        a, b = End(True), End(False)
        shake_hands(a, b)
        records = [a.write(word) for word in (b"one", b"two", b"three")]
        for number in order:
            b.connection.data_received(records[number])
        assert b.wire.is_aborted, order
        assert b.program.heard in (b"", b"one")


@in_loop
async def test_no_changed_byte_is_heard() -> None:
    for at in range(27):
        a, b = End(True), End(False)
        shake_hands(a, b)
        record = a.write(b"payload")
        b.connection.data_received(record[:at] + bytes((record[at] ^ 1,)) + record[at + 1 :] + bytes(300))
        assert b.program.heard == b""
        assert b.wire.is_aborted or at < 2  # a length that is longer by a little waits for the rest


@in_loop
async def test_a_recorded_connection_cannot_be_played_again() -> None:
    a, b = End(True), End(False)
    said = shake_hands(a, b)
    said.append(a.write(b"transfer 100"))
    again = End(False)
    for data in said:
        again.connection.data_received(data)
    assert again.program.transport is None
    assert again.wire.is_aborted


@in_loop
async def test_what_one_end_says_cannot_be_thrown_back() -> None:
    a, b = End(True), End(False)
    shake_hands(a, b)
    a.connection.data_received(a.write(b"mirror"))
    assert a.program.heard == b""
    assert a.wire.is_aborted


@in_loop
async def test_a_connection_that_was_cut_off_is_reported_as_lost() -> None:
    a, b = End(True), End(False)
    shake_hands(a, b)
    b.connection.data_received(a.write(b"half"))
    b.connection.eof_received()
    b.connection.connection_lost(None)
    assert isinstance(b.program.lost[0], ConnectionError)


@in_loop
async def test_a_connection_that_was_closed_ends_well() -> None:
    a, b = End(True), End(False)
    shake_hands(a, b)
    assert a.program.transport is not None
    a.program.transport.close()
    a.connection.connection_lost(None)
    b.connection.data_received(a.wire.take())
    b.connection.connection_lost(None)
    assert b.program.has_ended
    assert a.program.lost == b.program.lost == [None]


@in_loop
async def test_strangers_are_limited() -> None:
    strangers = Strangers()
    ends = [End(False, strangers=strangers) for _ in range(STRANGERS_MAX + 10)]
    assert len(strangers) == STRANGERS_MAX
    assert [end.wire.is_aborted for end in ends] == [True] * 10 + [False] * STRANGERS_MAX
    late = End(True)
    shake_hands(late, ends[-1])
    assert late.program.transport is not None
    assert len(strangers) == STRANGERS_MAX - 1


@in_loop
async def test_a_connection_ends_when_its_key_is_taken_out() -> None:
    a, b = End(True), End(False)
    shake_hands(a, b)
    b.supply.keyring = ring(1, 2)
    b.connection.data_received(a.write(b"still listed"))
    b.supply.keyring = ring(2)
    b.connection.data_received(a.write(b"no more"))
    assert b.program.heard == b"still listed"
    assert b.wire.is_aborted


async def _echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        writer.write(await reader.readexactly(4))
        await writer.drain()
    except (OSError, EOFError):
        pass
    finally:
        writer.close()


async def _exchange(server: Trust, client: Trust) -> bytes:
    serving = await start_server(_echo, "127.0.0.1", 0, trust=server)
    try:
        port = serving.sockets[0].getsockname()[1]
        async with asyncio.timeout(20):
            reader, writer = await sealed_streams.open_connection("127.0.0.1", port, trust=client)
            writer.write(b"ping")
            answer = await reader.read()
            writer.close()
        return answer
    finally:
        serving.close()


@in_loop
async def test_streams_over_loopback() -> None:
    assert await _exchange(Trust(ring(1)), Trust(ring(1, 2))) == b"ping"
    assert await _exchange(Trust(), Trust()) == b"ping"


@in_loop
async def test_plain_and_sealed_ends_do_not_talk() -> None:
    for server, client in ((Trust(ring(1)), Trust(ring(2))), (Trust(), Trust(ring(1)))):
        with pytest.raises(ConnectionError):
            await _exchange(server, client)
    try:
        answer = await _exchange(Trust(ring(1)), Trust())
    except OSError:
        answer = b""
    assert answer != b"ping"
