"""Memory and processor time of a program, its child processes included.

Both are sampled several times a second. Two maxima of memory, summed over the processes: resident memory, in which
shared pages count for each process, and proportional memory, in which they count once. Mapped files count in both as
far as they are in memory. Processor seconds are those of each process at its last sample: on a machine that others use,
too, they are more meaningful than elapsed time.
"""

import os
import threading
import time
from pathlib import Path
from typing import Final

INTERVAL_S: Final = 0.25
REST: Final = 20
"""A look at many gigabytes takes its time, and stops who is looked at: so many times as long it is left alone."""
KIB: Final = 1024


class MemoryWatch:
    """Watches a process and all below it, from `start` to `stop`."""

    def __init__(self, process: int) -> None:
        self._process = process
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self.resident_bytes = 0
        self.proportional_bytes = 0
        self._ticks: dict[int, int] = {}

    def __enter__(self) -> "MemoryWatch":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    @property
    def processor_s(self) -> float:
        return sum(self._ticks.values()) / os.sysconf("SC_CLK_TCK")

    def _watch(self) -> None:
        took_s = 0.0
        while not self._ended.wait(max(INTERVAL_S, REST * took_s)):
            began_s = time.perf_counter()
            processes = family(self._process)
            for process in processes:
                self._ticks[process] = max(self._ticks.get(process, 0), _ticks_of(process))
            found = [_memory_of(process) for process in processes]
            self.resident_bytes = max(self.resident_bytes, sum(resident for resident, _ in found))
            self.proportional_bytes = max(self.proportional_bytes, sum(share for _, share in found))
            took_s = time.perf_counter() - began_s


def family(process: int) -> list[int]:
    """A process and all that descend from it."""
    parents: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            except OSError:
                continue  # it ended meanwhile
            parents.setdefault(parent, []).append(int(entry.name))
    found = [process]
    for known in found:
        found += parents.get(known, [])
    return found


def _memory_of(process: int) -> tuple[int, int]:
    """Resident and proportional bytes of one process."""
    try:
        lines = Path(f"/proc/{process}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0, 0
    sizes = {line.split(":")[0]: int(line.split()[1]) * KIB for line in lines[1:] if line.endswith("kB")}
    return sizes.get("Rss", 0), sizes.get("Pss", 0)


def _ticks_of(process: int) -> int:
    """How long a process has kept processors busy, in ticks of the clock."""
    try:
        after_name = (Path("/proc") / str(process) / "stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0
    return int(after_name[11]) + int(after_name[12])
