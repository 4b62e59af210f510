"""Renders streams as a Chrome trace for ui.perfetto.dev: slices for waits, holds, reasoning, answer and stalls."""

from __future__ import annotations

import json
from collections import defaultdict
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
_THREADS: Final = {_STREAM: "stream", _TOKENS: "tokens", _WAITS: "stalls and holds"}
_LANE_THREADS: Final = 10
"""Numbers of threads from one lane to the next."""
_COUNTERS: Final = 1
"""The process of the counters; those of streams have higher numbers."""


def write_perfetto(streams: Iterable[StoredStream], file: IO[str]) -> None:
    """Write streams as a trace in Chrome's JSON format.

    A session is one process of the trace, and so are the streams of a provider's model that belong to none. Streams of
    a process that overlap get further lanes, of three threads each.
    """
    events = [_name("process_name", "otel-itl", _COUNTERS)]
    processes: dict[str, int] = {}
    busy_until: defaultdict[int, list[int]] = defaultdict(list)
    changes: list[tuple[int, int]] = []
    for stream in sorted(streams, key=lambda stream: stream.timeline.request_unix_ns):
        start = stream.timeline.request_unix_ns // MICROSECOND
        end = start + stream.timeline.end // MICROSECOND
        changes += [(start, 1), (end, -1)]
        session = stream.span_facts.session_id
        key = f"session {session}" if session else f"{stream.provider} {stream.model}"
        if key not in processes:
            processes[key] = len(processes) + _COUNTERS + 1
            events.append(_name("process_name", key, processes[key]))
        process = processes[key]
        lanes = busy_until[process]
        lane = next((number for number, until in enumerate(lanes) if until <= start), len(lanes))
        if lane == len(lanes):
            lanes.append(end)
            for thread, name in _THREADS.items():
                number = lane * _LANE_THREADS + thread
                events.append(_name("thread_name", f"{lane + 1}: {name}", process, number))
                events.append(_name("thread_sort_index", number, process, number))
        lanes[lane] = end
        for name, thread, since, until, facts in _slices(stream):
            known = {key: value for key, value in facts.items() if value is not None}
            place = {
                "pid": process,
                "tid": lane * _LANE_THREADS + thread,
                "ts": start + since,
                "dur": max(until - since, 1),
            }
            events.append({"ph": "X", "name": name, "cat": "itl", **place, "args": known})
    count = 0
    for moment, at_once in groupby(sorted(changes), key=lambda change: change[0]):
        count += sum(change for _, change in at_once)
        counter = {"ph": "C", "name": "open streams", "pid": _COUNTERS, "tid": 0}
        events.append({**counter, "ts": moment, "args": {"open": count}})
    json.dump({"displayTimeUnit": "ms", "traceEvents": events}, file, separators=(",", ":"))


def _name(kind: str, value: str | int, process: int, thread: int = 0) -> dict[str, Any]:
    """Return the event that names a process or a thread, or gives it its place."""
    key = "sort_index" if kind == "thread_sort_index" else "name"
    return {"ph": "M", "name": kind, "pid": process, "tid": thread, "args": {key: value}}


def _slices(stream: StoredStream) -> Iterator[tuple[str, int, int, int, dict[str, Any]]]:
    """Yield the slices of one stream: name, thread, start and end in microseconds after the request, and facts."""
    timeline, measures = stream.timeline, stream.measures
    end = timeline.end // MICROSECOND
    facts = {
        "outcome": timeline.outcome.value,
        "time_to_first_token": measures.time_to_first_token,
        "itl_p50": measures.itl_p50,
        "itl_p99": measures.itl_p99,
        "output_chunks": measures.output_chunk_count,
        "trace_id": stream.trace_id or None,
        "span_id": stream.span_id or None,
    }
    yield f"{stream.provider} {stream.model}", _STREAM, 0, end, facts
    first, _ = timeline.output_bounds
    yield "wait for the first token", _TOKENS, 0, timeline.arrived[first] // MICROSECOND if first >= 0 else end, {}
    for name, indexes in _runs_of_kind(timeline.kinds):
        since, until = (timeline.arrived[indexes[place]] // MICROSECOND for place in (0, -1))
        yield name, _TOKENS, since, until, {"chunks": len(indexes)}
    for asked, hold in _holds(stream):
        yield "hold of the caller", _WAITS, asked - hold, asked, {}
    for stall in collect_stalls(stream):
        if stall.start is not None:
            since = round(stall.start * _MICROSECONDS)
            until = since + round(stall.duration * _MICROSECONDS)
            yield f"stall ({stall.cause or 'cause unknown'})", _WAITS, since, until, {"phase": stall.phase}


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
