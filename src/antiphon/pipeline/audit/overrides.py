"""Who was told by an operator to go on without a majority. It changes no verdict of primary; the result names them."""

from collections.abc import Mapping

from antiphon.pipeline.audit.logs import LogFacts
from antiphon.pipeline.audit.view_intervals import GroupIntervals


def overrides(group: str, view_intervals: GroupIntervals, logs: Mapping[str, LogFacts]) -> list[tuple[str, int | None]]:
    """The processes that were told to go on without a majority, each with the next view that it installed, if any."""
    found: set[tuple[str, int | None]] = set()
    for process, log in logs.items():
        for note in (note for piece in log.pieces for note in piece["recovers"] if note["group"] == group):
            own = view_intervals.get(process, [])
            found.add((process, next((interval.view for interval in own if interval.index > note["index"]), None)))
    return sorted(found, key=lambda each: (each[0], each[1] or 0))
