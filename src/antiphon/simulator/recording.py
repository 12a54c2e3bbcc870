"""From an engine's events to `antiphon.recording`. How a membership ends is for the world to record: what it means
depends on the process's other groups."""

from antiphon.kernel.effects import (
    BarrierReached,
    Delivered,
    Event,
    Installed,
    MajorityLost,
    Received,
    RoleClosed,
    RoleOpened,
    Sent,
    Suspected,
    Transitional,
)
from antiphon.kernel.identity import ProcessId
from antiphon.recording import ProcessRecorder


def record(
    recorder: ProcessRecorder, process: ProcessId, now_ns: int, event: Event, stack: str, policy: str, domain: str
) -> None:
    """Write down one event of one process. The application is handed what the engine delivers as it comes."""
    if isinstance(event, Delivered):
        recorder.deliver_event(event, now_ns)
    elif isinstance(event, Sent):
        recorder.depart(event, now_ns)
    elif isinstance(event, BarrierReached):
        recorder.barrier_event(event, now_ns)
    elif isinstance(event, Received):
        recorder.receive(event, now_ns)
    elif isinstance(event, Installed):
        if process in event.joined:
            recorder.start(event.group, stack, policy, domain, now_ns)
        recorder.view(event.group, event.view, now_ns)
    elif isinstance(event, Suspected):
        recorder.suspect(event, now_ns)
    elif isinstance(event, Transitional):
        recorder.transitional(event.group, event.view_id, event.members, now_ns)
    elif isinstance(event, MajorityLost):
        recorder.stalled(event.group, now_ns)
    elif isinstance(event, RoleOpened | RoleClosed):
        recorder.role(event, now_ns)
