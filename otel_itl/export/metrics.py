"""The instruments, and the recording of streams that ended into them."""

from __future__ import annotations

import threading
from collections import Counter as Tally
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from functools import partial
from operator import sub
from typing import Any, NamedTuple

from opentelemetry.context import Context  # noqa: TC002 - part of what is public
from opentelemetry.metrics import CallbackOptions, Histogram, Meter, Observation

from otel_itl import conventions as names
from otel_itl.conventions import Metric, StandardNames
from otel_itl.exchange import Request
from otel_itl.export.attributes import ModelNames, labels
from otel_itl.export.bulk import record_all
from otel_itl.fence import contained
from otel_itl.measures import SECOND, Measures
from otel_itl.timeline import Timeline

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
    """The standard metrics are ours to record: nobody else does so for this request."""


class StreamMetrics:
    """The metrics of streams. `add` costs nothing; the recording happens when metrics are collected, or in between.

    Args:
        meter: where the instruments are made.
        standard_names: the names of the standard metrics.
        models: the model names that are told apart.
        in_flight: the requests whose streams are open now; None: nobody here knows.
        failures: how many failures of our own were contained, by where; None: nobody here knows.
    """

    def __init__(
        self,
        meter: Meter,
        standard_names: StandardNames,
        models: ModelNames,
        in_flight: Callable[[], Iterable[Request]] | None = None,
        failures: Callable[[], Mapping[str, int]] | None = None,
    ) -> None:
        self._models = models
        self._pending: deque[Measured] = deque()
        self._draining = threading.Lock()
        self._seen: dict[tuple[tuple[str, Any], ...], None] = {}
        self._duration = _histogram(meter, standard_names.duration)
        self._first_chunk = _histogram(meter, standard_names.time_to_first_chunk)
        self._per_chunk = _histogram(meter, standard_names.time_per_output_chunk)
        self._usage = _histogram(meter, standard_names.token_usage)
        self._itl = _histogram(meter, names.INTER_TOKEN_LATENCY)
        self._ttft = _histogram(meter, names.TIME_TO_FIRST_TOKEN)
        self._tpot = _histogram(meter, names.TIME_PER_OUTPUT_TOKEN)
        self._outcomes = meter.create_counter(*names.STREAM_OUTCOMES[:3])
        # A collection asks observable instruments first: whatever ended before it is in it.
        observe = partial(self._open_streams, in_flight or tuple)
        meter.create_observable_up_down_counter(names.STREAMS.name, [observe], *names.STREAMS[1:3])
        if failures is not None:
            observe = partial(self._self_errors, failures)
            meter.create_observable_counter(names.SELF_ERRORS.name, [observe], *names.SELF_ERRORS[1:3])

    def add(self, measured: Measured) -> None:
        """Take a stream that ended; it is recorded before the next collection."""
        self._pending.append(measured)

    def drain(self) -> None:
        """Record what was added."""
        if not self._pending:
            return
        with self._draining, suppress(IndexError):
            while True:
                measured = self._pending.popleft()
                try:
                    self._record(measured)
                except Exception as error:  # noqa: BLE001 - the fence
                    contained("recording metrics", error)

    def _record(self, measured: Measured) -> None:
        request, timeline, measures, context = measured.request, measured.timeline, measured.measures, measured.context
        stream = labels(request, measured.response_model, self._models)
        self._outcomes.add(1, {**stream, names.STREAM_OUTCOME: timeline.outcome.value}, context)
        record_all(self._itl, measures.samples, SECOND, stream, context)
        if measures.time_to_first_token is not None:
            self._ttft.record(measures.time_to_first_token, stream, context)
        if measures.time_per_output_token is not None:
            self._tpot.record(measures.time_per_output_token, stream, context)
        if measured.standard:
            self._record_standard(measured, stream)

    def _record_standard(self, measured: Measured, stream: Labels) -> None:
        timeline, context = measured.timeline, measured.context
        failed = {} if measured.error_type is None else {names.ERROR_TYPE: measured.error_type}
        self._duration.record(measured.measures.duration, {**stream, **failed}, context)
        if timeline.arrived:
            self._first_chunk.record(timeline.arrived[0] / SECOND, stream, context)
        between = sorted(map(sub, timeline.arrived[1:], timeline.arrived))
        record_all(self._per_chunk, between, SECOND, stream, context)
        for kind, tokens in (("input", timeline.input_tokens), ("output", timeline.output_tokens)):
            if tokens is not None:
                self._usage.record(tokens, {**stream, names.TOKEN_TYPE: kind}, context)

    def _open_streams(self, in_flight: Callable[[], Iterable[Request]], _: CallbackOptions) -> Iterable[Observation]:
        self.drain()
        tally = Tally(tuple(labels(request, None, self._models).items()) for request in in_flight())
        self._seen.update(dict.fromkeys(tally))
        return [
            Observation(tally[stream], {**dict(stream), names.STREAM_STATE: "active"}) for stream in list(self._seen)
        ]

    def _self_errors(self, failures: Callable[[], Mapping[str, int]], _: CallbackOptions) -> Iterable[Observation]:
        return [Observation(count, {names.SELF_WHERE: where}) for where, count in list(failures().items())]


def _histogram(meter: Meter, metric: Metric) -> Histogram:
    return meter.create_histogram(
        metric.name, metric.unit, metric.description, explicit_bucket_boundaries_advisory=metric.buckets
    )
