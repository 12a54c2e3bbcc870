"""Finding those who may know a group: where `contacts` are not a list of addresses but something that finds them.

A Discovery is asked again and again while its process is outside the group, and what it finds is asked to be let in.
It need not be right: an address where nobody answers costs a small datagram now and then. It must not raise for what
is wrong outside (no file yet, a name that is not known yet): then it has found nothing so far.

    FileDiscovery("members.txt")          one address per line; what comes after # does not count
    NameDiscovery("members.example:7400") all addresses of a name, IPv4 and IPv6
    BeaconDiscovery()                     whoever announces itself by UDP multicast (runtime/discovery_beacon.py)

Cold start. When nobody is a member yet, somebody has to begin: the *first* contact does. With a list that is the one
that stands first, with a Discovery the one whose address sorts first of all that were found. It asks the others like
everybody; if it is not let in for `found_after_s`, it founds the group, alone, and lets the others in. All others only
ever ask.

Limits: while the first contact is down, nobody founds; and if it starts anew while it cannot reach the members (a
partition, or discovery that does not see them), it founds a second group of the same name, which will not merge with
the first. So list as first a process that is seldom restarted, and let `found_after_s` be longer than any view change.
"""

import asyncio
import logging
import socket
from collections.abc import Sequence
from pathlib import Path
from typing import Final, Protocol

from antiphon.runtime.address import join_address, split_address
from antiphon.runtime.errors import AddressError
from antiphon.runtime.logs import log_event

ADDRESSES_MAX: Final = 1000
"""More addresses than this are not asked; which ones, is left open."""
FILE_BYTES_MAX: Final = 256 * 1024
LOOK_S: Final = 0.5
"""While a process is outside, how often it looks for new contacts."""


class Discovery(Protocol):
    """Finds addresses ("host:port") where members, or processes that want to be, may be reached."""

    async def addresses(self, own: str) -> Sequence[str]:
        """What is known now; `own` is the address of the process that asks, which may be among them."""

    def close(self) -> None:
        """Let go of everything; called when the node closes."""


class FileDiscovery:
    """A file with one address per line, read anew each time. It may appear, and change, at any time."""

    def __init__(self, file: str | Path) -> None:
        self._file = Path(file)
        self._bad = ""

    def __repr__(self) -> str:
        return f"FileDiscovery({str(self._file)!r})"

    async def addresses(self, own: str) -> Sequence[str]:
        try:
            text = await asyncio.to_thread(self._read)
        except OSError:
            return ()
        found: list[str] = []
        for line in text.splitlines():
            address = line.partition("#")[0].strip()
            if address and self._is_good(address):
                found.append(address)
        return found[:ADDRESSES_MAX]

    def _read(self) -> str:
        with self._file.open("rb") as file:
            return file.read(FILE_BYTES_MAX).decode(errors="replace")

    def _is_good(self, address: str) -> bool:
        try:
            split_address(address)
        except AddressError as error:
            if address != self._bad:
                self._bad = address  # said once, not twice a second
                log_event(logging.WARNING, "contact_unusable", str(error), file=str(self._file))
            return False
        return True

    def close(self) -> None:
        """Nothing is held."""


class NameDiscovery:
    """All addresses that the resolver knows for a host, each with the same port, as in "members.example:7400"."""

    def __init__(self, address: str) -> None:
        self._host, self._port = split_address(address)

    def __repr__(self) -> str:
        return f"NameDiscovery('{self._host}:{self._port}')"

    async def addresses(self, own: str) -> Sequence[str]:
        loop = asyncio.get_running_loop()
        try:
            found = await loop.getaddrinfo(self._host, self._port, type=socket.SOCK_DGRAM)
        except (OSError, UnicodeError):
            return ()
        texts = [join_address(where) for _, _, _, _, where in found]  # type: ignore[arg-type]  # IP has no other kind
        return list(dict.fromkeys(texts))[:ADDRESSES_MAX]

    def close(self) -> None:
        """Nothing is held."""


class ListedContacts:
    """Addresses given once. Those that are names are looked up each time."""

    def __init__(self, listed: Sequence[str]) -> None:
        for address in listed:
            split_address(address)
        self.listed = tuple(listed)

    async def addresses(self, own: str) -> Sequence[str]:
        return self.listed

    def close(self) -> None:
        """Nothing is held."""
