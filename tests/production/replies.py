"""Whole answers as bytes, in each wire format, and ways to break them."""

from __future__ import annotations

from itertools import pairwise
from typing import Final

from scripts import WIRES
from wires import Wire

from otel_itl.testing._event_stream import encode_chunk, encode_event, encode_exception, encode_message

BODIES: Final[dict[str, list[bytes]]] = {
    wire: [step.event.encode() for step in scripted.script] for wire, scripted in WIRES.items()
}
"""By wire format: the events of an answer, one after the other."""


def whole(wire: str) -> Wire:
    """The answer, an event at a time."""
    return Wire(pieces=BODIES[wire])


def broken(wire: str) -> Wire:
    """The connection is lost after the first half of the events."""
    return Wire(pieces=BODIES[wire][: len(BODIES[wire]) // 2], fault="ReadError")


def garbled(wire: str) -> Wire:
    """An event of the second half is no JSON."""
    half = len(BODIES[wire]) // 2
    return Wire(pieces=[*BODIES[wire][:half], b"data: {garbled\n\n"])


def refused(_: str) -> Wire:
    """There is no connection."""
    return Wire(pieces=(), refused="ConnectError")


def denied(_: str) -> Wire:
    """An answer of HTTP status 400."""
    body = b'{"error": {"message": "no", "type": "invalid_request_error"}}'
    return Wire(pieces=[body], status=400, headers=(("content-type", "application/json"),))


def cut(body: bytes, places: list[int]) -> list[bytes]:
    """The bytes in pieces, cut at these places."""
    edges = sorted({0, len(body), *(place % (len(body) + 1) for place in places)})
    return [body[start:end] for start, end in pairwise(edges)]


def _events(*data: str, name: str = "") -> list[bytes]:
    event = f"event: {name}\n" if name else ""
    return [f"{event}data: {text}\n\n".encode() for text in data]


_GARBAGE: Final = [
    b": a comment\n\n",
    b"\n\n",
    b"data\n\n",
    b"data: \n\n",
    b"data: null\n\n",
    b"data: [1, 2]\n\n",
    b'data: "text"\n\n',
    b"data: {garbled\n\n",
    b"data: \xff\xfe\n\n",
    b"retry: soon\nid: \x00\nevent: surprise\ndata: {}\n\n",
    b"event: error\ndata: {}\n\n",
    b'event: error\ndata: {"error": {"message": "no"}}\n\n',
    b'data: {"error": {"message": "no", "type": 3}}\n\n',
    b"data: [DONE]\n\n",
]
ODD_EVENTS: Final[dict[str, list[bytes]]] = {
    "chat": _GARBAGE
    + _events(
        '{"choices": null}',
        '{"choices": [{}]}',
        '{"choices": [{"index": null, "delta": {"content": "x"}}]}',
        '{"choices": [{"index": "0", "delta": {"content": "x"}}]}',
        '{"choices": [{"index": -1, "delta": {"content": "x"}}]}',
        '{"choices": [{"index": 99999999999999999999, "delta": {"content": "x"}}]}',
        '{"choices": [{"index": 0, "delta": null}]}',
        '{"choices": [{"index": 0, "delta": {"tool_calls": [{"function": {"name": "f", "arguments": null}}]}}]}',
        '{"choices": [{"index": 0, "delta": {"tool_calls": [{"index": null, "function": {"arguments": "{"}}]}}]}',
        '{"choices": [{"index": 0, "delta": {"content": 5}}]}',
        '{"choices": [{"index": 0, "delta": {"content": ["a"]}, "finish_reason": 7, "logprobs": {"content": 3}}]}',
        '{"choices": [{"index": 0, "delta": {"content": "x", "new": {"a": [1]}}}], "usage": {"completion_tokens": 3}}',
        '{"choices": [], "usage": {"completion_tokens": "3", "prompt_tokens": 1.5}}',
        '{"choices": [], "usage": {"completion_tokens": 99999999999999999999999, "prompt_tokens": -1}}',
        '{"choices": "many", "id": 5, "model": {"name": "m"}, "usage": true}',
    ),
    "responses": _GARBAGE
    + _events(
        '{"type": "response.output_text.delta", "delta": 5}',
        '{"type": "response.output_text.delta", "delta": "x", "logprobs": {"a": 1}, "output_index": null}',
        '{"type": "response.new", "delta": {"x": 1}}',
        '{"type": 7}',
        '{"type": "response.output_item.added", "item": [1]}',
        '{"type": "response.created", "response": null}',
        '{"type": "response.completed", "response": {"usage": {"output_tokens": "5"}, "status": 3}}',
        '{"type": "response.failed", "response": {"error": "text"}}',
        '{"type": "error", "code": 5, "message": null}',
        name="response.new",
    ),
    "messages": _GARBAGE
    + _events(
        '{"type": "content_block_delta", "index": 0, "delta": null}',
        '{"type": "content_block_delta", "index": "0", "delta": {"type": "text_delta", "text": 5}}',
        '{"type": "content_block_delta", "index": 77, "delta": {"type": "new_delta", "x": 1}}',
        name="content_block_delta",
    )
    + _events('{"type": "content_block_start", "content_block": {"type": 5}}', name="content_block_start")
    + _events('{"type": "message_delta", "delta": [], "usage": {"output_tokens": "7"}}', name="message_delta")
    + _events('{"type": "message_start", "message": {"usage": {"input_tokens": 1e400}}}', name="message_start")
    + _events('{"type": "message_start"}', '{"type": "message_start", "message": 3}', name="message_start")
    + _events('{"type": "ping", "x": [null]}', name="ping")
    + _events('{"type": "error", "error": "text"}', name="error"),
    "gemini": _GARBAGE
    + _events(
        "{}",
        '{"candidates": null}',
        '{"candidates": [{}]}',
        '{"candidates": [{"index": null, "content": {"parts": [{"text": "x"}]}}]}',
        '{"candidates": [{"index": -1, "content": {"parts": [{"text": 5}]}}]}',
        '{"candidates": [{"index": 99999999999999999999, "content": {"parts": [{"text": "x", "thought": true}]}}]}',
        '{"candidates": [{"content": {"parts": [{"functionCall": {"name": "f", "args": {"a": [1]}}}]}}]}',
        '{"candidates": [{"content": {"parts": [{"functionCall": {}}, {"inlineData": {}}]}, "finishReason": "NEW"}]}',
        '{"candidates": [{"finishReason": 7}]}',
        '{"promptFeedback": {"blockReason": "NEW"}}',
        '{"promptFeedback": null, "responseId": 5, "modelVersion": {"name": "m"}}',
        '{"usageMetadata": {"candidatesTokenCount": "3", "promptTokenCount": 1.5}}',
        '{"usageMetadata": {"candidatesTokenCount": 99999999999999999999999, "promptTokenCount": -1}}',
        '{"error": {"code": 503, "message": "no", "status": "UNAVAILABLE"}}',
    ),
    "interactions": _GARBAGE
    + _events(
        '{"event_type": "step.delta", "index": 0, "delta": null}',
        '{"event_type": "step.delta", "index": "0", "delta": {"type": "text", "text": 5}}',
        '{"event_type": "step.delta", "index": 0, "delta": {"type": "new", "x": 1}}',
        '{"event_type": "step.start", "index": 0, "step": {"type": 5}}',
        '{"event_type": "interaction.created", "interaction": 3}',
        '{"event_type": "interaction.completed", "interaction": {"usage": {"total_output_tokens": "7"}}}',
        '{"event_type": "interaction.completed", "interaction": {"id": 5, "status": "failed"}}',
        '{"event_type": 7}',
        '{"event_type": "error", "error": "text"}',
        name="step.delta",
    ),
}
ODD_EVENTS["completions"] = ODD_EVENTS["chat"]
_ODD_MEMBERS: Final = (
    b"{}",
    b"null",
    b"[1]",
    b"{garbled",
    b"\xff\xfe",
    b'{"delta": null}',
    b'{"delta": {"text": 5}}',
    b'{"delta": {"text": "a", "toolUse": {"input": "b"}}}',
    b'{"delta": {"reasoningContent": {"text": null}}}',
    b'{"delta": {"later": 1}, "contentBlockIndex": "0"}',
    b'{"stopReason": ["a"]}',
    b'{"usage": {"inputTokens": -1, "outputTokens": "5", "totalTokens": 99999999999999999999}}',
    b'{"bytes": "not Base64"}',
    b'{"bytes": null}',
)
ODD_EVENTS["converse"] = [
    *(encode_event(name, members) for name in ("contentBlockDelta", "messageStop") for members in _ODD_MEMBERS),
    *(encode_event(name, _ODD_MEMBERS[0]) for name in ("metadata", "laterEvent", "initial-response", "")),
    *(encode_exception(name, b'{"message": "no"}') for name in ("throttlingException", "laterException")),
    encode_message({":message-type": "error", ":error-code": "500"}, b""),
    encode_message({}, b"{}"),
    b"\x00" * 16,
]
ODD_EVENTS["invoke_model"] = [
    *(encode_event("chunk", members) for members in _ODD_MEMBERS),
    *(encode_chunk("", members) for members in _ODD_MEMBERS),
    *ODD_EVENTS["converse"][-6:],
]


def _lines(*data: str) -> list[bytes]:
    return [f"{text}\n".encode() for text in data]


_NO_OBJECTS: Final = [b"{garbled\n", b"\xff\xfe\n", *_lines("", "{}", "null", "[1]", '"text"', '{"error": {"a": 1}}')]
_ODD_FIGURES: Final = (
    '{"done": true, "done_reason": 7, "eval_count": "5", "eval_duration": "x", "load_duration": -1}',
    '{"done": true, "eval_count": 99999999999999999999, "eval_duration": 99999999999999999999}',
    '{"done": true, "total_duration": 1e400}',
    '{"done": "yes", "model": 5, "prompt_eval_count": 1.5}',
)
ODD_EVENTS["ollama_chat"] = _NO_OBJECTS + _lines(
    *_ODD_FIGURES,
    '{"message": null}',
    '{"message": {"role": "assistant"}}',
    '{"message": {"role": "assistant", "content": 5}}',
    '{"message": {"role": "assistant", "content": null, "thinking": "x"}}',
    '{"message": {"role": "assistant", "content": "x", "tool_calls": []}, "logprobs": [{"token": "x", "logprob": -1}]}',
    '{"message": {"role": "assistant", "content": "x", "tool_calls": [{"function": {"name": 5}}]}, "later": 1}',
)
ODD_EVENTS["ollama_generate"] = _NO_OBJECTS + _lines(
    *_ODD_FIGURES,
    '{"response": null}',
    '{"response": 5}',
    '{"response": "x", "thinking": "y"}',
    '{"completed": 1, "total": 2}',
)
ODD_EVENTS["cohere"] = _GARBAGE + _events(
    '{"type": "content-delta", "delta": null}',
    '{"type": "content-delta", "index": "0", "delta": {"message": {"content": {"text": 5}}}}',
    '{"type": "content-delta", "delta": {"message": {"content": "x"}}, "logprobs": {"token_ids": 5}}',
    '{"type": "content-start", "delta": {"message": {"content": {"type": "new", "text": "x"}}}}',
    '{"type": "tool-plan-delta", "delta": {"message": {"tool_plan": ["x"]}}}',
    '{"type": "tool-call-delta", "delta": {"message": {"tool_calls": [{"function": {"arguments": "{"}}]}}}',
    '{"type": "message-start", "id": 5}',
    '{"type": "message-end", "delta": {"finish_reason": 7, "usage": {"tokens": {"output_tokens": "5"}}}}',
    '{"type": "message-end", "delta": {"finish_reason": "NEW", "usage": {"tokens": {"output_tokens": 1e400}}}}',
    '{"type": "message-end", "delta": {"usage": [1]}}',
    '{"type": "later-event", "x": {"a": [1]}}',
    '{"type": 7}',
)
ODD_EVENTS["cohere_v1"] = _NO_OBJECTS + _lines(
    '{"event_type": "text-generation", "text": 5}',
    '{"event_type": "text-generation", "text": null}',
    '{"event_type": "tool-calls-chunk", "tool_call_delta": null}',
    '{"event_type": "tool-calls-chunk", "tool_call_delta": {"name": 5, "parameters": ["x"]}}',
    '{"event_type": "stream-start"}',
    '{"event_type": "stream-end"}',
    '{"event_type": "stream-end", "finish_reason": 7, "response": {"meta": {"tokens": {"output_tokens": -1.5}}}}',
    '{"event_type": "later", "x": 1}',
    '{"event_type": 7}',
)
