"""The sockets of a node: one for unicast and, where the node has a multicast address, one beside it."""

import socket
from collections.abc import Callable

from antiphon.runtime.identified_transport import IdentifiedTransport
from antiphon.runtime.multicast import MulticastTransport
from antiphon.runtime.sealed_transport import SealedTransport
from antiphon.runtime.transport import DATAGRAM_BYTES_MAX, Transport, UdpTransport

AnySealed = SealedTransport | IdentifiedTransport


def make_transport(
    sock: socket.socket,
    address: str,
    multicast: str | None,
    receive: Callable[[list[bytes]], None],
    sealed: AnySealed | None,
    poll_s: float = 0.0,
) -> tuple[UdpTransport, Transport]:
    """The unicast socket, which polls for `poll_s`, and the way down to both. What comes in goes through `sealed`, if
    there is one."""
    unicast = UdpTransport(
        sock,
        datagram_bytes_max=DATAGRAM_BYTES_MAX,
        on_datagrams=receive if sealed is None else sealed.receive,
        poll_s=poll_s,
    )
    if multicast is None:
        return unicast, unicast
    try:
        both = MulticastTransport(
            unicast,
            own=address,
            multicast=multicast,
            datagram_bytes_max=DATAGRAM_BYTES_MAX,
            on_datagrams=receive,
            seal=sealed.seal if isinstance(sealed, SealedTransport) else None,
        )
    except BaseException:
        unicast.close()
        raise
    return unicast, both
