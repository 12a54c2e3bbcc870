"""Dialogue: members answer what they receive, so that long causal chains run from process to process."""

from typing import Final, final

from antiphon.kernel.effects import Delivered
from antiphon.simulator.workload import Workload
from antiphon.simulator.workloads.plan import WorkloadPlan
from antiphon.simulator.world import World

_OPENINGS: Final = 4


@final
class Dialogue(Workload):
    """Each member opens with every fourth of its messages at random times, and answers deliveries with the rest."""

    def __init__(self, plan: WorkloadPlan) -> None:
        self._plan = plan
        self._left: list[int] = []

    def begin(self, world: World) -> None:
        self._left = [self._plan.messages] * len(world.names)
        for host in range(len(world.names)):
            for _ in range(1 + self._plan.messages // _OPENINGS):
                world.schedule(int(self._plan.random.random() * self._plan.duration_ns), host)
            # What no delivery has called for is sent at the end.
            world.schedule(self._plan.duration_ns, host)

    def act(self, world: World, host: int) -> None:
        count = self._left[host] if world.now_ns >= self._plan.duration_ns else min(1, self._left[host])
        self._send(world, host, count)

    def delivered(self, world: World, host: int, event: Delivered) -> None:
        own = event.sender.name == world.names[host]
        if not own and self._left[host] and self._plan.random.random() < 2.0 / len(world.names):
            self._send(world, host, 1)

    def _send(self, world: World, host: int, count: int) -> None:
        if count:
            self._left[host] -= count
            world.send(host, [self._plan.payload() for _ in range(count)], self._plan.level())
