"""Contexts: the generalised sequence labels of kindberg-1995, section 4.1.

A context gives some groups a sequence number each. Groups are known by number here (`kernel.identity.wire_id`). A
group without an entry has the number BOTTOM, which is less than every sequence number.

With `merge` as join and `precedes` as order, contexts are a semilattice whose least element is the empty context;
restriction to a set of groups keeps joins and order. tests/stacks/sequencer/test_context.py checks these laws.
"""

from collections.abc import Collection
from typing import Final

BOTTOM: Final = -1
"""The number of a group without an entry; sequence numbers start at 0."""

Context = dict[int, int]
"""Sequence numbers by group. None is BOTTOM: such an entry is left out."""


def component(context: Context, group: int) -> int:
    """The number of `group` in the context, or BOTTOM."""
    return context.get(group, BOTTOM)


def restrict(context: Context, groups: Collection[int]) -> Context:
    """The entries of these groups alone."""
    return {group: number for group, number in context.items() if group in groups}


def merge(one: Context, other: Context) -> Context:
    """For each group that either has, the larger number. Changes neither."""
    merged = dict(one)
    merge_into(merged, other)
    return merged


def merge_into(context: Context, other: Context) -> None:
    """Raise the entries of `context` to those of `other`."""
    for group, number in other.items():
        if number > context.get(group, BOTTOM):
            context[group] = number


def precedes(one: Context, other: Context) -> bool:
    """Whether no group has a larger number in `one` than in `other`: the paper's "<="."""
    return all(number <= other.get(group, BOTTOM) for group, number in one.items())


def strictly_precedes(one: Context, other: Context) -> bool:
    """Whether `one` precedes `other`, and some group has a smaller number in it: the paper's "<"."""
    return precedes(one, other) and one != other
