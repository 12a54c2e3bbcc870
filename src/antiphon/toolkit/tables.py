"""Tables about clients that every member keeps: they depend only on what was delivered, so they are the same at all
members, and they are part of the state that a joiner fetches.

`clients`   client → number of its last message that was delivered; a message with that number or a lower one is a copy
`diffused`  member → number of its last message for clients

Limits: CLIENTS_MAX clients, of which the one that has been quiet for longest is forgotten first (a copy of its last
message would then count as new), and DIFFUSERS_MAX members, likewise.
"""

from typing import Final

from antiphon import ProcessId
from antiphon.toolkit.messages import from_wire, to_wire
from antiphon.toolkit.transfer import Header

CLIENTS_MAX: Final = 16_384
DIFFUSERS_MAX: Final = 1024


class Tables:
    """The two tables, at one member."""

    def __init__(self) -> None:
        self.clients: dict[str, int] = {}
        self.diffused: dict[ProcessId, int] = {}

    def relay(self, client: str, number: int) -> bool:
        """Note the delivery of a client's message; return whether it is new, not a copy."""
        if number <= self.clients.get(client, 0):
            return False
        self.clients.pop(client, None)  # moves to the end, as the most recent one
        self.clients[client] = number
        if len(self.clients) > CLIENTS_MAX:
            del self.clients[next(iter(self.clients))]
        return True

    def diffuse(self, sender: ProcessId, number: int) -> int:
        """Note a message for clients; return the number of its sender's previous one, or 0."""
        before = self.diffused.pop(sender, 0)
        self.diffused[sender] = number
        if len(self.diffused) > DIFFUSERS_MAX:
            del self.diffused[next(iter(self.diffused))]
        return before

    def restore(self, header: Header) -> None:
        """Take over the tables of a snapshot."""
        self.clients = dict(header.clients)
        self.diffused = {from_wire(process): number for process, number in header.diffused}

    def export(self, view_id: int, position: dict[ProcessId, int], lacking: set[ProcessId]) -> Header:
        """Return the header of a snapshot that is taken here."""
        return Header(
            view_id=view_id,
            position=[(to_wire(process), number) for process, number in position.items()],
            lacking=[to_wire(process) for process in sorted(lacking)],
            clients=list(self.clients.items()),
            diffused=[(to_wire(process), number) for process, number in self.diffused.items()],
        )
