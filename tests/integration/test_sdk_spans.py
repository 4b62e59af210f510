"""Beside the spans that the anthropic SDK starts itself: one request has one span, and one set of tokens.

The SDK gets its tracer provider as an option of the client: the very spans that it would make with the global one.
"""

from __future__ import annotations

import asyncio
import gc
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, Final

import anthropic
import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF, Decision, Sampler, SamplingResult

import otel_itl
from otel_itl.export.span import SpanSink
from otel_itl.runtime import runtime
from otel_itl.testing import CapturedTelemetry, ScriptedServer, faults, messages

if TYPE_CHECKING:
    from conftest import Clients, Instrument

pytestmark = pytest.mark.skipif(
    int(version("anthropic").split(".")[0]) < 2, reason="the anthropic SDK makes spans of its own from version 2 on"
)

ASKED: Final[Any] = {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "hello"}]}
TOKENS: Final = "gen_ai.usage.output_tokens"
THEIRS, OURS = "anthropic.messages.create", "chat m"
SIZE: Final = 5
PATIENCE: Final = 5.0


@pytest.fixture(autouse=True)
def _replies(server: ScriptedServer) -> None:
    server.always(messages.reply(SIZE, first=0.01, gaps=0.005))


def traced_by(provider: Any) -> dict[str, Any]:
    """Make the option of a client that has the SDK make its spans with a provider."""
    return {"open_telemetry": {"tracer_provider": provider}}


@pytest.fixture
def client(clients: Clients, captured_telemetry: CapturedTelemetry) -> Any:
    return clients.anthropic(**traced_by(captured_telemetry.tracer_provider))


def names(captured: CapturedTelemetry) -> list[str]:
    return [span.name for span in captured.spans]


def tokens(captured: CapturedTelemetry) -> int:
    """What a viewer adds up: the output tokens of all spans."""
    return sum((span.attributes or {}).get(TOKENS, 0) for span in captured.spans)


def only(captured: CapturedTelemetry) -> Any:
    (span,) = captured.spans
    return span


# --- One span, one set of tokens ------------------------------------------------------------------------------------


def iterated(client: Any) -> None:
    list(client.messages.create(stream=True, **ASKED))


def helped(client: Any) -> None:
    with client.messages.stream(**ASKED) as stream:
        stream.get_final_message()


def parsed_from_raw(client: Any) -> None:
    list(client.messages.with_raw_response.create(stream=True, **ASKED).parse())


def beta(client: Any) -> None:
    list(client.beta.messages.create(stream=True, **ASKED))


WAYS: Final = [iterated, helped, parsed_from_raw, beta]


@pytest.mark.parametrize("stream", WAYS)
def test_a_request_whose_span_the_sdk_starts_has_one_span_and_its_tokens_once(
    stream: Callable[[Any], None], client: Any, instrument: Instrument, captured_telemetry: CapturedTelemetry
) -> None:
    instrument()
    stream(client)
    assert (names(captured_telemetry), tokens(captured_telemetry)) == ([THEIRS], SIZE)


def test_so_has_an_asynchronous_request(
    clients: Clients, instrument: Instrument, captured_telemetry: CapturedTelemetry
) -> None:
    async def stream() -> None:
        async with clients.async_anthropic(**traced_by(captured_telemetry.tracer_provider)) as client:
            async for _ in await client.messages.create(stream=True, **ASKED):
                pass

    instrument()
    asyncio.run(stream())
    assert (names(captured_telemetry), tokens(captured_telemetry)) == ([THEIRS], SIZE)


def test_the_one_span_has_the_details_of_both(
    client: Any, instrument: Instrument, captured_telemetry: CapturedTelemetry
) -> None:
    instrument(slo="chat")
    iterated(client)  # what the SDK imports with its first stream delays that
    with otel_itl.session("s"):
        iterated(client)
    span = captured_telemetry.spans[-1]
    theirs = ("anthropic.request.id", "http.response.status_code", TOKENS)
    ours = ("itl.time_to_first_token", "itl.latency.p50", "itl.slo.met", "itl.session.request.index", "session.id")
    events = {event.name for event in span.events}
    assert ([name for name in (*theirs, *ours) if name not in span.attributes], events) == (
        [],
        {"itl.first_token", "itl.last_token", "itl.tokens"},
    )


def test_the_standard_metrics_are_recorded_once(
    client: Any, instrument: Instrument, captured_telemetry: CapturedTelemetry
) -> None:
    instrument()
    iterated(client)
    points = captured_telemetry.metrics["gen_ai.client.token.usage"]
    usage = {point.attributes["gen_ai.token.type"]: (point.count, point.value) for point in points}
    (duration,) = captured_telemetry.metrics["gen_ai.client.operation.duration"]
    assert (usage, duration.count) == ({"input": (1, 10), "output": (1, SIZE)}, 1)


FIRST: Final = """
import anthropic, otel_itl
from otel_itl.testing import ScriptedServer, messages

otel_itl.instrument()
with ScriptedServer() as server, anthropic.Anthropic(base_url=server.anthropic_url, api_key="none") as client:
    server.always(messages.reply(5))
    for _ in range(2):
        list(client.messages.create(model="m", max_tokens=9, messages=[], stream=True))
"""


def test_where_no_provider_is_global_the_sdk_has_no_span_and_each_request_one_of_ours() -> None:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("OTEL_")}
    exporters = {"OTEL_TRACES_EXPORTER": "console", "OTEL_METRICS_EXPORTER": "none", "OTEL_LOGS_EXPORTER": "none"}
    done = subprocess.run(
        [sys.executable, "-c", FIRST], env=environment | exporters, capture_output=True, text=True, check=True
    )
    assert re.findall(r'^    "name": "(.*)"', done.stdout, re.MULTILINE) == [OURS, OURS]


# --- Where the SDK's span does not record ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    "option",
    [False, {"traces": False}, {"tracer_provider": TracerProvider(sampler=ALWAYS_OFF)}],
    ids=["spans off", "traces off", "sampled out"],
)
def test_where_the_sdk_has_no_span_that_records_the_one_span_is_ours(
    option: Any, clients: Clients, instrument: Instrument, captured_telemetry: CapturedTelemetry
) -> None:
    instrument()
    iterated(clients.anthropic(open_telemetry=option))
    assert (names(captured_telemetry), tokens(captured_telemetry)) == ([OURS], SIZE)


class EverySecond(Sampler):
    """Samples every second span of the SDK, and all the others."""

    def __init__(self) -> None:
        self.asked = 0

    def should_sample(self, parent_context: Any, trace_id: int, name: str, *_: Any, **__: Any) -> SamplingResult:
        self.asked += name == THEIRS
        is_kept = name != THEIRS or self.asked % 2
        return SamplingResult(Decision.RECORD_AND_SAMPLE if is_kept else Decision.DROP)

    def get_description(self) -> str:
        return "every second"


def test_whose_span_it_is_is_decided_for_each_request(
    client: Any, instrument: Instrument, captured_telemetry: CapturedTelemetry, monkeypatch: pytest.MonkeyPatch
) -> None:
    provider = captured_telemetry.tracer_provider
    monkeypatch.setattr(provider, "sampler", EverySecond())
    instrument()
    for _ in range(4):
        iterated(client)
    assert (names(captured_telemetry), tokens(captured_telemetry)) == ([THEIRS, OURS] * 2, 4 * SIZE)


def test_the_environment_stays_as_it_is(client: Any, instrument: Instrument) -> None:
    before = dict(os.environ)
    instrument()
    iterated(client)
    assert dict(os.environ) == before


# --- What is around it ----------------------------------------------------------------------------------------------


def current_while_sent(client: Any) -> list[str]:
    """Stream, and return the names of the spans that were current when the request went out and after the call."""
    seen: list[str] = []

    def note(*_: Any) -> None:
        seen.append(getattr(trace.get_current_span(), "name", ""))

    client._client.event_hooks = {"request": [note]}
    iterated(client)
    note()
    return seen


def test_the_span_of_the_http_client_is_a_child_of_the_sdks_span(client: Any, instrument: Instrument) -> None:
    instrument()
    with trace.use_span(TracerProvider().get_tracer("app").start_span("app")):
        assert current_while_sent(client) == [THEIRS, "app"]


def test_where_the_sdk_has_no_span_it_is_a_child_of_ours(clients: Clients, instrument: Instrument) -> None:
    instrument()
    with trace.use_span(TracerProvider().get_tracer("app").start_span("app")):
        assert current_while_sent(clients.anthropic(open_telemetry=False)) == [OURS, "app"]


def test_a_span_that_another_instrumentation_is_in_charge_of_is_described_rather_than_the_sdks(
    client: Any, instrument: Instrument, captured_telemetry: CapturedTelemetry
) -> None:
    from opentelemetry.context import attach, detach, set_value

    from otel_itl.export.other_instrumentations import FOREIGN_INFERENCE

    instrument()
    span = captured_telemetry.tracer_provider.get_tracer("theirs").start_span("in charge")
    token = attach(set_value(FOREIGN_INFERENCE, object(), trace.set_span_in_context(span)))
    try:
        iterated(client)
    finally:
        detach(token)
    span.end()
    measured = {one.name: "itl.chunk.count" in (one.attributes or {}) for one in captured_telemetry.spans}
    assert measured == {THEIRS: False, "in charge": True}


def test_the_calls_of_the_sdks_tool_runner_are_children_of_its_span(
    client: Any, server: ScriptedServer, instrument: Instrument, captured_telemetry: CapturedTelemetry
) -> None:
    @anthropic.beta_tool
    def get_weather(city: str) -> str:
        """Get the weather.

        Args:
            city: where.
        """
        return f"sunny in {city}"

    instrument()
    server.play(messages.reply(2, tools=[("get_weather", ['{"city": ', '"Rome"}'])]))
    runner = client.beta.messages.tool_runner(tools=[get_weather], stream=True, **ASKED)
    for stream in runner:
        for _ in stream:
            pass
    by_name: dict[str, list[Any]] = {}
    for span in captured_telemetry.spans:
        by_name.setdefault(span.name, []).append(span)
    (loop,) = by_name["anthropic.messages.tool_runner"]
    parents = {name: {span.parent and span.parent.span_id for span in spans} for name, spans in by_name.items()}
    assert parents == {
        "anthropic.messages.tool_runner": {None},
        THEIRS: {loop.context.span_id},
        "anthropic.custom_tool_use get_weather": {loop.context.span_id},
    }
    assert len(by_name[THEIRS]) == 2


# --- However it ends ------------------------------------------------------------------------------------------------


def opened(client: Any) -> Any:
    stream = client.messages.create(stream=True, **ASKED)
    next(stream)
    return stream


def closed(client: Any) -> None:
    opened(client).close()


def left(client: Any) -> None:
    with client.messages.stream(**ASKED) as stream:
        next(iter(stream))


def dropped(client: Any) -> None:
    opened(client)
    gc.collect()
    runtime.finalizer.finalize_pending()


def cut_off(client: Any) -> None:
    stream = opened(client)
    with pytest.raises(ZeroDivisionError), stream:
        raise ZeroDivisionError


def interrupted(client: Any) -> None:
    stream = opened(client)
    otel_itl.uninstrument()
    list(stream)


ENDINGS: Final = {
    closed: "closed",
    left: "closed",
    dropped: "abandoned",
    cut_off: "closed",
    interrupted: "abandoned",
    iterated: "completed",
}


@pytest.mark.parametrize("end", list(ENDINGS))
def test_however_a_stream_ends_the_sdks_span_ends_once_with_the_outcome(
    end: Callable[[Any], None], client: Any, instrument: Instrument, captured_telemetry: CapturedTelemetry
) -> None:
    instrument()
    end(client)
    deadline = time.monotonic() + PATIENCE
    while not captured_telemetry.spans and time.monotonic() < deadline:
        time.sleep(0.01)
    span = only(captured_telemetry)
    assert (span.name, span.attributes["itl.stream.outcome"], "end" in vars(span)) == (THEIRS, ENDINGS[end], False)


@pytest.mark.parametrize("script", [faults.status(500, "canary"), messages.reply(3).cut(3) + messages.error("canary")])
def test_a_failure_is_on_the_sdks_span_by_its_class_and_without_its_text(
    script: Any, client: Any, server: ScriptedServer, instrument: Instrument, captured_telemetry: CapturedTelemetry
) -> None:
    server.always(script)
    instrument()
    with pytest.raises(anthropic.APIStatusError) as raised:
        iterated(client)
    span = only(captured_telemetry)
    failures = [dict(event.attributes) for event in span.events if event.name == "exception"]
    assert (span.status.description, failures, span.attributes["itl.stream.outcome"], "canary" in span.to_json()) == (
        raised.type.__qualname__,
        [dict.fromkeys(("exception.type", "exception.message"), raised.type.__qualname__)],
        "error",
        False,
    )


def test_the_sdks_span_ends_when_the_sdk_ended_it(
    client: Any, instrument: Instrument, captured_telemetry: CapturedTelemetry, monkeypatch: pytest.MonkeyPatch
) -> None:
    def late(sink: SpanSink, report: Any) -> None:
        time.sleep(0.2)
        described(sink, report)

    described = SpanSink.__call__
    monkeypatch.setattr(SpanSink, "__call__", late)
    instrument()
    iterated(client)
    finished = time.time_ns()
    assert finished - only(captured_telemetry).end_time >= 0.2e9


def test_the_sdks_span_ends_whatever_fails_in_describing_the_stream(
    client: Any, instrument: Instrument, captured_telemetry: CapturedTelemetry, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any) -> None:
        raise RuntimeError

    monkeypatch.setattr("otel_itl.export.pipeline.end_span", fail)
    monkeypatch.setattr(SpanSink, "__call__", fail)
    instrument()
    iterated(client)
    assert (names(captured_telemetry), tokens(captured_telemetry)) == ([THEIRS], SIZE)


@pytest.fixture
def uncollected() -> Iterator[None]:
    """The garbage collector does not run in the test."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


@pytest.mark.usefixtures("uncollected")
def test_a_span_of_the_sdk_leaves_no_cycle_of_ours(client: Any, instrument: Instrument) -> None:
    instrument()
    iterated(client)
    gc.collect()
    gc.set_debug(gc.DEBUG_SAVEALL)
    try:
        iterated(client)
        gc.collect()
        found = [type(one) for one in gc.garbage if type(one).__module__.startswith("otel_itl")]
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
    assert found == []
