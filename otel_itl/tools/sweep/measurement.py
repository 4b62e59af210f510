"""Measures the requests of a sweep by otel_itl itself, in this process, and stores their streams."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Iterable
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
from otel_itl.export.file.encoding import encode_spans, to_line
from otel_itl.tools.command_error import CommandError
from otel_itl.tools.report.reading.documents import Document
from otel_itl.tools.report.reading.skipped_input import SkippedInput
from otel_itl.tools.report.reading.streams import StoredStream, StreamReader
from otel_itl.tools.sweep.endpoint import SDK
from otel_itl.tools.sweep.records import DueRequest

SERVICE_NAME: Final = "otel-itl-sweep"
CALIBRATION: Final = -1
"""Round of the requests that calibrate: in the file they have no level."""
MAX_WAIT_FOR_SPAN: Final = 2.0
"""Seconds: the span of a stream with thousands of chunks ends shortly after the stream."""
_WAIT_SECONDS: Final = 0.01
_STREAMS_PER_TURN: Final = 20
"""Streams that are read before the event loop gets a turn: for Ctrl-C, and the display."""
_OWNER_ONLY: Final = 0o600


class Measurement:
    """Instruments the SDK from here on, until it is closed.

    Nothing is exported: spans are kept until `collect`, so that no work for the file disturbs a round.

    Args:
        sdk: SDK that sends the requests.
        objective: recorded on the spans, so that a report judges by it; None: none.
        output: a new file, readable by its owner only; None: no file.

    Raises:
        CommandError: otel_itl is switched off by the environment, or measures this process already.
        OSError: the file cannot be created; FileExistsError: it exists.
    """

    def __init__(self, sdk: SDK, objective: SLO | None, output: str | None) -> None:
        if is_disabled():
            raise CommandError("OTEL_ITL_DISABLED or OTEL_SDK_DISABLED is true: a sweep needs it unset.")
        if otel_itl.ITLInstrumentor().is_instrumented_by_opentelemetry:
            raise CommandError("otel_itl measures this process already: a sweep needs one of its own.")
        self._output = output
        self._file = None if output is None else os.open(output, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _OWNER_ONLY)
        self._reader = StreamReader(SkippedInput())
        self._unwritten: list[OTLPDocument] = []
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
        """Stop measuring, and close the file; an empty one is removed."""
        otel_itl.uninstrument()
        self._provider.shutdown()
        if self._file is not None and self._output is not None:
            is_empty = not os.fstat(self._file).st_size
            os.close(self._file)
            if is_empty:
                os.unlink(self._output)  # noqa: PTH108 - as it was opened

    async def collect(self, requests: Iterable[DueRequest]) -> AsyncIterator[tuple[DueRequest, StoredStream]]:
        """Read the streams of requests that have ended, as a report does. Their spans are dropped.

        Args:
            requests: the requests of one round; `store` writes them.

        Yields:
            Each request whose stream began, with its stream.
        """
        for number, request in enumerate(requests):
            if request.span is None:
                continue
            document = encode_spans([request.span])
            request.span = None
            self._unwritten.append(document)
            for stream in self._reader.read(Document(SERVICE_NAME, document)):
                yield request, stream
            if number % _STREAMS_PER_TURN == 0:
                await asyncio.sleep(0)

    async def store(self, *, is_counted: bool) -> None:
        """Write what was collected to the file, if there is one.

        Args:
            is_counted: the round counts; else its streams are stored without their level, so that no comparison of
                levels includes them.

        Raises:
            OSError: the file cannot be written.
        """
        documents, self._unwritten = self._unwritten, []
        if self._file is None:
            return
        for number, document in enumerate(documents):
            rest = memoryview(to_line(document if is_counted else _without_level(document)))
            while rest:
                rest = rest[os.write(self._file, rest) :]
            if number % _STREAMS_PER_TURN == 0:
                await asyncio.sleep(0)


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


def _without_level(document: OTLPDocument) -> OTLPDocument:
    """Remove the level from the spans of a document."""
    for of_resource in document["resourceSpans"]:
        for of_scope in of_resource["scopeSpans"]:
            for span in of_scope["spans"]:
                span["attributes"] = [one for one in span["attributes"] if one["key"] != names.SWEEP_LEVEL]
    return document
