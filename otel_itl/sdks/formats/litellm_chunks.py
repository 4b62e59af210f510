"""Classifies what litellm's routes stream: chunks of chat completions, and dicts of litellm's own make.

A route makes them of the provider's events one by one, before litellm's stream object handles them: also of events
that never reach the caller. A chunk with nothing in it stands for a line that is no event.
"""

from __future__ import annotations

import json
import re
from typing import Any, Final

from otel_itl.core.stream import ResponseInfo
from otel_itl.sdks.formats.kinds import ANSWER, EMPTY, REASONING
from otel_itl.sdks.formats.openai_chat import classify_chat
from otel_itl.sdks.formats.openai_responses import classify_response_event
from otel_itl.sdks.values import fields_of, short_str, valid_count

OWN_ID: Final = re.compile(r"chatcmpl-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
"""An id that litellm made up, for a provider that has none or whose id it does not pass on."""
INPUT_COUNTS: Final = ("input_tokens", "cache_read_tokens", "cache_creation_tokens")
"""Counts that the last usage of a stream may lack."""


def classify_litellm_chunk(chunk: Any, response_info: ResponseInfo) -> int:
    """Classify a chunk of one of litellm's routes, and record its metadata in `response_info`.

    Called with every chunk while the stream runs: plain text, which nearly every chunk is, is recognized first.
    """
    if type(chunk) is dict and "is_finished" in chunk:
        return _classify_own(chunk, response_info)
    try:
        (choice,) = chunk.choices
        known = choice.__pydantic_extra__
        delta = known["delta"]
        carried = delta.__pydantic_extra__
        reasoning = delta.__dict__.get("reasoning_content")
        if (
            (carried["content"] or reasoning)
            and carried["tool_calls"] is None
            and carried["function_call"] is None
            and known["finish_reason"] is None
            and known["logprobs"] is None
            and not known["index"]
            and chunk.__pydantic_extra__.get("usage") is None
            and response_info.is_settled
        ):
            return ANSWER if not reasoning else REASONING | ANSWER if carried["content"] else REASONING
    except (AttributeError, KeyError, TypeError, ValueError):
        pass  # no plain text
    return _classify_chat(chunk, response_info)


def _classify_chat(chunk: Any, response_info: ResponseInfo) -> int:
    """Classify a chunk of chat completions."""
    fields = fields_of(chunk)
    if OWN_ID.fullmatch(short_str(fields.get("id")) or ""):
        response_info.set_identity("", None)
    return _classify_counted(chunk, fields_of(fields.get("usage")), response_info)


def _classify_counted(chunk: Any, usage: dict[str, Any], response_info: ResponseInfo) -> int:
    """Classify a chunk of chat completions, and record the counts in its usage that only litellm has.

    Usage that comes in two parts has the input in the first one, and then 0.
    """
    if not usage:
        return classify_chat(chunk, response_info)
    earlier = {name: getattr(response_info, name) for name in INPUT_COUNTS}
    code = classify_chat(chunk, response_info)
    response_info.cache_creation_tokens = valid_count(usage.get("cache_creation_input_tokens"))
    response_info.update_token_counts(
        **{name: count for name, count in earlier.items() if not getattr(response_info, name)}
    )
    return code


def _classify_own(chunk: dict[str, Any], response_info: ResponseInfo) -> int:
    """Classify a dict of litellm's own make, as the chunk of chat completions that it stands for."""
    text, tool, reason = chunk.get("text"), chunk.get("tool_use"), short_str(chunk.get("finish_reason"))
    if chunk.get("is_finished") and not text and response_info.is_finished:  # `[DONE]` behind the provider's own reason
        reason = None
    usage = fields_of(chunk.get("usage"))
    if not (text or tool or reason or usage):
        return EMPTY
    response_info.response_id = response_info.response_id or ""
    own = fields_of(chunk.get("provider_specific_fields"))
    delta = {"content": text, "tool_calls": [tool] if tool else None, "reasoning_content": own.get("reasoning_content")}
    choice = {"index": chunk.get("index"), "delta": delta, "finish_reason": reason}
    return _classify_counted({"choices": [choice], "usage": usage}, usage, response_info)


def classify_response_data(event: Any, response_info: ResponseInfo) -> int:
    """Classify a server-sent event of the Responses API, or a line of one, and record its metadata."""
    data = event.removeprefix("data:") if isinstance(event, str) else event.data
    try:
        fields = json.loads(data)
    except ValueError:  # the end marker, or a line without data
        return EMPTY
    return classify_response_event(fields, response_info) if isinstance(fields, dict) else EMPTY
