"""The instruments, and the recording of streams that ended into them."""

from __future__ import annotations

import threading
from collections import Counter as Tally
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import suppress
from functools import partial
from operator import sub
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

from opentelemetry.context import Context  # noqa: TC002 - part of what is public
from opentelemetry.metrics import CallbackOptions, Histogram, Meter, Observation

from otel_itl import conventions as names
from otel_itl.conventions import Metric, StandardNames
from otel_itl.core.measures import Measures
from otel_itl.core.request import Request
from otel_itl.core.slo import Objectives, SLOResult
from otel_itl.core.stalls import Stall
from otel_itl.core.timeline import SECOND, Timeline
from otel_itl.export.attributes import MOST_ERROR_TYPES, OTHER_ERROR, Limited, ModelNames, labels
from otel_itl.export.sdk_internals.bulk_recording import record_all
from otel_itl.recording.internal_errors import never_raises, report_error

Labels = Mapping[str, Any]


class Measured(NamedTuple):
    """A stream that ended, as the metrics see it."""

    request: Request
    response_model: str | None
    timeline: Timeline
    measures: Measures
    error_type: str | None
    context: Context | None
    """Holds the stream's span: slow samples point to it as exemplars."""
    standard: bool
    """The standard metrics are ours to record: nobody else does so for this request, …"""
    elsewhere: frozenset[str] = frozenset()
    """… except for these, named by their field in `StandardNames`."""
    verdict: SLOResult | None = None
    """What the stream makes of its objective, if it has one."""


class StreamMetrics:
    """The metrics of streams. `add` costs nothing; the recording happens when metrics are collected, or in between.

    Args:
        meter: where the instruments are made.
        standard_names: the names of the standard metrics.
        models: the model names that are told apart.
        in_flight: the requests whose streams are open now, and whether they have stalled; None: nobody here knows.
        failures: how many failures of our own were contained, by where; None: nobody here knows.
        objectives: where histograms are to have an edge.
    """

    def __init__(  # noqa: PLR0913 - what is counted, and for whom
        self,
        meter: Meter,
        standard_names: StandardNames,
        models: ModelNames,
        *,
        in_flight: Callable[[], Iterable[tuple[Request, bool]]] | None = None,
        failures: Callable[[], Mapping[str, int]] | None = None,
        objectives: Objectives = Objectives(),  # noqa: B008 - immutable
    ) -> None:
        self.settle: Callable[[], None] | None = None
        """Called before a collection: has whatever ended before it added."""
        self._models = models
        self._error_types = Limited(MOST_ERROR_TYPES, OTHER_ERROR)
        self._in_flight = in_flight
        self._failures = failures
        self._pending: deque[Measured] = deque()
        self._draining = threading.Lock()
        self._seen: dict[tuple[tuple[str, Any], ...], None] = {}
        self._duration = _histogram(meter, standard_names.duration)
        self._first_chunk = _histogram(meter, standard_names.time_to_first_chunk)
        self._per_chunk = _histogram(meter, standard_names.time_per_output_chunk)
        self._usage = _histogram(meter, standard_names.token_usage)
        self._itl = _histogram(meter, names.INTER_TOKEN_LATENCY, objectives.edges("itl"))
        self._ttft = _histogram(meter, names.TIME_TO_FIRST_TOKEN, objectives.edges("ttft"))
        self._tpot = _histogram(meter, names.TIME_PER_OUTPUT_TOKEN)
        self._stall_duration = _histogram(meter, names.STALL_DURATIONS)
        self._outcomes = meter.create_counter(*names.STREAM_OUTCOMES[:3])
        self._stalls = meter.create_counter(*names.STALLS[:3])
        self._slo_tokens = meter.create_counter(*names.SLO_TOKENS[:3])
        self._slo_streams = meter.create_counter(*names.SLO_STREAMS[:3])
        self._members = _observe(meter, self)

    def retire(self) -> None:
        """Another takes over: what is added is still recorded, but collections ask the other."""
        self._in_flight = None
        with suppress(ValueError):
            self._members.remove(self)

    def add(self, measured: Measured) -> None:
        """Take a stream that ended; it is recorded before the next collection."""
        self._pending.append(measured)
        _pending.add(self)

    def forget(self) -> None:
        """What was added is the parent's to record: this process is its child."""
        self._pending.clear()
        self._draining = threading.Lock()

    def stalled(self, stall: Stall) -> None:
        """Count a stall, which has just begun: this does not wait for a collection."""
        self._stalls.add(1, self._of_stall(stall))

    def stall_over(self, stall: Stall) -> None:
        """Record how long a stall was."""
        self._stall_duration.record(stall.duration, self._of_stall(stall))

    def _of_stall(self, stall: Stall) -> Labels:
        about = {names.STALL_PHASE: stall.phase.value, names.STALL_CAUSE: stall.cause.value}
        return {**labels(stall.request, None, self._models), **about}

    def drain(self) -> None:
        """Record what was added."""
        _pending.discard(self)
        if not self._pending:
            return
        with self._draining, suppress(IndexError):
            while True:
                measured = self._pending.popleft()
                try:
                    self._record(measured)
                except Exception as error:  # noqa: BLE001 - the fence
                    report_error("recording metrics", error)

    def _record(self, measured: Measured) -> None:
        request, timeline, measures, context = measured.request, measured.timeline, measured.measures, measured.context
        stream = labels(request, measured.response_model, self._models)
        self._outcomes.add(1, {**stream, names.STREAM_OUTCOME: timeline.outcome.value}, context)
        record_all(self._itl, measures.itl_samples.nanoseconds, SECOND, stream, context)
        if measures.time_to_first_token is not None:
            record_all(self._ttft, (measures.time_to_first_token,), 1, stream, context)
        if measures.time_per_output_token is not None:
            record_all(self._tpot, (measures.time_per_output_token,), 1, stream, context)
        if measured.verdict is not None:
            self._record_verdict(measured.verdict, stream, context)
        if measured.standard:
            self._record_standard(measured, stream)

    def _record_verdict(self, verdict: SLOResult, stream: Labels, context: Context | None) -> None:
        judged = {**stream, names.SLO_PROFILE: verdict.slo.profile}
        for met, tokens in ((True, verdict.tokens_met), (False, verdict.tokens_missed)):
            # Both from the start: a rate needs the series to be there before the first miss.
            if verdict.tokens_met or verdict.tokens_missed:
                self._slo_tokens.add(tokens, {**judged, names.SLO_MET: met}, context)
            if verdict.is_stream_met is not None:
                self._slo_streams.add(int(verdict.is_stream_met is met), {**judged, names.SLO_MET: met}, context)

    def _record_standard(self, measured: Measured, stream: Labels) -> None:
        timeline, context, elsewhere = measured.timeline, measured.context, measured.elsewhere
        if "duration" not in elsewhere:
            error_type = measured.error_type
            failed = {} if error_type is None else {names.ERROR_TYPE: self._error_types.label(error_type)}
            record_all(self._duration, (measured.measures.duration,), 1, {**stream, **failed}, context)
        if timeline.arrived and "time_to_first_chunk" not in elsewhere:
            record_all(self._first_chunk, timeline.arrived[:1], SECOND, stream, context)
        record_all(self._per_chunk, between(timeline, measured.measures), SECOND, stream, context)
        for kind, tokens in (("input", timeline.input_tokens), ("output", timeline.output_tokens)):
            if tokens is not None and "token_usage" not in elsewhere:
                record_all(self._usage, (tokens,), 1, {**stream, names.TOKEN_TYPE: kind}, context)

    def open_streams(self) -> Iterator[Observation]:
        """How many streams are open now, of each kind that there has been, by whether they have stalled."""
        if self._in_flight is None:
            return
        tally = Tally(
            (tuple(labels(request, None, self._models).items()), stalled) for request, stalled in self._in_flight()
        )
        self._seen.update(dict.fromkeys(stream for stream, _ in tally))
        for stream in list(self._seen):
            for stalled, state in ((False, "active"), (True, "stalled")):
                yield Observation(tally[stream, stalled], {**dict(stream), names.STREAM_STATE: state})

    def self_errors(self) -> Iterator[Observation]:
        """How many failures of our own were contained, by where they happened."""
        if self._failures is not None:
            for where, count in list(self._failures().items()):
                yield Observation(count, {names.SELF_WHERE: where})


def between(timeline: Timeline, measures: Measures) -> Sequence[float]:
    """The time between every two chunks, ascending: mostly what is sorted as ITL samples already."""
    arrived = timeline.arrived
    first, last = timeline.output_bounds
    altered = (
        timeline.tokens
        or timeline.choices
        or timeline.skipped
        or measures.imputed
        or measures.excluded
        or measures.burst_ratio
        or measures.output_chunk_count != last - first + 1
    )
    if altered:
        return sorted(map(sub, arrived[1:], arrived))
    others = [*map(sub, arrived[1 : first + 1], arrived), *map(sub, arrived[last + 1 :], arrived[last:])]
    return sorted([*measures.itl_samples.nanoseconds, *others]) if others else measures.itl_samples.nanoseconds


_pending: set[StreamMetrics] = set()
"""Those with streams to record. Nothing else keeps one alive that another has taken over from."""
_observed: WeakKeyDictionary[Meter, list[StreamMetrics]] = WeakKeyDictionary()


def drain_all() -> None:
    """Record what was added, to whichever metrics."""
    for stream_metrics in list(_pending):
        stream_metrics.drain()


def _observe(meter: Meter, stream_metrics: StreamMetrics) -> list[StreamMetrics]:
    """Have collections ask `stream_metrics`, too: a meter takes the callbacks of an instrument once, from the first.

    Returns all that collections ask.
    """
    members = _observed.get(meter)
    if members is None:
        members = _observed[meter] = []
        # A collection asks observable instruments first: whatever ended before it is in it.
        meter.create_observable_up_down_counter(
            names.STREAMS.name, [partial(_open_streams, members)], *names.STREAMS[1:3]
        )
        meter.create_observable_counter(
            names.SELF_ERRORS.name, [partial(_self_errors, members)], *names.SELF_ERRORS[1:3]
        )
    members.append(stream_metrics)
    return members


@never_raises("counting open streams", ())
def _open_streams(members: list[StreamMetrics], _: CallbackOptions) -> list[Observation]:
    asked = list(members)
    for member in asked:
        if member.settle is not None:
            member.settle()
    drain_all()
    return [observation for member in asked for observation in member.open_streams()]


@never_raises("counting failures", ())
def _self_errors(members: list[StreamMetrics], _: CallbackOptions) -> list[Observation]:
    return [observation for member in list(members) for observation in member.self_errors()]


def _histogram(meter: Meter, metric: Metric, edges: AbstractSet[float] = frozenset()) -> Histogram:
    buckets = sorted(edges | set(metric.buckets))
    return meter.create_histogram(
        metric.name, metric.unit, metric.description, explicit_bucket_boundaries_advisory=buckets
    )
