"""The anthropic SDK: its streaming routes, and what their events carry."""

from __future__ import annotations

from typing import Any

from otel_itl.core.stream import ResponseInfo
from otel_itl.core.timeline import Kind
from otel_itl.recording.recorder import StreamRecorder
from otel_itl.sdks.stainless import Member, Route, SwallowedEvent, count, fields_of, word

REASONING, ANSWER, TOOL = int(Kind.REASONING), int(Kind.ANSWER), int(Kind.TOOL)
EMPTY, LIFECYCLE, PING = int(Kind.EMPTY), int(Kind.LIFECYCLE), int(Kind.PING)
FINISH, USAGE = int(Kind.FINISH), int(Kind.USAGE)

DELTAS = {
    "text_delta": (ANSWER, "text"),
    "thinking_delta": (REASONING, "thinking"),
    "input_json_delta": (TOOL, "partial_json"),
}
"""Type of a content block's delta → what it carries, and the field that holds it."""

SIGNS = {"message_stop": FINISH, "error": FINISH, "ping": PING}


def classify_message(event: Any, answer: ResponseInfo) -> int:
    """An event of the Messages API."""
    try:
        if event.type == "content_block_delta" and event.delta.type == "text_delta" and event.delta.text:
            return ANSWER
    except AttributeError:
        pass  # not the plain event that nearly all are
    fields = fields_of(event)
    name = word(fields.get("type"))
    if name == "content_block_delta":
        delta = fields_of(fields.get("delta"))
        kind, field = DELTAS.get(word(delta.get("type")) or "", (LIFECYCLE, "type"))
        return kind if delta.get(field) else EMPTY
    if name == "content_block_start":
        block = fields_of(fields.get("content_block"))
        return TOOL if (word(block.get("type")) or "").endswith("tool_use") and block.get("name") else LIFECYCLE
    if name == "message_start":
        message = fields_of(fields.get("message"))
        answer.response_id = word(message.get("id"))
        answer.model = word(message.get("model"))
        # Its count of output tokens is that of the first event, not of the message.
        _usage(answer, {**fields_of(message.get("usage")), "output_tokens": None})
    elif name == "message_delta":
        return _message_end(answer, fields)
    elif name == "message_stop":
        answer.is_terminated = True
    elif name == "error":
        answer.error_type = word(fields_of(fields.get("error")).get("type")) or "error"
    return SIGNS.get(name or "", LIFECYCLE)


def classify_completion(event: Any, answer: ResponseInfo) -> int:
    """A chunk of the legacy text completions."""
    fields = fields_of(event)
    kind = ANSWER if fields.get("completion") else EMPTY
    reason = word(fields.get("stop_reason"))
    if reason is not None:
        answer.add_finish_reason(reason)
        kind |= FINISH
    return kind


def ping(probe: StreamRecorder) -> None:
    """The SDK passes no ping on."""
    probe.arrive(PING)


MEMBER = Member(
    package="anthropic",
    provider="anthropic",
    oldest=(0, 40),
    routes=(
        Route("messages", "chat", classify_message),
        Route("complete", "text_completion", classify_completion),
    ),
    marker=SwallowedEvent("event", "ping", ping),
    clients={"BaseBedrockClient": "aws.bedrock", "BaseVertexClient": "gcp.vertex_ai"},
)


def _message_end(answer: ResponseInfo, fields: dict[str, Any]) -> int:
    kind = LIFECYCLE
    reason = word(fields_of(fields.get("delta")).get("stop_reason"))
    if reason is not None:
        answer.add_finish_reason(reason)
        kind = FINISH
    usage = fields_of(fields.get("usage"))
    if usage:
        _usage(answer, usage)
        kind |= USAGE
    return kind


def _usage(answer: ResponseInfo, usage: dict[str, Any]) -> None:
    """Take down the usage. Input that was read from or written to the cache is input, too."""
    answer.update_token_counts(
        cache_read_tokens=count(usage.get("cache_read_input_tokens")),
        cache_creation_tokens=count(usage.get("cache_creation_input_tokens")),
        output_tokens=count(usage.get("output_tokens")),
        reasoning_tokens=count(fields_of(usage.get("output_tokens_details")).get("thinking_tokens")),
    )
    given = count(usage.get("input_tokens"))
    if given is not None:
        whole = given + (answer.cache_read_tokens or 0) + (answer.cache_creation_tokens or 0)
        answer.update_token_counts(input_tokens=count(whole))
