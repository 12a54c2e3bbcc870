"""A simulated disk: the logs of one host, which outlive its incarnations.

What is written survives a crash of the process. It survives a power loss once it is synced, which is when `Stored` is
due: then everything that was written before is synced too, in whatever log. A power loss cuts every log back to what
was synced.
"""

from typing import final


@final
class SimulatedDisk:
    """All logs of one host."""

    __slots__ = ("_logs", "_pending", "_synced", "_writes")

    def __init__(self) -> None:
        self._logs: dict[str, list[bytes]] = {}
        self._synced: dict[str, int] = {}
        """How many records of each log, from its front, would survive a power loss."""
        self._pending: list[tuple[int, str, int]] = []
        """Writes that are not synced yet, in order: their numbers, the log, how many records."""
        self._writes = 0

    def write(self, log: str, records: list[bytes]) -> int:
        """Append records to a log; the number by which to sync them."""
        self._writes += 1
        self._logs.setdefault(log, []).extend(records)
        self._pending.append((self._writes, log, len(records)))
        return self._writes

    def sync(self, write: int) -> None:
        """Sync this write and all before it. Does nothing for one that a power loss has undone."""
        while self._pending and self._pending[0][0] <= write:
            _, log, count = self._pending.pop(0)
            self._synced[log] = self._synced.get(log, 0) + count

    def read(self, log: str) -> list[bytes]:
        """All records of a log; none if it was never written."""
        return list(self._logs.get(log, []))

    def trim(self, log: str, count: int) -> None:
        """Drop so many records from the front of a log; those that are not synced yet stay."""
        count = min(count, self._synced.get(log, 0))
        if count > 0:
            del self._logs[log][:count]
            self._synced[log] -= count

    def lose_power(self) -> None:
        """Cut every log back to what was synced."""
        self._pending.clear()
        for log, records in self._logs.items():
            del records[self._synced.get(log, 0) :]
