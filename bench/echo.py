"""One process of a plain echo over sockets, for comparison: it answers requests, and sends requests to others.

    udp      asyncio's datagram endpoints
    tcp      asyncio's streams of bytes, a protocol on each side: a plain remote call
    socket   blocking UDP sockets, without any event loop: what system calls and the kernel cost

A request may be of any size; every answer is one byte. No order, no loss recovery: an answer that is lost ends the run.
"""

import asyncio
import os
import socket
import struct
import threading
import time
from typing import Any, Final

from antiphon.runtime.workers import Object, Parent

ANSWER: Final = b"!"
LENGTH: Final = 4
HOST: Final = "127.0.0.1"
ANSWER_S: Final = 5


class UdpServer(asyncio.DatagramProtocol):
    """Answers each datagram."""

    def connection_made(self, transport: Any) -> None:
        self._transport = transport

    def datagram_received(self, data: bytes, address: Any) -> None:
        self._transport.sendto(ANSWER, address)


class Waiting:
    """Answers that have not come yet."""

    def __init__(self) -> None:
        self._missing = 0
        self._done: asyncio.Future[None] | None = None

    def expect(self, answers: int) -> asyncio.Future[None]:
        self._missing = answers
        self._done = asyncio.get_running_loop().create_future()
        return self._done

    def take(self, answers: int) -> None:
        self._missing -= answers
        if self._missing == 0 and self._done is not None:
            self._done.set_result(None)


class UdpClient(asyncio.DatagramProtocol):
    """Counts answers."""

    def __init__(self, waiting: Waiting) -> None:
        self._waiting = waiting

    def datagram_received(self, data: bytes, address: Any) -> None:
        self._waiting.take(1)


class TcpServer(asyncio.Protocol):
    """Answers each request, which says first how long it is."""

    def __init__(self) -> None:
        self._data = b""

    def connection_made(self, transport: Any) -> None:
        self._transport = transport
        transport.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def data_received(self, data: bytes) -> None:
        self._data += data
        while len(self._data) >= LENGTH:
            end = LENGTH + int.from_bytes(self._data[:LENGTH], "big")
            if len(self._data) < end:
                return
            self._data = self._data[end:]
            self._transport.write(ANSWER)


class TcpClient(asyncio.Protocol):
    """Counts answers."""

    def __init__(self, waiting: Waiting) -> None:
        self._waiting = waiting

    def connection_made(self, transport: Any) -> None:
        transport.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def data_received(self, data: bytes) -> None:
        self._waiting.take(len(data))


def serve_socket(sock: socket.socket) -> None:
    while True:
        _, address = sock.recvfrom(65_535)
        sock.sendto(ANSWER, address)


class Echo:
    """The process and the jobs that it does."""

    def __init__(self, parent: Parent) -> None:
        self._parent = parent
        self._waiting = Waiting()
        self._sends: list[Any] = []

    async def work(self) -> None:
        while True:
            job = await self._parent.expect("job")
            what = getattr(self, "do_" + job["what"])
            self._parent.tell("done", **(await what(job) or {}))

    async def do_hello(self, job: Object) -> Object:
        return {"pid": os.getpid()}

    async def do_serve(self, job: Object) -> Object:
        """Serve one wire; the port."""
        loop = asyncio.get_running_loop()
        if job["wire"] == "udp":
            transport, _ = await loop.create_datagram_endpoint(UdpServer, local_addr=(HOST, 0))
            return {"port": transport.get_extra_info("sockname")[1]}
        if job["wire"] == "tcp":
            server = await loop.create_server(TcpServer, HOST, 0)
            return {"port": server.sockets[0].getsockname()[1]}
        sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        sock.bind((HOST, 0))
        threading.Thread(target=serve_socket, args=(sock,), daemon=True).start()
        return {"port": sock.getsockname()[1]}

    async def do_ask(self, job: Object) -> Object:
        """Ask those at `ports`, all at once or one after the other, `count` times; how long each round took."""
        requests = await self._requests(job["wire"], job["ports"], bytes(job["size"]))
        if job["wire"] == "socket":
            return {"times_ns": ask_socket(job["ports"], bytes(job["size"]), job["count"])}
        rounds = [[request] for request in requests] if job["successive"] else [requests]
        times_ns = []
        async with asyncio.timeout(ANSWER_S + job["count"] / 100):
            for _ in range(job["count"]):
                begin_ns = time.perf_counter_ns()
                for together in rounds:
                    answered = self._waiting.expect(len(together))
                    for send, request in together:
                        send(request)
                    await answered
                times_ns.append(time.perf_counter_ns() - begin_ns)
        for transport in self._sends:
            transport.close()
        self._sends.clear()
        return {"times_ns": times_ns}

    async def _requests(self, wire: str, ports: list[int], request: bytes) -> list[tuple[Any, bytes]]:
        """How to send to each."""
        loop = asyncio.get_running_loop()
        requests: list[tuple[Any, bytes]] = []
        if wire == "udp":
            endpoint, _ = await loop.create_datagram_endpoint(lambda: UdpClient(self._waiting), local_addr=(HOST, 0))
            self._sends.append(endpoint)
            for port in ports:
                requests.append((lambda data, to=(HOST, port): endpoint.sendto(data, to), request or ANSWER))
        elif wire == "tcp":
            framed = len(request).to_bytes(LENGTH, "big") + request
            for port in ports:
                connection, _ = await loop.create_connection(lambda: TcpClient(self._waiting), HOST, port)
                self._sends.append(connection)
                requests.append((connection.write, framed))
        return requests


def ask_socket(ports: list[int], request: bytes, count: int) -> list[int]:
    times_ns = []
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, struct.pack("ll", ANSWER_S, 0))
        for _ in range(count):
            begin_ns = time.perf_counter_ns()
            for port in ports:
                sock.sendto(request, (HOST, port))
            for _ in ports:
                sock.recvfrom(65_535)
            times_ns.append(time.perf_counter_ns() - begin_ns)
    return times_ns


async def main() -> None:
    await Echo(await Parent.connect()).work()


if __name__ == "__main__":
    asyncio.run(main())
