"""Where the members of one group are reached.

The table follows the views. Those of the view before are kept one view longer, because they may still have to be
answered. What a view says about addresses came over the network: one that is not written in figures is left out, and
what should go there is lost, like any packet.

To the engine an address is a text without meaning. Whoever is outside asks one address, CONTACTS, to be let in; here it
stands for everybody who may know the group, which may change while the process asks.
"""

from collections.abc import Sequence
from typing import Final

from antiphon.kernel.identity import ProcessId, View
from antiphon.runtime.address import SocketAddress, numeric

CONTACTS: Final = "contacts"
CONTACTS_MAX: Final = 1000


class AddressBook:
    """The addresses of one group's members; `others` are those of the view but for the process itself."""

    def __init__(
        self,
        process: ProcessId,
        family: int,
        addresses: dict[ProcessId, SocketAddress],
        contacts: Sequence[SocketAddress] = (),
    ) -> None:
        self._process = process
        self._family = family
        self._before: dict[ProcessId, SocketAddress] = {}
        self._now = addresses
        self.contacts: list[SocketAddress] = []
        self.meet(contacts)
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

    def meet(self, contacts: Sequence[SocketAddress]) -> None:
        """Ask these too, when there is something to ask; of too many, those that came last."""
        met = dict.fromkeys([*self.contacts, *contacts])
        self.contacts = list(met)[-CONTACTS_MAX:]

    def find(self, destination: ProcessId | None, address: str | None) -> list[SocketAddress]:
        """Where to send what is meant for `destination` (None: all others), at `address` if one is given."""
        if destination is None and address == CONTACTS:  # but no stranger has its answer sent to all of them
            return self.contacts
        if address is not None:
            where = numeric(address, self._family)
        elif destination is None:
            return self.others
        else:
            where = self._now.get(destination) or self._before.get(destination)
        return [] if where is None else [where]

    def _list_others(self) -> None:
        self.others = [address for member, address in self._now.items() if member != self._process]
