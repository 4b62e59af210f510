"""The types that the public names have for a caller: checked by mypy, never run."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor, TracerProvider
from typing_extensions import assert_type

import otel_itl
from otel_itl import (
    SLO,
    ITLInstrumentor,
    ITLSpanProcessor,
    Kind,
    MalformedEventsError,
    Measures,
    Outcome,
    ResponseFacts,
    Stall,
    StallPolicy,
    Timeline,
    measure,
    observe,
    read_timeline,
    session,
)
from otel_itl.instrumentor import OpenAIInstrumentor


class Chunk:
    """A chunk of somebody's own client."""


assert_type(otel_itl.instrument(), None)
assert_type(otel_itl.uninstrument(), None)
assert_type(otel_itl.flush(), bool)
assert_type(otel_itl.flush(seconds=0.5), bool)

ITLInstrumentor().instrument()
OpenAIInstrumentor().uninstrument()
processor: SpanProcessor = ITLSpanProcessor(["gen_ai.chunk"], standard_names="inference")
TracerProvider().add_span_processor(ITLSpanProcessor())


def a_call(stall: Stall) -> None:
    """A caller's own reaction to a stall."""


def an_id(body: Mapping[str, Any], headers: Mapping[str, Any]) -> str | None:
    """A caller's own way to find the session of a request."""
    return body.get("user") or headers.get("x-session")


def the_middleware_takes_an_application_and_the_name_of_a_header(
    asgi: Callable[[Any, Any, Any], Coroutine[Any, Any, None]], wsgi: Callable[[dict[str, Any], Any], list[bytes]]
) -> None:
    answering: Coroutine[Any, Any, None] = otel_itl.ASGISessionMiddleware(asgi, session_header="x-id")({}, None, None)
    answering.close()
    assert_type(otel_itl.WSGISessionMiddleware(wsgi)({}, None), Iterable[bytes])
    otel_itl.ASGISessionMiddleware(asgi, session_header=7)  # type: ignore[arg-type]


def instrument_takes_every_option() -> None:
    otel_itl.instrument(
        token_events="each",
        sdks=["openai", "groq"],
        standard_names="inference",
        model_limit=20,
        chunk_events=["gen_ai.chunk"],
        stall=StallPolicy(next_token=1.0),
        on_stall=a_call,
        slo={"gpt-4o*": SLO(ttft=0.5), "*": "batch"},
        session_from=an_id,
        file="otel-itl.jsonl",
        summary=True,
        progress=0.25,
        tracer_provider=TracerProvider(),
        meter_provider=MeterProvider(),
        logger_provider=LoggerProvider(),
    )
    otel_itl.instrument(sdks=("openai",), chunk_events={"gen_ai.chunk"}, stall="next_token=1", slo="chat")
    otel_itl.instrument(session_from="metadata.session_id", slo=SLO(itl=0.05), stall=False)
    otel_itl.instrument(stall=None, on_stall=None, slo=None, session_from=None, file=None, tracer_provider=None)
    otel_itl.instrument(file=Path("otel-itl.jsonl"), summary=False, progress="250ms")
    otel_itl.instrument(progress=None)


def instrument_takes_nothing_else(number: float) -> None:
    otel_itl.instrument("each")  # type: ignore[call-arg]
    otel_itl.instrument(tokens="each")  # type: ignore[arg-type]
    otel_itl.instrument(token_events="every")  # type: ignore[arg-type]
    otel_itl.instrument(token_events=None)  # type: ignore[arg-type]
    otel_itl.instrument(sdks=3)  # type: ignore[arg-type]
    otel_itl.instrument(standard_names="legacy")  # type: ignore[arg-type]
    otel_itl.instrument(model_limit=number)  # type: ignore[arg-type]
    otel_itl.instrument(file=3)  # type: ignore[arg-type]
    otel_itl.instrument(summary="yes")  # type: ignore[arg-type]
    otel_itl.instrument(progress=[1])  # type: ignore[arg-type]
    otel_itl.instrument(chunk_events=[3])  # type: ignore[list-item]
    otel_itl.instrument(stall=3)  # type: ignore[arg-type]
    otel_itl.instrument(on_stall=an_id)  # type: ignore[arg-type]
    otel_itl.instrument(slo=0.5)  # type: ignore[arg-type]
    otel_itl.instrument(session_from=a_call)  # type: ignore[arg-type]
    otel_itl.instrument(tracer_provider=MeterProvider())  # type: ignore[arg-type]
    otel_itl.instrument(meter_provider=LoggerProvider())  # type: ignore[arg-type]
    otel_itl.instrument(logger_provider=TracerProvider())  # type: ignore[arg-type]


def kind_of(chunk: Chunk) -> Kind:
    """A caller's own reading of a chunk."""
    return Kind.ANSWER if chunk else Kind.EMPTY


def a_sync_stream_keeps_its_element_type(
    words: Iterator[str], chunks: Iterable[Chunk], listed: list[Chunk], anything: Iterator[Any]
) -> None:
    assert_type(observe(words, provider="mistral_ai", model="m"), Iterator[str])
    assert_type(observe(chunks, provider="mistral_ai", model="m", operation="chat"), Iterator[Chunk])
    assert_type(observe(listed, provider="mistral_ai", model="m", classify=kind_of), Iterator[Chunk])
    assert_type(observe(anything, provider="mistral_ai", model="m"), Iterator[Any])
    assert_type([word.upper() for word in observe(words, provider="mistral_ai", model="m")], list[str])


def kind_and_facts_of(chunk: Chunk, response: ResponseFacts) -> Kind:
    """A caller's own reading of a chunk that also reports what it reveals about the response."""
    response.update(output_tokens=1, finish_reason=None)
    return Kind.ANSWER


def a_stream_is_described_by_its_caller(chunks: Iterator[Chunk], words: AsyncIterator[str]) -> None:
    more = observe(
        chunks,
        provider="mistral_ai",
        model=None,
        classify=kind_and_facts_of,
        parameters={"max_tokens": 9},
        session_id="s",
        sent="first_pull",
        abort=lambda: None,
    )
    assert_type(more, Iterator[Chunk])
    observe(words, provider="mistral_ai", model=None, sent="later")  # type: ignore[call-overload]


async def an_async_stream_keeps_its_element_type(words: AsyncIterator[str], chunks: AsyncIterator[Chunk]) -> None:
    assert_type(observe(words, provider="mistral_ai", model="m"), AsyncIterator[str])
    assert_type(observe(chunks, provider="mistral_ai", model="m", classify=kind_of), AsyncIterator[Chunk])
    assert_type([word.upper() async for word in observe(words, provider="mistral_ai", model="m")], list[str])


def what_observe_does_not_take(words: Iterator[str], of_numbers: Callable[[int], int]) -> None:
    observe(5, provider="mistral_ai", model="m")  # type: ignore[call-overload]
    observe(words, "mistral_ai", "m")  # type: ignore[call-overload]
    observe(words, model="m")  # type: ignore[call-overload]
    observe(words, provider="mistral_ai", model="m", classify=of_numbers)  # type: ignore[arg-type]


def a_timeline_gives_measures(timeline: Timeline) -> None:
    assert_type(timeline.request_unix_ns, int)
    assert_type(timeline.kinds, bytes)
    assert_type(timeline.outcome, Outcome)
    assert_type(timeline.output_tokens, int | None)
    assert_type(len(timeline), int)

    measures = measure(timeline)
    assert_type(measures, Measures)
    assert_type(measures.duration, float)
    assert_type(measures.time_to_first_token, float | None)
    assert_type(measures.itl_p99, float | None)
    samples: Sequence[float] = measures.itl_samples
    assert_type(samples[0], float)
    assert_type(measures.itl_samples.nanoseconds, Sequence[float])
    assert_type(measures.output_chunk_count, int)

    timeline.outcome = Outcome.COMPLETED  # type: ignore[misc]
    measures.duration = 0.0  # type: ignore[misc]


def a_span_gives_a_timeline(span: ReadableSpan, events: list[tuple[str, int, dict[str, int]]]) -> Timeline:
    assert_type(read_timeline(span), Timeline)
    read_timeline(3)  # type: ignore[arg-type]
    try:
        return read_timeline(events)
    except MalformedEventsError as error:
        reason: ValueError = error
        raise reason from None


def a_stall_says_what_it_is(stall: Stall) -> None:
    assert_type(stall.duration, float)
    assert_type(stall.end, str | None)
    assert_type(stall.abort(), bool)
    stall.is_alive = True  # type: ignore[misc]


def options_are_objects(policy: StallPolicy, objective: SLO) -> None:
    assert_type(policy.relative, float | None)
    assert_type(objective.itl, float | None)
    StallPolicy(2)  # type: ignore[call-arg]


def a_session_is_a_scope() -> None:
    with session("s1") as scope:
        assert_type(scope, None)
    session(1)  # type: ignore[arg-type]


def an_outcome_is_a_string(outcome: Outcome) -> str:
    return outcome
