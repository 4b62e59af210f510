"""What leaves the process: the telemetry of a one-line application, as real OTLP receivers get it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

import otel_itl
from otel_itl.core import conventions as names
from otel_itl.core import metric_conventions
from otel_itl.core.decoding import decode
from otel_itl.core.measures import measure
from otel_itl.export.attributes import rounded
from otel_itl.testing import Exchange, ScriptedServer, chat

if TYPE_CHECKING:
    from conftest import App, Clients, Exported, Finished, Receiver

TOKENS = 20
APP = """
    import otel_itl

    otel_itl.instrument()

    import os
    before = dict(os.environ)

    import openai

    client = openai.OpenAI(max_retries=0)
    asked = [{"role": "user", "content": "hello"}]
    for chunk in client.chat.completions.create(model="gpt-4o", messages=asked, stream=True, temperature=0.5):
        pass
    try:
        list(client.chat.completions.create(model="broken", messages=asked, stream=True))
    except openai.APIError:
        pass
    changed = before.items() ^ os.environ.items()
    print("environment changed:", sorted(changed))
"""


class Delivery(NamedTuple):
    """The application's end and everything that came of it."""

    app: Finished
    receiver: Receiver
    exchanges: list[Exchange]
    wall_ns: int
    """Wall-clock time at 0 of the monotonic clock."""

    @property
    def span(self) -> Any:
        """The span of the stream that went well."""
        return next(span for span in self.receiver.spans if span.name == "chat gpt-4o")

    @property
    def broken(self) -> Any:
        """The span of the stream that failed."""
        return next(span for span in self.receiver.spans if span.name == "chat broken")

    @property
    def attributes(self) -> dict[str, Any]:
        """The attributes of the stream that went well."""
        return self.receiver.plain(self.span.attributes)


@pytest.fixture(scope="module")
def deliveries(
    start_app: Callable[..., App], receivers: Callable[[str], Receiver]
) -> Iterator[Callable[[str], Delivery]]:
    """The same application once for each protocol, both at a time."""
    with ScriptedServer() as server:
        server.always(chat.reply(TOKENS, first=0.05, gaps=0.02), model="gpt-4o")
        server.always(
            chat.reply(5, first=0.05, gaps=0.03).cut(3) + chat.error("you said: hello", after=0.03), model="broken"
        )
        running = {}
        for protocol, variables in (("http/protobuf", {"OTEL_EXPORTER_OTLP_COMPRESSION": "gzip"}), ("grpc", {})):
            receiver = receivers(protocol)
            app = start_app(
                APP,
                server,
                receiver,
                OTEL_SERVICE_NAME=protocol,
                OTEL_RESOURCE_ATTRIBUTES="deployment.environment.name=test",
                **variables,
            )
            running[protocol] = app, receiver
        wall_ns = time.time_ns() - time.perf_counter_ns()
        finished = {protocol: (app.wait(), receiver) for protocol, (app, receiver) in running.items()}

        def delivery(protocol: str) -> Delivery:
            app, receiver = finished[protocol]
            return Delivery(app, receiver, server.exchanges, wall_ns)

        yield delivery


@pytest.fixture(params=["http/protobuf", "grpc"])
def delivery(request: pytest.FixtureRequest, deliveries: Callable[[str], Delivery]) -> Delivery:
    return deliveries(request.param)


def test_one_line_delivers_one_client_span_for_each_request(delivery: Delivery) -> None:
    assert sorted((span.name, span.kind) for span in delivery.receiver.spans) == [
        ("chat broken", 3),
        ("chat gpt-4o", 3),
    ]


SCHEMAS = {"operation": "https://opentelemetry.io/schemas/1.41.0", "inference": ""}


def test_everything_comes_from_one_instrumentation_scope_with_version_and_schema(delivery: Delivery) -> None:
    ours = (names.SCOPE, version("otel-itl"), SCHEMAS["operation"])
    assert delivery.receiver.scopes == {"spans": {ours}, "metrics": {ours}, "logs": {ours}}


@pytest.mark.parametrize("generation", list(SCHEMAS))
def test_the_scope_of_every_signal_has_the_schema_of_its_generation_if_that_is_released(
    generation: str, exported: Exported, clients: Clients
) -> None:
    otel_itl.instrument(standard_names=generation, token_events="log", **exported.providers)
    clients.chat()
    ours = (names.SCOPE, version("otel-itl"), SCHEMAS[generation])
    assert exported.flush().scopes == {"spans": {ours}, "metrics": {ours}, "logs": {ours}}


def test_the_span_carries_the_standard_attributes(delivery: Delivery) -> None:
    exchange = delivery.exchanges[0]
    expected = {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "openai",
        "gen_ai.request.model": "gpt-4o",
        "gen_ai.request.stream": True,
        "gen_ai.request.temperature": 0.5,
        "gen_ai.response.model": "gpt-4o",
        "gen_ai.response.finish_reasons": ("stop",),
        "gen_ai.usage.input_tokens": 10,
        "gen_ai.usage.output_tokens": TOKENS,
        "server.address": "127.0.0.1",
        "server.port": int(exchange.headers["host"].rpartition(":")[2]),
    }
    assert {name: delivery.attributes.get(name) for name in expected} == expected


def test_the_span_carries_our_attributes(delivery: Delivery) -> None:
    expected = {
        "itl.stream.outcome": "completed",
        "itl.output_chunk.count": TOKENS,
        "itl.chunk.count": TOKENS + 3,
        "itl.token_count.source": "usage",
        "itl.tokens_per_chunk": 1.0,
        "itl.streams.at_start": 1,
    }
    assert {name: delivery.attributes.get(name) for name in expected} == expected


def test_every_measure_on_the_span_follows_from_its_token_events(delivery: Delivery) -> None:
    measures = measure(decode(delivery.receiver.span_events(delivery.span)))
    expected = rounded(
        {name: value for name, field in names.SPAN_MEASURES.items() if (value := getattr(measures, field)) is not None}
    )
    assert {name: delivery.attributes.get(name) for name in expected} == expected


def test_no_measure_is_on_the_span_that_its_token_events_do_not_give(delivery: Delivery) -> None:
    measures = measure(decode(delivery.receiver.span_events(delivery.span)))
    absent = {name for name, field in names.SPAN_MEASURES.items() if getattr(measures, field) is None}
    assert absent & delivery.attributes.keys() == set()


def test_the_token_events_hold_every_output_chunk(delivery: Delivery) -> None:
    assert measure(decode(delivery.receiver.span_events(delivery.span))).output_chunk_count == TOKENS


def test_the_span_starts_with_the_request(delivery: Delivery) -> None:
    timeline = decode(delivery.receiver.span_events(delivery.span))
    assert delivery.span.start_time_unix_nano == timeline.request_unix_ns


def test_the_span_lasts_as_long_as_the_stream(delivery: Delivery) -> None:
    timeline = decode(delivery.receiver.span_events(delivery.span))
    assert delivery.span.end_time_unix_nano - delivery.span.start_time_unix_nano == timeline.end


def test_the_span_starts_before_the_server_has_the_request_and_not_long_before(delivery: Delivery) -> None:
    arrivals = [exchange.arrived_ns + delivery.wall_ns for exchange in delivery.exchanges]
    before = [arrived - delivery.span.start_time_unix_nano for arrived in arrivals]
    assert any(0 <= nanoseconds < 500_000_000 for nanoseconds in before)


def test_the_time_to_first_token_is_what_the_server_made_it(delivery: Delivery) -> None:
    assert delivery.attributes["itl.time_to_first_token"] == pytest.approx(0.05, abs=0.25)
    assert delivery.attributes["itl.time_to_first_token"] >= 0.05


def test_a_good_stream_leaves_the_status_unset(delivery: Delivery) -> None:
    assert (delivery.span.status.code, delivery.attributes.get("error.type")) == (0, None)


@pytest.mark.requirement("R40")
@pytest.mark.skipif(
    tuple(int(part) for part in version("openai").split(".")[:2]) < (1, 46), reason="this openai does not tell"
)
def test_the_span_says_how_many_requests_it_took(delivery: Delivery) -> None:
    assert delivery.attributes["itl.request.attempts"] == 1


@pytest.mark.requirement("R21")
def test_a_failed_stream_is_an_error_with_its_type(delivery: Delivery) -> None:
    attributes = delivery.receiver.plain(delivery.broken.attributes)
    assert (delivery.broken.status.code, attributes["error.type"], attributes["itl.stream.outcome"]) == (
        2,
        "APIError",
        "error",
    )


@pytest.mark.requirement("R42")
def test_a_failed_stream_keeps_the_tokens_that_came(delivery: Delivery) -> None:
    assert measure(decode(delivery.receiver.span_events(delivery.broken))).output_chunk_count == 3


def test_a_failed_stream_is_one_standard_log_event_of_its_span(delivery: Delivery) -> None:
    expected = [("gen_ai.client.operation.exception", "WARN", delivery.broken.trace_id, delivery.broken.span_id)]
    actual = [(log.event_name, log.severity_text, log.trace_id, log.span_id) for log in delivery.receiver.logs]
    assert expected == actual


@pytest.mark.requirement("R68")
def test_the_exception_event_has_the_type_and_no_text(delivery: Delivery) -> None:
    (log,) = delivery.receiver.logs
    assert (delivery.receiver.plain(log.attributes), log.body.WhichOneof("value")) == (
        {"exception.type": "APIError"},
        None,
    )


@pytest.mark.parametrize(
    "metric",
    [
        metric_conventions.INTER_TOKEN_LATENCY,
        metric_conventions.TIME_TO_FIRST_TOKEN,
        metric_conventions.TIME_PER_OUTPUT_TOKEN,
        metric_conventions.STREAM_COUNT,
        metric_conventions.STREAM_OUTCOMES,
        *metric_conventions.STANDARD_NAMES["operation"].metrics,
    ],
    ids=lambda metric: metric.name,
)
def test_a_metric_has_its_name_unit_and_description(delivery: Delivery, metric: metric_conventions.Metric) -> None:
    arrived = delivery.receiver.metrics[metric.name]
    assert (arrived.unit, arrived.description) == (metric.unit, metric.description)


@pytest.mark.requirement("R58")
@pytest.mark.parametrize(
    "metric",
    [
        metric_conventions.INTER_TOKEN_LATENCY,
        metric_conventions.TIME_TO_FIRST_TOKEN,
        *metric_conventions.STANDARD_NAMES["operation"].metrics,
    ],
    ids=lambda metric: metric.name,
)
def test_a_histogram_has_the_buckets_it_advises(delivery: Delivery, metric: metric_conventions.Metric) -> None:
    bounds = {tuple(point.explicit_bounds) for point in delivery.receiver.points(metric.name)}
    assert bounds == {tuple(float(bound) for bound in metric.buckets)}


@pytest.mark.requirement("R58")
def test_the_buckets_of_inter_token_latency_reach_from_half_a_millisecond_to_half_a_minute(delivery: Delivery) -> None:
    (point,) = delivery.receiver.points("itl.client.inter_token_latency", "gpt-4o")
    assert list(point.explicit_bounds) == [
        *(0.0005, 0.001, 0.0015, 0.002, 0.003, 0.004, 0.005, 0.0075, 0.01, 0.015, 0.02, 0.025, 0.03, 0.04, 0.05),
        *(0.075, 0.1, 0.15, 0.2, 0.3, 0.5, 0.75, 1.0, 1.5, 2.5, 5.0, 10.0, 30.0),
    ]


@pytest.mark.parametrize(
    ("metric", "model", "count"),
    [
        ("itl.client.inter_token_latency", "gpt-4o", TOKENS - 1),
        ("itl.client.time_to_first_token", "gpt-4o", 1),
        ("itl.client.time_per_output_token", "gpt-4o", 1),
        ("gen_ai.client.operation.duration", "gpt-4o", 1),
        ("gen_ai.client.operation.time_to_first_chunk", "gpt-4o", 1),
        ("gen_ai.client.operation.time_per_output_chunk", "gpt-4o", TOKENS + 2),
        ("itl.client.inter_token_latency", "broken", 2),
        ("itl.client.time_to_first_token", "broken", 1),
        ("gen_ai.client.operation.duration", "broken", 1),
        ("gen_ai.client.operation.time_per_output_chunk", "broken", 3),
    ],
)
def test_a_histogram_counts_every_sample_once(delivery: Delivery, metric: str, model: str, count: int) -> None:
    assert [point.count for point in delivery.receiver.points(metric, model)] == [count]


def test_the_samples_of_inter_token_latency_are_the_gaps_of_the_timeline(delivery: Delivery) -> None:
    samples = measure(decode(delivery.receiver.span_events(delivery.span))).itl_samples.nanoseconds
    (point,) = delivery.receiver.points("itl.client.inter_token_latency", "gpt-4o")
    assert (point.sum, point.min, point.max) == pytest.approx(
        (sum(samples) / 1e9, min(samples) / 1e9, max(samples) / 1e9)
    )


def test_the_duration_metric_is_the_duration_of_the_span(delivery: Delivery) -> None:
    (point,) = delivery.receiver.points("gen_ai.client.operation.duration", "gpt-4o")
    span = delivery.span
    assert point.sum == pytest.approx((span.end_time_unix_nano - span.start_time_unix_nano) / 1e9)


def test_token_usage_is_recorded_for_input_and_output(delivery: Delivery) -> None:
    points = delivery.receiver.points("gen_ai.client.token.usage", "gpt-4o")
    usage = {
        delivery.receiver.plain(point.attributes)["gen_ai.token.type"]: (point.count, point.sum) for point in points
    }
    assert usage == {"input": (1, 10), "output": (1, TOKENS)}


@pytest.mark.parametrize(("model", "outcome"), [("gpt-4o", "completed"), ("broken", "error")])
def test_each_outcome_is_counted(delivery: Delivery, model: str, outcome: str) -> None:
    points = delivery.receiver.points("itl.client.stream.outcomes", model)
    assert [(delivery.receiver.plain(point.attributes)["itl.stream.outcome"], point.as_int) for point in points] == [
        (outcome, 1)
    ]


def test_no_stream_is_open_in_the_last_export(delivery: Delivery) -> None:
    assert {point.as_int for point in delivery.receiver.points("itl.client.stream.count")} == {0}


@pytest.mark.requirement("R60")
def test_slow_samples_point_to_the_span(delivery: Delivery) -> None:
    exemplars = delivery.receiver.exemplars("itl.client.inter_token_latency", "gpt-4o")
    assert {(exemplar.trace_id, exemplar.span_id) for exemplar in exemplars} == {
        (delivery.span.trace_id, delivery.span.span_id)
    }


def test_the_resource_is_the_environments(delivery: Delivery) -> None:
    wanted = {"service.name": delivery.receiver.protocol, "deployment.environment.name": "test"}
    assert all(wanted.items() <= resource.items() for resource in delivery.receiver.resources)


def test_gzipped_telemetry_arrives(deliveries: Callable[[str], Delivery]) -> None:
    assert deliveries("http/protobuf").receiver.encodings == {"gzip"}


@pytest.mark.requirement("R67")
def test_setting_up_the_sdk_leaves_the_environment_as_it_was(delivery: Delivery) -> None:
    assert delivery.app.stdout == "environment changed: []\n"


def test_a_one_line_application_prints_where_its_telemetry_goes_and_nothing_more(delivery: Delivery) -> None:
    # Older SDKs warn of what they themselves do to make a log record.
    lines = delivery.app.stderr.splitlines(keepends=True)
    printed = [line for line in lines if "LogDeprecatedInitWarning" not in line and line != "  return cls(\n"]
    assert printed == [delivery.receiver.setup_notice]


# --- the forms of token events --------------------------------------------------------------------------------------


@pytest.fixture
def streamed(exported: Exported, server: ScriptedServer, clients: Clients) -> Callable[..., Receiver]:
    """Stream so many tokens with a form of token events; returns where it arrived."""

    def stream(form: str, *sizes: int) -> Receiver:
        otel_itl.instrument(token_events=form, **exported.providers)
        client = clients.openai()
        for size in sizes:
            server.play(chat.reply(size, gaps=0.005))
            clients.chat(client)
        return exported.flush()

    return stream


MILESTONES = ["itl.first_token", "itl.last_token"]


def event_names(span: Any) -> list[str]:
    return [event.name for event in span.events]


def test_packed_events_are_a_few_on_the_span(streamed: Callable[..., Receiver]) -> None:
    (span,) = streamed("packed", 10).spans
    assert event_names(span) == [*MILESTONES, "itl.tokens"]


def test_in_the_form_each_every_output_chunk_is_an_event(streamed: Callable[..., Receiver]) -> None:
    (span,) = streamed("each", 10).spans
    assert event_names(span) == MILESTONES + ["itl.token"] * 10 + ["itl.tokens"]


def test_in_the_form_each_an_event_has_the_time_of_its_chunk(streamed: Callable[..., Receiver]) -> None:
    received = streamed("each", 10)
    (span,) = received.spans
    timeline = decode(received.span_events(span))
    outputs = [at for at, kind in zip(timeline.arrived, timeline.kinds, strict=True) if kind & 7]
    actual = [event.time_unix_nano - span.start_time_unix_nano for event in span.events if event.name == "itl.token"]
    assert outputs == actual


@pytest.mark.parametrize("form", ["packed", "each", "log"])
def test_each_form_gives_the_timeline_that_the_attributes_tell(streamed: Callable[..., Receiver], form: str) -> None:
    received = streamed(form, 10)
    (span,) = received.spans
    measures = measure(decode(received.log_events() if form == "log" else received.span_events(span)))
    attributes = received.plain(span.attributes)
    expected = rounded({name: getattr(measures, field) for name, field in names.SPAN_MEASURES.items()})
    assert {name: attributes.get(name) for name in expected} == expected


def test_in_the_form_log_the_span_has_no_events(streamed: Callable[..., Receiver]) -> None:
    (span,) = streamed("log", 10).spans
    assert event_names(span) == []


def test_in_the_form_log_the_events_belong_to_the_span(streamed: Callable[..., Receiver]) -> None:
    received = streamed("log", 10)
    (span,) = received.spans
    assert [(log.event_name, log.severity_text, log.trace_id, log.span_id) for log in received.logs] == [
        ("itl.tokens", "INFO", span.trace_id, span.span_id)
    ]


def test_in_the_form_none_nothing_is_carried_per_token(streamed: Callable[..., Receiver]) -> None:
    received = streamed("none", 10)
    assert ([event_names(span) for span in received.spans], received.logs) == ([[]], [])


@pytest.mark.parametrize("form", ["packed", "each", "log", "none"])
def test_attributes_and_metrics_are_there_in_every_form(streamed: Callable[..., Receiver], form: str) -> None:
    received = streamed(form, 10)
    (span,) = received.spans
    (point,) = received.points("itl.client.stream.outcomes")
    assert (received.plain(span.attributes)["itl.output_chunk.count"], point.as_int) == (10, 1)


def test_the_form_each_falls_back_to_packed_where_the_span_would_drop_events(
    streamed: Callable[..., Receiver],
) -> None:
    received = streamed("each", 200)
    (span,) = received.spans
    assert (event_names(span), span.dropped_events_count) == ([*MILESTONES, "itl.tokens"], 0)


@pytest.mark.requirement("R57")
def test_falling_back_to_packed_is_said_once(
    streamed: Callable[..., Receiver], caplog: pytest.LogCaptureFixture
) -> None:
    streamed("each", 200, 200, 10)
    warnings = [record.getMessage() for record in caplog.records if record.name == "otel_itl"]
    assert [text for text in warnings if "OTEL_SPAN_EVENT_COUNT_LIMIT" in text] == warnings[:1]
    assert len(warnings) == 1


def test_a_stream_that_fits_has_an_event_for_each_chunk_also_after_one_that_did_not(
    streamed: Callable[..., Receiver],
) -> None:
    last = streamed("each", 200, 10).spans[-1]
    assert event_names(last) == MILESTONES + ["itl.token"] * 10 + ["itl.tokens"]


def test_the_form_each_goes_to_the_very_limit_of_the_span(streamed: Callable[..., Receiver]) -> None:
    first, second = streamed("each", 127, 128).spans
    assert (len(first.events), first.dropped_events_count, event_names(second)) == (
        128,
        0,
        [*MILESTONES, "itl.tokens"],
    )
