"""An operator's tool: ask members how a group stands, and have it go on without a majority (docs/guide.md).

It is no member. It sends small datagrams to the addresses that it was given, again and again, and takes the first
answer; the word to go on is the name of the group (parts/membership/group.py).
"""

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, cast

from antiphon.kernel.codec import unseal
from antiphon.kernel.errors import AntiphonError, MalformedError, UsageError
from antiphon.kernel.identity import ProcessId, View, wire_id
from antiphon.kernel.options import MILLISECOND_NS
from antiphon.kernel.packet_kinds import MEMBERSHIP
from antiphon.parts.membership import messages
from antiphon.parts.membership.messages import Chunks, MembershipMessage
from antiphon.runtime.address import SocketAddress, join_address, reachable, resolve
from antiphon.runtime.environment import current_environment
from antiphon.runtime.keyring import KeySupply
from antiphon.runtime.seal import Seal
from antiphon.runtime.trust import Trust
from antiphon.stacks.registry import offer

ASK_S: Final = 0.2
SAY_S: Final = 1.0
"""How often members are asked, and told to go on."""
_PACKET_BYTES_MAX: Final = 1400


class RecoveryError(AntiphonError):
    """A group was not recovered."""


@dataclass(frozen=True)
class GroupState:
    """How a group stands, as one of its members sees it."""

    member: ProcessId
    view: View
    is_stalled: bool
    reached: tuple[ProcessId, ...]
    """The members that are not suspected."""

    @property
    def missing(self) -> tuple[ProcessId, ...]:
        return tuple(member for member in self.view.members if member not in self.reached)


class Operator(asyncio.DatagramProtocol):
    """Asks about one group, and takes the answers."""

    def __init__(self, group: str, stack: str, keys: KeySupply | None) -> None:
        loop, machine = asyncio.get_running_loop(), current_environment()
        self._seal = None if keys is None else Seal(keys.keyring, machine.life_bytes, loop.time, self._greet)
        self._transport: asyncio.DatagramTransport | None = None
        self._group = group
        self._stack = offer(stack).number
        self._chunks = Chunks()
        self.answers: asyncio.Queue[GroupState] = asyncio.Queue(100)

    def question(self, address: str, word: str) -> list[bytes]:
        """How does the group stand? With its name as `word`: go on."""
        process = ProcessId("operator", max(1, time.time_ns() // MILLISECOND_NS))
        message = MembershipMessage(messages.RECOVERY, process, address, 0, annex=word.encode())
        return message.encode(self._stack, wire_id(self._group), 0, _PACKET_BYTES_MAX)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.DatagramTransport", transport)

    def send(self, packet: bytes, destination: SocketAddress) -> None:
        """Send one packet of a question."""
        assert self._transport is not None
        self._transport.sendto(packet if self._seal is None else self._seal.seal([packet])[0], destination)

    def _greet(self, greeting: bytes, destination: SocketAddress) -> None:
        assert self._transport is not None
        self._transport.sendto(greeting, destination)

    def datagram_received(self, data: bytes, addr: SocketAddress) -> None:
        for packet in [data] if self._seal is None else self._seal.open([data], [addr]):
            self._take(packet)

    def _take(self, data: bytes) -> None:
        try:
            kind, group_id, _, _, flags, _ = unseal(data)
            message = (
                self._chunks.take(flags, data) if kind == MEMBERSHIP and group_id == wire_id(self._group) else None
            )
        except MalformedError:
            return
        if message is not None and message.kind == messages.RECOVERY_STATE and message.accepted is not None:
            reached = tuple(ProcessId(name, incarnation) for name, incarnation in message.heard)
            state = GroupState(message.sender, message.accepted.view, message.round > 0, reached)
            if not self.answers.full():
                self.answers.put_nowait(state)


async def ask(
    group: str, contacts: Sequence[str], *, stack: str, trust: Trust, word: str = "", timeout_s: float
) -> GroupState:
    """How a group stands; with its name as `word`, how it stands when it has gone on. Raises RecoveryError if nobody
    answers, or it does not go on, within `timeout_s`."""
    where = [await resolve(contact, 0) for contact in contacts]
    family, first = where[0]
    loop = asyncio.get_running_loop()
    own = ("::", 0) if ":" in first[0] else ("0.0.0.0", 0)  # answers come from any of the contacts
    keys = trust.keys("what is asked", first)
    transport, operator = await loop.create_datagram_endpoint(lambda: Operator(group, stack, keys), local_addr=own)
    bound = join_address(transport.get_extra_info("sockname"))
    try:
        async with asyncio.timeout(timeout_s):
            return await _converse(operator, [at for _, at in where], reachable(bound, family, first), word)
    except TimeoutError:
        asked = ", ".join(contacts)
        what = f"group {group!r} has not gone on" if word else f"nobody answered for group {group!r}"
        raise RecoveryError(
            f"{what} within {timeout_s:g} s, by asking {asked}; name members that run, and the stack of the group"
        ) from None
    finally:
        transport.close()


async def _converse(operator: Operator, where: Sequence[SocketAddress], own: str, word: str) -> GroupState:
    """Ask until there is an answer and, where `word` is given, until the group has gone on."""
    said_s = 0.0
    while True:
        now_s = time.monotonic()
        says = bool(word) and now_s >= said_s + SAY_S
        said_s = now_s if says else said_s
        for at in where:
            for packet in operator.question(own, word if says else ""):
                operator.send(packet, at)
        try:
            async with asyncio.timeout(ASK_S):
                while True:
                    state = await operator.answers.get()
                    if not word or not state.is_stalled:
                        return state
        except TimeoutError:
            continue


async def recover(
    group: str,
    contacts: Sequence[str],
    *,
    stack: str,
    confirm: str | None,
    timeout_s: float,
    trust: Trust | None = None,
) -> tuple[GroupState, GroupState]:
    """Have a group go on with the members that can be reached; how it stood before and stands now. Raises UsageError
    where that is not needed, or not confirmed by the name of the group."""
    trust = trust or Trust()
    before = await ask(group, contacts, stack=stack, trust=trust, timeout_s=timeout_s)
    if not before.is_stalled:
        raise UsageError(f"group {group!r} does not stand still: {before.member} is in {before.view}")
    if confirm != group:
        raise UsageError(
            f"group {group!r} stands still in {before.view}: {before.member} reaches {_listed(before.reached)}, not "
            f"{_listed(before.missing)}. If these live on, to go on without them makes two groups of one name. If they "
            f"are gone for good, say so by --confirm {group}"
        )
    after = await ask(group, contacts, stack=stack, trust=trust, word=group, timeout_s=timeout_s)
    return before, after


def _listed(processes: Sequence[ProcessId]) -> str:
    return ", ".join(repr(process) for process in processes) or "nobody"
