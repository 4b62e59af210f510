"""What of a span, a log event and the metrics gets into the file: OTLP JSON, without a word of a prompt."""

from __future__ import annotations

import json
from base64 import b64decode
from typing import Any

import pytest
from google.protobuf.json_format import MessageToDict
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans as official
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import Link, SpanContext, SpanKind, Status, StatusCode

from otel_itl.core import conventions as names
from otel_itl.export.file.encoding import encode_spans, is_written, to_line
from otel_itl.export.file.metrics import encode_metrics
from otel_itl.tools.report.reading.skipped_input import SkippedInput
from otel_itl.tools.view.server.assembler import Assembler
from otel_itl.tools.view.server.store import Store

SECRET = "the prompt"
PATIENT = "Jane Doe"
RESOURCE = Resource(
    {
        "service.name": "chat",
        "process.command_line": f"app --key={SECRET}",
        "process.owner": PATIENT,
        "process.executable.path": f"/home/{PATIENT}/python",
    }
)


class Spans:
    """A tracer of another instrumentation, and the spans that it ended."""

    def __init__(self) -> None:
        self._exporter = InMemorySpanExporter()
        provider = TracerProvider(resource=RESOURCE, shutdown_on_exit=False)
        provider.add_span_processor(SimpleSpanProcessor(self._exporter))
        self.tracer = provider.get_tracer("foreign", "1.0", "https://example.com/schema")

    @property
    def ended(self) -> list[ReadableSpan]:
        return list(self._exporter.get_finished_spans())


@pytest.fixture
def spans() -> Spans:
    return Spans()


def only_span(document: Any) -> Any:
    return document["resourceSpans"][0]["scopeSpans"][0]["spans"][0]


def attributes_of(record: Any) -> dict[str, Any]:
    return {attribute["key"]: attribute["value"] for attribute in record["attributes"]}


def test_a_span_is_encoded_as_opentelemetry_s_own_encoder_does(spans: Spans) -> None:
    linked = SpanContext(1, 2, is_remote=False)
    with (
        spans.tracer.start_as_current_span("parent"),
        spans.tracer.start_as_current_span("chat m", kind=SpanKind.CLIENT, links=[Link(linked)]) as span,
    ):
        span.set_attributes({"gen_ai.operation.name": "chat", "gen_ai.request.model": "m"})
        span.set_attribute("itl.text", "ü\ud83d\ude00".encode("utf-16", "surrogatepass").decode("utf-16"))
        span.set_attributes({"itl.int": 2**60, "itl.float": 0.1, "itl.bool": True, "itl.texts": ("a", "b")})
        span.set_attributes({"itl.floats": (0.5, 1.5), "itl.bools": (True, False), "itl.none": ()})
        span.add_event("itl.tokens", {"itl.tokens.offsets": (1, 2, 3)}, 17)
        span.set_status(Status(StatusCode.ERROR))
    ended = spans.ended[0]
    expected = only_span(MessageToDict(official([ended]), use_integers_for_enums=True))
    for record in (expected, *expected["links"]):
        for name in record.keys() & {"traceId", "spanId", "parentSpanId"}:
            record[name] = b64decode(record[name]).hex()
        record.pop("flags", None)
    actual = only_span(json.loads(to_line(encode_spans([ended]))))
    assert {**actual, "attributes": attributes_of(actual)} == {
        **expected,
        "attributes": {**attributes_of(expected), "itl.none": {"arrayValue": {"values": []}}},
    }


def test_scope_and_resource_are_written_and_a_command_line_is_not(spans: Spans) -> None:
    spans.tracer.start_span("GET /").end()
    resource = encode_spans(spans.ended)["resourceSpans"][0]
    scope = resource["scopeSpans"][0]
    assert (resource["resource"], scope["scope"], scope["schemaUrl"]) == (
        {"attributes": [{"key": "service.name", "value": {"stringValue": "chat"}}]},
        {"name": "foreign", "version": "1.0"},
        "https://example.com/schema",
    )


@pytest.mark.requirement("R68")
def test_of_a_foreign_span_no_content_is_written(spans: Spans) -> None:
    with spans.tracer.start_as_current_span("chat gpt-4o") as span:
        span.set_attributes({
            "gen_ai.prompt.0.content": SECRET,
            "gen_ai.input.messages": SECRET,
            "gen_ai.output.messages": SECRET,
            "gen_ai.system_instructions": SECRET,
            "gen_ai.tool.call.arguments": SECRET,
            "llm.input_messages.0.message.content": SECRET,
            "input.value": SECRET,
            "traceloop.entity.input": SECRET,
            "url.full": f"https://example.com/?q={SECRET}",
            "http.request.header.authorization": SECRET,
            "exception.message": SECRET,
            "exception.stacktrace": SECRET,
        })  # fmt: skip
        span.set_attributes({"gen_ai.operation.name": "chat", "gen_ai.request.model": "gpt-4o"})
        span.add_event("gen_ai.user.message", {"content": SECRET})
        span.add_event("itl.tokens", {"content": SECRET, "itl.tokens.recorded": 1})
        span.record_exception(ValueError(SECRET))
        span.set_status(Status(StatusCode.ERROR, SECRET))
    line = to_line(encode_spans(spans.ended)).decode()
    written = only_span(json.loads(line))
    assert SECRET not in line
    assert (written["name"], written["status"], attributes_of(written)) == (
        "chat gpt-4o",
        {"code": 2},
        {"gen_ai.operation.name": {"stringValue": "chat"}, "gen_ai.request.model": {"stringValue": "gpt-4o"}},
    )
    assert [attributes_of(event) for event in written["events"]] == [{"itl.tokens.recorded": {"intValue": "1"}}]


ANYWHERE = {
    **dict.fromkeys(
        ("http.route", "url.path", "http.target", "db.query.text", "db.statement", "peer.service"), PATIENT
    ),
    **dict.fromkeys(("rpc.method", "rpc.service", "messaging.destination.name", "enduser.id", "user.name"), PATIENT),
    **dict.fromkeys(
        ("gen_ai.agent.name", "gen_ai.tool.name", "gen_ai.request.stop_sequences", "server.address"), PATIENT
    ),
    **dict.fromkeys(("http.request.method", "http.method", "http.response.status_code", "http.status_code"), PATIENT),
    "gen_ai.operation.name": PATIENT,
}
"""Attributes of other instrumentations that may hold a person's name."""


@pytest.mark.requirement("R68")
@pytest.mark.parametrize(
    ("attributes", "expected"),
    [
        ({}, "internal"),
        ({"http.request.method": "POST", "http.response.status_code": 404}, "POST"),
        ({"http.method": "GET", "session.id": PATIENT}, "GET"),
        ({"http.request.method": f"GET /{PATIENT}"}, "internal"),
        ({"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": PATIENT}, "execute_tool"),
        ({"gen_ai.operation.name": f"ask about {PATIENT}"}, "internal"),
        (ANYWHERE, "internal"),
    ],
)
def test_the_name_of_another_instrumentation_s_span_is_made_of_what_is_written(
    spans: Spans, attributes: dict[str, Any], expected: str
) -> None:
    spans.tracer.start_span(f"visit of {PATIENT}", attributes=attributes).end()
    document = encode_spans(spans.ended)
    assert (only_span(document)["name"], PATIENT in to_line(document).decode()) == (expected, False)


def test_of_another_span_of_a_model_only_what_the_page_draws_is_written(spans: Spans) -> None:
    drawn = {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "openai",
        "gen_ai.request.model": "gpt-4o",
        "gen_ai.response.model": "gpt-4o-2024",
        "error.type": "Timeout",
        "session.id": "s1",
    }
    spans.tracer.start_span(
        "ask", attributes={**drawn, "gen_ai.usage.input_tokens": 7, "gen_ai.response.id": "r"}
    ).end()
    assert attributes_of(only_span(encode_spans(spans.ended))).keys() == drawn.keys()


def test_a_measured_span_of_another_instrumentation_has_what_ours_has(spans: Spans) -> None:
    attributes = {"gen_ai.operation.name": "chat", "gen_ai.usage.input_tokens": 7, "itl.stream.outcome": "completed"}
    spans.tracer.start_span(f"ask {PATIENT}", attributes={**attributes, "http.route": PATIENT}).end()
    written = only_span(encode_spans(spans.ended))
    assert (written["name"], attributes_of(written).keys()) == ("chat", attributes.keys())


def test_every_attribute_that_we_emit_is_written() -> None:
    others = {names.EXCEPTION_EVENT, names.TOKEN_TYPE, names.TOKEN_MODALITY}
    constants = {value for value in vars(names).values() if isinstance(value, str)} - others
    emitted = {name for name in constants if name.startswith(("itl.", "gen_ai.", "server.", "session."))}
    assert {name for name in emitted if not is_written(name)} == set()


def test_a_number_that_json_does_not_have_is_left_out(spans: Spans) -> None:
    span = spans.tracer.start_span("chat")
    span.set_attributes({"itl.drift": float("nan"), "itl.chunk.count": 1})
    span.end()
    assert attributes_of(only_span(encode_spans(spans.ended))) == {"itl.chunk.count": {"intValue": "1"}}


def test_spans_are_put_together_by_their_scope(spans: Spans) -> None:
    for _ in range(3):
        spans.tracer.start_span("GET /").end()
    scopes = encode_spans(spans.ended)["resourceSpans"]
    assert [len(scope["scopeSpans"][0]["spans"]) for scope in scopes] == [3]


def test_of_the_metrics_ours_alone_are_written() -> None:
    reader = InMemoryMetricReader()
    provider = MeterProvider([reader], RESOURCE, shutdown_on_exit=False)
    provider.get_meter("foreign").create_counter("foreign").add(1, {"prompt": SECRET})
    provider.get_meter("otel_itl").create_histogram("itl.client.time_to_first_token").record(0.5)
    data: Any = reader.get_metrics_data()
    document: Any = encode_metrics([data])
    scopes = [scope for resource in document["resourceMetrics"] for scope in resource["scopeMetrics"]]
    found = [metric["name"] for scope in scopes for metric in scope["metrics"]]
    assert (found, SECRET in str(document)) == (["itl.client.time_to_first_token"], False)


def test_where_there_are_no_metrics_of_ours_nothing_is_written() -> None:
    reader = InMemoryMetricReader()
    provider = MeterProvider([reader], RESOURCE, shutdown_on_exit=False)
    provider.get_meter("foreign").create_counter("foreign").add(1)
    data: Any = reader.get_metrics_data()
    assert encode_metrics([data]) == {}


def test_the_page_draws_another_span_of_a_model_from_what_is_written_and_no_other_span(spans: Spans) -> None:
    attributes = {"gen_ai.operation.name": "chat", "gen_ai.provider.name": "openai", "gen_ai.request.model": "gpt-4o"}
    spans.tracer.start_span(f"ask {PATIENT}", attributes=attributes).end()
    spans.tracer.start_span(f"GET /{PATIENT}", attributes={"http.request.method": "GET"}).end()
    store = Store(10)
    assembler = Assembler(store, SkippedInput())
    assembler.add(json.loads(to_line(encode_spans(spans.ended))))
    drawn = [(span["kind"], span["name"], span["provider"], span["model"]) for span in store.documents()]
    assert (drawn, assembler.foreign) == ([("span", "chat gpt-4o", "openai", "gpt-4o")], 1)
