"""Causality domains: which groups are kept in causal order with each other, and by what rule (isis-1991, 6 and 7.3).

Groups of one domain at one process share one causal order: what a process sends to one group comes after all that it
has sent or delivered in the others. Between domains there is none; `flush` before going from one to the other.

  carry         messages carry the vector times of other groups where they still matter (6.1, 6.3)
  conservative  a process that turns to another group first waits until all it has sent or delivered elsewhere is
                delivered at all members; messages carry the time of their own group only, and the views of others (6.7)
  epochs        messages carry the times of their sender's own groups; around the excluded groups, which break the
                cycles of the overlap graph, a group is flushed where a process turns to it from another (6.7)
"""

from dataclasses import dataclass
from typing import Final

from antiphon.kernel.errors import UsageError

CARRY: Final = "carry"
CONSERVATIVE: Final = "conservative"
EPOCHS: Final = "epochs"
RULES: Final = (CARRY, CONSERVATIVE, EPOCHS)


@dataclass(frozen=True, kw_only=True)
class CausalityDomain:
    """One causality domain. All processes that share groups in it must declare it alike."""

    name: str = "main"
    rule: str = CARRY
    resilience: int = 0
    """k: how many members beside its sender must hold a message before its past may cross into another group. So many
    members may fail at once and no message is lost that another group's messages follow. 0: all members (6.5)."""
    groups: tuple[str, ...] = ()
    """The names of all groups of the domain, if they are known: then no other group can be joined in it, and
    `overlaps` and `excluded` name these only. None named: any group can be joined."""
    overlaps: tuple[tuple[str, str], ...] = ()
    """All pairs of groups of the domain that share members, if they are known and will not change. Nobody can be in two
    groups that are no pair here. Under `carry`, only times of groups in the same biconnected component travel then
    (6.6); under `epochs` they show that `excluded` is right; under `conservative` they mean nothing."""
    excluded: tuple[str, ...] = ()
    """Under `epochs`: groups without which the overlap graph has no cycles; `groups` and `overlaps` must then be given.
    None named: all of them, which is safe."""

    def __post_init__(self) -> None:
        if self.rule not in RULES:
            raise UsageError(f"there is no rule {self.rule!r} for causality domains; choose one of: {', '.join(RULES)}")
        if self.resilience < 0:
            raise UsageError(
                f"the resilience of domain {self.name!r} is {self.resilience}, but it counts members: 0 or more"
            )
        if self.overlaps and self.rule == CONSERVATIVE:
            raise UsageError(
                f"the overlaps of domain {self.name!r} matter under the rules `carry` and `epochs`, not `{self.rule}`"
            )
        if self.excluded and self.rule != EPOCHS:
            raise UsageError(f"excluded groups matter under the rule `epochs` only, not `{self.rule}`")
        if self.excluded and not self.groups:
            raise UsageError(
                f"domain {self.name!r} excludes {', '.join(self.excluded)}, but does not say which groups it has; name "
                "them all in `groups`, so that a misspelt name is noticed"
            )
        for name in [*[name for pair in self.overlaps for name in pair], *self.excluded]:
            if self.groups and name not in self.groups:
                raise UsageError(
                    f"domain {self.name!r} has no group {name!r}; its groups are: {', '.join(self.groups)}"
                )
        if self.excluded:
            self._check_excluded()

    def _check_excluded(self) -> None:
        """Raise UsageError unless the overlaps are known and have no cycle without the excluded groups."""
        if not self.overlaps:
            raise UsageError(
                f"domain {self.name!r} excludes {', '.join(self.excluded)}, but does not say which groups share "
                "members; name all pairs in `overlaps`, so that a cycle among the others is noticed"
            )
        roots: dict[str, str] = {}
        for one, other in {(min(pair), max(pair)) for pair in self.overlaps}:
            if one in self.excluded or other in self.excluded:
                continue
            first, second = _root(roots, one), _root(roots, other)
            if first == second:
                raise UsageError(
                    f"in domain {self.name!r} the overlaps of the groups that are not excluded have a cycle through "
                    f"{one!r} and {other!r}; exclude a group on it"
                )
            roots[first] = second

    def check_groups(self, group: str, others: list[str]) -> None:
        """Raise UsageError if a process in the groups `others` of the domain cannot join `group` as well."""
        if self.groups and group not in self.groups:
            raise UsageError(
                f"domain {self.name!r} has no group {group!r}; its groups are: {', '.join(self.groups)}; declare it "
                "there, or join the group in another domain"
            )
        for other in others if self.overlaps else []:
            if (group, other) not in self.overlaps and (other, group) not in self.overlaps:
                raise UsageError(
                    f"domain {self.name!r} declares no overlap of the groups {group!r} and {other!r}, but this process "
                    "would be in both; add the pair to `overlaps` at all processes, or declare no overlaps"
                )


def _root(roots: dict[str, str], group: str) -> str:
    """The group that stands for all groups that are connected with this one."""
    while group in roots:
        group = roots[group]
    return group
