"""The instruments of one meter, and how an ended stream and a stall are recorded into them."""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from typing import Any

from opentelemetry.metrics import Counter, Histogram, Meter  # noqa: TC002 - annotations stay resolvable

from otel_itl import conventions as names
from otel_itl.conventions import Metric, StandardNames
from otel_itl.core.request import Request
from otel_itl.core.slo import Objectives, SLOResult
from otel_itl.core.stalls import Stall
from otel_itl.core.timeline import SECOND
from otel_itl.export import attributes
from otel_itl.export.cardinality import MAX_ERROR_TYPES, OTHER_ERROR, CappedValues, ModelNames
from otel_itl.export.histogram_batch import HistogramBatch
from otel_itl.export.measured_stream import MeasuredStream

Labels = Mapping[str, Any]
UNKNOWN_MODALITY = "unknown"
"""Providers do not report for a stream whether its tokens are text, image or audio."""


class StreamInstruments:
    """The counters and histograms of one meter. Several threads may record at once.

    Args:
        meter: makes the instruments.
        standard_names: the generation of the standard names.
        model_limit: how many request models, and how many response models, are kept apart; the others become `other`.
        objectives: each objective becomes a bucket edge of its histogram.
    """

    def __init__(
        self, meter: Meter, standard_names: StandardNames, *, model_limit: int, objectives: Objectives
    ) -> None:
        self._models = ModelNames(model_limit)
        self._error_types = CappedValues(MAX_ERROR_TYPES, OTHER_ERROR)
        self._itl = _histogram(meter, names.INTER_TOKEN_LATENCY, objectives.edges("itl"))
        self._ttft = _histogram(meter, names.TIME_TO_FIRST_TOKEN, objectives.edges("ttft"))
        self._tpot = _histogram(meter, names.TIME_PER_OUTPUT_TOKEN)
        self.outcomes = _counter(meter, names.STREAM_OUTCOMES)
        """Counts every stream that ended, by its outcome."""
        self._stalls = _counter(meter, names.STALLS)
        self._stall_duration = _histogram(meter, names.STALL_DURATIONS)
        self._slo_tokens = _counter(meter, names.SLO_TOKENS)
        self._slo_streams = _counter(meter, names.SLO_STREAMS)
        self._standard = _StandardInstruments(meter, standard_names)

    def attributes_of(self, request: Request) -> dict[str, Any]:
        """Build the metric attributes of a stream that is still open."""
        return attributes.of_metrics(request, None, self._models)

    def labels_of(self, stream: MeasuredStream) -> Labels:
        """Build the metric attributes of a stream that ended."""
        return attributes.of_metrics(stream.request, stream.response_model, self._models)

    def stall_started(self, stall: Stall) -> None:
        """Count a stall that has just begun, at once."""
        self._stalls.add(1, self._of_stall(stall))

    def stall_ended(self, stall: Stall) -> None:
        """Record the duration of a stall that is over, at once."""
        self._stall_duration.record(stall.duration, self._of_stall(stall))

    def record(self, stream: MeasuredStream, labels: Labels, batch: HistogramBatch) -> None:
        """Record an ended stream into every instrument that concerns it, but for its outcome.

        Values for histograms are added to `batch`, which records them.

        Raises:
            Exception: whatever an instrument, a view or an odd value of the stream raises.
        """
        batch.add(self._itl, stream.samples, SECOND, labels, stream.context)
        if stream.time_to_first_token is not None:
            batch.add(self._ttft, (stream.time_to_first_token,), 1, labels, stream.context)
        if stream.time_per_output_token is not None:
            batch.add(self._tpot, (stream.time_per_output_token,), 1, labels, stream.context)
        if stream.slo_result is not None:
            self._record_slo(stream.slo_result, labels, stream)
        if stream.records_standard:
            error_type = None if stream.error_type is None else self._error_types.cap(stream.error_type)
            self._standard.record(stream, labels, error_type, batch)

    def _record_slo(self, slo_result: SLOResult, labels: Labels, stream: MeasuredStream) -> None:
        """Count the gaps and the stream that met the objective, and those that did not."""
        labels = {**labels, names.SLO_PROFILE: slo_result.slo.profile}
        for met, tokens in ((True, slo_result.tokens_met), (False, slo_result.tokens_missed)):
            # Zeros are added too: a rate needs its series to exist before the first miss.
            if slo_result.tokens_met or slo_result.tokens_missed:
                self._slo_tokens.add(tokens, {**labels, names.SLO_MET: met}, stream.context)
            if slo_result.is_stream_met is not None:
                self._slo_streams.add(
                    int(slo_result.is_stream_met is met), {**labels, names.SLO_MET: met}, stream.context
                )

    def _of_stall(self, stall: Stall) -> Labels:
        kind = {names.STALL_PHASE: stall.phase.value, names.STALL_CAUSE: stall.cause.value}
        return {**self.attributes_of(stall.request), **kind}


class _StandardInstruments:
    """The `gen_ai.client.*` instruments of one generation of the conventions."""

    def __init__(self, meter: Meter, standard_names: StandardNames) -> None:
        self._duration = _histogram(meter, standard_names.duration)
        self._first_chunk = _histogram(meter, standard_names.time_to_first_chunk)
        self._per_chunk = _histogram(meter, standard_names.time_per_output_chunk)
        self._usage = None if standard_names.token_usage is None else _histogram(meter, standard_names.token_usage)
        self._token_counters = {
            field: _counter(meter, metric) for field, metric in standard_names.token_counters.items()
        }
        self._token_histograms = {
            field: _histogram(meter, metric) for field, metric in standard_names.token_histograms.items()
        }

    def record(self, stream: MeasuredStream, labels: Labels, error_type: str | None, batch: HistogramBatch) -> None:
        """Record what no other instrumentation records for this stream."""
        elsewhere, context = stream.recorded_elsewhere, stream.context
        if "duration" not in elsewhere:
            failed = {} if error_type is None else {names.ERROR_TYPE: error_type}
            batch.add(self._duration, (stream.duration,), 1, {**labels, **failed}, context)
        if stream.first_chunk_ns is not None and "time_to_first_chunk" not in elsewhere:
            batch.add(self._first_chunk, (stream.first_chunk_ns,), SECOND, labels, context)
        batch.add(self._per_chunk, stream.chunk_gaps, SECOND, labels, context)
        if "token_usage" not in elsewhere:
            self._record_usage(stream, labels, batch)

    def _record_usage(self, stream: MeasuredStream, labels: Labels, batch: HistogramBatch) -> None:
        """Record the token counts that the provider reported; one that it did not report is not recorded as 0."""
        for field, tokens in stream.usage.items():
            if self._usage is not None and field in {"input_tokens", "output_tokens"}:
                token_type = {names.TOKEN_TYPE: field.removesuffix("_tokens")}
                batch.add(self._usage, (tokens,), 1, {**labels, **token_type}, stream.context)
            if field in self._token_counters:
                modality = {names.TOKEN_MODALITY: UNKNOWN_MODALITY}
                self._token_counters[field].add(tokens, {**labels, **modality}, stream.context)
            if field in self._token_histograms:
                batch.add(self._token_histograms[field], (tokens,), 1, labels, stream.context)


def _counter(meter: Meter, metric: Metric) -> Counter:
    return meter.create_counter(metric.name, metric.unit, metric.description)


def _histogram(meter: Meter, metric: Metric, objectives: AbstractSet[float] = frozenset()) -> Histogram:
    edges = sorted(objectives | set(metric.buckets))
    return meter.create_histogram(
        metric.name, metric.unit, metric.description, explicit_bucket_boundaries_advisory=edges
    )
