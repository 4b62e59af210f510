"""Makes streams of what arrives: spans with token events, events of streams that run, and spans of others."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Container, Iterable, Iterator, Mapping
from threading import Lock
from time import monotonic
from typing import Any, Final

from otel_itl.core import conventions as names
from otel_itl.core import metric_conventions
from otel_itl.core.timeline import MICROSECOND
from otel_itl.tools.report.reading.otlp import (
    SHAPE_ERRORS,
    TOKEN_EVENTS,
    OTLPSpan,
    TokenLogRecord,
    iterate_spans,
    iterate_token_logs,
)
from otel_itl.tools.report.reading.skipped_input import SkippedInput, SkipReason
from otel_itl.tools.report.reading.span_facts import read_session_id
from otel_itl.tools.report.reading.streams import (
    UNKNOWN,
    Identity,
    StoredStream,
    StreamReader,
    describe_shape_error,
    read_identity,
)
from otel_itl.tools.report.selection import Selection
from otel_itl.tools.view.document import (
    cut,
    describe_head,
    describe_stream,
    name_model,
    put_on_side,
    without_none,
)
from otel_itl.tools.view.server.running import RunningStreams
from otel_itl.tools.view.server.store import Store

MAX_TEXT_BYTES: Final = 1_024
"""A longer text attribute is no name and no id."""

_EVENTS: Final = TOKEN_EVENTS | {names.PROGRESS_EVENT, names.STALL_STARTED_EVENT, names.STALL_ENDED_EVENT}
"""Names of the log events that the page shows."""
_KEPT: Final = frozenset(
    {
        *(names.OPERATION_NAME, names.PROVIDER_NAME, names.REQUEST_MODEL, names.RESPONSE_MODEL, names.ERROR_TYPE),
        *(names.SESSION_ID, names.CONVERSATION_ID, names.USAGE_INPUT_TOKENS, names.USAGE_OUTPUT_TOKENS),
        *(names.USAGE_REASONING_TOKENS, "gen_ai.system", "llm.model_name", "llm.provider", "llm.system"),
        *("gen_ai.usage.prompt_tokens", "openinference.span.kind"),
    }
)
"""Attributes that are kept, beside all of `itl.`: prompts and completions are in others, and are dropped."""
_EXCERPT: Final = ("gen_ai.", "llm.", "openinference.")


class Assembler:
    """Puts what arrives into a store, in any order. Safe to use from any thread.

    Args:
        store: keeps the streams.
        skipped: receives what does not make a stream.
        side: of a comparison, that all of this belongs to; None: nothing is compared.
        selection: the streams that are shown; None: all.
        by: the attribute that each model is split by; None: by none.
    """

    def __init__(
        self,
        store: Store,
        skipped: SkippedInput,
        side: int | None = None,
        selection: Selection | None = None,
        by: str | None = None,
    ) -> None:
        self.store = store
        self._side = side
        self._skipped = skipped
        self._lock = Lock()
        self._selection = selection or Selection()
        self._by = by
        self._kept = _KEPT | {key for key, _ in self._selection.where} | {by}
        self._running = RunningStreams(store, self._selection)
        self._reader = StreamReader(skipped, max_waiting=store.keep)
        self.foreign = 0
        """Spans that have nothing to do with models."""
        self.failures = 0.0
        """Failures of the instrumentation itself, by `itl.self.errors`."""

    @property
    def let_go(self) -> int:
        """The number of spans, and of streams in logs, that were let go while they waited for each other."""
        return self._reader.let_go

    def add(self, document: Mapping[str, Any], where: str = "OTLP") -> int:
        """Take in one OTLP request, without the spans and log records that are not of OTLP's shape.

        Args:
            document: the request, in the shape of OTLP's JSON.
            where: it comes from, for messages.

        Returns:
            How many spans and log records were refused.

        Raises:
            TypeError, ValueError, KeyError, AttributeError, OverflowError: the request itself is not of OTLP's shape.
        """
        refused: list[Exception] = []
        found = iterate_spans(document, refused.append)
        spans = [span._replace(attributes=_keep_attributes(span.attributes, self._kept)) for span in found]
        records = list(iterate_token_logs(document, _EVENTS, refused.append))
        failures = sum(_count_failures(document))
        if refused:
            self._skipped.add(SkipReason.NOT_OTLP, where, f"{len(refused)} of it, {describe_shape_error(refused[0])}")
        with self._lock:
            for span in spans:
                self._add_span(span, where)
            for record in records:
                self._add_event(record, where)
            self.failures = max(self.failures, failures)
        return len(refused)

    def end_lost_streams(self) -> None:
        """Mark running streams as lost if they sent progress events and then nothing: their process may be gone."""
        with self._lock:
            self._running.end_lost_streams(monotonic())

    def finish_logged(self) -> None:
        """Show the streams in logs of which no span has come: for a file that was read to its end."""
        with self._lock:
            self._show(self._reader.finish())

    def _add_span(self, span: OTLPSpan, where: str) -> None:
        """Take in a span: its streams, or a plain bar where it has none."""
        if names.TEST in span.attributes or span.token_events or names.STREAM_OUTCOME in span.attributes:
            try:
                self._show(self._reader.read_span(span, where))
            except SHAPE_ERRORS:
                self._skip(span.span_id, where)
        elif any(name.startswith(_EXCERPT) for name in span.attributes):
            self._show_plain(span)
        else:
            self.foreign += 1

    def _add_event(self, record: TokenLogRecord, where: str) -> None:
        """Take in a log event of ours."""
        name, _, attributes = record.event
        try:
            if name in TOKEN_EVENTS:
                self._show(self._reader.read_log(record, where))
            elif self._side is not None:
                return  # streams that have ended are compared
            elif name == names.PROGRESS_EVENT:
                self._running.add_progress(record.trace_id, record.span_id, attributes, monotonic())
            else:
                self._running.add_stall(record, is_open=name == names.STALL_STARTED_EVENT, now=monotonic())
        except SHAPE_ERRORS:
            self._skip(record.span_id, where)

    def _skip(self, span_id: str, where: str) -> None:
        self._skipped.add(SkipReason.NOT_DECODABLE, where, f"span {span_id}" if span_id else "")

    def _show(self, streams: Iterable[StoredStream]) -> None:
        """Show streams that have ended, in place of what was shown while they ran."""
        for stream in streams:
            start = stream.timeline.request_unix_ns // MICROSECOND
            self._running.finish((stream.trace_id, stream.span_id), start)
            if self._selection.takes(stream):
                self._keep(describe_stream(stream, self._by))

    def _show_plain(self, span: OTLPSpan) -> None:
        """Show a span of another instrumentation, if it is selected."""
        attributes = ChainMap(dict(span.attributes), dict(span.resource))
        identity, session_id = read_identity(span.attributes), read_session_id(span.attributes)
        if identity.model == UNKNOWN:
            identity = identity._replace(model=span.name)
        if self._selection.matches(span.start_unix_ns, identity, session_id, attributes):
            self._keep(_describe_plain(span, identity._replace(model=name_model(identity.model, attributes, self._by))))

    def _keep(self, described: dict[str, Any]) -> None:
        """Put a stream that has ended into the store, on its side."""
        self.store.put(described if self._side is None else put_on_side(described, self._side))


def _keep_attributes(attributes: Mapping[str, Any], kept: Container[str | None]) -> dict[str, Any]:
    """Return the attributes that the page needs: no prompt, no completion, no long text."""
    return {
        name: value
        for name, value in attributes.items()
        if (name in kept or name.startswith("itl."))
        and not (isinstance(value, (str, bytes)) and len(value) > MAX_TEXT_BYTES)
    }


def _count_failures(document: Mapping[str, Any]) -> Iterator[float]:
    """Yield the numbers of failures of the instrumentation in the metrics of a request."""
    for resource in document.get("resourceMetrics") or ():
        for scope in resource.get("scopeMetrics") or ():
            for metric in scope.get("metrics") or ():
                if metric.get("name") == metric_conventions.SELF_ERRORS.name:
                    points = (metric.get("sum") or metric.get("gauge") or {}).get("dataPoints") or ()
                    yield from (float(point.get("asInt", point.get("asDouble", 0))) for point in points)


def _describe_plain(span: OTLPSpan, identity: Identity) -> dict[str, Any]:
    """Describe a span of another instrumentation, which holds no token time."""
    attributes = span.attributes
    key, error = (span.trace_id, span.span_id), attributes.get(names.ERROR_TYPE)
    described = describe_head(key, identity, span.start_unix_ns, read_session_id(attributes)) | {
        "kind": "span",
        "name": cut(span.name),
        "end": max(span.end_unix_ns - span.start_unix_ns, 0) // MICROSECOND,
        "outcome": "error" if error else None,
        "error": cut(str(error)) if error else None,
    }
    return without_none(described)
