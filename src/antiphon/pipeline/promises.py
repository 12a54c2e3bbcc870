"""Which guarantees a history is held to.

Each group is held to what the `start` rows of its members promised, or, where the caller names guarantees, every group
to exactly those. A guarantee that was promised but that this version cannot check yet is reported as unknown; one
that the caller asks for by name is refused.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from antiphon.history.errors import UnusableHistoryError
from antiphon.history.start import StartFacts
from antiphon.kernel.errors import UsageError
from antiphon.pipeline.guarantees import CHECKED, GUARANTEES


class UnknownGuaranteeError(UsageError):
    """A guarantee was asked for that does not exist, or that cannot be checked yet."""

    def __init__(self, guarantee: str) -> None:
        problem = "cannot be checked yet" if guarantee in GUARANTEES else "is no guarantee"
        super().__init__(f"{guarantee!r} {problem}; choose from: {', '.join(CHECKED)}")
        self.guarantee = guarantee


@dataclass(frozen=True)
class Promises:
    """What is judged: by group, and over all."""

    by_group: Mapping[tuple[str, str], frozenset[str]]
    """(run, group) → guarantee ids."""
    every: frozenset[str] | None
    """Named by the caller for all groups, in place of what the groups promised."""
    claimed: frozenset[str] = frozenset()
    """Those that are claimed of another system's log, in some group."""

    def holds(self, guarantee: str, run: str, group: str) -> bool:
        """Whether this group of this run is held to the guarantee."""
        return guarantee in (self.by_group.get((run, group), ()) if self.every is None else self.every)

    def must_be_checked(self, guarantee: str) -> bool:
        """Whether it is unknown, not unchecked, where nothing could be checked: somebody asked for it by name."""
        return self.every is not None or guarantee in self.claimed

    def in_run(self, guarantee: str, run: str) -> bool:
        """Whether any group of the run is held to the guarantee."""
        if self.every is not None:
            return guarantee in self.every
        return guarantee in self._by_run.get(run, ())

    @cached_property
    def _by_run(self) -> Mapping[str, frozenset[str]]:
        """What any group of a run is held to."""
        result: dict[str, frozenset[str]] = {}
        for (run, _), ids in self.by_group.items():
            result[run] = result.get(run, frozenset()) | ids
        return result

    def all(self) -> tuple[str, ...]:
        """Every guarantee that some group is held to, in the order of GUARANTEES."""
        chosen = frozenset().union(*self.by_group.values()) if self.every is None else self.every
        return tuple(guarantee for guarantee in GUARANTEES if guarantee in chosen)


def gather(starts: Iterable[tuple[str, str, StartFacts]], named: Sequence[str] | None) -> Promises:
    """The promises of the start rows (run, group, what they say), or those that the caller named."""
    if named is not None:
        for guarantee in named:
            if guarantee not in CHECKED:
                raise UnknownGuaranteeError(guarantee)
        if not named:
            raise UsageError(f"no guarantee is named; choose from: {', '.join(CHECKED)}")
        return Promises({}, frozenset(named))
    by_group: dict[tuple[str, str], frozenset[str]] = {}
    claimed: set[str] = set()
    for run, group, facts in starts:
        for guarantee in facts.promises:
            if guarantee not in GUARANTEES:
                problem = f"group {group!r} promises {guarantee!r}, which this version does not know; use a newer one"
                raise UnusableHistoryError(None, problem)
        by_group[run, group] = by_group.get((run, group), frozenset()) | frozenset(facts.promises)
        claimed.update(facts.promises if facts.claimed else ())
    return Promises(by_group, None, frozenset(claimed))
