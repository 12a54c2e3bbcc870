"""The search for one group: who is to be asked, where this process is reached, and whether it may found the group."""

import logging
from collections.abc import Sequence

from antiphon.runtime.address import WILDCARDS, SocketAddress, join_address, reachable, resolve, split_address
from antiphon.runtime.discovery import Discovery, ListedContacts
from antiphon.runtime.errors import AddressError
from antiphon.runtime.logs import log_event


class Search:
    """What a Discovery has found, in figures and in order."""

    def __init__(self, contacts: Sequence[str] | Discovery, bound: str, family: int) -> None:
        """`bound`: where the socket of this process is bound, in `family`."""
        self.discovery: Discovery = ListedContacts(contacts) if isinstance(contacts, Sequence) else contacts
        self._bound = bound
        self._family = family
        self.own = ""
        """Where the others can reach this process; empty while that is not known."""
        self.others: list[SocketAddress] = []
        self.waits_for = ""
        """What a join that was given up waited for, where the stack knows it."""
        self.is_first = False
        """Whether this process is the one that founds the group if nobody is there."""

    async def look(self) -> None:
        """Ask the discovery. Raises AddressError if listed contacts are all unknown: that will not mend itself."""
        found: dict[str, SocketAddress] = {}
        problem: AddressError | None = None
        for address in await self.discovery.addresses(self._bound):
            try:
                _, where = await resolve(address, self._family)
            except AddressError as error:
                problem = error
            else:
                found[join_address(where)] = where
        is_list = isinstance(self.discovery, ListedContacts)
        if is_list and problem is not None and not found:
            raise problem
        peer = next(iter(found.values()), None)
        if peer is not None:
            self.own = reachable(self._bound, self._family, peer)
        elif split_address(self._bound)[0] not in WILDCARDS:
            self.own = self._bound
        order = list(found) if is_list else sorted(found)
        self.is_first = order[:1] == [self.own]
        self.others = [found[text] for text in order if text != self.own]

    def texts(self) -> tuple[str, ...]:
        """All that was found, this process included if it was named, in figures."""
        others = tuple(join_address(other) for other in self.others)
        return (self.own, *others) if self.is_first or not others else others

    async def look_again(self) -> None:
        """`look`, where nobody waits for the answer. A discovery may be the application's own, and raise anything."""
        try:
            await self.look()
        except Exception as error:
            log_event(logging.WARNING, "contacts_not_found", str(error), error=type(error).__name__)
