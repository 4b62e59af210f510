"""Scripts with no random byte, and the attributes that their spans must have."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from otel_itl.testing import (
    Script,
    bedrock,
    chat,
    cohere,
    completions,
    gemini,
    interactions,
    messages,
    ollama,
    responses,
)
from otel_itl.testing._pace import paced
from otel_itl.testing.script import CREATED, ID, MODEL

RESPONSE_ID: Final = "resp_1"
RESPONSE_MODEL: Final = "m-2024-08-06"


def pinned(script: Script) -> Script:
    """The script with an id, a model and a date of its own, so that two answers are equal."""
    values = {ID: f'"{RESPONSE_ID}"', MODEL: f'"{RESPONSE_MODEL}"', CREATED: "1700000000"}
    steps = []
    for step in script:
        data = step.event.data
        for place, value in values.items():
            data = data.replace(f'"{place}"', value)
        steps.append(replace(step, event=replace(step.event, data=data)))
    return replace(script, steps=tuple(steps))


@dataclass(frozen=True, slots=True)
class Scripted:
    """A reply in one wire format, and the attributes of its span when all of it was read."""

    script: Script
    chunks: int
    """Events that the SDK passes on, or passes over with our knowledge (a ping)."""
    finish_reasons: tuple[str, ...]
    usage: dict[str, int]
    model: str | None = RESPONSE_MODEL
    """Of the response."""
    response_id: str | None = RESPONSE_ID

    def paced(self, gap: float) -> Script:
        """The script with the same time before and between its output events."""
        return replace(self.script, steps=paced(self.script.steps, gap, gap).steps)


def _usage(**counts: int) -> dict[str, int]:
    return {f"gen_ai.usage.{name.replace('__', '.')}": count for name, count in counts.items()}


_CHAT_USAGE = {
    "prompt_tokens": 11,
    "completion_tokens": 5,
    "total_tokens": 16,
    "prompt_tokens_details": {"cached_tokens": 4},
    "completion_tokens_details": {"reasoning_tokens": 2},
}
_RESPONSE_USAGE = {
    "input_tokens": 11,
    "input_tokens_details": {"cached_tokens": 4},
    "output_tokens": 5,
    "output_tokens_details": {"reasoning_tokens": 2},
    "total_tokens": 16,
}
_OPENAI_USAGE = _usage(input_tokens=11, output_tokens=5, cache_read__input_tokens=4, reasoning__output_tokens=2)


def _message_start() -> dict[str, object]:
    usage = {
        "input_tokens": 6,
        "cache_read_input_tokens": 4,
        "cache_creation_input_tokens": 1,
        "output_tokens": 1,
    }
    return {
        "id": RESPONSE_ID,
        "type": "message",
        "role": "assistant",
        "model": RESPONSE_MODEL,
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": usage,
    }


def _response_script() -> Script:
    steps, item = responses.message(3)
    return Script(
        [responses.created(), responses.in_progress(), *steps, responses.completed([item], usage=_RESPONSE_USAGE)]
    )


_MESSAGES: Final = Script(
    [
        messages.event("lifecycle", "message_start", {"message": _message_start()}),
        messages.text_start(),
        *(messages.text(text) for text in ("one ", "two ")),
        messages.ping(),
        messages.text("three"),
        messages.block_stop(),
        messages.finish("max_tokens", output=5, thinking=2),
        messages.stop(),
    ]
)
_MESSAGES_USAGE: Final = _usage(
    input_tokens=11,
    output_tokens=5,
    cache_read__input_tokens=4,
    cache_creation__input_tokens=1,
    reasoning__output_tokens=2,
)

_OLLAMA_REPLY: Final = pinned(
    Script(
        [
            *(ollama.text(text) for text in ("one ", "two ", "three")),
            ollama.finish("length", figures=ollama.figures(5, prompt=11)),
        ]
    )
)
_OLLAMA_USAGE: Final = _usage(input_tokens=11, output_tokens=5)
_COHERE_USAGE: Final = cohere.usage_object(5, prompt=11, billed=3, cached=4)

WIRES: Final = {
    "chat": Scripted(
        pinned(
            Script(
                [
                    chat.role(),
                    *(chat.text(text) for text in ("one ", "two ", "three")),
                    chat.ping(),
                    chat.finish("stop"),
                    chat.chunk("usage", usage=_CHAT_USAGE),
                    chat.done(),
                ]
            )
        ),
        chunks=6,
        finish_reasons=("stop",),
        usage=_OPENAI_USAGE,
    ),
    "completions": Scripted(
        pinned(
            Script(
                [
                    *(completions.text(text) for text in ("one ", "two ", "three")),
                    completions.finish("length"),
                    completions.chunk("usage", usage=_CHAT_USAGE),
                    completions.done(),
                ]
            )
        ),
        chunks=5,
        finish_reasons=("length",),
        usage=_OPENAI_USAGE,
    ),
    "responses": Scripted(
        pinned(_response_script()),
        chunks=11,
        finish_reasons=("completed",),
        usage=_OPENAI_USAGE,
    ),
    "messages": Scripted(
        _MESSAGES,
        chunks=9,
        finish_reasons=("max_tokens",),
        usage=_MESSAGES_USAGE,
    ),
    "converse": Scripted(
        Script(
            [
                bedrock.start(),
                *(bedrock.text(text) for text in ("one ", "two ", "three")),
                bedrock.block_stop(),
                bedrock.finish("max_tokens"),
                bedrock.usage(5, prompt=6, cache_read=4, cache_write=1),
            ],
            headers={"x-amzn-requestid": RESPONSE_ID},
        ),
        chunks=7,
        finish_reasons=("max_tokens",),
        usage=_usage(input_tokens=11, output_tokens=5, cache_read__input_tokens=4, cache_creation__input_tokens=1),
        model=None,
    ),
    "invoke_model": Scripted(
        bedrock.invoked(_MESSAGES),
        chunks=9,
        finish_reasons=("max_tokens",),
        usage=_MESSAGES_USAGE,
    ),
    "gemini": Scripted(
        pinned(
            Script(
                [
                    *(gemini.text(text) for text in ("one ", "two ", "three")),
                    gemini.finish("MAX_TOKENS", usage=gemini.usage_object(3, prompt=11, thoughts=2, cached=4)),
                ],
                headers=dict.fromkeys(
                    ("x-request-id", "request-id", "x-amzn-requestid"), "req_1"
                ),  # each chunk has the headers
            )
        ),
        chunks=4,
        finish_reasons=("max_tokens",),
        usage=_OPENAI_USAGE,
    ),
    "interactions": Scripted(
        pinned(
            Script(
                [
                    interactions.created(),
                    interactions.step_start({"type": "model_output"}),
                    *(interactions.text(text) for text in ("one ", "two ", "three")),
                    interactions.step_stop(),
                    interactions.completed(usage=interactions.usage_object(3, prompt=11, thoughts=2, cached=4)),
                    interactions.done(),
                ]
            )
        ),
        chunks=7,
        finish_reasons=("completed",),
        usage=_OPENAI_USAGE,
    ),
    "ollama_chat": Scripted(_OLLAMA_REPLY, chunks=4, finish_reasons=("length",), usage=_OLLAMA_USAGE, response_id=None),
    "ollama_generate": Scripted(
        ollama.generated(_OLLAMA_REPLY), chunks=4, finish_reasons=("length",), usage=_OLLAMA_USAGE, response_id=None
    ),
    "cohere": Scripted(
        pinned(
            Script(
                [
                    cohere.start(),
                    cohere.content_start(),
                    *(cohere.text(text) for text in ("one ", "two ", "three")),
                    cohere.content_end(),
                    cohere.finish("MAX_TOKENS", usage=_COHERE_USAGE),
                    cohere.done(),
                ]
            )
        ),
        chunks=7,
        finish_reasons=("max_tokens",),
        usage=_usage(input_tokens=11, output_tokens=5, cache_read__input_tokens=4),
        model=None,
    ),
    "cohere_v1": Scripted(
        pinned(
            Script(
                [
                    cohere.v1_start(),
                    *(cohere.v1_text(text) for text in ("one ", "two ", "three")),
                    cohere.v1_finish("MAX_TOKENS", usage=_COHERE_USAGE),
                ]
            )
        ),
        chunks=5,
        finish_reasons=("max_tokens",),
        usage=_usage(input_tokens=11, output_tokens=5, cache_read__input_tokens=4),
        model=None,
    ),
}
"""By wire format. Each has three output events."""
OUTPUTS: Final = 3
