"""Two domains of two on real sockets, linked over TCP on loopback."""

import asyncio

import antiphon
from antiphon.domain import CommunicationDomain, DomainMessage
from tests.runtime.cluster import run, until


async def read(everywhere: CommunicationDomain, got: list[tuple[str, bytes]]) -> None:
    async for event in everywhere:
        if isinstance(event, DomainMessage):
            got.append((event.domain, event.payload))


def test_two_domains_over_real_links() -> None:
    async def test() -> None:
        nodes = {
            name: antiphon.Node(name, incarnation=1, address="127.0.0.1:0", seed=seed, options=antiphon.Options.fast())
            for seed, name in enumerate(("a1", "a2", "b1", "b2"))
        }
        for node in nodes.values():
            await node.start()
        linked: dict[str, CommunicationDomain] = {}
        got: dict[str, list[tuple[str, bytes]]] = {name: [] for name in nodes}
        tasks = []
        try:
            for domain in "ab":
                members = {name: node.address for name, node in nodes.items() if name[0] == domain}
                groups = await asyncio.gather(
                    *(nodes[name].join(domain, members=members, stack="domain") for name in members)
                )
                for name, group in zip(members, groups, strict=True):
                    listen = "127.0.0.1:0" if name == "a1" else None
                    links = {"a": [linked["a1"].address]} if name == "b1" else None
                    linked[name] = CommunicationDomain(group, domain, ("a", "b"), listen=listen, links=links)
                    await linked[name].__aenter__()
                    tasks.append(asyncio.create_task(read(linked[name], got[name])))
            await linked["a2"].send(b"here", order="causal")
            await linked["a2"].send(b"one", to=["b"], order="agreed")
            await linked["b2"].send(b"two", to=["a"], order="safe")
            await linked["a1"].send(b"three", to=["b"], order="causal")
            await until(lambda: all(len(own) == 3 + (name[0] == "a") for name, own in got.items()))
            orders = [[each for each in own if each[1] in (b"one", b"two")] for own in got.values()]
            assert all(order == orders[0] for order in orders)
            assert linked["a1"].link_bytes > 0
        finally:
            for task in tasks:
                task.cancel()
            for one in linked.values():
                await one.__aexit__(None, None, None)
            await asyncio.gather(*(node.close() for node in nodes.values()))

    run(test)
