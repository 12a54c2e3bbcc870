"""A client of the sequencing service: one address, any set of groups, one ordered stream.

    client = await antiphon.connect("10.0.0.1:7400")
    await client.subscribe("quotes", "news")
    await client.publish("orders", b"buy")             # to any group, subscribed or not
    async for event in client:                          # all groups, in the one order that all clients see
        ...

A client is a node (runtime/node.py) that is in no group but those it has subscribed to, and reads them as one stream.
"""

import asyncio
import socket
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Final, Self, TypedDict, final

from antiphon.kernel.effects import Event, Replayed, ReplayEnded
from antiphon.kernel.errors import ClosedError, UsageError
from antiphon.kernel.identity import ProcessId
from antiphon.kernel.inputs import MAIN, Open, TellAgain
from antiphon.kernel.levels import LEVELS, Order
from antiphon.kernel.options import Options
from antiphon.runtime.address import is_loopback, join_address, resolve
from antiphon.runtime.arguments import check_contacts, check_order_and_label, check_payloads, check_seconds
from antiphon.runtime.driver import Driver
from antiphon.runtime.environment import current_environment
from antiphon.runtime.errors import ConnectError, PositionLostError
from antiphon.runtime.group import Group
from antiphon.runtime.keyring import KeySource
from antiphon.runtime.naming import check_name
from antiphon.runtime.node import JOIN_S, MIB, Node
from antiphon.runtime.outbox import SendMode, measure
from antiphon.runtime.outside import OutsideGroup
from antiphon.runtime.positions import PositionReader, ReadPositions, parse_position
from antiphon.runtime.readers import BatchReader
from antiphon.stacks.registry import StackName, offer, service_stack

CONNECT_S: Final = 10.0
FLUSH_S: Final = 10.0


@final
class ServiceContact:
    """Told when the service is reached."""

    def __init__(self) -> None:
        self.reached = asyncio.Event()
        self.replayed: list[Replayed] = []
        """What was told again and is not in a reader's queue yet…"""
        self.replaying: asyncio.Future[ReplayEnded] | None = None
        """…and who waits for the end of it."""
        self.error: Exception | None = None

    def take(self, event: Event) -> None:
        if isinstance(event, Replayed):
            self.replayed.append(event)
        elif isinstance(event, ReplayEnded):
            if self.replaying is not None and not self.replaying.done():
                self.replaying.set_result(event)
        else:
            self.reached.set()

    def end(self, error: Exception | None) -> None:
        self.error = error
        self.reached.set()
        if self.replaying is not None and not self.replaying.done():
            self.replaying.set_exception(error or ClosedError("the client was closed"))


class Connection:
    """A connection to the sequencing service; made by `connect`."""

    def __init__(self, node: Node, addresses: Sequence[str], stack: StackName) -> None:
        self._node = node
        self._addresses = list(addresses)
        self._stack = stack
        self._offered = offer(stack)
        self._outside: dict[str, OutsideGroup] = {}
        self._refused: dict[str, Exception] = {}
        self._contact = ServiceContact()
        self._reader: PositionReader | None = None
        self._positions = ReadPositions()

    def __repr__(self) -> str:
        return (
            f"<Connection {self.process} to {', '.join(self._addresses)}, groups: {', '.join(self.groups) or 'none'}>"
        )

    @property
    def process(self) -> ProcessId:
        """Who this client is: the sender of what it publishes."""
        return self._node.process

    @property
    def groups(self) -> list[str]:
        """The groups that it has subscribed to."""
        return list(self._node._groups)

    async def subscribe(self, *groups: str, after: Mapping[str, str] | None = None, timeout_s: float = JOIN_S) -> None:
        """Become a member of groups; those that do not exist are created. Returns when this client is in all of them:
        everything that is placed in them from there on comes to it, in one order over all its groups.

        `after` names positions (`position`), for some of the groups: what was published there since comes first, with
        no gap; the position "" stands for all that the service has. Its messages come in their order within each group,
        and over groups as far as one sequencer had them; they are no part of a history. Call it before anything is
        read. Raises PositionLostError if the service does not have all of it (`antiphon sequencer --retain`).

        Raises JoinError, which is a TimeoutError, if the service does not let it in within `timeout_s`; it may be in
        some of the groups then (`groups` tells).
        """
        check_seconds("timeout_s", timeout_s)
        for group in groups:
            check_name("group", group)
            if group in self._node._groups:
                raise UsageError(f"{self.process.name!r} has subscribed to group {group!r} already")
            if groups.count(group) > 1:
                raise UsageError(f"group {group!r} is named twice; name each group once")
        wanted = {group: after[group] for group in groups if group in after} if after else {}
        starts = {group: parse_position(position) for group, position in wanted.items()}
        if starts:
            self._check_unread()
        for group in groups:
            former = self._outside.get(group)
            if former is not None:  # a join says which of its messages have places
                await former.drain(timeout_s)
                former.end(None)
            await self._node.join(group, stack=self._stack, contacts=self._addresses, timeout_s=timeout_s)
        if starts:
            await self._replay(wanted, starts, timeout_s)

    def _check_unread(self) -> None:
        if self._reader is not None:
            raise UsageError("what was published before comes first: subscribe with `after` before anything is read")

    async def _replay(self, after: Mapping[str, str], starts: dict[str, tuple[int, int]], timeout_s: float) -> None:
        """Have what was published since these positions told again, before anything else is read."""
        self._check_unread()
        contact = self._contact
        contact.replayed = []
        contact.replaying = asyncio.get_running_loop().create_future()
        places = {group: start[0] for group, start in starts.items()}
        self._node._running().ask(TellAgain(stack=self._stack, places=places))
        async with asyncio.timeout(timeout_s):
            ended = await contact.replaying
        if ended.lost:
            raise PositionLostError(ended.lost, after[ended.lost], str(ended.first))
        self._positions.replay(contact.replayed, starts)
        contact.replayed = []

    def position(self, group: str) -> str:
        """Up to where this client has read a group: to be kept, and given to `subscribe` by whoever goes on from there,
        a later life of this program perhaps. "" before anything was read. Only of what is read one by one."""
        return self._positions.of(group)

    async def unsubscribe(self, *groups: str, timeout_s: float | None = None) -> bool:
        """Leave groups, in good order; whether all went well (`antiphon.Group.leave`)."""
        members = [self._subscribed(group) for group in groups]
        return all([await member.leave(timeout_s=timeout_s) for member in members])

    async def publish(self, group: str, payload: bytes, *, order: Order = "agreed", label: str | None = None) -> None:
        """Multicast to the members of any group, in it or not.

        Returns when the message is accepted here, at once unless the service cannot keep up; `flush` waits until it has
        its place. What one client publishes, to whatever groups, gets places in the order of its calls.

        A group exists from its first subscription on. What is published to one that does not exist is refused, by a
        PublishError of the next `publish` to it or of `flush`.
        """
        await self.publish_many(group, (payload,), order=order, label=label)

    async def publish_many(
        self, group: str, payloads: Sequence[bytes], *, order: Order = "agreed", label: str | None = None
    ) -> None:
        """`publish` for many, in this order; cheaper than one by one."""
        member = self._node._groups.get(group)
        if member is not None:
            await member.send_many(payloads, order=order, label=label)
            return
        check_payloads(payloads)
        check_order_and_label(self._offered, order, label, outside=True)
        size = measure(payloads, self._node._options.message_bytes_max)
        await self._sender(group).send(payloads, SendMode(LEVELS[order], label=label), size)

    async def flush(self, *, timeout_s: float = FLUSH_S) -> None:
        """Wait until all that was published has its place in the order and, in groups that this client has subscribed
        to, was delivered at every member. Raises TimeoutError, and PublishError for what was refused."""
        check_seconds("timeout_s", timeout_s)
        async with asyncio.timeout(timeout_s):
            await self._node.flush()
            for sender in list(self._outside.values()):
                if not await sender.drain(timeout_s):
                    raise TimeoutError(f"the service has not acknowledged what was published to group {sender.name!r}")
        for group in list(self._refused):
            raise self._refused.pop(group)

    def __aiter__(self) -> PositionReader:
        """Messages and changes of members of all groups, in the one order of the service."""
        if self._reader is None:
            self._reader = PositionReader(self._node.batches(), self._positions)
        return self._reader

    def batches(self) -> BatchReader:
        """The same stream in batches, for those in a hurry."""
        return self._node.batches()

    def statistics(self) -> dict[str, int]:
        """See `antiphon.Node.statistics`."""
        return self._node.statistics()

    async def close(self, *, quiet: bool = False) -> bool:
        """Leave all groups and end the connection; whether all members have what was published here."""
        well = True
        for sender in list(self._outside.values()):
            well = await sender.drain(self._node._linger_s) and not sender.is_closed and well
        return await self._node.close(quiet=quiet) and well

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if kind is None:
            await self.close()
        else:
            await self._node.__aexit__(kind, error, traceback)

    # ---- its parts -------------------------------------------------------------------------------------------------

    def _subscribed(self, group: str) -> Group:
        member = self._node._groups.get(group)
        if member is None:
            raise UsageError(f"{self.process.name!r} has not subscribed to group {group!r}")
        return member

    def _sender(self, group: str) -> OutsideGroup:
        """What sends to a group that this client is not in."""
        if group in self._refused:
            raise self._refused.pop(group)
        sender = self._outside.get(group)
        if sender is None:
            check_name("group", group)
            driver = self._node._running()
            self._meet(driver)
            outbox = self._node._outbox(driver, self._stack, MAIN)
            sender = self._outside[group] = OutsideGroup(driver, group, self._stack, outbox, self._over)
        return sender

    def _over(self, sender: OutsideGroup) -> None:
        del self._outside[sender.name]
        if sender.error is not None and not isinstance(sender.error, UsageError):
            self._refused[sender.name] = sender.error

    def _meet(self, driver: Driver) -> None:
        """Tell the engine where the service is: a new incarnation does not know."""
        driver.ask(Open(stack=self._stack, role=self._offered.client_role, contacts=tuple(self._addresses)))

    async def _open(self, timeout_s: float) -> None:
        """Begin, and wait until the service is reached."""
        await self._node.start()
        contact = self._contact
        driver = self._node._running()
        driver.roles[self._stack] = contact
        self._meet(driver)
        try:
            async with asyncio.timeout(timeout_s):
                await contact.reached.wait()
        except TimeoutError:
            raise ConnectError(self._addresses, timeout_s) from None
        self._node._running()


class ConnectSettings(TypedDict, total=False):
    """The keyword arguments of `connect`, for those who pass them on."""

    name: str | None
    timeout_s: float
    options: Options | None
    queue_messages_max: int
    queue_bytes_max: int
    linger_s: float
    rejoin: bool
    history: str | Path | None
    run: str
    keyring: KeySource | None
    insecure: bool


async def connect(
    address: str | Sequence[str],
    *,
    name: str | None = None,
    timeout_s: float = CONNECT_S,
    options: Options | None = None,
    queue_messages_max: int = 65_536,
    queue_bytes_max: int = 32 * MIB,
    linger_s: float = 5.0,
    rejoin: bool = False,
    history: str | Path | None = None,
    run: str = "run",
    keyring: KeySource | None = None,
    insecure: bool = False,
) -> Connection:
    """Connect to the sequencing service at `address`, "host:port" of one of its peers, or several.

    `name` is who the client is to others; a random one if none is given. The other settings are those of
    `antiphon.Node`. Raises ConnectError, which is a TimeoutError, if no peer answers within `timeout_s`.
    """
    addresses = [address] if isinstance(address, str) else list(address)
    if not addresses:
        raise UsageError('name the address of a peer of the service: await antiphon.connect("host:port")')
    check_contacts(addresses)
    check_seconds("timeout_s", timeout_s)
    found = [await resolve(one, socket.AF_UNSPEC) for one in addresses]
    family, first = found[0]
    any_host, loopback = ("[::]", "[::1]") if family == socket.AF_INET6 else ("0.0.0.0", "127.0.0.1")
    if name is None:
        name = f"client-{current_environment().random().getrandbits(48):012x}"
    node = Node(
        name,
        address=f"{loopback if is_loopback(first) else any_host}:0",
        options=options,
        linger_s=linger_s,
        queue_messages_max=queue_messages_max,
        queue_bytes_max=queue_bytes_max,
        rejoin=rejoin,
        history=history,
        run=run,
        keyring=keyring,
        insecure=insecure,
    )
    client = Connection(node, [join_address(where) for _, where in found], service_stack())
    try:
        await client._open(timeout_s)
    except BaseException:
        await node._close(False, 0.0)
        raise
    return client
