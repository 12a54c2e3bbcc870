"""The checks of whole views, group by group, from the summaries alone."""

from collections.abc import Iterator, Mapping
from typing import Final

from antiphon.pipeline.audit import primary, view_agreement, view_synchrony
from antiphon.pipeline.audit.logs import LogFacts
from antiphon.pipeline.audit.order import Order
from antiphon.pipeline.audit.stays import ViewCounts, stays_by_group
from antiphon.pipeline.promises import PRIMARY, VIEW_AGREEMENT, VIEW_SYNCHRONY, Promises

OF_VIEWS: Final = (VIEW_AGREEMENT, VIEW_SYNCHRONY, PRIMARY)


def count(order: Order, logs: Mapping[str, LogFacts], promises: Promises) -> Iterator[tuple[str, ViewCounts, str]]:
    """Guarantee, what was found, and in which group, as far as it was promised."""
    if not any(promises.in_run(guarantee, order.run) for guarantee in OF_VIEWS):
        return
    sendings = view_synchrony.Sendings(order, logs)
    for group, stays in stays_by_group(logs).items():
        if promises.holds(VIEW_AGREEMENT, order.run, group):
            yield VIEW_AGREEMENT, view_agreement.count(group, stays), group
        if promises.holds(VIEW_SYNCHRONY, order.run, group):
            yield VIEW_SYNCHRONY, view_synchrony.count(group, stays, sendings), group
        if promises.holds(PRIMARY, order.run, group):
            yield PRIMARY, primary.count(group, stays, logs), group
