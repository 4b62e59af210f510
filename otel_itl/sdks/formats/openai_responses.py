"""Classifies the events of OpenAI's Responses API."""

from __future__ import annotations

from typing import Any, Final

from otel_itl.core.chunk_code import chunk_code
from otel_itl.core.stream import ResponseInfo
from otel_itl.sdks.formats.kinds import ANSWER, EMPTY, FINISH, LIFECYCLE, PING, REASONING, TOOL, USAGE
from otel_itl.sdks.values import fields_of, items_of, record_counts, short_str

DELTAS: Final = {
    "response.output_text.delta": ANSWER,
    "response.refusal.delta": ANSWER,
    "response.audio.delta": ANSWER,
    "response.audio.transcript.delta": ANSWER,
    "response.reasoning_text.delta": REASONING,
    "response.reasoning_summary_text.delta": REASONING,
    "response.function_call_arguments.delta": TOOL,
    "response.custom_tool_call_input.delta": TOOL,
    "response.mcp_call_arguments.delta": TOOL,
    "response.code_interpreter_call_code.delta": TOOL,
    "response.shell_call_command.delta": TOOL,
}
"""Type of an event with a `delta` → what it carries."""
SUMMARY: Final = "response.reasoning_summary_text.delta"

ENDS: Final = frozenset({"response.completed", "response.incomplete", "response.failed", "response.cancelled"})
STEERED: Final = "steered"
"""The reason of an incomplete response that goes on, with the caller's new input, as another one."""
TOOL_CALL_ITEMS: Final = frozenset({"function_call", "custom_tool_call", "mcp_call"})
OTHER_KINDS: Final = {"error": FINISH, "keepalive": PING}
"""Type of an event that carries no output and is not part of the lifecycle → its kind."""


def classify_response_event(event: Any, response_info: ResponseInfo) -> int:
    """Classify an event of the Responses API, and record its metadata in `response_info`.

    Called with every event while the stream runs: plain text, which nearly every event is, is recognized first.
    """
    try:
        if event.type == "response.output_text.delta" and event.delta and not event.logprobs:
            return ANSWER
    except AttributeError:
        pass  # no plain text
    fields = fields_of(event)
    name = short_str(fields.get("type")) or ""
    kind = DELTAS.get(name)
    if kind is not None:
        if name == SUMMARY:
            response_info.is_reasoning_partial = True
        return chunk_code(kind, len(items_of(fields.get("logprobs")))) if fields.get("delta") else EMPTY
    if name == "response.output_item.added":
        item = fields_of(fields.get("item"))
        return TOOL if short_str(item.get("type")) in TOOL_CALL_ITEMS and item.get("name") else LIFECYCLE
    response = fields_of(fields["response"]) if "response" in fields else {}
    # The first events of a response that is fetched from its middle on are not sent: any of those that have it will do.
    response_info.set_identity(short_str(response.get("id")), short_str(response.get("model")))
    response_info.is_background = response_info.is_background or response.get("background") is True
    if name in ENDS:
        return _record_end(response_info, name, response)
    if name == "error":
        error = fields_of(fields.get("error"))  # over WebSockets
        codes = (fields.get("code"), error.get("code"), error.get("type"))
        response_info.error_type = next(filter(None, map(short_str, codes)), "error")
    return OTHER_KINDS.get(name, LIFECYCLE)


def _record_end(response_info: ResponseInfo, name: str, response: dict[str, Any]) -> int:
    """Record how the response ended, and its usage; return the kind of the event."""
    response_info.is_terminated = True
    response_info.model = short_str(response.get("model")) or response_info.model
    if name == "response.failed":
        response_info.error_type = short_str(fields_of(response.get("error")).get("code")) or "failed"
    incomplete = short_str(fields_of(response.get("incomplete_details")).get("reason"))
    response_info.is_interrupted = incomplete == STEERED
    response_info.add_finish_reason(incomplete or short_str(response.get("status")) or name.partition(".")[2])
    usage = fields_of(response.get("usage"))
    if not usage:
        return FINISH
    record_counts(
        response_info,
        usage,
        input_tokens="input_tokens",
        output_tokens="output_tokens",
        reasoning_tokens="output_tokens_details.reasoning_tokens",
        cache_read_tokens="input_tokens_details.cached_tokens",
    )
    return FINISH | USAGE
