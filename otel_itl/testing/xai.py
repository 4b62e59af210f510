"""Steps of xAI's gRPC service (`xai_api.Chat/GetCompletionChunk`), as `xai_sdk` streams it.

Every function makes one `Step`, sent `after` seconds after the one before; `reply` makes a whole well-formed `Script`.
The service has no terminator: a script that ends, ends the call with the status OK. The server encodes the messages by
`xai_sdk` and speaks HTTP/2 by `h2`: both have to be installed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial

from ._grpc import encode_bytes, encode_message
from ._pace import Gaps, Tokens, ToolCall, called_whole, encode, paced, present, texts, with_running_usage
from .script import ID, MODEL, Event, Kind, Script, Step

_NO_REASON = "REASON_INVALID"


def chunk(
    kind: Kind,
    outputs: Sequence[Mapping[str, object]] = (),
    *,
    tokens: int = 0,
    usage: Mapping[str, object] | None = None,
    after: float = 0.0,
    **fields: object,
) -> Step:
    """Make a chunk with these `outputs`, for what the other functions lack; `fields` are its further members."""
    opening = {"id": ID, "model": MODEL, "system_fingerprint": "fp_scripted"}
    payload = {**opening, "outputs": list(outputs), **present(usage=usage), **fields}
    event = Event(kind, encode(payload), name="GetChatCompletionChunk", tokens=tokens, wire="xai", frame=encode_message)
    return Step(after, event)


def delta(
    kind: Kind,
    content: Mapping[str, object],
    *,
    role: str = "ROLE_ASSISTANT",
    tokens: int = 0,
    index: int = 0,
    finish_reason: str = _NO_REASON,
    usage: Mapping[str, object] | None = None,
    after: float = 0.0,
) -> Step:
    """Make a chunk with one output: the `delta` of the output number `index`."""
    output = {"index": index, "delta": {"role": role, **content}, "finish_reason": finish_reason}
    return chunk(kind, [output], tokens=tokens, usage=usage, after=after)


def text(content: str, *, tokens: int = 1, index: int = 0, after: float = 0.0) -> Step:
    """Make a chunk of answer text."""
    return delta("answer", {"content": content}, tokens=tokens, index=index, after=after)


def reasoning(content: str, *, tokens: int = 1, index: int = 0, after: float = 0.0) -> Step:
    """Make a chunk of reasoning text."""
    return delta("reasoning", {"reasoning_content": content}, tokens=tokens, index=index, after=after)


def tool_call(
    name: str, arguments: Mapping[str, object] | None = None, *, tokens: int = 1, index: int = 0, after: float = 0.0
) -> Step:
    """Make a chunk with a whole tool call: the service sends the arguments in one piece."""
    function = {"name": name, "arguments": encode(arguments or {})}
    call = {"id": f"call_{name}", "type": "TOOL_CALL_TYPE_CLIENT_SIDE_TOOL", "function": function}
    return delta("tool", {"tool_calls": [call]}, tokens=tokens, index=index, after=after)


def tool_result(content: str, *, index: int = 1, after: float = 0.0) -> Step:
    """Make a chunk with the result of one of the service's own tools, which is no output of the model."""
    return delta("empty", {"content": content}, role="ROLE_TOOL", index=index, after=after)


def empty(*, index: int = 0, after: float = 0.0) -> Step:
    """Make a chunk whose delta has a role alone."""
    return delta("empty", {}, index=index, after=after)


def no_outputs(*, after: float = 0.0) -> Step:
    """Make a chunk without outputs and usage."""
    return chunk("empty", after=after)


def finish(
    reason: str = "REASON_STOP", *, index: int = 0, usage: Mapping[str, object] | None = None, after: float = 0.0
) -> Step:
    """Make the chunk with the finish reason, and with the usage where one is given."""
    return delta("finish", {}, index=index, finish_reason=reason, usage=usage, after=after)


def usage_object(output: int, *, prompt: int = 10, reasoning: int = 0, cached: int = 0) -> dict[str, object]:
    """Make the usage of `output` tokens of the answer and, not among them, `reasoning` tokens.

    Args:
        output: tokens of the answer.
        prompt: tokens of the prompt.
        reasoning: tokens of the reasoning.
        cached: tokens of the prompt that came from a cache.
    """
    return {
        "prompt_tokens": prompt,
        "completion_tokens": output,
        "reasoning_tokens": reasoning,
        "cached_prompt_text_tokens": cached,
        "total_tokens": prompt + output + reasoning,
    }


def error(message: str = "The service is overloaded", *, code: int = 14, after: float = 0.0) -> Step:
    """Make an error in the middle of the stream: the call ends with this status. The SDK raises `grpc.RpcError`.

    Args:
        message: of the status.
        code: the number of the status, from 1 to 16; 14 is `UNAVAILABLE`.
        after: seconds after the step before.
    """
    trailers = (("grpc-status", str(code)), ("grpc-message", message))
    return Step(after, Event("error", wire="xai", raw=b"", trailers=trailers))


def damaged(*, after: float = 0.0) -> Step:
    """Make a message that is no chunk: its bytes cannot be decoded."""
    return Step(after, Event("raw", "\x0f\x0f", wire="xai", frame=encode_bytes))


def reply(
    tokens: Tokens = 3,
    *,
    first: float = 0.0,
    gaps: Gaps = 0.0,
    reasoning: Tokens = 0,
    hidden_reasoning: int = 0,
    tools: Iterable[ToolCall] = (),
    outputs: int = 1,
    finish_reason: str | None = None,
    usage: bool = True,
    continuous_usage: bool = False,
) -> Script:
    """Make a whole stream: output, then the chunk with finish reason and usage.

    `first` and `gaps` space the output chunks, the rest follows the last.

    Args:
        tokens: the answer, one chunk a token.
        first: seconds from the headers to the first output chunk.
        gaps: seconds between successive output chunks, one number or exactly one each.
        reasoning: reasoning tokens before the answer.
        hidden_reasoning: further tokens of reasoning, which the usage counts and no chunk carries.
        tools: tool calls after the answer; each is one output chunk, whatever the pieces of its arguments.
        outputs: how many outputs answer at once (`stream_batch`); their chunks take turns.
        finish_reason: why the model stopped; by default `REASON_TOOL_CALLS` when there are any, else `REASON_STOP`.
        usage: the last chunk has the token counts.
        continuous_usage: every chunk has the token counts so far.
    """
    answers, thoughts, calls = texts(tokens), texts(reasoning), called_whole(tools)
    indexes = range(outputs)
    steps = [_reasoning(thought, index=index) for thought in thoughts for index in indexes]
    steps += [text(answer, index=index) for answer in answers for index in indexes]
    steps += [tool_call(*call, index=index) for call in calls for index in indexes]
    if continuous_usage:
        steps = list(with_running_usage(steps, partial(_running_usage, hidden_reasoning)))
    thought_tokens = len(thoughts) * outputs + hidden_reasoning
    counts = usage_object((len(answers) + len(calls)) * outputs, reasoning=thought_tokens) if usage else None
    reason = finish_reason or ("REASON_TOOL_CALLS" if calls else "REASON_STOP")
    ends = [finish(reason, index=index, usage=counts if index + 1 == outputs else None) for index in indexes]
    return paced([*steps, *ends], first, gaps)


_reasoning = reasoning  # `reply` has an argument of this name


def _running_usage(hidden: int, answered: int, thought: int) -> dict[str, object]:
    """Make the usage so far; `hidden` tokens of reasoning came before the first chunk."""
    return {"usage": usage_object(answered, reasoning=thought + hidden)}
