"""A process on the network: one name, one socket, one engine, any number of groups.

    async with antiphon.Node("alice", address="127.0.0.1:7400") as node:
        group = await node.join("quotes", members={"alice": "127.0.0.1:7400", "bob": "127.0.0.1:7401"})
        await group.send(b"IBM 91")
        async for event in group:
            ...

Where the membership may change, join with policy `primary`. A process that comes later names contacts, not members:

        group = await node.join("quotes", contacts=["127.0.0.1:7400"])

A node belongs to the event loop in which it was started; any asyncio loop with `add_reader` will do, uvloop's included,
and the choice is the application's. The options must be the same at all members of a group.
"""

import asyncio
import socket
from collections.abc import Mapping, Sequence
from pathlib import Path
from random import Random
from types import TracebackType
from typing import Final, Self

from antiphon.engine import Engine
from antiphon.faults import Fault
from antiphon.kernel.errors import ClosedError, UsageError
from antiphon.kernel.identity import ProcessId, View
from antiphon.kernel.inputs import Join
from antiphon.kernel.options import Options
from antiphon.runtime.address import SocketAddress, join_address, reachable, resolve, split_address
from antiphon.runtime.clock import Clock
from antiphon.runtime.driver import Driver
from antiphon.runtime.errors import JoinError
from antiphon.runtime.faulty import FaultyTransport
from antiphon.runtime.group import Group
from antiphon.runtime.naming import check_name, parse_process
from antiphon.runtime.tap import HistoryTap
from antiphon.runtime.transport import DATAGRAM_BYTES_MAX, Transport, UdpTransport, bind
from antiphon.stacks.vector.stack import PRIMARY, STATIC

FIRST_VIEW: Final = 1
JOIN_S: Final = 10.0
MIB: Final = 1024 * 1024
FAREWELL_HEARTBEATS: Final = 2
"""Whoever sent what was delivered here last may still be asking whether it arrived: a closing node stays to answer
until so many heartbeats after it."""


class Node:
    """One process, or one life of it: a node that starts again under its old name takes a higher `incarnation`."""

    def __init__(
        self,
        name: str,
        *,
        address: str,
        incarnation: int = 1,
        options: Options | None = None,
        linger_s: float = 5.0,
        queue_messages_max: int = 65_536,
        queue_bytes_max: int = 32 * MIB,
        history: str | Path | None = None,
        run: str = "run",
        faults: Sequence[Fault] = (),
        seed: int | None = None,
    ) -> None:
        """
        address             "host:port" to receive on; port 0 takes any free one
        linger_s            how long `close` waits, at most, until all members have what was sent here, and as long
                            again until those that go on have a view without this process
        queue_messages_max  messages that wait for the application to read them, per group;
        queue_bytes_max     the same in payload bytes. At either limit senders are made to wait
        history             a directory to record into, under the name `run`
        faults              a bad network to put under the socket, for trials; `seed` makes its chances repeatable
        """
        check_name("process", name)
        split_address(address)
        if incarnation < 1:
            raise UsageError(f"incarnations count from 1, so {incarnation} cannot be one")
        if queue_messages_max < 1 or queue_bytes_max < 1:
            raise UsageError("queue_messages_max and queue_bytes_max must be at least 1")
        self.process = ProcessId(name, incarnation)
        self._address = address
        self._options = options or Options()
        self._linger_s = linger_s
        self._queue_messages_max = queue_messages_max
        self._queue_bytes_max = queue_bytes_max
        self._history = history
        self._run = run
        self._faults = faults
        self._random = Random(seed)
        self._family = 0
        self._groups: dict[str, Group] = {}
        self._driver: Driver | None = None
        self._closing = False
        self._closed = asyncio.Event()
        self._settled = False

    async def start(self) -> None:
        """Bind the socket and begin; `async with` does this."""
        if self._driver is not None:
            raise UsageError(
                f"node {self.process.name!r} was started before; make a new one, with a higher incarnation"
            )
        self._family, address = await resolve(self._address, socket.AF_UNSPEC)
        sock = bind(self._family, address)
        self._address = join_address(sock.getsockname())
        clock = Clock()
        try:
            tap = None if self._history is None else HistoryTap(self._history, self._run, self.process)
        except BaseException:
            sock.close()
            raise
        engine = Engine(self.process, Random(self._random.getrandbits(64)), self._options)
        self._driver = Driver(self.process, engine, clock, tap, self._family)
        self._driver.transport = self._make_transport(sock, self._driver)

    def _make_transport(self, sock: socket.socket, driver: Driver) -> Transport:
        transport: Transport = UdpTransport(sock, datagram_bytes_max=DATAGRAM_BYTES_MAX, on_datagrams=driver.receive)
        if self._faults:
            transport = FaultyTransport(transport, source=self._address, faults=self._faults, random=self._random)
        return transport

    async def join(
        self,
        group: str,
        *,
        members: Mapping[str, str] | None = None,
        contacts: Sequence[str] = (),
        policy: str | None = None,
        stack: str = "vector",
        timeout_s: float = JOIN_S,
    ) -> Group:
        """Become a member of `group`: as one of its founders, who name `members`, or later, by asking `contacts`.

        `members` maps the name of each founder, this process included, to its address, in the same order at every
        founder. A name stands for incarnation 1; write "name/2" for the second, and so on. With policy `static`, the
        default, they are the members for good. With `primary` the view changes as members join, leave or fail; a
        founder that is silent from the start is soon taken to have failed.

        `contacts` are addresses of members, at least one of which must answer; the policy is `primary`. Returns when
        this process is in. Raises JoinError if it is not after `timeout_s`, and ExcludedError if the members know this
        incarnation and have given it up: both ask for a new node, with a higher incarnation.
        """
        self._running()
        check_name("group", group)
        self._check_way_in(group, members, contacts, policy)
        if group in self._groups and self._groups[group].is_over:
            raise UsageError(
                f"{self.process} was a member of group {group!r} before; join again as a new incarnation: "
                f"Node({self.process.name!r}, incarnation={self.process.incarnation + 1}, …)"
            )
        if members is None:
            return await self._join_later(group, contacts, stack, timeout_s)
        return await self._found(group, members, policy or STATIC, stack)

    def _check_way_in(
        self, group: str, members: Mapping[str, str] | None, contacts: Sequence[str], policy: str | None
    ) -> None:
        if isinstance(contacts, str):
            raise UsageError(f"contacts are a list of addresses, as in contacts=[{contacts!r}]")
        if (members is None) == (not contacts):
            raise UsageError(f"to join group {group!r}, name either its founding members, or contacts to be let in by")
        if contacts and policy not in (None, PRIMARY):
            raise UsageError(
                f"nobody can be let into a group whose policy is {policy!r}; with contacts it is `primary`"
            )

    async def _found(self, group: str, members: Mapping[str, str], policy: str, stack: str) -> Group:
        addresses = await self._resolve(members)
        if self.process not in addresses:
            raise UsageError(
                f"the members of group {group!r} do not include this process, {self.process}; every member lists all"
            )
        driver = self._running()  # which may have ended while names were looked up
        texts = tuple(join_address(address) for address in addresses.values())
        own = join_address(addresses[self.process])
        member = self._make_group(driver, group, stack, policy)
        view = View(FIRST_VIEW, tuple(addresses), texts)
        driver.join(Join(group=group, view=view, stack=stack, policy=policy, address=own), member, addresses)
        self._groups[group] = member
        return member

    async def _join_later(self, group: str, contacts: Sequence[str], stack: str, timeout_s: float) -> Group:
        resolved = [(await resolve(contact, self._family))[1] for contact in contacts]
        driver = self._running()  # as above
        own = reachable(self._address, self._family, resolved[0])
        asked = tuple(join_address(address) for address in resolved if join_address(address) != own)
        if not asked:
            raise UsageError(f"the contacts for group {group!r} name nobody but this process; name other members")
        member = self._make_group(driver, group, stack, PRIMARY)
        join = Join(group=group, stack=stack, policy=PRIMARY, address=own, contacts=asked)
        driver.join(join, member, {})
        self._groups[group] = member
        try:
            if not await member.enter(timeout_s):
                raise JoinError(group, self.process, asked, timeout_s)
        except BaseException:
            member.abandon()
            raise
        return member

    def _make_group(self, driver: Driver, group: str, stack: str, policy: str) -> Group:
        return Group(
            driver,
            group,
            stack=stack,
            policy=policy,
            options=self._options,
            queue_messages_max=self._queue_messages_max,
            queue_bytes_max=self._queue_bytes_max,
            linger_s=self._linger_s,
        )

    async def _resolve(self, members: Mapping[str, str]) -> dict[ProcessId, SocketAddress]:
        addresses: dict[ProcessId, SocketAddress] = {}
        taken: dict[SocketAddress, ProcessId] = {}
        for text, address in members.items():
            process = parse_process(text)
            _, resolved = await resolve(address, self._family)
            other = taken.setdefault(resolved, process)
            if other != process or process in addresses:
                raise UsageError(f"the members {other} and {process} share a name or the address {address}")
            addresses[process] = resolved
        return addresses

    @property
    def address(self) -> str:
        """Where this node receives; with the port that it was given, if it asked for any."""
        return self._address

    def statistics(self) -> dict[str, int]:
        """Counters of the engine and of the socket, since the start."""
        driver = self._driver
        if driver is None or driver.transport is None:
            raise UsageError(f"node {self.process.name!r} has not been started; use it as `async with`")
        unread = sum(group.unread for group in self._groups.values())
        return driver.engine.statistics() | driver.transport.statistics() | {"messages_unread": unread}

    def _running(self) -> Driver:
        if self._driver is None:
            raise UsageError(f"node {self.process.name!r} has not been started; use it as `async with`")
        if self._driver.error is not None:
            raise self._driver.error
        if self._closing:
            raise ClosedError(f"node {self.process.name!r} was closed")
        return self._driver

    async def close(self, *, quiet: bool = False) -> bool:
        """Close all groups as `Group.close` does, or leave them as `Group.leave` does where the policy is `primary`,
        then leave the network; whether all members have all of mine, and all was left in good order.

        With `quiet` the caller states that the network was whole at the end and that everyone was given the time to
        deliver everything; the history then holds this node to it. It is not recorded if messages were left unread, nor
        if all groups were left: then the history says so, and what comes after is not this node's affair.
        """
        return await self._close(quiet, self._linger_s)

    async def _close(self, quiet: bool, linger_s: float) -> bool:
        driver = self._driver
        if driver is None:
            return True
        if self._closing:
            await self._closed.wait()
            return self._settled
        self._closing = True
        groups = list(self._groups.values())
        why: str | None = "closed"
        try:
            self._settled = all(await asyncio.gather(*(group.wind_up(linger_s) for group in groups)))
            if any(group.policy == STATIC for group in groups):  # who has left a group has done its part there
                await driver.farewell(min(linger_s, FAREWELL_HEARTBEATS * self._options.heartbeat_interval_ns / 1e9))
            unread = sum(group.unread for group in groups)
            if quiet:
                why = f"closed with {unread} messages unread" if unread else None
        finally:
            driver.stop(why)
            try:
                if driver.tap is not None:
                    await asyncio.to_thread(driver.tap.close)
            finally:
                self._closed.set()
        return self._settled

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        # Whoever is being cancelled or interrupted does not want to linger.
        hurried = kind is not None and not issubclass(kind, Exception)
        await self._close(False, 0.0 if hurried else self._linger_s)
