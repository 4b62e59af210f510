"""Steps of the Anthropic messages stream (`/v1/messages`).

Every function makes one `Step`, sent `after` seconds after the one before; `reply` makes a whole well-formed `Script`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from ._pace import Gaps, Tokens, ToolCall, called, encode, paced, present, texts
from .script import ID, MODEL, Event, Kind, Script, Step

WITHHELD: Final = "ErUBCkYIARgCIkDy" + "4vbQ7xkN2mZp" * 27 + "GgwIARACGAIYAQ=="
"""A signature as long as Claude's are, in which the reasoning itself is encrypted."""


def event(
    kind: Kind, name: str, content: Mapping[str, object] | None = None, *, tokens: int = 0, after: float = 0.0
) -> Step:
    """Make an event of the type `name` with these members, for what the other functions lack."""
    payload = {"type": name, **(content or {})}
    return Step(after, Event(kind, encode(payload), name=name, tokens=tokens, wire="messages"))


def start(*, prompt: int = 10, output: int = 1, after: float = 0.0) -> Step:
    """Make `message_start`: the empty message and the tokens of the prompt."""
    opening = {"id": ID, "type": "message", "role": "assistant", "model": MODEL, "content": []}
    cached = {"cache_creation_input_tokens": 0, "cache_read_input_tokens": 0}
    usage = {"input_tokens": prompt, **cached, "output_tokens": output}
    message = {**opening, "stop_reason": None, "stop_sequence": None, "usage": usage}
    return event("lifecycle", "message_start", {"message": message}, after=after)


def text_start(*, index: int = 0, after: float = 0.0) -> Step:
    """Make the start of a text block."""
    return _block_start({"type": "text", "text": ""}, index=index, after=after)


def thinking_start(*, index: int = 0, after: float = 0.0) -> Step:
    """Make the start of a thinking block."""
    return _block_start({"type": "thinking", "thinking": "", "signature": ""}, index=index, after=after)


def tool_start(name: str, *, index: int = 0, tokens: int = 1, after: float = 0.0) -> Step:
    """Make the start of a tool call: its id and its name, which is output."""
    block = {"type": "tool_use", "id": f"toolu_{index}", "name": name, "input": {}}
    return _block_start(block, kind="tool", index=index, tokens=tokens, after=after)


def text(content: str, *, index: int = 0, tokens: int = 1, after: float = 0.0) -> Step:
    """Make a delta of answer text."""
    return _delta("answer", {"type": "text_delta", "text": content}, index=index, tokens=tokens, after=after)


def thinking(content: str, *, index: int = 0, tokens: int = 1, after: float = 0.0) -> Step:
    """Make a delta of reasoning text."""
    return _delta("reasoning", {"type": "thinking_delta", "thinking": content}, index=index, tokens=tokens, after=after)


def signature(content: str = "c2lnbmF0dXJl", *, index: int = 0, after: float = 0.0) -> Step:
    """Make the signature that closes a thinking block: no output."""
    return _delta("lifecycle", {"type": "signature_delta", "signature": content}, index=index, tokens=0, after=after)


def withheld(*, index: int = 0, after: float = 0.0) -> Step:
    """Make the signature of a block of which only a summary is streamed, or nothing."""
    return signature(WITHHELD, index=index, after=after)


def tool_arguments(piece: str, *, index: int = 0, tokens: int = 1, after: float = 0.0) -> Step:
    """Make a delta of the JSON arguments of a tool call."""
    return _delta("tool", {"type": "input_json_delta", "partial_json": piece}, index=index, tokens=tokens, after=after)


def empty(*, index: int = 0, after: float = 0.0) -> Step:
    """Make a text delta without text."""
    return _delta("empty", {"type": "text_delta", "text": ""}, index=index, tokens=0, after=after)


def block_stop(*, index: int = 0, after: float = 0.0) -> Step:
    """Make the end of the block number `index`."""
    return event("lifecycle", "content_block_stop", {"index": index}, after=after)


def ping(*, after: float = 0.0) -> Step:
    """Make a keep-alive: `event: ping`."""
    return event("ping", "ping", after=after)


def finish(reason: str = "end_turn", *, output: int, thinking: int = 0, after: float = 0.0) -> Step:
    """Make `message_delta`: the stop reason, and the output tokens (of which some were thinking)."""
    usage = present(output_tokens=output, output_tokens_details={"thinking_tokens": thinking} if thinking else None)
    delta = {"stop_reason": reason, "stop_sequence": None}
    return event("finish", "message_delta", {"delta": delta, "usage": usage}, after=after)


def stop(*, after: float = 0.0) -> Step:
    """Make the terminator: `message_stop`."""
    return event("done", "message_stop", after=after)


def error(message: str = "Overloaded", *, kind: str = "overloaded_error", after: float = 0.0) -> Step:
    """Make an error in the middle of the stream; the SDK raises `anthropic.APIStatusError`. `kind` is its `type`."""
    return event("error", "error", {"error": {"type": kind, "message": message}}, after=after)


def reply(
    tokens: Tokens = 3,
    *,
    first: float = 0.0,
    gaps: Gaps = 0.0,
    thinking: Tokens = 0,
    hidden_thinking: int = 0,
    tools: Iterable[ToolCall] = (),
    stop_reason: str | None = None,
    details: bool = True,
) -> Script:
    """Make a whole stream: `message_start`, blocks for thinking, text and tool calls, `message_delta`, `message_stop`.

    `message_start` goes out with the headers; `first` and `gaps` space the output events, the rest follows at once.

    Args:
        tokens: the answer, one text delta a token.
        first: seconds from the headers to the first output event.
        gaps: seconds between successive output events, one number or exactly one each.
        thinking: thinking tokens before the answer, closed by a signature.
        hidden_thinking: further tokens of thinking, which the usage counts and no event carries, as since Claude 4:
            those of `thinking` are a summary then.
        tools: tool calls after the answer; the block's start (the name) and each piece of the arguments are output.
        stop_reason: by default `tool_use` when there are tool calls, else `end_turn`.
        details: the usage shows how many of the output tokens are thinking, which older services do not.
    """
    answers, thoughts, calls = texts(tokens), texts(thinking), called(tools)
    blocks: list[list[Step]] = []
    if thoughts or hidden_thinking:
        signed = withheld() if hidden_thinking else signature()
        blocks.append([thinking_start(), *(_thinking(thought) for thought in thoughts), signed, block_stop()])
    if answers:
        at = len(blocks)
        blocks.append([text_start(index=at), *(text(answer, index=at) for answer in answers), block_stop(index=at)])
    for name, pieces in calls:
        at = len(blocks)
        arguments = (tool_arguments(piece, index=at) for piece in pieces)
        blocks.append([tool_start(name, index=at), *arguments, block_stop(index=at)])
    steps = [step for block in blocks for step in block]
    output = sum(step.event.tokens for step in steps) + hidden_thinking
    reason = stop_reason or ("tool_use" if calls else "end_turn")
    counted = len(thoughts) + hidden_thinking if details else 0
    return paced([start(), *steps, finish(reason, output=output, thinking=counted), stop()], first, gaps)


# `reply` has an argument of this name.
_thinking = thinking


def _block_start(
    block: Mapping[str, object], *, index: int, after: float, kind: Kind = "lifecycle", tokens: int = 0
) -> Step:
    content = {"index": index, "content_block": block}
    return event(kind, "content_block_start", content, tokens=tokens, after=after)


def _delta(kind: Kind, delta: Mapping[str, object], *, index: int, tokens: int, after: float) -> Step:
    return event(kind, "content_block_delta", {"index": index, "delta": delta}, tokens=tokens, after=after)
