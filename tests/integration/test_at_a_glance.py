"""What a span shows at first glance in any viewer: readable numbers, the first and the last token, what failed."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import openai
import pytest
from opentelemetry.sdk.trace import SpanLimits, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import StatusCode

import otel_itl
from otel_itl import SLO, StallPolicy
from otel_itl.core.decoding import decode
from otel_itl.testing import CapturedTelemetry, ScriptedServer, chat, faults

if TYPE_CHECKING:
    from conftest import Clients, Instrument

MILESTONES = ("itl.first_token", "itl.last_token")


def only(captured: CapturedTelemetry) -> Any:
    (span,) = captured.spans
    return span


def milestones(span: Any) -> dict[str, int]:
    """Nanoseconds after the start of the span at which each milestone is."""
    return {event.name: event.timestamp - span.start_time for event in span.events if event.name in MILESTONES}


def moments(span: Any) -> tuple[int, int]:
    """Nanoseconds after the request at which the first and the last output chunk arrived."""
    timeline = decode([(event.name, event.timestamp, event.attributes) for event in span.events])
    first, last = timeline.output_bounds
    return timeline.arrived[first], timeline.arrived[last]


# --- The first and the last token -----------------------------------------------------------------------------------


@pytest.mark.parametrize("form", ["packed", "each"])
def test_the_first_and_the_last_token_are_events_at_the_moments_of_their_arrival(
    form: str, instrument: Instrument, server: ScriptedServer, clients: Clients, captured_telemetry: CapturedTelemetry
) -> None:
    server.play(chat.reply(5, first=0.03, gaps=0.01))
    instrument(token_events=form)
    clients.chat()
    span = only(captured_telemetry)
    assert tuple(milestones(span).values()) == moments(span)


@pytest.mark.parametrize("form", ["log", "none"])
def test_without_token_events_on_the_span_there_are_no_milestones(
    form: str, instrument: Instrument, clients: Clients, captured_telemetry: CapturedTelemetry
) -> None:
    instrument(token_events=form)
    clients.chat()
    assert only(captured_telemetry).events == ()


def test_a_first_token_that_arrived_unobserved_is_an_event_where_it_was_read(
    instrument: Instrument, server: ScriptedServer, clients: Clients, captured_telemetry: CapturedTelemetry
) -> None:
    server.play(chat.reply(3, first=0.01, gaps=[0.01, 0.4]))
    instrument()
    stream = clients.openai().chat.completions.create(
        model="m", messages=[{"role": "user", "content": "hello"}], stream=True
    )
    time.sleep(0.2)
    list(stream)
    span = only(captured_telemetry)
    first_token = milestones(span)["itl.first_token"] / 1e9
    assert first_token == pytest.approx(span.attributes["itl.time_to_first_token"], abs=1e-6)
    assert span.attributes["itl.time_to_first_token.uncertainty"] > 0.15


def test_a_stream_without_output_has_no_milestones(
    instrument: Instrument, server: ScriptedServer, clients: Clients, captured_telemetry: CapturedTelemetry
) -> None:
    server.play(chat.reply(0))
    instrument()
    clients.chat()
    assert milestones(only(captured_telemetry)) == {}


@pytest.mark.parametrize(("limit", "expected"), [(3, [*MILESTONES, "itl.tokens"]), (2, ["itl.tokens"])])
def test_milestones_do_not_push_token_events_off_the_span(
    limit: int, expected: list[str], server: ScriptedServer, clients: Clients
) -> None:
    exporter = InMemorySpanExporter()
    provider = TracerProvider(span_limits=SpanLimits(max_events=limit))
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    otel_itl.instrument(tracer_provider=provider)
    try:
        clients.chat()
    finally:
        otel_itl.uninstrument()
    (span,) = exporter.get_finished_spans()
    assert [event.name for event in span.events] == expected


# --- Readable numbers -----------------------------------------------------------------------------------------------


def test_no_number_on_a_span_has_more_than_six_decimals(
    instrument: Instrument, server: ScriptedServer, clients: Clients, captured_telemetry: CapturedTelemetry
) -> None:
    server.play(chat.reply(40, first=0.01, gaps=[0.003] * 20 + [0.3] + [0.003] * 18))
    instrument(slo=SLO(ttft=5.0, itl=0.002), stall=StallPolicy(next_token=0.2))
    with otel_itl.session("s"):
        clients.chat()
    span = only(captured_telemetry)
    carriers = [span.attributes, *(event.attributes for event in span.events)]
    numbers = [value for carrier in carriers for value in carrier.values() if isinstance(value, float)]
    assert (len(numbers) > 20, [value for value in numbers if value != round(value, 6)]) == (True, [])


def test_metrics_are_not_rounded(
    instrument: Instrument, server: ScriptedServer, clients: Clients, captured_telemetry: CapturedTelemetry
) -> None:
    server.play(chat.reply(4, first=0.01, gaps=0.003))
    instrument()
    clients.chat()
    span = only(captured_telemetry)
    first, last = moments(span)
    (point,) = captured_telemetry.metrics["itl.client.time_per_output_token"]
    assert (point.value, span.attributes["itl.time_per_output_token"]) == (
        pytest.approx((last - first) / 3e9, rel=1e-12),
        round((last - first) / 3e9, 6),
    )


# --- What failed ----------------------------------------------------------------------------------------------------


def test_a_failed_stream_shows_the_class_of_its_error_and_no_text(
    instrument: Instrument, server: ScriptedServer, clients: Clients, captured_telemetry: CapturedTelemetry
) -> None:
    server.always(faults.status(500, "the canary"))
    instrument()
    with pytest.raises(openai.InternalServerError):
        clients.chat()
    span = only(captured_telemetry)
    failures = [(event.name, dict(event.attributes)) for event in span.events if event.name == "exception"]
    assert (span.status.status_code, span.status.description, failures, "canary" in span.to_json()) == (
        StatusCode.ERROR,
        "InternalServerError",
        [("exception", dict.fromkeys(("exception.type", "exception.message"), "InternalServerError"))],
        False,
    )


def test_a_stream_that_its_caller_left_has_neither_message_nor_exception(
    instrument: Instrument, clients: Clients, captured_telemetry: CapturedTelemetry
) -> None:
    instrument()
    stream = clients.openai().chat.completions.create(
        model="m", messages=[{"role": "user", "content": "hello"}], stream=True
    )
    next(stream)
    stream.close()
    span = only(captured_telemetry)
    assert (span.status.description, [event.name for event in span.events if event.name == "exception"]) == (None, [])


# --- The objective --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("slo", "expected"),
    [
        (SLO(ttft=4.0, itl=4.0), True),
        (SLO(ttft=5.0, itl=0.001), False),
        (SLO(ttft=0.001, itl=4.0), False),
        ("batch", None),
        (None, None),
    ],
    ids=["met", "slow gaps", "a late first token", "no limits", "no objective"],
)
def test_whether_the_objective_was_met_is_on_the_span_where_one_applied(
    slo: Any,
    expected: bool | None,
    instrument: Instrument,
    server: ScriptedServer,
    clients: Clients,
    captured_telemetry: CapturedTelemetry,
) -> None:
    server.play(chat.reply(4, first=0.03, gaps=0.01))
    instrument(slo=slo)
    clients.chat()
    assert only(captured_telemetry).attributes.get("itl.slo.met") is expected


def test_a_stream_without_a_gap_cannot_meet_an_objective_for_gaps_alone(
    instrument: Instrument, server: ScriptedServer, clients: Clients, captured_telemetry: CapturedTelemetry
) -> None:
    server.play(chat.reply(1))
    instrument(slo=SLO(itl=4.0))
    clients.chat()
    assert "itl.slo.met" not in only(captured_telemetry).attributes


def test_slow_gaps_alone_make_the_span_false_and_the_metric_of_streams_true(
    instrument: Instrument, server: ScriptedServer, clients: Clients, captured_telemetry: CapturedTelemetry
) -> None:
    server.play(chat.reply(4, first=0.03, gaps=0.1))
    instrument(slo=SLO(ttft=5.0, itl=0.001))
    clients.chat()
    points = captured_telemetry.metrics["itl.client.slo.streams"]
    streams = {point.attributes["itl.slo.met"]: point.value for point in points}
    assert (only(captured_telemetry).attributes["itl.slo.met"], streams) == (False, {True: 1, False: 0})
