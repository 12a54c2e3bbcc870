"""What engines call beside the network of packets: disks and links (kernel/calls.py), carried out in virtual time.

What becomes of a call is an outcome for the incarnation that made it; the world hands it over at its time, if that
incarnation still runs. Disks sync, and links carry frames, whether it does or not.
"""

from random import Random
from typing import Final, final

from antiphon.faults import Fault
from antiphon.kernel.calls import Call, Dial, Frames, Hang, Listen, Load, Store, Trim
from antiphon.kernel.identity import ProcessId
from antiphon.kernel.options import MILLISECOND_NS
from antiphon.kernel.outcomes import CallOutcome, Loaded, Stored
from antiphon.simulator.disk import SimulatedDisk
from antiphon.simulator.links import SimulatedLinks

_DISK_NS_MIN: Final = MILLISECOND_NS // 5
_DISK_NS_MAX: Final = 5 * MILLISECOND_NS


@final
class Devices:
    """The disks of all hosts, and all links. Of what it wants, `take_outcomes` and `take_timers` tell."""

    def __init__(self, hosts: int, layers: list[Fault], seed: int) -> None:
        self.disks = [SimulatedDisk() for _ in range(hosts)]
        self._links = SimulatedLinks(layers, seed)
        self._random = Random(f"{seed}/disk")
        self._outcomes: list[tuple[int, ProcessId, CallOutcome]] = []
        self._timers: list[tuple[int, int]] = []
        self._syncs: list[tuple[int, int, ProcessId, int]] = []
        """Host, write, process and token; the timers of syncs are negative, those of links are not."""

    def call(self, now_ns: int, host: int, process: ProcessId, call: Call, dialled: ProcessId | None) -> None:
        """Carry out one call; `dialled`: the incarnation that runs at the address of a `Dial`, if one does."""
        if isinstance(call, Store):
            write = self.disks[host].write(call.log, call.records)
            self._syncs.append((host, write, process, call.token))
            self._timers.append((now_ns + self._disk_ns(), -len(self._syncs)))
        elif isinstance(call, Load):
            loaded = Loaded(call.token, self.disks[host].read(call.log))
            self._outcomes.append((now_ns + self._disk_ns(), process, loaded))
        elif isinstance(call, Trim):
            self.disks[host].trim(call.log, call.count)
        elif isinstance(call, Listen):
            self._links.listen(process, call.token)
        elif isinstance(call, Dial):
            self._links.dial(now_ns, process, call.link, dialled)
        elif isinstance(call, Frames):
            self._links.send(now_ns, process, call.link, call.frames)
        else:
            assert isinstance(call, Hang)
            self._links.hang(now_ns, process, call.link)

    def _disk_ns(self) -> int:
        return self._random.randrange(_DISK_NS_MIN, _DISK_NS_MAX)

    def advance(self, now_ns: int, timer: int) -> None:
        """A timer has come."""
        if timer >= 0:
            self._links.advance(now_ns, timer)
            return
        host, write, process, token = self._syncs[-timer - 1]
        self.disks[host].sync(write)
        self._outcomes.append((now_ns, process, Stored(token)))

    def end_process(self, now_ns: int, process: ProcessId) -> None:
        """The incarnation is gone: its links end, its disk stays."""
        self._links.end_process(now_ns, process)

    def cut_links(self, now_ns: int, process: ProcessId) -> None:
        """All links of this incarnation break."""
        self._links.cut(now_ns, process)

    def lose_power(self, host: int) -> None:
        """Cut the disk of this host back to what was synced."""
        self.disks[host].lose_power()

    def take_outcomes(self) -> list[tuple[int, ProcessId, CallOutcome]]:
        """When to hand what to whom."""
        result = self._outcomes + self._links.outcomes
        self._outcomes, self._links.outcomes = [], []
        return result

    def take_timers(self) -> list[tuple[int, int]]:
        """When to call `advance` with what."""
        result = self._timers + self._links.timers
        self._timers, self._links.timers = [], []
        return result
