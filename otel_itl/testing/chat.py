"""Steps of the OpenAI chat completions stream (`/chat/completions`).

Every function makes one `Step`, sent `after` seconds after the one before; `reply` makes a whole well-formed `Script`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Literal

from ._pace import Gaps, Tokens, ToolCall, called, encode, logprob_entries, paced, present, texts, with_running_usage
from .script import CREATED, ID, MODEL, Event, Kind, Script, Step

ReasoningField = Literal["reasoning_content", "reasoning"]
"""Where compatible services put reasoning: DeepSeek, vLLM (to 0.11), SGLang | OpenRouter, Groq, Together, vLLM."""


def chunk(
    kind: Kind,
    choices: Sequence[Mapping[str, object]] = (),
    *,
    tokens: int = 0,
    usage: Mapping[str, object] | None = None,
    after: float = 0.0,
    **fields: object,
) -> Step:
    """Make a chunk with these `choices`, for what the other functions lack; `fields` are its further members."""
    opening = {"id": ID, "object": "chat.completion.chunk", "created": CREATED, "model": MODEL}
    payload = {**opening, "choices": list(choices), **present(usage=usage), **fields}
    return Step(after, Event(kind, encode(payload), tokens=tokens, wire="chat"))


def delta(
    kind: Kind,
    content: Mapping[str, object],
    *,
    tokens: int = 0,
    index: int = 0,
    finish_reason: str | None = None,
    logprobs: Mapping[str, object] | None = None,
    usage: Mapping[str, object] | None = None,
    after: float = 0.0,
) -> Step:
    """Make a chunk with one choice: the `delta` of the choice number `index`."""
    choice = {"index": index, "delta": content, "logprobs": logprobs, "finish_reason": finish_reason}
    return chunk(kind, [choice], tokens=tokens, usage=usage, after=after)


def role(*, index: int = 0, after: float = 0.0) -> Step:
    """Make the opening chunk: role and empty content, no token."""
    return delta("role", {"role": "assistant", "content": "", "refusal": None}, index=index, after=after)


def text(
    content: str, *, tokens: int = 1, logprobs: Iterable[str] | None = None, index: int = 0, after: float = 0.0
) -> Step:
    """Make a chunk of answer text. `logprobs` are the texts of its tokens: they come with the chunk and are counted."""
    listed: dict[str, object] | None = None
    if logprobs is not None:
        entries = logprob_entries(logprobs)
        tokens, listed = len(entries), {"content": entries, "refusal": None}
    return delta("answer", {"content": content}, tokens=tokens, index=index, logprobs=listed, after=after)


def reasoning(
    content: str,
    *,
    field: ReasoningField = "reasoning_content",
    tokens: int = 1,
    index: int = 0,
    after: float = 0.0,
) -> Step:
    """Make a chunk of reasoning text, in the field that compatible services use for it."""
    return delta("reasoning", {field: content}, tokens=tokens, index=index, after=after)


def refusal(content: str, *, tokens: int = 1, index: int = 0, after: float = 0.0) -> Step:
    """Make a chunk of refusal text."""
    return delta("answer", {"refusal": content}, tokens=tokens, index=index, after=after)


def tool_call(
    name: str, *, call: int = 0, arguments: str = "", tokens: int = 1, index: int = 0, after: float = 0.0
) -> Step:
    """Make the chunk that starts the tool call number `call`: its id and its name."""
    function = {"name": name, "arguments": arguments}
    part = {"index": call, "id": f"call_{call}", "type": "function", "function": function}
    return delta("tool", {"tool_calls": [part]}, tokens=tokens, index=index, after=after)


def tool_arguments(piece: str, *, call: int = 0, tokens: int = 1, index: int = 0, after: float = 0.0) -> Step:
    """Make a chunk of the JSON arguments of the tool call number `call`."""
    part = {"index": call, "function": {"arguments": piece}}
    return delta("tool", {"tool_calls": [part]}, tokens=tokens, index=index, after=after)


def empty(*, index: int = 0, after: float = 0.0) -> Step:
    """Make a chunk whose delta is empty."""
    return delta("empty", {}, index=index, after=after)


def no_choices(*, after: float = 0.0) -> Step:
    """Make a chunk without choices or usage, as Azure's content filter sends."""
    return chunk("empty", after=after)


def join(*steps: Step) -> Step:
    """Make one chunk of several, with the choices of them all: some services answer with all choices at once."""
    chunks = [json.loads(step.event.data) for step in steps]
    choices = [choice for chunk in chunks for choice in chunk["choices"]]
    tokens = sum(step.event.tokens for step in steps)
    event = replace(steps[0].event, data=encode({**chunks[0], "choices": choices}), tokens=tokens)
    return replace(steps[0], event=event)


def ping(*, after: float = 0.0) -> Step:
    """Make a keep-alive: an SSE comment, which no SDK shows."""
    return Step(after, Event("ping", raw=b": ping\n\n"))


def finish(reason: str = "stop", *, index: int = 0, after: float = 0.0) -> Step:
    """Make the chunk with the finish reason."""
    return delta("finish", {}, index=index, finish_reason=reason, after=after)


def usage_object(output: int, *, prompt: int = 10, reasoning: int = 0) -> dict[str, object]:
    """Make the `usage` of `output` tokens, of which `reasoning` are reasoning."""
    return {
        "prompt_tokens": prompt,
        "completion_tokens": output,
        "total_tokens": prompt + output,
        "completion_tokens_details": {"reasoning_tokens": reasoning},
    }


def usage(output: int, *, prompt: int = 10, reasoning: int = 0, after: float = 0.0) -> Step:
    """Make the usage chunk: no choices, the token counts."""
    return chunk("usage", usage=usage_object(output, prompt=prompt, reasoning=reasoning), after=after)


def error(
    message: str = "The server had an error",
    *,
    code: str | int | None = None,
    kind: str = "server_error",
    after: float = 0.0,
) -> Step:
    """Make an error in the middle of the stream; the SDK raises `openai.APIError`. `kind` is the error's `type`."""
    payload = {"error": {"message": message, "type": kind, "param": None, "code": code}}
    return Step(after, Event("error", encode(payload), wire="chat"))


def done(*, after: float = 0.0) -> Step:
    """Make the terminator: `data: [DONE]`."""
    return Step(after, Event("done", "[DONE]"))


def reply(
    tokens: Tokens = 3,
    *,
    first: float = 0.0,
    gaps: Gaps = 0.0,
    reasoning: Tokens = 0,
    reasoning_field: ReasoningField = "reasoning_content",
    tools: Iterable[ToolCall] = (),
    refuse: bool = False,
    hidden_reasoning: int = 0,
    choices: int = 1,
    join_choices: bool = False,
    logprobs: bool = False,
    finish_reason: str | None = None,
    usage: bool = True,
    continuous_usage: bool = False,
) -> Script:
    """Make a whole stream: role, output, finish, usage, `[DONE]`.

    The role chunk goes out with the headers; `first` and `gaps` space the output chunks, the rest follows the last.

    Args:
        tokens: the answer, one chunk a token.
        first: seconds from the headers to the first output chunk.
        gaps: seconds between successive output chunks, one number or exactly one each.
        reasoning: reasoning tokens before the answer.
        reasoning_field: the field they come in.
        tools: tool calls after the answer; the name and each piece of the arguments are an output chunk each.
        refuse: send the answer as a refusal.
        hidden_reasoning: further tokens of reasoning, which the usage counts and no chunk carries.
        choices: how many choices answer at once; their chunks take turns.
        join_choices: each chunk has all the choices instead.
        logprobs: each answer chunk has the text of its token.
        finish_reason: by default `tool_calls` when there are any, else `stop`.
        usage: a last chunk with the token counts, as after `stream_options={"include_usage": True}`.
        continuous_usage: every chunk has the token counts so far, as vLLM's `continuous_usage_stats`.
    """
    answers, thoughts, calls = texts(tokens), texts(reasoning), called(tools)
    indexes = range(choices)
    steps = [role(index=index) for index in indexes]
    steps += [_reasoning(thought, field=reasoning_field, index=index) for thought in thoughts for index in indexes]
    steps += [
        refusal(answer, index=index) if refuse else text(answer, logprobs=[answer] if logprobs else None, index=index)
        for answer in answers
        for index in indexes
    ]
    for call, (name, pieces) in enumerate(calls):
        steps += [tool_call(name, call=call, index=index) for index in indexes]
        steps += [tool_arguments(piece, call=call, index=index) for piece in pieces for index in indexes]
    steps += [finish(finish_reason or ("tool_calls" if calls else "stop"), index=index) for index in indexes]
    if join_choices:
        steps = [join(*steps[at : at + choices]) for at in range(0, len(steps), choices)]
    if continuous_usage:
        steps = list(with_running_usage(steps, partial(_running_usage, hidden_reasoning)))
    if usage:
        output = sum(step.event.tokens for step in steps) + hidden_reasoning
        steps.append(_usage(output, reasoning=len(thoughts) * choices + hidden_reasoning))
    return paced([*steps, done()], first, gaps)


# `reply` has arguments of these names.
_reasoning, _usage = reasoning, usage


def _running_usage(hidden: int, answered: int, thought: int) -> dict[str, object]:
    """Make the usage so far; `hidden` tokens of reasoning came before the first chunk."""
    return {"usage": usage_object(answered + thought + hidden, reasoning=thought + hidden)}
