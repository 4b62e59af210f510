"""Classifies the events of Cohere's chat: of the second API by their `type`, of the first by their `event_type`."""

from __future__ import annotations

from typing import Any, Final

from otel_itl.core.chunk_code import chunk_code
from otel_itl.core.stream import ResponseInfo
from otel_itl.sdks.formats.kinds import ANSWER, EMPTY, FINISH, LIFECYCLE, REASONING, ROLE, TOOL, USAGE
from otel_itl.sdks.values import fields_of, items_of, short_str, valid_count

ERRORS: Final = frozenset({"error", "error_limit", "error_toxic", "timeout"})
"""Finish reasons of a generation that failed."""


def classify_event(event: Any, response_info: ResponseInfo) -> int:
    """Classify an event of the second API, and record its metadata in `response_info`.

    Called with every event while the stream runs: plain text, which nearly every event is, is recognized first.
    """
    try:
        if event.type == "content-delta" and event.delta.message.content.text and event.logprobs is None:
            return ANSWER
    except AttributeError:
        pass  # no plain text
    fields = fields_of(event)
    name, delta = short_str(fields.get("type")), fields_of(fields.get("delta"))
    message, kind = fields_of(delta.get("message")), LIFECYCLE
    if name in {"content-start", "content-delta"}:
        content = fields_of(message.get("content"))
        kind = (ANSWER if content.get("text") else EMPTY) | (REASONING if content.get("thinking") else EMPTY)
        kind = chunk_code(kind, len(items_of(fields_of(fields.get("logprobs")).get("token_ids"))))
    elif name == "tool-plan-delta":  # what the model intends before it calls tools
        kind = REASONING if message.get("tool_plan") else EMPTY
    elif name in {"tool-call-start", "tool-call-delta"}:
        function = fields_of(fields_of(message.get("tool_calls")).get("function"))
        kind = TOOL if function.get("name") or function.get("arguments") else EMPTY
    elif name == "message-start":
        kind = ROLE
        response_info.set_identity(short_str(fields.get("id")), None)
    elif name == "message-end":
        kind = _record_end(delta.get("finish_reason"), delta.get("usage"), response_info)
    return kind


def classify_v1_event(event: Any, response_info: ResponseInfo) -> int:
    """Do what `classify_event` does, for the first API."""
    try:
        if event.event_type == "text-generation" and event.text:
            return ANSWER
    except AttributeError:
        pass  # no plain text
    fields = fields_of(event)
    name = short_str(fields.get("event_type"))
    if name == "text-generation":
        return EMPTY
    if name == "tool-calls-chunk":
        call = fields_of(fields.get("tool_call_delta"))
        kind = REASONING if fields.get("text") or call.get("text") else EMPTY
        return kind | (TOOL if call.get("name") or call.get("parameters") else EMPTY)
    if name == "stream-start":
        response_info.set_identity(short_str(fields.get("generation_id")), None)
        return LIFECYCLE
    if name == "stream-end":
        meta = fields_of(fields.get("response")).get("meta")
        return _record_end(fields.get("finish_reason"), meta, response_info)
    return LIFECYCLE


def _record_end(reason: Any, usage: Any, response_info: ResponseInfo) -> int:
    """Record the finish reason in lower case, as the conventions write it, and the usage; return what the event is."""
    response_info.is_terminated = True
    text = (short_str(reason) or "unknown").lower()
    response_info.add_finish_reason(text)
    if text in ERRORS:
        response_info.error_type = text
    usage = fields_of(usage)
    counts = fields_of(usage.get("tokens")) or fields_of(usage.get("billed_units"))
    output = _count(counts.get("output_tokens"))
    response_info.update_token_counts(
        input_tokens=_count(counts.get("input_tokens")),
        output_tokens=output,
        cache_read_tokens=_count(usage.get("cached_tokens")),
    )
    return FINISH if output is None else FINISH | USAGE


def _count(value: Any) -> int | None:
    """Return a token count, which the SDK declares as a float; None for what is none."""
    return valid_count(int(value) if isinstance(value, float) and value.is_integer() else value)
