"""Small histories made by hand, for all tests of the report."""

from collections.abc import Iterable
from pathlib import Path
from typing import Final

import pyarrow.parquet as pq

from antiphon.history.log import MemoryLog
from antiphon.history.segments import segment_file
from antiphon.pipeline.result import BROKEN, KEPT, Audit, Example, Finding, MemberObservation
from antiphon.report.rows import LogRow, rows_of

RUN: Final = "run-1"
GROUP: Final = "quotes"
MILLISECOND_NS: Final = 1_000_000


class Sample:
    """Logs in step with one clock: every call comes one millisecond after the one before."""

    def __init__(self, *names: str) -> None:
        self.now_ns = 0
        self.logs = {name: MemoryLog(run=RUN, process=name, merge=False) for name in names}
        self.sent = dict.fromkeys(names, 0)
        self.members = [f"{name}/1" for name in names]
        for log in self.logs.values():
            log.view(self._tick(), GROUP, 1, self.members)

    def _tick(self) -> int:
        self.now_ns += MILLISECOND_NS
        return self.now_ns

    def send(self, name: str, count: int = 1) -> int:
        """The number of the first message sent."""
        number = self.sent[name] + 1
        self.sent[name] += count
        self.logs[name].send(self._tick(), GROUP, 1, number, count, "causal", count)
        return number

    def deliver(self, name: str, sender: str, number: int, count: int = 1) -> None:
        self.logs[name].deliver(self._tick(), GROUP, 1, sender, 1, number, count, "causal", count)

    def receive(self, name: str, sender: str, number: int) -> None:
        self.logs[name].receive(self._tick(), GROUP, 1, sender, 1, number, 1, "causal", 1)

    def multicast(self, name: str, *, to: Iterable[str] | None = None) -> int:
        """Sent by one and delivered by all (or by those named) at once."""
        number = self.send(name)
        for other in self.logs if to is None else to:
            self.deliver(other, name, number)
        return number

    def stop(self) -> None:
        for log in self.logs.values():
            log.stop(self._tick())

    def rows(self) -> list[LogRow]:
        return [row for log in self.logs.values() for row in rows_of(log.table())]

    def write(self, directory: Path) -> Path:
        for name, log in self.logs.items():
            pq.write_table(log.table(), segment_file(directory, name, 1, 0), row_group_size=500)
        return directory

    def index(self, name: str, kind: str, number: int, sender: str | None = None) -> tuple[str, int]:
        """The place of the first row of this kind that stands for this message."""
        for row in rows_of(self.logs[name].table()):
            if row.kind == kind and row.sender == f"{sender or name}/1" and row.number <= number <= row.last:
                return row.place
        raise LookupError(f"{name} has no {kind} row of number {number}")

    def audit(self, *findings: Finding) -> Audit:
        verdict = next((finding.verdict for finding in findings if finding.verdict != KEPT), KEPT)
        rows = self.rows()
        observations = tuple(
            observation(name, delivered=sum(row.count for row in rows if row.kind == "deliver"), last_ns=self.now_ns)
            for name in self.logs
        )
        events = sum(row.count or 1 for row in rows)
        return Audit(
            verdict=verdict, events=events, rows=len(rows), runs=1, findings=findings, observations=observations
        )


def observation(
    name: str, *, group: str = GROUP, run: str = RUN, delivered: int = 10, last_ns: int = 10**9, ending: str = "quiet"
) -> MemberObservation:
    return MemberObservation(
        run=run, process=f"{name}/1", group=group, sent=4, delivered=delivered, delivered_bytes=640,
        latency_ns_p50=40_000, latency_ns_p99=700_000, latency_ns_max=9_000_000,
        first_ns=0, last_ns=last_ns, ending=ending,
    )  # fmt: skip


def kept(guarantee: str) -> Finding:
    return Finding(guarantee=guarantee, verdict=KEPT, violations=0, unknown=0, checked=1_234)


def broken(guarantee: str, text: str, *events: tuple[str, int]) -> Finding:
    example = Example(text=text, run=RUN, group=GROUP, events=events)
    return Finding(
        guarantee=guarantee, verdict=BROKEN, violations=1, unknown=0, checked=1_234, roots=1, example=example
    )


def causal_violation(late: bool = True, *, filler: int = 0) -> tuple[Sample, Finding]:
    """c delivers b#1 before a#1 (or without ever delivering a#1), although b sent it after delivering a#1."""
    sample = Sample("a", "b", "c")
    for _ in range(filler):
        sample.multicast("c")
    sample.send("a")
    sample.deliver("a", "a", 1)
    sample.deliver("b", "a", 1)
    for _ in range(filler):
        sample.multicast("c")
    sample.multicast("b")
    if late:
        sample.deliver("c", "a", 1)
    sample.stop()
    finding = broken(
        "causal",
        "c delivered b#1 before a#1, although b sent #1 after delivering a#1",
        sample.index("a", "send", 1),
        sample.index("b", "deliver", 1, "a"),
        sample.index("b", "send", 1),
        sample.index("c", "deliver", 1, "b"),
        *([sample.index("c", "deliver", 1, "a")] if late else []),
    )
    return sample, finding
