"""The shortest causal chain between two messages, from what their senders had delivered and sent.

Searched backwards, breadth first. Of each key only the highest message known at a send is followed: what any lower one
leads to, it leads to as well, since the sender sent it later. What the sender of a message had itself delivered is
then told directly, where the history confirms it.
"""

from collections import deque
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from antiphon.pipeline.audit.logs import LogFacts
from antiphon.pipeline.audit.order import NO_ROW, Order
from antiphon.pipeline.explain import Link, MessageName
from antiphon.pipeline.intervals import Ints
from antiphon.pipeline.packing import unpack

Place = tuple[int, int]
"""A message: (key, number), the key as a place in the order's keys."""


class DirectPast:
    """What the sender of a message had itself sent or delivered before it: of each key, up to which number."""

    def __init__(self, order: Order, logs: Mapping[str, LogFacts]) -> None:
        self._order = order
        self._logs = logs
        self._before: dict[str, list[Ints]] = {}
        """By process: what it knew before each piece of its log, and at the end."""

    def of(self, place: Place) -> Ints:
        order, (key, number) = self._order, place
        process = order.keys[key][1]
        if process not in self._before:
            self._before[process] = self._walk(self._logs[process])
        index = int(order.index[order.run_of(key, np.array([number]))[0]])
        pieces = self._logs[process].pieces
        at = next((at for at, piece in enumerate(pieces) if NO_ROW < index < piece["known_end"]), len(pieces))
        known = self._before[process][at].copy()
        if at < len(pieces):
            self._raise(known, self._logs[process], at, int(np.searchsorted(pieces[at]["send_index"], index)))
        domain = order.past.sources.domain
        known[domain != domain[key]] = 0
        known[key] = max(int(known[key]), number - 1)
        return known

    def _walk(self, log: LogFacts) -> list[Ints]:
        before = [np.zeros(len(self._order.keys), np.int64)]
        for at, piece in enumerate(log.pieces):
            before.append(before[-1].copy())
            self._raise(before[-1], log, at, len(piece["send_index"]))
        return before

    def _raise(self, known: Ints, log: LogFacts, at: int, sends: int) -> None:
        """Add what is known by a piece up to one of its send runs."""
        piece = log.pieces[at]
        for entry, packed in zip(piece["delivered"], piece["reach"], strict=True):
            key = self._order.places[entry["group"], entry["sender"]]
            known[key] = max(int(known[key]), int(unpack(packed)[sends]))
        last = piece["send_number"] + piece["send_count"] - 1
        for place, group in enumerate(piece["send_groups"]):
            key = self._order.places[group, log.process]
            own = last[:sends][piece["send_group"][:sends] == place]
            known[key] = max(int(known[key]), int(own.max(initial=0)))


def chain(
    order: Order,
    direct: DirectPast,
    last: Place,
    wanted: Sequence[Place],
    knew: Callable[[MessageName, MessageName], bool],
) -> list[Link]:
    """The steps that lead from one of the `wanted` to `last`, first step first.

    `knew(earlier, sent)` tells whether the sender of `sent` had delivered or sent `earlier` itself by then.
    """
    numbers = dict(wanted)
    step: dict[Place, Place] = {}
    frontier = deque([last])
    while frontier:
        sent = frontier.popleft()
        known = direct.of(sent)
        for place in ((int(key), int(known[key])) for key in np.flatnonzero(known)):
            if place in step:
                continue
            step[place] = sent
            if numbers.get(place[0], place[1] + 1) <= place[1]:
                return _links(order, step, (place[0], numbers[place[0]]), place, last, knew)
            frontier.append(place)
    raise AssertionError("what lies in the past is reached by a chain")


def _links(
    order: Order,
    step: dict[Place, Place],
    first: Place,
    met: Place,
    last: Place,
    knew: Callable[[MessageName, MessageName], bool],
) -> list[Link]:
    """`met` is the message of the chain with which the key of `first` was reached."""

    def message(place: Place) -> MessageName:
        return MessageName(*order.keys[place[0]], place[1])

    links: list[Link] = []
    earlier, sent = met, step[met]
    if first != met and knew(message(first), message(sent)):
        earlier = first
    elif first != met:
        links.append(Link(message(first), message(met)))
    links.append(Link(message(earlier), message(sent)))
    while sent != last:
        earlier, sent = sent, step[sent]
        links.append(Link(message(earlier), message(sent)))
    return links
