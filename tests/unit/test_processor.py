"""The span processor: spans of others and replayed spans are measured, spans of ours are not measured twice."""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF
from opentelemetry.trace import Status, StatusCode

from otel_itl import ITLSpanProcessor
from otel_itl.core import conventions as names
from otel_itl.core import metric_conventions
from otel_itl.core.encoding import TokenEvent, encode, encode_each
from otel_itl.core.slo import Objectives
from otel_itl.core.timeline import Kind, Outcome, Timeline
from otel_itl.export.measured_spans import MeasuredSpans
from otel_itl.export.span_processor import SpanEventProcessor
from otel_itl.recording.internal_errors import InternalErrors
from otel_itl.runtime import runtime
from otel_itl.testing import CapturedTelemetry

MS = 1_000_000
START = 1_700_000_000_000_000_000
CHUNK = "gen_ai.content.chunk"
FOREIGN = {
    "gen_ai.operation.name": "chat",
    "gen_ai.provider.name": "mistral_ai",
    "gen_ai.request.model": "ministral",
    "gen_ai.response.model": "ministral-8b",
    "server.address": "api.mistral.ai",
    "server.port": 443,
}
LATENCY = "itl.client.inter_token_latency"
FIRST_TOKEN = "itl.client.time_to_first_token"
PER_TOKEN = "itl.client.time_per_output_token"
OUTCOMES = "itl.client.stream.outcomes"


@pytest.fixture
def telemetry() -> Iterator[CapturedTelemetry]:
    captured = CapturedTelemetry()
    yield captured
    captured.shutdown()


def processed(telemetry: CapturedTelemetry, *args: Any, **options: Any) -> CapturedTelemetry:
    """The telemetry, with a processor in its tracer provider."""
    telemetry.tracer_provider.add_span_processor(
        ITLSpanProcessor(*args, meter_provider=telemetry.meter_provider, **options)
    )
    return telemetry


def span(
    telemetry: CapturedTelemetry,
    chunks_ms: tuple[float, ...] = (),
    *,
    events: list[TokenEvent] | None = None,
    end_ms: float = 1_000,
    attributes: Mapping[str, Any] = FOREIGN,
    failed: bool = False,
    name: str = CHUNK,
    measured: bool = False,
) -> None:
    """A span of another instrumentation, with an event for each chunk, or with token events."""
    made: Any = telemetry.tracer_provider.get_tracer("foreign").start_span(
        "chat", start_time=START, attributes=dict(attributes)
    )
    for moment in chunks_ms:
        made.add_event(name, {"text": "kept by the other"}, round(START + moment * MS))
    for event in events or ():
        made.add_event(event.name, event.attributes, event.unix_ns)
    if failed:
        made.set_status(Status(StatusCode.ERROR))
    if measured:
        runtime.measured_spans.mark(made.get_span_context().span_id)
    made.end(end_time=round(START + end_ms * MS))


def found(telemetry: CapturedTelemetry, name: str) -> Any:
    """The one point of a metric, once everything was flushed; None where there is none."""
    telemetry.tracer_provider.force_flush()
    points = telemetry.metrics.get(name, [])
    return points[0] if points else None


TIMELINE = Timeline(
    request_unix_ns=START,
    asked=array("q", [0, 200 * MS, 500 * MS, 540 * MS]),
    arrived=array("q", [200 * MS, 500 * MS, 540 * MS, 1_540 * MS]),
    kinds=bytes([Kind.ROLE, Kind.ANSWER, Kind.ANSWER, Kind.ANSWER]),
    end=1_560 * MS,
    outcome=Outcome.CLOSED,
    output_tokens=6,
)

# --- An event for each chunk, by another instrumentation -----------------------------------------------------------


def test_the_gaps_between_chunk_events_are_latencies(telemetry: CapturedTelemetry) -> None:
    # 40, 60 and 100 ms.
    span(processed(telemetry, [CHUNK]), (500, 540, 600, 700))
    latency = found(telemetry, LATENCY)
    assert (latency.count, latency.value) == (3, pytest.approx(0.2))


def test_the_first_chunk_event_is_the_first_token(telemetry: CapturedTelemetry) -> None:
    span(processed(telemetry, [CHUNK]), (500, 540))
    assert found(telemetry, FIRST_TOKEN).value == pytest.approx(0.5)


@pytest.mark.requirement("R36")
def test_the_usage_on_the_span_gives_a_time_per_output_token(telemetry: CapturedTelemetry) -> None:
    # (700 - 500) / (5 - 1).
    span(processed(telemetry, [CHUNK]), (500, 540, 700), attributes={**FOREIGN, "gen_ai.usage.output_tokens": 5})
    assert found(telemetry, PER_TOKEN).value == pytest.approx(0.05)


@pytest.mark.requirement("R36")
def test_a_usage_with_reasoning_on_the_span_gives_no_time_per_output_token(telemetry: CapturedTelemetry) -> None:
    # Which of the chunks are reasoning, and whether any is, a span with events for chunks does not show.
    usage = {"gen_ai.usage.output_tokens": 900, "gen_ai.usage.reasoning.output_tokens": 890}
    span(processed(telemetry, CHUNK), (100, 140, 180), attributes={**FOREIGN, **usage})
    assert (found(telemetry, PER_TOKEN), found(telemetry, LATENCY).count) == (None, 2)


def test_without_a_usage_on_the_span_there_is_no_time_per_output_token(telemetry: CapturedTelemetry) -> None:
    span(processed(telemetry, [CHUNK]), (500, 540, 700))
    assert found(telemetry, PER_TOKEN) is None


def test_chunk_events_in_any_order_are_read_in_order_of_time(telemetry: CapturedTelemetry) -> None:
    span(processed(telemetry, [CHUNK]), (700, 500, 540))
    assert (found(telemetry, FIRST_TOKEN).value, found(telemetry, LATENCY).value) == pytest.approx((0.5, 0.2))


def test_chunk_events_in_the_same_nanosecond_are_a_latency_of_zero(telemetry: CapturedTelemetry) -> None:
    span(processed(telemetry, [CHUNK]), (500, 500, 540))
    assert (found(telemetry, LATENCY).count, found(telemetry, LATENCY).raw.min) == (2, 0.0)


def test_a_span_that_failed_is_an_error(telemetry: CapturedTelemetry) -> None:
    span(processed(telemetry, [CHUNK]), (500, 540), failed=True)
    assert found(telemetry, OUTCOMES).attributes["itl.stream.outcome"] == "error"


def test_a_span_that_did_not_fail_is_completed(telemetry: CapturedTelemetry) -> None:
    span(processed(telemetry, [CHUNK]), (500, 540))
    assert found(telemetry, OUTCOMES).attributes["itl.stream.outcome"] == "completed"


@pytest.mark.requirement("R59")
def test_the_attributes_are_those_of_the_span(telemetry: CapturedTelemetry) -> None:
    span(processed(telemetry, [CHUNK]), (500, 540), attributes={**FOREIGN, "session.id": "s", "user.id": "u"})
    assert found(telemetry, LATENCY).attributes == FOREIGN


def test_a_span_of_the_older_conventions_names_its_system(telemetry: CapturedTelemetry) -> None:
    span(processed(telemetry, [CHUNK]), (500, 540), attributes={"gen_ai.system": "cohere"})
    assert found(telemetry, LATENCY).attributes == {"gen_ai.operation.name": "chat", "gen_ai.provider.name": "cohere"}


def test_a_span_that_says_nothing_of_its_provider_has_an_unknown_one(telemetry: CapturedTelemetry) -> None:
    span(processed(telemetry, [CHUNK]), (500, 540), attributes={})
    assert found(telemetry, LATENCY).attributes["gen_ai.provider.name"] == "unknown"


@pytest.mark.parametrize(
    "attributes",
    [
        {"gen_ai.request.model": 3, "gen_ai.provider.name": True, "server.port": "443", "gen_ai.operation.name": 1.5},
        {"gen_ai.usage.output_tokens": "many", "gen_ai.response.model": ("a", "b"), "error.type": 5},
        {"gen_ai.usage.output_tokens": -3, "server.address": ("a",)},
    ],
)
def test_attributes_of_odd_types_raise_nothing(telemetry: CapturedTelemetry, attributes: Mapping[str, Any]) -> None:
    span(processed(telemetry, [CHUNK], standard_metrics=True), (500, 540), attributes=attributes)
    assert found(telemetry, LATENCY).count == 1


def test_events_of_other_names_are_no_chunks(telemetry: CapturedTelemetry) -> None:
    span(processed(telemetry, [CHUNK]), (500, 540), name="exception")
    assert found(telemetry, OUTCOMES) is None


def test_several_names_of_chunk_events_are_known(telemetry: CapturedTelemetry) -> None:
    processed(telemetry, ["a", CHUNK])
    span(telemetry, (500, 540), name="a")
    span(telemetry, (500, 540), name=CHUNK)
    assert found(telemetry, LATENCY).count == 2


def test_one_name_of_chunk_events_may_be_given_as_text(telemetry: CapturedTelemetry) -> None:
    span(processed(telemetry, CHUNK), (500, 540))
    assert found(telemetry, LATENCY).count == 1


def test_a_span_without_events_is_passed_over(telemetry: CapturedTelemetry) -> None:
    span(processed(telemetry, [CHUNK]))
    assert found(telemetry, OUTCOMES) is None


def test_a_span_that_is_not_sampled_is_passed_over() -> None:
    telemetry = CapturedTelemetry(sampler=ALWAYS_OFF)
    span(processed(telemetry, [CHUNK]), (500, 540))
    counted = found(telemetry, OUTCOMES)
    telemetry.shutdown()
    assert counted is None


@pytest.mark.requirement("R60")
def test_a_latency_of_another_s_span_carries_its_ids(telemetry: CapturedTelemetry) -> None:
    span(processed(telemetry, [CHUNK]), (500, 540))
    (exemplar,) = found(telemetry, LATENCY).exemplars
    context: Any = telemetry.spans[0].get_span_context()
    assert (exemplar.trace_id, exemplar.span_id) == (context.trace_id, context.span_id)


# --- Token events of ours, replayed --------------------------------------------------------------------------------


@pytest.mark.parametrize("form", [encode, encode_each])
def test_a_replayed_span_is_measured_from_its_token_events(telemetry: CapturedTelemetry, form: Any) -> None:
    # Gaps 40 and 1,000 ms; the first token at 500; 1.04 / (6 - 1).
    span(processed(telemetry), events=form(TIMELINE))
    values = [found(telemetry, name).value for name in (FIRST_TOKEN, LATENCY, PER_TOKEN)]
    assert values == pytest.approx([0.5, 1.04, 0.208])


def test_a_replayed_span_ends_as_its_token_events_say(telemetry: CapturedTelemetry) -> None:
    span(processed(telemetry), events=encode(TIMELINE))
    assert found(telemetry, OUTCOMES).attributes["itl.stream.outcome"] == "closed"


def test_token_events_of_ours_win_over_chunk_events(telemetry: CapturedTelemetry) -> None:
    span(processed(telemetry, [CHUNK]), (1, 2, 3, 4, 5, 6), events=encode(TIMELINE))
    assert found(telemetry, LATENCY).count == 2


@pytest.mark.parametrize(
    ("attribute", "value"),
    [
        (names.TOKENS_OFFSETS, [1]),
        (names.TOKENS_KINDS, [2, 9]),
        (names.STREAM_OUTCOME, "finished"),
        (names.STREAM_END, "soon"),
        (names.STREAM_HEADERS, "soon"),
        (names.STREAM_REQUEST_TIME, "soon"),
        (names.USAGE_OUTPUT_TOKENS, "many"),
        (names.USAGE_OUTPUT_TOKENS, [6]),
        (names.USAGE_REASONING_TOKENS, "many"),
        (names.TOKENS_UNRECORDED, "many"),
    ],
)
@pytest.mark.requirement("R16")
def test_a_span_with_malformed_token_events_ends_without_a_word(
    telemetry: CapturedTelemetry, attribute: str, value: Any
) -> None:
    events = encode(TIMELINE)
    events[-1].attributes[attribute] = value
    span(processed(telemetry), events=events)
    assert (len(telemetry.spans), found(telemetry, OUTCOMES)) == (1, None)


def test_a_span_with_a_part_of_its_token_events_is_passed_over(telemetry: CapturedTelemetry) -> None:
    events = [event for event in encode_each(TIMELINE) or () if event.name == names.TOKENS_EVENT]
    span(processed(telemetry), events=[event._replace(attributes={}) for event in events])
    assert found(telemetry, OUTCOMES) is None


# --- Measured already ----------------------------------------------------------------------------------------------


@pytest.mark.requirement("R65")
@pytest.mark.parametrize("events", [None, encode(TIMELINE)])
def test_a_span_that_is_measured_already_is_passed_over(
    telemetry: CapturedTelemetry, events: list[TokenEvent] | None
) -> None:
    span(processed(telemetry, [CHUNK]), (500, 540), events=events, measured=True)
    assert found(telemetry, OUTCOMES) is None


def test_a_span_that_is_measured_already_leaves_the_others(telemetry: CapturedTelemetry) -> None:
    processed(telemetry, [CHUNK])
    span(telemetry, (500, 540), measured=True)
    span(telemetry, (500, 540))
    assert found(telemetry, OUTCOMES).value == 1


# --- What it is given ----------------------------------------------------------------------------------------------


def test_the_standard_metrics_are_left_to_the_other_instrumentation(telemetry: CapturedTelemetry) -> None:
    span(processed(telemetry, [CHUNK]), (500, 540))
    found(telemetry, OUTCOMES)
    assert [name for name in telemetry.metrics if name.startswith("gen_ai.")] == []


def test_the_standard_metrics_are_recorded_when_asked_for(telemetry: CapturedTelemetry) -> None:
    span(processed(telemetry, [CHUNK], standard_metrics=True, standard_names="inference"), (500, 540))
    assert found(telemetry, "gen_ai.client.inference.duration").value == pytest.approx(1.0)


def test_the_token_counts_of_a_span_are_recorded_when_asked_for(telemetry: CapturedTelemetry) -> None:
    counted = {
        "gen_ai.usage.output_tokens": 9,
        "gen_ai.usage.cache_read.input_tokens": 3,
        "gen_ai.usage.cache_creation.input_tokens": 2,
    }
    processed(telemetry, [CHUNK], standard_metrics=True, standard_names="inference")
    span(telemetry, (500, 540), attributes={**FOREIGN, **counted})
    usage = "gen_ai.client.inference.usage"
    found(telemetry, OUTCOMES)
    assert {name: points[0].value for name, points in telemetry.metrics.items() if name.startswith(usage)} == {
        f"{usage}.output_tokens": 9,
        f"{usage}.cache_read.input_tokens": 3,
        f"{usage}.cache_write.input_tokens": 2,
    }


@pytest.mark.parametrize(
    ("options", "name"),
    [({}, "gen_ai.client.inference.duration"), ({"standard_names": "operation"}, "gen_ai.client.operation.duration")],
)
def test_the_newest_generation_may_be_opted_into(
    telemetry: CapturedTelemetry, options: dict[str, str], name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_SEMCONV_STABILITY_OPT_IN", "http,gen_ai_latest_experimental")
    span(processed(telemetry, [CHUNK], standard_metrics=True, **options), (500, 540))
    assert found(telemetry, name).value == pytest.approx(1.0)


def test_the_metrics_have_our_scope(telemetry: CapturedTelemetry) -> None:
    reader = InMemoryMetricReader()
    provider = MeterProvider([reader], shutdown_on_exit=False)
    telemetry.tracer_provider.add_span_processor(ITLSpanProcessor([CHUNK], meter_provider=provider))
    span(telemetry, (500, 540))
    data: Any = reader.get_metrics_data()
    ((scope,),) = [[each.scope for each in resource.scope_metrics] for resource in data.resource_metrics]
    provider.shutdown()
    assert (scope.name, scope.schema_url) == ("otel_itl", "https://opentelemetry.io/schemas/1.41.0")


@pytest.mark.requirement("R59")
def test_models_beyond_the_limit_are_one_series(telemetry: CapturedTelemetry) -> None:
    processed(telemetry, [CHUNK], model_limit=1)
    for model in "abc":
        span(telemetry, (500, 540), attributes={"gen_ai.request.model": model})
    found(telemetry, OUTCOMES)
    counted = {one.attributes["gen_ai.request.model"]: one.value for one in telemetry.metrics[OUTCOMES]}
    assert counted == {"a": 1, "other": 2}


def test_a_span_is_in_the_next_collection_without_a_flush(telemetry: CapturedTelemetry) -> None:
    span(processed(telemetry, [CHUNK]), (500, 540))
    assert [one.count for one in telemetry.metrics.get(LATENCY, [])] == [1]


def test_a_shutdown_records_what_is_left(telemetry: CapturedTelemetry) -> None:
    processor = ITLSpanProcessor([CHUNK], meter_provider=telemetry.meter_provider)
    telemetry.tracer_provider.add_span_processor(processor)
    span(telemetry, (500, 540))
    processor.shutdown()
    assert telemetry.metrics[LATENCY][0].count == 1


# --- Stalls and objectives -------------------------------------------------------------------------------------------


def test_a_silence_of_a_foreign_span_is_a_stall(telemetry: CapturedTelemetry) -> None:
    span(processed(telemetry, [CHUNK], stall="next_token=0.5,relative=off"), (100, 200, 900, 950), end_ms=960)
    point = found(telemetry, "itl.client.stalls")
    assert (point.value, point.attributes["itl.stall.phase"]) == (1, "decode")


def test_the_first_token_of_a_foreign_span_may_be_a_stall(telemetry: CapturedTelemetry) -> None:
    span(processed(telemetry, [CHUNK], stall="first_token=0.5"), (600, 700), end_ms=710)
    assert found(telemetry, "itl.client.stall.duration").raw.sum == pytest.approx(0.6)


def test_a_foreign_span_that_flows_has_no_stall(telemetry: CapturedTelemetry) -> None:
    span(processed(telemetry, [CHUNK], stall="first_token=0.5,next_token=0.5"), (100, 200, 300), end_ms=310)
    assert found(telemetry, "itl.client.stalls") is None


def test_a_foreign_span_is_held_against_its_objective(telemetry: CapturedTelemetry) -> None:
    span(processed(telemetry, [CHUNK], slo="0.5/0.05"), (100, 140, 240), end_ms=250)
    telemetry.tracer_provider.force_flush()
    points = telemetry.metrics["itl.client.slo.tokens"]
    assert {point.attributes["itl.slo.met"]: point.value for point in points} == {True: 1, False: 1}


@pytest.mark.parametrize("options", [{"slo": "talk"}, {"standard_names": "newest"}, {"model_limit": 0}])
def test_a_value_that_an_option_does_not_take_is_refused(options: dict[str, Any]) -> None:
    ((name, value),) = options.items()
    with pytest.raises(ValueError, match=f"{name}={value!r}"):
        ITLSpanProcessor(**options)


# --- As instrument() wires it ----------------------------------------------------------------------------------------


def wired(
    telemetry: CapturedTelemetry, flush: Any = lambda _: None, errors: InternalErrors | None = None
) -> SpanEventProcessor:
    """The processor that `instrument()` puts into a tracer provider."""
    streams = runtime.metrics.create(
        telemetry.meter_provider.get_meter("test"), metric_conventions.STANDARD_NAMES["operation"], model_limit=9
    )
    processor = SpanEventProcessor(
        chunk_events=[CHUNK],
        stall=None,
        objectives=Objectives(),
        stream_metrics=streams,
        measured_spans=MeasuredSpans(),
        errors=errors or InternalErrors(),
        flush=flush,
    )
    telemetry.tracer_provider.add_span_processor(processor)
    return processor


def test_a_flush_of_the_provider_is_a_flush_of_ours(telemetry: CapturedTelemetry) -> None:
    calls: list[str] = []
    wired(telemetry, lambda _: calls.append("flush"))
    telemetry.tracer_provider.force_flush()
    assert calls == ["flush"]


@pytest.mark.requirement("R16")
def test_a_flush_that_fails_raises_nothing(telemetry: CapturedTelemetry) -> None:
    def failing(_: float) -> None:
        raise RuntimeError

    errors = InternalErrors()
    assert (wired(telemetry, failing, errors).force_flush(), errors.counts) == (False, {"processor.flush": 1})


@pytest.mark.requirement("R16")
def test_a_span_that_cannot_be_measured_ends_all_the_same(
    telemetry: CapturedTelemetry, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(_: Timeline) -> None:
        raise RuntimeError

    monkeypatch.setattr("otel_itl.export.span_processor.measure", failing)
    errors = InternalErrors()
    wired(telemetry, errors=errors)
    span(telemetry, (500, 540))
    assert (len(telemetry.spans), errors.counts) == (1, {"span.measure": 1})


def test_a_disabled_processor_passes_spans_over(telemetry: CapturedTelemetry) -> None:
    wired(telemetry).disable()
    span(telemetry, (500, 540))
    assert telemetry.metrics.get(OUTCOMES) is None


def test_a_processor_may_be_enabled_again_with_other_options(telemetry: CapturedTelemetry) -> None:
    processor = wired(telemetry)
    processor.disable()
    streams = runtime.metrics.create(
        telemetry.meter_provider.get_meter("test"), metric_conventions.STANDARD_NAMES["operation"]
    )
    processor.reconfigure(chunk_events=["other"], stall=None, objectives=Objectives(), stream_metrics=streams)
    span(telemetry, (500, 540))
    span(telemetry, (500, 540), name="other")
    assert [one.value for one in telemetry.metrics[OUTCOMES]] == [1]
