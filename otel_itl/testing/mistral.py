"""Steps of what Mistral streams for chat, agents and code completions: OpenAI's chat format, as Mistral writes it.

The last chunk has finish reason and usage, tool calls come in one piece, and reasoning is a part of the content.
Every function makes one `Step`, sent `after` seconds after the one before; `reply` makes a whole well-formed `Script`.
Everything else is as in `chat`: `chat.chunk`, `chat.role`, `chat.text`, `chat.ping`, `chat.done`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ._pace import Gaps, Tokens, ToolCall, called, encode, paced, present, texts
from .chat import chunk, done, text
from .script import Event, Script, Step


def role(*, after: float = 0.0) -> Step:
    """Make the opening chunk: role and empty content, no token."""
    return chunk("role", [_choice({"role": "assistant", "content": ""})], after=after)


def thinking(content: str, *, tokens: int = 1, after: float = 0.0) -> Step:
    """Make a chunk of reasoning: content with one part, of type `thinking`."""
    part = {"type": "thinking", "thinking": [{"type": "text", "text": content}]}
    return chunk("reasoning", [_choice({"content": [part]})], tokens=tokens, after=after)


def text_part(content: str, *, tokens: int = 1, after: float = 0.0) -> Step:
    """Make a chunk of answer text as a part of the content, as a model that thinks may send it."""
    return chunk("answer", [_choice({"content": [{"type": "text", "text": content}]})], tokens=tokens, after=after)


def tool_calls(*calls: tuple[str, str], after: float = 0.0) -> Step:
    """Make the chunk with whole tool calls, each a name and its JSON arguments; one token a call."""
    listed = [
        {"id": f"call{index:05}", "function": {"name": name, "arguments": arguments}, "index": index}
        for index, (name, arguments) in enumerate(calls)
    ]
    return chunk("tool", [_choice({"content": "", "tool_calls": listed})], tokens=len(listed), after=after)


def finish(reason: str = "stop", *, usage: Mapping[str, object] | None = None, after: float = 0.0) -> Step:
    """Make the last chunk: the finish reason, and the usage where one is given."""
    return chunk("finish", [_choice({"content": ""}, reason)], usage=usage, after=after)


def usage_object(output: int, *, prompt: int = 10, cached: int | None = None) -> dict[str, object]:
    """Make the `usage` of `output` tokens; `cached` of the prompt's tokens came from a cache (None: not sent)."""
    details = None if cached is None else {"cached_tokens": cached}
    counts = present(prompt_tokens=prompt, total_tokens=prompt + output, completion_tokens=output)
    return counts | present(prompt_tokens_details=details)


def error(
    message: str = "Service unavailable", *, code: str = "3505", kind: str = "service_unavailable", after: float = 0.0
) -> Step:
    """Make an error in the middle of the stream, which the SDK cannot parse: it raises its validation error."""
    payload = {"object": "error", "message": message, "type": kind, "param": None, "code": code}
    return Step(after, Event("error", encode(payload), wire="chat"))


def reply(
    tokens: Tokens = 3,
    *,
    first: float = 0.0,
    gaps: Gaps = 0.0,
    thinking: Tokens = 0,
    tools: Iterable[ToolCall] = (),
    finish_reason: str | None = None,
    usage: bool = True,
) -> Script:
    """Make a whole stream: role, output, finish reason with usage, `[DONE]`.

    The role chunk goes out with the headers; `first` and `gaps` space the output chunks, the rest follows the last.

    Args:
        tokens: the answer, one chunk a token.
        first: seconds from the headers to the first output chunk.
        gaps: seconds between successive output chunks, one number or exactly one each.
        thinking: reasoning tokens before the answer.
        tools: tool calls after the answer, all in one output chunk, whatever the pieces of their arguments.
        finish_reason: by default `tool_calls` when there are any, else `stop`.
        usage: the last chunk has the token counts.
    """
    calls = [(name, "".join(pieces)) for name, pieces in called(tools)]
    steps = [role(), *map(_thinking, texts(thinking)), *map(text, texts(tokens))]
    steps += [tool_calls(*calls)] if calls else []
    counted = usage_object(sum(step.event.tokens for step in steps)) if usage else None
    last = finish(finish_reason or ("tool_calls" if calls else "stop"), usage=counted)
    return paced([*steps, last, done()], first, gaps)


# `reply` has an argument of this name.
_thinking = thinking


def _choice(delta: Mapping[str, object], finish_reason: str | None = None) -> dict[str, object]:
    return {"index": 0, "delta": delta, "finish_reason": finish_reason}
