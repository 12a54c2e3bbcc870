"""Where the packets of one node go.

To the engine an address is a text without meaning. What views and strangers say about addresses came over the network:
one that is not written in figures is left out, and what should go there is lost, like any packet.

Whoever is outside a group asks one address to be let in, `contacts_of(group)`; here it stands for everybody who may
know the group, which may change while the process asks.
"""

from collections.abc import Sequence
from typing import Final, cast

from antiphon.kernel.effects import Route
from antiphon.kernel.identity import ProcessId, View
from antiphon.runtime.address import SocketAddress, numeric

CONTACTS_MAX: Final = 1000
_CONTACTS: Final = "contacts of "


def contacts_of(group: str) -> str:
    """The address that stands for everybody who may know the group."""
    return _CONTACTS + group


class AddressBook:
    """What the addresses of one node's routes stand for."""

    def __init__(self, family: int) -> None:
        self._family = family
        self._contacts: dict[str, list[SocketAddress]] = {}
        self._views: dict[str, View] = {}

    def join(self, group: str, contacts: Sequence[SocketAddress]) -> None:
        """A group is being joined by asking these; whoever was asked before is asked no more."""
        self._contacts[group] = []
        self.meet(group, contacts)

    def install(self, group: str, view: View) -> None:
        """A group has a new view."""
        self._views[group] = view

    def forget(self, group: str) -> None:
        """A group is over."""
        self._views.pop(group, None)
        self._contacts.pop(group, None)

    def meet(self, group: str, contacts: Sequence[SocketAddress]) -> None:
        """Ask these too, when there is something to ask; of too many, those that came last."""
        met = dict.fromkeys([*self.contacts(group), *contacts])
        self._contacts[group] = list(met)[-CONTACTS_MAX:]

    def contacts(self, group: str) -> list[SocketAddress]:
        """Who may know the group."""
        return self._contacts.get(group, [])

    def others(self, group: str, process: ProcessId) -> list[SocketAddress]:
        """Where the members of the group's last view are, but for this process."""
        view = self._views.get(group)
        if view is None:
            return []
        return self._in_figures(
            [text for member, text in zip(view.members, view.addresses, strict=False) if member != process]
        )

    def find(self, route: Route) -> list[SocketAddress]:
        """Where to send what goes by this route."""
        if route.resolved is not None:
            return cast(list[SocketAddress], route.resolved)
        if not route.processes and route.addresses and route.addresses[0].startswith(_CONTACTS):
            # But no stranger, who may call itself so, has its answer sent to all of them.
            return self.contacts(route.addresses[0].removeprefix(_CONTACTS))
        found = self._in_figures(route.addresses)
        route.resolved = found
        return found

    def _in_figures(self, texts: Sequence[str]) -> list[SocketAddress]:
        return [address for address in [numeric(text, self._family) for text in texts] if address is not None]
