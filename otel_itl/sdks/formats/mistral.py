"""Classifies the events of Mistral's API: chat, agents and code completions, and conversations."""

from __future__ import annotations

from typing import Any, Final

from otel_itl.core.stream import ResponseInfo
from otel_itl.sdks.formats.kinds import ANSWER, EMPTY, FINISH, LIFECYCLE, TOOL, USAGE
from otel_itl.sdks.formats.openai_chat import classify_chat, parts_kind
from otel_itl.sdks.formats.openai_responses import classify_response_event
from otel_itl.sdks.values import fields_of, record_counts, short_str

TOOL_EVENTS: Final = frozenset({"function.call.delta", "tool.execution.delta"})
"""Types of the events of a conversation that carry a tool call which the model writes."""


def classify_completion_event(event: Any, response_info: ResponseInfo) -> int:
    """Classify an event of `chat`, `agents` or `fim`: `data` is a chunk in OpenAI's chat format.

    Called with every event while the stream runs: plain text, which nearly every event is, is recognized first. What
    the service did not send is `UNSET` in the SDK's objects, rather than None.
    """
    try:
        chunk = event.data
        (choice,) = chunk.choices
        delta = choice.delta
        if (
            delta.content.__class__ is str
            and delta.content
            and delta.tool_calls.__class__ is not list
            and choice.finish_reason is None
            and not choice.index
            and chunk.usage is None
            and response_info.is_settled
            and not choice.__dict__.get("logprobs")
        ):
            return ANSWER
    except (AttributeError, TypeError, ValueError):
        pass  # no plain text
    return classify_chat(fields_of(event).get("data"), response_info)


def classify_conversation_event(event: Any, response_info: ResponseInfo) -> int:
    """Classify an event of a conversation, and record its metadata in `response_info`."""
    try:
        data = event.data
        if (
            data.type == "message.output.delta"
            and data.content.__class__ is str
            and data.content
            and response_info.response_id is not None
        ):
            return ANSWER
    except AttributeError:
        pass  # no plain text
    fields = fields_of(fields_of(event).get("data"))
    name = short_str(fields.get("type"))
    if name == "message.output.delta":
        response_info.set_identity(short_str(fields.get("id")), short_str(fields.get("model")))
        content = fields.get("content")
        parts = content if isinstance(content, list) else [content] if fields_of(content) else None
        return (ANSWER if content else EMPTY) if parts is None else parts_kind(parts)
    if name in TOOL_EVENTS:
        return TOOL if fields.get("name") or fields.get("arguments") else EMPTY
    if name == "conversation.response.done":
        return _record_end(response_info, fields_of(fields.get("usage")))
    if name == "conversation.response.error":
        code = fields.get("code")
        response_info.error_type = short_str(code) or (str(code) if isinstance(code, int) else "error")
        return FINISH
    return LIFECYCLE


def classify_response_frame(event: Any, response_info: ResponseInfo) -> int:
    """Classify an event of `responses`: `data` is an event of OpenAI's Responses API."""
    return classify_response_event(fields_of(event).get("data"), response_info)


def _record_end(response_info: ResponseInfo, usage: dict[str, Any]) -> int:
    """Record that a conversation's response is whole, and its usage; the service names no finish reason."""
    response_info.is_terminated = True
    if not usage:
        return FINISH
    record_counts(
        response_info, usage, input_tokens="prompt_tokens+connector_tokens", output_tokens="completion_tokens"
    )
    return FINISH | USAGE
