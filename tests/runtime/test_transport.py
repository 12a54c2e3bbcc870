"""The socket: many datagrams at a time, and nothing that the network does raises."""

import asyncio
import errno
import socket
from typing import Any

import pytest

from antiphon.runtime.errors import AddressError
from antiphon.runtime.transport import (
    QUEUE_DATAGRAMS_MAX,
    READ_DATAGRAMS_MAX,
    SEGMENTS_MAX,
    DatagramRun,
    UdpTransport,
    bind,
    pieces,
)
from tests.runtime.cluster import run, until


class Stubborn:
    """A socket that fails to send, with each of `errors` in turn, before it works."""

    def __init__(self, below: socket.socket, errors: list[OSError]) -> None:
        self._below = below
        self.errors = errors

    def __getattr__(self, name: str) -> Any:
        return getattr(self._below, name)

    def sendto(self, data: bytes, address: tuple[str, int]) -> int:
        if self.errors:
            raise self.errors.pop(0)
        return self._below.sendto(data, address)

    def sendmsg(self, *arguments: Any) -> int:
        if self.errors:
            raise self.errors.pop(0)
        return self._below.sendmsg(*arguments)


class Pair:
    """A transport, and another that keeps what it receives."""

    def __init__(self, errors: list[OSError] | None = None) -> None:
        self.lists: list[list[bytes]] = []
        sock: Any = Stubborn(bind(socket.AF_INET, ("127.0.0.1", 0)), errors or [])
        self.sender = UdpTransport(sock, datagram_bytes_max=100, on_datagrams=lambda _: None)
        receiver = bind(socket.AF_INET, ("127.0.0.1", 0))
        self.address = receiver.getsockname()
        self.receiver = UdpTransport(receiver, datagram_bytes_max=100, on_datagrams=self.lists.append)

    def received(self) -> list[bytes]:
        return [datagram for datagrams in self.lists for datagram in datagrams]

    def close(self) -> None:
        self.sender.close()
        self.receiver.close()
        self.receiver.close()


def test_waiting_datagrams_are_handed_over_as_lists() -> None:
    async def test() -> None:
        pair = Pair()
        packets = [b"%d" % number for number in range(3 * READ_DATAGRAMS_MAX)]
        pair.sender.send(packets, [pair.address])
        await until(lambda: len(pair.received()) == len(packets))
        assert pair.received() == packets
        assert all(len(datagrams) <= READ_DATAGRAMS_MAX + SEGMENTS_MAX for datagrams in pair.lists)
        assert len(pair.lists) <= 7  # one call at first, then ever more of them
        assert pair.sender.statistics()["datagrams_sent"] == len(packets)
        assert pair.receiver.statistics()["datagrams_received"] == len(packets)
        pair.close()

    run(test)


def test_too_long_datagrams_are_counted() -> None:
    async def test() -> None:
        pair = Pair()
        pair.sender.send([b"x" * 101, b"y" * 100], [pair.address])
        await until(lambda: bool(pair.lists))
        assert pair.received() == [b"y" * 100]
        assert pair.receiver.statistics()["datagrams_oversized"] == 1
        pair.close()

    run(test)


@pytest.mark.parametrize("error", [BlockingIOError(errno.EAGAIN, ""), OSError(errno.ENOBUFS, "")])
def test_what_the_socket_does_not_take_goes_later_in_order(error: OSError) -> None:
    async def test() -> None:
        pair = Pair([error, error])
        pair.sender.send([b"1", b"2"], [pair.address])
        pair.sender.send([b"3"], [pair.address])
        assert pair.sender.statistics()["datagrams_sent"] == 0
        await until(lambda: len(pair.received()) == 3)
        assert pair.received() == [b"1", b"2", b"3"]
        pair.close()

    run(test)


def test_the_queue_is_bounded() -> None:
    async def test() -> None:
        pair = Pair([BlockingIOError(errno.EAGAIN, "")])
        pair.sender.send([b"x"] * (QUEUE_DATAGRAMS_MAX + 7), [pair.address])
        assert pair.sender.statistics()["datagrams_dropped"] == 7
        pair.close()

    run(test)


def test_pieces_are_of_one_length_but_for_their_last() -> None:
    packets = [b"aa", b"bb", b"c", b"dd", b"eee", b"fff", b"gggg"]
    assert pieces(packets) == [
        DatagramRun([b"aa", b"bb", b"c"], 2),
        DatagramRun([b"dd"], 2),
        DatagramRun([b"eee", b"fff"], 3),
        DatagramRun([b"gggg"], 4),
    ]
    assert pieces([]) == []
    assert [len(piece.packets) for piece in pieces([b"x"] * 130)] == [64, 64, 2]
    assert [len(piece.packets) for piece in pieces([bytes(20_000)] * 7)] == [3, 3, 1]


def test_what_comes_in_one_piece_is_cut_up_again() -> None:
    async def test() -> None:
        pair = Pair()
        packets = [bytes([number]) * (100 if number % 10 else 99) for number in range(60)]
        pair.sender.send(packets, [pair.address])
        await until(lambda: len(pair.received()) == 60)
        assert pair.received() == packets
        pair.close()

    run(test)


@pytest.mark.parametrize("reason", [errno.EIO, errno.EINVAL, errno.EMSGSIZE])
def test_pieces_that_are_refused_go_one_by_one_in_order(reason: int) -> None:
    async def test() -> None:
        pair = Pair([OSError(reason, ""), BlockingIOError(errno.EAGAIN, "")])
        pair.sender.send([b"1", b"2"], [pair.address])
        pair.sender.send([b"3", b"4"], [pair.address])
        await until(lambda: len(pair.received()) == 4)
        assert pair.received() == [b"1", b"2", b"3", b"4"]
        assert pair.sender.statistics()["datagrams_sent"] == 4
        pair.close()

    run(test)


def test_errors_of_the_network_are_counted() -> None:
    async def test() -> None:
        pair = Pair([ConnectionRefusedError(errno.ECONNREFUSED, "")])
        pair.sender.send([b"1"], [pair.address])
        pair.sender.send([b"2"], [pair.address])
        await until(lambda: bool(pair.lists))
        assert pair.received() == [b"2"]
        assert pair.sender.statistics()["socket_errors"] == 1
        pair.close()

    run(test)


def test_a_refused_peer_does_not_stop_the_reader() -> None:
    async def test() -> None:
        sock = bind(socket.AF_INET, ("127.0.0.1", 0))
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as gone:
            gone.bind(("127.0.0.1", 0))
            nobody = gone.getsockname()
        sock.connect(nobody)  # so that the system reports the refusal
        transport = UdpTransport(sock, datagram_bytes_max=100, on_datagrams=lambda _: None)
        transport.send([b"x"], [nobody])
        await until(lambda: transport.statistics()["socket_errors"] > 0)
        transport.close()

    run(test)


def test_a_port_in_use_is_a_clear_error() -> None:
    taken = bind(socket.AF_INET, ("127.0.0.1", 0))
    with taken, pytest.raises(AddressError, match="another program uses this port"):
        bind(socket.AF_INET, taken.getsockname())


def test_closing_forgets_what_waits() -> None:
    async def test() -> None:
        pair = Pair([OSError(errno.ENOBUFS, "")])
        pair.sender.send([b"1"], [pair.address])
        pair.close()
        await asyncio.sleep(0.01)  # the retry would come here, and raise on a closed socket

    run(test)


def test_a_reader_that_polls_does_not_sleep_until_its_time_is_over() -> None:
    async def test() -> None:
        pair = Pair()
        pair.receiver.close()
        sock = bind(socket.AF_INET, ("127.0.0.1", 0))
        receiver = UdpTransport(sock, datagram_bytes_max=100, on_datagrams=pair.lists.append, poll_s=0.05)
        loop: Any = asyncio.get_running_loop()
        sleeps: list[float | None] = []
        select = loop._selector.select

        def noting(timeout: float | None = None) -> Any:
            sleeps.append(timeout)
            return select(timeout)

        loop._selector.select = noting
        pair.sender.send([b"first"], [sock.getsockname()])
        await until(lambda: len(pair.received()) == 1)
        sleeps.clear()
        begin_s = loop.time()
        loop.call_later(0.02, pair.sender.send, [b"second"], [sock.getsockname()])
        await until(lambda: len(pair.received()) == 2)
        assert set(sleeps) == {0}, "it polls, and the timer went off all the same"
        await asyncio.sleep(0.2)
        assert any(timeout != 0 for timeout in sleeps), "it sleeps again"
        assert loop.time() - begin_s >= 0.2
        pair.sender.close()
        receiver.close()

    asyncio.run(test())
