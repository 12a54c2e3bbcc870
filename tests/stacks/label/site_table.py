"""Sites and the processes that are attached to them, on a table: packets between sites, and links, lie in the open.

    table = SiteTable(3, 2)                    # sites s1 to s3; p1 and p2 are at s1, p3 and p4 at s2, …
    table.tell(0, CAUSAL)                      # p1 sends
    table.crash(table.site_of(0))              # s1 dies, and with it p1 and p2

Processes come first among the members of the table, then sites. Whoever carries out a chosen effect dies instead: a
packet to one site is an effect, and so are the frames that one end of a link sends at once.
"""

from collections.abc import Collection, Iterator
from dataclasses import replace
from random import Random

from antiphon.engine import Engine
from antiphon.kernel.calls import Dial, Frames, Hang, Listen, accepted_link
from antiphon.kernel.codec import unseal
from antiphon.kernel.effects import NEVER, Effects, Ended, Event, Sent
from antiphon.kernel.identity import ProcessId, View
from antiphon.kernel.inputs import Input, Join, Open, Send, SendBarrier
from antiphon.kernel.levels import SAFE
from antiphon.kernel.outcomes import LinkDown, LinkFrames, LinkUp
from antiphon.kernel.packet_kinds import DATA
from antiphon.stacks.label.session import LabelSession
from antiphon.stacks.label.site import Site
from antiphon.stacks.label.stack import LabelStack
from tests.stacks.label.scene import (
    LabelTable,
    Stories,
    _causal,
    _labelled,
    _once_and_all,
    _total,
    _views,
    has_majority,
    quick_options,
)
from tests.table import GROUP
from tests.table_links import TableLinks


class SiteLink:
    """The link of one process to its site."""

    def __init__(self, process: int, site: int, dialled: int, accepted: int) -> None:
        self.ends = (process, site)
        self.ids = (dialled, accepted)
        self.is_up = False
        self.under_way: dict[int, list[bytes]] = {process: [], site: []}
        """By who is to get them."""
        self.is_broken = False


class SiteTable(LabelTable):
    """Sites with so many processes each, all in one group."""

    def __init__(
        self,
        sites: int,
        processes: int,
        crash_at: Collection[int] = (),
        lazy_us: int = 0,
        pending_bytes_max: int = 4_000_000,
    ) -> None:
        self.per_site = processes
        self.count = sites * processes
        self.effect = 0
        self.crash_at: frozenset[int] = frozenset()
        self.labels = {}
        self.queues = {}
        names = [f"p{number}" for number in range(1, self.count + 1)]
        self.sites = [f"s{number}" for number in range(1, sites + 1)]
        self.names = [*names, *self.sites]
        self.processes = [ProcessId(name) for name in self.names]
        self.wanted = [[] for _ in self.names]
        self.founders = {GROUP: tuple(range(self.count))}
        self.now_ns = 0
        self.links = {}
        self.streams = TableLinks(self._step_named)
        self._cuts = set()
        self._lost_kinds = {}
        self.gone = set()
        self.log = [[] for _ in self.names]
        self.story = [[] for _ in self.names]
        self.payloads = [[] for _ in self.names]
        self.events: list[list[Event]] = [[] for _ in self.names]
        self.deadline_ns = [NEVER for _ in self.names]
        self.views: list[dict[str, View]] = [{} for _ in self.names]
        self.options = replace(quick_options(lazy_us), pending_bytes_max=pending_bytes_max)
        self.engines = [Engine(process, Random(0), self.options) for process in self.processes]
        self.lines: list[SiteLink] = []
        self._listens: dict[int, int] = {}
        self._accepted = 0
        for site in range(self.count, len(self.names)):
            self.open_site(site)
        for process in range(self.count):
            self.come_in(process)
        for _ in range(400):
            self.play(1)
            if all(views and len(views[GROUP].members) == self.count for views in self.views[: self.count]):
                break
        else:
            raise AssertionError(f"not all came in: {self.views}")
        self.effect = 0
        self.crash_at = frozenset(crash_at)

    def open_site(self, site: int) -> None:
        others = tuple(name for name in self.sites if name != self.names[site])
        self.step(site, Open(stack="label", role="site", address=self.names[site], contacts=others))

    def come_in(self, process: int) -> None:
        join = Join(
            group=GROUP, stack="label", policy="sites", address=self.names[process],
            contacts=(self.names[self.site_of(process)],),
        )  # fmt: skip
        self.step(process, join)

    def restart(self, member: int) -> None:
        """The next incarnation of a process or a site; its site, or the others, may not have noticed that it died."""
        self.crash(member)
        self.pass_all()
        self.gone.discard(member)
        self.processes[member] = ProcessId(self.names[member], self.processes[member].incarnation + 1)
        self.engines[member] = Engine(self.processes[member], Random(0), self.options)
        self.views[member] = {}
        if member >= self.count:
            self.open_site(member)
        else:
            self.come_in(member)

    def site_of(self, process: int) -> int:
        return self.count + process // self.per_site

    def site(self, place: int) -> Site:
        """What the site with this index among the members of the table does."""
        stack = self.engines[place]._stacks_by_name["label"]
        assert isinstance(stack, LabelStack)
        assert stack._site is not None
        return stack._site

    def site_session(self, place: int) -> LabelSession:
        session = self.site(place)._member.session
        assert session is not None
        return session

    def survivors(self) -> list[int]:
        return [member for member in range(self.count) if member not in self.gone]

    def living_sites(self) -> list[int]:
        return [site for site in range(self.count, len(self.names)) if site not in self.gone]

    def packets_between_sites(self) -> int:
        """Data packets that lie on the table."""
        return sum(unseal(packet)[0] == DATA for packets in self.links.values() for packet in packets)

    # ---- steps -----------------------------------------------------------------------------------------------------

    def step(self, member: int, input: Input) -> Effects:
        if member in self.gone:
            return Effects()
        effects = self.engines[member].step(input, self.now_ns)
        self.deadline_ns[member] = effects.deadline_ns
        is_over = False
        if effects.accepted:
            self._note_call(member, input)
        for event in effects.events:
            if not isinstance(event, Sent):
                self._observe(member, event)
            is_over = is_over or (isinstance(event, Ended) and member < self.count)
        for transmit in effects.transmits:
            for name in transmit.route.names():
                link = (member, self.names.index(name))
                if link[1] != member:
                    if self._dies(member):
                        return effects
                    if (*link, "") not in self._cuts:
                        self.links.setdefault(link, []).extend(self._uncut(link, transmit.packets))
        for call in effects.calls or ():
            if isinstance(call, Listen):
                self._listens[member] = call.token
            elif isinstance(call, Dial):
                self._dial(member, call)
            elif isinstance(call, Frames):
                if self._dies(member):
                    return effects
                self._put_frames(member, call)
            elif isinstance(call, Hang):
                self._hang(member, call.link)
        if is_over:
            self.crash(member)
        return effects

    def _note_call(self, member: int, input: Input) -> None:
        """A message counts as sent when the process calls: it may die before its site says that the message leaves."""
        assert isinstance(input, Send | SendBarrier)
        number = self.engines[member]._groups[GROUP].last_number()
        view = self.views[member][GROUP].id
        if isinstance(input, Send):
            call = Sent(GROUP, view, number, 1, input.level, 0, input.destinations)
        else:
            call = Sent(GROUP, view, number, 1, SAFE, 0, (), True)
        self._note_labels(member, call)
        self._observe(member, call)

    def _dies(self, member: int) -> bool:
        self.effect += 1
        if self.effect in self.crash_at and self.living_sites() != [member]:
            self.crash(member)
            return True
        return False

    def crash(self, *members: int) -> None:
        """These are gone. What a process has sent by its link arrives, and then the link is down."""
        super().crash(*members)
        for line in self.lines:
            if set(line.ends) & set(members):
                line.is_broken = True

    def _dial(self, member: int, dial: Dial) -> None:
        self._accepted += 1
        site = self.names.index(dial.address)
        accepted = accepted_link(self._listens.get(site, 0), self._accepted)
        self.lines.append(SiteLink(member, site, dial.link, accepted))

    def _put_frames(self, member: int, call: Frames) -> None:
        for line in self.lines:
            process, site = line.ends
            if (member, call.link) in ((process, line.ids[0]), (site, line.ids[1])):
                line.under_way[site if member == process else process] += call.frames

    def _hang(self, member: int, link: int) -> None:
        for line in self.lines:
            if (member, link) in zip(line.ends, line.ids, strict=True):
                line.is_broken = True

    # ---- links -----------------------------------------------------------------------------------------------------

    def pass_all(self) -> None:
        super().pass_all()
        self.pass_links()

    def pass_links(self, random: Random | None = None) -> None:
        """What lies on the links arrives, or (`random`) a part of it, in order."""
        for line in list(self.lines):
            if self.is_held(line):
                continue
            process, site = line.ends
            if not line.is_up and not line.is_broken and site not in self.gone and site in self._listens:
                line.is_up = True
                self.step(site, LinkUp(line.ids[1], self.processes[process], self._listens[site]))
                self.step(process, LinkUp(line.ids[0], self.processes[site]))
            elif not line.is_up:
                line.is_broken = True
            for end, link in zip(line.ends, line.ids, strict=True):
                frames = line.under_way[end]
                count = len(frames) if random is None else random.randrange(len(frames) + 1)
                line.under_way[end] = frames[count:]
                if count:
                    self.step(end, LinkFrames(link, frames[:count]))
            is_empty = not any(line.under_way[end] for end in line.ends if end not in self.gone)
            if line.is_broken and is_empty and line in self.lines:
                self.lines.remove(line)
                for end, link in zip(line.ends, line.ids, strict=True):
                    self.step(end, LinkDown(link, "down"))

    def is_held(self, line: SiteLink) -> bool:
        """Whether nothing passes by a link for now."""
        return False

    def cut_link(self, process: int) -> None:
        """The link of a process breaks, with all that is under way."""
        for line in self.lines:
            if line.ends[0] == process:
                line.is_broken = True
                line.under_way = {end: [] for end in line.ends}


def site_problems(table: SiteTable) -> list[str]:
    """Every promise that was not kept to processes. Survivors without a majority of sites are not owed everything."""
    stories = Stories(table)
    return [
        *(_once_and_all(stories) if has_majority(table) else ()),
        *_causal(stories),
        *_labelled(stories),
        *_total(stories),
        *_views(stories),
        *_quiet_sites(table),
    ]


def _quiet_sites(table: SiteTable) -> Iterator[str]:
    if 2 * len(table.living_sites()) <= len(table.sites):
        return
    living = table.survivors()
    for member in living:
        if len(table.views[member][GROUP].members) != len(living):
            yield f"p{member + 1} is in {table.views[member][GROUP]} at the end"
        elif table.outstanding(member):
            yield f"p{member + 1} has {table.outstanding(member)} messages on the way at the end"
    table.play(30)
    for site in table.living_sites():
        copies = len(table.site_session(site).pool.copies)
        if copies or table.site(site)._handed or table.site(site).hosting.failing:
            yield f"{table.names[site]} keeps {copies} copies at the end"
    if len({table.site(site)._transfer.table.encode() for site in table.living_sites()}) > 1:
        yield "sites have different tables"
