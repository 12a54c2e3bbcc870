"""The simulated network: datagrams and streams between hosts, under the fault layers of `antiphon.faults`.

Every packet meets the layers once per destination, by the names of the two hosts. Between programs of one host there
are no faults. A connection is a stream of bytes both ways (streams.py): what the layers lose of it is sent again.
"""

import asyncio
import errno
import socket
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final

from antiphon.faults import Fault, Flight, fly
from antiphon.runtime.address import WILDCARDS, SocketAddress
from antiphon.testing.streams import SimulatedServer, StreamProtocol, StreamTransport
from antiphon.testing.timeline import Timeline

if TYPE_CHECKING:
    from antiphon.testing.host import Host, Program
    from antiphon.testing.sockets import SimulatedSocket

LOOPBACK_NS: Final = 20_000
FREE_PORTS_FROM: Final = 40_000
RESEND_NS: Final = 200_000_000
"""After this, what a stream lost is sent again."""
CONNECT_TRIES: Final = 100


class Network:
    """Who is bound where, and what becomes of what they send."""

    def __init__(self, timeline: Timeline, is_sealed: bool = True) -> None:
        self.timeline = timeline
        self.is_sealed = is_sealed
        """Whether nodes that bring no keys are given some."""
        self.layers: list[Fault] = []
        self.hosts: dict[str, Host] = {}
        """By address."""
        self.datagrams_sent = 0
        self._by_name: dict[str, Host] = {}
        self._bound: dict[tuple[str, int], SimulatedSocket] = {}
        self._subscribers: dict[tuple[str, int], list[SimulatedSocket]] = {}
        self._servers: dict[tuple[str, int], SimulatedServer] = {}
        self._next_port = FREE_PORTS_FROM

    def add(self, host: "Host") -> None:
        self.hosts[host.address] = host
        self._by_name[host.name] = host

    def resolve(self, name: str) -> str:
        """The address of a host by its name; figures stand for themselves."""
        known = self._by_name.get(name)
        if known is not None:
            return known.address
        try:
            socket.getaddrinfo(name, 0, flags=socket.AI_NUMERICHOST)
        except OSError:
            raise socket.gaierror(socket.EAI_NONAME, f"no host of the simulation is called {name!r}") from None
        return name

    def host_of(self, source: "Host", address: str) -> "Host | None":
        """Whom `address` stands for, seen from `source`."""
        known = self.hosts.get(address)
        if known is None and (address.startswith("127.") or address in ("0.0.0.0", "::1", "::", "localhost", "")):
            return source
        return known

    # ---- datagrams -------------------------------------------------------------------------------------------------

    def bind(self, sock: "SimulatedSocket", address: SocketAddress) -> SocketAddress:
        host = sock.program.host
        if _is_multicast(address[0]):
            return address
        if self.host_of(host, address[0]) is not host:
            raise OSError(errno.EADDRNOTAVAIL, f"{host.name} does not have the address {address[0]}")
        port = address[1] or self._free_port()
        if (host.name, port) in self._bound:
            raise OSError(errno.EADDRINUSE, "Address already in use")
        self._bound[host.name, port] = sock
        return (address[0], port)

    def _free_port(self) -> int:
        self._next_port += 1
        return self._next_port

    def unbind(self, sock: "SimulatedSocket") -> None:
        for key, bound in list(self._bound.items()):
            if bound is sock:
                del self._bound[key]
        for subscribers in self._subscribers.values():
            if sock in subscribers:
                subscribers.remove(sock)

    def subscribe(self, sock: "SimulatedSocket", group: str) -> None:
        assert sock.bound is not None
        self._subscribers.setdefault((group, sock.bound[1]), []).append(sock)

    def send(self, sock: "SimulatedSocket", data: bytes, address: SocketAddress) -> None:
        """One datagram on its way."""
        source = sock.program.host
        self.datagrams_sent += 1
        now_ns = self.timeline.now_ns
        whence = self._whence(sock, address)
        if _is_multicast(address[0]):
            for hearer in self._subscribers.get((address[0], address[1]), ()):
                for delay_ns, arriving in self.flights(source, hearer.program.host, data):
                    self.timeline.at(now_ns + delay_ns, partial(hearer.arrive, arriving, whence))
            return
        target = self.host_of(source, address[0])
        if target is not None:
            where = (target.name, address[1])
            for delay_ns, arriving in self.flights(source, target, data):
                self.timeline.at(now_ns + delay_ns, partial(self.arrive, where, arriving, whence))

    def _whence(self, sock: "SimulatedSocket", address: SocketAddress) -> SocketAddress:
        """The source that a datagram to `address` bears."""
        bound = sock.getsockname()
        own = address[0] if address[0].startswith("127.") else sock.program.host.address
        return (own if bound[0] in WILDCARDS or _is_multicast(bound[0]) else bound[0], bound[1])

    def arrive(self, where: tuple[str, int], data: bytes, whence: SocketAddress) -> None:
        """A datagram is at a port of a host, named by its name: sent there, or forged."""
        sock = self._bound.get(where)
        if sock is not None:
            sock.arrive(data, whence)

    def flights(self, source: "Host", target: "Host", data: bytes) -> list[Flight]:
        """When and how a packet arrives; there may be none, or several."""
        if source is target:
            return [(LOOPBACK_NS, data)]
        return fly(self.layers, self.timeline.random, self.timeline.now_ns, source.name, target.name, data)

    # ---- streams ---------------------------------------------------------------------------------------------------

    def listen(
        self, program: "Program", protocol_factory: Callable[[], StreamProtocol], host: str, port: int
    ) -> SimulatedServer:
        here = program.host
        if self.host_of(here, self.resolve(host or "0.0.0.0")) is not here:
            raise OSError(errno.EADDRNOTAVAIL, f"{here.name} does not have the address {host}")
        port = port or self._free_port()
        if (here.name, port) in self._servers:
            raise OSError(errno.EADDRINUSE, "Address already in use")
        address = here.address if host in ("", "0.0.0.0") else self.resolve(host)
        server = SimulatedServer(program, protocol_factory, (address, port))
        self._servers[here.name, port] = server
        return server

    def stop_listening(self, server: SimulatedServer) -> None:
        self._servers.pop((server.program.host.name, server.address[1]), None)

    async def connect(
        self, program: "Program", protocol_factory: Callable[[], StreamProtocol], host: str, port: int
    ) -> tuple[asyncio.Transport, StreamProtocol]:
        """A connection; the question to be let in is repeated until it is answered."""
        program.touch()
        target = self.host_of(program.host, self.resolve(host))
        if target is None:
            raise OSError(errno.EHOSTUNREACH, f"no host of the simulation has the address {host}")
        for _ in range(CONNECT_TRIES):
            there, back = self.flights(program.host, target, b""), self.flights(target, program.host, b"")
            if there and back:
                await asyncio.sleep((there[0][0] + back[0][0]) / 1e9)
                return self._let_in(program, protocol_factory, target, port)
            await asyncio.sleep(RESEND_NS / 1e9)
        raise TimeoutError(errno.ETIMEDOUT, f"{host}:{port} does not answer")

    def _let_in(
        self, program: "Program", protocol_factory: Callable[[], StreamProtocol], target: "Host", port: int
    ) -> tuple[asyncio.Transport, StreamProtocol]:
        server = self._servers.get((target.name, port))
        if server is None or not server.program.is_alive:
            raise ConnectionRefusedError(errno.ECONNREFUSED, f"nobody listens at {target.address}:{port}")
        own = (program.host.address, self._free_port())
        protocol = protocol_factory()
        near = StreamTransport(program, protocol, own, server.address)
        far = StreamTransport(server.program, server.protocol_factory(), server.address, own)
        near.peer, far.peer = far, near
        protocol.connection_made(near)
        server.program.loop.call_soon(far.protocol.connection_made, far)
        return near, protocol

    def stream_delay_ns(self, source: "Host", target: "Host") -> int | None:
        """How long bytes of a stream take; None: they are lost this time."""
        flights = self.flights(source, target, b"")
        return min(delay_ns for delay_ns, _ in flights) if flights else None


def _is_multicast(address: str) -> bool:
    return address[3:4] == "." and "224" <= address[:3] <= "239"


def set_layers(network: Network, layers: Sequence[Fault]) -> None:
    """Put the network under these layers, from now on."""
    network.layers = list(layers)
