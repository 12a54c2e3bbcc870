"""Causality domains: declarations that cannot be meant are refused, each with what to do instead."""

import pytest

from antiphon.kernel.causality_domain import CausalityDomain
from antiphon.kernel.errors import UsageError

RING = CausalityDomain(groups=("a", "b", "c"), overlaps=(("a", "b"), ("b", "c")))


def test_excluded_groups_are_among_the_named_ones() -> None:
    with pytest.raises(UsageError, match="name them all in `groups`"):
        CausalityDomain(rule="epochs", excluded=("a",))
    with pytest.raises(UsageError, match="has no group 'hcat'; its groups are: a, chat"):
        CausalityDomain(rule="epochs", groups=("a", "chat"), excluded=("hcat",))
    pairs = (("a", "chat"),)
    assert CausalityDomain(rule="epochs", groups=("a", "chat"), overlaps=pairs, excluded=("chat",)).overlaps == pairs


def test_excluded_groups_break_all_cycles_of_the_declared_overlaps() -> None:
    groups, ring = ("a", "b", "c", "d"), (("a", "b"), ("b", "c"), ("c", "a"))
    with pytest.raises(UsageError, match="does not say which groups share members; name all pairs in `overlaps`"):
        CausalityDomain(rule="epochs", groups=groups, excluded=("d",))
    with pytest.raises(UsageError, match=r"have a cycle through .*; exclude a group on it"):
        CausalityDomain(rule="epochs", groups=groups, overlaps=(*ring, ("c", "d")), excluded=("d",))
    fit = CausalityDomain(rule="epochs", groups=groups, overlaps=(*ring, ("c", "d"), ("b", "a")), excluded=("c",))
    with pytest.raises(UsageError, match="no overlap of the groups 'd' and 'a'"):
        fit.check_groups("d", ["a"])


def test_overlaps_are_among_the_named_groups() -> None:
    with pytest.raises(UsageError, match="has no group 'd'"):
        CausalityDomain(groups=("a", "b"), overlaps=(("a", "d"),))


def test_a_process_joins_named_groups_only() -> None:
    RING.check_groups("a", [])
    with pytest.raises(UsageError, match="has no group 'd'; its groups are: a, b, c; declare it"):
        RING.check_groups("d", [])


def test_a_process_is_in_no_two_groups_whose_overlap_is_not_declared() -> None:
    RING.check_groups("b", ["a", "c"])
    with pytest.raises(UsageError, match="no overlap of the groups 'c' and 'a'"):
        RING.check_groups("c", ["b", "a"])
    CausalityDomain().check_groups("c", ["b", "a"])
