"""Makes streams of what arrives: spans with token events, events of streams that run, and spans of others."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from threading import Lock
from time import monotonic
from typing import Any, Final

from otel_itl.core import conventions as names
from otel_itl.core.codec import decode
from otel_itl.core.measures import measure
from otel_itl.tools.report.reading.otlp import Event, OTLPSpan, TokenLogRecord
from otel_itl.tools.report.reading.skipped_input import SkippedInput, SkipReason
from otel_itl.tools.report.reading.span_facts import NO_FACTS, SpanFacts, read_session_id, read_span_facts
from otel_itl.tools.report.reading.streams import (
    SHAPE_ERRORS,
    UNKNOWN,
    Identity,
    StoredStream,
    check_order,
    find_request_time,
    read_identity,
    split_streams,
)
from otel_itl.tools.view.document import cut, describe_stream, stream_id, without_none
from otel_itl.tools.view.server.records import Records
from otel_itl.tools.view.server.running import RunningStreams
from otel_itl.tools.view.server.store import Store

MAX_WAITING: Final = 2_000
"""Spans that wait for token events in logs, and streams in logs that wait for their span; the oldest are let go."""
_EXCERPT: Final = ("gen_ai.", "llm.", "openinference.")


class Assembler:
    """Puts what arrives into a store, in any order. Safe to use from any thread.

    Args:
        store: keeps the streams.
        skipped: receives what does not make a stream.
    """

    def __init__(self, store: Store, skipped: SkippedInput) -> None:
        self._store = store
        self._skipped = skipped
        self._lock = Lock()
        self._where = ""
        self._running = RunningStreams(store)
        self._bare_spans: OrderedDict[tuple[str, str], tuple[Identity, SpanFacts]] = OrderedDict()
        self._logged: OrderedDict[tuple[str, str, int], list[Event]] = OrderedDict()
        self.foreign = 0
        """Spans that have nothing to do with models."""
        self.failures = 0.0
        """Failures of the instrumentation itself, by `itl.self.errors`."""

    def add(self, records: Records, where: str = "OTLP") -> None:
        """Take in the contents of one OTLP request.

        Args:
            records: the contents.
            where: they come from, for messages.
        """
        with self._lock:
            self._where = where
            for span in records.spans:
                self._add_span(span)
            for record in records.events:
                self._add_event(record)
            if names.SELF_ERRORS.name in records.numbers:
                self.failures = max(self.failures, records.numbers[names.SELF_ERRORS.name])

    def end_lost_streams(self) -> None:
        """Mark running streams as lost if they sent progress events and then nothing: their process may be gone."""
        with self._lock:
            self._running.end_lost_streams(monotonic())

    def _add_span(self, span: OTLPSpan) -> None:
        """Take in a span: its streams, or a plain bar where it has none."""
        if span.attributes.get(names.TEST) is True:
            return
        key, identity = (span.trace_id, span.span_id), read_identity(span.attributes)
        if span.token_events:
            try:
                *earlier, last = split_streams(span.token_events)
                since = find_request_time(last[-1]) if earlier else 0
            except SHAPE_ERRORS:
                self._skip(span.span_id)
                return
            for events in earlier:
                self._finish(key, identity, SpanFacts(session_id=read_session_id(span.attributes)), events)
            stalls = [attributes for _, start, attributes in span.stall_events if start >= since]
            self._finish(key, identity, read_span_facts(span.attributes, stalls), last)
        elif names.STREAM_OUTCOME in span.attributes:
            facts = read_span_facts(span.attributes, [attributes for _, _, attributes in span.stall_events])
            self._bare_spans[key] = (identity, facts)
            _let_go_oldest(self._bare_spans)
            for logged in [name for name in self._logged if name[:2] == key]:
                self._finish(key, identity, facts, self._logged.pop(logged))
        elif any(name.startswith(_EXCERPT) for name in span.attributes):
            self._store.put(_describe_plain(span, identity))
        else:
            self.foreign += 1

    def _add_event(self, record: TokenLogRecord) -> None:
        """Take in a log event of ours."""
        name, _, attributes = record.event
        try:
            if name in {names.TOKENS_EVENT, names.TOKEN_EVENT}:
                self._add_token_event(record)
            elif name == names.PROGRESS_EVENT:
                self._running.add_progress(record.trace_id, record.span_id, attributes, monotonic())
            else:
                self._running.add_stall(record, is_open=name == names.STALL_STARTED_EVENT, now=monotonic())
        except SHAPE_ERRORS:
            self._skip(record.span_id)

    def _add_token_event(self, record: TokenLogRecord) -> None:
        """Keep a token event from the logs until its stream is complete and its span, which has its names, is there."""
        key = (record.trace_id, record.span_id)
        place = (*key, find_request_time(record.event))
        events = self._logged.setdefault(place, [])
        events.append(record.event)
        _let_go_oldest(self._logged)
        if names.STREAM_OUTCOME in record.event[2] and key in self._bare_spans:
            identity, facts = self._bare_spans[key]
            self._finish(key, identity, facts, self._logged.pop(place))

    def finish_logged(self) -> None:
        """Show the streams in logs of which no span has come: for a file that was read to its end."""
        with self._lock:
            for place in list(self._logged):
                self._finish(place[:2], Identity(), NO_FACTS, self._logged.pop(place))

    def _skip(self, span_id: str) -> None:
        self._skipped.add(SkipReason.NOT_DECODABLE, self._where, f"span {span_id}" if span_id else "")

    def _finish(self, key: tuple[str, str], identity: Identity, facts: SpanFacts, events: Sequence[Event]) -> None:
        """Show a stream that has ended, in place of what was shown while it ran."""
        try:
            timeline = decode(events)
            check_order(timeline)
            stream = StoredStream(
                **identity._asdict(),
                trace_id=key[0],
                span_id=key[1],
                where="",
                timeline=timeline,
                measures=measure(timeline),
                span_facts=facts,
            )
            described = describe_stream(stream)
        except SHAPE_ERRORS:
            self._skip(key[1])
            return
        self._running.finish(key, described["id"], described["start"])
        self._store.put(described)


def _describe_plain(span: OTLPSpan, identity: Identity) -> dict[str, Any]:
    """Describe a span of another instrumentation, which holds no token time."""
    attributes: Mapping[str, Any] = span.attributes
    model = next((attributes[name] for name in ("llm.model_name",) if isinstance(attributes.get(name), str)), None)
    provider = attributes.get("llm.provider") or attributes.get("llm.system")
    error = attributes.get(names.ERROR_TYPE)
    return without_none(
        {
            "id": stream_id(span.trace_id, span.span_id, span.start_unix_ns),
            "kind": "span",
            "trace": span.trace_id,
            "span": span.span_id,
            "name": cut(span.name),
            "provider": cut(identity.provider if identity.provider != UNKNOWN else str(provider or UNKNOWN)),
            "model": cut(identity.model if identity.model != UNKNOWN else model or span.name),
            "operation": cut(identity.operation),
            "session": (session := read_session_id(attributes)) and cut(session),
            "start": span.start_unix_ns // 1_000,
            "end": max(span.end_unix_ns - span.start_unix_ns, 0) // 1_000,
            "outcome": "error" if error else None,
            "error": cut(str(error)) if error else None,
        }
    )


def _let_go_oldest(waiting: OrderedDict[Any, Any]) -> None:
    while len(waiting) > MAX_WAITING:
        waiting.popitem(last=False)
