"""The streams that run, from their `itl.stream.progress` events and the events of their stalls."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from operator import sub
from typing import Any, Final

from otel_itl.core import conventions as names
from otel_itl.core.timeline import MICROSECOND, OUTPUT, SECOND
from otel_itl.tools.report.reading.otlp import TokenLogRecord
from otel_itl.tools.report.reading.span_facts import read_session_id, read_stall
from otel_itl.tools.report.reading.streams import read_identity
from otel_itl.tools.report.selection import Selection
from otel_itl.tools.view.document import cut, describe_head, describe_stall, stream_id
from otel_itl.tools.view.moments import HIDDEN, OTHER, DrawnChunks
from otel_itl.tools.view.packing import MIN_DRAWN_HOLD, pack_chunks
from otel_itl.tools.view.server.store import Store

LOST_AFTER_SECONDS: Final = 12.0
"""A stream with progress events that was not heard of for this long is shown as lost."""
MAX_RUNNING: Final = 5_000
MAX_CHUNKS: Final = 1 << 16
"""Chunks of one stream that are drawn while it runs, as many as a span's token events hold."""
_SAME_REQUEST_US: Final = 5_000
_MIN_WAIT_US: Final = 1_000
"""A chunk that was waited for this long counts as observed: while a stream runs, each chunk is judged by itself."""


@dataclass(slots=True)
class _Running:
    """One stream that runs."""

    id: str
    key: tuple[str, str]
    start: int
    """Of the request, in microseconds since the epoch."""
    heard: float
    has_progress: bool = False
    chunks: int = 0
    last_arrival: int = 0
    """Microseconds after the request."""
    stalls: list[dict[str, Any]] = field(default_factory=list)


class RunningStreams:
    """Keeps the streams that run in a store up to date. Not safe for threads: the assembler holds a lock.

    Args:
        store: keeps the streams.
        selection: those that are shown. Of one that runs, the attributes are not known: it is shown when it has ended,
            if it is selected by one.
    """

    def __init__(self, store: Store, selection: Selection) -> None:
        self._store = store
        self._selection = selection
        self._streams: dict[str, _Running] = {}
        self._ended: dict[str, None] = {}
        """Ids of streams that have ended: a late progress event does not show them again."""

    def add_progress(self, trace_id: str, span_id: str, attributes: Mapping[str, Any], now: float) -> None:
        """Take in a progress event.

        Raises:
            TypeError, ValueError, KeyError: an attribute is missing, or of another type.
        """
        request_unix_ns = int(attributes[names.STREAM_REQUEST_TIME])
        identifier = stream_id(trace_id, span_id, request_unix_ns)
        if identifier in self._ended:
            return
        stream = self._streams.get(identifier)
        if stream is None:
            if names.STREAM_OUTCOME in attributes:
                return  # it was too short to be shown before its end, and its span follows
            if not self._is_selected(request_unix_ns, attributes):
                return
            key, start = (trace_id, span_id), request_unix_ns // MICROSECOND
            begun_by_stall = self._find(key, start)
            if begun_by_stall is not None:  # this event describes it exactly
                del self._streams[begun_by_stall.id]
                self._store.remove(begun_by_stall.id)
            stream = self._start(key, start, attributes, now)
        stream.heard, stream.has_progress = now, True
        changed: dict[str, Any] = {}
        if names.STREAM_HEADERS in attributes:
            changed["headers"] = int(attributes[names.STREAM_HEADERS])
        packed = self._pack(stream, attributes)
        if packed is not None and any(code & OUTPUT for code in packed["k"][::2]):
            self._close_stalls(stream)
        if names.STREAM_OUTCOME in attributes:
            outcome, end = str(attributes[names.STREAM_OUTCOME]), int(attributes[names.STREAM_END])
            changed |= {"outcome": cut(outcome), "end": end}
            self._note_end(identifier)
        if stream.stalls:
            changed["stalls"] = stream.stalls
        self._store.update(identifier, changed, packed)

    def add_stall(self, record: TokenLogRecord, *, is_open: bool, now: float) -> None:
        """Take in the event of a stall that began or ended.

        Raises:
            TypeError, ValueError, KeyError: an attribute is missing, or of another type.
        """
        _, unix_ns, attributes = record.event
        key = (record.trace_id, record.span_id)
        stall = read_stall(attributes)
        if stall is None or stall.start is None:
            raise ValueError("the event of a stall does not have its start or its duration")
        start = (unix_ns - round((stall.start + stall.duration) * SECOND)) // MICROSECOND
        stream = self._find(key, start)
        if stream is None:
            identifier = stream_id(*key, start * MICROSECOND)
            if not is_open or identifier in self._ended or not self._is_selected(start * MICROSECOND, attributes):
                return
            stream = self._start(key, start, attributes, now)
        stream.heard = now
        described = describe_stall(stall) | ({"open": True} if is_open else {})
        others = [known for known in stream.stalls if abs(known["at"] - described["at"]) > _SAME_REQUEST_US]
        stream.stalls = [*others, described][-names.MAX_REPORTED_STALLS :]
        self._store.update(stream.id, {"stalls": stream.stalls})

    def finish(self, key: tuple[str, str], start: int) -> None:
        """Stop updating a stream that has ended: the assembler shows the finished one in its place.

        Later progress events of it are ignored. If it ran under another id, that entry is removed from the store.

        Args:
            key: trace id and span id.
            start: time of the request, in microseconds since the epoch.
        """
        identifier = stream_id(*key, start * MICROSECOND)
        self._note_end(identifier)
        stream = self._find(key, start)
        if stream is not None:
            self._note_end(stream.id)
            if stream.id != identifier:
                self._store.remove(stream.id)

    def end_lost_streams(self, now: float) -> None:
        """Mark as lost the streams that sent progress events, but no event in the last `LOST_AFTER_SECONDS`."""
        for stream in list(self._streams.values()):
            if stream.has_progress and now - stream.heard > LOST_AFTER_SECONDS:
                self._close_stalls(stream)
                lost = {"outcome": "lost", "end": stream.last_arrival, "stalls": stream.stalls}
                self._store.update(stream.id, lost)
                self._note_end(stream.id)

    def _is_selected(self, request_unix_ns: int, attributes: Mapping[str, Any]) -> bool:
        identity, session_id = read_identity(attributes), read_session_id(attributes)
        return self._selection.matches(request_unix_ns, identity, session_id, attributes)

    def _start(self, key: tuple[str, str], start: int, attributes: Mapping[str, Any], now: float) -> _Running:
        """Begin to show a stream."""
        while len(self._streams) >= MAX_RUNNING:
            self._note_end(next(iter(self._streams)))
        head = describe_head(key, read_identity(attributes), start * MICROSECOND, read_session_id(attributes))
        self._store.put(head, is_running=True)
        stream = self._streams[head["id"]] = _Running(head["id"], key, start, now)
        return stream

    def _find(self, key: tuple[str, str], start: int) -> _Running | None:
        """Return the stream of a span that was requested at this time, or of no span at all."""
        of_span = (stream for stream in self._streams.values() if stream.key == key)
        return next((stream for stream in of_span if abs(stream.start - start) < _SAME_REQUEST_US), None)

    def _note_end(self, identifier: str) -> None:
        self._streams.pop(identifier, None)
        self._ended[identifier] = None
        while len(self._ended) > 2 * MAX_RUNNING:
            del self._ended[next(iter(self._ended))]

    @staticmethod
    def _close_stalls(stream: _Running) -> None:
        stream.stalls = [{key: value for key, value in stall.items() if key != "open"} for stall in stream.stalls]

    @staticmethod
    def _pack(stream: _Running, attributes: Mapping[str, Any]) -> dict[str, Any] | None:
        """Pack the chunks of a progress event; None: it has none."""
        arrived = [int(offset) for offset in attributes.get(names.TOKENS_OFFSETS) or ()]
        if not arrived or stream.chunks + len(arrived) > MAX_CHUNKS:
            return None
        waits = [int(wait) for wait in attributes[names.TOKENS_WAITS]]
        kinds = _expand_runs(attributes[names.TOKENS_KINDS], len(arrived))
        asked = list(map(sub, arrived, waits))
        free = [stream.last_arrival if stream.chunks else asked[0], *arrived[:-1]]
        holds = [max(ask - since, 0) for ask, since in zip(asked, free, strict=True)]
        codes = bytes(
            (kind & OUTPUT or OTHER) | (HIDDEN if wait < _MIN_WAIT_US and hold * MICROSECOND > MIN_DRAWN_HOLD else 0)
            for kind, wait, hold in zip(kinds, waits, holds, strict=True)
        )
        since = stream.last_arrival
        stream.last_arrival, stream.chunks = arrived[-1], stream.chunks + len(arrived)
        drawn = DrawnChunks(
            moments=[moment * MICROSECOND for moment in arrived],
            codes=codes,
            shares=[1] * len(arrived),
            asked=[moment * MICROSECOND for moment in asked],
            holds=[hold * MICROSECOND for hold in holds],
        )
        return pack_chunks(drawn, since=since)


def _expand_runs(runs: Sequence[int], chunks: int) -> bytes:
    """Expand the runs of kinds; raises ValueError where they are not those of `chunks` chunks."""
    if len(runs) % 2 or min(runs, default=0) < 0 or sum(runs[1::2]) != chunks:
        raise ValueError(f"{names.TOKENS_KINDS} does not hold the kinds of {chunks} chunks")
    return b"".join(bytes([kind]) * count for kind, count in zip(runs[::2], runs[1::2], strict=True))
