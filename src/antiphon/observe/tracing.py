"""Traces that cross a group: the context of a span travels with a message, by OpenTelemetry (extra `observe`).

    traced = TracedGroup(group)
    await traced.send(b"IBM 91")                       # in a span "send quotes"; its context goes with the message
    async for event in traced:
        with traced.delivery(event) as span:           # a span "deliver quotes" of the same trace, at every member
            …

Wire. What is sent within a span has MARK, the length of the context and the context in front of its payload: the
fields `traceparent` and `tracestate` of W3C Trace Context, as whatever propagator is configured writes them. A message
without a context goes as it is, byte for byte; one that begins with MARK by chance gets an empty context in front, so
that no payload is ever mistaken. So messages without a context cost no byte, and groups that are not traced nothing
at all: stacks, engine and history know nothing of this. All members of a traced group use TracedGroup, as with any
format of payloads; a member that does not sees the context in front of the payload.

What comes is another member's word: a context that cannot be read is dropped, and the message is handed over.
"""

from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import contextmanager
from typing import Final, final

from opentelemetry import propagate, trace
from opentelemetry.context import Context
from opentelemetry.trace import Link, Span, SpanKind, Tracer, TracerProvider

from antiphon import Group, Message, Order, UsageError
from antiphon.runtime.arguments import Destinations
from antiphon.runtime.events import StreamEvent

MARK: Final = b"\xff\xfeOT\x01"
"""No text in UTF-8 begins so."""
CONTEXT_BYTES_MAX: Final = 1024
"""A longer context, which only a long `tracestate` can make, is left out."""
_LENGTH_BYTES: Final = 2


def encode_context(fields: dict[str, str]) -> bytes:
    """Fields of a context as bytes; none for one that cannot be carried."""
    lines = [f"{name}:{value}" for name, value in fields.items() if "\n" not in name + value and ":" not in name]
    encoded = "\n".join(lines).encode()
    return encoded if len(encoded) <= CONTEXT_BYTES_MAX else b""


def add_context(payload: bytes, fields: dict[str, str]) -> bytes:
    """A payload with the context in front, where there is one."""
    context = encode_context(fields)
    if not context and not payload.startswith(MARK):
        return payload
    return MARK + len(context).to_bytes(_LENGTH_BYTES, "little") + context + payload


def take_context(payload: bytes) -> tuple[bytes, dict[str, str]]:
    """What `add_context` was given. What it cannot have made is the payload itself."""
    start = len(MARK) + _LENGTH_BYTES
    if not payload.startswith(MARK) or len(payload) < start:
        return payload, {}
    length = int.from_bytes(payload[len(MARK) : start], "little")
    if length > CONTEXT_BYTES_MAX or len(payload) < start + length:
        return payload, {}
    fields = {}
    for line in payload[start : start + length].decode(errors="replace").split("\n"):
        name, colon, value = line.partition(":")
        if colon:
            fields[name] = value
    return payload[start + length :], fields


@final
class TracedMessage:
    """A message, without the context that came with it."""

    __slots__ = ("context", "message")

    def __init__(self, message: Message, context: Context) -> None:
        self.message = message
        self.context = context
        """Of the span in which it was sent."""


@final
class TracedGroup:
    """A group whose messages carry the context in which they were sent."""

    def __init__(self, group: Group, provider: TracerProvider | None = None) -> None:
        """`provider`: whose spans are made; the global one, if none is given."""
        self.group = group
        self._tracer: Tracer = trace.get_tracer("antiphon", tracer_provider=provider)

    def _attributes(self, order: str, size: int) -> dict[str, str | int]:
        return {
            "messaging.system": "antiphon",
            "messaging.destination.name": self.group.name,
            "messaging.message.body.size": size,
            "antiphon.stack": self.group.stack,
            "antiphon.order": order,
        }

    async def send(
        self, payload: bytes, *, order: Order = "causal", to: Destinations = None, label: str | None = None
    ) -> None:
        """`Group.send`, in a span of kind producer that lasts until the message is accepted."""
        if not isinstance(payload, bytes):
            raise UsageError(f"a payload is bytes, not {type(payload).__name__}; encode it first")
        attributes = self._attributes(order, len(payload))
        with self._tracer.start_as_current_span(
            f"send {self.group.name}", kind=SpanKind.PRODUCER, attributes=attributes
        ) as span:
            fields: dict[str, str] = {}
            if span.is_recording() or span.get_span_context().is_valid:
                propagate.inject(fields)
            await self.group.send(add_context(payload, fields), order=order, to=to, label=label)

    async def __aiter__(self) -> AsyncIterator[StreamEvent | TracedMessage]:
        """The events of the group, with a TracedMessage for each message."""
        async for event in self.group:
            yield self._open(event) if isinstance(event, Message) else event

    @staticmethod
    def _open(message: Message) -> TracedMessage:
        payload, fields = take_context(message.payload)
        if payload is not message.payload:
            message = message.with_payload(payload)
        return TracedMessage(message, propagate.extract(fields, context=Context()))

    @contextmanager
    def delivery(self, delivered: TracedMessage, also: Sequence[TracedMessage] = ()) -> Iterator[Span]:
        """A span of kind consumer in which a message is handled: a child of the span in which it was sent, and linked
        to it; `also`: further messages that are handled together with it, which it is linked to."""
        contexts = [trace.get_current_span(each.context).get_span_context() for each in (delivered, *also)]
        message = delivered.message
        attributes = self._attributes(message.order, len(message.payload)) | {
            "messaging.message.id": f"{message.sender.full}#{message.number}",
            "antiphon.view": message.view_id,
            "antiphon.process": self.group.process.full,
        }
        with self._tracer.start_as_current_span(
            f"deliver {self.group.name}",
            context=delivered.context,
            kind=SpanKind.CONSUMER,
            attributes=attributes,
            links=[Link(context) for context in contexts if context.is_valid],
        ) as span:
            yield span
