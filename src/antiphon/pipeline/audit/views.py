"""The checks of whole views and of whole groups, group by group, from the summaries alone.

But for total: what of it is in no order was found before. What compares view rows alone is elsewhere
(`antiphon.pipeline.view_counts`).
"""

from collections.abc import Iterator, Mapping
from typing import Final

from antiphon.pipeline.audit import group_broadcast, merged, safe, total, transitional, view_synchrony
from antiphon.pipeline.audit.logs import LogFacts
from antiphon.pipeline.audit.order import Order
from antiphon.pipeline.audit.view_intervals import GroupIntervals, ViewCounts
from antiphon.pipeline.guarantees import GROUP_BROADCAST, MERGED, SAFE, TOTAL, TRANSITIONAL, VIEW_SYNCHRONY
from antiphon.pipeline.promises import Promises

OF_GROUPS: Final = (VIEW_SYNCHRONY, TOTAL, SAFE, GROUP_BROADCAST, TRANSITIONAL, MERGED)


def count(
    order: Order,
    logs: Mapping[str, LogFacts],
    view_intervals_of: Mapping[str, GroupIntervals],
    promises: Promises,
    cycles: Mapping[str, total.OrderCycles],
) -> Iterator[tuple[str, ViewCounts, str]]:
    """Guarantee, what was found, and in which group, as far as it was promised. Stays and `cycles` are by group."""
    if not any(promises.in_run(guarantee, order.run) for guarantee in OF_GROUPS):
        return
    sendings = view_synchrony.Sendings(order, logs)
    for group, view_intervals in view_intervals_of.items():
        found = {}
        if promises.holds(VIEW_SYNCHRONY, order.run, group):
            found[VIEW_SYNCHRONY] = view_synchrony.count(group, view_intervals, sendings)
        if promises.holds(TOTAL, order.run, group):
            of_group = cycles.get(group, total.OrderCycles())
            found[TOTAL] = total.count(group, view_intervals, logs, sendings, of_group, order.partings.get(group))
        if promises.holds(SAFE, order.run, group):
            found[SAFE] = safe.count(group, view_intervals, order, logs, sendings)
        if promises.holds(GROUP_BROADCAST, order.run, group):
            found[GROUP_BROADCAST] = group_broadcast.count(group, logs, sendings)
        if group in order.parted and promises.holds(TRANSITIONAL, order.run, group):
            found[TRANSITIONAL] = transitional.count(group, view_intervals, sendings)
        if group in order.parted and promises.holds(MERGED, order.run, group):
            found[MERGED] = merged.count(group, view_intervals, logs)
        for guarantee, counts in found.items():
            yield guarantee, counts, group
