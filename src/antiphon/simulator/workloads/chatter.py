"""Chatter: every member sends on its own, one message at a time, at random times."""

from typing import final

from antiphon.simulator.workload import Workload
from antiphon.simulator.workloads.plan import WorkloadPlan
from antiphon.simulator.world import World


@final
class Chatter(Workload):
    """`messages` single sends per member, spread over the duration."""

    def __init__(self, plan: WorkloadPlan) -> None:
        self._plan = plan

    def begin(self, world: World) -> None:
        for host in range(len(world.names)):
            for _ in range(self._plan.messages):
                world.schedule(int(self._plan.random.random() * self._plan.duration_ns), host)

    def act(self, world: World, host: int) -> None:
        world.send(host, [self._plan.payload()], self._plan.level())
