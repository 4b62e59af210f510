"""Steps of the streams of Mistral's conversations (`/conversations`), whose events have names.

Every function makes one `Step`, sent `after` seconds after the one before; `reply` makes a whole well-formed `Script`.
The format has no terminator but `conversation.response.done`, which has the usage.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ._pace import Gaps, Tokens, ToolCall, called, encode, paced, present, texts
from .script import ID, MODEL, Event, Kind, Script, Step

CONVERSATION_ID = "conv_1"
"""The id of every scripted conversation; that of the message is the response's."""


def event(
    kind: Kind, name: str, fields: Mapping[str, object] | None = None, *, tokens: int = 0, after: float = 0.0
) -> Step:
    """Make an event of this name with these fields, for what the other functions lack."""
    payload = {"type": name, **(fields or {})}
    return Step(after, Event(kind, encode(payload), name=name, tokens=tokens, wire="conversations"))


def started(*, after: float = 0.0) -> Step:
    """Make the opening event."""
    return event("lifecycle", "conversation.response.started", {"conversation_id": CONVERSATION_ID}, after=after)


def message(kind: Kind, content: object, *, tokens: int = 1, after: float = 0.0) -> Step:
    """Make an event with a piece of the message: a text, or an object of its own type."""
    fields = {"id": ID, "output_index": 0, "content_index": 0, "model": MODEL, "role": "assistant", "content": content}
    return event(kind, "message.output.delta", fields, tokens=tokens, after=after)


def text(content: str, *, tokens: int = 1, after: float = 0.0) -> Step:
    """Make an event of answer text."""
    return message("answer", content, tokens=tokens, after=after)


def thinking(content: str, *, tokens: int = 1, after: float = 0.0) -> Step:
    """Make an event of reasoning text."""
    part = {"type": "thinking", "thinking": [{"type": "text", "text": content}]}
    return message("reasoning", part, tokens=tokens, after=after)


def function_call(name: str, arguments: str, *, call: int = 0, tokens: int = 1, after: float = 0.0) -> Step:
    """Make an event with a piece of the arguments of the function call number `call`, whose name comes with each."""
    fields = {"id": f"fc_{call}", "name": name, "tool_call_id": f"call{call:05}", "arguments": arguments}
    return event("tool", "function.call.delta", fields, tokens=tokens, after=after)


def usage_object(output: int, *, prompt: int = 10, connectors: int | None = None) -> dict[str, object]:
    """Make the `usage` of `output` tokens; `connectors` are those of the results of the service's own tools."""
    total = prompt + output + (connectors or 0)
    return present(prompt_tokens=prompt, completion_tokens=output, total_tokens=total, connector_tokens=connectors)


def finish(*, usage: Mapping[str, object] | None = None, after: float = 0.0) -> Step:
    """Make the last event, with the usage."""
    return event("finish", "conversation.response.done", {"usage": usage or usage_object(0)}, after=after)


def error(message: str = "The server had an error", *, code: int = 500, after: float = 0.0) -> Step:
    """Make an error in the middle of the stream, which the SDK yields as an event."""
    return event("error", "conversation.response.error", {"message": message, "code": code}, after=after)


def reply(
    tokens: Tokens = 3,
    *,
    first: float = 0.0,
    gaps: Gaps = 0.0,
    thinking: Tokens = 0,
    tools: Iterable[ToolCall] = (),
) -> Script:
    """Make a whole stream: the opening event, output, the last event with the usage.

    The opening event goes out with the headers; `first` and `gaps` space the output events, the rest follows the last.

    Args:
        tokens: the answer, one event a token.
        first: seconds from the headers to the first output event.
        gaps: seconds between successive output events, one number or exactly one each.
        thinking: reasoning tokens before the answer.
        tools: function calls after the answer; each piece of the arguments is an output event.
    """
    steps = [started(), *map(_thinking, texts(thinking)), *map(text, texts(tokens))]
    for call, (name, pieces) in enumerate(called(tools)):
        steps += [function_call(name, piece, call=call) for piece in pieces]
    usage = usage_object(sum(step.event.tokens for step in steps))
    return paced([*steps, finish(usage=usage)], first, gaps)


# `reply` has an argument of this name.
_thinking = thinking
