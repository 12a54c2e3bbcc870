"""From an engine's events to the rows of a log. How a membership ends is for the churn to record: what it means depends
on the process's other groups."""

from antiphon.history.log import Log
from antiphon.history.schema import BARRIER
from antiphon.kernel.effects import BarrierReached, Delivered, Event, Installed, MajorityLost, Received, Sent, Suspected
from antiphon.kernel.identity import ProcessId
from antiphon.kernel.levels import LEVEL_NAMES, SAFE
from antiphon.stacks.registry import offer


def record(log: Log, now_ns: int, event: Event, stack: str, policy: str) -> None:
    """Write down one event of one process."""
    if isinstance(event, Delivered):
        log.deliver(
            now_ns,
            event.group,
            event.view_id,
            event.sender.name,
            event.sender.incarnation,
            event.number,
            len(event.payloads),
            LEVEL_NAMES[event.level],
            event.size,
        )
    elif isinstance(event, Sent):
        log.send(
            now_ns,
            event.group,
            event.view_id,
            event.number,
            event.count,
            LEVEL_NAMES[event.level],
            event.size,
            tuple(repr(process) for process in event.destinations) or None,
            BARRIER if event.barrier else None,
        )
    elif isinstance(event, BarrierReached):
        sender = event.sender
        size = len(event.payload)
        level = LEVEL_NAMES[SAFE]
        log.deliver(
            now_ns, event.group, event.view_id, sender.name, sender.incarnation, event.number, 1, level, size, BARRIER
        )
    elif isinstance(event, Received):
        log.receive(
            now_ns,
            event.group,
            event.view_id,
            event.sender.name,
            event.sender.incarnation,
            event.number,
            event.count,
            LEVEL_NAMES[event.level],
            event.size,
        )
    elif isinstance(event, Installed):
        if ProcessId(log.process, log.incarnation) in event.joined:
            offered = offer(stack)
            log.start(now_ns, event.group, stack, policy, offered.levels, offered.promises(policy))
        log.view(now_ns, event.group, event.view.id, [repr(member) for member in event.view.members])
    elif isinstance(event, Suspected):
        log.suspect(now_ns, event.group, event.view_id, repr(event.process))
    elif isinstance(event, MajorityLost):
        log.note(now_ns, f"group {event.group!r} has no majority and stands still")
