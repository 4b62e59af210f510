"""Measures the requests that this process sends for a sweep, by otel_itl itself."""

from __future__ import annotations

import asyncio
from contextvars import ContextVar
from typing import Any, Final

from opentelemetry._logs import NoOpLoggerProvider
from opentelemetry.context import Context  # noqa: TC002 - annotations stay resolvable
from opentelemetry.metrics import NoOpMeterProvider
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, Span, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.sampling import ALWAYS_ON

import otel_itl
from otel_itl.config import is_disabled
from otel_itl.core import conventions as names
from otel_itl.core.slo import SLO
from otel_itl.export.file.encoding import Document as OTLPDocument
from otel_itl.export.file.encoding import encode_spans
from otel_itl.tools.command_error import CommandError
from otel_itl.tools.sweep.endpoint import SDK
from otel_itl.tools.sweep.records import DueRequest

SERVICE_NAME: Final = "otel-itl-sweep"
CALIBRATION: Final = -1
"""Round of the requests that calibrate: in the file they have no level."""
MAX_WAIT_FOR_SPAN: Final = 2.0
"""Seconds: the span of a stream with thousands of chunks ends shortly after the stream."""
_WAIT_SECONDS: Final = 0.01


class Measurement:
    """Instruments the SDK from here on, until it is closed.

    Nothing is exported: spans are kept until `take_document`, so that no work for the file disturbs a round.

    Args:
        sdk: SDK that sends the requests.
        objective: recorded on the spans, so that a report judges by it; None: none.

    Raises:
        CommandError: otel_itl is switched off by the environment, or measures this process already.
    """

    def __init__(self, sdk: SDK, objective: SLO | None) -> None:
        if is_disabled():
            raise CommandError("OTEL_ITL_DISABLED or OTEL_SDK_DISABLED is true: a sweep needs it unset.")
        if otel_itl.ITLInstrumentor().is_instrumented_by_opentelemetry:
            raise CommandError("otel_itl measures this process already: a sweep needs one of its own.")
        resource = Resource.create({"service.name": SERVICE_NAME})
        self._provider = TracerProvider(sampler=ALWAYS_ON, resource=resource, shutdown_on_exit=False)
        self._provider.add_span_processor(_RequestProcessor())
        otel_itl.instrument(
            sdks=[sdk],
            token_events="packed",
            slo=objective,
            session_from=None,
            file=None,
            summary=False,
            progress=None,
            tracer_provider=self._provider,
            meter_provider=NoOpMeterProvider(),
            logger_provider=NoOpLoggerProvider(),
        )

    def close(self) -> None:
        """Stop measuring."""
        otel_itl.uninstrument()
        self._provider.shutdown()


current_request: ContextVar[DueRequest | None] = ContextVar("otel_itl_sweep_request", default=None)
"""The request that the running task sends: what a span that starts is marked with."""


class _RequestProcessor(SpanProcessor):
    """Marks the span of a request with its place in the sweep, and hands it over when it ends."""

    def __init__(self) -> None:
        self._requests: dict[int, DueRequest] = {}

    def on_start(self, span: Span, parent_context: Context | None = None) -> None:  # noqa: ARG002 - the SDK's signature
        """Mark the span of a request. Called where the request is sent, in its task: from here its latency counts."""
        request = current_request.get()
        if request is None or request.span_id is not None:
            return
        request.sent = asyncio.get_running_loop().time()
        request.span_id = span.get_span_context().span_id
        self._requests[request.span_id] = request
        span.set_attribute(names.SWEEP_ROUND, request.round)
        span.set_attribute(names.SWEEP_STEADY, request.is_steady)
        span.set_attribute(names.SWEEP_SCHEDULE_DELAY, request.sent - request.due)
        if request.is_steady:
            span.set_attribute(names.SWEEP_LEVEL, f"{request.level:g}")

    def on_end(self, span: ReadableSpan) -> None:
        """Hand a span over to its request. Called in any thread."""
        context = span.get_span_context()
        request = None if context is None else self._requests.pop(context.span_id, None)
        if request is not None:
            request.span = span


async def wait_for_span(request: DueRequest) -> None:
    """Wait until the span of a stream that has ended is there, for a short time."""
    for _ in range(round(MAX_WAIT_FOR_SPAN / _WAIT_SECONDS)):
        if request.span is not None or request.span_id is None:
            return
        await asyncio.sleep(_WAIT_SECONDS)


def read_usage(request: DueRequest) -> tuple[int | None, int | None]:
    """Return the input and output tokens that the endpoint has reported; None: it has not."""
    attributes: Any = {} if request.span is None else request.span.attributes or {}
    usage = (attributes.get(name) for name in (names.USAGE_INPUT_TOKENS, names.USAGE_OUTPUT_TOKENS))
    input_tokens, output_tokens = (value if isinstance(value, int) else None for value in usage)
    return input_tokens, output_tokens


def take_document(request: DueRequest) -> OTLPDocument | None:
    """Return the stream of a request that has ended as OTLP, and drop its span; None: it never began."""
    if request.span is not None:
        request.document, request.span = encode_spans([request.span]), None
    document, request.document = request.document, None
    return document
