"""What every member remembers of clients and diffusion: a function of what was delivered, so the same at all members,
and part of the state that a joiner is given.

`clients`   of each client, the number of its last message that was delivered; a message that is not newer is a copy
`diffused`  of each member, the number of its last message that was diffused to clients

Limits: CLIENTS_MAX clients, where the one that has been quiet for longest is forgotten (a copy of its last message
would then count as new), and DIFFUSERS_MAX members, those gone for longest first.
"""

from typing import Final

from antiphon import ProcessId
from antiphon.toolkit.messages import from_wire, to_wire
from antiphon.toolkit.transfer import Header

CLIENTS_MAX: Final = 16_384
DIFFUSERS_MAX: Final = 1024


class Tables:
    """The two tables of one member."""

    def __init__(self) -> None:
        self.clients: dict[str, int] = {}
        self.diffused: dict[ProcessId, int] = {}

    def relay(self, client: str, number: int) -> bool:
        """A client's message is delivered; whether it is news, not a copy."""
        if number <= self.clients.get(client, 0):
            return False
        self.clients.pop(client, None)  # to the end: it has been quiet for the shortest time
        self.clients[client] = number
        if len(self.clients) > CLIENTS_MAX:
            del self.clients[next(iter(self.clients))]
        return True

    def diffuse(self, sender: ProcessId, number: int) -> int:
        """A message is diffused; the number of the one that its sender diffused before it, or 0."""
        before = self.diffused.pop(sender, 0)
        self.diffused[sender] = number
        if len(self.diffused) > DIFFUSERS_MAX:
            del self.diffused[next(iter(self.diffused))]
        return before

    def restore(self, header: Header) -> None:
        self.clients = dict(header.clients)
        self.diffused = {from_wire(process): number for process, number in header.diffused}

    def export(self, view_id: int, position: dict[ProcessId, int], lacking: set[ProcessId]) -> Header:
        return Header(
            view_id=view_id,
            position=[(to_wire(process), number) for process, number in position.items()],
            lacking=[to_wire(process) for process in sorted(lacking)],
            clients=list(self.clients.items()),
            diffused=[(to_wire(process), number) for process, number in self.diffused.items()],
        )
