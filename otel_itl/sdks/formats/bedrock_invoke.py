"""Classifies the pieces of what a model answers to Bedrock's `invoke_model_with_response_stream`, in its own format."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Final

from otel_itl.core.chunk_code import chunk_code
from otel_itl.core.stream import ResponseInfo
from otel_itl.sdks.formats.anthropic_messages import classify_legacy_completion, classify_message_event
from otel_itl.sdks.formats.bedrock_converse import EVENTS, classify_converse_event
from otel_itl.sdks.formats.kinds import ANSWER, EMPTY, LIFECYCLE, USAGE
from otel_itl.sdks.formats.openai_chat import classify_chat, classify_text_completion
from otel_itl.sdks.values import (
    fields_of,
    items_of,
    record_counts,
    record_finish,
    valid_count,
    valid_seconds,
)

METRICS: Final = "amazon-bedrock-invocationMetrics"
"""The field that Bedrock adds to the last piece of every model's answer."""
METRIC_COUNTS: Final = {
    "input_tokens": "inputTokenCount+cacheReadInputTokenCount+cacheWriteInputTokenCount",
    "output_tokens": "outputTokenCount",
    "cache_read_tokens": "cacheReadInputTokenCount",
    "cache_creation_tokens": "cacheWriteInputTokenCount",
}
"""Our name of a count → those of what is added up for it, in that field."""
TEXT_EVENTS: Final = tuple(
    b'{"type":"content_block_delta","index":%d,"delta":{"type":"text_delta","text":"' % index for index in range(10)
)
"""How an event with text of Anthropic's models begins."""
TEXT_START: Final = len(TEXT_EVENTS[0])
QUOTE: Final = ord('"')
"""What stands in the place of the text where it is empty."""
TEXT_FIELDS: Final = (("generation", "outputText", "text"), ("stop_reason", "completionReason", "finish_reason"))
"""Fields of an output of the families Llama, Titan, Mistral and Command: of its text, and of why the model stopped."""


def classify_invocation_chunk(chunk: Any, response_info: ResponseInfo) -> int:
    """Classify a chunk of `invoke_model_with_response_stream`, and record its metadata in `response_info`.

    The SDK hands out bytes, which are decoded here. The family of the model shows in the fields. A chunk that is no
    JSON object carries nothing.
    """
    try:
        written = chunk["chunk"]["bytes"]
        # Nearly every chunk is such an event, which need not be decoded.
        if written.startswith(TEXT_EVENTS) and written.endswith(b'"}}') and written[TEXT_START] != QUOTE:
            return ANSWER
        body = json.loads(written.decode())  # a text is decoded faster than bytes
    except (AttributeError, KeyError, TypeError, ValueError, RecursionError):
        return EMPTY
    try:  # the text of Anthropic's models, whose SDK's objects have attributes where there are items here
        if body["delta"]["text"] and body["type"] == "content_block_delta":
            return ANSWER
    except (KeyError, TypeError):
        pass  # another chunk, or another family
    if not isinstance(body, dict):
        return EMPTY
    classify = next((CLASSIFIERS[name] for name in body if name in CLASSIFIERS), None)
    kind = LIFECYCLE if classify is None else classify(body, response_info)
    if METRICS in body:
        _record_metrics(response_info, fields_of(body[METRICS]))
        kind |= USAGE
    return kind


def _anthropic(body: dict[str, Any], response_info: ResponseInfo) -> int:
    """Classify an event of Anthropic's models."""
    if "completion" in body:
        return classify_legacy_completion(body, response_info)
    return classify_message_event(body, response_info)


def _text_kind(output: dict[str, Any], response_info: ResponseInfo, choice: int = 0) -> int:
    """Return what an output of text carries, and record the reason for which the model stopped."""
    text, reason = (next((output[name] for name in names if name in output), None) for names in TEXT_FIELDS)
    return (ANSWER if text else EMPTY) | record_finish(response_info, reason, choice)


def _llama(body: dict[str, Any], response_info: ResponseInfo) -> int:
    """Classify a chunk of the family Llama: each has the count of the tokens so far."""
    record_counts(response_info, body, input_tokens="prompt_token_count", output_tokens="generation_token_count")
    kind = _text_kind(body, response_info)
    has_usage = valid_count(body.get("generation_token_count")) is not None
    return chunk_code(kind, response_info.count_streamed(kind, has_usage=has_usage) if kind & ANSWER else 0)


def _titan(body: dict[str, Any], response_info: ResponseInfo) -> int:
    """Classify a chunk of the family Titan."""
    record_counts(response_info, body, input_tokens="inputTextTokenCount", output_tokens="totalOutputTextTokenCount")
    return _text_kind(body, response_info)


def _mistral(body: dict[str, Any], response_info: ResponseInfo) -> int:
    """Classify a chunk of a model of Mistral that completes text."""
    kind = EMPTY
    for choice, output in enumerate(map(fields_of, items_of(body.get("outputs")))):
        kind |= _text_kind(output, response_info, choice)
    return kind


def _choices(body: dict[str, Any], response_info: ResponseInfo) -> int:
    """Classify a chunk in OpenAI's formats, as Mistral, DeepSeek, Jamba and gpt-oss send with fields of their own."""
    choices = [
        {
            **choice,
            "delta": choice.get("delta") or choice.get("message"),
            "finish_reason": choice.get("finish_reason") or choice.get("stop_reason"),
        }
        for choice in map(fields_of, items_of(body.get("choices")))
    ]
    is_completion = any("text" in choice for choice in choices)
    classify = classify_text_completion if is_completion else classify_chat
    return classify({**body, "choices": choices}, response_info)


CLASSIFIERS: Final[dict[str, Callable[[dict[str, Any], ResponseInfo], int]]] = {
    "type": _anthropic,
    "completion": _anthropic,
    **dict.fromkeys(EVENTS, classify_converse_event),
    "generation": _llama,
    "outputText": _titan,
    "outputs": _mistral,
    "choices": _choices,
    "text": _text_kind,
}
"""Field of a body → what classifies bodies that have it. The first field that is listed here counts."""


def _record_metrics(response_info: ResponseInfo, metrics: dict[str, Any]) -> None:
    """Record the latencies that Bedrock itself adds, and its token counts where the model's format has none."""
    response_info.is_terminated = True
    response_info.update_server_durations(
        total=valid_seconds(metrics.get("invocationLatency"), 1000),
        first_byte=valid_seconds(metrics.get("firstByteLatency"), 1000),
    )
    missing = {ours: theirs for ours, theirs in METRIC_COUNTS.items() if getattr(response_info, ours) is None}
    record_counts(response_info, metrics, **missing)
