"""A span of another instrumentation around a request: it is measured once, and keeps no stream alive."""

from __future__ import annotations

import gc
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, Any, Final
from weakref import ref

import anthropic
import openai
import pytest
from opentelemetry.context import attach, detach, set_value
from opentelemetry.trace import Tracer, set_span_in_context, use_span

import otel_itl
from otel_itl.export.other_instrumentations import FOREIGN_INFERENCE
from otel_itl.runtime import runtime
from otel_itl.testing import CapturedTelemetry, Script, chat, messages

if TYPE_CHECKING:
    from conftest import Clients, Instrument

pytestmark = pytest.mark.requirement("R65")

CHUNK: Final = "chunk"
"""The span event by which the other instrumentation marks a chunk."""
ASKED: Final[Any] = {"messages": [{"role": "user", "content": "hello"}], "stream": True}
PATIENCE: Final = 5.0
"""Seconds within which the finalizer's thread has reported a dropped stream, whatever else the machine does."""


@pytest.fixture
def tracer(captured_telemetry: CapturedTelemetry) -> Tracer:
    """The tracer of the other instrumentation."""
    return captured_telemetry.tracer_provider.get_tracer("theirs")


@contextmanager
def in_charge(span: Any) -> Iterator[None]:
    """Publish a span as that of the request, as the official GenAI instrumentation does."""
    token = attach(set_value(FOREIGN_INFERENCE, object(), set_span_in_context(span)))
    try:
        yield
    finally:
        detach(token)


# --- An event for each chunk ----------------------------------------------------------------------------------------


Ask = Callable[[], Any]


def around_all(tracer: Tracer, ask: Ask) -> None:
    with tracer.start_as_current_span("theirs") as span:
        for _ in ask():
            span.add_event(CHUNK)


def around_the_request(tracer: Tracer, ask: Ask) -> None:
    span = tracer.start_span("theirs")
    with use_span(span):
        stream = ask()
    for _ in stream:
        span.add_event(CHUNK)
    span.end()


def ended_before_the_stream(tracer: Tracer, ask: Ask) -> None:
    with tracer.start_as_current_span("theirs") as span:
        stream = ask()
        for _ in range(4):
            next(stream)
            span.add_event(CHUNK)
    list(stream)


def around_another_span(tracer: Tracer, ask: Ask) -> None:
    with tracer.start_as_current_span("theirs") as span, tracer.start_as_current_span("a layer between"):
        for _ in ask():
            span.add_event(CHUNK)


def in_charge_of_the_request(tracer: Tracer, ask: Ask) -> None:
    span = tracer.start_span("theirs")
    with in_charge(span):
        stream = ask()
    for _ in stream:
        span.add_event(CHUNK)
    span.end()


WAYS: Final = [around_all, around_the_request, ended_before_the_stream, around_another_span, in_charge_of_the_request]


@pytest.mark.parametrize("way", WAYS)
def test_a_request_with_a_span_of_theirs_that_has_an_event_for_each_chunk_is_counted_once(
    way: Callable[[Tracer, Ask], None],
    tracer: Tracer,
    instrument: Instrument,
    clients: Clients,
    captured_telemetry: CapturedTelemetry,
) -> None:
    instrument(chunk_events=[CHUNK])
    client = clients.openai()
    way(tracer, lambda: client.chat.completions.create(model="m", **ASKED))
    points = captured_telemetry.metrics["itl.client.stream.outcomes"]
    assert [(point.attributes["gen_ai.provider.name"], point.value) for point in points] == [("openai", 1)]


def test_each_of_two_requests_within_a_span_of_theirs_is_counted_once(
    tracer: Tracer, instrument: Instrument, clients: Clients, captured_telemetry: CapturedTelemetry
) -> None:
    instrument(chunk_events=[CHUNK])
    client = clients.openai()
    with tracer.start_as_current_span("theirs") as span:
        for _ in range(2):
            for _ in client.chat.completions.create(model="m", **ASKED):
                span.add_event(CHUNK)
    points = captured_telemetry.metrics["itl.client.stream.outcomes"]
    assert [point.value for point in points] == [2]


def test_a_span_of_theirs_around_a_stream_that_nothing_else_records_is_measured(
    tracer: Tracer, instrument: Instrument, clients: Clients, captured_telemetry: CapturedTelemetry
) -> None:
    instrument(chunk_events=[CHUNK])
    clients.chat()
    around_all(tracer, lambda: iter("abc"))
    points = captured_telemetry.metrics["itl.client.stream.outcomes"]
    assert sorted((point.attributes["gen_ai.provider.name"], point.value) for point in points) == [
        ("openai", 1),
        ("unknown", 1),
    ]


# --- A stream that is dropped unread --------------------------------------------------------------------------------


def answering(sdk: Any, script: Script) -> Any:
    """Make an HTTP client of the kind that an SDK uses, which answers each request with a script; it has no sockets."""
    httpx = sys.modules[sdk.DefaultHttpxClient.__mro__[1].__module__.partition(".")[0]]
    body = b"".join(step.event.encode() for step in script.steps)
    headers = {"content-type": "text/event-stream"}
    return httpx.Client(transport=httpx.MockTransport(lambda _: httpx.Response(200, headers=headers, content=body)))


@pytest.fixture(params=["openai, raw", "anthropic", "anthropic, raw", "observe"])
def ask(request: pytest.FixtureRequest) -> Iterator[Ask]:
    """Make a stream that reference counting frees, also where nothing is instrumented."""
    if request.param == "observe":
        yield lambda: otel_itl.observe(iter("abc"), provider="test", model="m")
        return
    name, _, raw = request.param.partition(", ")
    sdk: Any = openai if name == "openai" else anthropic
    with answering(sdk, chat.reply(3) if sdk is openai else messages.reply(3)) as http_client:
        client = (openai.OpenAI if sdk is openai else anthropic.Anthropic)(api_key="none", http_client=http_client)
        kind: Any = client.chat.completions if sdk is openai else client.messages
        create = (kind.with_raw_response if raw else kind).create
        options = {"max_tokens": 9} if sdk is anthropic else {}

        def ask() -> Any:
            return create(model="m", **ASKED, **options)

        if not is_freed(ask):
            pytest.skip("the streams of this release of the SDK are in reference cycles of its own")
        yield ask


def is_freed(ask: Ask) -> bool:
    """Whether reference counting frees a stream and its response."""
    stream = ask()
    response = getattr(stream, "http_response", None) or stream.response
    references = [ref(stream), ref(response)]
    del stream, response
    return [reference() for reference in references] == [None, None]


@pytest.fixture
def uncollected() -> Iterator[None]:
    """The garbage collector does not run in the test."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def is_ours(found: Any) -> bool:
    """Whether an object is an instance of ours, or a function or generator of ours."""
    code = getattr(found, "__code__", None) or getattr(found, "gi_code", None)
    return type(found).__module__.startswith("otel_itl") or "/otel_itl/" in getattr(code, "co_filename", "")


def wait_until_reported() -> None:
    """Wait for the finalizer, and for what it is just delivering."""
    deadline = time.monotonic() + PATIENCE
    while (runtime.open_streams or runtime.finalizer.pending) and time.monotonic() < deadline:
        time.sleep(0.01)
    runtime.finalizer.finalize_pending(PATIENCE)


@pytest.mark.requirement("R19")
@pytest.mark.usefixtures("uncollected")
def test_a_stream_that_is_dropped_unread_is_described_on_the_span_in_charge(
    ask: Ask, tracer: Tracer, instrument: Instrument
) -> None:
    instrument()
    span: Any = tracer.start_span("theirs")
    with in_charge(span):
        ask()
    wait_until_reported()
    assert (span.attributes.get("itl.stream.outcome"), "end" in vars(span)) == ("abandoned", False)


@pytest.mark.requirement("R19")
@pytest.mark.usefixtures("uncollected")
def test_a_stream_that_is_dropped_unread_is_described_on_a_span_in_charge_that_ends_at_once(
    ask: Ask, tracer: Tracer, instrument: Instrument
) -> None:
    instrument()
    span: Any = tracer.start_span("theirs")
    with in_charge(span):
        stream = ask()
    span.end()
    del stream
    wait_until_reported()
    assert (span.attributes.get("itl.stream.outcome"), "end" in vars(span)) == ("closed", False)


@pytest.mark.usefixtures("uncollected")
@pytest.mark.parametrize("is_in_charge", [True, False], ids=["a span in charge", "a span of ours"])
def test_a_stream_that_is_dropped_unread_leaves_no_cycle_of_ours(
    *, is_in_charge: bool, ask: Ask, tracer: Tracer, instrument: Instrument
) -> None:
    def drop_one() -> None:
        span = tracer.start_span("theirs")
        with in_charge(span) if is_in_charge else nullcontext():
            ask()
        span.end()
        wait_until_reported()

    instrument()
    drop_one()  # the first stream makes the pipeline, and with it what was used before goes
    gc.collect()
    gc.set_debug(gc.DEBUG_SAVEALL)
    try:
        drop_one()
        gc.collect()
        found = [type(one) for one in gc.garbage if is_ours(one)]
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
    assert found == []
