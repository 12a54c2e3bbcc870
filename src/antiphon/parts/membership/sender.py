"""Sending messages about membership: who I am and which view I am in goes onto each."""

from typing import final

from antiphon.kernel.effects import Effects, Transmit
from antiphon.kernel.identity import ProcessId
from antiphon.kernel.options import Options
from antiphon.parts.membership.messages import BarrierBody, Life, MembershipMessage, Proposal, RowBody
from antiphon.parts.ranges import Ranges


@final
class MembershipSender:
    """The outgoing side of one process's membership of one group."""

    __slots__ = ("_address", "_group", "_group_id", "_options", "_process", "_stack", "view_id")

    def __init__(
        self, stack: int, group: str, group_id: int, process: ProcessId, address: str, options: Options
    ) -> None:
        self._stack = stack
        self._group = group
        self._group_id = group_id
        self._process = process
        self._address = address
        self._options = options
        self.view_id = 0

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
        )

    def encode(self, message: MembershipMessage) -> list[bytes]:
        return message.encode(self._stack, self._group_id, self._options.packet_bytes_max)

    def tell(self, to: ProcessId, message: MembershipMessage, effects: Effects, address: str | None = None) -> None:
        self.transmit(to, address, self.encode(message), effects)

    def transmit(self, to: ProcessId | None, address: str | None, packets: list[bytes], effects: Effects) -> None:
        effects.transmits.append(Transmit(self._group, to, packets, address))
