"""Classifies the events of Google's Interactions API."""

from __future__ import annotations

from typing import Any, Final

from otel_itl.core.stream import ResponseInfo
from otel_itl.sdks.formats.kinds import ANSWER, EMPTY, FINISH, LIFECYCLE, REASONING, TOOL, USAGE
from otel_itl.sdks.values import fields_of, record_counts, short_str

DELTAS: Final = {
    "text": (ANSWER, "text"),
    "audio": (ANSWER, "data"),
    "image": (ANSWER, "data"),
    "video": (ANSWER, "data"),
    "document": (ANSWER, "data"),
    "thought_summary": (REASONING, "content"),
    "arguments_delta": (TOOL, "arguments"),
    "code_execution_call": (TOOL, "arguments"),
}
"""Type of a step's delta → what it carries, and the field that holds it."""


def classify_interaction_event(event: Any, response_info: ResponseInfo) -> int:
    """Classify an event of the Interactions API, and record its metadata in `response_info`.

    Called with every event while the stream runs: plain text, which nearly every event is, is recognized first.
    """
    try:
        if event.event_type == "step.delta" and event.delta.type == "text" and event.delta.text:
            return ANSWER
    except AttributeError:
        pass  # no plain text
    fields = fields_of(event)
    name = short_str(fields.get("event_type"))
    if name == "step.delta":
        delta = fields_of(fields.get("delta"))
        kind, field = DELTAS.get(short_str(delta.get("type")) or "", (LIFECYCLE, "type"))
        if kind == REASONING:
            response_info.is_reasoning_partial = True
        return kind if delta.get(field) else EMPTY
    if name == "step.start":
        step = fields_of(fields.get("step"))
        return TOOL if step.get("type") == "function_call" and step.get("name") else LIFECYCLE
    if name in {"interaction.created", "interaction.completed"}:
        interaction = fields_of(fields.get("interaction"))
        response_info.response_id = short_str(interaction.get("id")) or response_info.response_id
        response_info.is_background = True  # each can be fetched again
        response_info.model = short_str(interaction.get("model")) or response_info.model
        if name == "interaction.completed":
            return _record_end(response_info, interaction)
    elif name == "error" and fields.get("error"):  # the SDK makes an empty one of an event without a type
        response_info.error_type = short_str(fields_of(fields["error"]).get("code")) or "error"
        return FINISH
    return LIFECYCLE


def _record_end(response_info: ResponseInfo, interaction: dict[str, Any]) -> int:
    """Record status and usage of an interaction that is over: its status is the reason for which it ended."""
    response_info.is_terminated = True
    status = short_str(interaction.get("status"))
    if status == "failed":
        response_info.error_type = response_info.error_type or status
    response_info.add_finish_reason(status or "completed")
    usage = fields_of(interaction.get("usage"))
    if not usage:
        return FINISH
    record_counts(
        response_info,
        usage,
        input_tokens="total_input_tokens+total_tool_use_tokens",
        output_tokens="total_output_tokens+total_thought_tokens",
        reasoning_tokens="total_thought_tokens",
        cache_read_tokens="total_cached_tokens",
    )
    return FINISH | USAGE
