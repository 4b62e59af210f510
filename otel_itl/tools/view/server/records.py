"""What the page takes from OTLP, whatever its encoding: spans, events of ours, and a few numbers about the process."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

from otel_itl.core import conventions as names
from otel_itl.tools.report.reading.otlp import OTLPSpan, TokenLogRecord, iterate_spans, iterate_token_logs

EVENTS: Final = frozenset(
    {
        *(names.TOKENS_EVENT, names.TOKEN_EVENT, names.PROGRESS_EVENT),
        *(names.STALL_STARTED_EVENT, names.STALL_ENDED_EVENT),
    }
)
"""Names of the log events that the page shows."""
NUMBERS: Final = frozenset({names.SELF_ERRORS.name})
"""Names of the metrics that the page shows."""
MAX_TEXT_BYTES: Final = 1_024
"""A longer text attribute is no name and no id."""

_KEPT: Final = frozenset(
    {
        *(names.OPERATION_NAME, names.PROVIDER_NAME, names.REQUEST_MODEL, names.RESPONSE_MODEL, names.ERROR_TYPE),
        *(names.SESSION_ID, names.CONVERSATION_ID, names.USAGE_INPUT_TOKENS, names.USAGE_OUTPUT_TOKENS),
        *(names.USAGE_REASONING_TOKENS, "gen_ai.system", "llm.model_name", "llm.provider", "llm.system"),
        *("gen_ai.usage.prompt_tokens", "openinference.span.kind"),
    }
)
"""Attributes that are kept, beside all of `itl.`: prompts and completions are in others, and are dropped."""


class Records(NamedTuple):
    """The contents of one OTLP request."""

    spans: list[OTLPSpan]
    events: list[TokenLogRecord]
    numbers: dict[str, float]


def is_kept(name: str) -> bool:
    """Return whether an attribute of this name is kept."""
    return name in _KEPT or name.startswith("itl.")


def keep_attributes(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """Return the attributes that the page needs: no prompt, no completion, no long text."""
    return {
        name: value
        for name, value in attributes.items()
        if is_kept(name) and not (isinstance(value, (str, bytes)) and len(value) > MAX_TEXT_BYTES)
    }


def read_json(document: Mapping[str, Any]) -> Records:
    """Read one OTLP JSON document.

    Raises:
        TypeError, ValueError, KeyError, AttributeError: it is not of OTLP's shape.
    """
    spans = [span._replace(attributes=keep_attributes(span.attributes)) for span in iterate_spans(document)]
    events = list(iterate_token_logs(document, EVENTS))
    return Records(spans, events, _read_numbers(document))


def _read_numbers(document: Mapping[str, Any]) -> dict[str, float]:
    """Return the sums of the metrics that the page shows."""
    numbers: dict[str, float] = {}
    for metric in _metrics(document):
        if metric.get("name") in NUMBERS:
            points = (metric.get("sum") or metric.get("gauge") or {}).get("dataPoints") or ()
            total = sum(float(point.get("asInt", point.get("asDouble", 0))) for point in points)
            numbers[metric["name"]] = numbers.get(metric["name"], 0.0) + total
    return numbers


def _metrics(document: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    for resource in document.get("resourceMetrics") or ():
        for scope in resource.get("scopeMetrics") or ():
            yield from scope.get("metrics") or ()
