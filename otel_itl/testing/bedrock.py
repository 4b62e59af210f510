"""Steps of the streams of Amazon Bedrock: of `converse_stream`, and of `invoke_model_with_response_stream`.

Both are AWS's binary event stream. Every function makes one `Step`, sent `after` seconds after the one before, unless
it makes a whole well-formed `Script`: `reply` for `converse_stream`, `anthropic_reply`, `nova_reply`, `llama_reply`,
`mistral_reply` and `titan_reply` for what those families of models answer to `invoke_model_with_response_stream`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import replace

from . import messages
from ._event_stream import encode_chunk, encode_event, encode_exception
from ._pace import Gaps, Tokens, ToolCall, called, encode, paced, texts, with_members
from .script import Event, Kind, Script, Step

METRICS = "amazon-bedrock-invocationMetrics"
"""The member that Bedrock adds to the last piece of every model's answer."""


# --- converse_stream -------------------------------------------------------------------------------------------------


def event(
    kind: Kind, name: str, content: Mapping[str, object] | None = None, *, tokens: int = 0, after: float = 0.0
) -> Step:
    """Make an event of the type `name` with these members, for what the other functions lack."""
    data = encode({**(content or {}), "p": "abcdefgh"})
    return Step(after, Event(kind, data, name=name, tokens=tokens, wire="converse", frame=encode_event))


def start(*, after: float = 0.0) -> Step:
    """Make `messageStart`: the role."""
    return event("role", "messageStart", {"role": "assistant"}, after=after)


def delta(kind: Kind, content: Mapping[str, object], *, index: int = 0, tokens: int = 0, after: float = 0.0) -> Step:
    """Make a `contentBlockDelta` of the block number `index` with this `delta`."""
    members = {"contentBlockIndex": index, "delta": content}
    return event(kind, "contentBlockDelta", members, tokens=tokens, after=after)


def text(content: str, *, index: int = 0, tokens: int = 1, after: float = 0.0) -> Step:
    """Make a delta of answer text."""
    return delta("answer", {"text": content}, index=index, tokens=tokens, after=after)


def reasoning(content: str, *, index: int = 0, tokens: int = 1, after: float = 0.0) -> Step:
    """Make a delta of reasoning text."""
    return delta("reasoning", {"reasoningContent": {"text": content}}, index=index, tokens=tokens, after=after)


def signature(content: str = "c2lnbmF0dXJl", *, index: int = 0, after: float = 0.0) -> Step:
    """Make the signature that closes a reasoning block: no output."""
    return delta("lifecycle", {"reasoningContent": {"signature": content}}, index=index, after=after)


def tool_start(name: str, *, index: int = 0, tokens: int = 1, after: float = 0.0) -> Step:
    """Make the start of a tool call: its id and its name, which is output."""
    members = {"contentBlockIndex": index, "start": {"toolUse": {"toolUseId": f"tooluse_{index}", "name": name}}}
    return event("tool", "contentBlockStart", members, tokens=tokens, after=after)


def tool_arguments(piece: str, *, index: int = 0, tokens: int = 1, after: float = 0.0) -> Step:
    """Make a delta of the JSON arguments of a tool call."""
    return delta("tool", {"toolUse": {"input": piece}}, index=index, tokens=tokens, after=after)


def empty(*, index: int = 0, after: float = 0.0) -> Step:
    """Make a text delta without text."""
    return delta("empty", {"text": ""}, index=index, after=after)


def block_stop(*, index: int = 0, after: float = 0.0) -> Step:
    """Make the end of the block number `index`."""
    return event("lifecycle", "contentBlockStop", {"contentBlockIndex": index}, after=after)


def finish(reason: str = "end_turn", *, after: float = 0.0) -> Step:
    """Make `messageStop`: the stop reason."""
    return event("finish", "messageStop", {"stopReason": reason}, after=after)


def usage(
    output: int, *, prompt: int = 10, cache_read: int = 0, cache_write: int = 0, latency: int = 100, after: float = 0.0
) -> Step:
    """Make `metadata`, the last event: the token counts, and the service's own latency in milliseconds.

    `prompt` counts the tokens of the prompt that were neither read from the cache nor written to it.
    """
    counts: dict[str, object] = {
        "inputTokens": prompt,
        "outputTokens": output,
        "totalTokens": prompt + cache_read + cache_write + output,
    }
    if cache_read or cache_write:
        counts.update(cacheReadInputTokens=cache_read, cacheWriteInputTokens=cache_write)
    return event("usage", "metadata", {"usage": counts, "metrics": {"latencyMs": latency}}, after=after)


def error(message: str = "The model failed", *, kind: str = "modelStreamErrorException", after: float = 0.0) -> Step:
    """Make an exception in the middle of either stream; the SDK raises `EventStreamError`. `kind` is its code."""
    return Step(after, Event("error", encode({"message": message}), name=kind, frame=encode_exception))


def invalid_json(*, after: float = 0.0) -> Step:
    """Make an event whose payload is cut-off JSON, with correct checksums."""
    return Step(after, Event("raw", raw=encode_event("contentBlockDelta", b'{"delta": {')))


def damaged(*, after: float = 0.0) -> Step:
    """Make an event with a wrong checksum; the SDK raises `ChecksumMismatch`."""
    data = encode_event("contentBlockDelta", b'{"delta": {"text": "a"}}')
    return Step(after, Event("raw", raw=data[:-1] + bytes([data[-1] ^ 1])))


def refusal(
    code: int = 429, kind: str = "ThrottlingException", message: str = "Too many requests", *, after: float = 0.0
) -> Script:
    """Make a script that refuses the request with this HTTP status; the SDK raises its exception named `kind`."""
    body = json.dumps({"message": message}).encode()
    return Script(status=code, headers={"x-amzn-errortype": kind}, headers_delay=after, body=body)


def reply(
    tokens: Tokens = 3,
    *,
    first: float = 0.0,
    gaps: Gaps = 0.0,
    reasoning: Tokens = 0,
    hidden_reasoning: int = 0,
    tools: Iterable[ToolCall] = (),
    stop_reason: str | None = None,
) -> Script:
    """Make a whole stream of `converse_stream`: `messageStart`, the blocks, `messageStop`, `metadata`.

    `messageStart` goes out with the headers; `first` and `gaps` space the output events, the rest follows at once.

    Args:
        tokens: the answer, one text delta a token.
        first: seconds from the headers to the first output event.
        gaps: seconds between successive output events, one number or exactly one each.
        reasoning: reasoning tokens before the answer, closed by a signature.
        hidden_reasoning: further tokens of reasoning, which the usage counts and no event carries, as Claude's since
            Claude 4: those of `reasoning` are a summary then.
        tools: tool calls after the answer; the block's start (the name) and each piece of the arguments are output.
        stop_reason: by default `tool_use` when there are tool calls, else `end_turn`.
    """
    answers, thoughts, calls = texts(tokens), texts(reasoning), called(tools)
    blocks: list[list[Step]] = []
    if thoughts or hidden_reasoning:
        signed = signature(messages.WITHHELD) if hidden_reasoning else signature()
        blocks.append([*(_reasoning(thought) for thought in thoughts), signed, block_stop()])
    if answers:
        at = len(blocks)
        blocks.append([*(text(answer, index=at) for answer in answers), block_stop(index=at)])
    for name, pieces in calls:
        at = len(blocks)
        arguments = (tool_arguments(piece, index=at) for piece in pieces)
        blocks.append([tool_start(name, index=at), *arguments, block_stop(index=at)])
    steps = [step for block in blocks for step in block]
    output = sum(step.event.tokens for step in steps) + hidden_reasoning
    reason = stop_reason or ("tool_use" if calls else "end_turn")
    return paced([start(), *steps, finish(reason), usage(output)], first, gaps)


# `reply` has an argument of this name.
_reasoning = reasoning


# --- invoke_model_with_response_stream -------------------------------------------------------------------------------


def chunk(kind: Kind, body: Mapping[str, object], *, tokens: int = 0, after: float = 0.0) -> Step:
    """Make a piece of a model's own answer, for what the other functions lack."""
    return Step(after, Event(kind, encode(body), tokens=tokens, wire="invoke_model", frame=encode_chunk))


def invoked(script: Script, *, prompt: int = 10, output: int | None = None) -> Script:
    """Make the answer to `invoke_model_with_response_stream` from a script of the format that the model speaks.

    Each event becomes a piece of the answer; the last one gets the token counts and latencies that Bedrock adds.

    Args:
        script: of `messages`, `chat`, or of this module (Nova speaks the format of `converse_stream`).
        prompt: the tokens of the prompt.
        output: the tokens of the answer; by default those of the script.
    """
    steps = [_as_chunk(step) for step in script if step.event.data != "[DONE]"]
    *rest, last = steps
    metrics = {
        "inputTokenCount": prompt,
        "outputTokenCount": script.tokens if output is None else output,
        "invocationLatency": 100,
        "firstByteLatency": 10,
    }
    return replace(script, steps=(*rest, with_members(last, {METRICS: metrics})))


def anthropic_reply(tokens: Tokens = 3, *, first: float = 0.0, gaps: Gaps = 0.0, thinking: Tokens = 0) -> Script:
    """Make the answer of a model of Anthropic. The arguments are those of `messages.reply`."""
    return invoked(messages.reply(tokens, first=first, gaps=gaps, thinking=thinking))


def nova_reply(tokens: Tokens = 3, *, first: float = 0.0, gaps: Gaps = 0.0) -> Script:
    """Make the answer of a model of the family Nova. The arguments are those of `reply`."""
    return invoked(reply(tokens, first=first, gaps=gaps))


def llama_reply(
    tokens: Tokens = 3, *, first: float = 0.0, gaps: Gaps = 0.0, prompt: int = 10, stop_reason: str = "stop"
) -> Script:
    """Make the answer of a model of the family Llama: text with the count of the tokens so far, then the reason."""
    counts = {"prompt_token_count": None, "generation_token_count": None, "stop_reason": None}
    answers = texts(tokens)
    steps = [
        chunk(
            "answer",
            {**counts, "generation": answer, "generation_token_count": index + 1}
            | ({} if index else {"prompt_token_count": prompt}),
            tokens=1,
        )
        for index, answer in enumerate(answers)
    ]
    end = {**counts, "generation": "", "generation_token_count": len(answers) + 1, "stop_reason": stop_reason}
    return invoked(paced([*steps, chunk("finish", end)], first, gaps), prompt=prompt, output=len(answers) + 1)


def mistral_reply(
    tokens: Tokens = 3, *, first: float = 0.0, gaps: Gaps = 0.0, prompt: int = 10, stop_reason: str = "stop"
) -> Script:
    """Make the answer of a model of Mistral that completes text; those that chat speak the format of `chat`."""
    steps = [
        chunk("answer", {"outputs": [{"text": answer, "stop_reason": None}]}, tokens=1) for answer in texts(tokens)
    ]
    end = chunk("finish", {"outputs": [{"text": "", "stop_reason": stop_reason}]})
    return invoked(paced([*steps, end], first, gaps), prompt=prompt)


def titan_reply(
    tokens: Tokens = 3, *, first: float = 0.0, gaps: Gaps = 0.0, prompt: int = 10, stop_reason: str = "FINISH"
) -> Script:
    """Make the answer of a model of the family Titan: text with the count of the tokens so far."""
    counts = {"index": 0, "totalOutputTextTokenCount": None, "completionReason": None, "inputTextTokenCount": None}
    answers = texts(tokens)
    steps = [chunk("answer", {**counts, "outputText": answer}, tokens=1) for answer in answers]
    total = {"totalOutputTextTokenCount": len(answers), "inputTextTokenCount": prompt}
    end = {**counts, **total, "outputText": "", "completionReason": stop_reason}
    return invoked(paced([*steps, chunk("finish", end)], first, gaps), prompt=prompt)


def _as_chunk(step: Step) -> Step:
    """Make the piece of an answer that carries an event of another format."""
    data = step.event.data
    if step.event.wire == "converse":  # there the name of an event stands in a header
        data = encode({step.event.name or "": {name: value for name, value in json.loads(data).items() if name != "p"}})
    return replace(step, event=replace(step.event, data=data, name="chunk", wire="invoke_model", frame=encode_chunk))
