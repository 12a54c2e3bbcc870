"""Traces that cross a group, seen by the SDK's exporter in memory."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import NoOpTracerProvider, get_current_span

from antiphon import Message, ProcessId, UsageError
from antiphon.observe.tracing import (
    CONTEXT_BYTES_MAX,
    MARK,
    TracedGroup,
    TracedMessage,
    add_context,
    encode_context,
    take_context,
)
from tests.runtime.cluster import run
from tests.runtime.places import founded

PARENT = {"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}


def recorded() -> tuple[TracerProvider, InMemorySpanExporter]:
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    return provider, exporter


async def next_message(traced: TracedGroup) -> TracedMessage:
    async for event in traced:
        if isinstance(event, TracedMessage):
            return event
    raise AssertionError("the stream has ended")


def one(spans: tuple[ReadableSpan, ...], name: str, process: str = "") -> ReadableSpan:
    found = [
        span for span in spans if span.name == name and process in ("", (span.attributes or {}).get("antiphon.process"))
    ]
    assert len(found) == 1, [span.name for span in spans]
    return found[0]


def test_a_trace_crosses_the_group_and_goes_on_from_there() -> None:
    async def test() -> None:
        provider, exporter = recorded()
        async with founded("abc") as places:
            a, b, c = [TracedGroup(place.group, provider) for place in places]
            tracer = provider.get_tracer("test")
            with tracer.start_as_current_span("request"):
                await a.send(b"question", order="agreed")
            question = await next_message(b)
            assert question.message.payload == b"question"
            with b.delivery(question):
                await b.send(b"answer")
            for traced in (a, c):
                first, second = await next_message(traced), await next_message(traced)
                assert [first.message.payload, second.message.payload] == [b"question", b"answer"]
                with traced.delivery(second, also=[first]):
                    pass
        spans = exporter.get_finished_spans()
        request = one(spans, "request")
        asked = one(tuple(span for span in spans if span.parent == request.context), "send g")
        handled = one(spans, "deliver g", "b/1")
        answered = one(tuple(span for span in spans if span.parent == handled.context), "send g")
        read = one(spans, "deliver g", "c/1")
        assert handled.parent is not None
        assert handled.parent.span_id == asked.context.span_id
        assert handled.parent.is_remote
        assert [link.context.span_id for link in handled.links] == [asked.context.span_id]
        assert read.parent is not None
        assert read.parent.span_id == answered.context.span_id
        assert [link.context.span_id for link in read.links] == [answered.context.span_id, asked.context.span_id]
        assert {span.context.trace_id for span in spans} == {request.context.trace_id}
        assert (handled.attributes or {})["messaging.message.id"] == "a/1#1"

    run(test)


def test_messages_without_a_context_go_as_they_are() -> None:
    async def test() -> None:
        async with founded("ab") as places:
            traced = TracedGroup(places[0].group, NoOpTracerProvider())
            await traced.send(b"plain")
            await traced.send(MARK + b"by chance")
            assert await places[1].message() == b"plain"
            assert (await next_message(traced)).message.payload == b"plain"
            message = await next_message(traced)
            assert message.message.payload == MARK + b"by chance"
            assert not get_current_span(message.context).get_span_context().is_valid
            with pytest.raises(UsageError, match="a payload is bytes"):
                await traced.send("text")  # type: ignore[arg-type]

    run(test)


@given(st.binary(max_size=60), st.booleans(), st.booleans())
def test_every_payload_comes_back(payload: bytes, is_marked: bool, has_context: bool) -> None:
    payload = MARK + payload if is_marked else payload
    fields = PARENT if has_context else {}
    carried = add_context(payload, fields)
    assert take_context(carried) == (payload, fields)
    assert has_context or is_marked or carried is payload


@given(st.binary(max_size=80))
def test_no_bytes_of_others_raise(data: bytes) -> None:
    for payload in (data, MARK + data, MARK + b"\x05\x00" + data):
        message = Message(payload, ProcessId("a"), 1, "causal", "g", 1)
        assert payload.endswith(TracedGroup._open(message).message.payload)


def test_a_context_that_is_too_long_is_left_out() -> None:
    assert encode_context({"tracestate": "x" * CONTEXT_BYTES_MAX}) == b""
    assert encode_context({"a\nb": "c", "d:e": "f", **PARENT}) == encode_context(PARENT)
