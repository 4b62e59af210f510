"""The instruments of one meter, and how an ended stream and a stall are recorded into them."""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from itertools import chain
from typing import Any, Final

from opentelemetry.metrics import Counter, Histogram, Meter  # noqa: TC002 - annotations stay resolvable

from otel_itl.core import conventions as names
from otel_itl.core import metric_conventions
from otel_itl.core.metric_conventions import Metric, StandardNames
from otel_itl.core.request import Request
from otel_itl.core.slo import Objectives
from otel_itl.core.stalls import Stall
from otel_itl.core.timeline import SECOND
from otel_itl.export import attributes
from otel_itl.export.cardinality import MAX_ERROR_TYPES, OTHER_ERROR, CappedValues, LabelCaps
from otel_itl.export.stream_batch import Labels, StreamBatch
from otel_itl.export.stream_report import StreamReport

MAX_LABELS: Final = 4_096
"""Sets of attributes that are kept, so that each is built once; more are built again for every stream."""
UNKNOWN_MODALITY = "unknown"
"""Providers do not report for a stream whether its tokens are text, image or audio."""


class StreamInstruments:
    """The counters and histograms of one meter. Several threads may record at once.

    Args:
        meter: makes the instruments.
        standard_names: the generation of the standard names.
        model_limit: how many request models, response models and servers are kept apart; the others become `other`.
        objectives: each objective becomes a bucket edge of its histogram.
    """

    def __init__(
        self, meter: Meter, standard_names: StandardNames, *, model_limit: int, objectives: Objectives
    ) -> None:
        self._caps = LabelCaps(model_limit)
        self._labels: dict[tuple[str | int | None, ...], Labels] = {}
        self._capped_labels: dict[tuple[tuple[str, Any], ...], Labels] = {}
        self._error_types = CappedValues(MAX_ERROR_TYPES, OTHER_ERROR)
        self._itl = _histogram(meter, metric_conventions.INTER_TOKEN_LATENCY, objectives.edges("itl"))
        self._ttft = _histogram(meter, metric_conventions.TIME_TO_FIRST_TOKEN, objectives.edges("ttft"))
        self._tpot = _histogram(meter, metric_conventions.TIME_PER_OUTPUT_TOKEN)
        self._uncertain = _counter(meter, metric_conventions.UNCERTAIN_STREAMS)
        self.outcomes = _counter(meter, metric_conventions.STREAM_OUTCOMES)
        """Counts every stream that ended, by its outcome."""
        self._stalls = _counter(meter, metric_conventions.STALLS)
        self._stall_duration = _histogram(meter, metric_conventions.STALL_DURATIONS)
        self._slo_tokens = _counter(meter, metric_conventions.SLO_TOKENS)
        self._slo_streams = _counter(meter, metric_conventions.SLO_STREAMS)
        self._standard = _StandardInstruments(meter, standard_names)

    def attributes_of(self, request: Request) -> dict[str, Any]:
        """Build the metric attributes of a stream that is still open."""
        return attributes.of_metrics(request, None, self._caps)

    def labels_of(self, stream: StreamReport) -> Labels:
        """Return the metric attributes of a stream that ended: one object for all streams that have them in common."""
        request, response_model = stream.finished.request, stream.finished.response.model
        key = (
            request.operation,
            request.provider,
            request.model,
            response_model,
            request.server_address,
            request.server_port,
        )
        labels = self._labels.get(key)
        if labels is None:
            labels = attributes.of_metrics(request, response_model, self._caps)
            if len(self._capped_labels) < MAX_LABELS:
                labels = self._capped_labels.setdefault(tuple(labels.items()), labels)
            if len(self._labels) < MAX_LABELS:
                self._labels[key] = labels
        return labels

    def stall_started(self, stall: Stall) -> None:
        """Count a stall that has just begun, at once."""
        self._stalls.add(1, self._of_stall(stall))

    def stall_ended(self, stall: Stall) -> None:
        """Record the duration of a stall that is over, at once."""
        self._stall_duration.record(stall.duration, self._of_stall(stall))

    def record(self, batch: StreamBatch, labels: Labels) -> None:
        """Record streams that ended into every instrument that concerns them, but for their outcome.

        Args:
            batch: streams with these attributes, and the rest of `StreamReport.batch_key`, in common.
            labels: their attributes.

        Raises:
            Exception: whatever a counter, a view or an odd value of a stream raises.
        """
        streams, first = batch.streams, batch.streams[0]
        samples = [stream.measures.upstream_samples.nanoseconds for stream in streams]
        batch.record_samples(self._itl, samples, labels, SECOND)
        batch.record_values(self._ttft, [stream.find_known("time_to_first_token") for stream in streams], labels)
        batch.record_values(self._tpot, [stream.find_known("time_per_output_token") for stream in streams], labels)
        for stream in streams:
            for figure, cause in stream.find_uncertain():
                counted = {**labels, names.UNCERTAIN_FIGURE: figure, names.UNCERTAIN_CAUSE: cause}
                self._uncertain.add(1, counted, stream.handle.exemplar_context)
        if first.slo is not None:
            self._record_slo(batch, labels, first.slo.slo.profile)
        if first.handle.records_standard:
            error_type = first.finished.error_type
            self._standard.record(batch, labels, None if error_type is None else self._error_types.cap(error_type))

    def _record_slo(self, batch: StreamBatch, labels: Labels, profile: str) -> None:
        """Count the gaps and the streams that met the objective, and those that did not."""
        results = [stream.slo for stream in batch.streams if stream.slo is not None]
        has_tokens = any(result.tokens_met or result.tokens_missed for result in results)
        are_met = [result.is_stream_met for result in results]
        for is_met in (True, False):
            # Zeros are added too: a rate needs its series to exist before the first miss.
            counted = {**labels, names.SLO_PROFILE: profile, names.SLO_MET: is_met}
            if has_tokens:
                tokens = [result.tokens_met if is_met else result.tokens_missed for result in results]
                batch.add(self._slo_tokens, tokens, counted)
            if are_met.count(None) < len(are_met):
                batch.add(self._slo_streams, [int(each is is_met) for each in are_met], counted)

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

    def record(self, batch: StreamBatch, labels: Labels, error_type: str | None) -> None:
        """Record what no other instrumentation records for these streams."""
        timelines = [stream.finished.timeline for stream in batch.streams]
        elsewhere = batch.streams[0].handle.recorded_elsewhere
        if "duration" not in elsewhere:
            failed = labels if error_type is None else {**labels, names.ERROR_TYPE: error_type}
            batch.record_values(self._duration, [timeline.end for timeline in timelines], failed, SECOND)
        if "time_to_first_chunk" not in elsewhere:
            first_chunks = [timeline.arrived[0] if timeline.arrived else None for timeline in timelines]
            batch.record_values(self._first_chunk, first_chunks, labels, SECOND)
        batch.record_samples(self._per_chunk, [stream.find_chunk_gaps() for stream in batch.streams], labels, SECOND)
        if "token_usage" not in elsewhere:
            usages = [attributes.reported_usage(stream.finished) for stream in batch.streams]
            for field in dict.fromkeys(chain.from_iterable(usages)):
                self._record_usage(batch, field, [usage.get(field) for usage in usages], labels)

    def _record_usage(self, batch: StreamBatch, field: str, tokens: list[int | None], labels: Labels) -> None:
        """Record one of the token counts that the provider reported; where it reported none, that is not a 0."""
        if self._usage is not None and field in {"input_tokens", "output_tokens"}:
            token_type = {names.TOKEN_TYPE: field.removesuffix("_tokens")}
            batch.record_values(self._usage, tokens, {**labels, **token_type})
        if field in self._token_counters:
            modality = {names.TOKEN_MODALITY: UNKNOWN_MODALITY}
            batch.add(self._token_counters[field], [each or 0 for each in tokens], {**labels, **modality})
        if field in self._token_histograms:
            batch.record_values(self._token_histograms[field], tokens, labels)


def _counter(meter: Meter, metric: Metric) -> Counter:
    return meter.create_counter(metric.name, metric.unit, metric.description)


def _histogram(meter: Meter, metric: Metric, objectives: AbstractSet[float] = frozenset()) -> Histogram:
    edges = sorted(objectives | set(metric.buckets))
    return meter.create_histogram(
        metric.name, metric.unit, metric.description, explicit_bucket_boundaries_advisory=edges
    )
