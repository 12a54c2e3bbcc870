"""The causal order of one run: its logs, and the past of each of its messages.

A message in its own past cannot be: such a run has no context graph, since psync-1989 section 2 takes it from an order,
and is refused.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from antiphon.history.errors import UnusableHistoryError
from antiphon.pipeline.audit.logs import LogFacts
from antiphon.pipeline.audit.order import Order, close, make_order
from antiphon.pipeline.explain import MessageName, message_name


@dataclass(frozen=True)
class CausalRun:
    """One run: its logs, and the past of each of its messages."""

    name: str
    logs: Mapping[str, LogFacts]
    order: Order


def causal_run(name: str, logs: Mapping[str, LogFacts]) -> CausalRun:
    """Put one run together from what is known of its logs."""
    order = make_order(name, logs)
    close(order)
    circular = np.flatnonzero(order.past[np.arange(len(order.key)), order.key] >= order.start)
    if len(circular):
        group, sender = order.keys[int(order.key[circular[0]])]
        message = MessageName(group, sender, int(order.start[circular[0]]))
        raise UnusableHistoryError(
            None,
            f"in run {name}, {message_name(message, True)} is in its own past, so there is no order to draw a graph "
            "from; antiphon audit shows the chain of events that says so",
        )
    return CausalRun(name, logs, order)
