"""Classifies the events of Bedrock's `converse_stream`, which models of the family Nova speak everywhere."""

from __future__ import annotations

from typing import Any, Final

from otel_itl.core.stream import ResponseInfo
from otel_itl.sdks.formats.kinds import ANSWER, EMPTY, FINISH, LIFECYCLE, REASONING, ROLE, TOOL, USAGE
from otel_itl.sdks.values import fields_of, is_signature, short_str, valid_count, valid_seconds

EVENTS: Final = (
    "contentBlockDelta",
    "contentBlockStart",
    "contentBlockStop",
    "messageStart",
    "messageStop",
    "metadata",
)
"""The fields by which an event is recognized; it has one of them."""
REASONING_FIELDS: Final = ("text", "redactedContent")
"""Fields of reasoning that hold output. Its `signature` is none."""
REDACTED: Final = "[REDACTED]"
"""What models of the family Nova send in place of their reasoning."""


def classify_converse_event(event: Any, response_info: ResponseInfo) -> int:
    """Classify an event of `converse_stream`, and record its metadata in `response_info`.

    Called with every event while the stream runs: plain text, which nearly every event is, is recognized first.
    """
    try:
        if event["contentBlockDelta"]["delta"]["text"]:
            return ANSWER
    except (KeyError, TypeError):
        pass  # no plain text
    fields = fields_of(event)
    kind = LIFECYCLE
    if "contentBlockDelta" in fields:
        kind = _delta_kind(fields_of(fields_of(fields["contentBlockDelta"]).get("delta")), response_info)
    elif "contentBlockStart" in fields:
        start = fields_of(fields_of(fields["contentBlockStart"]).get("start"))
        kind = TOOL if fields_of(start.get("toolUse")).get("name") else LIFECYCLE
    elif "messageStart" in fields:
        kind = ROLE
    elif "messageStop" in fields:
        kind = FINISH
        reason = short_str(fields_of(fields["messageStop"]).get("stopReason"))
        response_info.add_finish_reason(reason or "unknown")
    elif "metadata" in fields:
        kind = USAGE
        response_info.is_terminated = True
        metadata = fields_of(fields["metadata"])
        _record_usage(response_info, fields_of(metadata.get("usage")))
        latency = valid_seconds(fields_of(metadata.get("metrics")).get("latencyMs"), 1000)
        response_info.update_server_durations(total=latency)
    return kind


def _delta_kind(delta: dict[str, Any], response_info: ResponseInfo) -> int:
    """Return what a `delta` without text carries; record whether it shows that the reasoning itself is withheld."""
    if fields_of(delta.get("toolUse")).get("input"):
        return TOOL
    if "reasoningContent" in delta:
        reasoning = fields_of(delta["reasoningContent"])
        is_withheld = "redactedContent" in reasoning or reasoning.get("text") == REDACTED
        if is_withheld or is_signature(reasoning.get("signature")):
            response_info.is_reasoning_partial = True
        return REASONING if any(reasoning.get(field) for field in REASONING_FIELDS) else LIFECYCLE
    if fields_of(delta.get("image")).get("source"):
        return ANSWER
    return LIFECYCLE if "citation" in delta or "toolResult" in delta else EMPTY


def _record_usage(response_info: ResponseInfo, usage: dict[str, Any]) -> None:
    """Record the usage. Input that was read from or written to the cache is counted as input, too.

    `inputTokens` leaves that input out with some models and not with others; the total is of all of it.
    """
    read = valid_count(usage.get("cacheReadInputTokens", usage.get("cacheReadInputTokenCount")))
    written = valid_count(usage.get("cacheWriteInputTokens", usage.get("cacheWriteInputTokenCount")))
    output, total = valid_count(usage.get("outputTokens")), valid_count(usage.get("totalTokens"))
    uncached = valid_count(usage.get("inputTokens"))
    counted = None if uncached is None else uncached + (read or 0) + (written or 0)
    if total is not None and output is not None:
        counted = max(total - output, uncached or 0)
    response_info.update_token_counts(
        input_tokens=valid_count(counted),
        output_tokens=output,
        cache_read_tokens=read,
        cache_creation_tokens=written,
    )
