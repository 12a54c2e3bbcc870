"""view_agreement: same view id, same ranked members; ids rise; a process is in its own views.

Each view row is held to the members of the first row with its id, logs by name. At most one count per row.
"""

from antiphon.pipeline.audit.view_intervals import GroupIntervals, ViewCounts, ViewInterval, ViewWitness
from antiphon.pipeline.explain import members_differ_text, not_in_view_text, view_falls_text


def count(group: str, stays: GroupIntervals) -> ViewCounts:
    first: dict[int, tuple[str, ViewInterval]] = {}
    violations = checked = 0
    witness: ViewWitness | None = None
    for process, own in stays.items():
        before: ViewInterval | None = None
        for stay in own:
            found = _violation(group, process, stay, before, *first.setdefault(stay.view, (process, stay)))
            violations += found is not None
            witness = witness or found
            checked += 1
            before = stay
    return ViewCounts(violations, 0, checked, witness)


def _violation(
    group: str, process: str, stay: ViewInterval, before: ViewInterval | None, first_process: str, first: ViewInterval
) -> ViewWitness | None:
    row = (process, stay.index)
    if stay.members != first.members:
        text = members_differ_text(process, group, stay.view, stay.members, first_process)
        return ViewWitness(text, ((first_process, first.index), row))
    if before is not None and stay.view <= before.view:
        return ViewWitness(view_falls_text(process, group, stay.view, before.view), ((process, before.index), row))
    if process not in stay.members:
        return ViewWitness(not_in_view_text(process, group, stay.view, stay.members), (row,))
    return None
