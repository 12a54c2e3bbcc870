"""Members of the stack `label` on a table, with crashes at chosen effects, and an oracle over what they did.

    table = LabelTable(4, crash_at={17})       # whoever carries out the 17th transmission dies instead
    play_scene(table, Random(1))
    assert problems(table) == []

A transmission to one destination is one effect, so a fan-out can end after each of its destinations. The oracle goes by
what processes sent and delivered, and by no timestamp of the protocol.
"""

from collections.abc import Collection, Iterator
from itertools import combinations, pairwise
from random import Random

from antiphon.kernel.effects import BarrierReached, Delivered, Effects, Ended, Installed, Sent
from antiphon.kernel.inputs import Input, Send
from antiphon.kernel.labels import precedes
from antiphon.kernel.levels import ABCAST, AGREED, CAUSAL, RELIABLE, SAFE
from antiphon.kernel.options import MILLISECOND_NS, Options
from antiphon.stacks.label.member import LabelMember
from antiphon.stacks.label.session import LabelSession
from tests.table import GROUP, Table

Name = tuple[str, int]
"""Sender and number."""


def quick_options(lazy_us: int = 0, window_packets: int = 16) -> Options:
    """Failures are found within some tens of milliseconds."""
    return Options(
        window_packets=window_packets,
        heartbeat_interval_ns=20 * MILLISECOND_NS,
        silence_ns_min=60 * MILLISECOND_NS,
        silence_ns_max=400 * MILLISECOND_NS,
        doubt_ns=20 * MILLISECOND_NS,
        retry_ns=10 * MILLISECOND_NS,
        gather_ns=10 * MILLISECOND_NS,
        of_stacks={"label.lazy_us": lazy_us},
    )


class LabelTable(Table):
    """A table on which processes die at chosen effects."""

    def __init__(
        self,
        members: int,
        crash_at: Collection[int] = (),
        policy: str = "primary",
        lazy_us: int = 0,
        founders: int | None = None,
    ) -> None:
        self.effect = 0
        self.crash_at = frozenset(crash_at)
        self.labels: dict[Name, str] = {}
        """The labels of CBCASTs…"""
        self.queues: dict[Name, str] = {}
        """…and those of ABCASTs."""
        self.wanted: list[list[str]] = [[] for _ in range(members)]
        groups = {GROUP: tuple(range(members if founders is None else founders))}
        super().__init__(members, quick_options(lazy_us), policy, groups, stack="label")

    def step(self, member: int, input: Input) -> Effects:
        if member in self.gone:
            return Effects()
        effects = self.engines[member].step(input, self.now_ns)
        self.deadline_ns[member] = effects.deadline_ns
        for event in effects.events:
            if isinstance(event, Sent):
                self._note_labels(member, event)
            elif isinstance(event, Ended):
                self.gone.add(member)  # the others went on without it
            self._observe(member, event)
        for transmit in effects.transmits:
            for name in transmit.route.names():
                self.effect += 1
                if self.effect in self.crash_at and len(self.gone) + 1 < len(self.engines):
                    self.crash(member)
                    return effects
                link = (member, self.names.index(name))
                if link[1] != member and (*link, "") not in self._cuts:
                    self.links.setdefault(link, []).extend(transmit.packets)
        return effects

    def _note_labels(self, member: int, event: Sent) -> None:
        for number in range(event.number, event.number + event.count):
            label = self.wanted[member].pop(0) if not event.barrier and self.wanted[member] else ""
            if event.level == ABCAST:
                self.queues[self.names[member], number] = label
            elif label:
                self.labels[self.names[member], number] = label

    def tell(self, member: int, level: int, to: Collection[int] = (), label: str = "", size: int = 3) -> None:
        """Send one message."""
        if member in self.gone or not self.views[member]:
            return
        destinations = tuple(self.processes[rank] for rank in sorted(to))
        present = [each for each in destinations if self.views[member][GROUP].rank(each) >= 0]
        if len(present) < len(destinations) or self.views[member][GROUP].rank(self.processes[member]) < 0:
            return
        self.wanted[member].append(label)
        payload = b"m" * size
        self.step(member, Send(group=GROUP, payloads=[payload], level=level, destinations=destinations, label=label))

    def session(self, member: int) -> LabelSession:
        """What this member is in now."""
        found = self.engines[member]._groups[GROUP]
        assert isinstance(found, LabelMember)
        session = found._session
        assert isinstance(session, LabelSession)
        return session

    def survivors(self) -> list[int]:
        return [member for member in range(len(self.engines)) if member not in self.gone]


def play_scene(table: LabelTable, random: Random, sends: int = 14, barriers: bool = True) -> None:
    """Messages of all kinds at random, over a network that loses and reorders; then quiet."""
    members = len(table.engines)
    clock = 0
    for _ in range(sends):
        sender = random.randrange(members)
        kind = random.random()
        to: list[int] = [] if random.random() < 0.6 else random.sample(range(members), random.randrange(1, members))
        if kind < 0.06 and barriers and sender not in table.gone and table.views[sender]:
            table.barrier(sender)
        elif kind < 0.3:
            clock += random.randrange(2)
            label = random.choice((f"clock={clock}", f"vector={clock},{random.randrange(3)}", "none=x"))
            table.tell(sender, RELIABLE, to, label, size=random.choice((3, 3, 3000)))
        elif kind < 0.5:
            table.tell(sender, ABCAST, to, random.choice(("", "red", "blue=1")), size=random.choice((3, 3, 3, 3000)))
        else:
            level = random.choice((RELIABLE, CAUSAL, CAUSAL, AGREED, AGREED, SAFE))
            table.tell(sender, level, to, size=random.choice((3, 3, 3, 3000)))
        shake(table, random)
    rest(table)


def shake(table: LabelTable, random: Random) -> None:
    """Some of what lies on the table arrives; some of it is lost, or comes late."""
    for link in list(table.links):
        if random.random() < 0.3:
            continue
        packets = table.take(*link)
        if random.random() < 0.2:
            random.shuffle(packets)
        for packet in packets:
            if random.random() < 0.93 and link[1] not in table.gone:
                table.arrive(link[1], packet)
    table.wait(random.choice((0, 1, 2, 6)) * MILLISECOND_NS)


def rest(table: LabelTable, milliseconds: int = 1500) -> None:
    """A calm network until nothing is left to do."""
    for _ in range(milliseconds // 5):
        for _ in range(4):
            table.pass_all()
        table.wait(5 * MILLISECOND_NS)
        living = table.survivors()
        views = [table.views[member].get(GROUP) for member in living]
        is_alone = all(view is not None and len(view.members) == len(living) for view in views)
        is_same = len({view.id for view in views if view is not None}) == 1
        if is_alone and is_same and not any(table.outstanding(member) for member in living):
            break
    table.crash_at = frozenset()


class Told:
    """What one message was, and what had happened before it."""

    def __init__(self, sender: int, level: int, receivers: frozenset[int], direct: list[Name], view: int) -> None:
        self.sender = sender
        self.level = level
        self.receivers = receivers
        self.direct = direct
        self.view = view


class Stories:
    """What all processes of a table did."""

    def __init__(self, table: LabelTable) -> None:
        self.table = table
        self.messages: dict[Name, Told] = {}
        self.delivered: list[list[Name]] = []
        self.in_view: list[dict[int, list[Name]]] = []
        self.views: list[list[int]] = []
        self.known_before: dict[Name, list[Name]] = {}
        """By message, all that its sender had sent or delivered before it, in order."""
        for member, events in enumerate(table.events):
            self._read(member, list(events))
        self._pasts: dict[Name, frozenset[Name]] = {}

    def _read(self, member: int, events: list[object]) -> None:
        table = self.table
        mine: list[Name] = []
        history: list[Name] = []
        by_view: dict[int, list[Name]] = {}
        views: list[int] = []
        news: list[Name] = []
        ranks: frozenset[int] = frozenset()
        for event in events:
            if isinstance(event, Installed):
                views.append(event.view.id)
                by_view[event.view.id] = []
                ranks = frozenset(table.processes.index(each) for each in event.view.members)
            elif isinstance(event, Sent):
                only = frozenset(table.processes.index(each) for each in event.destinations)
                for number in range(event.number, event.number + event.count):
                    name = (table.names[member], number)
                    self.messages[name] = Told(member, event.level, (only & ranks) or ranks, news, event.view_id)
                    if event.destinations and not only & ranks:
                        self.messages[name].receivers = frozenset()
                    self.known_before[name] = list(history)
                    history.append(name)
                    news = [name]
            elif isinstance(event, Delivered):
                names = [(event.sender.name, event.number + i) for i in range(len(event.payloads))]
                mine += names
                history += names
                by_view[views[-1]] += names
                news = [*news, *names]
            elif isinstance(event, BarrierReached):
                name = (event.sender.name, event.number)
                mine.append(name)
                by_view[views[-1]].append(name)
                history.append(name)
                news = [*news, name]
        self.delivered.append(mine)
        self.in_view.append(by_view)
        self.views.append(views)

    def past(self, name: Name) -> frozenset[Name]:
        """All that happened before a message."""
        waiting = [name]
        while waiting:
            current = waiting[-1]
            missing = [before for before in self.messages[current].direct if before not in self._pasts]
            if missing:
                waiting += missing
                continue
            waiting.pop()
            direct = self.messages[current].direct
            self._pasts[current] = frozenset(direct).union(*(self._pasts[before] for before in direct))
        return self._pasts[name]

    def preceding(self) -> dict[Name, set[Name]]:
        """For each labelled message those that precede it by 3.3."""
        labels = self.table.labels
        result: dict[Name, set[Name]] = {}

        def closed(name: Name) -> set[Name]:
            if name not in result:
                result[name] = set()
                for before in self.known_before.get(name, []):
                    if before in labels and precedes(labels[before].encode(), labels[name].encode()):
                        result[name] |= {before} | closed(before)
            return result[name]

        for name in labels:
            closed(name)
        return result


def has_majority(table: LabelTable) -> bool:
    """Whether the survivors can go on: more than half, or half with the oldest, each time somebody died."""
    return all(len(table.views[member][GROUP].members) == len(table.survivors()) for member in table.survivors())


def problems(table: LabelTable) -> list[str]:
    """Every promise that was not kept. Survivors that are no majority stand still, and are not owed everything."""
    stories = Stories(table)
    return [
        *(_once_and_all(stories) if has_majority(table) else ()),
        *_causal(stories),
        *_labelled(stories),
        *_total(stories),
        *_views(stories),
        *_quiet(stories),
    ]


def _once_and_all(stories: Stories) -> Iterator[str]:
    table = stories.table
    for member, mine in enumerate(stories.delivered):
        if len(mine) != len(set(mine)):
            yield f"p{member + 1} delivers something twice: {mine}"
        for name in set(mine):
            told = stories.messages[name]
            if told.level != SAFE and member not in told.receivers:
                yield f"p{member + 1} delivers {name}, which was not for it"
    delivered = [set(mine) for mine in stories.delivered]
    for name, told in stories.messages.items():
        holders = [member for member in table.survivors() if name in delivered[member]]
        is_kept = told.sender in table.survivors() or holders
        crashed_safe = told.level == SAFE and any(name in mine for mine in delivered)
        for member in table.survivors():
            if member in told.receivers and name not in delivered[member] and (is_kept or crashed_safe):
                yield f"p{member + 1} lacks {name} of level {told.level}; {holders} have it"


def _causal(stories: Stories) -> Iterator[str]:
    for member, mine in enumerate(stories.delivered):
        so_far: set[Name] = set()
        for name in mine:
            told = stories.messages[name]
            if told.level >= CAUSAL and told.level != ABCAST:
                for before in stories.past(name) - so_far - {name}:
                    if member in stories.messages[before].receivers:
                        yield f"p{member + 1} delivers {name} before {before}, which happened before it"
            so_far.add(name)


def _labelled(stories: Stories) -> Iterator[str]:
    preceding = stories.preceding()
    for member, mine in enumerate(stories.delivered):
        so_far: set[Name] = set()
        for name in mine:
            for before in preceding.get(name, set()) - so_far:
                if member in stories.messages[before].receivers:
                    yield f"p{member + 1} delivers {name} before {before}, whose label precedes it"
            so_far.add(name)


def _total(stories: Stories) -> Iterator[str]:
    """One order of agreed and safe ones, and one for each label of ABCASTs."""
    yield from _one_order(stories, "")
    for label in sorted(set(stories.table.queues.values())):
        yield from _one_order(stories, f"abcast {label!r}")


def _one_order(stories: Stories, of: str) -> Iterator[str]:
    table = stories.table
    after: dict[Name, set[Name]] = {}

    def takes_part(name: Name, least: int) -> bool:
        if of:
            return name in table.queues and f"abcast {table.queues[name]!r}" == of and least == AGREED
        return least <= stories.messages[name].level <= SAFE

    for member, mine in enumerate(stories.delivered):
        least = AGREED if member in table.survivors() else SAFE
        ordered = [name for name in mine if takes_part(name, least)]
        for first, second in pairwise(ordered):
            after.setdefault(first, set()).add(second)
    done: set[Name] = set()
    path: set[Name] = set()

    def has_cycle(name: Name) -> bool:
        if name in done:
            return False
        if name in path:
            return True
        path.add(name)
        found = any(has_cycle(each) for each in after.get(name, set()))
        path.discard(name)
        done.add(name)
        return found

    if any(has_cycle(name) for name in list(after)):
        orders = [[name for name in mine if takes_part(name, AGREED)] for mine in stories.delivered]
        yield f"there is no one order: {of} {orders}"


def _views(stories: Stories) -> Iterator[str]:
    table = stories.table
    members: dict[int, tuple[object, ...]] = {}
    for events in table.events:
        for event in events:
            if isinstance(event, Installed) and members.setdefault(event.view.id, event.view.members) != (
                event.view.members
            ):
                yield f"view {event.view.id} has two sets of members"
    for one, other in combinations(range(len(table.engines)), 2):
        for view, following in pairwise(stories.views[one]):
            if (view, following) not in list(pairwise(stories.views[other])):
                continue
            some, more = set(stories.in_view[one][view]), set(stories.in_view[other][view])
            for name in some ^ more:
                told = stories.messages[name]
                if {one, other} <= told.receivers or (told.level == SAFE and not told.receivers):
                    yield f"p{one + 1} and p{other + 1} differ in view {view} by {name}"


def _quiet(stories: Stories) -> Iterator[str]:
    table = stories.table
    living = table.survivors()
    if 2 * len(living) <= len(table.engines) and not has_majority(table):
        return
    for member in living:
        if len(table.views[member][GROUP].members) != len(living):
            yield f"p{member + 1} is in {table.views[member][GROUP]} at the end"
        elif table.outstanding(member):
            yield f"p{member + 1} has {table.outstanding(member)} broadcasts on the way at the end"
        else:
            table.play(30)
            if table.session(member).pool.copies:
                yield f"p{member + 1} keeps {len(table.session(member).pool.copies)} copies at the end"
