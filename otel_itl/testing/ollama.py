"""Steps of the streams of Ollama's `/api/chat` and `/api/generate`, as lines of JSON.

Every function makes one `Step`, sent `after` seconds after the one before, unless it makes a whole well-formed
`Script`: `reply` for `/api/chat`, `generate_reply` for `/api/generate`. Steps are those of `/api/chat`;
`generated(script)` turns a script of them into one of `/api/generate`.

The format has no terminator: the line with `"done": true` is the last one.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import replace

from ._lines import encode_line
from ._pace import Gaps, Tokens, ToolCall, called_whole, encode, paced, present, texts
from .script import MODEL, Event, Kind, Script, Step

CREATED_AT = "2026-01-01T00:00:00.000000Z"
"""When each line was made, by its own account."""
NANOSECONDS = 1_000_000_000


def chunk(
    kind: Kind,
    message: Mapping[str, object],
    *,
    tokens: int = 0,
    members: Mapping[str, object] | None = None,
    after: float = 0.0,
) -> Step:
    """Make a line with these members of `message`, and `members` of its own, for what the other functions lack."""
    payload = {
        "model": MODEL,
        "created_at": CREATED_AT,
        "message": {"role": "assistant", "content": "", **message},
        "done": False,
        **(members or {}),
    }
    return Step(after, Event(kind, encode(payload), tokens=tokens, wire="ollama_chat", frame=encode_line))


def text(content: str, *, tokens: int = 1, members: Mapping[str, object] | None = None, after: float = 0.0) -> Step:
    """Make a line of answer text; `members` are its further members, such as `logprobs`."""
    return chunk("answer", {"content": content}, tokens=tokens, members=members, after=after)


def thinking(content: str, *, tokens: int = 1, after: float = 0.0) -> Step:
    """Make a line of reasoning, as after `think=True`."""
    return chunk("reasoning", {"thinking": content}, tokens=tokens, after=after)


def tool_call(name: str, arguments: Mapping[str, object] | None = None, *, tokens: int = 1, after: float = 0.0) -> Step:
    """Make a line with a whole tool call: the server sends the arguments in one piece."""
    call = {"function": {"name": name, "arguments": dict(arguments or {})}}
    return chunk("tool", {"tool_calls": [call]}, tokens=tokens, after=after)


def empty(*, after: float = 0.0) -> Step:
    """Make a line without any output."""
    return chunk("empty", {}, after=after)


def figures(
    output: int | None = None,
    *,
    prompt: int | None = 10,
    load: float | None = 0.01,
    prompt_time: float | None = 0.02,
    decode_time: float | None = 0.03,
) -> dict[str, object]:
    """Make the members of the last line that have the server's figures. None: the server does not send the figure.

    Args:
        output: tokens of the output, those of reasoning among them.
        prompt: tokens of the prompt.
        load: seconds in which the model was loaded.
        prompt_time: seconds in which the prompt was evaluated.
        decode_time: seconds in which the output was generated.
    """
    times = (load, prompt_time, decode_time)
    return present(
        total_duration=_nanoseconds(sum(filter(None, times))),
        load_duration=_nanoseconds(load),
        prompt_eval_count=prompt,
        prompt_eval_duration=_nanoseconds(prompt_time),
        eval_count=output,
        eval_duration=_nanoseconds(decode_time),
    )


def finish(reason: str | None = "stop", *, figures: Mapping[str, object] | None = None, after: float = 0.0) -> Step:
    """Make the last line: why the model stopped (None: not sent), and the members that `figures()` makes."""
    return chunk("finish", {}, members={"done": True, **present(done_reason=reason), **(figures or {})}, after=after)


def error(message: str = "an error was encountered while running the model", *, after: float = 0.0) -> Step:
    """Make an error in the middle of either stream; the SDK raises `ollama.ResponseError`."""
    return Step(after, Event("error", encode({"error": message}), frame=encode_line))


def reply(
    tokens: Tokens = 3,
    *,
    first: float = 0.0,
    gaps: Gaps = 0.0,
    thinking: Tokens = 0,
    tools: Iterable[ToolCall] = (),
    done_reason: str = "stop",
    load: float = 0.01,
    prompt_time: float = 0.02,
    decode_time: float = 0.03,
) -> Script:
    """Make a whole stream of `/api/chat`: the output, then the last line with the server's figures.

    `first` and `gaps` space the output lines, the last line follows at once.

    Args:
        tokens: the answer, one line a token.
        first: seconds from the headers to the first output line.
        gaps: seconds between successive output lines, one number or exactly one each.
        thinking: tokens of reasoning before the answer.
        tools: tool calls after the answer; each is one output line, whatever the pieces of its arguments.
        done_reason: why the model stopped.
        load: seconds in which the model was loaded, as the server reports it.
        prompt_time: seconds in which the prompt was evaluated, likewise.
        decode_time: seconds in which the output was generated, likewise.
    """
    steps = [_thinking(one) for one in texts(thinking)]
    steps += [text(answer) for answer in texts(tokens)]
    steps += [tool_call(*call) for call in called_whole(tools)]
    output = sum(step.event.tokens for step in steps)
    last = figures(output, load=load, prompt_time=prompt_time, decode_time=decode_time)
    return paced([*steps, finish(done_reason, figures=last)], first, gaps)


# `reply` has an argument of this name.
_thinking = thinking


def generated(script: Script) -> Script:
    """Make the answer to `/api/generate` from a script of `/api/chat`: its text becomes the line's `response`."""
    return replace(script, steps=tuple(_as_generated(step) for step in script))


def generate_reply(tokens: Tokens = 3, *, first: float = 0.0, gaps: Gaps = 0.0, thinking: Tokens = 0) -> Script:
    """Make a whole stream of `/api/generate`. The arguments are those of `reply`."""
    return generated(reply(tokens, first=first, gaps=gaps, thinking=thinking))


def _as_generated(step: Step) -> Step:
    """Make the line of `/api/generate` with the output of a line of `/api/chat`; other steps stay as they are."""
    if step.event.wire != "ollama_chat":
        return step
    line = json.loads(step.event.data)
    message = line.pop("message")
    moved = {"response": message["content"], **{name: message[name] for name in ("thinking",) if name in message}}
    return replace(step, event=replace(step.event, data=encode({**line, **moved}), wire="ollama_generate"))


def _nanoseconds(seconds: float | None) -> int | None:
    return None if seconds is None else round(seconds * NANOSECONDS)
