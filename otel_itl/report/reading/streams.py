"""Telemetry files → the streams that were measured, each with its timeline and what its span told of it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import lt
from typing import Any, NamedTuple

from otel_itl import conventions as names
from otel_itl.core.codec import decode
from otel_itl.core.measures import Measures, measure
from otel_itl.core.timeline import MICROSECOND, Timeline
from otel_itl.report.reading.documents import Document, read_documents
from otel_itl.report.reading.otlp import Event, Span, TokenLog, is_otlp, spans, token_logs
from otel_itl.report.reading.skipped_input import Loss, SkippedInput
from otel_itl.report.reading.span_facts import NOTHING, SpanFacts, session_of, told

UNKNOWN = "unknown"

_BADLY_SHAPED = (TypeError, ValueError, KeyError, AttributeError, IndexError, OverflowError)
_Key = tuple[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Stream:
    """One stream, read back."""

    provider: str
    model: str
    operation: str
    trace_id: str
    """In hex; empty where it had no span."""
    span_id: str
    where: str
    """`FILE:LINE` of the document that its token events end in."""
    timeline: Timeline
    measures: Measures
    told: SpanFacts = NOTHING


class _Identity(NamedTuple):
    provider: str = UNKNOWN
    model: str = UNKNOWN
    operation: str = UNKNOWN


class _Bare(NamedTuple):
    """A span without token events, which logs may have."""

    identity: _Identity
    told: SpanFacts
    where_measured: str | None
    """None: it was not measured."""


class _Waiting(NamedTuple):
    """Token events that came as logs, of one stream."""

    key: _Key
    where: str
    events: list[Event]


def read_streams(sources: Iterable[str], losses: SkippedInput) -> Iterator[Stream]:
    """Yield the streams of files (`-`: standard input): their token events, and what their spans tell beside.

    A stream on a span is yielded as soon as it is read. Token events in logs wait for the end of the input, as their
    span, which says whose they are, may come later: 24 bytes for each chunk. What cannot be used goes to `losses`.

    Raises:
        UnreadableError: a source is missing, a directory, not ours to read, or binary.
    """
    reading = _Reading(losses)
    for source in sources:
        for document in read_documents(source, losses):
            yield from reading.take(document)
    yield from reading.finish()


class _Reading:
    """What is known while the input is read."""

    def __init__(self, losses: SkippedInput) -> None:
        self._losses = losses
        self._seen: set[tuple[str, str, int]] = set()
        self._bare: dict[_Key, _Bare] = {}
        self._waiting: dict[tuple[_Key, int], _Waiting] = {}

    def take(self, document: Document) -> Iterator[Stream]:
        if not is_otlp(document.value):
            self._losses.note(Loss.NOT_OTLP, document.where)
            return
        try:
            for span in spans(document.value):
                yield from self._on_span(span, document.where)
            for log in token_logs(document.value):
                self._keep(log, document.where)
        except _BADLY_SHAPED as error:
            self._losses.note(Loss.NOT_OTLP, document.where, f"{type(error).__name__}, {error}")

    def finish(self) -> Iterator[Stream]:
        seen = set()
        for key, where, events in self._waiting.values():
            seen.add(key)
            identity, said, _ = self._bare.get(key, _Bare(_Identity(), NOTHING, None))
            yield from self._stream(key, identity, said, events, where)
        for key, bare in self._bare.items():
            if bare.where_measured is not None and key not in seen:
                self._losses.note(Loss.WITHOUT_TOKEN_EVENTS, bare.where_measured)

    def _on_span(self, span: Span, where: str) -> Iterator[Stream]:
        key, identity = (span.trace_id, span.span_id), _identity(span.attributes)
        if not span.events:
            measured = names.STREAM_OUTCOME in span.attributes
            if measured or identity != _Identity():
                said = told(span.attributes, [attributes for _, _, attributes in span.stalls])
                self._bare[key] = _Bare(identity, said, where if measured else None)
            return
        *earlier, last = _one_by_one(span.events)
        # Of several streams that reported to one span, its attributes are of the last.
        for events in earlier:
            yield from self._stream(key, identity, SpanFacts(session=session_of(span.attributes)), events, where)
        requested = _requested(last[-1]) if earlier else 0
        stalls = [attributes for _, began, attributes in span.stalls if began >= requested]
        yield from self._stream(key, identity, told(span.attributes, stalls), last, where)

    def _keep(self, log: TokenLog, where: str) -> None:
        key = (log.trace_id, log.span_id)
        kept = self._waiting.setdefault((key, _requested(log.event)), _Waiting(key, where, []))
        kept.events.append(log.event)

    def _stream(
        self, key: _Key, identity: _Identity, said: SpanFacts, events: Sequence[Event], where: str
    ) -> Iterator[Stream]:
        try:
            timeline = decode(events)
            _check_order(timeline)
            measures = measure(timeline)
        except _BADLY_SHAPED as error:
            self._losses.note(Loss.NOT_DECODABLE, where, f"span {key[1]}: {error}" if key[1] else str(error))
            return
        seen = (*key, timeline.request_unix_ns)
        if seen in self._seen:
            self._losses.note(Loss.DUPLICATE, where, f"span {key[1]}")
            return
        if key[1]:
            self._seen.add(seen)
        yield Stream(
            **identity._asdict(),
            trace_id=key[0],
            span_id=key[1],
            where=where,
            timeline=timeline,
            measures=measures,
            told=said,
        )


def _identity(attributes: Mapping[str, Any]) -> _Identity:
    def text(*candidates: str) -> str:
        found = (attributes.get(name) for name in candidates)
        return next((value for value in found if isinstance(value, str) and value), UNKNOWN)

    return _Identity(
        provider=text(names.PROVIDER_NAME, "gen_ai.system"),
        model=text(names.REQUEST_MODEL, names.RESPONSE_MODEL),
        operation=text(names.OPERATION_NAME),
    )


def _one_by_one(events: Sequence[Event]) -> Iterator[list[Event]]:
    """The token events of each stream that reported to one span: the event with the stream's facts is its last."""
    stream: list[Event] = []
    for event in events:
        stream.append(event)
        if names.STREAM_OUTCOME in event[2]:
            yield stream
            stream = []
    if stream:
        yield stream


def _requested(event: Event) -> int:
    """The moment of the request, which all events of one stream share and each lets one know."""
    _, unix_ns, attributes = event
    if names.STREAM_REQUEST_TIME in attributes:
        return int(attributes[names.STREAM_REQUEST_TIME])
    offsets = attributes.get(names.TOKENS_OFFSETS)
    return unix_ns - int(offsets[-1]) * MICROSECOND if offsets else unix_ns


def _check_order(timeline: Timeline) -> None:
    """Chunks with an event each may have been put together from anywhere."""
    if any(map(lt, timeline.arrived[1:], timeline.arrived)):
        raise ValueError("its chunks do not arrive in order")
    if min(timeline.waits, default=0) < 0:
        raise ValueError("a chunk arrives before it is asked for")
