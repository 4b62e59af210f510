"""Reads telemetry files into streams, each with its timeline and the facts of its span."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import lt
from typing import Any, NamedTuple

from otel_itl.core import conventions as names
from otel_itl.core.decoding import MalformedEventsError, decode
from otel_itl.core.measures import Measures, measure
from otel_itl.core.timeline import MICROSECOND, Timeline
from otel_itl.tools.report.reading.documents import Document, read_documents
from otel_itl.tools.report.reading.otlp import (
    SHAPE_ERRORS,
    Event,
    OTLPSpan,
    TokenLogRecord,
    is_otlp,
    iterate_spans,
    iterate_token_logs,
)
from otel_itl.tools.report.reading.skipped_input import SkippedInput, SkipReason
from otel_itl.tools.report.reading.span_facts import (
    NO_FACTS,
    SpanFacts,
    read_session_id,
    read_span_facts,
    read_text,
)

UNKNOWN = "unknown"

_SpanKey = tuple[str, str]
"""Trace id and span id."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredStream:
    """One stream that was read back from telemetry."""

    provider: str
    model: str
    operation: str
    trace_id: str
    """In hex; empty where the stream had no span."""
    span_id: str
    where: str
    """`FILE:LINE` of the document with the last of its token events."""
    timeline: Timeline
    measures: Measures
    span_facts: SpanFacts = NO_FACTS


class Identity(NamedTuple):
    """The names that a stream is reported under."""

    provider: str = UNKNOWN
    model: str = UNKNOWN
    operation: str = UNKNOWN


class _BareSpan(NamedTuple):
    """A span without token events; they may follow in logs."""

    identity: Identity
    facts: SpanFacts
    where_awaited: str | None
    """Its place in the input, if it is the span of a measured stream, of which no token event has come yet."""


class _LoggedStream(NamedTuple):
    """One stream whose token events are log records."""

    where: str
    events: list[Event]


def read_streams(sources: Iterable[str], skipped: SkippedInput) -> Iterator[StoredStream]:
    """Yield the streams of files.

    A stream on a span is yielded as soon as it is read. Token events in logs wait for the end of the input, because
    their span, which has the names of provider and model, may come later: 24 bytes for each chunk.

    Args:
        sources: paths of files; `-` is standard input.
        skipped: receives what cannot be used.

    Raises:
        UnreadableSourceError: a source is missing, a directory, binary, or the permission is missing.
    """
    reader = StreamReader(skipped)
    for source in sources:
        for document in read_documents(source, skipped):
            yield from reader.read(document)
    yield from reader.finish()


class StreamReader:
    """Assembles streams from documents, in any order.

    Args:
        skipped: receives what cannot be used.
        max_waiting: None: the input ends, and token events in logs wait for its end. Else it does not: streams in logs
            are yielded once they are complete, those of this number of spans wait at most, and none is a duplicate.
    """

    def __init__(self, skipped: SkippedInput, *, max_waiting: int | None = None) -> None:
        self._skipped = skipped
        self._max_waiting = max_waiting
        self._seen: set[tuple[str, str, int]] = set()
        self._bare_spans: dict[_SpanKey, _BareSpan] = {}
        self._logged: dict[_SpanKey, dict[int, _LoggedStream]] = {}
        """Span → time of the request → what its log records hold so far."""
        self._tests: set[_SpanKey] = set()
        """The spans of scripted streams, which are in no report."""
        self.let_go = 0
        """Spans, and streams in logs, that had waited for each other for too long, by `max_waiting`."""

    def read(self, document: Document) -> Iterator[StoredStream]:
        """Yield the streams of a document that are complete."""
        if not is_otlp(document.value):
            self._skipped.add(SkipReason.NOT_OTLP, document.where)
            return
        try:
            for span in iterate_spans(document.value):
                yield from self.read_span(span, document.where)
            for record in iterate_token_logs(document.value):
                yield from self.read_log(record, document.where)
        except SHAPE_ERRORS as error:
            self._skipped.add(SkipReason.NOT_OTLP, document.where, describe_shape_error(error))

    def finish(self) -> Iterator[StoredStream]:
        """Yield the streams whose token events are log records, once the input has been read."""
        for key in [key for key in self._logged if key not in self._tests]:
            yield from self._finish_logged(key)
        for span in self._bare_spans.values() if self._max_waiting is None else ():
            if span.where_awaited is not None:
                self._skipped.add(SkipReason.WITHOUT_TOKEN_EVENTS, span.where_awaited)

    def read_span(self, span: OTLPSpan, where: str) -> Iterator[StoredStream]:
        """Yield the streams on a span; keep the span for token events in logs where it has none itself.

        Raises:
            TypeError, ValueError, KeyError, IndexError: a token event has an attribute of another type than ours.
        """
        key, identity = (span.trace_id, span.span_id), read_identity(span.attributes)
        if span.attributes.get(names.TEST) is True:
            self._tests.add(key)
            return
        if not span.token_events:
            yield from self._keep_span(key, identity, span, where)
            return
        *earlier, last = _split_streams(span.token_events)
        whole = _read_facts(span, _find_request_time(last[-1]) if earlier else 0)
        # Where several streams reported to one span, its attributes are those of the last.
        for events in earlier:
            facts = SpanFacts(session_id=read_session_id(span.attributes), attributes=whole.attributes)
            yield from self._stream(key, identity, facts, events, where)
        yield from self._stream(key, identity, whole, last, where)

    def read_log(self, record: TokenLogRecord, where: str) -> Iterator[StoredStream]:
        """Keep a token event until its stream can be yielded; raises as `read_span` does."""
        key = (record.trace_id, record.span_id)
        request_time = _find_request_time(record.event)
        logged = self._logged.setdefault(key, {})
        logged.setdefault(request_time, _LoggedStream(where, [])).events.append(record.event)
        if self._max_waiting is None:
            return
        if names.STREAM_OUTCOME in record.event[2] and key in self._bare_spans:
            yield from self._finish_logged(key, request_time)
        while len(self._logged) > self._max_waiting:
            self.let_go += len(self._logged.pop(next(iter(self._logged))))

    def _keep_span(self, key: _SpanKey, identity: Identity, span: OTLPSpan, where: str) -> Iterator[StoredStream]:
        """Keep a span without token events, if there may be some in logs."""
        is_measured = names.STREAM_OUTCOME in span.attributes
        if not is_measured and identity == Identity():
            return
        self._bare_spans[key] = _BareSpan(identity, _read_facts(span), where if is_measured else None)
        while self._max_waiting is not None and len(self._bare_spans) > self._max_waiting:
            self.let_go += self._bare_spans.pop(next(iter(self._bare_spans))).where_awaited is not None
        if self._max_waiting is not None and key in self._logged:
            yield from self._finish_logged(key)

    def _finish_logged(self, key: _SpanKey, request_time: int | None = None) -> Iterator[StoredStream]:
        """Yield the streams of a span whose token events are in logs, or the one that was requested then."""
        span = self._bare_spans.get(key, _BareSpan(Identity(), NO_FACTS, None))
        if span.where_awaited is not None:
            self._bare_spans[key] = span._replace(where_awaited=None)
        logged = self._logged[key]
        for moment in list(logged) if request_time is None else [request_time]:
            where, events = logged.pop(moment)
            yield from self._stream(key, span.identity, span.facts, events, where)
        if not logged:
            del self._logged[key]

    def _stream(
        self, key: _SpanKey, identity: Identity, facts: SpanFacts, events: Sequence[Event], where: str
    ) -> Iterator[StoredStream]:
        """Yield the stream of these token events, unless they do not decode or it was read before."""
        try:
            timeline = decode(events)
            _check_order(timeline)
            measures = measure(timeline)
        except SHAPE_ERRORS as error:
            reason = str(error) if isinstance(error, MalformedEventsError) else "they do not make a timeline."
            self._skipped.add(SkipReason.NOT_DECODABLE, where, f"span {key[1]}: {reason}" if key[1] else reason)
            return
        seen = (*key, timeline.request_unix_ns)
        if seen in self._seen:
            self._skipped.add(SkipReason.DUPLICATE, where, f"span {key[1]}")
            return
        if key[1] and self._max_waiting is None:
            self._seen.add(seen)
        yield StoredStream(
            **identity._asdict(),
            trace_id=key[0],
            span_id=key[1],
            where=where,
            timeline=timeline,
            measures=measures,
            span_facts=facts,
        )


def _read_facts(span: OTLPSpan, since: int = 0) -> SpanFacts:
    """Read the facts of a span, with the stalls from a moment (Unix ns) on."""
    stalls = [attributes for _, start, attributes in span.stall_events if start >= since]
    return read_span_facts(span.attributes, stalls, span.resource)


def read_identity(attributes: Mapping[str, Any]) -> Identity:
    """Read the names of a stream from its span's attributes; `unknown` where they are missing."""
    return Identity(
        provider=read_text(attributes, names.PROVIDER_NAME, "gen_ai.system", "llm.provider", "llm.system") or UNKNOWN,
        model=read_text(attributes, names.REQUEST_MODEL, names.RESPONSE_MODEL, "llm.model_name") or UNKNOWN,
        operation=read_text(attributes, names.OPERATION_NAME) or UNKNOWN,
    )


def _split_streams(events: Sequence[Event]) -> Iterator[list[Event]]:
    """Split the token events of one span by stream: the last event of each stream has its outcome."""
    stream: list[Event] = []
    for event in events:
        stream.append(event)
        if names.STREAM_OUTCOME in event[2]:
            yield stream
            stream = []
    if stream:
        yield stream


def _find_request_time(event: Event) -> int:
    """Return the Unix time of the request (ns), which is the same for all token events of a stream."""
    _, unix_ns, attributes = event
    if names.STREAM_REQUEST_TIME in attributes:
        return int(attributes[names.STREAM_REQUEST_TIME])
    offsets = attributes.get(names.TOKENS_OFFSETS)
    return unix_ns - int(offsets[-1]) * MICROSECOND if offsets else unix_ns


def describe_shape_error(error: Exception) -> str:
    """Return why a document is not OTLP, in words of OTLP rather than in Python's."""
    if isinstance(error, KeyError) and error.args:
        return f"a field {error.args[0]!r} is missing"
    return "a field has a value of another type than in OTLP"


def _check_order(timeline: Timeline) -> None:
    """Raise MalformedEventsError where events that were put together do not make one stream."""
    if any(map(lt, timeline.arrived[1:], timeline.arrived)):
        raise MalformedEventsError("its chunks do not arrive in order.")
    if min(timeline.waits, default=0) < 0:
        raise MalformedEventsError("a chunk arrives before it is asked for.")
