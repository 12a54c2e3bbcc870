"""Where the members of one group are reached.

The table follows the views. Those of the view before are kept one view longer, because they may still have to be
answered. What a view says about addresses came over the network: one that is not written in figures is left out, and
what should go there is lost, like any packet.
"""

from antiphon.kernel.identity import ProcessId, View
from antiphon.runtime.address import SocketAddress, numeric


class AddressBook:
    """The addresses of one group's members; `others` are those of the view but for the process itself."""

    def __init__(self, process: ProcessId, family: int, addresses: dict[ProcessId, SocketAddress]) -> None:
        self._process = process
        self._family = family
        self._before: dict[ProcessId, SocketAddress] = {}
        self._now = addresses
        self.others: list[SocketAddress] = []
        self._list_others()

    def install(self, view: View) -> None:
        """The group has a new view; one that names no addresses changes nothing."""
        if not view.addresses:
            return
        self._before = self._now
        self._now = {}
        for member, text in zip(view.members, view.addresses, strict=True):
            address = numeric(text, self._family)
            if address is not None:
                self._now[member] = address
        self._list_others()

    def find(self, destination: ProcessId | None, address: str | None) -> list[SocketAddress]:
        """Where to send what is meant for `destination` (None: all others), at `address` if one is given."""
        if address is not None:
            where = numeric(address, self._family)
        elif destination is None:
            return self.others
        else:
            where = self._now.get(destination) or self._before.get(destination)
        return [] if where is None else [where]

    def _list_others(self) -> None:
        self.others = [address for member, address in self._now.items() if member != self._process]
