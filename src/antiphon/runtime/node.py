"""A process on the network: one name, one socket, one engine, any number of groups.

    async with antiphon.Node("alice", address="127.0.0.1:7400") as node:
        group = await node.join("quotes", members={"alice": "127.0.0.1:7400", "bob": "127.0.0.1:7401"})
        await group.send(b"IBM 91")
        async for event in group:
            ...

A process that comes later names contacts, not members:

        group = await node.join("quotes", contacts=["127.0.0.1:7400"])

Or let all name the same contacts: the first of them founds the group if nobody is there (runtime/discovery.py).

A node belongs to the event loop in which it was started; any asyncio loop with `add_reader` will do, uvloop's included,
and the choice is the application's. The options must be the same at all members of a group.
"""

import asyncio
import socket
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from random import Random
from types import TracebackType
from typing import Final, Self

from antiphon.engine import Engine
from antiphon.faults import Fault
from antiphon.kernel.calls import OUTSIDE_BYTES_MAX
from antiphon.kernel.causality_domain import CausalityDomain
from antiphon.kernel.errors import ClosedError, UsageError
from antiphon.kernel.identity import ProcessId
from antiphon.kernel.inputs import MAIN, Open, Reach
from antiphon.kernel.levels import Order
from antiphon.kernel.options import MILLISECOND_NS, Options
from antiphon.kernel.policies import PARTITIONABLE, PRIMARY, STATIC, Policy
from antiphon.runtime.address import is_loopback, join_address, resolve, split_address
from antiphon.runtime.arguments import (
    Destinations,
    check_contacts,
    check_count,
    check_destinations,
    check_faults,
    check_incarnation,
    check_kind,
    check_options,
    check_seconds,
    check_way_in,
)
from antiphon.runtime.certificates import JOIN_RIGHT, SEND_RIGHT
from antiphon.runtime.clock import Clock
from antiphon.runtime.devices import NodeDevices
from antiphon.runtime.discovery import Discovery
from antiphon.runtime.discovery_beacon import BeaconDiscovery
from antiphon.runtime.driver import Driver
from antiphon.runtime.environment import current_environment
from antiphon.runtime.errors import IdentityError, JoinError
from antiphon.runtime.faulty import FaultyTransport
from antiphon.runtime.group import Group
from antiphon.runtime.group_events import NO_VIEW
from antiphon.runtime.identified_transport import IdentifiedTransport
from antiphon.runtime.identity import IdentitySource, IdentitySupply
from antiphon.runtime.joining import Joining
from antiphon.runtime.keyring import KeySource, KeySupply
from antiphon.runtime.lives import ReturningDriver
from antiphon.runtime.memory import keep_memory
from antiphon.runtime.multicast import check_multicast
from antiphon.runtime.naming import check_name
from antiphon.runtime.node_streams import NodeStreams
from antiphon.runtime.outbox import Outbox
from antiphon.runtime.outside import OutsideGroup, ReachedGroup
from antiphon.runtime.readers import BatchReader, MessageReader
from antiphon.runtime.sealed_transport import SealedTransport
from antiphon.runtime.tap import HistoryTap, record
from antiphon.runtime.transport import Transport, bind
from antiphon.runtime.transport_choice import AnySealed, make_transport
from antiphon.runtime.trust import Trust
from antiphon.stacks.registry import DEFAULT, StackName, offer

JOIN_S: Final = 10.0
FOUND_AFTER_S: Final = 5.0
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
        incarnation: int | None = None,
        multicast: str | None = None,
        options: Options | None = None,
        linger_s: float = 5.0,
        queue_messages_max: int = 65_536,
        queue_bytes_max: int = 32 * MIB,
        history: str | Path | None = None,
        run: str = "run",
        rejoin: bool = False,
        faults: Sequence[Fault] = (),
        seed: int | None = None,
        storage: str | Path | None = None,
        keyring: KeySource | None = None,
        identity: IdentitySource | None = None,
        insecure: bool = False,
        poll_s: float = 0.0,
    ) -> None:
        """
        address             "host:port" to receive on; port 0 takes any free one
        keyring             a file of keys that all processes of the cluster have (`antiphon key new FILE`): everything
                            that leaves is sealed, and nothing else is taken (docs/security.md). Without one, a node
                            starts on a loopback address only…
        identity            in place of a keyring, a file with the key and the certificate of this process (`antiphon ca
                            issue NAME`): then all others know it by its name, nobody else can speak in that name, and
                            it may do what its role allows (docs/security.md). All processes of a group have one
        insecure            …or if this is true: then anybody who reaches the network can read and forge
        incarnation         which life of the process this is, higher than those before; if none is given, the time of
                            this call in milliseconds
        multicast           an IPv4 multicast address, "239.255.74.1:7401" say, that all members were given: where the
                            network carries it, what is for all leaves once instead of once for each; where it does
                            not, nothing changes (runtime/multicast.py)
        options             limits and rhythms, the same at all members of a group; if none are given, Options(), or
                            Options.local() where the address is one of loopback
        linger_s            how long `close` waits, at most, until all members have what was sent here, and as long
                            again until those that go on have a view without this process
        queue_messages_max  messages that wait for the application, per group, or in all groups read as one stream;
        queue_bytes_max     the same in payload bytes. At either limit senders are made to wait
        history             a directory to record into, under the name `run`
        rejoin              come back by itself, as the next incarnation, when the others went on without this process.
                            The application then reads Excluded, and next the ViewChange of its return. Not unless asked
                            for: what was delivered in between is missed, so a program that keeps a state must
                            fetch it anew at that point, and one that is not prepared for it had better end
        storage             a directory for what stacks write to disk, so that a process comes back on its own
        poll_s              look for datagrams so long after the last one before going to sleep (docs/performance.md)
        faults              a bad network to put under the socket, for trials; `seed` makes its chances repeatable
        """
        check_name("process", name)
        split_address(address)
        if multicast is not None:
            check_multicast(multicast)
        self._is_from_clock = incarnation is None
        """The incarnation: nobody else knows it before this process has been heard."""
        if incarnation is None:
            incarnation = max(1, current_environment().time_ns() // MILLISECOND_NS)
        check_incarnation(incarnation)
        check_options(options)
        check_seconds("linger_s", linger_s)
        check_seconds("poll_s", poll_s)
        check_count("queue_messages_max", queue_messages_max, 1)
        check_count("queue_bytes_max", queue_bytes_max, 1)
        check_faults(faults)
        self.process = ProcessId(name, incarnation)
        self._address = address
        self._multicast = multicast
        self._options = options or Options()
        self._takes_local_options = options is None
        self._linger_s, self._poll_s = linger_s, poll_s
        self._queue_messages_max = queue_messages_max
        self._queue_bytes_max = queue_bytes_max
        self._history = history
        self._run = run
        self._rejoin = rejoin
        self._faults = faults
        self._storage = storage
        self._identity = None if identity is None else IdentitySupply(identity, name)
        if self._identity is not None:
            if keyring is not None or insecure:
                raise IdentityError("a node has an identity, or a keyring, or is insecure; name one of them")
            if multicast is not None:
                raise IdentityError("packets between identities are sealed for one receiver each: use no multicast")
            keyring = self._identity.identity.entry
        self.trust = Trust(keyring, insecure)
        """For servers and connections of the same process (`antiphon.start_server`, `antiphon.open_connection`)."""
        self._keys: KeySupply | None = None
        self._transport: IdentifiedTransport | None = None
        """Where this node has an identity."""
        self._seed = seed
        self._random = Random(seed)
        self._family = 0
        self._joining = Joining(self._running, self._make_group)
        self._all_left_well = True
        """Of the groups that are over: everybody had all of ours, and we left in good order."""
        self._outboxes: dict[str, Outbox] = {}
        """The send queue of each causality domain."""
        self._reached: dict[str, ReachedGroup] = {}
        """Groups that this process sends to and is not in."""
        self._driver: Driver | None = None
        self._streams: NodeStreams | None = None
        self._closing = False
        self._closed = asyncio.Event()
        self._settled = False

    def __repr__(self) -> str:
        state = "not started" if self._driver is None else "closed" if self._closing else "running"
        return f"<Node {self.process} at {self._address}, {state}, groups: {', '.join(self._groups) or 'none'}>"

    @property
    def _groups(self) -> dict[str, Group]:
        """The groups that this process is in, or asks to be let into."""
        return self._joining.groups

    async def start(self) -> None:
        """Bind the socket and begin; `async with` does this."""
        if self._driver is not None:
            raise UsageError(
                f"node {self.process.name!r} was started before; make a new one, with a higher incarnation"
            )
        machine = current_environment()
        if self._seed is None:
            self._random = machine.random()
        if self._history is None:
            self._history = machine.history
        self._family, address = await resolve(self._address, socket.AF_UNSPEC)
        self._keys = self.trust.keys(f"node {self.process.name!r}", address)
        is_local = self._takes_local_options and is_loopback(address)
        self._options = replace(Options.local() if is_local else self._options, sealed=self._keys is not None)
        keep_memory()
        sock = bind(self._family, address)
        self._address = join_address(sock.getsockname())
        self._joining.start(self._address, self._family)
        try:
            self._begin(sock)
        except BaseException:
            sock.close()
            self._driver = None
            raise

    def _begin(self, sock: socket.socket) -> None:
        """Put a driver on the socket."""
        if self._identity is not None:
            self._transport = IdentifiedTransport(self._identity, self._receive_from)
        engine, tap = self._make_life()
        next_life = self._next_life if self._rejoin else None
        self._driver = ReturningDriver(self.process, engine, Clock(), tap, self._family, next_life)
        self._streams = NodeStreams(
            self._driver,
            self.process.name,
            self._queue_messages_max,
            self._queue_bytes_max,
            recorded=self._history is not None,
        )
        self._driver.trust = self.trust
        self._driver.on_stop = self._streams.end
        self._driver.identities = self._transport
        self._driver.transport = self._make_transport(sock, self._driver)
        storage = None if self._storage is None else Path(self._storage)
        self._driver.devices = NodeDevices(
            self._driver.process, self._address, storage, self._driver.step, self._driver.fail, self._keys
        )

    def _make_tap(self) -> HistoryTap | None:
        if self._history is None:
            return None
        return record(self._history, self._run, self.process, self._options.record_digests)

    def _make_life(self) -> tuple[Engine, HistoryTap | None]:
        tap = self._make_tap()
        return self._make_engine(), tap

    def _make_engine(self) -> Engine:
        credentials = None if self._transport is None else self._transport.credentials
        return Engine(self.process, Random(self._random.getrandbits(64)), self._options, credentials)

    def _next_life(self) -> tuple[ProcessId, Engine, HistoryTap | None]:
        self.process = ProcessId(self.process.name, self.process.incarnation + 1)
        self._joining.begin_life()
        engine, tap = self._make_life()
        return self.process, engine, tap

    def _receive_from(self, packets: list[bytes], authors: list[str]) -> None:
        assert self._driver is not None
        self._driver.receive_from(packets, authors)

    def _make_transport(self, sock: socket.socket, driver: Driver) -> Transport:
        sealed: AnySealed | None = self._transport
        if sealed is None:
            sealed = None if self._keys is None else SealedTransport(self._keys, driver.receive)
        unicast, transport = make_transport(sock, self._address, self._multicast, driver.receive, sealed, self._poll_s)
        if self._faults:
            transport = FaultyTransport(transport, source=self._address, faults=self._faults, random=self._random)
        if sealed is None:
            return transport
        sealed.unicast = unicast
        sealed.below = transport
        return sealed

    async def join(
        self,
        group: str,
        *,
        members: Mapping[str, str] | None = None,
        contacts: Sequence[str] | Discovery = (),
        policy: Policy | None = None,
        stack: StackName = DEFAULT,
        domain: CausalityDomain = MAIN,
        timeout_s: float = JOIN_S,
        found_after_s: float = FOUND_AFTER_S,
    ) -> Group:
        """Become a member of `group`: as one of its founders, who name `members`, or later, by asking `contacts`.

        `members` maps the name of each founder, this process included, to its address, in the same order at every
        founder. Founders learn each other's incarnations first: the one that is listed first founds the group when it
        has heard all others, or after `found_after_s` with a majority, and lets in those that come later; while it is
        down nobody founds. A founder that is restarted joins the group again by the same call. Where the node's
        incarnation was given, all founders' are: a name stands for incarnation 1, "name/2" for the second; then each
        founder begins at once, and one that is silent is soon taken to have failed.

        With policy `primary`, the default, the view changes as members join, leave or fail. With `static` the founders
        are the members for good: one that crashes is waited for, and nobody can leave. Groups of one `domain` are in
        causal order with each other, by its rule; see `antiphon.CausalityDomain`. All members declare it alike: whoever
        does not is refused with a DeclarationError.

        With `partitionable`, on the stacks that offer it, this process begins in a view of its own, and views that hear
        of each other merge: `members` or `contacts` tell whom to look for, and nobody is waited for.

        With `sites`, on the stacks that offer it, this process is attached to a site (`serve`), whose address is the
        one contact. If the site fails this process has failed, too; it can be attached to one site only.

        `contacts` are addresses of members, or something that finds them (runtime/discovery.py); the policy is
        `primary` or `partitionable`. With `primary` at least one must answer. If none does for `found_after_s`, the
        first contact founds the group. On a stack whose groups live at a service (`serve`), contacts are addresses of
        that; nobody else founds groups.
        Returns when this process is in. Raises JoinError, which is a TimeoutError, if it is not after `timeout_s`, and
        ExcludedError if the members know this incarnation and have given it up: that asks for a new node, with a
        higher incarnation; with `rejoin` a higher one is tried at once. A group that was left can be joined again.
        """
        self._running()
        check_name("group", group)
        check_kind(stack, policy, domain)
        check_seconds("timeout_s", timeout_s)
        check_seconds("found_after_s", found_after_s)
        if self._identity is not None:
            self._identity.demand(JOIN_RIGHT, f"join group {group!r}")
        check_way_in(group, members, contacts, policy)
        if isinstance(contacts, BeaconDiscovery):
            contacts.seal_by(self._keys)
        if policy == PARTITIONABLE:
            return await self._joining.begin_alone(group, members, contacts, policy, stack, domain)
        if members is None:
            way = PRIMARY if policy is None else policy
            return await self._joining.ask(group, contacts, way, stack, domain, timeout_s, found_after_s)
        policy = PRIMARY if policy is None else policy
        if self._is_from_clock and len(members) > 1:
            return await self._joining.meet(group, members, policy, stack, domain, timeout_s, found_after_s)
        if self._is_from_clock and list(members) == [self.process.name]:
            members = {self.process.full: members[self.process.name]}
        return await self._joining.found(group, members, policy, stack, domain)

    def serve(self, stack: StackName, *, peers: Sequence[str] = (), clusters: Sequence[Sequence[str]] = ()) -> None:
        """Hold groups for others, on a stack whose groups live at a service: be a peer of the sequencing service, say.

        Others join such groups by naming this node's address as a contact; so may this node itself. Lasts until the
        node is closed. `peers` are the addresses, in figures, of other nodes that serve together with this one; each
        names all the others. Raises UsageError where members hold groups themselves.

        On a stack that has the policy `sites` (docs/stacks.md), be a site: processes of this host are attached to it,
        and join groups with that policy, naming this node's address as their contact. `peers` are the other sites of
        this cluster, `clusters` those of each other one.
        """
        others = tuple([tuple(cluster) for cluster in clusters])
        check_contacts([*peers, *[address for cluster in others for address in cluster]])
        role = offer(stack).service_role or offer(stack).site_role
        if not role or (clusters and not offer(stack).site_role):
            raise UsageError(f"on stack {stack!r} members hold their groups themselves, or there are no clusters")
        self._running().ask(Open(stack=stack, role=role, address=self._address, contacts=tuple(peers), clusters=others))

    async def reach(
        self, group: str, *, contacts: Sequence[str], stack: StackName = DEFAULT, timeout_s: float = JOIN_S
    ) -> ReachedGroup:
        """Learn who the members of `group` are, so as to send to it without being in it (isis-1987, 3.6).

        `contacts` are addresses of members. The group has the policy `primary`, and is on a stack that
        takes messages from outside by way of its members; docs/stacks.md says which do. A process that is or was a
        member cannot, in the same life. Raises JoinError, which is a TimeoutError, if no member answers in time.
        """
        driver = self._running()
        check_name("group", group)
        check_kind(stack, None, MAIN)
        check_contacts(contacts)
        check_seconds("timeout_s", timeout_s)
        if not offer(stack).open_groups:
            raise UsageError(f"on stack {stack!r} members take no messages from outside; join group {group!r}")
        if group in self._groups:
            raise UsageError(f"{driver.process} is a member of group {group!r} already")
        found = [await resolve(contact, self._family) for contact in contacts]
        where = tuple(join_address(address) for _, address in found)
        driver.ask(Reach(stack=stack, group=group, address=self._address, contacts=where))
        sender = OutsideGroup(driver, group, stack, Outbox(driver), self._unreach)
        bytes_max = min(self._options.message_bytes_max, OUTSIDE_BYTES_MAX)
        reached = ReachedGroup(driver, sender, stack, bytes_max)
        try:
            async with asyncio.timeout(timeout_s):
                await sender.reached.wait()
        except TimeoutError:
            reached._abandon()
            raise JoinError(group, driver.process, list(contacts), timeout_s) from None
        if sender.error is not None:
            raise sender.error
        self._reached[group] = reached
        return reached

    def _unreach(self, sender: OutsideGroup) -> None:
        self._reached.pop(sender.name, None)

    async def send(
        self,
        payload: bytes,
        *,
        to: str | Destinations,
        order: Order = "causal",
        label: str | None = None,
    ) -> None:
        """Send to a group by its name, or to processes: those of one group that this node is in or has reached.

        A group that was joined gets it as `Group.send` does, one that was reached as `ReachedGroup.send`. Processes are
        looked for in the views that this node knows, first in those of its own groups; they must all be in one of
        them, since no order, and no "all or none", holds over several.
        """
        self._running()
        known: list[Group | ReachedGroup] = [*self._groups.values(), *self._reached.values()]
        if isinstance(to, str):
            for group in known:
                if group.name == to:
                    await group.send(payload, order=order, label=label)
                    return
            raise UsageError(f"this node is not in group {to!r} and has not reached it; `join` or `reach` it first")
        processes = check_destinations(to, True)
        for group in known:
            if all(group.view.rank(process) >= 0 for process in processes):
                await group.send(payload, order=order, to=processes, label=label)
                return
        raise UsageError(f"no group that this node is in, or has reached, has all of these as members: {processes}")

    def _make_group(self, driver: Driver, group: str, stack: str, policy: str, domain: CausalityDomain) -> Group:
        if group in self._joining.groups:  # the engine would refuse it, too late for the stream of the one that is here
            raise UsageError(f"{driver.process} is a member of group {group!r} already")
        made = Group(
            driver,
            group,
            stack=stack,
            policy=policy,
            domain=domain,
            options=self._options,
            linger_s=self._linger_s,
            outbox=self._outbox(driver, stack, domain),
            streams=self._started_streams(),
            on_over=self._forget,
        )
        if self._identity is not None:
            made._lane.error = made._forbidden = self._identity.lacks(SEND_RIGHT, f"send to group {group!r}")
        return made

    def _forget(self, group: Group) -> None:
        """A group is over: nothing is kept for it, and it can be joined again."""
        self._joining.forget(group)
        if group.view is not NO_VIEW:
            self._all_left_well = self._all_left_well and group._left_well

    def _outbox(self, driver: Driver, stack: str, domain: CausalityDomain) -> Outbox:
        """The send queue of a new group: its causality domain's, or its own if it is in order with no other group."""
        if not offer(stack).crosses_groups:
            return Outbox(driver)
        outbox = self._outboxes.get(domain.name)
        if outbox is None:
            outbox = self._outboxes[domain.name] = Outbox(driver)
        return outbox

    async def flush(self, domain: str = MAIN.name, *, k: int = 0) -> None:
        """Do `Group.flush` for all groups of a causality domain at once.

        Between domains no order is kept. Who flushes one domain before it sends in another has its messages there
        delivered after all that came before the flush (isis-1991, section 7.3).
        """
        driver = self._running()
        check_count("k", k, 0)
        groups = [group for group in self._groups.values() if group.domain.name == domain and not group.is_over]
        for group in groups:
            await group._drain()
        await driver.flush([group.name for group in groups], k)

    def __aiter__(self) -> MessageReader:
        """Read the events of all groups as one stream, in the order of delivery: `async for event in node`.

        Each event names its group. This is how a program sees the order between groups: with one reader per group, a
        slow one may be handed a question after another was handed its answer. A group can be joined at any time; it
        comes in with its first ViewChange. Groups of a node that is read this way have no readers of their own.
        """
        return MessageReader(self._started_streams().read_node())

    def batches(self) -> BatchReader:
        """The same stream in batches, for those in a hurry."""
        return BatchReader(self._started_streams().read_node())

    def _started_streams(self) -> NodeStreams:
        if self._streams is None:
            raise UsageError(f"node {self.process.name!r} has not been started; use it as `async with`")
        return self._streams

    @property
    def address(self) -> str:
        """Where this node receives; with the port that it was given, if it asked for any."""
        return self._address

    def statistics(self) -> dict[str, int]:
        """Counters of the engine, since this incarnation began, and of the socket, since the start; messages that wait
        to be read, and sends that the engine refused."""
        driver = self._driver
        if driver is None or driver.transport is None:
            raise UsageError(f"node {self.process.name!r} has not been started; use it as `async with`")
        unread = sum(group.unread for group in self._groups.values())
        own = {
            "messages_unread": unread,
            "sends_refused": driver.sends_refused,
            "messages_forbidden": driver.messages_forbidden,
        }
        return driver.engine.statistics() | driver.transport.statistics() | own

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
        self._joining.close()
        groups = list(self._groups.values())
        why: str | None = "closed"
        try:
            well = await asyncio.gather(*(group._wind_up(linger_s) for group in groups))
            well += await asyncio.gather(*(reached.close(timeout_s=linger_s) for reached in self._reached.values()))
            await driver.retire(linger_s)
            self._settled = all(well) and self._all_left_well
            if any(group.policy == STATIC for group in groups):  # who has left a group has done its part there
                await driver.farewell(min(linger_s, FAREWELL_HEARTBEATS * self._options.heartbeat_interval_ns / 1e9))
            unread = sum(group.unread for group in groups)
            if quiet:
                why = f"closed with {unread} messages unread" if unread else None
        finally:
            driver.stop(why)
            try:
                if driver.devices is not None:
                    await driver.devices.close()
                await driver.close_logs()
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
