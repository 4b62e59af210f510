"""Beside other instrumentations: one span and one measurement for each request, in whatever order they came."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import importlib.util
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import openai
import pytest

import otel_itl
from otel_itl.core.decoding import decode
from otel_itl.testing import CapturedTelemetry, ScriptedServer, chat, messages, responses

if TYPE_CHECKING:
    from conftest import Clients, Instrument
    from opentelemetry.sdk.trace import ReadableSpan

GENAI_OPENAI = "opentelemetry.instrumentation.genai.openai"
STANDARD = (
    "gen_ai.client.operation.duration",
    "gen_ai.client.operation.time_to_first_chunk",
    "gen_ai.client.token.usage",
)
OURS = (
    "itl.client.inter_token_latency",
    "itl.client.time_to_first_token",
    "itl.client.time_per_output_token",
    "itl.client.stream.outcomes",
)


def counts(captured: CapturedTelemetry, names: tuple[str, ...]) -> dict[str, int]:
    """How many values each metric has; the input and output tokens of `gen_ai.client.token.usage` count as one."""
    metrics = captured.metrics
    return {
        name: sum(
            point.count for point in metrics.get(name, ()) if point.attributes.get("gen_ai.token.type") != "input"
        )
        for name in names
    }


def installed(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:
        return False


official = pytest.mark.skipif(
    not installed(GENAI_OPENAI), reason="opentelemetry-instrumentation-genai-openai is not installed"
)


@pytest.fixture
def theirs(captured_telemetry: CapturedTelemetry) -> Iterator[Callable[[], None]]:
    """The official GenAI instrumentation of openai, recording into the same providers."""
    from opentelemetry.instrumentation.genai.openai import OpenAIInstrumentor

    def install() -> None:
        OpenAIInstrumentor().instrument(
            tracer_provider=captured_telemetry.tracer_provider,
            meter_provider=captured_telemetry.meter_provider,
            logger_provider=captured_telemetry.logger_provider,
        )

    yield install
    OpenAIInstrumentor().uninstrument()


@pytest.fixture(params=["ours first", "theirs first"])
def both(request: pytest.FixtureRequest, theirs: Callable[[], None], instrument: Instrument) -> None:
    """Both instrumentations, put on in both orders."""
    for install in (instrument, theirs) if request.param == "ours first" else (theirs, instrument):
        install()


@pytest.fixture
def slow(server: ScriptedServer) -> None:
    """Chunks that come slowly enough for a busy machine to read each when it comes."""
    server.always(chat.reply(5, first=0.03, gaps=0.03), model="gpt-4o")


def only(captured: CapturedTelemetry) -> ReadableSpan:
    (span,) = captured.spans
    return span


def scope_of(span: ReadableSpan) -> str:
    return span.instrumentation_scope.name if span.instrumentation_scope is not None else ""


@official
@pytest.mark.requirement("R65")
@pytest.mark.usefixtures("both")
class TestBesideTheOfficialInstrumentation:
    def test_a_request_has_one_span_and_it_is_theirs(
        self, clients: Clients, captured_telemetry: CapturedTelemetry
    ) -> None:
        clients.chat()
        assert [scope_of(span) for span in captured_telemetry.spans] == [GENAI_OPENAI]

    def test_their_span_has_our_measures(self, clients: Clients, captured_telemetry: CapturedTelemetry) -> None:
        clients.chat()
        attributes = only(captured_telemetry).attributes or {}
        wanted = ("itl.stream.outcome", "itl.output_chunk.count", "itl.token_count.source")
        assert [attributes.get(name) for name in wanted] == ["completed", 3, "usage"]

    def test_their_span_has_the_token_timeline(self, clients: Clients, captured_telemetry: CapturedTelemetry) -> None:
        clients.chat()
        span = only(captured_telemetry)
        timeline = decode((event.name, event.timestamp, event.attributes or {}) for event in span.events)
        assert sum(bool(kind & 7) for kind in timeline.kinds) == 3

    def test_no_standard_metric_is_recorded_twice(
        self, clients: Clients, captured_telemetry: CapturedTelemetry
    ) -> None:
        clients.chat()
        assert counts(captured_telemetry, STANDARD) == dict.fromkeys(STANDARD, 1)

    def test_a_standard_metric_for_each_chunk_is_not_recorded_twice(
        self, clients: Clients, captured_telemetry: CapturedTelemetry
    ) -> None:
        chunks = clients.chat()
        name = "gen_ai.client.operation.time_per_output_chunk"
        assert counts(captured_telemetry, (name,)) == {name: len(chunks) - 1}

    @pytest.mark.usefixtures("slow")
    def test_our_metrics_are_recorded_once(self, clients: Clients, captured_telemetry: CapturedTelemetry) -> None:
        clients.chat()
        assert counts(captured_telemetry, OURS) == dict(zip(OURS, (4, 1, 1, 1), strict=True))

    def test_an_async_stream_is_one_span_with_our_measures(
        self, clients: Clients, captured_telemetry: CapturedTelemetry
    ) -> None:
        async def ask() -> None:
            async with clients.async_openai() as client:
                async for _ in await client.chat.completions.create(model="gpt-4o", messages=[], stream=True):
                    pass

        asyncio.run(ask())
        span = only(captured_telemetry)
        assert (scope_of(span), (span.attributes or {})["itl.stream.outcome"]) == (GENAI_OPENAI, "completed")

    def test_what_theirs_does_not_cover_has_a_span_of_ours(
        self, clients: Clients, captured_telemetry: CapturedTelemetry
    ) -> None:
        list(clients.openai().completions.create(model="m", prompt="hello", stream=True))
        assert [scope_of(span) for span in captured_telemetry.spans] == ["otel_itl"]

    def test_the_caller_gets_the_chunks_that_the_sdk_gives(self, clients: Clients) -> None:
        chunks = clients.chat()
        assert {type(chunk) for chunk in chunks} == {openai.types.chat.ChatCompletionChunk}

    def test_without_theirs_the_span_is_ours_again(
        self, clients: Clients, captured_telemetry: CapturedTelemetry
    ) -> None:
        from opentelemetry.instrumentation.genai.openai import OpenAIInstrumentor

        OpenAIInstrumentor().uninstrument()
        clients.chat()
        assert [scope_of(span) for span in captured_telemetry.spans] == ["otel_itl"]

    def test_without_ours_their_span_is_as_they_made_it(
        self, clients: Clients, captured_telemetry: CapturedTelemetry
    ) -> None:
        otel_itl.uninstrument()
        clients.chat()
        span = only(captured_telemetry)
        ours = [name for name in span.attributes or {} if name.startswith("itl.")]
        assert (scope_of(span), ours, span.events) == (GENAI_OPENAI, [], ())


def closed(client: Any) -> None:
    stream = client.chat.completions.create(model="gpt-4o", messages=[], stream=True)
    next(stream)
    stream.close()


def left(client: Any) -> None:
    with client.chat.completions.create(model="gpt-4o", messages=[], stream=True) as stream:
        next(stream)


def left_by_an_exception(client: Any) -> None:
    with (
        contextlib.suppress(KeyError),
        client.chat.completions.create(model="gpt-4o", messages=[], stream=True) as stream,
    ):
        next(stream)
        raise KeyError


def broken(client: Any) -> None:
    with pytest.raises(openai.APIError):
        list(client.chat.completions.create(model="broken", messages=[], stream=True))


def helped(client: Any) -> None:
    if not hasattr(client.chat.completions, "stream"):
        pytest.skip(f"openai {openai.__version__} has no chat.completions.stream")
    with client.chat.completions.stream(model="gpt-4o", messages=[]) as stream:
        list(stream)


def parsed_from_raw(client: Any) -> None:
    list(client.chat.completions.with_raw_response.create(model="gpt-4o", messages=[], stream=True).parse())


def responded(client: Any) -> None:
    list(client.responses.create(model="m", input="hello", stream=True))


def responded_with_help(client: Any) -> None:
    with client.responses.stream(model="m", input="hello") as stream:
        list(stream)


ENDINGS: dict[str, tuple[Callable[[Any], None], str]] = {
    "closed": (closed, "closed"),
    "left": (left, "closed"),
    "left by an exception": (left_by_an_exception, "closed"),
    "broken": (broken, "error"),
    "the stream helper": (helped, "completed"),
    "parsed from a raw response": (parsed_from_raw, "completed"),
    "responses": (responded, "completed"),
    "the responses helper": (responded_with_help, "completed"),
}


@pytest.fixture
def ended(
    request: pytest.FixtureRequest,
    theirs: Callable[[], None],
    instrument: Instrument,
    server: ScriptedServer,
    clients: Clients,
) -> str:
    """A stream that ended in one of these ways, with both instrumentations; returns the outcome that is its."""
    server.always(chat.reply(5).cut(3) + chat.error(), model="broken")
    server.always(responses.reply(5), model="m")
    instrument()
    theirs()
    end, outcome = ENDINGS[request.param]
    end(clients.openai())
    return outcome


@official
@pytest.mark.requirement("R65")
@pytest.mark.parametrize("ended", list(ENDINGS), indirect=True)
def test_however_a_stream_ends_their_span_says_how_it_ended(ended: str, captured_telemetry: CapturedTelemetry) -> None:
    assert (only(captured_telemetry).attributes or {}).get("itl.stream.outcome") == ended


@official
@pytest.mark.requirement("R65")
@pytest.mark.parametrize("ended", list(ENDINGS), indirect=True)
def test_however_a_stream_ends_their_span_has_the_token_timeline(
    ended: str, captured_telemetry: CapturedTelemetry
) -> None:
    assert "itl.tokens" in [event.name for event in only(captured_telemetry).events]


@official
@pytest.mark.requirement("R65")
@pytest.mark.parametrize("ended", list(ENDINGS), indirect=True)
def test_however_a_stream_ends_it_is_measured_once(ended: str, captured_telemetry: CapturedTelemetry) -> None:
    points = captured_telemetry.metrics["itl.client.stream.outcomes"]
    assert [(point.attributes["itl.stream.outcome"], point.value) for point in points] == [(ended, 1)]


@official
@pytest.mark.requirement("R65")
def test_a_stream_that_was_dropped_is_measured_once(
    theirs: Callable[[], None], instrument: Instrument, clients: Clients, captured_telemetry: CapturedTelemetry
) -> None:
    theirs()
    instrument()
    stream = clients.openai().chat.completions.create(model="gpt-4o", messages=[], stream=True)
    next(stream)
    del stream
    gc.collect()
    captured_telemetry.tracer_provider.force_flush()
    points = captured_telemetry.metrics["itl.client.stream.outcomes"]
    assert [(point.attributes["itl.stream.outcome"], point.value) for point in points] == [("abandoned", 1)]


# --- the spans that the anthropic SDK makes itself ------------------------------------------------------------------

traces_itself = pytest.mark.skipif(
    not installed("anthropic._tracing"), reason="this release of the anthropic SDK makes no spans of its own"
)


@pytest.fixture
def traced(
    instrument: Instrument, clients: Clients, server: ScriptedServer, captured_telemetry: CapturedTelemetry
) -> dict[str, ReadableSpan]:
    """The spans of one streamed message, by their scope."""
    clients.messages()  # the SDK makes its types when it is first used, which takes longer than a gap
    server.play(messages.reply(5, first=0.03, gaps=0.03))
    instrument()
    clients.messages(clients.anthropic(open_telemetry={"tracer_provider": captured_telemetry.tracer_provider}))
    return {scope_of(span): span for span in captured_telemetry.spans}


@traces_itself
def test_the_anthropic_sdks_own_span_is_the_one_span_of_the_request(traced: dict[str, ReadableSpan]) -> None:
    assert list(traced) == ["com.anthropic.sdk.python"]


@traces_itself
def test_the_anthropic_sdks_own_span_has_the_token_timeline(traced: dict[str, ReadableSpan]) -> None:
    events = traced["com.anthropic.sdk.python"].events
    timeline = decode((event.name, event.timestamp, event.attributes or {}) for event in events)
    assert otel_itl.measure(timeline).output_chunk_count == 5


@traces_itself
@pytest.mark.usefixtures("traced")
def test_beside_the_anthropic_sdks_own_span_metrics_are_recorded_once(captured_telemetry: CapturedTelemetry) -> None:
    assert counts(captured_telemetry, (*STANDARD, *OURS)) == dict(
        zip((*STANDARD, *OURS), (1, 1, 1, 4, 1, 1, 1), strict=True)
    )


@traces_itself
def test_the_anthropic_sdk_sends_its_trace_along_whenever_a_span_is_current_with_or_without_us(
    clients: Clients, server: ScriptedServer, captured_telemetry: CapturedTelemetry
) -> None:
    with captured_telemetry.tracer_provider.get_tracer("test").start_as_current_span("the caller's"):
        clients.messages()
    assert "traceparent" in server.exchanges[0].headers
