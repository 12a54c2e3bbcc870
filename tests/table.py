"""Engines on a table: packets lie in the open and arrive when the test says so.

    table = Table(3)
    table.send(0, b"a")            # packets for 1 and 2 now lie on the table
    table.pass_on(0, 1)            # everything from 0 to 1 arrives
    table.log[1]                   # what 1 has delivered: ["p1#1"]

With several groups, `groups` tells who founds which, by index, and the log tells the group: ["a:p1#1"]. Point-to-point
messages stand in the log as "private p1#1", barriers as "barrier p1#1"; `story` has the views too, as "2: p1 p3".

Where the groups of a stack live at a service, as its offers say, the table has one more engine, `service`, which takes
that role; members enter by naming it, one after the other, before the constructor returns. Frames of links lie on the
table beside the packets (`streams`).
"""

from collections.abc import Mapping
from random import Random

from antiphon.engine import Engine
from antiphon.kernel.causality_domain import CausalityDomain
from antiphon.kernel.codec import unseal
from antiphon.kernel.effects import NEVER, BarrierReached, Delivered, Effects, Event, Installed, Writable
from antiphon.kernel.identity import ProcessId, View, wire_id
from antiphon.kernel.inputs import MAIN, Input, Join, Open, Receive, Send, SendBarrier, Tick
from antiphon.kernel.levels import CAUSAL
from antiphon.kernel.options import MILLISECOND_NS, Options
from antiphon.kernel.outcomes import CallOutcome
from antiphon.kernel.packet_kinds import ADD, DATA
from antiphon.kernel.policies import STATIC
from antiphon.stacks.registry import offer
from tests.table_links import TableLinks

GROUP = "g"
SERVICE = "service"
Groups = Mapping[str, tuple[int, ...]]
"""Who founds which group, by index."""


class Table:
    """Engines named p1, p2…, in one group or several; time stands still until `wait`."""

    def __init__(
        self,
        members: int,
        options: Options | None = None,
        policy: str = "",
        groups: Groups | None = None,
        domains: Mapping[str, CausalityDomain] | None = None,
        stack: str = "vector",
    ) -> None:
        self.offers = offer(stack)
        self.names = [f"p{number}" for number in range(1, members + 1)]
        self.founders: Groups = groups or {GROUP: tuple(range(members))}
        self.now_ns = 0
        self.links: dict[tuple[int, int], list[bytes]] = {}
        self.streams = TableLinks(self._step_named)
        self._cuts: set[tuple[int, int, str]] = set()
        self._lost_kinds: dict[tuple[int, int], tuple[int, ...]] = {}
        self.gone: set[int] = set()
        self.log: list[list[str]] = [[] for _ in range(members)]
        self.story: list[list[str]] = [[] for _ in range(members)]
        self.payloads: list[list[bytes]] = [[] for _ in range(members)]
        self._policy = policy or (STATIC if STATIC in self.offers.policies else self.offers.policies[0])
        self._stack = stack
        self._domains = domains or {}
        if self.offers.service_role:
            self.names.append(SERVICE)
        self.processes = [ProcessId(name) for name in self.names]
        self.events: list[list[Event]] = [[] for _ in self.names]
        self.views: list[dict[str, View]] = [{} for _ in self.names]
        self.deadline_ns = [NEVER] * len(self.names)
        self.engines = [Engine(process, Random(0), options or Options()) for process in self.processes]
        if self.offers.service_role:
            self._enter_all()
            first, ranks = next(iter(self.founders.items()))
            self.view = self.views[ranks[0]][first]
            return
        for group, ranks in self.founders.items():
            for member in ranks:
                self._join(member, group, self.first_view(group), ())
        self.view = self.first_view(next(iter(self.founders)))

    def _enter_all(self) -> None:
        """Have a service take its role and the members of each group enter, one after the other."""
        service = self.names.index(SERVICE)
        self.step(service, Open(stack=self._stack, role=self.offers.service_role))
        for group, ranks in self.founders.items():
            for count, member in enumerate(ranks, 1):
                self.come(member, group, service)
                self.play(5)
                assert all(len(self.views[rank][group].members) == count for rank in ranks[:count])

    def first_view(self, group: str) -> View:
        ranks = self.founders[group]
        return View(1, tuple(self.processes[rank] for rank in ranks), tuple(self.names[rank] for rank in ranks))

    def _join(self, member: int, group: str, view: View | None, contacts: tuple[str, ...]) -> None:
        self._ask(member, group, view, contacts, self._policy, self._domains.get(group, MAIN))

    def _ask(
        self,
        member: int,
        group: str,
        view: View | None,
        contacts: tuple[str, ...],
        policy: str,
        domain: CausalityDomain,
    ) -> None:
        name = self.names[member]
        join = Join(
            group=group,
            view=view,
            stack=self._stack,
            policy=policy,
            address=name,
            contacts=contacts,
            domain=domain,
        )
        self.step(member, join)

    def come(self, member: int, group: str, contact: int) -> None:
        """Ask to be let in."""
        self._join(member, group, None, (self.names[contact],))

    def found(self, member: int, group: str, policy: str = "", domain: CausalityDomain = MAIN) -> None:
        """Make a group of one member; at the service, where groups live at one."""
        served = bool(self.offers.service_role)
        view = None if served else View(1, (self.processes[member],), (self.names[member],))
        self._ask(member, group, view, (SERVICE,) if served else (), policy or self._policy, domain)

    def isolate(self, member: int) -> None:
        """From here on nothing comes from there and nothing goes there; `mend` ends it."""
        for other in range(len(self.names)):
            self.cut(member, other)
            self.cut(other, member)
        self.streams.unreachable.add(self.names[member])
        self.streams.cut(self.names[member])

    def crash(self, *members: int) -> None:
        """These are gone; packets that they have sent are still on their way."""
        self.gone.update(members)
        for member in members:
            self.streams.cut(self.names[member])

    def cut(self, source: int, destination: int, group: str = "") -> None:
        """From here on everything on this link is lost; or everything of one group."""
        self._cuts.add((source, destination, group))

    def lose_kinds(self, source: int, destination: int, kinds: tuple[int, ...]) -> None:
        """From here on all packets of these kinds on this link are lost."""
        self._lost_kinds[source, destination] = kinds

    def mend(self) -> None:
        """All links work again."""
        self._cuts.clear()
        self.streams.unreachable.clear()
        self._lost_kinds.clear()

    # ---- steps -----------------------------------------------------------------------------------------------------

    def _step_named(self, name: str, input: Input | CallOutcome) -> None:
        if self.names.index(name) not in self.gone:
            self.step(self.names.index(name), input)

    def step(self, member: int, input: Input | CallOutcome) -> Effects:
        effects = self.engines[member].step(input, self.now_ns)
        self.deadline_ns[member] = effects.deadline_ns
        for event in effects.events:
            self._observe(member, event)
        self.streams.carry_out(self.names[member], effects.calls or ())
        for transmit in effects.transmits:
            for name in transmit.route.names():
                link = (member, self.names.index(name)) if name in self.names else (member, member)
                if link[1] != member and (*link, "") not in self._cuts:
                    self.links.setdefault(link, []).extend(self._uncut(link, transmit.packets))
        return effects

    def _uncut(self, link: tuple[int, int], packets: list[bytes]) -> list[bytes]:
        """Those of these packets whose group is not cut off on the link, and whose kind is not."""
        if link in self._lost_kinds:
            packets = [packet for packet in packets if unseal(packet)[0] not in self._lost_kinds[link]]
        cut = {wire_id(group) for source, destination, group in self._cuts if (source, destination) == link}
        return [packet for packet in packets if unseal(packet)[1] not in cut] if cut else packets

    def _observe(self, member: int, event: Event) -> None:
        self.events[member].append(event)
        if self.names[member] == SERVICE:
            return
        where = "" if len(self.founders) == 1 else f"{event.group}:"
        entries: list[str] = []
        if isinstance(event, Delivered):
            assert event.size == sum(map(len, event.payloads))
            what = f"{'private ' if event.private else ''}{event.sender.name}"
            entries = [f"{where}{what}#{event.number + i}" for i in range(len(event.payloads))]
            self.payloads[member] += event.payloads
        elif isinstance(event, BarrierReached):
            entries = [f"{where}barrier {event.sender.name}#{event.number}"]
        elif isinstance(event, Installed):
            self.views[member][event.group] = event.view
            names = " ".join(process.name for process in event.view.members)
            self.story[member].append(f"{where}{event.view.id}: {names}")
        self.log[member] += entries
        self.story[member] += entries

    def send(
        self,
        member: int,
        *payloads: bytes,
        level: int = CAUSAL,
        group: str = GROUP,
        to: int | tuple[int, ...] | None = None,
    ) -> Effects:
        named = () if to is None else (to,) if isinstance(to, int) else to
        destinations = tuple(self.processes[place] for place in named)
        return self.step(member, Send(group=group, payloads=list(payloads), level=level, destinations=destinations))

    def barrier(self, member: int, payload: bytes = b"", group: str = GROUP) -> Effects:
        return self.step(member, SendBarrier(group=group, payload=payload))

    # ---- packets ---------------------------------------------------------------------------------------------------

    def take(self, source: int, destination: int, group: str | None = None) -> list[bytes]:
        """Take everything off a link, or everything of one group."""
        packets = self.links.pop((source, destination), [])
        if group is None:
            return packets
        rest = [packet for packet in packets if unseal(packet)[1] != wire_id(group)]
        if rest:
            self.links[source, destination] = rest
        return [packet for packet in packets if unseal(packet)[1] == wire_id(group)]

    def take_data(self, source: int, destination: int, group: str | None = None) -> list[bytes]:
        """Take everything off a link, and keep the data packets only."""
        return [packet for packet in self.take(source, destination, group) if unseal(packet)[0] in (DATA, ADD)]

    def arrive(self, destination: int, *packets: bytes) -> Effects:
        return self.step(destination, Receive(list(packets)))

    def pass_on(self, source: int, destination: int, group: str | None = None) -> None:
        """Everything that lies on a link arrives, in order; or everything of one group."""
        for packet in self.take(source, destination, group):
            if destination not in self.gone:
                self.arrive(destination, packet)

    def pass_all(self) -> None:
        """Everything that lies on the table now arrives; what that causes does not yet."""
        waiting = self.links
        self.links = {}
        for (_, destination), packets in waiting.items():
            for packet in packets:
                if destination not in self.gone:
                    self.arrive(destination, packet)
        self.streams.pass_all()

    def pass_some(self, random: Random, count: int) -> None:
        """A bad network: so often, a packet of a link drawn at random arrives, some of them late, twice or not at all.
        Of streams, whose frames do neither, a frame arrives, or the stream breaks."""
        for _ in range(count):
            links = [link for link, packets in self.links.items() if packets]
            streams = self.streams.under_way()
            chance = random.random()
            if links:
                source, destination = random.choice(links)
                packets = self.links[source, destination]
                if chance < 0.1:
                    packets.pop(0)
                elif chance < 0.2:
                    self.arrive(destination, packets[0])
                else:
                    self.arrive(destination, packets.pop(random.randrange(min(3, len(packets)))))
            elif streams:
                link, to_client = random.choice(streams)
                if chance < 0.05:
                    self.streams.cut(link.client)
                else:
                    self.streams.pass_on(link, to_client, 1)
            else:
                self.wait(5 * MILLISECOND_NS)

    def drop_all(self) -> None:
        self.links.clear()

    # ---- time ------------------------------------------------------------------------------------------------------

    def wait(self, duration_ns: int) -> None:
        """Time passes; timers fire; what they send lies on the table."""
        end_ns = self.now_ns + duration_ns
        while True:
            due_ns = min(self.deadline_ns[member] for member in self._living())
            if due_ns > end_ns:
                break
            self.now_ns = max(self.now_ns, due_ns)
            for member in self._living():
                if self.deadline_ns[member] <= self.now_ns:
                    self.step(member, Tick())
        self.now_ns = end_ns

    def _living(self) -> list[int]:
        return [member for member in range(len(self.engines)) if member not in self.gone]

    def settle(self, rounds: int = 40) -> None:
        """Let everything arrive and every timer fire, until nothing moves or the rounds are over."""
        for _ in range(rounds):
            self.pass_all()
            if self._is_quiet():
                return
            self.wait(20 * MILLISECOND_NS)

    def _is_quiet(self) -> bool:
        under_way = self.links or self.streams.under_way()
        return not under_way and not any(self.outstanding(member) for member in self._living())

    def play(self, milliseconds: int) -> None:
        """A calm network, for so long: everything arrives within a millisecond."""
        for _ in range(milliseconds):
            self.pass_all()
            self.wait(MILLISECOND_NS)

    # ---- looking ---------------------------------------------------------------------------------------------------

    def outstanding(self, member: int) -> int:
        return sum(self.engines[member].outstanding(group) for group in self.views[member])

    def statistics(self, member: int) -> dict[str, int]:
        return self.engines[member].statistics()

    def writable(self, member: int) -> bool:
        return any(isinstance(event, Writable) for event in self.events[member])
