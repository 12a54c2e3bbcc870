"""Bursts: members send many messages at once, then pause; the case for which timestamps can be left out."""

from typing import Final, final

from antiphon.simulator.workload import Workload
from antiphon.simulator.workloads.plan import WorkloadPlan
from antiphon.simulator.world import World

_BURST_MAX: Final = 40


@final
class Bursts(Workload):
    """`messages` per member, in bursts of one to forty."""

    def __init__(self, plan: WorkloadPlan) -> None:
        self._plan = plan
        self._left: list[int] = []

    def begin(self, world: World) -> None:
        self._left = [self._plan.messages] * len(world.names)
        for host in range(len(world.names)):
            world.schedule(self._pause_ns(), host)

    def _pause_ns(self) -> int:
        bursts = 1 + self._plan.messages // (_BURST_MAX // 2)
        return int(2 * self._plan.random.random() * self._plan.duration_ns / bursts)

    def act(self, world: World, host: int) -> None:
        count = min(self._left[host], 1 + int(self._plan.random.random() * _BURST_MAX))
        if not count:
            return
        self._left[host] -= count
        world.send(host, [self._plan.payload() for _ in range(count)], self._plan.level())
        world.schedule(world.now_ns + self._pause_ns(), host)
