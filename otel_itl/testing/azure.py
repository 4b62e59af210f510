"""Steps of Azure OpenAI's chat completions stream: that of `chat`, with what its content filter adds.

The filter reports on the prompt in a chunk before all others. It holds the answer back until it has passed, or works
beside it (`asynchronous`) and reports in chunks of its own, also after the model has finished. None of these chunks has
an id or a model.

Every function makes one `Step`, sent `after` seconds after the one before; `reply` makes a whole well-formed `Script`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, Final

from . import chat
from ._pace import with_members
from .chat import delta, done, empty, error, finish, ping, role, text, tool_arguments, tool_call, usage
from .script import Kind, Script, Step

__all__ = [
    "annotation",
    "delta",
    "done",
    "empty",
    "error",
    "finish",
    "ping",
    "prompt_results",
    "reply",
    "role",
    "text",
    "tool_arguments",
    "tool_call",
    "usage",
]

PASSED: Final = {
    category: {"filtered": False, "severity": "safe"} for category in ("hate", "self_harm", "sexual", "violence")
}
"""What the filter reports of content that passes it."""
_NAMELESS: Final[Any] = {"id": "", "object": "", "created": 0, "model": ""}


def prompt_results(results: Mapping[str, object] = PASSED, *, after: float = 0.0) -> Step:
    """Make the first chunk: what the filter found in the prompt. It has no choices, no id and no model."""
    found = [{"prompt_index": 0, "content_filter_results": results}]
    return chat.chunk("empty", after=after, **{**_NAMELESS, "prompt_filter_results": found})


def annotation(
    start: int = 0,
    end: int = 0,
    *,
    index: int = 0,
    results: Mapping[str, object] = PASSED,
    finish_reason: str | None = None,
    after: float = 0.0,
) -> Step:
    """Make a chunk of the asynchronous filter: what it found in a part of an answer, without a delta.

    Args:
        start: of the part, in characters.
        end: of the part.
        index: the number of the choice.
        results: what was found.
        finish_reason: `content_filter` where the answer is blocked.
        after: seconds after the step before.
    """
    choice = {
        "content_filter_offsets": {"check_offset": start, "start_offset": start, "end_offset": end},
        "content_filter_results": results,
        "finish_reason": finish_reason,
        "index": index,
    }
    kind: Kind = "empty" if finish_reason is None else "finish"
    return chat.chunk(kind, [choice], after=after, **_NAMELESS)


def reply(*args: Any, asynchronous: bool = False, choices: int = 1, **options: Any) -> Script:
    """Make a whole stream: the chunk about the prompt, and then what `chat.reply` makes of its arguments.

    Args:
        args: of `chat.reply`.
        asynchronous: the filter reports in chunks of its own, after every second chunk of output and after the finish.
            Otherwise each choice has its report.
        choices: how many choices answer at once.
        options: of `chat.reply`.
    """
    script = chat.reply(*args, choices=choices, **options)
    steps = _annotated(script, choices) if asynchronous else map(_with_results, script)
    first, *rest = steps
    return Script([prompt_results(after=first.delay), replace(first, delay=0.0), *rest])


def _annotated(script: Script, choices: int) -> Iterator[Step]:
    """Yield the steps of a script, with the chunks of the asynchronous filter between them."""
    outputs = 0
    for step in script:
        yield step
        if step.output:
            outputs += 1
            if outputs % 2 == 0:
                yield annotation(outputs - 2, outputs)
        elif step.event.kind == "finish":
            index = json.loads(step.event.data)["choices"][0]["index"]
            yield annotation(0, outputs // choices, index=index)


def _with_results(step: Step) -> Step:
    """Add to each choice of a chunk what the filter found in it."""
    if step.event.wire != "chat" or step.event.kind == "error":
        return step
    choices = json.loads(step.event.data)["choices"]
    return with_members(step, {"choices": [{**choice, "content_filter_results": PASSED} for choice in choices]})
