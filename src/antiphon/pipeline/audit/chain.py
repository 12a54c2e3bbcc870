"""The shortest causal chain between two messages, from the direct pasts of an `Order`.

Searched backwards, breadth first. Of each key only the highest message known at a send is followed: what any lower one
leads to, it leads to as well, since the sender sent it later. What the sender of a message had itself delivered is
then told directly, where the history confirms it.
"""

from collections import deque
from collections.abc import Callable, Sequence

import numpy as np

from antiphon.pipeline.audit.order import Order
from antiphon.pipeline.explain import Link, Message

Place = tuple[int, int]
"""A message: (key, number), the key as a place in the order's keys."""


def chain(order: Order, last: Place, wanted: Sequence[Place], knew: Callable[[Message, Message], bool]) -> list[Link]:
    """The steps that lead from one of the `wanted` to `last`, first step first.

    `knew(earlier, sent)` tells whether the sender of `sent` had delivered or sent `earlier` itself by then.
    """
    numbers = dict(wanted)
    step: dict[Place, Place] = {}
    frontier = deque([last])
    while frontier:
        sent = frontier.popleft()
        for place in _known_at_send(order, sent):
            if place in step:
                continue
            step[place] = sent
            if numbers.get(place[0], place[1] + 1) <= place[1]:
                return _links(order, step, (place[0], numbers[place[0]]), place, last, knew)
            frontier.append(place)
    raise AssertionError("what lies in the past is reached by a chain")


def _known_at_send(order: Order, sent: Place) -> list[Place]:
    """The highest message of each key that its sender had sent or delivered."""
    key, number = sent
    known = order.direct[order.run_of(key, np.array([number]))[0]].copy()
    known[key] = max(int(known[key]), number - 1)
    return [(int(other), int(known[other])) for other in np.flatnonzero(known)]


def _links(
    order: Order,
    step: dict[Place, Place],
    first: Place,
    met: Place,
    last: Place,
    knew: Callable[[Message, Message], bool],
) -> list[Link]:
    """`met` is the message of the chain with which the key of `first` was reached."""

    def message(place: Place) -> Message:
        return Message(*order.keys[place[0]], place[1])

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
