"""One incarnation of a simulated process: its engine, its log, and what the world knows of it."""

from typing import Final, final

from antiphon.engine import Engine
from antiphon.history.log import Log
from antiphon.kernel.effects import NEVER, Event
from antiphon.kernel.identity import ProcessId, View
from antiphon.kernel.inputs import Send
from antiphon.recording import ProcessRecorder

NO_VIEW: Final = View(0, ())
"""Stands for the view of a process that has asked to join and is not in yet."""


@final
class Incarnation:
    """One incarnation of a simulated process, from its start to its crash, exclusion or last leave, or to the end of
    the run."""

    __slots__ = (
        "application_pauses",
        "backlog",
        "deadline_ns",
        "ended",
        "engine",
        "host",
        "log",
        "phases",
        "process",
        "reacting",
        "recorder",
        "tick_at_ns",
        "ticked_ns",
        "ticks_now",
        "told",
        "views",
    )

    def __init__(self, host: int, process: ProcessId, engine: Engine, log: Log) -> None:
        self.host = host
        self.process = process
        self.engine = engine
        self.log = log
        self.recorder = ProcessRecorder(log)
        self.views: dict[str, View] = {}
        """The view of each group that it is in; NO_VIEW where it has asked to join."""
        self.phases: dict[str, int] = {}
        """The phase that its membership of each group was last seen in."""
        self.backlog: list[Send] = []
        """What its application has sent and the engine has not accepted yet; offered again after each step."""
        self.application_pauses: dict[str, int] = {}
        """How many pauses of its application are on, by group."""
        self.told: list[Event] = []
        """What its engine has told of what is no group, and the workload does not know yet."""
        self.reacting = False
        """Whether the workload is being told."""
        self.ended = False
        self.deadline_ns = NEVER
        self.tick_at_ns = NEVER
        """When the earliest tick that is scheduled comes."""
        self.ticked_ns = -1
        self.ticks_now = 0
        """How many ticks it has taken at `ticked_ns`."""

    def can_send(self, send: Send) -> bool:
        """Whether the group, and the one member that the message is for, are still there."""
        return self.is_in(send.group) and all(self.views[send.group].rank(one) >= 0 for one in send.destinations)

    def member(self, group: str, name: str) -> ProcessId | None:
        """The process of this name in the view that this one is in."""
        return next((member for member in self.views[group].members if member.name == name), None)

    def is_in(self, group: str) -> bool:
        """Whether it is in a view of the group."""
        view = self.views.get(group)
        return view is not None and view is not NO_VIEW
