"""Everything in bench/ that depends on how otel_itl works inside, in one place: it changes when the inside changes."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from itertools import repeat
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any, Final, Protocol

from otel_itl.conventions import STANDARD_NAMES
from otel_itl.core.measures import Measures
from otel_itl.core.slo import PROFILES, judge
from otel_itl.core.stalls import StallDetector
from otel_itl.core.stream import Concurrency, Request, ResponseInfo
from otel_itl.core.timeline import Timeline
from otel_itl.export import attributes
from otel_itl.export.metrics import Measured, StreamMetrics
from otel_itl.recording import open_streams as registry
from otel_itl.recording.watchdog import watchdog

if TYPE_CHECKING:
    from opentelemetry.metrics import Meter

WATCHDOG_THREAD: Final = "otel_itl watchdog"
"""Name of the thread that detects stalls."""

RECORDER_EXTENSION: Final = "otel_itl.probe"
"""Key of `response.extensions` under which a response holds the recorder of its stream."""

FUNCTIONS: Final = (
    ("opening a recording", "otel_itl.runtime", "Runtime.open"),
    ("recording the response", "otel_itl.sdks.stainless", "_Opening.returned"),
    ("finalizing a stream", "otel_itl.recording.recorder", "StreamRecorder.conclude"),
    ("· building the timeline", "otel_itl.recording.recorder", "StreamRecorder.timeline"),
    ("· computing the measures", "otel_itl.export.pipeline", "measure"),
    ("· adding token events to the span", "otel_itl.export.pipeline", "add_events"),
    ("· span.set_attributes", "opentelemetry.sdk.trace", "Span.set_attributes"),
    ("· span.end", "opentelemetry.sdk.trace", "Span.end"),
    ("recording metrics", "otel_itl.export.metrics", "StreamMetrics._record"),
    ("encoding token events on export", "otel_itl.core.codec", "_packed"),
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


def stop_background_work() -> None:
    """Keep the threads of otel_itl idle: from here on `finish_background_work` does their work."""
    registry.SWEEP_SECONDS = _NEVER_SECONDS
    registry.open_streams.put_off = registry.open_streams.orphans.append  # type: ignore[assignment, method-assign]


def finish_background_work() -> None:
    """Do at once, in this thread, what the threads of otel_itl have still to do."""
    watchdog.round(perf_counter_ns())
    registry.open_streams.sweep()


def replace_moments(stream: Any, moments: Moments) -> None:
    """Replace the moments that otel_itl recorded of a stream before it ends; nothing where it records none.

    Args:
        stream: the stream of an SDK, read to its last chunk.
        moments: one `asked` and one `arrived` for each chunk.
    """
    recorder = stream.response.extensions.get(RECORDER_EXTENSION)
    if recorder is None:
        return
    assert len(recorder.arrived) == len(moments.arrived), (len(recorder.arrived), len(moments.arrived))
    recorder.requested, recorder.headers = moments.requested, moments.headers
    recorder.clock = repeat(moments.end).__next__
    recorder.asked[:], recorder.arrived[:] = moments.asked, moments.arrived
    monitor = recorder.watch
    if monitor is not None:
        # The watchdog would have looked at the stream many times by now. The detector gets copies, which lack the last
        # request for a chunk: its moment is that of the real clock.
        recorded = (recorder.asked[:], recorder.arrived[:], recorder.codes[:])
        monitor._lookout = StallDetector(monitor._policy, *recorded, moments.requested)  # noqa: SLF001
        monitor._lookout.look(moments.arrived[-1], moments.headers)  # noqa: SLF001


def attributes_at_start(request: Request) -> dict[str, Any]:
    """Return the attributes that a span has when its request is made."""
    return dict(attributes.at_start(request))


def attributes_at_end(response: ResponseInfo, timeline: Timeline, measures: Measures) -> dict[str, Any]:
    """Return the attributes that a span gets when its stream has ended, beside 24 others."""
    return {
        **attributes.standard(response, measures, None),
        **attributes.ours(timeline, measures, Concurrency(25, 25.0)),
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
    metrics = StreamMetrics(
        meter,
        STANDARD_NAMES["operation"],
        attributes.ModelNames(100),
        in_flight=lambda: [(request, is_stalled) for request in requests for is_stalled in (False, True)],
    )
    for request, timeline, measures in streams:
        verdict = judge(PROFILES["chat"], timeline, measures, stalled=False)
        metrics.add(Measured(request, None, timeline, measures, None, None, standard=True, verdict=verdict))
    metrics.drain()
    return metrics
