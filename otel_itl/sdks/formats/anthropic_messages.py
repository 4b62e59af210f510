"""Classifies the events of Anthropic's Messages API and of its legacy text completions."""

from __future__ import annotations

from typing import Any, Final

from otel_itl.core.stream import ResponseInfo
from otel_itl.sdks.formats.kinds import ANSWER, EMPTY, FINISH, LIFECYCLE, PING, REASONING, TOOL, USAGE
from otel_itl.sdks.values import fields_of, is_signature, record_counts, record_finish, short_str, valid_count

DELTAS: Final = {
    "text_delta": (ANSWER, "text"),
    "thinking_delta": (REASONING, "thinking"),
    "input_json_delta": (TOOL, "partial_json"),
}
"""Type of a content block's delta → what it carries, and the field that holds it."""

FULL_REASONING: Final = "claude-3-7"
"""In the name of the only model of Anthropic's that streams its reasoning itself."""
OTHER_KINDS: Final = {"message_stop": FINISH, "error": FINISH, "ping": PING}
"""Type of an event that carries no output and is not part of the lifecycle → its kind."""


def classify_message_event(event: Any, response_info: ResponseInfo) -> int:
    """Classify an event of the Messages API, and record its metadata in `response_info`.

    Called with every event while the stream runs: plain text, which nearly every event is, is recognized first.
    """
    try:
        if event.type == "content_block_delta" and event.delta.type == "text_delta" and event.delta.text:
            return ANSWER
    except AttributeError:
        pass  # no plain text
    fields = fields_of(event)
    name = short_str(fields.get("type"))
    if name == "content_block_delta":
        return _classify_delta(fields_of(fields.get("delta")), response_info)
    if name == "content_block_start":
        return _classify_block(fields_of(fields.get("content_block")), response_info)
    if name == "message_start":
        message = fields_of(fields.get("message"))
        response_info.set_identity(short_str(message.get("id")), short_str(message.get("model")))
        # Its count of output tokens is that of the first event, not of the message.
        _record_usage(response_info, {**fields_of(message.get("usage")), "output_tokens": None})
    elif name == "message_delta":
        return _record_end(response_info, fields)
    elif name == "message_stop":
        response_info.is_terminated = True
    elif name == "error":
        response_info.error_type = short_str(fields_of(fields.get("error")).get("type")) or "error"
    return OTHER_KINDS.get(name or "", LIFECYCLE)


def classify_legacy_completion(chunk: Any, response_info: ResponseInfo) -> int:
    """Classify a chunk of the legacy text completions (`/complete`), and record its stop reason in `response_info`."""
    fields = fields_of(chunk)
    return (ANSWER if fields.get("completion") else EMPTY) | record_finish(response_info, fields.get("stop_reason"))


def _classify_delta(delta: dict[str, Any], response_info: ResponseInfo) -> int:
    """Classify a delta of a content block."""
    kind, field = DELTAS.get(short_str(delta.get("type")) or "", (LIFECYCLE, "type"))
    if kind == REASONING or "signature" in delta:
        _record_reasoning(response_info, delta)
    return kind if delta.get(field) else EMPTY


def _classify_block(block: dict[str, Any], response_info: ResponseInfo) -> int:
    """Classify the start of a content block: the name of a tool is output."""
    name = short_str(block.get("type")) or ""
    if name.endswith("thinking"):
        _record_reasoning(response_info, block)
    return TOOL if name.endswith("tool_use") and block.get("name") else LIFECYCLE


def _record_reasoning(response_info: ResponseInfo, fields: dict[str, Any]) -> None:
    """Record whether a block of reasoning, or a delta of it, shows that the stream carries a summary, or nothing.

    Claude's models have done so since Claude 4, and since then their signature shows it under any name of the model.
    """
    model = response_info.model or ""
    is_claude = "claude" in model or is_signature(fields.get("signature"))
    if (is_claude and FULL_REASONING not in model) or fields.get("type") == "redacted_thinking":
        response_info.is_reasoning_partial = True


def _record_end(response_info: ResponseInfo, fields: dict[str, Any]) -> int:
    """Record the stop reason and the usage of a `message_delta` event; return the kind of the event."""
    kind = record_finish(response_info, fields_of(fields.get("delta")).get("stop_reason")) or LIFECYCLE
    usage = fields_of(fields.get("usage"))
    if usage:
        _record_usage(response_info, usage)
        kind |= USAGE
    return kind


def _record_usage(response_info: ResponseInfo, usage: dict[str, Any]) -> None:
    """Record the usage. Input that was read from or written to the cache is counted as input, too."""
    record_counts(
        response_info,
        usage,
        cache_read_tokens="cache_read_input_tokens",
        cache_creation_tokens="cache_creation_input_tokens",
        output_tokens="output_tokens",
        reasoning_tokens="output_tokens_details.thinking_tokens",
    )
    uncached = valid_count(usage.get("input_tokens"))
    if uncached is not None:
        cached = (response_info.cache_read_tokens or 0) + (response_info.cache_creation_tokens or 0)
        response_info.update_token_counts(input_tokens=valid_count(uncached + cached))
