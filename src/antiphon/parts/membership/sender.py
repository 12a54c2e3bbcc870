"""Sending messages about membership: who I am and which view I am in goes onto each."""

from typing import Final, final

from antiphon.kernel.effects import Effects, Route, Transmit
from antiphon.kernel.identity import ProcessId, View
from antiphon.kernel.options import Options
from antiphon.parts.membership.messages import BarrierBody, Life, MembershipMessage, Proposal, RowBody
from antiphon.parts.membership.session import route_to_others
from antiphon.parts.ranges import Ranges

_PADDING_OVERHEAD: Final = 12


@final
class MembershipSender:
    """Sends one process's messages about its membership of one group."""

    __slots__ = (
        "_address",
        "_addresses",
        "_declared",
        "_group_id",
        "_members_before",
        "_options",
        "_others",
        "_process",
        "_stack",
        "view_id",
    )

    def __init__(
        self, stack: int, group_id: int, declared: int, process: ProcessId, address: str, options: Options
    ) -> None:
        self._stack = stack
        self._declared = declared
        """The id of this process's declaration of the group."""
        self._group_id = group_id
        self._process = process
        self._address = address
        self._options = options
        self.view_id = 0
        self._addresses: dict[ProcessId, str] = {}
        """Of the members of this view and of the one before, where they are known."""
        self._members_before: tuple[ProcessId, ...] = ()
        self._others: Route | None = None

    def message(
        self,
        kind: int,
        round: int = 0,
        accepted_round: int = 0,
        accepted: Proposal | None = None,
        holdings: list[Ranges] | None = None,
        about: ProcessId | None = None,
        barriers: list[BarrierBody] | None = None,
        annex: bytes = b"",
        rows: list[RowBody] | None = None,
        heard: list[Life] | None = None,
    ) -> MembershipMessage:
        return MembershipMessage(
            kind,
            self._process,
            self._address,
            self.view_id,
            round=round,
            accepted_round=accepted_round,
            accepted=accepted,
            holdings=holdings,
            about=about,
            barriers=barriers,
            annex=annex,
            rows=rows,
            heard=heard,
            version=self._options.wire_version,
        )

    def encode(self, message: MembershipMessage) -> list[bytes]:
        return message.encode(self._stack, self._group_id, self._declared, self._options.packet_bytes_max)

    def encode_long(self, message: MembershipMessage) -> list[bytes]:
        """Encode a message in a packet of the greatest length, so that its arrival shows that such packets pass."""
        packets = self.encode(message)
        room = self._options.packet_bytes_max - len(packets[0]) - _PADDING_OVERHEAD
        if len(packets) == 1 and room > 0:
            message.rows = [(0, 1, bytes(room))]
            packets = self.encode(message)
        return packets

    def tell(self, to: ProcessId, message: MembershipMessage, effects: Effects, address: str | None = None) -> None:
        self.transmit(to, address, self.encode(message), effects)

    def transmit(self, to: ProcessId | None, address: str | None, packets: list[bytes], effects: Effects) -> None:
        """Send packets to a process, or to whoever is at an address. Without an address, that of the last view."""
        if address is None and to is not None:
            address = self._addresses.get(to)
        effects.transmits.append(
            Transmit(Route(() if to is None else (to,), () if not address else (address,)), packets)
        )

    def multicast(self, message: MembershipMessage, effects: Effects) -> None:
        """Send a message to all other members of the view."""
        assert self._others is not None, "there is no view yet"
        effects.transmits.append(Transmit(self._others, self.encode(message)))

    def begin(self, view: View) -> None:
        """Send as a member of this view from here on; members of the previous view may still need answers."""
        self.view_id = view.id
        self._others = route_to_others(view, view.rank(self._process))
        before = self._addresses
        self._addresses = dict(zip(view.members, view.addresses, strict=False))
        for process in self._members_before:
            if process in before:
                self._addresses.setdefault(process, before[process])
        self._members_before = view.members
