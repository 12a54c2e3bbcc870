"""From a violation to an example: the shortest chain of events that shows why a guarantee is broken, with its rows."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from antiphon.pipeline.audit.chain import DirectPast, chain
from antiphon.pipeline.audit.logs import LogFacts
from antiphon.pipeline.audit.order import NO_ROW, Order
from antiphon.pipeline.audit.view_intervals import Event, ViewInterval, ViewViolation, view_intervals_of
from antiphon.pipeline.explain import (
    MessageName,
    causal_text,
    content_text,
    creation_text,
    destination_text,
    duplication_text,
    fifo_text,
    settled_text,
    silence_text,
    view_sending_text,
)
from antiphon.pipeline.guarantees import CAUSAL, CONTENT, CREATION, DUPLICATION, FIFO, SILENCE, VIEW_SENDING
from antiphon.pipeline.intervals import EMPTY
from antiphon.pipeline.result import Example

FindDelivery = Callable[[str, str, str, str, int], int | None]
"""Run, process, group, sender and number → the index of the row by which the process first delivered the message."""


class ExampleBuilder:
    """Builds the examples of one run; asks the history only for the few rows that they name."""

    def __init__(self, find: FindDelivery, run: str, logs: Mapping[str, LogFacts], order: Order) -> None:
        self._find = find
        self._run = run
        self._logs = logs
        self._order = order
        self._direct = DirectPast(order, logs)

    def of_delivery(self, guarantee: str, first_violation: Mapping[str, Any]) -> Example:
        """Of a violating delivery, as the second pass found it."""
        message = MessageName(first_violation["group"], first_violation["sender"], first_violation["number"])
        process, delivery = first_violation["process"], (first_violation["process"], first_violation["index"])
        places = self._order.places
        lacking = [(places[entry["group"], entry["sender"]], entry["number"]) for entry in first_violation["lacking"]]
        by_guarantee = {
            CREATION: lambda: self._creation(process, message, delivery),
            DUPLICATION: lambda: self._duplication(process, message, delivery),
            FIFO: lambda: self._fifo(process, message, delivery, lacking),
            CAUSAL: lambda: self._causal(process, message, delivery, lacking),
            CONTENT: lambda: self._content(process, message, delivery),
            VIEW_SENDING: lambda: self._view_sending(process, message, delivery, first_violation["view"]),
            SILENCE: lambda: self._silence(process, message, delivery),
        }
        return by_guarantee[guarantee]()

    def of_settled(self, process: str, message: MessageName) -> Example:
        end = (process, self._logs[process].rows - 1)
        return self._example(settled_text(process, message), message.group, [self._send(message), end])

    def of_view(self, group: str, first_violation: ViewViolation) -> Example:
        """Of what was decided from whole views."""
        first = [self._delivery(*delivery) for delivery in first_violation.deliveries]
        return self._example(first_violation.text, group, [*first, *first_violation.events])

    def _creation(self, process: str, message: MessageName, delivery: Event) -> Example:
        place = self._order.places[message.group, message.sender]
        sent = int(self._order.sent[place])
        if message.number > sent:
            return self._example(creation_text(process, message, sent), message.group, [delivery])
        run = self._order.run_of(place, np.array([message.number]))[0]
        text = destination_text(process, message, sorted(self._order.destinations[self._order.narrow[run]]))
        return self._example(text, message.group, [self._send(message), delivery])

    def _duplication(self, process: str, message: MessageName, delivery: Event) -> Example:
        events = [self._delivery(process, message), delivery]
        return self._example(duplication_text(process, message), message.group, events)

    def _fifo(self, process: str, message: MessageName, delivery: Event, lacking: list[tuple[int, int]]) -> Example:
        wanted = MessageName(message.group, message.sender, lacking[0][1])
        later = self._delivery(process, wanted)
        text = fifo_text(process, message, wanted, later is not None)
        return self._example(text, message.group, [self._send(wanted), delivery, later])

    def _causal(self, process: str, message: MessageName, delivery: Event, lacking: list[tuple[int, int]]) -> Example:
        last = (self._order.places[message.group, message.sender], message.number)
        links = chain(self._order, self._direct, last, lacking, self._knew)
        wanted = links[0].after
        later = self._delivery(process, wanted) if wanted != message else None
        events = [self._send(wanted)]
        for link in links:
            if link.after.sender != link.sent.sender:
                events.append(self._delivery(link.sent.sender, link.after))
            events.append(self._send(link.sent))
        text = causal_text(process, message, wanted, later is not None, links)
        return self._example(text, message.group, [*events, delivery, later])

    def _content(self, process: str, message: MessageName, delivery: Event) -> Example:
        return self._example(content_text(process, message), message.group, [self._send(message), delivery])

    def _view_sending(self, process: str, message: MessageName, delivery: Event, named: int) -> Example:
        place = self._order.places[message.group, message.sender]
        sent_in = int(self._order.view[self._order.run_of(place, np.array([message.number]))[0]])
        interval = self._interval(message.group, delivery)
        seen = None if interval is None else interval.view
        text = view_sending_text(process, message, sent_in, seen if seen != sent_in else named)
        return self._example(text, message.group, [self._send(message), delivery])

    def _silence(self, process: str, message: MessageName, delivery: Event) -> Example:
        interval = self._interval(message.group, delivery)
        assert interval is not None
        return self._example(
            silence_text(process, message, interval.view), message.group, [(process, interval.index), delivery]
        )

    def _interval(self, group: str, at: Event) -> ViewInterval | None:
        """The view that the process of a row was in."""
        view_intervals = view_intervals_of(self._logs[at[0]]).get(group, [])
        return next((interval for interval in reversed(view_intervals) if interval.index < at[1]), None)

    def _knew(self, earlier: MessageName, sent: MessageName) -> bool:
        """Whether the sender of `sent` had sent or delivered `earlier` itself by then."""
        send, index = self._send(sent), None
        if earlier.sender == sent.sender:
            known = self._send(earlier)
            index = known[1] if known else None
        if index is None:
            delivery = self._delivery(sent.sender, earlier)
            index = delivery[1] if delivery else None
        return index is not None and (send is None or index < send[1])

    def _send(self, message: MessageName) -> Event | None:
        place = self._order.places[message.group, message.sender]
        index = int(self._order.index[self._order.run_of(place, np.array([message.number]))[0]])
        return None if index == NO_ROW else (message.sender, index)

    def _delivery(self, process: str, message: MessageName) -> Event | None:
        """The row by which a process first delivered a message, if it is on record."""
        log = self._logs[process]
        delivered = log.delivered.get((message.group, message.sender), EMPTY)
        if not delivered.holds(np.array([message.number]))[0]:
            return None
        index = self._find(self._run, process, message.group, message.sender, message.number)
        return None if index is None else (process, index)

    def _example(self, text: str, group: str, events: list[Event | None]) -> Example:
        known = tuple(dict.fromkeys(event for event in events if event is not None))
        return Example(text=text, run=self._run, group=group, events=known)
