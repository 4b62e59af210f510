"""Bytes per token on the wire, for each form of the token events: OTLP protobuf as the exporters encode it."""

from __future__ import annotations

import gzip
from typing import Any, NamedTuple

from opentelemetry.exporter.otlp.proto.common._log_encoder import encode_logs
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs.export import InMemoryLogRecordExporter, SimpleLogRecordProcessor
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.trace import SpanLimits, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

import otel_itl
from bench.overhead.sizes import Sizes
from bench.overhead.streams import Pace, consume
from bench.overhead.subjects import Subject
from otel_itl.core.conventions import TOKENS_EVENT

FORMS = ("packed", "each", "log", "none")


class Payload(NamedTuple):
    """Bytes of one stream's span and logs, as they are and gzipped."""

    plain: int
    gzipped: int


def payloads(subject: Subject, sizes: Sizes) -> dict[tuple[str, int], Payload]:
    """Return the payload by form of the token events and number of tokens."""
    return {(form, tokens): _payload(subject, form, tokens) for tokens in sizes.payload_chunks for form in FORMS}


def _payload(subject: Subject, form: str, tokens: int) -> Payload:
    chunks = subject.chunks(tokens)
    # Room for an event per token: with the default limit, long streams in the form `each` fall back to `packed`.
    limits = SpanLimits(max_events=2 * chunks + 128)
    spans, logs = InMemorySpanExporter(), InMemoryLogRecordExporter()  # type: ignore[no-untyped-call]
    tracer_provider = TracerProvider(span_limits=limits, shutdown_on_exit=False)
    tracer_provider.add_span_processor(SimpleSpanProcessor(spans))
    logger_provider = LoggerProvider(shutdown_on_exit=False)
    logger_provider.add_log_record_processor(SimpleLogRecordProcessor(logs))
    clients = subject.stubbed(tokens)
    otel_itl.instrument(
        sdks=[subject.package],
        token_events=form,
        tracer_provider=tracer_provider,
        meter_provider=MeterProvider(shutdown_on_exit=False),
        logger_provider=logger_provider,
    )
    try:
        consume(lambda: subject.request(clients[0]), chunks, Pace(chunks).settle, lambda: 0)
    finally:
        otel_itl.uninstrument()
    ended = spans.get_finished_spans()
    # A stubbed stream is not terminated properly, which is logged as another event.
    emitted = [log for log in logs.get_finished_logs() if log.log_record.event_name == TOKENS_EVENT]
    assert len(ended) == 1
    assert bool(emitted) == (form == "log")
    messages: list[Any] = [encode_spans(ended), *([encode_logs(emitted)] if emitted else [])]
    encoded = b"".join(message.SerializeToString() for message in messages)
    return Payload(len(encoded), len(gzip.compress(encoded)))
