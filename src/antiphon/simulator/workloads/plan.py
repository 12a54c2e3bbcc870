"""What every workload has to go by: how many messages, over what time, at which levels, of what sizes."""

from random import Random
from typing import final


@final
class WorkloadPlan:
    """The part of a run's options that a workload sees, and the workload's own random generator."""

    __slots__ = ("_filler", "duration_ns", "levels", "messages", "random", "size_max")

    def __init__(self, messages: int, duration_ns: int, levels: list[int], size_max: int, random: Random) -> None:
        self.messages = messages
        self.duration_ns = duration_ns
        self.levels = levels
        self.size_max = size_max
        self.random = random
        self._filler = bytes(range(256)) * (size_max // 256 + 1)

    def payload(self) -> bytes:
        """Some bytes; most payloads are short, few are long."""
        fraction = self.random.random()
        return self._filler[: int(self.size_max * fraction * fraction * fraction)]

    def level(self) -> int:
        return self.levels[int(self.random.random() * len(self.levels))]
