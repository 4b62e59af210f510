"""The metrics of this process: sets of instruments, their common queue, and what a collection observes."""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Callable, Iterable
from functools import partial
from threading import RLock
from typing import Any, Final

from opentelemetry.metrics import CallbackOptions, Meter, Observation

from otel_itl.core import conventions as names
from otel_itl.core import metric_conventions
from otel_itl.core.conventions import Where
from otel_itl.core.metric_conventions import StandardNames
from otel_itl.core.request import Request
from otel_itl.core.slo import Objectives
from otel_itl.core.stalls import Stall
from otel_itl.export.identity_map import IdentityMap
from otel_itl.export.instruments import StreamInstruments
from otel_itl.export.pending_streams import PendingStreams
from otel_itl.export.stream_report import StreamReport
from otel_itl.recording.critical_sections import CriticalSections
from otel_itl.recording.internal_errors import InternalErrors, never_raises

ZERO_REPORTS: Final = 10
"""How often attributes without an open stream are reported as 0 before they are forgotten."""

OpenStreams = Callable[[], Iterable[tuple[Request, bool]]]
"""Returns the request of every open stream, and whether the stream is stalled now."""


class StreamMetrics:
    """Records the streams and stalls of one set of instruments; made by `MetricsRegistry.create`."""

    def __init__(self, instruments: StreamInstruments, pending: PendingStreams) -> None:
        self.instruments = instruments
        """Exchanged when the application sets a meter provider: what is recorded later is recorded by that one."""
        self.pending = pending
        """The queue of the process, which other sets of instruments share."""

    def add(self, stream: StreamReport) -> None:
        """Queue a stream that ended; it is recorded before the next collection."""
        self.pending.add(self, stream)

    def stall_started(self, stall: Stall) -> None:
        """Count a stall that has just begun, without waiting for a collection."""
        self.instruments.stall_started(stall)

    def stall_ended(self, stall: Stall) -> None:
        """Record the duration of a stall that is over."""
        self.instruments.stall_ended(stall)


class MetricsRegistry:
    """Every set of instruments of a process, and the callbacks that a collection calls.

    A meter keeps the callbacks of an observable instrument only from the first time that it is created. So each meter
    gets one pair of callbacks for good, and these ask for what is current. The first thing that they do is to record
    the streams that ended before the collection: observable instruments are collected first.

    Args:
        errors: counts the failures that `itl.self.errors` reports, and receives those of a collection.
        sections: the critical sections of the process.
        open_streams: the streams that `itl.client.stream.count` reports.
        before_collection: called first, so that streams that ended are added before a collection records them.
        wake: called when many streams wait to be recorded; it returns at once.
    """

    def __init__(
        self,
        errors: InternalErrors,
        sections: CriticalSections,
        *,
        open_streams: OpenStreams,
        before_collection: Callable[[], None],
        wake: Callable[[], object],
    ) -> None:
        self.pending = PendingStreams(errors, sections, wake)
        self.errors = errors
        self._sections = sections
        self._open_streams = open_streams
        self._before_collection = before_collection
        self._lock = RLock()
        self._reporters: IdentityMap[list[StreamInstruments]] = IdentityMap()
        """For each meter with callbacks, the instruments with which they report this process: one, or none."""
        self._reported: dict[tuple[tuple[str, Any], ...], int] = {}
        """The attributes of the points that were reported, and how often as 0 since: after `ZERO_REPORTS` they are
        forgotten."""

    def create(
        self,
        meter: Meter,
        standard_names: StandardNames,
        *,
        model_limit: int = 100,
        objectives: Objectives = Objectives(),  # noqa: B008 - immutable
        reports_process: bool = False,
    ) -> StreamMetrics:
        """Make a set of instruments on a meter.

        Args:
            meter: makes the instruments.
            standard_names: the generation of the standard names.
            model_limit: how many model names, and how many servers, are kept apart.
            objectives: the objectives that become bucket edges.
            reports_process: collections of this meter report the open streams and the failures of this process from
                now on, and those of every other meter no more.
        """
        instruments = StreamInstruments(meter, standard_names, model_limit=model_limit, objectives=objectives)
        with self._lock:
            reporters = self._reporters_of(meter)
            if reports_process:
                for others in self._reporters.values():
                    others.clear()
                reporters.append(instruments)
                self._reported = {}
        return StreamMetrics(instruments, self.pending)

    def forget_after_fork(self) -> None:
        """Drop what the parent process records, in a process that was just forked."""
        self._lock = RLock()
        self.pending.forget_after_fork()

    def _reporters_of(self, meter: Meter) -> list[StreamInstruments]:
        """Return the reporters of a meter; the first time, create its observable instruments."""
        reporters = self._reporters.get(meter)
        if reporters is None:
            reporters = self._reporters[meter] = []
            name, unit, description, _ = metric_conventions.STREAM_COUNT
            observe = partial(self._observe_streams, reporters)
            meter.create_observable_up_down_counter(name, [observe], unit, description)
            name, unit, description, _ = metric_conventions.SELF_ERRORS
            meter.create_observable_counter(name, [partial(self._observe_errors, reporters)], unit, description)
        return reporters

    @never_raises(Where.METRICS_OBSERVE, ())
    def _observe_streams(self, reporters: list[StreamInstruments], _: CallbackOptions) -> list[Observation]:
        """Record what ended before this collection, and count the open streams by attributes and state."""
        if not self._sections.is_inside:  # else this thread may hold a lock that recording needs
            try:
                self._before_collection()
            finally:
                self.pending.record_all()
        return [observation for reporter in reporters for observation in self._count_open_streams(reporter)]

    def _count_open_streams(self, reporter: StreamInstruments) -> list[Observation]:
        """Count the open streams by attributes and state, with zeros for attributes that were reported lately."""
        tally = Tally(
            (tuple(reporter.attributes_of(request).items()), stalled) for request, stalled in self._open_streams()
        )
        zeros = {stream: reported + 1 for stream, reported in self._reported.items() if reported < ZERO_REPORTS}
        self._reported = {**zeros, **dict.fromkeys((stream for stream, _ in tally), 0)}
        return [
            Observation(tally[stream, stalled], {**dict(stream), names.STREAM_STATE: state})
            for stream in self._reported
            for stalled, state in ((False, "active"), (True, "stalled"))
        ]

    @never_raises(Where.METRICS_OBSERVE, ())
    def _observe_errors(self, reporters: list[StreamInstruments], _: CallbackOptions) -> list[Observation]:
        """Report how many failures of our own there were, by the step that failed."""
        counts = dict(self.errors.counts) if reporters else {}
        return [Observation(count, {names.SELF_WHERE: where}) for where, count in counts.items()]
