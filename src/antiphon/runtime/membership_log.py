"""Membership for operators: one line on the logger `antiphon` for each view, suspicion, stall and end, and for what a
role of the process announces (logs.py).

A view without a change of members (a barrier or an epoch ended the one before) is logged at DEBUG.
"""

import logging

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
from antiphon.runtime.logs import log_event


def log_membership(process: ProcessId, event: Event) -> None:
    """Log `event` as `process` sees it; events that are not about membership are ignored."""
    if isinstance(event, Installed):
        _log_view(process, event)
    elif isinstance(event, Suspected):
        log_event(
            logging.INFO,
            "member_suspected",
            process=process,
            group=event.group,
            member=event.process,
            view=event.view_id,
        )
    elif isinstance(event, MajorityLost):
        text = "no majority can be reached"
        log_event(logging.WARNING, "group_stalled", text, process=process, group=event.group)
    elif isinstance(event, Ended):
        _log_end(process, event)
    elif isinstance(event, RecoveryAsked):
        text = "an operator has it go on without a majority"
        log_event(logging.WARNING, "group_recovered", text, process=process, group=event.group)
    elif isinstance(event, DeclaredDifferently):
        log_event(
            logging.WARNING,
            "member_declared_differently",
            f"goes on without {event.process!r}: {event.reason}",
            process=process,
            group=event.group,
            member=event.process,
        )
    elif isinstance(event, Announced):
        log_event(logging.INFO, "announced", event.text, process=process, role=event.group, name=event.name)


def _log_view(process: ProcessId, event: Installed) -> None:
    changed = event.joined or event.left or event.failed
    log_event(
        logging.INFO if changed else logging.DEBUG,
        "view_installed",
        process=process,
        group=event.group,
        view=event.view.id,
        members=event.view.members,
        joined=event.joined,
        left=event.left,
        failed=event.failed,
    )


def _log_end(process: ProcessId, event: Ended) -> None:
    if event.refused:
        log_event(logging.WARNING, "group_refused", event.reason, process=process, group=event.group)
    elif event.excluded:
        log_event(logging.WARNING, "group_excluded", event.reason, process=process, group=event.group)
    else:
        log_event(logging.INFO, "group_left", process=process, group=event.group)
