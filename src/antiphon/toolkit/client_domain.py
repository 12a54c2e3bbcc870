"""Causal order over several services, for the clients in one program (isis-1991 6.7 and 7.1).

    domain = ClientDomain()
    async with Client("orders", …, domain=domain) as orders, Client("stock", …, domain=domain) as stock:
        await orders.send(b"buy 5")
        await stock.send(b"reserve 5")          # a process in both groups delivers the order first

The rule is the paper's conservative one: before a client sends to one service, the applications of all members of the
other services of the domain are done with all that the program has sent there or received from there (`Client.sync`).
So no vector times of one service travel to another.

Why it is safe. Let m be a message in service a that the program sent or received before it sends m' to service b. A
process in both groups is done with m when the `sync` with a returns, and m' is multicast after that. A chain that
leads on from m' follows it in causal order within b, or is continued by members, whose order between groups the
causality domain of the groups keeps.
Why it is live. One client sends at a time (a lock), and a `sync` waits only for the group that it asks. If a service
cannot be reached any more, sends to the others raise its GatewayError, since the order cannot be kept.

What is not ordered: messages that the program *receives* from two services come over two connections and are handed
over as they arrive.
"""

import asyncio
from typing import Protocol


class DomainClient(Protocol):
    """What the domain needs of a client."""

    async def settle(self) -> None:
        """Return when all that was sent or received through this client is at all members."""


class ClientDomain:
    """The clients of one program that are kept in causal order with each other."""

    def __init__(self) -> None:
        self.turn = asyncio.Lock()
        """Held by the client that sends."""
        self._clients: list[DomainClient] = []

    def __repr__(self) -> str:
        return f"<ClientDomain of {len(self._clients)} clients>"

    def add(self, client: DomainClient) -> None:
        """Keep `client` in order with the others from now on."""
        self._clients.append(client)

    def remove(self, client: DomainClient) -> None:
        """Forget `client`, which is being closed."""
        self._clients.remove(client)

    async def settle_others(self, client: DomainClient) -> None:
        """Return when all that was sent or received through the other clients is at all members there."""
        await asyncio.gather(*(other.settle() for other in self._clients if other is not client))
