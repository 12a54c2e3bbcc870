"""One object per process and stack: what it refuses, which packets are its own, and what it leaves behind."""

from random import Random
from typing import get_args

import pytest

from antiphon.engine import Engine
from antiphon.kernel.causality_domain import EPOCHS, CausalityDomain
from antiphon.kernel.codec import seal
from antiphon.kernel.errors import UsageError
from antiphon.kernel.identity import ProcessId, View, wire_id
from antiphon.kernel.inputs import Join, Receive
from antiphon.kernel.options import Options
from antiphon.kernel.packet_kinds import KIND_NAMES, STATUS
from antiphon.kernel.policies import PRIMARY
from antiphon.stacks.registry import DEFAULT, OFFERS, StackName, kind, offer, register
from antiphon.stacks.stack import ALL_GROUPS, SCOPES, Capabilities

ME = ProcessId("a")


def engine() -> Engine:
    return Engine(ME, Random(1), Options())


@pytest.mark.parametrize("stack", list(OFFERS))
def test_a_stack_refuses_a_domain_that_it_would_ignore(stack: str) -> None:
    view, domain = View(1, (ME,), ("here",)), CausalityDomain(name="d", rule=EPOCHS)
    join = Join(group="g", stack=stack, view=view, policy=PRIMARY, address="here", domain=domain)
    if offer(stack).crosses_groups and not offer(stack).service_role:
        engine().step(join, 0)
        return
    with pytest.raises(UsageError, match=r"keeps no order between groups|reaches over all groups"):
        engine().step(join, 0)


@pytest.mark.parametrize("stack", list(OFFERS))
def test_a_stack_refuses_a_policy_that_it_does_not_have(stack: str) -> None:
    with pytest.raises(UsageError, match="has no policy 'anarchy'"):
        engine().step(Join(group="g", stack=stack, view=View(1, (ME,)), policy="anarchy"), 0)


def test_a_join_that_was_refused_changes_nothing() -> None:
    one = engine()
    with pytest.raises(UsageError):
        one.step(Join(group="g", policy="static", view=View(1, (ProcessId("b"),))), 0)
    one.step(Join(group="g", policy="static", view=View(1, (ME,))), 0)


def test_a_packet_of_a_stack_that_does_not_run_here_is_dropped() -> None:
    one = engine()
    one.step(Join(group="g", policy="static", view=View(1, (ME, ProcessId("b")))), 0)
    for number in (0, 250, *[offers.number for offers in OFFERS.values()]):
        one.step(Receive([seal(number, STATUS, wire_id("g"), 1, 1, 0, 0, [b""])]), 0)
    assert one.statistics()["dropped_stack"] == 2
    assert one.statistics()["dropped_view"] == 1
    assert one.statistics()["dropped_group"] == len(OFFERS) - 1


def test_every_kind_of_packet_is_used_and_every_promise_has_a_scope() -> None:
    used = {number for offers in OFFERS.values() for number in offers.packet_kinds}
    assert used == set(KIND_NAMES)
    for offers in OFFERS.values():
        assert all(promise.scope in SCOPES for promise in offers.promised)
        of_many = ALL_GROUPS if offers.service_role else "causality domain"
        assert offers.scope("causal") == (of_many if offers.crosses_groups else "group")


def test_the_type_of_names_has_those_of_the_stacks_of_the_package() -> None:
    own = [name for name in OFFERS if kind(name).make.__module__.startswith("antiphon.stacks.")]
    assert list(get_args(StackName)) == own


def test_names_and_numbers_of_stacks_differ() -> None:
    taken = offer(DEFAULT)
    for name, number in ((DEFAULT, 99), ("other", taken.number), ("other", 0), ("other", 256)):
        offers = Capabilities(name=name, number=number, levels=(), policies=(), packet_kinds=(), promised=())
        with pytest.raises(UsageError):
            register(offers, kind(DEFAULT).make)
    assert "other" not in OFFERS


@pytest.mark.parametrize("key", ["vector.hold", "hold_ns", "nowhere.hold_ns"])
def test_an_option_that_no_stack_has_is_refused(key: str) -> None:
    with pytest.raises(UsageError, match=r"there are: vector\.hold_ns, vector\.time_life_ns"):
        Engine(ME, Random(1), Options(of_stacks={key: 1}))


def test_an_option_of_a_stack_is_what_was_asked_for_or_its_default() -> None:
    asked = kind("vector").make(ME, Random(1), Options(of_stacks={"vector.hold_ns": 5}))
    assert asked.option("hold_ns") == 5
    assert asked.option("time_life_ns") == offer("vector").options["time_life_ns"]
