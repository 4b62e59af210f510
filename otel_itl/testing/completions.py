"""Steps of the legacy OpenAI completions stream (`/completions`).

Every function makes one `Step`, sent `after` seconds after the one before; `reply` makes a whole well-formed `Script`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ._pace import Gaps, Tokens, encode, paced, texts
from .chat import done, error, ping, usage_object
from .script import CREATED, ID, MODEL, Event, Kind, Script, Step

__all__ = ["chunk", "done", "error", "finish", "ping", "reply", "text", "usage"]


def chunk(
    kind: Kind,
    choices: Sequence[Mapping[str, object]] = (),
    *,
    tokens: int = 0,
    after: float = 0.0,
    **fields: object,
) -> Step:
    """Make a chunk with these `choices`, for what the other functions lack; `fields` are its further members."""
    opening = {"id": ID, "object": "text_completion", "created": CREATED, "model": MODEL}
    payload = {**opening, "choices": list(choices), **fields}
    return Step(after, Event(kind, encode(payload), tokens=tokens, wire="completions"))


def text(content: str, *, tokens: int = 1, index: int = 0, after: float = 0.0) -> Step:
    """Make a chunk of text of the choice number `index`."""
    choice = {"text": content, "index": index, "logprobs": None, "finish_reason": None}
    return chunk("answer", [choice], tokens=tokens, after=after)


def finish(reason: str = "stop", *, index: int = 0, after: float = 0.0) -> Step:
    """Make the chunk with the finish reason."""
    return chunk("finish", [{"text": "", "index": index, "logprobs": None, "finish_reason": reason}], after=after)


def usage(output: int, *, prompt: int = 10, after: float = 0.0) -> Step:
    """Make the usage chunk: no choices, the token counts."""
    return chunk("usage", usage=usage_object(output, prompt=prompt), after=after)


def reply(
    tokens: Tokens = 3,
    *,
    first: float = 0.0,
    gaps: Gaps = 0.0,
    choices: int = 1,
    finish_reason: str = "stop",
    usage: bool = True,
) -> Script:
    """Make a whole stream: text, finish, usage, `[DONE]`. The arguments are those of `chat.reply`."""
    indexes = range(choices)
    steps = [text(content, index=index) for content in texts(tokens) for index in indexes]
    steps += [finish(finish_reason, index=index) for index in indexes]
    if usage:
        steps.append(_usage(sum(step.event.tokens for step in steps)))
    return paced([*steps, done()], first, gaps)


# `reply` has an argument of this name.
_usage = usage
