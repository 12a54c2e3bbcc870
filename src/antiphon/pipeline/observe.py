"""Counts and latencies per log and group, for the reference auditor."""

import numpy as np

from antiphon.pipeline.latency import coarse, percentile
from antiphon.pipeline.reference_world import ReferenceWorld, messages_of
from antiphon.pipeline.result import MemberObservation


def observe(run: str, world: ReferenceWorld) -> list[MemberObservation]:
    """One observation for each log and each group that it has rows of."""
    return [
        _observe_member(run, world, process, group)
        for process, log in world.logs.items()
        for group in sorted({row.group for row in log.rows if row.group is not None})
    ]


def _observe_member(run: str, world: ReferenceWorld, process: str, group: str) -> MemberObservation:
    log = world.logs[process]
    rows = [row for row in log.rows if row.group == group]
    deliveries = [row for row in rows if row.kind == "deliver"]
    exact_ns: list[int] = []
    for row in deliveries:
        sends = [world.send_row.get(message) for message in messages_of(row)]
        exact_ns += [max(0, row.time_ns - send.time_ns) for send in sends if send is not None]
    latencies_ns = coarse(np.array(sorted(exact_ns), np.int64)).tolist()
    return MemberObservation(
        run=run,
        process=process,
        group=group,
        sent=sum(row.count or 0 for row in rows if row.kind == "send"),
        delivered=sum(row.count or 0 for row in deliveries),
        delivered_bytes=sum(row.size or 0 for row in deliveries),
        latency_ns_p50=percentile(latencies_ns, 50),
        latency_ns_p99=percentile(latencies_ns, 99),
        latency_ns_max=max(exact_ns, default=None),
        first_ns=min(row.time_ns for row in rows),
        last_ns=max(row.time_ns for row in rows),
        ending=log.ending,
    )
