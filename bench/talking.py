"""One process that passes messages over four kinds of transport, for the tables of psync-1989, section 6.

    udp     asyncio's datagrams: no order, no repair
    rpc     a request and its reply over the same datagrams: numbered, sent again after a time, answered once
    talk    a conversation of a node, each message sent to every host by itself
    tcp     a circuit between each two processes, a copy of each message on every one, without Nagle's delay

All are used alike: a task waits for a message and then sends one, in the same event loop; each message is one byte of
the application. What a transport adds, a length before the byte for example, is not counted.

A token is passed: message k is sent by process k modulo n, to all others, when it has received message k - 1. With two
processes that is a round trip for every two messages. A circuit knows nothing of the messages of other circuits, so
there the application reads from the process whose turn it is; in a conversation it takes whatever comes next.
"""

import asyncio
import os
import socket
import time
from collections import deque
from functools import partial
from typing import Any, Final, Protocol

import antiphon
from antiphon.conversation import accept_conversation, open_conversation
from antiphon.runtime.workers import Object, Parent

HOST: Final = "127.0.0.1"
BYTE: Final = b"!"
LENGTH: Final = 4
NUMBER: Final = 8
CALL_S: Final = 0.2
"""After so long a request is sent again."""
WAIT_S: Final = 20.0


class Queue:
    """What has come and was not received, of one wire or one circuit."""

    def __init__(self) -> None:
        self._come: deque[bytes] = deque()
        self._waiter: asyncio.Future[None] | None = None

    def put(self, data: bytes) -> None:
        self._come.append(data)
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    async def get(self) -> bytes:
        while not self._come:
            self._waiter = asyncio.get_running_loop().create_future()
            await self._waiter
        return self._come.popleft()


class Wire(Protocol):
    """What the application sees."""

    async def send(self, data: bytes) -> None:
        """To all others."""

    async def receive(self, sender: int) -> bytes:
        """The next message; `sender` is whose turn it is."""

    async def close(self) -> None: ...


class Datagrams(asyncio.DatagramProtocol):
    """Puts datagrams into a queue."""

    def __init__(self) -> None:
        self.queue = Queue()

    def datagram_received(self, data: bytes, address: Any) -> None:
        self.queue.put(data)


class UdpWire:
    def __init__(self, transport: asyncio.DatagramTransport, protocol: Datagrams, others: list[int]) -> None:
        self._transport = transport
        self._queue = protocol.queue
        self._others = [(HOST, port) for port in others]

    async def send(self, data: bytes) -> None:
        for other in self._others:
            self._transport.sendto(data, other)

    async def receive(self, sender: int) -> bytes:
        return await self._queue.get()

    async def close(self) -> None:
        pass


class RpcWire:
    """Two processes: the one whose messages are requests, and the one that replies to them."""

    def __init__(self, transport: asyncio.DatagramTransport, protocol: Datagrams, other: int, asks: bool) -> None:
        self._transport = transport
        self._queue = protocol.queue
        self._other = (HOST, other)
        self._asks = asks
        self._number = 0
        self._sent = b""
        self._timer: asyncio.TimerHandle | None = None

    async def send(self, data: bytes) -> None:
        self._number += self._asks
        self._sent = self._number.to_bytes(NUMBER, "little") + data
        self._transport.sendto(self._sent, self._other)
        if self._asks:
            self._timer = asyncio.get_running_loop().call_later(CALL_S, self._again)

    def _again(self) -> None:
        self._transport.sendto(self._sent, self._other)
        self._timer = asyncio.get_running_loop().call_later(CALL_S, self._again)

    async def receive(self, sender: int) -> bytes:
        while True:
            data = await self._queue.get()
            number = int.from_bytes(data[:NUMBER], "little")
            if self._asks and number == self._number:
                if self._timer is not None:
                    self._timer.cancel()
                return data[NUMBER:]
            if not self._asks and number == self._number + 1:
                self._number = number
                return data[NUMBER:]
            if not self._asks and number == self._number:
                self._transport.sendto(self._sent, self._other)

    async def close(self) -> None:
        pass


class Circuit(asyncio.Protocol):
    """One end of a circuit; each message says first how long it is. The first one tells the rank of who called."""

    def __init__(self, circuits: "dict[int, Circuit]", rank: int | None) -> None:
        self._circuits = circuits
        self._rank = rank
        self._data = b""
        self.queue = Queue()
        self.transport: Any = None

    def connection_made(self, transport: Any) -> None:
        self.transport = transport
        transport.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if self._rank is not None:
            self._circuits[self._rank] = self

    def data_received(self, data: bytes) -> None:
        self._data = self._data + data if self._data else data
        while len(self._data) >= LENGTH:
            end = LENGTH + int.from_bytes(self._data[:LENGTH], "little")
            if len(self._data) < end:
                return
            message, self._data = self._data[LENGTH:end], self._data[end:]
            if self._rank is None:
                self._rank = message[0]
                self._circuits[self._rank] = self
            else:
                self.queue.put(message)

    def say(self, data: bytes) -> None:
        self.transport.write(len(data).to_bytes(LENGTH, "little") + data)


class TcpWire:
    def __init__(self, circuits: dict[int, Circuit]) -> None:
        self._circuits = circuits

    async def send(self, data: bytes) -> None:
        for circuit in self._circuits.values():
            circuit.say(data)

    async def receive(self, sender: int) -> bytes:
        return await self._circuits[sender].queue.get()

    async def close(self) -> None:
        for circuit in self._circuits.values():
            circuit.transport.close()


class TalkWire:
    def __init__(self, conversation: antiphon.conversation.Conversation) -> None:
        self._conversation = conversation

    def repairs(self) -> int:
        """Packets, up to now, that asked for something, or that brought it again."""
        counts = self._conversation.statistics()
        return counts.get("asked", 0) + counts.get("resent", 0)

    async def send(self, data: bytes) -> None:
        await self._conversation.send(data)

    async def receive(self, sender: int) -> bytes:
        _, data = await self._conversation.receive()
        return data

    async def close(self) -> None:
        await self._conversation.close()


class Talking:
    """The process and its jobs. A job names the ranks and places of all that take part."""

    def __init__(self, parent: Parent) -> None:
        self._parent = parent
        self._wires: dict[str, Wire] = {}
        self._circuits: dict[int, Circuit] = {}
        self._node: antiphon.Node | None = None
        self._udp: dict[str, tuple[asyncio.DatagramTransport, Datagrams]] = {}

    async def work(self) -> None:
        while True:
            job = await self._parent.expect("job")
            what = getattr(self, "do_" + job["what"])
            self._parent.tell("done", **(await what(job) or {}))

    async def do_hello(self, job: Object) -> Object:
        return {"pid": os.getpid()}

    async def do_bind(self, job: Object) -> Object:
        """A place on each wire."""
        loop = asyncio.get_running_loop()
        self._node = antiphon.Node(job["name"], address=f"{HOST}:0", incarnation=1, linger_s=0.1)
        await self._node.start()
        server = await loop.create_server(lambda: Circuit(self._circuits, None), HOST, 0)
        places: Object = {"talk": self._node.address, "tcp": server.sockets[0].getsockname()[1]}
        for wire in ("udp", "rpc"):
            transport, protocol = await loop.create_datagram_endpoint(Datagrams, local_addr=(HOST, 0))
            self._udp[wire] = (transport, protocol)
            places[wire] = transport.get_extra_info("sockname")[1]
        return {"places": places}

    async def do_connect(self, job: Object) -> None:
        """Everything that is needed before the first message, but the conversation."""
        rank, places = job["me"], job["places"]
        loop = asyncio.get_running_loop()
        for other in range(rank + 1, len(places)):
            make = partial(Circuit, self._circuits, other)
            _, circuit = await loop.create_connection(make, HOST, places[other]["tcp"])
            circuit.say(bytes([rank]))
        async with asyncio.timeout(WAIT_S):
            while len(self._circuits) < len(places) - 1:
                await asyncio.sleep(0.001)
        self._wires["tcp"] = TcpWire(self._circuits)
        others = [place["udp"] for number, place in enumerate(places) if number != rank]
        self._wires["udp"] = UdpWire(*self._udp["udp"], others)
        if len(places) == 2:
            self._wires["rpc"] = RpcWire(*self._udp["rpc"], places[1 - rank]["rpc"], rank == 0)

    async def do_open(self, job: Object) -> None:
        """The conversation, with a first message that all have received."""
        assert self._node is not None
        if job["me"] == 0:
            others = {f"p{number}": place["talk"] for number, place in enumerate(job["places"]) if number}
            conversation = await open_conversation(self._node, others)
            await conversation.send(BYTE)
        else:
            conversation = await accept_conversation(self._node, timeout_s=WAIT_S)
            await conversation.receive(timeout_s=WAIT_S)
        self._wires["talk"] = TalkWire(conversation)

    async def do_pass(self, job: Object) -> Object:
        """Pass the token: `count` messages, the first of rank 0. Elapsed and processor time, without those of the first
        round, in which the processes wait for each other; and what was asked for and resent meanwhile."""
        wire, rank, members = self._wires[job["wire"]], job["me"], job["members"]
        cpu_ns, begin_ns = time.process_time_ns(), time.perf_counter_ns()
        async with asyncio.timeout(WAIT_S + job["count"] / 100):
            for number in range(job["count"]):
                holder = number % members
                if number == members:
                    cpu_ns, begin_ns = time.process_time_ns(), time.perf_counter_ns()
                if holder == rank:
                    await wire.send(BYTE)
                else:
                    await wire.receive(holder)
        taken = {"elapsed_ns": time.perf_counter_ns() - begin_ns, "cpu_ns": time.process_time_ns() - cpu_ns}
        return taken | {"repairs": wire.repairs() if isinstance(wire, TalkWire) else 0}


async def main() -> None:
    await Talking(await Parent.connect()).work()


if __name__ == "__main__":
    asyncio.run(main())
