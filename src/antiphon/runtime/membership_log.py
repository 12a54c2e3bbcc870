"""Membership for operators: one line at level INFO on the logger `antiphon` for each join, view, suspicion and end, and
for what a role of the process announces.

A view without a change of members (a barrier or an epoch ended the one before) is logged at DEBUG.
"""

import logging
from typing import Final

from antiphon.kernel.effects import (
    Announced,
    DeclaredDifferently,
    Ended,
    Event,
    Installed,
    MajorityLost,
    RecoveryAsked,
    Suspected,
)
from antiphon.kernel.identity import ProcessId

log: Final = logging.getLogger("antiphon")


def log_membership(process: ProcessId, event: Event) -> None:
    """Log `event` as `process` sees it; events that are not about membership are ignored."""
    if isinstance(event, Installed):
        changes = {"joined": event.joined, "left": event.left, "failed": event.failed}
        told = [f"{word} {_names(processes)}" for word, processes in changes.items() if processes]
        members = _names(event.view.members)
        level = logging.INFO if told else logging.DEBUG
        text = "; ".join([f"view {event.view.id} has {members}", *told])
        log.log(level, "%r in group %s: %s", process, event.group, text)
    elif isinstance(event, Suspected):
        log.info("%r in group %s: suspects %r in view %d", process, event.group, event.process, event.view_id)
    elif isinstance(event, MajorityLost):
        log.info("%r in group %s: no majority can be reached, the group is stalled here", process, event.group)
    elif isinstance(event, Ended):
        how = "was refused" if event.refused else "was excluded" if event.excluded else "has left"
        log.info("%r in group %s: %s", process, event.group, how)
    elif isinstance(event, RecoveryAsked):
        log.warning("%r in group %s: an operator has it go on without a majority", process, event.group)
    elif isinstance(event, DeclaredDifferently):
        log.warning("%r in group %s: goes on without %r: %s", process, event.group, event.process, event.reason)
    elif isinstance(event, Announced):
        log.info("%r as %s: %s: %s", process, event.group, event.name, event.text)


def _names(processes: tuple[ProcessId, ...]) -> str:
    return ", ".join(repr(process) for process in processes)
