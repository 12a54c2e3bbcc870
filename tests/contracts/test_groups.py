"""Causal order over overlapping groups, by whatever rule: random groups, random traffic of all kinds, a bad network;
every delivery is held against the real "happened before", taken from what the processes did and from no timestamp."""

from dataclasses import dataclass, field
from itertools import combinations
from random import Random

import pytest

from antiphon.kernel.causality_domain import CausalityDomain
from antiphon.kernel.effects import BarrierReached, Delivered, Ended, Sent
from antiphon.kernel.errors import UsageError
from antiphon.kernel.inputs import Leave, Recover
from antiphon.kernel.levels import AGREED, CAUSAL, CAUSAL_TOTAL, LEVELS, SAFE
from antiphon.kernel.options import MILLISECOND_NS
from antiphon.stacks.registry import offer
from tests.table import Groups, Table

PLACES = 5
SENDS = 40
RULES = {
    "carry, k = 1": CausalityDomain(resilience=1),
    "structure": CausalityDomain(resilience=1),
    "conservative": CausalityDomain(rule="conservative"),
    "epochs": CausalityDomain(rule="epochs"),
    "epochs, k = 1": CausalityDomain(rule="epochs", resilience=1),
}

Name = tuple[str, str, int]
"""Group, sender, number."""


@dataclass
class Message:
    """A message as its sender sent it."""

    level: int
    receivers: frozenset[int]
    direct: list[Name] = field(default_factory=list)
    """What its sender had sent or delivered before it, since its last message."""


def draw_groups(random: Random) -> Groups:
    """Three or four groups of two to four processes."""
    return {
        name: tuple(random.sample(range(PLACES), random.randrange(2, 5))) for name in "abcd"[: random.choice((3, 4))]
    }


def structured(domain: CausalityDomain, groups: Groups) -> CausalityDomain:
    """The same domain with its overlaps declared."""
    pairs = tuple(pair for pair in combinations(groups, 2) if set(groups[pair[0]]) & set(groups[pair[1]]))
    return CausalityDomain(resilience=domain.resilience, overlaps=pairs)


def stories(table: Table) -> tuple[dict[Name, Message], list[list[Name]]]:
    """All messages by name, and what each process delivered, in its order."""
    messages: dict[Name, Message] = {}
    delivered: list[list[Name]] = []
    for member, events in enumerate(table.events):
        news: list[Name] = []
        mine: list[Name] = []
        for event in events:
            if isinstance(event, Sent):
                group = frozenset(table.founders[event.group])
                only = frozenset(table.processes.index(process) for process in event.destinations)
                for number in range(event.number, event.number + event.count):
                    name = (event.group, table.names[member], number)
                    messages[name] = Message(event.level, only or group, news)
                    news = [name]
            elif isinstance(event, Delivered):
                names = [(event.group, event.sender.name, event.number + i) for i in range(len(event.payloads))]
                mine += names
                news = [*news, *names]
            elif isinstance(event, BarrierReached):
                mine.append((event.group, event.sender.name, event.number))
                news = [*news, mine[-1]]
        delivered.append(mine)
    return messages, delivered


def past_of(name: Name, messages: dict[Name, Message], known: dict[Name, frozenset[Name]]) -> frozenset[Name]:
    """All that happened before a message. Each message names its sender's last one, so chains are followed."""
    waiting = [name]
    while waiting:
        current = waiting[-1]
        missing = [before for before in messages[current].direct if before not in known]
        if missing:
            waiting += missing
            continue
        waiting.pop()
        direct = messages[current].direct
        known[current] = frozenset(direct).union(*(known[before] for before in direct))
    return known[name]


def violations(table: Table) -> list[str]:
    """Where a process delivered something before what happened before it, or not at all, or twice."""
    messages, delivered = stories(table)
    pasts: dict[Name, frozenset[Name]] = {}
    problems: list[str] = []
    for member, mine in enumerate(delivered):
        due = {name for name, message in messages.items() if member in message.receivers}
        if len(mine) != len(set(mine)) or set(mine) != due:
            problems.append(f"p{member + 1} lacks {due - set(mine)} and has {len(mine) - len(set(mine))} twice")
        so_far: set[Name] = set()
        for name in mine:
            if messages[name].level >= CAUSAL:
                early = (past_of(name, messages, pasts) & due) - so_far - {name}
                problems += [f"p{member + 1} delivers {name} before {before}" for before in early]
            so_far.add(name)
    for group in table.founders:
        orders = [[name for name in mine if name[0] == group and is_ordered(messages[name])] for mine in delivered]
        members = table.founders[group]
        if any(orders[member] != orders[members[0]] for member in members):
            problems.append(f"the members of {group} differ in its total order")
    return problems


def is_ordered(message: Message) -> bool:
    return message.level in (AGREED, SAFE, CAUSAL_TOTAL)


def play(random: Random, table: Table, barriers: bool) -> None:
    """All kinds of traffic over a network that loses, doubles and reorders, and whose links break."""
    levels = [LEVELS[name] for name in table.offers.levels]
    for number in range(SENDS):
        group = random.choice(list(table.founders))
        sender = random.choice(table.founders[group])
        kind = random.random()
        if barriers and kind < 0.1:
            table.barrier(sender, group=group)
        elif kind < 0.25 and table.offers.private:
            table.send(sender, b"", group=group, to=random.choice(table.founders[group]))
        else:
            level = random.choice((*levels, CAUSAL, CAUSAL))
            table.send(sender, b"%d" % number, group=group, level=level)
        for link in list(table.links):
            packets = table.take(*link)
            if random.random() < 0.3:
                random.shuffle(packets)
            for packet in packets:
                if random.random() < 0.9:
                    table.arrive(link[1], packet)
                    if random.random() < 0.1:
                        table.arrive(link[1], packet)
        for stream, to_client in table.streams.under_way():
            chance = random.random()
            if chance < 0.02:
                table.streams.cut(stream.client)
            elif chance < 0.7 and stream in table.streams.all:
                table.streams.pass_on(stream, to_client, random.choice((0, 0, 1, 2)))
        table.wait(random.choice((0, 0, 1, 5)) * MILLISECOND_NS)
    for _ in range(60):
        table.play(100)
        if not any(table.outstanding(member) for member in range(PLACES)):
            break
    table.play(400)


@pytest.mark.capable("crosses_groups")
@pytest.mark.parametrize("seed", range(8))
def test_causal_order_holds_over_all_groups(stack: str, seed: int) -> None:
    """Without a word: in the domain that all groups are in which name none."""
    random = Random(f"{seed}/carry")
    groups = draw_groups(random)
    policy = "primary" if random.random() < 0.5 else ""
    table = Table(PLACES, None, policy, groups, stack=stack)
    play(random, table, policy == "primary" and offer(stack).barriers)
    assert violations(table) == []


@pytest.mark.capable("causality_domains")
@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("seed", range(8))
def test_causal_order_holds_over_all_groups_by_each_rule(stack: str, seed: int, rule: str) -> None:
    random = Random(f"{seed}/{rule}")
    groups = draw_groups(random)
    domain = RULES[rule]
    if rule == "structure":
        domain = structured(domain, groups)
    policy = "primary" if domain.rule == "epochs" or random.random() < 0.5 else "static"
    table = Table(PLACES, None, policy, groups, dict.fromkeys(groups, domain), stack)
    play(random, table, policy == "primary")
    assert violations(table) == []


@pytest.mark.capable("causality_domains")
def test_without_a_common_domain_it_does_not(stack: str) -> None:
    """The oracle sees what it should: with a domain for each group, order between groups is lost somewhere."""
    found = 0
    for seed in range(6):
        random = Random(f"{seed}/apart")
        groups = draw_groups(random)
        domains = {name: CausalityDomain(name=name) for name in groups}
        table = Table(PLACES, None, "static", groups, domains, stack)
        play(random, table, False)
        found += len(violations(table))
    assert found


TWINS: Groups = {"a": (0, 1, 2), "b": (0, 1, 2)}


def ends(table: Table, member: int) -> list[tuple[str, bool]]:
    return [(event.group, event.excluded) for event in table.events[member] if isinstance(event, Ended)]


def test_who_leaves_one_group_lives_on_in_the_others(stack: str) -> None:
    table = Table(3, policy="primary", groups=TWINS, stack=stack)
    table.step(1, Leave("a"))
    table.play(300)
    assert ends(table, 1) == [("a", False)]
    assert table.views[0]["a"].members == (table.processes[0], table.processes[2])
    with pytest.raises(UsageError, match="no longer a member of group 'a'"):
        table.send(1, b"", group="a")
    table.send(1, b"", group="b")
    table.send(0, b"", group="a")
    table.play(300)
    assert table.log[1] == ["b:p2#1"]
    assert sorted(table.log[2]) == ["a:p1#1", "b:p2#1"]


@pytest.mark.capable("founding")
def test_a_group_without_a_majority_stands_still_until_it_is_recovered(stack: str) -> None:
    table = Table(3, policy="primary", stack=stack)
    engine = table.engines[0]
    assert not engine.is_stalled("g")
    assert not engine.is_stalled("of others")
    with pytest.raises(UsageError, match="there is nothing to recover"):
        table.step(0, Recover("g"))
    table.crash(1, 2)
    table.play(3_000)
    assert engine.is_stalled("g")
    table.step(0, Recover("g"))
    table.play(300)
    assert not engine.is_stalled("g")
    assert table.views[0]["g"].members == (table.processes[0],)


def test_who_is_not_heard_is_out_of_all_its_groups(stack: str) -> None:
    """The others go on without it in both groups; when it hears of that, its life is over in both."""
    table = Table(3, policy="primary", groups=TWINS, stack=stack)
    table.isolate(2)
    table.play(4_000)
    for group in TWINS:
        assert table.views[0][group].members == table.views[1][group].members == tuple(table.processes[:2])
    assert ends(table, 2) == []
    table.send(0, b"", group="a")
    table.mend()
    table.play(1_000)
    assert sorted(ends(table, 2)) == [("a", True), ("b", True)]
    assert table.log == [["a:p1#1"], ["a:p1#1"], []]


@pytest.mark.capable("causality_domains")
def test_who_is_excluded_from_one_group_is_out_of_the_whole_domain(stack: str) -> None:
    """p3 is cut off in a alone, and given up there. When it hears of that, its life is over in b too."""
    table = Table(3, policy="primary", groups=TWINS, stack=stack)
    for other in (0, 1):
        table.cut(2, other, "a")
        table.cut(other, 2, "a")
    table.play(4_000)
    assert table.views[0]["a"].members == tuple(table.processes[:2])
    assert ends(table, 2) == []
    table.mend()
    table.play(1_000)
    assert sorted(ends(table, 2)) == [("a", True), ("b", True)]


@pytest.mark.capable("causality_domains")
def test_groups_of_another_domain_are_not_touched_by_an_exclusion(stack: str) -> None:
    domains = {"a": CausalityDomain(name="one"), "b": CausalityDomain(name="two")}
    table = Table(3, policy="primary", groups=TWINS, domains=domains, stack=stack)
    for other in (0, 1):
        table.cut(2, other, "a")
        table.cut(other, 2, "a")
    table.play(4_000)
    table.mend()
    table.play(1_000)
    assert ends(table, 2) == [("a", True)]
    table.send(2, b"", group="b")
    table.play(300)
    assert table.log[0] == ["b:p3#1"]
