"""The anthropic SDK: its streaming routes, and what their events carry."""

from __future__ import annotations

from typing import Any

from otel_itl.exchange import Answer
from otel_itl.record.probe import Probe
from otel_itl.sdks.stainless import Marker, Member, Route, count, fields_of
from otel_itl.timeline import Kind

REASONING, ANSWER, TOOL = int(Kind.REASONING), int(Kind.ANSWER), int(Kind.TOOL)
LIFECYCLE, PING, FINISH, USAGE = int(Kind.LIFECYCLE), int(Kind.PING), int(Kind.FINISH), int(Kind.USAGE)

DELTAS = {
    "text_delta": (ANSWER, "text"),
    "thinking_delta": (REASONING, "thinking"),
    "input_json_delta": (TOOL, "partial_json"),
}
"""Type of a content block's delta → what it carries, and the field that holds it."""


def classify_message(event: Any, answer: Answer) -> int:
    """An event of the Messages API."""
    try:
        if event.type == "content_block_delta" and event.delta.type == "text_delta" and event.delta.text:
            return ANSWER
    except AttributeError:
        pass  # not the plain event that nearly all are
    fields = fields_of(event)
    name = fields.get("type")
    if name == "content_block_delta":
        delta = fields_of(fields.get("delta"))
        kind, field = DELTAS.get(delta.get("type"), (LIFECYCLE, "type"))  # type: ignore[arg-type]  # any key may be asked for
        return kind if delta.get(field) else 0
    if name == "content_block_start":
        block = fields_of(fields.get("content_block"))
        return TOOL if str(block.get("type")).endswith("tool_use") and block.get("name") else LIFECYCLE
    if name == "message_start":
        message = fields_of(fields.get("message"))
        identity, model = message.get("id"), message.get("model")
        answer.response_id = identity if isinstance(identity, str) else None
        answer.model = model if isinstance(model, str) else None
        _usage(answer, message.get("usage"))
    elif name == "message_delta":
        return _message_end(answer, fields)
    elif name == "message_stop":
        answer.terminated = True
        return FINISH
    return PING if name == "ping" else LIFECYCLE


def classify_completion(event: Any, answer: Answer) -> int:
    """A chunk of the legacy text completions."""
    fields = fields_of(event)
    kind = ANSWER if fields.get("completion") else 0
    reason = fields.get("stop_reason")
    if reason is not None:
        answer.finish_reasons.append(str(reason))
        kind |= FINISH
    return kind


def ping(probe: Probe) -> None:
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
    marker=Marker("event", "ping", ping),
)


def _message_end(answer: Answer, fields: dict[str, Any]) -> int:
    kind = LIFECYCLE
    reason = fields_of(fields.get("delta")).get("stop_reason")
    if reason is not None:
        answer.finish_reasons.append(str(reason))
        kind = FINISH
    if fields.get("usage") is not None:
        _usage(answer, fields["usage"])
        kind |= USAGE
    return kind


def _usage(answer: Answer, usage: Any) -> None:
    """Take down the usage. Input that was read from or written to the cache is input, too."""
    fields = fields_of(usage)
    read, written = count(fields.get("cache_read_input_tokens")), count(fields.get("cache_creation_input_tokens"))
    if read is not None:
        answer.cache_read_tokens = read
    if written is not None:
        answer.cache_creation_tokens = written
    given = count(fields.get("input_tokens"))
    if given is not None:
        answer.input_tokens = given + (answer.cache_read_tokens or 0) + (answer.cache_creation_tokens or 0)
    produced = count(fields.get("output_tokens"))
    if produced is not None:
        answer.output_tokens = produced
    thinking = count(fields_of(fields.get("output_tokens_details")).get("thinking_tokens"))
    if thinking is not None:
        answer.reasoning_tokens = thinking
