"""What a span and the metrics say of a stream: from facts and measures to attributes."""

from __future__ import annotations

from collections.abc import Mapping
from math import inf
from typing import Any

from otel_itl import conventions as names
from otel_itl.core.measures import Measures
from otel_itl.core.request import Request
from otel_itl.core.sessions import Degradation, SessionStatus
from otel_itl.core.slo import SLOResult
from otel_itl.core.stalls import Stall
from otel_itl.core.stream import Concurrency, FinishedStream, ResponseInfo
from otel_itl.core.timeline import SECOND, Timeline

OTHER_MODEL = "other"
OTHER_ERROR = "_OTHER"
"""What the conventions call an error of a type that is not told apart."""
MOST_ERROR_TYPES = 100
"""Some are codes that the provider makes up."""


def _known(optional: Mapping[str, Any]) -> dict[str, Any]:
    """What there is to say: an attribute of what is not known is absent."""
    return {name: value for name, value in optional.items() if value is not None}


def at_start(request: Request) -> dict[str, Any]:
    """The attributes that samplers read."""
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
    }
    return attributes | _known(optional)


def standard(answer: ResponseInfo, measures: Measures, error_type: str | None) -> dict[str, Any]:
    """The attributes of the conventions that are known at the end."""
    optional = {
        names.RESPONSE_ID: answer.response_id or None,
        names.RESPONSE_MODEL: answer.model,
        names.RESPONSE_FINISH_REASONS: tuple(answer.finish_reasons) or None,
        names.RESPONSE_TIME_TO_FIRST_CHUNK: measures.time_to_first_chunk,
        names.USAGE_INPUT_TOKENS: answer.input_tokens,
        names.USAGE_OUTPUT_TOKENS: answer.output_tokens,
        names.USAGE_REASONING_TOKENS: answer.reasoning_tokens,
        names.USAGE_CACHE_READ_TOKENS: answer.cache_read_tokens,
        names.USAGE_CACHE_CREATION_TOKENS: answer.cache_creation_tokens,
        names.ERROR_TYPE: error_type,
    }
    return _known(optional)


def of_request(request: Request) -> dict[str, Any]:
    """What was asked of whom, for a log event."""
    optional = {
        names.OPERATION_NAME: request.operation,
        names.PROVIDER_NAME: request.provider,
        names.REQUEST_MODEL: request.model,
        names.SESSION_ID: request.session_id,
    }
    return _known(optional)


def of_stall(stall: Stall) -> dict[str, Any]:
    """One stall, for a log event or an event of its span."""
    attributes = {
        names.STALL_NUMBER: stall.number,
        names.STALL_PHASE: stall.phase.value,
        names.STALL_CAUSE: stall.cause.value,
        names.STALL_START: stall.start,
        names.STALL_DURATION: stall.duration,
        names.STALL_THRESHOLD: stall.threshold,
        names.STALL_ALIVE: stall.is_alive,
    }
    return attributes if stall.end is None else {**attributes, names.STALL_END: stall.end}


def of_stalls(ended: FinishedStream) -> dict[str, Any]:
    """The stalls of a stream, summed up; nothing where nobody looked out for any."""
    if ended.stall_threshold is None:
        return {}
    durations = [stall.duration for stall in ended.stalls]
    attributes: dict[str, Any] = {names.STALL_COUNT: len(durations)}
    if ended.stall_threshold < inf:
        attributes[names.STALL_THRESHOLD] = ended.stall_threshold
    if durations:
        attributes[names.STALL_DURATION] = sum(durations)
        attributes[names.STALL_MAX] = max(durations)
        attributes[names.STALLED_RATIO] = sum(durations) * SECOND / max(ended.timeline.end, 1)
    return attributes


def of_verdict(verdict: SLOResult | None) -> dict[str, Any]:
    """The objective in force; what it was, where the stream missed it."""
    if verdict is None:
        return {}
    slo = verdict.slo
    attributes: dict[str, Any] = {names.SLO_PROFILE: slo.profile}
    if verdict.is_missed:
        attributes[names.SLO_MET] = False
        attributes[names.SLO_MISSED_TOKENS] = verdict.tokens_missed
        attributes |= _known({names.SLO_TTFT: slo.ttft, names.SLO_ITL: slo.itl})
    return attributes


def of_standing(standing: SessionStatus | None) -> dict[str, Any]:
    """How the session stands with this request; nothing where it belongs to none."""
    if standing is None:
        return {}
    optional = {
        names.SESSION_REQUEST_INDEX: standing.request_index,
        names.SESSION_LATENCY_RATIO: standing.latency_ratio,
        names.SESSION_STALL_COUNT: standing.stall_count,
        names.SESSION_DECODE_DURATION: standing.decode_duration,
        names.SESSION_DEGRADED: standing.is_degraded,
        names.SESSION_DEGRADED_SCOPE: None if standing.scope is None else standing.scope.value,
    }
    return _known(optional)


def of_degradation(onset: Degradation) -> dict[str, Any]:
    """The beginning of a session's degradation, for its log event."""
    optional = {
        names.SESSION_REQUEST_INDEX: onset.request_index,
        names.SESSION_LATENCY_RATIO: onset.latency_ratio,
        names.SESSION_MODEL_RATIO: onset.model_ratio,
        names.SESSION_DEGRADED_SCOPE: onset.scope.value,
    }
    return _known(optional)


def ours(timeline: Timeline, measures: Measures, concurrency: Concurrency) -> dict[str, Any]:
    """The `itl.*` attributes."""
    attributes: dict[str, Any] = {
        name: value for name, field in names.SPAN_MEASURES.items() if (value := getattr(measures, field)) is not None
    }
    attributes[names.TOKEN_COUNT_SOURCE] = "usage" if measures.has_reported_token_count else "chunk"
    attributes[names.STREAM_OUTCOME] = timeline.outcome.value
    attributes[names.STREAMS_AT_START] = concurrency.at_start
    attributes[names.STREAMS_MEAN] = concurrency.mean
    if timeline.attempts is not None:
        attributes[names.REQUEST_ATTEMPTS] = timeline.attempts
    return attributes


class Limited:
    """Values that metrics tell apart: the first so many, and one name for the rest. Others choose values, series cost.

    Args:
        limit: how many.
        rest: what the others are called.
    """

    def __init__(self, limit: int, rest: str) -> None:
        self._limit = limit
        self._rest = rest
        self._known: set[tuple[str, str | None]] = set()

    def label(self, value: str, beside: str | None = None) -> str:
        """What a metric calls `value`, where it stands `beside` another one."""
        if (value, beside) not in self._known:
            if len(self._known) >= self._limit:
                return self._rest
            self._known.add((value, beside))
        return value


class ModelNames:
    """The model names that metrics tell apart: so many that are asked for, and so many that answer for them.

    They are counted apart: an upstream that answers in ever new names takes no place from what is asked for.
    """

    def __init__(self, limit: int) -> None:
        self._asked_for = Limited(limit, OTHER_MODEL)
        self._answering = Limited(limit, OTHER_MODEL)

    def label(self, model: str) -> str:
        """The name that a metric gives to `model`, which was asked for."""
        return self._asked_for.label(model)

    def response_label(self, model: str, asked_for: str | None) -> str:
        """The name that a metric gives to `model`, which answered."""
        return self._answering.label(model, asked_for)


def labels(request: Request, response_model: str | None, models: ModelNames) -> dict[str, Any]:
    """The attributes of metrics: an allow-list. No session, user or request ever."""
    model = None if request.model is None else models.label(request.model)
    optional = {
        names.OPERATION_NAME: request.operation,
        names.PROVIDER_NAME: request.provider,
        names.REQUEST_MODEL: model,
        names.RESPONSE_MODEL: None if response_model is None else models.response_label(response_model, model),
        names.SERVER_ADDRESS: request.server_address,
        names.SERVER_PORT: request.server_port,
    }
    return _known(optional)
