"""A directory of groups (isis-1987, 3.6 and 5): processes find groups by name, without being told an address.

    directory = Directory(tools)                    # in a group that everybody knows how to join
    async with tools:
        directory.register(group)                   # by members of other groups
        prices = await directory.join(node, "prices")

Every member of the directory keeps the same table: for each group, which processes offer to let others in, where, and
on which stack. An entry is there from the causal message that registers it until the process takes it back, or is no
longer a member of the directory. The table may be old, as any cached view may (3.6): it names contacts, and a contact
that is no member any more refuses or is silent; `join` asks all that are named, in the order of their registration.

Limits: ENTRIES_MAX groups that one member registers.
"""

import asyncio
from dataclasses import dataclass
from typing import Final

import msgspec

from antiphon import Group, Message, Node, ProcessId, StackName, UsageError, View
from antiphon.toolkit.messages import WireProcess, from_wire, to_wire
from antiphon.toolkit.tools import Tool, Tools

ENTRIES_MAX: Final = 1024


class _GroupOffer(msgspec.Struct, array_like=True, tag="register"):
    group: str
    address: str
    stack: str


class _GroupWithdrawal(msgspec.Struct, array_like=True, tag="withdraw"):
    group: str


_ENCODER: Final = msgspec.msgpack.Encoder()
_DECODER: Final = msgspec.msgpack.Decoder(_GroupOffer | _GroupWithdrawal)
_STATE: Final = msgspec.msgpack.Decoder(dict[str, list[tuple[WireProcess, str, str]]])


@dataclass(frozen=True, slots=True)
class DirectoryEntry:
    """What the directory knows of a group."""

    group: str
    contacts: tuple[str, ...]
    """Addresses, the one that was registered first comes first."""
    registrants: tuple[ProcessId, ...]
    stack: str


class Directory(Tool):
    """One member's copy of the directory."""

    def __init__(self, tools: Tools, name: str = "directory") -> None:
        super().__init__(tools, name)
        self._entries: dict[str, dict[ProcessId, tuple[str, str]]] = {}
        self._registered: dict[str, tuple[str, str]] = {}
        """What this process offers; told again after an exclusion, by its next incarnation."""
        self._changed = asyncio.Event()

    def register(self, group: Group) -> None:
        """Offer to let others into a group that this process is a member of."""
        address = group.view.addresses[group.view.rank(group.process)] if group.view.addresses else ""
        if not address:
            raise UsageError(f"group {group.name!r} has no view with addresses here: register it once it was joined")
        self.offer(group.name, address, group.stack)

    def offer(self, group: str, address: str, stack: str) -> None:
        """Name an address at which others may ask to be let into a group."""
        if group not in self._registered and len(self._registered) >= ENTRIES_MAX:
            raise UsageError(f"this process has registered {ENTRIES_MAX} groups; withdraw some first")
        self._registered[group] = (address, stack)
        if self.tools.is_live:
            self.tools.post(self, _ENCODER.encode(_GroupOffer(group, address, stack)))

    def withdraw(self, group: str) -> None:
        """Take an offer back."""
        if self._registered.pop(group, None) is not None and self.tools.is_live:
            self.tools.post(self, _ENCODER.encode(_GroupWithdrawal(group)))

    def find(self, group: str) -> DirectoryEntry | None:
        """Return what is known of a group now; None: nothing."""
        offers = self._entries.get(group)
        if not offers:
            return None
        contacts = tuple(dict.fromkeys(address for address, _ in offers.values()))
        return DirectoryEntry(group, contacts, tuple(offers), next(iter(offers.values()))[1])

    @property
    def groups(self) -> list[str]:
        """The groups that are known now."""
        return sorted(self._entries)

    async def wait(self, group: str, *, timeout_s: float | None = None) -> DirectoryEntry:
        """Wait until a group is known, and return what is."""
        try:
            async with asyncio.timeout(timeout_s):
                while (entry := self.find(group)) is None:
                    if self.tools.error is not None:
                        raise self.tools.error
                    self._changed.clear()
                    await self._changed.wait()
        except TimeoutError:
            known = ", ".join(self.groups) or "none"
            raise TimeoutError(
                f"nobody has registered group {group!r} within {timeout_s:g} s; known: {known}"
            ) from None
        return entry

    async def join(self, node: Node, group: str, *, timeout_s: float = 30.0) -> Group:
        """Wait until a group is known, and join it."""
        entry = await self.wait(group, timeout_s=timeout_s)
        stack: StackName = entry.stack  # type: ignore[assignment]  # `join` refuses one that there is not
        return await node.join(group, contacts=entry.contacts, stack=stack, timeout_s=timeout_s)

    def take(self, event: Message, payload: bytes) -> None:
        message = _DECODER.decode(payload)
        if isinstance(message, _GroupOffer):
            self._entries.setdefault(message.group, {})[event.sender] = (message.address, message.stack)
        else:
            self._drop(message.group, event.sender)
        self._changed.set()

    def install(self, view: View, gone: tuple[ProcessId, ...]) -> None:
        for group in list(self._entries):
            for process in list(self._entries[group]):
                if process not in view.members:
                    self._drop(group, process)
        self._changed.set()

    def resume(self) -> None:
        """Tell the others what this process offers and they do not know."""
        for group, (address, stack) in self._registered.items():
            if self._entries.get(group, {}).get(self.tools.process) != (address, stack):
                self.tools.post(self, _ENCODER.encode(_GroupOffer(group, address, stack)))

    def end(self, error: Exception) -> None:
        self._changed.set()

    def _drop(self, group: str, process: ProcessId) -> None:
        offers = self._entries.get(group, {})
        offers.pop(process, None)
        if not offers:
            self._entries.pop(group, None)

    def export(self) -> bytes:
        table = {
            group: [(to_wire(process), address, stack) for process, (address, stack) in offers.items()]
            for group, offers in self._entries.items()
        }
        return _ENCODER.encode(table)

    def restore(self, state: bytes) -> None:
        self._entries = {
            group: {from_wire(process): (address, stack) for process, address, stack in offers}
            for group, offers in _STATE.decode(state).items()
        }
        self._changed.set()
