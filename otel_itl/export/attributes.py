"""The attributes of spans, log events and metrics, from the facts and the measures of a stream."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import compress, repeat
from math import inf
from operator import attrgetter, is_, is_not
from typing import Any, Final

from otel_itl.core import conventions as names
from otel_itl.core.host_bound import is_host_bound
from otel_itl.core.measures import Measures
from otel_itl.core.metric_conventions import StandardNames
from otel_itl.core.request import Request
from otel_itl.core.sessions import Degradation, SessionStatus
from otel_itl.core.sketch import Sketch
from otel_itl.core.slo import SLOResult
from otel_itl.core.stalls import Stall
from otel_itl.core.stream import Concurrency, FinishedStream, ResponseInfo
from otel_itl.core.timeline import SECOND, Outcome, Timeline
from otel_itl.export.cardinality import LabelCaps

_values_for_span = attrgetter(*names.SPAN_MEASURES.values())
_uncertainties = attrgetter(*names.SPAN_UNCERTAINTIES.values())
MAX_SCALED: Final = float(1 << 40)
ALMOST_HALF: Final = 0.499
"""Up to `MAX_SCALED` microseconds, multiplying a figure is wrong by less than what this is below a half."""
_USAGE_ATTRIBUTES: Final = {
    "input_tokens": names.USAGE_INPUT_TOKENS,
    "output_tokens": names.USAGE_OUTPUT_TOKENS,
    "reasoning_tokens": names.USAGE_REASONING_TOKENS,
    "cache_read_tokens": names.USAGE_CACHE_READ_TOKENS,
}
"""Field of `ResponseInfo` → attribute. That of `cache_creation_tokens` depends on the generation of the names."""
_USAGE_FIELDS: Final = (*_USAGE_ATTRIBUTES, "cache_creation_tokens")
_usage_of = attrgetter(*_USAGE_FIELDS)


def _without_none(optional: Mapping[str, Any]) -> dict[str, Any]:
    """Leave out what is not known: an attribute without a value is absent."""
    return {name: value for name, value in optional.items() if value is not None}


def rounded(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """Round what is computed to the microsecond, the resolution of a timeline: more digits are noise to a reader.

    For spans alone. Metrics, the sketch, verdicts and stored timelines keep every digit.
    """
    values = attributes.values()
    are_computed = list(map(is_, map(type, values), repeat(float)))
    digits = map(_round_figure, compress(values, are_computed))
    return {**attributes, **dict(zip(compress(attributes, are_computed), digits, strict=True))}


def _round_figure(figure: float) -> float:
    """Return `round(figure, 6)`, which makes a decimal text of each number and takes five times as long."""
    scaled = figure * 1e6
    if -MAX_SCALED < scaled < MAX_SCALED:
        whole = round(scaled)
        if -ALMOST_HALF < scaled - whole < ALMOST_HALF:
            return whole / 1e6
    return round(figure, 6)  # large, not finite, or so near to a half that the multiplication may have decided


def at_start(request: Request) -> dict[str, Any]:
    """Build the attributes that a span has from its start on, so that samplers read them."""
    attributes: dict[str, Any] = {
        names.OPERATION_NAME: request.operation,
        names.PROVIDER_NAME: request.provider,
        names.REQUEST_STREAM: True,
        **request.parameters,
    }
    optional = {
        names.REQUEST_MODEL: request.model,
        names.SERVER_ADDRESS: request.server_address,
        names.SERVER_PORT: request.server_port,
        names.SESSION_ID: request.session_id,
        names.TEST: request.is_test or None,
    }
    return attributes | _without_none(optional)


def reported_usage(finished: FinishedStream) -> dict[str, int]:
    """Collect the token counts that a stream reports, by their field of `ResponseInfo`.

    Counts that the provider did not give are absent. A response that was fetched again has none at all where another
    stream of it has reported them (`export/usage_reports.py`).
    """
    is_fetch = finished.request.operation in names.FETCH_OPERATIONS
    if finished.reports_usage is False or (finished.reports_usage is None and is_fetch):
        return {}
    counts = _usage_of(finished.response)
    return dict(compress(zip(_USAGE_FIELDS, counts, strict=True), map(is_not, counts, repeat(None))))


def of_response(finished: FinishedStream, measures: Measures, standard: StandardNames) -> dict[str, Any]:
    """Build the standard attributes that are known when the stream has ended."""
    optional = {
        names.RESPONSE_ID: finished.response.response_id or finished.response.request_id,
        names.RESPONSE_MODEL: finished.response.model,
        names.RESPONSE_FINISH_REASONS: _finish_reasons(finished, standard.missing_finish_reason) or None,
        names.RESPONSE_TIME_TO_FIRST_CHUNK: measures.time_to_first_chunk,
        names.ERROR_TYPE: finished.error_type,
    }
    attributes = _without_none(optional)
    for field, tokens in reported_usage(finished).items():
        attributes[_USAGE_ATTRIBUTES.get(field, standard.cache_write_attribute)] = tokens
    return attributes


def _finish_reasons(finished: FinishedStream, missing: str | None) -> tuple[str, ...]:
    """Return the finish reasons by choice, with `missing` for each choice of a stream cut short that has none."""
    response = finished.response
    if missing is None or finished.timeline.outcome is Outcome.COMPLETED:
        return tuple(response.finish_reasons)
    choices = finished.request.parameters.get(names.REQUEST_PARAMETERS["n"], 1)
    return tuple(response.fill_finish_reasons(choices if isinstance(choices, int) else 1, missing))


def of_request(request: Request) -> dict[str, Any]:
    """Build the attributes that identify the request of a log event."""
    optional = {
        names.OPERATION_NAME: request.operation,
        names.PROVIDER_NAME: request.provider,
        names.REQUEST_MODEL: request.model,
        names.SESSION_ID: request.session_id,
    }
    return _without_none(optional)


def of_stream(timeline: Timeline, measures: Measures, concurrency: Concurrency) -> dict[str, Any]:
    """Build the `itl.*` attributes of a stream: its measures with their errors, outcome, concurrency, attempts."""
    values = _values_for_span(measures)
    attributes = dict(compress(zip(names.SPAN_MEASURES, values, strict=True), map(is_not, values, repeat(None))))
    if measures.bounds:
        attributes |= _without_none(dict(zip(names.SPAN_UNCERTAINTIES, _uncertainties(measures), strict=True)))
    attributes[names.TOKEN_COUNT_SOURCE] = "usage" if measures.has_reported_token_count else "chunk"
    if measures.is_pace_of_answer:
        attributes[names.PACE_ANSWER_ONLY] = True
    attributes[names.STREAM_OUTCOME] = timeline.outcome.value
    attributes[names.STREAMS_AT_START] = concurrency.at_start
    attributes[names.STREAMS_MEAN] = concurrency.mean
    if timeline.attempts is not None:
        attributes[names.REQUEST_ATTEMPTS] = timeline.attempts
    return attributes


def of_server(response: ResponseInfo) -> dict[str, float]:
    """Build the attributes of the server's own durations; empty where the provider reports none."""
    return {names.SERVER_DURATIONS[name]: seconds for name, seconds in response.server_durations.items()}


def of_sketch(sketch: Sketch) -> dict[str, Any]:
    """Build the attributes of a sketch of the ITL samples; empty where there are no samples.

    Indexes and counts are text, numbers separated by commas, which every SQL dialect splits: for 40 buckets that takes
    8 µs where the span is written to and 21 µs where it is encoded. As integer arrays, of which the SDK checks and the
    encoder wraps every element, they take 12 µs and 82 µs, and 70 % more bytes.
    """
    if not sketch.counts and not sketch.zero_count:
        return {}
    return {
        names.SKETCH_SCALE: sketch.scale,
        names.SKETCH_INDEXES: ",".join(map(str, sketch.indexes)),
        names.SKETCH_COUNTS: ",".join(map(str, sketch.counts)),
        names.SKETCH_ZERO_COUNT: sketch.zero_count,
    }


def of_stall(stall: Stall) -> dict[str, Any]:
    """Build the attributes of one stall, for a log event or a span event."""
    attributes = {
        names.STALL_NUMBER: stall.number,
        names.STALL_PHASE: stall.phase.value,
        names.STALL_CAUSE: stall.cause.value,
        names.STALL_EVIDENCE: stall.evidence.value,
        names.STALL_START: stall.start,
        names.STALL_DURATION: stall.duration,
        names.STALL_THRESHOLD: stall.threshold,
        names.STALL_ALIVE: stall.is_alive,
    }
    return attributes if stall.end is None else {**attributes, names.STALL_END: stall.end}


def of_stalls(finished: FinishedStream) -> dict[str, Any]:
    """Build the summary of a stream's stalls; empty where stall detection was off."""
    if finished.stall_threshold is None:
        return {}
    durations = [stall.duration for stall in finished.stalls]
    attributes: dict[str, Any] = {names.STALL_COUNT: len(durations)}
    if finished.stall_threshold < inf:
        attributes[names.STALL_THRESHOLD] = finished.stall_threshold
    if durations:
        attributes[names.STALL_TOTAL_DURATION] = sum(durations)
        attributes[names.STALL_MAX] = max(durations)
        attributes[names.STALL_RATIO] = sum(durations) * SECOND / max(finished.timeline.end, 1)
    return attributes


def of_host(finished: FinishedStream, measures: Measures) -> dict[str, Any]:
    """Build the attributes of the delay of a stream's reader by the host; empty where that is not known."""
    delay = finished.host_delay
    if delay is None:
        return {}
    return {names.HOST_DELAY: delay, names.HOST_BOUND: bool(measures.bounds) and is_host_bound(delay, measures)}


def of_slo(result: SLOResult) -> dict[str, Any]:
    """Build the attributes of the objective in force, with its limits if the stream missed it.

    Whether it was met is absent where the stream cannot be judged.
    """
    slo = result.slo
    attributes: dict[str, Any] = {names.SLO_PROFILE: slo.profile}
    if result.fluidity is not None:
        attributes[names.SLO_FLUIDITY] = result.fluidity
    if result.is_met is not None:
        attributes[names.SLO_MET] = result.is_met
    if result.is_missed:
        attributes[names.SLO_MISSED_TOKENS] = result.tokens_missed
        attributes |= _without_none({names.SLO_TTFT: slo.ttft, names.SLO_ITL: slo.itl})
    return attributes


def of_session(status: SessionStatus) -> dict[str, Any]:
    """Build the attributes of the session as of this request."""
    optional = {
        names.SESSION_REQUEST_INDEX: status.request_index,
        names.SESSION_LATENCY_RATIO: status.latency_ratio,
        names.SESSION_STALL_COUNT: status.stall_count,
        names.SESSION_DECODE_DURATION: status.decode_duration,
        names.SESSION_DEGRADED: status.is_degraded,
        names.SESSION_DEGRADATION_SCOPE: None if status.scope is None else status.scope.value,
    }
    return _without_none(optional)


def of_degradation(onset: Degradation) -> dict[str, Any]:
    """Build the attributes of the log event for the onset of a session's degradation."""
    optional = {
        names.SESSION_REQUEST_INDEX: onset.request_index,
        names.SESSION_LATENCY_RATIO: onset.latency_ratio,
        names.SESSION_MODEL_RATIO: onset.model_ratio,
        names.SESSION_DEGRADATION_SCOPE: onset.scope.value,
    }
    return _without_none(optional)


def of_metrics(request: Request, response_model: str | None, caps: LabelCaps) -> dict[str, Any]:
    """Build the attributes of metric points from an allow-list: never a session, user or request id.

    Whatever the application or a provider chooses is capped: each value is a time series.
    """
    model = None if request.model is None else caps.cap_request_model(request.model)
    address, port = request.server_address, request.server_port
    if address is not None:
        address, port = caps.cap_server(address, port)
    optional = {
        names.OPERATION_NAME: caps.cap_operation(request.operation),
        names.PROVIDER_NAME: caps.cap_provider(request.provider),
        names.REQUEST_MODEL: model,
        names.RESPONSE_MODEL: None if response_model is None else caps.cap_response_model(response_model, model),
        names.SERVER_ADDRESS: address,
        names.SERVER_PORT: None if address is None else port,
    }
    return _without_none(optional)
