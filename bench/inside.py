"""Everything in bench/ that depends on how otel_itl works inside, in one place: it changes when the inside changes."""

from __future__ import annotations

import sys
from array import array
from collections.abc import Iterable, Sequence
from itertools import repeat
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any, Final, Protocol

from otel_itl.core.measures import Measures
from otel_itl.core.metric_conventions import STANDARD_NAMES
from otel_itl.core.request import Request
from otel_itl.core.slo import PROFILES, evaluate
from otel_itl.core.stall_detector import StallDetector
from otel_itl.core.stream import Concurrency, FinishedStream, ResponseInfo
from otel_itl.core.timeline import Timeline
from otel_itl.export import attributes
from otel_itl.export.metrics import MetricsRegistry
from otel_itl.export.stream_report import SpanHandle, StreamReport
from otel_itl.recording import chunk_log
from otel_itl.recording.critical_sections import CriticalSections
from otel_itl.recording.evidence import of_stream
from otel_itl.recording.evidence.lateness import Delays
from otel_itl.recording.internal_errors import InternalErrors
from otel_itl.runtime import runtime

if TYPE_CHECKING:
    from opentelemetry.metrics import Meter

WATCHDOG_THREAD: Final = "otel_itl watchdog"
"""Name of the thread that detects stalls."""

FUNCTIONS: Final = (
    ("opening a recording", "otel_itl.runtime", "Runtime.open"),
    ("binding the response", "otel_itl.sdks.driver", "Driver.bind"),
    ("finalizing a stream", "otel_itl.recording.finalizer", "Finalizer._finalize"),
    ("· building the timeline", "otel_itl.recording.finished", "build_timeline"),
    ("· computing the measures", "otel_itl.export.pipeline", "measure"),
    ("· adding token events to the span", "otel_itl.export.span", "add_events"),
    ("· span.set_attributes", "opentelemetry.sdk.trace", "Span.set_attributes"),
    ("· span.end", "opentelemetry.sdk.trace", "Span.end"),
    ("recording metrics", "otel_itl.export.instruments", "StreamInstruments.record"),
    ("encoding token events on export", "otel_itl.core.encoding", "_pack"),
)
"""The functions whose CPU time `bench.overhead.pieces` shows: label, module, path inside the module."""

_NEVER_SECONDS: Final = 1e8
"""Longer than the arrivals of any simulated stream, so that the watchdog does not count as late for them."""


class Moments(Protocol):
    """The moments of a stream, in nanoseconds of `perf_counter_ns()`."""

    requested: int
    headers: int
    end: int
    asked: array[int]
    arrived: array[int]


NO_DELAYS: Final = Delays()


def ignore_holds() -> None:
    """Take no time for a hold of the consumer, in this process.

    A counter of instructions makes everything many times slower, and each of its marks takes milliseconds: they would
    be taken for holds, after which a stream from memory, which never blocks, is read with evidence for each chunk.
    """
    chunk_log.NEGLIGIBLE_HOLD = sys.maxsize  # type: ignore[misc]


def ignore_delays() -> None:
    """Gather what kept readers away, and take none of it for a delay, in this process.

    A counter of instructions keeps them away all the time, and the moments of `replace_moments` lie in the future.
    """
    of_stream.Delays = lambda *_, **__: NO_DELAYS  # type: ignore[misc, assignment]
    of_stream.find_headers_moment = lambda headers, _: headers  # type: ignore[assignment]


def stop_background_work() -> None:
    """Keep the threads of otel_itl idle: from here on `finish_background_work` does their work."""
    runtime.finalizer.thread.interval = runtime.watchdog.thread.interval = _NEVER_SECONDS
    runtime.finalizer.thread.hurry = lambda: None  # type: ignore[method-assign]
    runtime.watchdog.thread._sleeper = None  # noqa: SLF001 - it wakes up between two rounds


def finish_background_work() -> None:
    """Do at once, in this thread, what the threads of otel_itl have still to do."""
    runtime.watchdog.make_round(perf_counter_ns())
    runtime.finalizer.finalize_pending()


def replace_moments(stream: Any, moments: Moments) -> None:
    """Replace the moments that otel_itl recorded of a stream before it ends; nothing where it records none.

    Args:
        stream: the stream of an SDK, read to its last chunk.
        moments: one `asked` and one `arrived` for each chunk.
    """
    recorder = runtime.installer.driver.response_recorders.find(stream.response)
    if recorder is None:
        return
    log = recorder.log
    assert len(log.arrived) == len(moments.arrived), (len(log.arrived), len(moments.arrived))
    recorder.requested, recorder.headers = moments.requested, moments.headers
    recorder.evidence._requested = moments.requested  # noqa: SLF001
    recorder.clock = repeat(moments.end).__next__
    log.asked[:], log.arrived[:] = moments.asked, moments.arrived
    monitor = recorder.stall_monitor
    if monitor is not None and moments.end - moments.requested >= monitor._policy.min_threshold:  # noqa: SLF001
        # The watchdog would have looked at the stream many times by now. The detector gets copies, which lack the last
        # request for a chunk: its moment is that of the real clock.
        recorded = (log.asked[:], log.arrived[:], log.codes[:])
        monitor._detector = StallDetector(monitor._policy, *recorded, moments.requested)  # noqa: SLF001
        monitor._detector.check(moments.arrived[-1], moments.headers)  # noqa: SLF001


def attributes_at_start(request: Request) -> dict[str, Any]:
    """Return the attributes that a span has when its request is made."""
    return dict(attributes.at_start(request))


def attributes_at_end(response: ResponseInfo, timeline: Timeline, measures: Measures) -> dict[str, Any]:
    """Return the attributes that a span gets when its stream has ended, beside 24 others."""
    request = Request(operation="chat", provider="openai")
    finished = FinishedStream(request, response, timeline, Concurrency(25, 25.0), None)
    return {
        **attributes.of_response(finished, measures, STANDARD_NAMES["operation"]),
        **attributes.of_stream(timeline, measures, finished.concurrency),
    }


def record_metrics(
    meter: Meter, requests: Sequence[Request], streams: Iterable[tuple[Request, Timeline, Measures]]
) -> object:
    """Record the metrics of streams that completed, against the objective `chat`.

    Args:
        meter: makes the instruments.
        requests: those that are in flight.
        streams: the streams.

    Returns:
        What has to be kept as long as metrics are collected: the observed instruments call it.
    """
    registry = MetricsRegistry(
        InternalErrors(),
        CriticalSections(),
        open_streams=lambda: [(request, is_stalled) for request in requests for is_stalled in (False, True)],
        before_collection=lambda: None,
        wake=lambda: None,
    )
    metrics = registry.create(meter, STANDARD_NAMES["operation"], reports_process=True)
    for request, timeline, measures in streams:
        result = evaluate(PROFILES["chat"], timeline, measures, is_stalled=False)
        response = ResponseInfo()
        response.update_token_counts(input_tokens=timeline.input_tokens, output_tokens=timeline.output_tokens)
        finished = FinishedStream(request, response, timeline, Concurrency(25, 25.0), None)
        handle = SpanHandle()
        handle.records_standard = True
        metrics.add(StreamReport(handle, finished, measures, result))
    registry.pending.record_all()
    return registry, metrics
