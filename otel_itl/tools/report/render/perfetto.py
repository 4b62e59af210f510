"""Renders streams as a Chrome trace for ui.perfetto.dev: slices for waits, holds, reasoning, answer and stalls."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import IO, Any, Final

from otel_itl.core.timeline import MICROSECOND, OUTPUT, Kind
from otel_itl.tools.report.reading.streams import StoredStream
from otel_itl.tools.report.stalls import collect_stalls

MIN_HOLD_US: Final = 1_000
"""A hold below this many microseconds is no slice."""

_MICROSECONDS: Final = 1_000_000
_KINDS: Final = ((Kind.ANSWER, "answer"), (Kind.REASONING, "reasoning"), (Kind.TOOL, "tool call"))
_STREAM, _TOKENS, _WAITS = 1, 2, 3
"""The threads of a track: the stream as a whole, its tokens by kind, and what its caller waited for."""
_COUNTERS: Final = 1
"""The process of the counters; streams have higher numbers."""


def write_perfetto(streams: Iterable[StoredStream], file: IO[str]) -> int:
    """Write streams as a trace in Chrome's JSON format, and return how many there were.

    A session is one process of the trace, and so is a stream without a session. Requests of a session that overlap get
    further threads.
    """
    file.write('{"displayTimeUnit":"ms","traceEvents":[\n')
    tracks = _Tracks()
    count = 0
    for stream in streams:
        count += 1
        for event in tracks.add(stream):
            file.write(json.dumps(event, separators=(",", ":")) + ",\n")
    for event in tracks.count_open():
        file.write(json.dumps(event, separators=(",", ":")) + ",\n")
    name = {"ph": "M", "name": "process_name", "pid": _COUNTERS, "tid": 0, "args": {"name": "otel-itl"}}
    file.write(json.dumps(name) + "\n]}\n")
    return count


class _Tracks:
    """The tracks of a trace: a process for each session or single stream, with threads that do not overlap."""

    def __init__(self) -> None:
        self._processes: dict[str, int] = {}
        self._busy_until: dict[int, list[int]] = {}
        self._changes: list[tuple[int, int]] = []

    def add(self, stream: StoredStream) -> Iterator[dict[str, Any]]:
        """Yield the events of one stream."""
        start = stream.timeline.request_unix_ns // MICROSECOND
        end = start + stream.timeline.end // MICROSECOND
        self._changes += [(start, 1), (end, -1)]
        session = stream.span_facts.session_id
        key = f"session {session}" if session else f"{stream.model} {stream.trace_id[:8]} {start}"
        pid = self._processes.setdefault(key, len(self._processes) + _COUNTERS + 1)
        lanes = self._busy_until.setdefault(pid, [])
        lane = next((number for number, until in enumerate(lanes) if until <= start), len(lanes))
        if lane == len(lanes):
            lanes.append(end)
            yield from _name_tracks(pid, lane, key)
        lanes[lane] = end
        yield from _draw_stream(stream, pid, lane * 10, start, end)

    def count_open(self) -> Iterator[dict[str, Any]]:
        """Yield the values of the counter of open streams."""
        count = 0
        for moment, changes in groupby(sorted(self._changes), key=lambda change: change[0]):
            count += sum(change for _, change in changes)
            yield {"ph": "C", "name": "open streams", "pid": _COUNTERS, "tid": 0, "ts": moment, "args": {"open": count}}


def _name_tracks(pid: int, lane: int, key: str) -> Iterator[dict[str, Any]]:
    yield {"ph": "M", "name": "process_name", "pid": pid, "tid": 0, "args": {"name": key}}
    for thread, name in ((_STREAM, "stream"), (_TOKENS, "tokens"), (_WAITS, "stalls and holds")):
        yield {"ph": "M", "name": "thread_name", "pid": pid, "tid": lane * 10 + thread, "args": {"name": name}}


def _draw_stream(stream: StoredStream, pid: int, tid: int, start: int, end: int) -> Iterator[dict[str, Any]]:
    """Yield the slices of one stream; moments are microseconds since the epoch."""
    timeline, measures = stream.timeline, stream.measures

    def draw(name: str, thread: int, since: int, until: int, **facts: Any) -> dict[str, Any]:
        """Return one slice, with the facts that are known."""
        known = {key: value for key, value in facts.items() if value is not None}
        return {
            "ph": "X",
            "name": name,
            "cat": "itl",
            "pid": pid,
            "tid": tid + thread,
            "ts": since,
            "dur": max(until - since, 1),
            "args": known,
        }

    yield draw(
        f"{stream.provider} {stream.model}",
        _STREAM,
        start,
        end,
        outcome=timeline.outcome.value,
        time_to_first_token=measures.time_to_first_token,
        itl_p50=measures.itl_p50,
        itl_p99=measures.itl_p99,
        output_chunks=measures.output_chunk_count,
        trace_id=stream.trace_id or None,
        span_id=stream.span_id or None,
    )
    first, _ = timeline.output_bounds
    until = start + timeline.arrived[first] // MICROSECOND if first >= 0 else end
    yield draw("wait for the first token", _TOKENS, start, until)
    for name, indexes in _runs_of_kind(timeline.kinds):
        since = start + timeline.arrived[indexes[0]] // MICROSECOND
        yield draw(name, _TOKENS, since, start + timeline.arrived[indexes[-1]] // MICROSECOND, chunks=len(indexes))
    for asked, hold in _holds(stream):
        yield draw("hold of the caller", _WAITS, start + asked - hold, start + asked)
    for stall in collect_stalls(stream):
        if stall.start is not None:
            since = start + round(stall.start * _MICROSECONDS)
            name = f"stall ({stall.cause or 'cause unknown'})"
            yield draw(name, _WAITS, since, since + round(stall.duration * _MICROSECONDS), phase=stall.phase)


def _runs_of_kind(kinds: bytes) -> Iterator[tuple[str, list[int]]]:
    """Yield the runs of output chunks of one kind: its name, and their indexes."""
    outputs = [index for index, kind in enumerate(kinds) if kind & OUTPUT]
    for name, run in groupby(outputs, key=lambda index: next(name for flag, name in _KINDS if kinds[index] & flag)):
        yield name, list(run)


def _holds(stream: StoredStream) -> Iterator[tuple[int, int]]:
    """Yield when each hold of the caller ended and how long it was, in microseconds after the request."""
    timeline = stream.timeline
    for index in range(1, len(timeline)):
        hold = (timeline.asked[index] - timeline.arrived[index - 1]) // MICROSECOND
        if hold >= MIN_HOLD_US and not (timeline.skipped and timeline.skipped[index]):
            yield timeline.asked[index] // MICROSECOND, hold
