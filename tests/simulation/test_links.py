"""Links that work one way only, that are not transitive, or that flap: the connected majority goes on in bounded time.

Each run has one group, from its first view on. At `CUT_NS` the links go bad. All members say something each 250 ms.
What is asserted is about virtual time: by `settle_bound_ns` after the cut the members of the chosen component are in a
view of just them, and what they say from then on is delivered at all of them.
"""

from itertools import pairwise

import pytest

from antiphon.faults import Delay, Fault, Flapping, Oversize, Partition
from antiphon.history.schema import Row
from antiphon.kernel.inputs import MAIN
from antiphon.kernel.options import MILLISECOND_NS, Options
from antiphon.parts.membership.reachability import settle_bound_ns
from antiphon.simulator.actions import SEND, Action
from antiphon.simulator.churn_draw import FAST
from antiphon.simulator.script import Script, ScriptedGroup
from antiphon.simulator.script_run import LogMaker
from antiphon.simulator.world import World

SECOND_NS = 1000 * MILLISECOND_NS
CUT_NS = 2 * SECOND_NS
FOREVER_NS = 10_000 * SECOND_NS
STACKS = ("vector", "conversation")
GROUP = "g"


def names_of(members: int) -> list[str]:
    return [f"p{number}" for number in range(1, members + 1)]


def towards(names: list[str], *deaf: str, until_ns: int = FOREVER_NS) -> list[Fault]:
    """Nothing reaches these."""
    return [Partition(frozenset(names), frozenset(deaf), CUT_NS, until_ns)]


def out_of(names: list[str], *mute: str, until_ns: int = FOREVER_NS) -> list[Fault]:
    """Nothing of these reaches anybody."""
    return [Partition(frozenset(mute), frozenset(names), CUT_NS, until_ns)]


def between(one: str, other: str, until_ns: int = FOREVER_NS) -> list[Fault]:
    """These two do not hear each other."""
    pair = frozenset((one, other))
    return [Partition(pair, pair, CUT_NS, until_ns)]


class LinkRun:
    """A group under bad links."""

    def __init__(
        self, names: list[str], bad: list[Fault], stack: str, options: Options, end_ns: int, size: int = 10
    ) -> None:
        script = Script(
            run="links",
            seed=1,
            policy="primary",
            processes=names,
            groups=[ScriptedGroup(GROUP, names, names)],
            layers=[Delay(MILLISECOND_NS, MILLISECOND_NS), *bad],
            options=options,
            domain=MAIN,
            stack=stack,
        )
        for at_ns in range(SECOND_NS, end_ns, 250 * MILLISECOND_NS):
            for number, name in enumerate(names):
                script.add(Action(SEND, at_ns + number * MILLISECOND_NS, name, GROUP, "agreed", (size,)))
        self.maker = LogMaker("links")
        self.world = World(script, self.maker.make)
        self.world.begin()
        self.options = options

    def views(self, name: str, since_ns: int = 0) -> list[tuple[str, ...]]:
        """The views that this name installed, in all its lives, by names of their members."""
        return [
            tuple(member.split("/")[0] for member in row.members or ())
            for row in self.rows(name)
            if row.kind == "view" and row.time_ns >= since_ns
        ]

    def rows(self, name: str) -> list[Row]:
        rows = [row for log in self.maker.logs for row in log.rows() if row.process == name]
        return sorted(rows, key=lambda row: row.time_ns)

    def delivered(self, name: str, sender: str, since_ns: int) -> int:
        """How many messages of `sender` this name delivered since then."""
        return sum(
            row.count or 0
            for row in self.rows(name)
            if row.kind == "deliver" and row.sender == sender and row.time_ns >= since_ns
        )

    def assert_component_goes_on(self, component: tuple[str, ...], without: tuple[str, ...]) -> None:
        """By the bound the component is in a view of just its members, and everything said after is delivered."""
        bound_ns = CUT_NS + settle_bound_ns(self.options)
        self.world.run_through(bound_ns)
        for name in component:
            assert self.views(name)[-1] == component, f"{name} is in {self.views(name)[-1]} at the bound"
        self.world.run_through(bound_ns + 5 * SECOND_NS)
        for name in component:
            assert self.views(name)[-1] == component
            for sender in component:
                assert self.delivered(name, sender, bound_ns) >= 18
        for name in without:
            assert not self.delivered(name, component[0], bound_ns)

    def assert_all_together_again(self, names: list[str]) -> None:
        lives = [self.views(name)[-1] for name in names]
        assert all(sorted(view) == sorted(names) for view in lives), lives


@pytest.mark.parametrize("stack", STACKS)
@pytest.mark.parametrize(
    ("members", "deaf", "options"),
    [
        (3, "p3", Options()),
        (3, "p2", FAST),
        (3, "p1", FAST),
        (5, "p4", FAST),
        (5, "p1", Options()),
        (2, "p2", FAST),
    ],
)
def test_a_member_that_hears_nobody_is_left_behind(members: int, deaf: str, stack: str, options: Options) -> None:
    names = names_of(members)
    heal_ns = CUT_NS + settle_bound_ns(options) + 5 * SECOND_NS
    run = LinkRun(names, towards(names, deaf, until_ns=heal_ns), stack, options, heal_ns)
    run.assert_component_goes_on(tuple(name for name in names if name != deaf), (deaf,))
    assert any("no majority" in (row.label or "") for row in run.rows(deaf)), (
        "the deaf one has no majority, and says so"
    )
    run.world.run_through(heal_ns + 5 * SECOND_NS)
    run.assert_all_together_again(names)


def felled_by_one_that_was_deaf(deaf: str, deaf_ms: int, stack: str) -> list[str]:
    """Who is excluded from a group of five when one has heard nobody for a while, and hears all again."""
    names = names_of(5)
    heal_ns = CUT_NS + deaf_ms * MILLISECOND_NS
    run = LinkRun(names, towards(names, deaf, until_ns=heal_ns), stack, Options(), heal_ns)
    run.world.run_through(heal_ns + SECOND_NS)
    assert any("no majority" in (row.label or "") for row in run.rows(deaf)), "it should have given up everybody"
    return [name for name in names if any(row.kind == "crash" for row in run.rows(name))]


@pytest.mark.parametrize("stack", STACKS)
@pytest.mark.parametrize("deaf", ["p1", "p3"])
@pytest.mark.parametrize("deaf_ms", [1500, 1700])
def test_a_member_that_was_deaf_for_a_while_goes_on_with_all(deaf: str, deaf_ms: int, stack: str) -> None:
    """It has given up everybody and asks for their states; the first majority that answers is not all there are."""
    assert not felled_by_one_that_was_deaf(deaf, deaf_ms, stack)


@pytest.mark.parametrize("stack", STACKS)
@pytest.mark.parametrize(("members", "mute"), [(3, "p3"), (3, "p1"), (5, "p1"), (5, "p3")])
def test_a_member_that_nobody_hears_is_left_behind(members: int, mute: str, stack: str) -> None:
    names = names_of(members)
    run = LinkRun(names, out_of(names, mute), stack, Options(), CUT_NS + 12 * SECOND_NS)
    run.assert_component_goes_on(tuple(name for name in names if name != mute), (mute,))
    assert [row for row in run.rows(mute) if row.kind == "crash"], "it hears, and so learns that it is out"


@pytest.mark.parametrize("stack", STACKS)
@pytest.mark.parametrize(
    ("members", "cuts", "left_out"),
    [
        (3, (("p1", "p2"),), ("p2",)),
        (3, (("p2", "p3"),), ("p3",)),
        (3, (("p1", "p3"),), ("p3",)),
        (5, (("p1", "p2"),), ("p2",)),
        (5, (("p1", "p4"), ("p1", "p5")), ("p1",)),
        (5, (("p1", "p2"), ("p3", "p4")), ("p2", "p4")),
        (4, (("p1", "p2"), ("p1", "p3"), ("p1", "p4")), ("p1",)),
    ],
)
def test_links_that_are_not_transitive_settle(
    members: int, cuts: tuple[tuple[str, str], ...], left_out: tuple[str, ...], stack: str
) -> None:
    names = names_of(members)
    options = Options()
    heal_ns = CUT_NS + settle_bound_ns(options) + 20 * SECOND_NS
    bad = [layer for one, other in cuts for layer in between(one, other, until_ns=heal_ns)]
    run = LinkRun(names, bad, stack, options, heal_ns)
    component = tuple(name for name in names if name not in left_out)
    run.assert_component_goes_on(component, left_out)
    run.world.run_through(heal_ns)
    settled_ns = CUT_NS + settle_bound_ns(options)
    for name in component:
        assert not run.views(name, settled_ns), "views go on changing while the links stay as they are"
    run.world.run_through(heal_ns + 5 * SECOND_NS)
    run.assert_all_together_again(names)


@pytest.mark.parametrize("stack", STACKS)
def test_one_link_that_works_one_way_only_parts_two_members(stack: str) -> None:
    names = names_of(5)
    one_way: list[Fault] = [Partition(frozenset(("p1",)), frozenset(("p3",)), CUT_NS, FOREVER_NS)]
    run = LinkRun(names, one_way, stack, Options(), CUT_NS + 12 * SECOND_NS)
    run.assert_component_goes_on(("p1", "p2", "p4", "p5"), ("p3",))


@pytest.mark.parametrize("stack", STACKS)
@pytest.mark.parametrize("small", ["p1", "p3"])
def test_a_member_that_gets_short_packets_only_is_left_behind(small: str, stack: str) -> None:
    """It is heard, and hears; but it acknowledges nothing of what the others say."""
    names = names_of(4)
    options = FAST
    bad: list[Fault] = [Oversize(frozenset(names), frozenset((small,)), CUT_NS, 180)]
    bound_ns = CUT_NS + 2 * options.silence_ns_max + settle_bound_ns(options)
    run = LinkRun(names, bad, stack, options, bound_ns + 5 * SECOND_NS, size=200)
    run.world.run_through(bound_ns + 5 * SECOND_NS)
    rest = tuple(name for name in names if name != small)
    for name in rest:
        assert run.views(name)[-1] == rest
        for sender in rest:
            assert run.delivered(name, sender, bound_ns) >= 18


@pytest.mark.parametrize("stack", STACKS)
@pytest.mark.parametrize(("up_ms", "down_ms"), [(100, 700), (500, 2500), (3000, 5000)])
@pytest.mark.parametrize("whole", [False, True], ids=["one link", "one member"])
def test_a_flapping_link_holds_up_nobody_for_long(up_ms: int, down_ms: int, whole: bool, stack: str) -> None:
    """Of the rest, each delivers what each says, again and again, and views are not made faster than the link flaps."""
    names = names_of(5)
    end_ns = CUT_NS + 30 * SECOND_NS
    others = frozenset(names) - {"p2"} if whole else frozenset(("p1",))
    flapping: list[Fault] = [
        Flapping(frozenset(("p2",)), others, CUT_NS, end_ns, up_ms * MILLISECOND_NS, down_ms * MILLISECOND_NS)
    ]
    run = LinkRun(names, flapping, stack, Options(), end_ns)
    run.world.run_through(end_ns + 10 * SECOND_NS)
    rest = [name for name in names if name != "p2"]
    gap_ns_max = 2 * settle_bound_ns(Options())
    for name in rest:
        times = [row.time_ns for row in run.rows(name) if row.kind == "deliver" and row.sender in rest]
        longest_ns = max(after - before for before, after in pairwise(times))
        assert longest_ns < gap_ns_max, f"{name} delivered nothing for {longest_ns / SECOND_NS} s"
        assert len(run.views(name)) <= 2 + 2 * 30_000 // (up_ms + down_ms)
        assert not [row for row in run.rows(name) if row.kind == "crash"], f"{name} was felled by a flapping link"
    run.assert_all_together_again(names)
