"""view_agreement: same view id, same ranked members; ids rise; a process is in its own views.

Each view row is held to the members that most rows with its id have; among equally many, to those of the first row,
logs by name. At most one count per row.
"""

from collections import defaultdict

from antiphon.pipeline.audit.view_intervals import GroupIntervals, ViewCounts, ViewInterval, ViewWitness
from antiphon.pipeline.explain import members_differ_text, not_in_view_text, view_falls_text
from antiphon.pipeline.roots import fewer_names


def count(group: str, stays: GroupIntervals) -> ViewCounts:
    standards = _standards(stays)
    violations = checked = 0
    differing: tuple[set[int], set[str]] = (set(), set())
    witness: ViewWitness | None = None
    for process, own in stays.items():
        before: ViewInterval | None = None
        for stay in own:
            found = _violation(group, process, stay, before, *standards[stay.view])
            violations += found is not None
            if found is not None:
                differing[0].add(stay.view)
                differing[1].add(process)
            witness = witness or found
            checked += 1
            before = stay
    return ViewCounts(violations, 0, checked, witness, fewer_names(*differing))


def _standards(stays: GroupIntervals) -> dict[int, tuple[str, ViewInterval]]:
    """By view id: the first process, and its row, of those with the members that most rows have."""
    rows: dict[int, dict[tuple[str, ...], list[tuple[str, ViewInterval]]]] = defaultdict(lambda: defaultdict(list))
    for process, own in stays.items():
        for stay in own:
            rows[stay.view][stay.members].append((process, stay))
    return {view: max(by_members.values(), key=len)[0] for view, by_members in rows.items()}


def _violation(
    group: str, process: str, stay: ViewInterval, before: ViewInterval | None, other: str, standard: ViewInterval
) -> ViewWitness | None:
    row = (process, stay.index)
    if stay.members != standard.members:
        text = members_differ_text(process, group, stay.view, stay.members, other)
        return ViewWitness(text, ((other, standard.index), row))
    if before is not None and stay.view <= before.view:
        return ViewWitness(view_falls_text(process, group, stay.view, before.view), ((process, before.index), row))
    if process not in stay.members:
        return ViewWitness(not_in_view_text(process, group, stay.view, stay.members), (row,))
    return None
