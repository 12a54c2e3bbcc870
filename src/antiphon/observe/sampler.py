"""Once a second: totals of each group, for the page, and the time until all members have what was sent.

Stability is timed by waiting, as `Group.flush` does, for what was sent from here; one wait per group at a time, and
none where nothing was sent since the last. Nothing is asked of the network: acknowledgements come anyway.

Bounds: SAMPLES_MAX samples of GROUPS_MAX groups, the first by name.
"""

import asyncio
from collections import deque
from typing import Any, Final, final

from antiphon.kernel.errors import AntiphonError
from antiphon.observe.meter import GroupMeter, Meter
from antiphon.runtime.environment import current_environment
from antiphon.runtime.group_events import NO_VIEW
from antiphon.runtime.inspection import NodeInspection

SAMPLE_S: Final = 1.0
SAMPLES_MAX: Final = 300
GROUPS_MAX: Final = 32


@final
class Sampler:
    """Takes samples of one node."""

    def __init__(self, node: NodeInspection, meter: Meter) -> None:
        self._node = node
        self._meter = meter
        self.samples: deque[dict[str, Any]] = deque(maxlen=SAMPLES_MAX)
        self.probes: dict[str, asyncio.Task[None]] = {}
        """The waits for stability that are under way, by group."""
        self._probed: dict[str, int] = {}
        """How many messages had been sent when the last wait began."""

    async def run(self) -> None:
        """Go on until cancelled."""
        while True:
            await asyncio.sleep(SAMPLE_S)
            self._sample()
            self._probe()

    def _sample(self) -> None:
        groups = {}
        for name, group in sorted(self._node.groups.items())[:GROUPS_MAX]:
            meter = self._meter.counts(name)
            groups[name] = [
                sum(meter.sent.values()), sum(meter.delivered.values()), group.unread, len(group.view.members),
            ]  # fmt: skip
        self.samples.append({"time_ns": current_environment().time_ns(), "groups": groups})

    def _probe(self) -> None:
        for name, group in self._node.groups.items():
            meter = self._meter.counts(name)
            sent = sum(meter.sent.values())
            if name not in self.probes and sent != self._probed.get(name, 0) and group.view is not NO_VIEW:
                self._probed[name] = sent
                task = asyncio.create_task(self._time(name, meter))
                self.probes[name] = task
        for name in [name for name in self._probed if name not in self._node.groups]:
            del self._probed[name]

    async def _time(self, name: str, meter: GroupMeter) -> None:
        loop = asyncio.get_running_loop()
        began_s = loop.time()
        try:
            await self._node.until_stable(name)
        except AntiphonError:
            return  # the group is over
        finally:
            self.probes.pop(name, None)
        meter.stability.add(loop.time() - began_s)
