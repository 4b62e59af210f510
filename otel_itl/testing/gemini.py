"""Steps of Google's `streamGenerateContent` (Gemini API and Vertex AI), as server-sent events.

Every function makes one `Step`, sent `after` seconds after the one before; `reply` makes a whole well-formed `Script`.
The format has no terminator: the chunk with the finish reason is the last one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial

from ._pace import Gaps, Tokens, ToolCall, called_whole, encode, paced, present, texts, with_running_usage
from .script import ID, MODEL, Event, Kind, Script, Step


def chunk(
    kind: Kind,
    candidates: Sequence[Mapping[str, object]] = (),
    *,
    tokens: int = 0,
    usage: Mapping[str, object] | None = None,
    after: float = 0.0,
    **fields: object,
) -> Step:
    """Make a chunk with these `candidates`, for what the other functions lack; `fields` are its further members."""
    given = present(candidates=list(candidates) or None, usageMetadata=usage)
    payload = {**given, "modelVersion": MODEL, "responseId": ID, **fields}
    return Step(after, Event(kind, encode(payload), tokens=tokens, wire="gemini"))


def parts(
    kind: Kind,
    *content: Mapping[str, object],
    tokens: int = 0,
    index: int = 0,
    finish_reason: str | None = None,
    usage: Mapping[str, object] | None = None,
    after: float = 0.0,
) -> Step:
    """Make a chunk with one candidate: these parts of the candidate number `index`."""
    spoken = {"parts": list(content), "role": "model"} if content else None
    candidate = present(content=spoken, finishReason=finish_reason, index=index)
    return chunk(kind, [candidate], tokens=tokens, usage=usage, after=after)


def text(
    content: str,
    *,
    tokens: int = 1,
    index: int = 0,
    finish_reason: str | None = None,
    usage: Mapping[str, object] | None = None,
    after: float = 0.0,
) -> Step:
    """Make a chunk of answer text. The service often sends the finish reason and the usage with the last one."""
    return parts(
        "answer", {"text": content}, tokens=tokens, index=index, finish_reason=finish_reason, usage=usage, after=after
    )


def thought(content: str, *, tokens: int = 1, index: int = 0, after: float = 0.0) -> Step:
    """Make a chunk of a thought summary, as after `thinking_config={"include_thoughts": True}`."""
    return parts("reasoning", {"text": content, "thought": True}, tokens=tokens, index=index, after=after)


def signature(*, index: int = 0, after: float = 0.0) -> Step:
    """Make a chunk with a thought signature alone: an empty text, and no token."""
    return parts("empty", {"text": "", "thoughtSignature": "c2lnbmF0dXJl"}, index=index, after=after)


def function_call(
    name: str, arguments: Mapping[str, object] | None = None, *, tokens: int = 1, index: int = 0, after: float = 0.0
) -> Step:
    """Make a chunk with a whole function call: the service sends the arguments in one piece."""
    call = {"name": name, "args": dict(arguments or {})}
    return parts("tool", {"functionCall": call}, tokens=tokens, index=index, after=after)


def finish(
    reason: str = "STOP", *, index: int = 0, usage: Mapping[str, object] | None = None, after: float = 0.0
) -> Step:
    """Make the chunk with the finish reason, and with the usage where one is given."""
    return parts("finish", {"text": ""}, index=index, finish_reason=reason, usage=usage, after=after)


def blocked(reason: str = "SAFETY", *, after: float = 0.0) -> Step:
    """Make the only chunk of a prompt that the service refuses: `promptFeedback` and no candidates."""
    return chunk("finish", promptFeedback={"blockReason": reason}, usage={"promptTokenCount": 10}, after=after)


def usage_object(
    output: int, *, prompt: int = 10, thoughts: int = 0, cached: int | None = None, tool_use: int | None = None
) -> dict[str, object]:
    """Make the `usageMetadata` of `output` tokens of the answer and, not among them, `thoughts` of reasoning.

    Args:
        output: tokens of the candidates.
        prompt: tokens of the prompt.
        thoughts: tokens of the thoughts.
        cached: tokens of the prompt that came from a cache; None: the service does not send the count.
        tool_use: tokens of the results of the service's own tools; None, likewise.
    """
    return present(
        promptTokenCount=prompt,
        cachedContentTokenCount=cached,
        toolUsePromptTokenCount=tool_use,
        candidatesTokenCount=output,
        thoughtsTokenCount=thoughts or None,
        totalTokenCount=prompt + output + thoughts + (tool_use or 0),
    )


def error(
    message: str = "The model is overloaded",
    *,
    code: int = 503,
    status: str = "UNAVAILABLE",
    after: float = 0.0,
) -> Step:
    """Make an error in the middle of the stream; the SDK raises `google.genai.errors.APIError`."""
    payload = {"error": {"code": code, "message": message, "status": status}}
    return Step(after, Event("error", encode(payload), wire="gemini"))


def reply(
    tokens: Tokens = 3,
    *,
    first: float = 0.0,
    gaps: Gaps = 0.0,
    thoughts: Tokens = 0,
    hidden_thoughts: int = 0,
    tools: Iterable[ToolCall] = (),
    candidates: int = 1,
    finish_reason: str = "STOP",
    usage: bool = True,
    continuous_usage: bool = False,
) -> Script:
    """Make a whole stream: output, then the chunk with finish reason and usage.

    `first` and `gaps` space the output chunks, the rest follows the last.

    Args:
        tokens: the answer, one chunk a token.
        first: seconds from the headers to the first output chunk.
        gaps: seconds between successive output chunks, one number or exactly one each.
        thoughts: tokens of a thought summary before the answer.
        hidden_thoughts: further tokens of thoughts, which the usage counts and no chunk carries.
        tools: function calls after the answer; each is one output chunk, whatever the pieces of its arguments.
        candidates: how many candidates answer at once; their chunks take turns.
        finish_reason: why the model stopped.
        usage: the last chunk has the token counts.
        continuous_usage: every chunk has the token counts so far, as the Gemini API sends them.
    """
    answers, thinking, calls = texts(tokens), texts(thoughts), called_whole(tools)
    indexes = range(candidates)
    steps = [thought(one, index=index) for one in thinking for index in indexes]
    steps += [text(answer, index=index) for answer in answers for index in indexes]
    steps += [function_call(*call, index=index) for call in calls for index in indexes]
    if continuous_usage:
        steps = list(with_running_usage(steps, partial(_running_usage, hidden_thoughts)))
    thought_tokens = len(thinking) * candidates + hidden_thoughts
    counts = usage_object((len(answers) + len(calls)) * candidates, thoughts=thought_tokens) if usage else None
    ends = [finish(finish_reason, index=index, usage=counts if index + 1 == candidates else None) for index in indexes]
    return paced([*steps, *ends], first, gaps)


def _running_usage(hidden: int, answered: int, thought: int) -> dict[str, object]:
    """Make the usage so far; `hidden` tokens of thoughts came before the first chunk."""
    return {"usageMetadata": usage_object(answered, thoughts=thought + hidden)}
