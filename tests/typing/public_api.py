"""The types that the public names have for a caller: checked by mypy, never run."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from typing import Any

from opentelemetry.sdk.trace import SpanProcessor, TracerProvider
from typing_extensions import assert_type

import otel_itl
from otel_itl import (
    SLO,
    ITLInstrumentor,
    ITLSpanProcessor,
    Kind,
    Measures,
    Outcome,
    Stall,
    StallPolicy,
    Timeline,
    measure,
    observe,
    session,
)


class Chunk:
    """A chunk of somebody's own client."""


assert_type(otel_itl.instrument(token_events="each", tracer_provider=TracerProvider()), None)
assert_type(otel_itl.uninstrument(), None)

ITLInstrumentor().instrument()
processor: SpanProcessor = ITLSpanProcessor(["gen_ai.chunk"], standard_names="inference")
TracerProvider().add_span_processor(ITLSpanProcessor())


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
