"""Prompts to send: from a file, from a function, or filler words of a given length."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from random import Random
from secrets import token_hex
from typing import Any, Final

from otel_itl.tools.command_error import CommandError

TEMPLATE_TOKENS: Final = 32
"""Tokens that an endpoint may add to each message: role, separators."""

_TOKENS_OF_BEGIN: Final = 6
"""Twelve random hexadecimal digits, about two a token."""
_WORDS: Final = (
    *("time", "year", "people", "way", "day", "man", "thing", "woman", "life", "child", "world", "school", "state"),
    *("family", "group", "country", "problem", "hand", "part", "place", "case", "week", "company", "system", "program"),
    *("question", "work", "number", "night", "point", "home", "water", "room", "mother", "area", "money", "story"),
    *("fact", "month", "lot", "right", "study", "book", "eye", "job", "word", "business", "issue", "side", "kind"),
    *("head", "house", "service", "friend", "father", "power", "hour", "game", "line", "end", "member", "law", "car"),
)
"""Common English nouns: with the space before it, each is one token for the usual tokenizers."""


@dataclass(frozen=True, slots=True)
class Prompt:
    """What one request asks."""

    messages: Sequence[Mapping[str, Any]]
    max_tokens: int
    """Tokens that the answer has at most."""
    arguments: Mapping[str, Any] = field(default_factory=dict)
    """Further arguments of the SDK's call."""
    tokens: int | None = None
    """About how many tokens the messages have; None: not known."""

    @property
    def size(self) -> int:
        """Bytes of all that is sent: no tokenizer makes more tokens than bytes of a text."""
        return len(json.dumps([self.messages, self.arguments], ensure_ascii=False, default=str).encode())

    @property
    def max_output_tokens(self) -> int:
        """Tokens of all answers that it asks for (`n`)."""
        choices = self.arguments.get("n", 1)
        return self.max_tokens * (choices if isinstance(choices, int) and choices > 0 else 1)


Prompts = Callable[[int], Prompt]
"""Makes the prompt of a request, given its number from 0; raises CommandError where there is none."""


def make_filler(lengths: Sequence[tuple[int, int]], seed: int = 0) -> Prompts:
    """Make prompts of random words. No two begin alike, not even those of two sweeps: no prefix cache answers them.

    Args:
        lengths: pairs of input and output tokens, one of which is chosen at random for each request.
        seed: the same seed gives the same lengths, and the same words after the random start of each prompt.
    """

    def make(number: int) -> Prompt:
        random = Random(f"{seed} {number}")  # noqa: S311 - filler, no secret
        input_tokens, output_tokens = random.choice(lengths)
        words = random.choices(_WORDS, k=max(input_tokens - _TOKENS_OF_BEGIN, 1))
        content = " ".join([token_hex(6), *words])
        return Prompt([{"role": "user", "content": content}], output_tokens, tokens=len(words) + _TOKENS_OF_BEGIN)

    return make


def read_prompts(path: str, max_tokens: int) -> Prompts:
    """Read a file with one prompt a line: text, or a JSON object with `prompt` or `messages` and any further arguments.

    The prompts are asked one after the other, and again from the first.

    Args:
        path: path of the file, UTF-8.
        max_tokens: most tokens of an answer, where a line has no `max_tokens` of its own.

    Raises:
        CommandError: a line is no prompt, there is none, or the file cannot be read.
    """
    try:
        lines = Path(path).read_text(encoding="utf-8-sig").splitlines()
    except UnicodeDecodeError as error:
        raise CommandError(f"{path} is not accepted: it is no UTF-8 text.") from error
    except OSError as error:
        raise CommandError(f"--prompts {path} cannot be read ({error.strerror or error}).") from error
    prompts = [
        parse_prompt(_parse_line(line, f"{path}:{number}"), max_tokens, f"{path}:{number}")
        for number, line in enumerate(lines, 1)
        if line.strip()
    ]
    if not prompts:
        raise CommandError(f"{path} is not accepted: it has no prompt.")
    return lambda number: prompts[number % len(prompts)]


def load_prompts(name: str, max_tokens: int) -> Prompts:
    """Load a function that makes prompts, given as `module:function`. The current directory is looked into first.

    It is called on the event loop with the number of each request, and has to be fast.

    Raises:
        CommandError: there is no such function; of the prompts: it raises, or returns no prompt.
    """
    module_name, _, function_name = name.partition(":")
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        function = getattr(import_module(module_name), function_name)
    except Exception as error:
        raise CommandError(f"{name!r} cannot be loaded: {type(error).__name__}: {error}") from error
    if not callable(function):
        raise CommandError(f"{name!r} is not accepted: it takes the name of a function, as module:function.")

    def make(number: int) -> Prompt:
        try:
            value = function(number)
        except Exception as error:
            raise CommandError(f"{name}({number}) raised {type(error).__name__}: {error}") from error
        return parse_prompt(value, max_tokens, f"{name}({number})")

    return make


def parse_prompt(value: object, max_tokens: int, where: str) -> Prompt:
    """Make a prompt of text, or of a mapping with `prompt` or `messages` and any further arguments of the SDK's call.

    Args:
        value: the text or the mapping.
        max_tokens: most tokens of the answer, where the value names none.
        where: file and line, or call, that an error message names.

    Raises:
        CommandError: it is no prompt.
    """
    if isinstance(value, str) and value.strip():
        return Prompt([{"role": "user", "content": value}], max_tokens)
    if isinstance(value, Mapping):
        arguments = {name: of_name for name, of_name in value.items() if name not in _OF_THE_PROMPT}
        messages = value.get("messages", [{"role": "user", "content": value["prompt"]}] if "prompt" in value else None)
        limit = value.get("max_completion_tokens", value.get("max_tokens", max_tokens))
        if isinstance(messages, list) and messages and isinstance(limit, int) and limit > 0:
            return Prompt(messages, limit, arguments)
    raise CommandError(
        f"{where} is no prompt: it takes text, or an object with 'prompt' or 'messages' and a positive max_tokens."
    )


_OF_THE_PROMPT: Final = frozenset(
    {
        *("prompt", "messages", "max_tokens", "max_completion_tokens"),
        *("stream", "stream_options"),  # every request of a sweep is streamed, with its usage
    }
)


def _parse_line(line: str, where: str) -> object:
    """Parse a line of a file: JSON where it begins as an object, else text.

    Raises:
        CommandError: it begins as an object and is none.
    """
    if not line.lstrip().startswith("{"):
        return line
    try:
        return json.loads(line)
    except ValueError as error:
        raise CommandError(f"{where} is no prompt: it begins as a JSON object and is none.") from error
