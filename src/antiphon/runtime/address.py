"""Addresses as people write them ("10.0.0.2:7400", "[::1]:7400", "host.example:7400") and as sockets want them."""

import asyncio
import socket
from functools import lru_cache
from ipaddress import ip_address
from typing import Final

from antiphon.runtime.environment import current_environment
from antiphon.runtime.errors import AddressError

SocketAddress = tuple[str, int] | tuple[str, int, int, int]
"""What sendto takes: IPv4 or IPv6."""
WILDCARDS: Final = ("0.0.0.0", "::")
"""Bound to one of these, a socket receives on every address of its machine."""
KEPT_MAX: Final = 4096
"""Of so many addresses in figures the socket addresses are kept."""


def split_address(address: str) -> tuple[str, int]:
    """Host and port of "host:port"; an IPv6 host stands in brackets."""
    if not isinstance(address, str):
        raise AddressError(str(address), 'write it as "host:port"')
    host, colon, port = address.rpartition(":")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host:
        raise AddressError(address, 'an IPv6 host stands in brackets, as in "[::1]:7400"')
    if not colon or not host:
        raise AddressError(address, 'write it as "host:port"')
    if not (port.isascii() and port.isdecimal()) or int(port) > 65535:
        raise AddressError(address, f"the port {port!r} is not a number from 0 to 65535")
    return host, int(port)


def join_address(address: SocketAddress) -> str:
    """The inverse of `split_address`."""
    host, port = address[0], address[1]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def numeric(address: str, family: int) -> SocketAddress | None:
    """The socket address that `address` writes in figures; None for names, nonsense and other families.

    What others say about addresses is taken by this alone: it looks nothing up, so it neither waits nor raises. The
    answers last asked for are kept, since many packets go by routes of their own, but not those that name an
    interface ("fe80::1%eth0"): its number changes when it is made anew.
    """
    return _kept_numeric(address, family) if "%" not in address else _numeric(address, family)


def _numeric(address: str, family: int) -> SocketAddress | None:
    try:
        host, port = split_address(address)
        flags = socket.AI_NUMERICHOST | socket.AI_NUMERICSERV
        found = socket.getaddrinfo(host, port, family=family, type=socket.SOCK_DGRAM, flags=flags)
    except (AddressError, OSError, ValueError):
        return None
    where: SocketAddress = found[0][4]  # type: ignore[assignment]  # datagrams over IP have no other kind
    return where


_kept_numeric = lru_cache(maxsize=KEPT_MAX)(_numeric)


def is_loopback(address: SocketAddress) -> bool:
    """Whether only processes of this machine can be reached from there."""
    return ip_address(address[0].partition("%")[0]).is_loopback


def reachable(bound: str, family: int, peer: SocketAddress) -> str:
    """Where `peer` can reach a socket that is bound to `bound`: if that is every address of this machine, then the one
    from which packets to `peer` leave."""
    host, port = split_address(bound)
    if host not in WILDCARDS:
        return bound
    with current_environment().datagram_socket(family) as probe:
        try:
            probe.connect(peer)  # of a datagram socket: sends nothing
        except OSError as error:
            raise AddressError(join_address(peer), f"there is no way to it from here ({error})") from error
        return join_address((probe.getsockname()[0], port))


async def resolve(address: str, family: int) -> tuple[int, SocketAddress]:
    """Family and socket address of `address`, the first that the resolver knows in `family` (AF_UNSPEC: in any)."""
    host, port = split_address(address)
    loop = asyncio.get_running_loop()
    try:
        found = await loop.getaddrinfo(host, port, family=family, type=socket.SOCK_DGRAM)
    except (OSError, UnicodeError) as error:
        raise AddressError(address, f"the host {host!r} is not known here ({error})") from error
    where: SocketAddress = found[0][4]  # type: ignore[assignment]  # datagrams over IP have no other kind
    return found[0][0], where
