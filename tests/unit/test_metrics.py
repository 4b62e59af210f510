"""The instruments, by a real meter provider: what is recorded of a stream, with which attributes, and when."""

from __future__ import annotations

import re
import threading
from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from itertools import accumulate, pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from opentelemetry.sdk.metrics import Histogram, MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.metrics.view import (
    DropAggregation,
    ExplicitBucketHistogramAggregation,
    ExponentialBucketHistogramAggregation,
    View,
)
from opentelemetry.trace import SpanContext, TraceFlags

from otel_itl.core import metric_conventions
from otel_itl.core.measures import measure
from otel_itl.core.request import Request
from otel_itl.core.stream import Concurrency, FinishedStream, ResponseInfo
from otel_itl.core.timeline import SECOND, Kind, Outcome, Timeline
from otel_itl.export.attributes import of_metrics
from otel_itl.export.cardinality import OTHER, LabelCaps
from otel_itl.export.metrics import ZERO_REPORTS, MetricsRegistry, StreamMetrics
from otel_itl.export.stream_report import SpanHandle, StreamReport
from otel_itl.recording.critical_sections import CriticalSections
from otel_itl.testing import CapturedTelemetry

MS = 1_000_000
REQUEST = Request(
    operation="chat",
    provider="openai",
    model="gpt",
    server_address="api.openai.com",
    server_port=443,
    parameters={"a": 1},
)
STREAM = {
    "gen_ai.operation.name": "chat",
    "gen_ai.provider.name": "openai",
    "gen_ai.request.model": "gpt",
    "gen_ai.response.model": "gpt-1",
    "server.address": "api.openai.com",
    "server.port": 443,
}
STANDARD = {
    "gen_ai.client.operation.duration",
    "gen_ai.client.operation.time_to_first_chunk",
    "gen_ai.client.operation.time_per_output_chunk",
    "gen_ai.client.token.usage",
}


def timeline(*arrived_ms: float, kinds: bytes = b"", **facts: Any) -> Timeline:
    """Chunks that come at these milliseconds, each waited for."""
    arrived = array("q", [round(moment * MS) for moment in arrived_ms])
    return Timeline(
        **{
            "request_unix_ns": 1_700_000_000_000_000_000,
            "asked": array("q", [0, *arrived[:-1]][: len(arrived)]),
            "arrived": arrived,
            "kinds": kinds or bytes([Kind.ANSWER]) * len(arrived),
            "end": arrived[-1] + 100 * MS if arrived else 900 * MS,
            **facts,
        }
    )


# Gaps 40 60 40 40 40 1000 40 40 ms: eight samples, 1.3 s together. Fourteen tokens: 1.3 / 13 = 0.1 s for each.
MAIN = timeline(500, 540, 600, 640, 680, 720, 1720, 1760, 1800, input_tokens=20, output_tokens=14)


NO_SPAN = SpanContext(0, 0, is_remote=False)


def report_of(finished: FinishedStream, span: SpanContext = NO_SPAN, *, records_standard: bool) -> StreamReport:
    """The report of a stream that ended, on the span with these ids."""
    handle = SpanHandle()
    handle.span_context, handle.records_standard = span, records_standard
    return StreamReport(handle, finished, measure(finished.timeline))


def measured(
    stream: Timeline = MAIN,
    *,
    request: Request = REQUEST,
    response_model: str | None = "gpt-1",
    error_type: str | None = None,
    standard: bool = False,
    span: SpanContext = NO_SPAN,
    host_delay: float | None = None,
    **usage: int,
) -> StreamReport:
    """An ended stream, as the metrics take it; `usage` are more of its token counts."""
    response = ResponseInfo()
    response.model = response_model
    response.update_token_counts(input_tokens=stream.input_tokens, output_tokens=stream.output_tokens, **usage)
    finished = FinishedStream(request, response, stream, Concurrency(1, 1.0), error_type, host_delay=host_delay)
    return report_of(finished, span, records_standard=standard)


class Errors:
    """Keeps what failed."""

    def __init__(self, counts: Mapping[str, int] | None = None) -> None:
        self.counts = Counter(counts or {})

    def report(self, where: str, error: BaseException) -> None:
        self.counts[where] += 1


def registry(
    in_flight: Callable[[], Iterable[Request]] = list,
    errors: Errors | None = None,
    before_collection: Callable[[], None] = lambda: None,
) -> MetricsRegistry:
    return MetricsRegistry(
        errors or Errors(),
        CriticalSections(),
        open_streams=lambda: [(request, False) for request in in_flight()],
        before_collection=before_collection,
        wake=lambda: None,
    )


def stream_metrics(
    telemetry: Any,
    generation: str = "operation",
    limit: int = 100,
    *,
    into: MetricsRegistry | None = None,
    reports_process: bool = True,
) -> StreamMetrics:
    meter_provider = getattr(telemetry, "meter_provider", telemetry)
    meter, standard = meter_provider.get_meter("test"), metric_conventions.STANDARD_NAMES[generation]
    return (into or registry()).create(meter, standard, model_limit=limit, reports_process=reports_process)


@pytest.fixture
def telemetry() -> Any:
    captured = CapturedTelemetry()
    yield captured
    captured.shutdown()


def point(telemetry: CapturedTelemetry, name: str, **attributes: Any) -> Any:
    """The one point of a metric that has these attributes."""
    (found,) = [
        found
        for found in telemetry.metrics.get(name, [])
        if all(found.attributes.get(key.replace("__", ".")) == value for key, value in attributes.items())
    ]
    return found


# --- What is recorded ----------------------------------------------------------------------------------------------


def test_every_latency_sample_is_recorded(telemetry: CapturedTelemetry) -> None:
    stream_metrics(telemetry).add(measured())
    latency = point(telemetry, "itl.client.inter_token_latency")
    assert (latency.count, latency.value) == (8, pytest.approx(1.3))


@pytest.mark.requirement("R58")
def test_every_latency_sample_is_in_its_bucket(telemetry: CapturedTelemetry) -> None:
    # An edge belongs to the bucket below it: six of 40 ms, one of 60 ms in (50, 75], one of 1 s in (750, 1000].
    stream_metrics(telemetry).add(measured())
    raw = point(telemetry, "itl.client.inter_token_latency").raw
    filled = {edge: count for edge, count in zip(raw.explicit_bounds, raw.bucket_counts, strict=False) if count}
    assert filled == {0.04: 6, 0.075: 1, 1.0: 1}


def test_the_extremes_of_the_latency_are_recorded(telemetry: CapturedTelemetry) -> None:
    stream_metrics(telemetry).add(measured())
    raw = point(telemetry, "itl.client.inter_token_latency").raw
    assert (raw.min, raw.max) == pytest.approx((0.04, 1.0))


def test_samples_of_several_streams_add_up(telemetry: CapturedTelemetry) -> None:
    streams = stream_metrics(telemetry)
    for _ in range(3):
        streams.add(measured())
    assert point(telemetry, "itl.client.inter_token_latency").count == 24


def test_the_time_to_first_token_is_recorded_once_a_stream(telemetry: CapturedTelemetry) -> None:
    stream_metrics(telemetry).add(measured())
    first = point(telemetry, "itl.client.time_to_first_token")
    assert (first.count, first.value) == (1, 0.5)


@pytest.mark.requirement("R41")
def test_a_stream_without_a_token_has_no_time_to_first_token(telemetry: CapturedTelemetry) -> None:
    stream_metrics(telemetry).add(measured(timeline(200, kinds=bytes([Kind.ROLE]))))
    assert "itl.client.time_to_first_token" not in telemetry.metrics


def test_the_time_per_output_token_is_recorded_once_a_stream(telemetry: CapturedTelemetry) -> None:
    stream_metrics(telemetry).add(measured())
    per_token = point(telemetry, "itl.client.time_per_output_token")
    assert (per_token.count, per_token.value) == (1, pytest.approx(0.1))


@pytest.mark.requirement("R36")
def test_a_stream_without_a_token_count_has_no_time_per_output_token(telemetry: CapturedTelemetry) -> None:
    stream_metrics(telemetry).add(measured(timeline(500, 540, 600)))
    assert "itl.client.time_per_output_token" not in telemetry.metrics


def test_a_stream_of_one_chunk_has_no_latency(telemetry: CapturedTelemetry) -> None:
    stream_metrics(telemetry).add(measured(timeline(500)))
    assert "itl.client.inter_token_latency" not in telemetry.metrics


@pytest.mark.parametrize("outcome", list(Outcome))
def test_every_outcome_is_counted(telemetry: CapturedTelemetry, outcome: Outcome) -> None:
    streams = stream_metrics(telemetry)
    for _ in range(2):
        streams.add(measured(replace(MAIN, outcome=outcome)))
    assert point(telemetry, "itl.client.stream.outcomes", itl__stream__outcome=outcome.value).value == 2


@pytest.mark.requirement("R43")
def test_a_stream_without_a_span_is_recorded(telemetry: CapturedTelemetry) -> None:
    stream_metrics(telemetry).add(measured(span=NO_SPAN))
    assert point(telemetry, "itl.client.inter_token_latency").count == 8


def test_a_stream_without_chunks_is_counted(telemetry: CapturedTelemetry) -> None:
    stream_metrics(telemetry).add(measured(timeline(), standard=True))
    assert point(telemetry, "itl.client.stream.outcomes").value == 1


# --- What is not known well enough ------------------------------------------------------------------------------------


def held(hold_ms: float) -> Timeline:
    """A first token that was found waiting after a hold, and a second one that was found after another."""
    moments = array("q", [round((100 + hold_ms) * MS), round((100 + 2 * hold_ms) * MS)])
    return timeline(0, 0, asked=moments, arrived=moments, headers=100 * MS, end=moments[-1])


def late(*late_ms: float) -> Timeline:
    """A stream with a token every 20 ms from 100 ms on, each of which may have come that much earlier."""
    moments = (100 + 20 * index for index in range(len(late_ms)))
    return timeline(*moments, lateness=array("q", [round(each * MS) for each in late_ms]), output_tokens=len(late_ms))


LATENCIES = ("inter_token_latency", "time_to_first_token", "time_per_output_token")


@pytest.mark.parametrize("name", LATENCIES)
@pytest.mark.parametrize("late_ms", [(2, 2), (1.5, 0, 2)])
def test_a_short_stream_that_is_known_to_2_of_20_ms_is_recorded(
    telemetry: CapturedTelemetry, late_ms: tuple[float, ...], name: str
) -> None:
    stream_metrics(telemetry).add(measured(late(*late_ms)))
    assert point(telemetry, f"itl.client.{name}").count > 0


@pytest.mark.parametrize("name", LATENCIES)
def test_what_holds_leave_half_open_is_not_recorded(telemetry: CapturedTelemetry, name: str) -> None:
    stream_metrics(telemetry).add(measured(replace(held(400), output_tokens=2)))
    assert f"itl.client.{name}" not in telemetry.metrics


@pytest.mark.parametrize("figure", ["ttft", "itl"])
def test_what_is_not_known_to_half_of_itself_is_counted(telemetry: CapturedTelemetry, figure: str) -> None:
    stream_metrics(telemetry).add(measured(held(400)))
    counted = point(telemetry, "itl.client.uncertain_streams", itl__uncertain__figure=figure)
    assert (counted.value, counted.attributes["itl.uncertain.cause"]) == (1, "consumer")


@pytest.mark.parametrize(("delay", "cause"), [(None, "consumer"), (0.01, "consumer"), (0.08, "host")])
def test_what_is_late_is_the_host_s_as_far_as_it_delayed_the_reader(
    telemetry: CapturedTelemetry, delay: float | None, cause: str
) -> None:
    stream_metrics(telemetry).add(measured(late(80), host_delay=delay))
    assert point(telemetry, "itl.client.uncertain_streams").attributes["itl.uncertain.cause"] == cause


def test_a_stream_that_is_known_is_not_counted_as_uncertain(telemetry: CapturedTelemetry) -> None:
    stream_metrics(telemetry).add(measured())
    assert "itl.client.uncertain_streams" not in telemetry.metrics


# --- The standard metrics ------------------------------------------------------------------------------------------


def test_the_standard_metrics_are_left_to_the_instrumentation_in_charge(telemetry: CapturedTelemetry) -> None:
    stream_metrics(telemetry).add(measured(standard=False))
    assert telemetry.metrics.keys() & STANDARD == set()


def test_the_standard_metrics_are_recorded_where_no_other_instrumentation_does(telemetry: CapturedTelemetry) -> None:
    stream_metrics(telemetry).add(measured(standard=True))
    assert telemetry.metrics.keys() & STANDARD == STANDARD


@pytest.mark.parametrize(
    ("name", "count", "total"),
    [
        ("gen_ai.client.operation.duration", 1, 1.9),  # the last chunk at 1.8 s, the end 0.1 s later
        ("gen_ai.client.operation.time_to_first_chunk", 1, 0.5),
        ("gen_ai.client.operation.time_per_output_chunk", 8, 1.3),
    ],
)
def test_a_standard_metric_is_what_the_conventions_say(
    telemetry: CapturedTelemetry, name: str, count: int, total: float
) -> None:
    stream_metrics(telemetry).add(measured(standard=True))
    found = point(telemetry, name)
    assert (found.count, found.value) == (count, pytest.approx(total))


def test_a_chunk_of_any_kind_counts_to_the_standard_metrics(telemetry: CapturedTelemetry) -> None:
    # As the conventions have it: a role chunk is a first chunk, and a finish chunk has a gap before it.
    kinds = bytes([Kind.ROLE, Kind.ANSWER, Kind.FINISH])
    stream_metrics(telemetry).add(measured(timeline(200, 500, 530, kinds=kinds), standard=True))
    first = point(telemetry, "gen_ai.client.operation.time_to_first_chunk")
    between = point(telemetry, "gen_ai.client.operation.time_per_output_chunk")
    assert (first.value, between.count, between.value) == (pytest.approx(0.2), 2, pytest.approx(0.33))


@pytest.mark.parametrize(("token_type", "tokens"), [("input", 20), ("output", 14)])
def test_the_token_usage_is_recorded_by_type(telemetry: CapturedTelemetry, token_type: str, tokens: int) -> None:
    stream_metrics(telemetry).add(measured(standard=True))
    assert point(telemetry, "gen_ai.client.token.usage", gen_ai__token__type=token_type).value == tokens


def test_a_usage_that_was_not_reported_is_not_recorded(telemetry: CapturedTelemetry) -> None:
    stream_metrics(telemetry).add(measured(timeline(500, 540), standard=True))
    assert "gen_ai.client.token.usage" not in telemetry.metrics


def test_the_error_type_is_on_the_duration(telemetry: CapturedTelemetry) -> None:
    stream_metrics(telemetry).add(measured(standard=True, error_type="RateLimitError"))
    assert point(telemetry, "gen_ai.client.operation.duration").attributes == {
        **STREAM,
        "error.type": "RateLimitError",
    }


@pytest.mark.requirement("R59")
def test_the_error_type_is_on_nothing_but_the_duration(telemetry: CapturedTelemetry) -> None:
    stream_metrics(telemetry).add(measured(standard=True, error_type="RateLimitError"))
    having = {name for name, points in telemetry.metrics.items() for one in points if "error.type" in one.attributes}
    assert having == {"gen_ai.client.operation.duration"}


# --- The coming generation ------------------------------------------------------------------------------------------

USAGE = "gen_ai.client.inference.usage"
TOKENS = "gen_ai.client.inference.operation"


def test_the_coming_generation_has_metrics_of_its_own(telemetry: CapturedTelemetry) -> None:
    stream_metrics(telemetry, "inference").add(
        measured(standard=True, cache_read_tokens=8, cache_creation_tokens=4, reasoning_tokens=6)
    )
    assert {name for name in telemetry.metrics if name.startswith("gen_ai.")} == {
        "gen_ai.client.inference.duration",
        "gen_ai.client.inference.time_to_first_chunk",
        "gen_ai.client.inference.time_per_output_chunk",
        f"{USAGE}.input_tokens",
        f"{USAGE}.output_tokens",
        f"{USAGE}.cache_read.input_tokens",
        f"{USAGE}.cache_write.input_tokens",
        f"{USAGE}.reasoning.output_tokens",
        f"{TOKENS}.input_tokens",
        f"{TOKENS}.output_tokens",
    }


@pytest.mark.parametrize(
    ("category", "tokens"),
    [
        ("input_tokens", 20),
        ("output_tokens", 14),
        ("cache_read.input_tokens", 8),
        ("cache_write.input_tokens", 4),
        ("reasoning.output_tokens", 6),
    ],
)
def test_consumed_tokens_are_counted_by_category(telemetry: CapturedTelemetry, category: str, tokens: int) -> None:
    streams = stream_metrics(telemetry, "inference")
    for _ in range(2):
        streams.add(measured(standard=True, cache_read_tokens=8, cache_creation_tokens=4, reasoning_tokens=6))
    found = point(telemetry, f"{USAGE}.{category}")
    assert (found.kind, found.value) == ("sum", 2 * tokens)


def test_the_modality_of_counted_tokens_is_unknown(telemetry: CapturedTelemetry) -> None:
    stream_metrics(telemetry, "inference").add(measured(standard=True))
    expected = {**STREAM, "gen_ai.token.modality": "unknown"}
    assert point(telemetry, f"{USAGE}.input_tokens").attributes == expected


@pytest.mark.parametrize(("field", "tokens"), [("input_tokens", 20), ("output_tokens", 14)])
def test_the_tokens_of_a_request_are_a_histogram(telemetry: CapturedTelemetry, field: str, tokens: int) -> None:
    stream_metrics(telemetry, "inference").add(measured(standard=True))
    found = point(telemetry, f"{TOKENS}.{field}")
    assert (found.kind, found.count, found.value) == ("histogram", 1, tokens)


def test_the_tokens_of_a_request_have_no_modality(telemetry: CapturedTelemetry) -> None:
    # Percentiles of modalities do not add up.
    stream_metrics(telemetry, "inference").add(measured(standard=True))
    assert point(telemetry, f"{TOKENS}.input_tokens").attributes == STREAM


def test_a_count_that_was_not_reported_is_not_zero(telemetry: CapturedTelemetry) -> None:
    stream_metrics(telemetry, "inference").add(measured(timeline(500, 540), standard=True))
    assert {name for name in telemetry.metrics if "tokens" in name} == set()


@pytest.mark.parametrize("generation", metric_conventions.STANDARD_NAMES)
def test_a_response_that_is_fetched_again_reports_no_token_usage(telemetry: CapturedTelemetry, generation: str) -> None:
    fetched = replace(REQUEST, operation="fetch_response")
    stream_metrics(telemetry, generation).add(measured(request=fetched, standard=True))
    assert {name for name in telemetry.metrics if "tokens" in name or "token.usage" in name} == set()


# --- Attributes ----------------------------------------------------------------------------------------------------


@pytest.mark.requirement("R59")
@pytest.mark.parametrize(
    "name", ["itl.client.inter_token_latency", "itl.client.time_to_first_token", "itl.client.time_per_output_token"]
)
def test_a_point_has_the_attributes_of_the_allow_list_and_no_others(telemetry: CapturedTelemetry, name: str) -> None:
    stream_metrics(telemetry).add(measured())
    assert point(telemetry, name).attributes == STREAM


def test_what_is_unknown_of_a_request_is_no_attribute(telemetry: CapturedTelemetry) -> None:
    request = Request(operation="chat", provider="openai")
    stream_metrics(telemetry).add(measured(request=request, response_model=None))
    assert point(telemetry, "itl.client.time_to_first_token").attributes == {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "openai",
    }


@pytest.mark.requirement("R59")
def test_every_emitted_attribute_is_in_a_namespace(telemetry: CapturedTelemetry) -> None:
    streams = stream_metrics(telemetry, into=registry(lambda: [REQUEST], Errors({"stream.end": 1})))
    streams.add(measured(standard=True, error_type="RateLimitError"))
    emitted = {key for points in telemetry.metrics.values() for one in points for key in one.attributes}
    assert {key for key in emitted if not re.match(r"(itl|gen_ai|server|error)\.", key)} == set()


@pytest.mark.requirement("R59")
def test_models_beyond_the_limit_are_one_series(telemetry: CapturedTelemetry) -> None:
    streams = stream_metrics(telemetry, limit=2)
    for number in range(50):
        request = Request(operation="chat", provider="openai", model=f"model-{number}")
        streams.add(measured(request=request, response_model=None))
    counted = {
        one.attributes["gen_ai.request.model"]: one.value for one in telemetry.metrics["itl.client.stream.outcomes"]
    }
    assert counted == {"model-0": 1, "model-1": 1, "other": 48}


def test_a_model_that_is_known_keeps_its_name() -> None:
    models = LabelCaps(1)
    assert [models.cap_request_model(model) for model in ("a", "b", "a")] == ["a", OTHER, "a"]


@pytest.mark.requirement("R59")
def test_models_that_answer_take_no_place_from_those_that_are_asked_for() -> None:
    models = LabelCaps(2)
    asked = Request(operation="chat", provider="x", model="a")
    answering = [of_metrics(asked, answer, models)["gen_ai.response.model"] for answer in ("b", "c", "d")]
    assert (answering, models.cap_request_model("e")) == (["b", "c", OTHER], "e")


def labels_of_hosts(caps: LabelCaps, *hosts: tuple[str | None, int | None]) -> list[tuple[Any, Any]]:
    """Address and port on the metrics of requests to these hosts."""
    asked = [
        Request(operation="chat", provider="x", server_address=address, server_port=port) for address, port in hosts
    ]
    labels = [of_metrics(request, None, caps) for request in asked]
    return [(each.get("server.address"), each.get("server.port")) for each in labels]


def test_servers_beyond_the_limit_are_one_without_a_port() -> None:
    hosts = labels_of_hosts(LabelCaps(2), ("a", 1), ("b", 2), ("c", 3), ("a", 1))
    assert hosts == [("a", 1), ("b", 2), (OTHER, None), ("a", 1)]


def test_each_port_of_a_server_counts() -> None:
    assert labels_of_hosts(LabelCaps(2), ("a", 1), ("a", 2), ("a", 3)) == [("a", 1), ("a", 2), (OTHER, None)]


def test_a_server_without_an_address_has_no_port() -> None:
    assert labels_of_hosts(LabelCaps(2), (None, 1)) == [(None, None)]


@pytest.mark.parametrize("label", ["provider", "operation"])
def test_names_that_an_application_makes_up_are_capped(label: str) -> None:
    caps = LabelCaps(100)
    requests = [Request(**{"operation": "chat", "provider": "x", label: f"n{number}"}) for number in range(150)]
    values = {of_metrics(request, None, caps)[f"gen_ai.{label}.name"] for request in requests}
    assert (len(values), OTHER in values) == (101, True)


@settings(max_examples=50)
@given(st.lists(st.tuples(st.sampled_from("abcdef"), st.integers(1, 3))), st.integers(1, 4))
def test_servers_on_metrics_are_no_more_than_the_limit_and_one(hosts: list[tuple[str, int]], limit: int) -> None:
    labels = labels_of_hosts(LabelCaps(limit), *hosts)
    kept = [(host, label) for host, label in zip(hosts, labels, strict=True) if label != (OTHER, None)]
    assert (len({label for _, label in kept}) <= limit, all(host == label for host, label in kept)) == (True, True)


def test_three_thousand_hosts_of_tenants_are_a_hundred_and_one_series(telemetry: CapturedTelemetry) -> None:
    streams = stream_metrics(telemetry)
    for tenant in range(3_000):
        request = Request(
            operation="chat", provider="x", model="m", server_address=f"t{tenant}.example", server_port=443
        )
        streams.add(measured(request=request, response_model=None))
    counted = {one.attributes["server.address"]: one.value for one in telemetry.metrics["itl.client.stream.outcomes"]}
    assert (len(counted), counted[OTHER], sum(counted.values())) == (101, 2_900, 3_000)


def test_streams_to_servers_beyond_the_limit_share_one_set_of_labels(telemetry: CapturedTelemetry) -> None:
    instruments = stream_metrics(telemetry, limit=1).instruments
    requests = [Request(operation="chat", provider="x", server_address=host) for host in "abc"]
    _, second, third = [instruments.labels_of(measured(request=one, response_model=None)) for one in requests]
    assert second is third


@pytest.mark.requirement("R59")
def test_a_model_that_answers_for_many_counts_with_each() -> None:
    models = LabelCaps(2)
    requests = [Request(operation="chat", provider="x", model=model) for model in ("a", "b", "c")]
    assert [of_metrics(asked, "m", models)["gen_ai.response.model"] for asked in requests] == ["m", "m", OTHER]


# --- When ----------------------------------------------------------------------------------------------------------


def test_what_was_added_is_in_the_next_collection(telemetry: CapturedTelemetry) -> None:
    streams = stream_metrics(telemetry)
    before = "itl.client.stream.outcomes" in telemetry.metrics
    streams.add(measured())
    assert (before, point(telemetry, "itl.client.stream.outcomes").value) == (False, 1)


def test_what_was_recorded_is_not_recorded_again(telemetry: CapturedTelemetry) -> None:
    process = registry()
    stream_metrics(telemetry, into=process).add(measured())
    process.pending.record_all()
    process.pending.record_all()
    assert point(telemetry, "itl.client.stream.outcomes").value == 1


@pytest.mark.parametrize("reports_process", [False, True])
def test_what_was_added_is_in_the_next_collection_whether_or_not_it_reports_the_process(
    telemetry: CapturedTelemetry, reports_process: bool
) -> None:
    stream_metrics(telemetry, reports_process=reports_process).add(measured())
    assert [found.value for found in telemetry.metrics.get("itl.client.stream.outcomes", [])] == [1]


def test_what_ends_before_a_collection_is_in_it(telemetry: CapturedTelemetry) -> None:
    made: list[StreamMetrics] = []

    def finalize() -> None:
        made[0].add(measured())

    made.append(stream_metrics(telemetry, into=registry(before_collection=finalize)))
    assert point(telemetry, "itl.client.stream.outcomes").value == 1


@pytest.mark.requirement("R16")
def test_a_collection_goes_on_where_what_comes_before_it_fails(telemetry: CapturedTelemetry) -> None:
    def failing() -> None:
        raise RuntimeError

    errors = Errors()
    stream_metrics(telemetry, into=registry(errors=errors, before_collection=failing)).add(measured())
    assert (point(telemetry, "itl.client.stream.outcomes").value, errors.counts) == (1, {"metrics.observe": 1})


def test_streams_that_many_threads_add_are_all_recorded(telemetry: CapturedTelemetry) -> None:
    process = registry()
    streams = stream_metrics(telemetry, into=process)
    together = threading.Barrier(8)

    def work() -> None:
        together.wait()
        for _ in range(50):
            streams.add(measured())
            process.pending.record_all()

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=20)
    assert point(telemetry, "itl.client.inter_token_latency").count == 8 * 50 * 8


# --- Failures ------------------------------------------------------------------------------------------------------

NO_MODEL: Any = []
"""No name of a model, and nothing that could be an attribute."""


@pytest.mark.requirement("R16")
def test_a_stream_that_cannot_be_recorded_does_not_hold_up_the_others(telemetry: CapturedTelemetry) -> None:
    streams = stream_metrics(telemetry)
    streams.add(measured(request=replace(REQUEST, model=NO_MODEL)))
    streams.add(measured())
    assert point(telemetry, "itl.client.stream.outcomes", gen_ai__request__model="gpt").value == 1


@pytest.mark.requirement("R16")
def test_a_stream_that_cannot_be_recorded_is_counted_all_the_same(telemetry: CapturedTelemetry) -> None:
    stream_metrics(telemetry).add(measured(request=replace(REQUEST, model=NO_MODEL)))
    (counted,) = telemetry.metrics["itl.client.stream.outcomes"]
    assert (counted.value, counted.attributes) == (1, {"itl.stream.outcome": "completed"})


@pytest.mark.requirement("R16")
def test_a_stream_that_cannot_be_recorded_is_a_failure_of_ours(telemetry: CapturedTelemetry) -> None:
    errors = Errors()
    process = registry(errors=errors)
    stream_metrics(telemetry, into=process).add(measured(request=replace(REQUEST, model=NO_MODEL)))
    process.pending.record_all()
    assert errors.counts == {"metrics.record": 1}


@pytest.mark.requirement("R16")
def test_a_stream_is_counted_where_any_other_metric_fails(
    telemetry: CapturedTelemetry, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(*_: Any) -> None:
        raise RuntimeError

    monkeypatch.setattr("otel_itl.export.stream_batch.record_values", failing)
    stream_metrics(telemetry).add(measured())
    assert point(telemetry, "itl.client.stream.outcomes").attributes == {**STREAM, "itl.stream.outcome": "completed"}


@pytest.mark.requirement("R16")
def test_a_stream_that_could_not_be_measured_is_counted(telemetry: CapturedTelemetry) -> None:
    response = ResponseInfo()
    response.model = "gpt-1"
    nothing = Timeline(request_unix_ns=0, end=SECOND)
    unmeasured = report_of(FinishedStream(REQUEST, response, nothing, Concurrency(1, 1.0), None), records_standard=True)
    stream_metrics(telemetry).add(unmeasured)
    assert point(telemetry, "itl.client.stream.outcomes").attributes == {**STREAM, "itl.stream.outcome": "completed"}


def active(telemetry: CapturedTelemetry) -> int:
    """The streams that are open and flow."""
    points = telemetry.metrics["itl.client.stream.count"]
    (value,) = [one.value for one in points if one.attributes["itl.stream.state"] == "active"]
    return value


# --- What is open now ----------------------------------------------------------------------------------------------


def test_open_streams_are_counted_by_request(telemetry: CapturedTelemetry) -> None:
    other = replace(REQUEST, model="small")
    stream_metrics(telemetry, into=registry(lambda: [REQUEST, REQUEST, other]))
    points = telemetry.metrics["itl.client.stream.count"]
    counted = {
        (one.attributes["gen_ai.request.model"], one.attributes["itl.stream.state"]): one.value for one in points
    }
    assert counted == {("gpt", "active"): 2, ("gpt", "stalled"): 0, ("small", "active"): 1, ("small", "stalled"): 0}


def test_open_streams_are_active_or_stalled(telemetry: CapturedTelemetry) -> None:
    states = [(REQUEST, False), (REQUEST, True), (REQUEST, True)]
    process = MetricsRegistry(
        Errors(), CriticalSections(), open_streams=lambda: states, before_collection=lambda: None, wake=lambda: None
    )
    stream_metrics(telemetry, into=process)
    points = telemetry.metrics["itl.client.stream.count"]
    assert {one.attributes["itl.stream.state"]: one.value for one in points} == {"active": 1, "stalled": 2}


def test_streams_that_are_open_no_more_are_zero(telemetry: CapturedTelemetry) -> None:
    in_flight = [REQUEST, REQUEST]
    stream_metrics(telemetry, into=registry(lambda: in_flight))
    first = active(telemetry)
    in_flight.clear()
    assert (first, active(telemetry)) == (2, 0)


@pytest.mark.requirement("R26")
def test_streams_that_were_reported_as_zero_often_enough_are_forgotten(telemetry: CapturedTelemetry) -> None:
    in_flight = [REQUEST]
    made = registry(lambda: in_flight)
    stream_metrics(telemetry, into=made)
    known = []
    for _ in range(ZERO_REPORTS + 2):
        _ = telemetry.metrics
        known.append(len(made._reported))
        in_flight.clear()
    assert known == [1] * (ZERO_REPORTS + 1) + [0]


def test_two_sets_of_metrics_on_one_meter_are_both_collected(telemetry: CapturedTelemetry) -> None:
    # A meter keeps the callbacks of an instrument that is made a second time to itself.
    process = registry()
    for _ in range(2):
        stream_metrics(telemetry, into=process).add(measured())
    assert point(telemetry, "itl.client.stream.outcomes").value == 2


def test_metrics_that_were_replaced_record_what_was_added_and_count_no_open_streams(
    telemetry: CapturedTelemetry,
) -> None:
    process = registry(lambda: [REQUEST])
    stream_metrics(telemetry, into=process).add(measured())
    stream_metrics(telemetry, into=process)
    counted = active(telemetry)
    assert (counted, point(telemetry, "itl.client.stream.outcomes").value) == (1, 1)


def test_failures_of_our_own_are_counted_by_where_they_happened(telemetry: CapturedTelemetry) -> None:
    stream_metrics(telemetry, into=registry(errors=Errors({"stream.end": 2, "chunk.classify": 5})))
    counted = {found.attributes["itl.self.where"]: found.value for found in telemetry.metrics["itl.self.errors"]}
    assert counted == {"stream.end": 2, "chunk.classify": 5}


def test_metrics_that_do_not_report_the_process_count_neither_open_streams_nor_failures(
    telemetry: CapturedTelemetry,
) -> None:
    process = registry(lambda: [REQUEST], Errors({"stream.end": 2}))
    stream_metrics(telemetry, into=process, reports_process=False)
    assert telemetry.metrics.keys() & {"itl.client.stream.count", "itl.self.errors"} == set()


# --- Readers, temporality, aggregations ----------------------------------------------------------------------------


def test_every_reader_sees_every_stream() -> None:
    readers = [InMemoryMetricReader(), InMemoryMetricReader()]
    provider = MeterProvider(readers, shutdown_on_exit=False)
    streams = stream_metrics(provider)
    streams.add(measured())
    seen = []
    for reader in readers:
        data: Any = reader.get_metrics_data()
        seen += [
            found.data.data_points[0].count
            for resource in data.resource_metrics
            for scope in resource.scope_metrics
            for found in scope.metrics
            if found.name == "itl.client.inter_token_latency"
        ]
    provider.shutdown()
    assert seen == [8, 8]


def test_a_delta_reader_gets_each_stream_once() -> None:
    telemetry = CapturedTelemetry(temporality="delta")
    streams = stream_metrics(telemetry)
    counts = []
    for added in (1, 0, 2):
        telemetry.clear()
        for _ in range(added):
            streams.add(measured())
        counts.append(sum(found.count for found in telemetry.metrics.get("itl.client.inter_token_latency", [])))
    telemetry.shutdown()
    assert counts == [8, 0, 16]


def test_a_delta_reader_gets_the_open_streams_of_now() -> None:
    telemetry = CapturedTelemetry(temporality="delta")
    in_flight = [REQUEST, REQUEST]
    stream_metrics(telemetry, into=registry(lambda: in_flight))
    seen = []
    for _ in range(3):
        telemetry.clear()
        seen.append(active(telemetry))
        in_flight[:] = in_flight[:-1]
    telemetry.shutdown()
    assert seen == [2, 1, 0]


@pytest.mark.requirement("R58")
def test_a_view_overrides_the_buckets() -> None:
    view = View(
        instrument_name="itl.client.inter_token_latency",
        aggregation=ExplicitBucketHistogramAggregation(boundaries=(0.05, 0.5)),
    )
    telemetry = CapturedTelemetry(views=[view])
    stream_metrics(telemetry).add(measured())
    raw = point(telemetry, "itl.client.inter_token_latency").raw
    telemetry.shutdown()
    # Six of 40 ms, one of 60, one of 1,000.
    assert (raw.explicit_bounds, raw.bucket_counts) == ((0.05, 0.5), (6, 1, 1))


@pytest.mark.requirement("R58")
def test_a_view_that_drops_a_metric_drops_it() -> None:
    view = View(instrument_name="itl.client.inter_token_latency", aggregation=DropAggregation())
    telemetry = CapturedTelemetry(views=[view])
    stream_metrics(telemetry).add(measured())
    emitted = telemetry.metrics
    telemetry.shutdown()
    assert ("itl.client.inter_token_latency" in emitted, "itl.client.time_to_first_token" in emitted) == (False, True)


def test_a_view_that_drops_attributes_merges_the_series() -> None:
    view = View(instrument_name="itl.client.inter_token_latency", attribute_keys={"gen_ai.operation.name"})
    telemetry = CapturedTelemetry(views=[view])
    streams = stream_metrics(telemetry)
    streams.add(measured())
    streams.add(measured(request=replace(REQUEST, model="small")))
    found = point(telemetry, "itl.client.inter_token_latency")
    telemetry.shutdown()
    assert (found.attributes, found.count) == ({"gen_ai.operation.name": "chat"}, 16)


def test_exponential_histograms_hold_every_sample() -> None:
    telemetry = CapturedTelemetry(aggregation={Histogram: ExponentialBucketHistogramAggregation()})
    stream_metrics(telemetry).add(measured())
    found = point(telemetry, "itl.client.inter_token_latency")
    telemetry.shutdown()
    assert (found.kind, found.count, found.value, sum(found.raw.positive.bucket_counts)) == (
        "exponential_histogram",
        8,
        pytest.approx(1.3),
        8,
    )


def test_exponential_histograms_hold_samples_of_zero() -> None:
    # Two chunks in the same microsecond.
    telemetry = CapturedTelemetry(aggregation={Histogram: ExponentialBucketHistogramAggregation()})
    stream_metrics(telemetry).add(measured(timeline(500, 500, 540)))
    found = point(telemetry, "itl.client.inter_token_latency")
    telemetry.shutdown()
    assert (found.count, found.raw.zero_count) == (2, 1)


@pytest.mark.parametrize(
    "aggregation", [ExplicitBucketHistogramAggregation(), ExponentialBucketHistogramAggregation()], ids=type
)
def test_samples_are_aggregated_as_the_sdk_would_one_by_one(aggregation: Any) -> None:
    gaps = [3 * step % 97 + 0.5 for step in range(1, 400)]
    stream = timeline(*accumulate([100.0, *gaps]))
    telemetry = CapturedTelemetry(aggregation={Histogram: aggregation})
    stream_metrics(telemetry).add(measured(stream))
    single = telemetry.meter_provider.get_meter("test").create_histogram(
        "single", explicit_bucket_boundaries_advisory=metric_conventions.INTER_TOKEN_LATENCY.buckets
    )
    for sample in measure(stream).itl_samples:
        single.record(sample, STREAM)
    found, expected = point(telemetry, "itl.client.inter_token_latency").raw, point(telemetry, "single").raw
    telemetry.shutdown()

    def shape(raw: Any) -> Any:
        # By bucket, without the empty ones: how many of those there are follows the order of the values.
        exponential = hasattr(raw, "positive")
        counts = raw.positive.bucket_counts if exponential else raw.bucket_counts
        first = raw.positive.offset if exponential else 0
        filled = {first + position: count for position, count in enumerate(counts) if count}
        return filled, getattr(raw, "scale", None), raw.count, raw.min, raw.max, pytest.approx(raw.sum)

    assert shape(found) == shape(expected)


# --- Exemplars -----------------------------------------------------------------------------------------------------

TRACE, SPAN = 0x1234, 0x5678


def in_span(flags: TraceFlags) -> SpanContext:
    return SpanContext(TRACE, SPAN, is_remote=False, trace_flags=flags)


@pytest.mark.requirement("R60")
def test_a_slow_sample_carries_the_ids_of_its_span(telemetry: CapturedTelemetry) -> None:
    stream_metrics(telemetry).add(measured(span=in_span(TraceFlags(TraceFlags.SAMPLED))))
    exemplars = point(telemetry, "itl.client.inter_token_latency").exemplars
    slow = [(one.trace_id, one.span_id) for one in exemplars if one.value == pytest.approx(1.0)]
    assert slow == [(TRACE, SPAN)]


@pytest.mark.requirement("R60")
def test_the_first_token_carries_the_ids_of_its_span(telemetry: CapturedTelemetry) -> None:
    stream_metrics(telemetry).add(measured(span=in_span(TraceFlags(TraceFlags.SAMPLED))))
    exemplars = point(telemetry, "itl.client.time_to_first_token").exemplars
    assert [(one.trace_id, one.span_id) for one in exemplars] == [(TRACE, SPAN)]


@pytest.mark.requirement("R60")
def test_a_span_that_is_not_sampled_is_no_exemplar(telemetry: CapturedTelemetry) -> None:
    stream_metrics(telemetry).add(measured(span=in_span(TraceFlags(TraceFlags.DEFAULT))))
    assert list(point(telemetry, "itl.client.inter_token_latency").exemplars) == []


WAITS = st.sampled_from([10_000, 150_000, 3_000_000, 20_000_000, 400_000_000])
HOLDS = st.sampled_from([0, 0, 0, 10_000, 2_000_000])


@given(st.lists(st.tuples(HOLDS, WAITS), max_size=30), st.integers(0, 2), st.integers(0, 2), st.booleans())
def test_the_time_between_chunks_is_that_of_their_arrivals_whatever_the_samples_are(
    chunks: list[tuple[int, int]], roles: int, finishes: int, counted: bool
) -> None:
    asked, arrived, now = array("q"), array("q"), 0
    for hold, wait in chunks:
        asked.append(now + hold)
        now += hold + wait
        arrived.append(now)
    kinds = [Kind.ANSWER] * len(chunks)
    kinds[:roles] = [Kind.ROLE] * min(roles, len(chunks))
    kinds[len(chunks) - finishes :] = [Kind.FINISH] * min(finishes, len(chunks))
    stream = Timeline(
        request_unix_ns=0,
        asked=asked,
        arrived=arrived,
        kinds=bytes(kinds),
        tokens=array("I", [2] * len(chunks) if counted else []),
        end=now,
    )
    expected = sorted(after - before for before, after in pairwise(arrived))
    assert expected == list(measured(stream, standard=True).find_chunk_gaps())
