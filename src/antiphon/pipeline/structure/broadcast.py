"""Broadcast domains from traffic (transis-1992, section 4): who should hear each other's messages directly.

In a broadcast domain every member sees every message, wanted or not. A message for members elsewhere is exported, by
one member of the domain, to each other domain that holds some. Few large domains waste attention, many small ones waste
exports. So a division of the processes has a cost, counted over all messages to whole groups:

  in vain   one for each process that sees the message and is not meant: the rest of every domain that sees it
  export    EXPORT_COST for each domain that sees it beyond the first

The cost is a sum over domains: a domain with k of a group's members, k > 0, pays (size - k + EXPORT_COST) per message.
So whether two domains should be one depends on these two alone. Beginning with the processes apart, the two whose union
saves most become one, until no union saves anything. That need not end in the best division, but never in one that
costs more than each process by itself; where all connected processes in one domain cost less, that is taken.

Memory: a table of savings, a number for each pair of kinds of process; processes in the same groups are of one kind,
since their union always saves.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from antiphon.kernel.errors import UsageError

EXPORT_COST: Final = 4
"""In messages that a process sees in vain: one message over the link and one multicast behind it, and, since the nodes
at its ends are replicated, one more multicast among these at either end (section 4)."""

KINDS_MAX: Final = 4_000
"""Kinds of process: their table of savings takes 128 MB."""

Counts = NDArray[np.float64]


@dataclass(frozen=True)
class BroadcastDomain:
    """Processes that should share one broadcast domain."""

    members: tuple[str, ...]
    relay: str | None
    """Who should export and import (the "xport node"): the member in most of the traffic that crosses, if any does."""
    crossing: tuple[str, ...]
    """The groups that also have members in other domains."""


def broadcast_domains(
    members: Mapping[str, frozenset[str]], messages: Mapping[str, int]
) -> tuple[BroadcastDomain, ...]:
    """A division of all members into domains; the largest come first."""
    groups = sorted(members)
    weights = np.array([messages[group] for group in groups], float)
    kinds = _kinds(members, groups)
    if len(kinds) > KINDS_MAX:
        raise UsageError(
            f"the processes are in {len(kinds):,} different sets of groups, but broadcast domains can be suggested for "
            f"up to {KINDS_MAX:,}; look at a part of the history"
        )
    domains: list[frozenset[str]] = []
    for part in _apart(kinds):
        own = [kinds[kind] for kind in part]
        presence = np.array([[group in kind for group in groups] for kind in part], float)
        parted = [frozenset().union(*(own[place] for place in block)) for block in _unite(own, presence, weights)]
        whole = [frozenset().union(*own)]
        saves = cost(whole, members, messages) < cost(parted, members, messages)
        domains += whole if saves else parted
    described = [_describe(domain, members, messages) for domain in domains]
    return tuple(sorted(described, key=lambda domain: (-len(domain.members), domain.members)))


def cost(division: list[frozenset[str]], members: Mapping[str, frozenset[str]], messages: Mapping[str, int]) -> float:
    """What a division of the processes costs, message by message as defined above."""
    total = 0.0
    for group, meant in members.items():
        seeing = [domain for domain in division if domain & meant]
        if seeing:
            in_vain = sum(len(domain - meant) for domain in seeing)
            total += messages[group] * (in_vain + EXPORT_COST * (len(seeing) - 1))
    return total


def _kinds(members: Mapping[str, frozenset[str]], groups: list[str]) -> dict[frozenset[str], frozenset[str]]:
    """Set of groups → the processes that are in exactly these."""
    groups_of: dict[str, list[str]] = {}
    for group in groups:
        for process in members[group]:
            groups_of.setdefault(process, []).append(group)
    kinds: dict[frozenset[str], set[str]] = {}
    for process in sorted(groups_of):
        kinds.setdefault(frozenset(groups_of[process]), set()).add(process)
    return {groups: frozenset(processes) for groups, processes in kinds.items()}


def _apart(kinds: Mapping[frozenset[str], frozenset[str]]) -> list[list[frozenset[str]]]:
    """The kinds by connected component: a union over components never saves anything."""
    parts: list[tuple[set[str], list[frozenset[str]]]] = []
    for kind in kinds:
        touched = [part for part in parts if part[0] & kind]
        merged = (set(kind).union(*(part[0] for part in touched)), [kind, *(k for part in touched for k in part[1])])
        parts = [part for part in parts if part not in touched] + [merged]
    return [part[1] for part in parts]


def _unite(own: list[frozenset[str]], presence: Counts, weights: Counts) -> list[list[int]]:
    """Unite blocks of kinds while that saves something; each block is a list of places in `own`."""
    sizes = np.array([len(kind) for kind in own], float)
    counts = presence * sizes[:, None]
    blocks = [[place] for place in range(len(own))]
    alive = np.ones(len(own), bool)
    savings = np.array([_savings(place, sizes, counts, weights) for place in range(len(own))])
    np.fill_diagonal(savings, -np.inf)
    while True:
        one, other = divmod(int(np.argmax(savings)), len(own))
        if savings[one, other] <= 0:
            return [block for block, lives in zip(blocks, alive, strict=True) if lives]
        blocks[one] += blocks[other]
        sizes[one] += sizes[other]
        counts[one] += counts[other]
        alive[other] = False
        fresh = _savings(one, sizes, counts, weights)
        fresh[~alive] = fresh[one] = -np.inf
        savings[one] = savings[:, one] = fresh
        savings[other] = savings[:, other] = -np.inf


def _savings(place: int, sizes: Counts, counts: Counts, weights: Counts) -> Counts:
    """What the union of one block with each other block saves."""
    apart = _block_cost(sizes, counts, weights)
    united = _block_cost(sizes + sizes[place], counts + counts[place], weights)
    savings: Counts = apart + apart[place] - united
    return savings


def _block_cost(sizes: Counts, counts: Counts, weights: Counts) -> Counts:
    each: Counts = ((counts > 0) * (sizes[:, None] - counts + EXPORT_COST)) @ weights
    return each


def _describe(
    domain: frozenset[str], members: Mapping[str, frozenset[str]], messages: Mapping[str, int]
) -> BroadcastDomain:
    crossing = [group for group, meant in sorted(members.items()) if meant & domain and not meant <= domain]
    carried = dict.fromkeys(domain, 0)
    for group in crossing:
        for process in members[group] & domain:
            carried[process] += messages[group] + 1
    relay = min(carried, key=lambda process: (-carried[process], process)) if crossing else None
    return BroadcastDomain(tuple(sorted(domain)), relay, tuple(crossing))
