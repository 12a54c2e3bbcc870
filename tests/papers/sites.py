"""Real nodes for claims of a paper: processes with a link that can be cut, members of groups, servers of clients."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from time import monotonic_ns

from antiphon import Batch, CausalityDomain, Group, Node, Options, Order
from antiphon.faults import Fault, Partition
from antiphon.kernel.options import MILLISECOND_NS
from antiphon.toolkit import ClientMessage, Gateway, Service
from tests.runtime.cluster import until
from tests.runtime.places import HASTY, LOOPBACK

CUT_NS = 200 * MILLISECOND_NS

Faults = Mapping[str, tuple[Fault, ...]]


class Process:
    """A node, and all that it delivers in whatever group, in order, each as "group:payload"."""

    def __init__(self, name: str, faults: tuple[Fault, ...] = (), options: Options = HASTY) -> None:
        self._link = Partition(frozenset(), frozenset(), 0, 0)
        faults = (*faults, self._link)
        self.node = Node(name, address=LOOPBACK, incarnation=1, options=options, linger_s=0.5, faults=faults, seed=1)
        self.log: list[str] = []

    def cut(self, other: "Process") -> None:
        """Lose all that this process sends to the other, for CUT_NS."""
        self._link.sources, self._link.destinations = frozenset((self.node.address,)), frozenset((other.node.address,))
        self._link.until_ns = monotonic_ns() + CUT_NS

    async def delivered(self, *texts: str) -> None:
        """Wait until all of these are in the log."""
        await until(lambda: set(texts) <= set(self.log))

    async def delivered_count(self, count: int) -> None:
        """Wait until the log has so many entries."""
        await until(lambda: len(self.log) >= count)

    def kill(self) -> None:
        driver = self.node._driver
        assert driver is not None
        driver.stop("killed")

    async def close(self) -> None:
        await self.node.close()


class Site(Process):
    """A member of groups. A listener is called at the moment of delivery, so the log has the order between groups."""

    def __init__(self, name: str, faults: tuple[Fault, ...] = (), options: Options = HASTY) -> None:
        super().__init__(name, faults, options)
        self.groups: dict[str, Group] = {}

    async def enter(self, group: Group) -> None:
        self.groups[group.name] = group
        group.listen(self._hear)

    def _hear(self, event: object) -> None:
        if isinstance(event, Batch):
            self.log += [f"{event.group}:{payload.decode()}" for payload in event.payloads]

    async def send(self, group: str, text: str, order: Order = "causal") -> None:
        await self.groups[group].send(text.encode(), order=order)


class Server(Process):
    """A member of services that replies to every message of a client; clients find it at `gateways`, by service."""

    def __init__(self, name: str, faults: tuple[Fault, ...] = ()) -> None:
        super().__init__(name, faults)
        self.gateways: dict[str, Gateway] = {}
        self.services: dict[str, Service] = {}
        self._tasks: list[asyncio.Task[None]] = []

    async def enter(self, group: Group) -> None:
        service = Service(group, snapshot=list, restore=self._restore)
        self.services[group.name] = await service.__aenter__()
        self.gateways[group.name] = await Gateway(service).__aenter__()
        self._tasks.append(asyncio.create_task(self._read(group, service)))

    async def _restore(self, chunks: AsyncIterator[bytes]) -> None:
        async for _ in chunks:
            pass

    async def _read(self, group: Group, service: Service) -> None:
        async for event in service:
            if isinstance(event, ClientMessage):
                self.log.append(f"{group.name}:{event.payload.decode()}")
                await service.reply(event, self.node.process.name.encode() + b" did " + event.payload)

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for gateway in self.gateways.values():
            await gateway.__aexit__(None, None, None)
        for service in self.services.values():
            await service.close()
        await super().close()


async def _join(
    made: Mapping[str, Site] | Mapping[str, Server],
    groups: Mapping[str, str],
    domains: Mapping[str, CausalityDomain] | CausalityDomain | None,
) -> None:
    for process in made.values():
        await process.node.start()
    for group, members in groups.items():
        addresses = {name: made[name].node.address for name in members}
        domain = domains.get(group) if isinstance(domains, Mapping) else domains
        for name in members:
            node = made[name].node
            joined = await node.join(group, members=addresses, policy="primary", domain=domain or CausalityDomain())
            await made[name].enter(joined)


@asynccontextmanager
async def sites(
    groups: Mapping[str, str],
    domains: Mapping[str, CausalityDomain] | CausalityDomain | None = None,
    faults: Faults | None = None,
    options: Options = HASTY,
) -> AsyncIterator[dict[str, Site]]:
    """One process for each letter in `groups`, which names the members of each group."""
    names = sorted(set("".join(groups.values())))
    made = {name: Site(name, (faults or {}).get(name, ()), options) for name in names}
    try:
        await _join(made, groups, domains)
        yield made
    finally:
        await asyncio.gather(*(site.close() for site in made.values()))


@asynccontextmanager
async def servers(services: Mapping[str, str]) -> AsyncIterator[dict[str, Server]]:
    """One server for each letter in `services`, which names the members of each service."""
    made = {name: Server(name) for name in sorted(set("".join(services.values())))}
    try:
        await _join(made, services, None)
        yield made
    finally:
        await asyncio.gather(*(server.close() for server in made.values()))
