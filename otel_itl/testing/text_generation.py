"""Steps of the text that Hugging Face's TGI generates (`/generate_stream`): an event for each token.

Every function makes one `Step`, sent `after` seconds after the one before; `reply` makes a whole well-formed `Script`.
The format has no terminator: the last token has the whole text and, where details were asked for, the finish reason.
"""

from __future__ import annotations

from collections.abc import Mapping

from ._pace import Gaps, Tokens, encode, paced, texts
from .script import Event, Kind, Script, Step


def token(
    content: str,
    *,
    kind: Kind = "answer",
    special: bool = False,
    generated_text: str | None = None,
    details: Mapping[str, object] | None = None,
    after: float = 0.0,
) -> Step:
    """Make the event of one token; a special token, such as the end of the sequence, is no text of the answer.

    Args:
        content: the token's text.
        kind: what the event is.
        special: it is a special token.
        generated_text: the whole text, which the last event has.
        details: the last event's details, as `details_object` makes them.
        after: seconds after the step before.
    """
    payload = {
        "index": 1,
        "token": {"id": 1, "text": content, "logprob": -0.1, "special": special},
        "generated_text": generated_text,
        "details": details,
    }
    tokens = 0 if special else 1
    return Step(after, Event(kind, encode(payload), tokens=tokens, wire="text_generation"))


def details_object(output: int, *, prompt: int = 10, finish_reason: str = "eos_token") -> dict[str, object]:
    """Make the details of `output` generated tokens."""
    return {"finish_reason": finish_reason, "generated_tokens": output, "input_length": prompt, "seed": None}


def finish(
    generated_text: str = "", *, details: Mapping[str, object] | None = None, text: str = "</s>", after: float = 0.0
) -> Step:
    """Make the last event: a special token, the whole text, and the details where there are any."""
    return token(text, kind="finish", special=True, generated_text=generated_text, details=details, after=after)


def error(message: str = "Model is overloaded", *, kind: str = "overloaded", after: float = 0.0) -> Step:
    """Make an error in the middle of the stream; the SDK raises the error of its type (`OverloadedError`)."""
    return Step(after, Event("error", encode({"error": message, "error_type": kind}), wire="text_generation"))


def reply(
    tokens: Tokens = 3,
    *,
    first: float = 0.0,
    gaps: Gaps = 0.0,
    finish_reason: str = "eos_token",
    details: bool = True,
) -> Script:
    """Make a whole stream: the tokens, then the event with the whole text and the details.

    `first` and `gaps` space the tokens, the rest follows the last.

    Args:
        tokens: the answer, one event a token.
        first: seconds from the headers to the first token.
        gaps: seconds between successive tokens, one number or exactly one each.
        finish_reason: `eos_token`, `length` or `stop_sequence`.
        details: the last event has the finish reason and the token counts, which include the special token.
    """
    words = texts(tokens)
    counts = details_object(len(words) + 1, finish_reason=finish_reason) if details else None
    return paced([*map(token, words), finish("".join(words), details=counts)], first, gaps)
