"""A workload for processes that do something beside groups. What their applications do is given as functions, which can
be plain Python beside a compiled simulator."""

from collections.abc import Callable
from typing import final

from antiphon.kernel.effects import Event
from antiphon.simulator.workload import Workload
from antiphon.simulator.world import World


@final
class RoleHooks(Workload):
    """Calls these functions with the host; they act by `World.request`, `World.schedule` and `World.crash`."""

    def __init__(
        self,
        *,
        started: Callable[[int], None],
        react: Callable[[int, list[Event]], None],
        act: Callable[[int], None],
        may_lose: Callable[[int], bool],
        begin: Callable[[World], None] | None = None,
    ) -> None:
        self._started = started
        self._react = react
        self._act = act
        self._may_lose = may_lose
        self._begin = begin

    def begin(self, world: World) -> None:
        if self._begin is not None:
            self._begin(world)

    def started(self, world: World, host: int) -> None:
        self._started(host)

    def react(self, world: World, host: int, told: list[Event]) -> None:
        self._react(host, told)

    def act(self, world: World, host: int) -> None:
        self._act(host)

    def may_lose(self, world: World, host: int) -> bool:
        return self._may_lose(host)
