"""The forms of values that options and arguments take: what is accepted, and what it stands for."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import fields
from inspect import iscoroutinefunction, signature
from typing import Any, Final, NamedTuple, cast

from otel_itl.core.durations import parse_seconds
from otel_itl.core.file_path import resolve_file_path
from otel_itl.core.session_fields import BodyField, Header
from otel_itl.core.slo import MAX_SECONDS, PROFILES, SLO, MillisecondsError, Objectives
from otel_itl.core.spelling import did_you_mean
from otel_itl.core.stalls import StallPolicy

OFF: Final = ("off", "none")
MIN_PROGRESS_SECONDS: Final = 0.05
MAX_PROGRESS_SECONDS: Final = 60.0
_SWITCHES: Final = {"1": True, "true": True, "0": False, "false": False}
_ALL_MODELS: Final = "*"
_DECIMAL_COMMA: Final = re.compile(r"(?<=\d),(?=\d+(?:[/@ms]|$))")
"""The comma of a number such as 0,5, where it would separate objectives."""

SessionFrom = Callable[[Mapping[str, Any], Mapping[str, Any]], object]
"""Finds the id of a request's session in the body and the headers of the request."""


class NotAcceptedError(ValueError):
    """An option does not accept a value.

    Args:
        reason: one sentence; empty: nothing but that the option takes other values.
        hint: a sentence that follows the reason, with a space before it; may be empty.
    """

    def __init__(self, reason: str = "", hint: str = "") -> None:
        super().__init__(reason)
        self._reason, self._hint = reason, hint

    def describe(self, accepted: str) -> str:
        """Return why the value is not accepted, in one or two sentences.

        Args:
            accepted: completes the sentence "it takes …".
        """
        return (self._reason or f"it takes {accepted}.") + self._hint


class Form(NamedTuple):
    """The form of a value: what is accepted, and how it is parsed."""

    accepted: str
    """Completes the sentence "it takes …"."""
    parse: Callable[[Any], Any]
    """Returns what a value stands for; raises `NotAcceptedError`."""
    accepted_text: str = ""
    """What is accepted of text alone, as a variable holds it; empty: the same."""

    def find_refusal(self, call: str, name: str, value: object) -> str:
        """Return why an argument is not accepted, with its value; empty where it is."""
        try:
            self.parse(value)
        except NotAcceptedError as error:
            return f"{call}({name}={value!r}) is not accepted: {error.describe(self.accepted)}"
        return ""


def one_of(*accepted: str) -> Form:
    """Make the form of one of these texts."""

    def parse(value: Any) -> str:
        if value in accepted:
            return str(value)
        raise NotAcceptedError(hint=_suggest(value, accepted))

    return Form("one of " + ", ".join(accepted), parse)


def parse_names(value: Any) -> tuple[str, ...]:
    """Parse names that are given as a list, or as text separated by commas; there is at least one."""
    names = [name for name in value.split(",") if name.strip()] if isinstance(value, str) else value
    if isinstance(names, Iterable):
        stripped = [name.strip() if isinstance(name, str) else "" for name in names]
        if stripped and all(stripped):
            return tuple(stripped)
    raise NotAcceptedError


def some_of(accepted: Sequence[str]) -> Form:
    """Make the form of some of these names, as a list or separated by commas."""

    def parse(value: Any) -> tuple[str, ...]:
        names = parse_names(value)
        for name in names:
            if name not in accepted:
                raise NotAcceptedError(hint=_suggest(name, accepted))
        return names

    return Form("some of " + ", ".join(accepted), parse)


def parse_positive(value: Any) -> int:
    """Parse a whole number from 1."""
    try:
        number = int(value)
    except (TypeError, ValueError, OverflowError):
        number = 0
    if number < 1 or isinstance(value, (bool, float)):
        raise NotAcceptedError
    return number


def parse_progress(value: Any) -> float | None:
    """Parse the seconds between two progress events; None: there are none."""
    if value is None or value is False or _is_off(value):
        return None
    try:
        seconds = parse_seconds(value) if isinstance(value, str) else float(value)
    except (TypeError, ValueError, OverflowError):
        raise NotAcceptedError from None
    if isinstance(value, bool) or not MIN_PROGRESS_SECONDS <= seconds <= MAX_PROGRESS_SECONDS:
        raise NotAcceptedError
    return seconds


def parse_stall(value: Any) -> StallPolicy | None:
    """Parse a stall policy, or its values as text; None: stall detection is off."""
    if isinstance(value, StallPolicy):
        return value
    if value is False or _is_off(value):
        return None
    if not isinstance(value, str):
        raise NotAcceptedError
    known = [field.name for field in fields(StallPolicy)]
    values: dict[str, float | None] = {}
    for name, text in _split_pairs(value):
        if name not in known:
            raise NotAcceptedError(hint=_suggest(name, known))
        if name in values:
            raise NotAcceptedError(f"it has two values for {name}.")
        try:
            # A multiple has no unit.
            parse = float if name == "relative" else parse_seconds
            values[name] = None if _is_off(text) else parse(text)
        except ValueError:
            raise NotAcceptedError from None
    try:
        return StallPolicy(**values)
    except ValueError:
        raise NotAcceptedError from None


def callback(accepted: str, *parameters: str) -> Form:
    """Make the form of a function that is not async, or None.

    Args:
        accepted: completes the sentence "it takes …".
        parameters: what the function is called with, by position; their names are for people to read.
    """

    def parse(value: Any) -> Callable[..., object] | None:
        if value is not None:
            check_callback(value, *parameters)
        return cast("Callable[..., object] | None", value)

    return Form(accepted, parse)


def check_callback(value: Any, *parameters: str) -> None:
    """Check that a value is a function that is not async, and that it takes these arguments, where it has a signature.

    Raises:
        NotAcceptedError: it is not.
    """
    if not callable(value) or iscoroutinefunction(value):
        raise NotAcceptedError
    try:
        found = signature(value)
    except (TypeError, ValueError):  # a built-in function may have none
        return
    try:
        found.bind(*parameters)
    except TypeError:
        if not parameters:
            raise NotAcceptedError("it cannot be called without arguments.") from None
        count = f"{len(parameters)} arguments" if len(parameters) > 1 else "one argument"
        raise NotAcceptedError(f"it cannot be called with {count}: {', '.join(parameters)}.") from None


def parse_objectives(value: Any) -> Objectives:
    """Parse one objective for all models, or objectives by pattern of model names."""
    if isinstance(value, Objectives):
        return value
    if _is_off(value):
        return Objectives()
    by_model: Iterable[tuple[Any, Any]]
    if isinstance(value, Mapping):
        by_model = value.items()
    elif isinstance(value, str):
        by_model = [(pattern or _ALL_MODELS, objective) for pattern, objective in _split_pairs(value)]
    else:
        by_model = [(_ALL_MODELS, value)]
    try:
        parsed = tuple((_check_model_pattern(pattern), _parse_objective(objective)) for pattern, objective in by_model)
    except NotAcceptedError:
        meant = _DECIMAL_COMMA.sub(".", value) if isinstance(value, str) else value
        if meant == value:
            raise
        raise NotAcceptedError(f"numbers have a decimal point, not a comma: did you mean {meant}?") from None
    patterns = [pattern for pattern, _ in parsed]
    for pattern in patterns:
        if patterns.count(pattern) > 1:
            whom = "all models" if pattern == _ALL_MODELS else pattern
            raise NotAcceptedError(f"it has two objectives for {whom}: name the models, as in gpt-4o*=chat,*=batch.")
    return Objectives(parsed)


def _check_model_pattern(value: Any) -> str:
    """Return the pattern of model names of an objective: any text that is not empty."""
    if isinstance(value, str) and value:
        return value
    raise NotAcceptedError


def _parse_objective(value: Any) -> SLO:
    """Parse an objective: an `SLO`, the name of a profile, or `TTFT/ITL@target`."""
    if isinstance(value, SLO):
        return value
    if not isinstance(value, str):
        raise NotAcceptedError
    if value in PROFILES:
        return PROFILES[value]
    times, at, target = value.partition("@")
    parts = times.split("/")
    if not times.strip(" /"):
        where = f" before {at}{target}" if at else ""
        raise NotAcceptedError(f"it has no objective{where}: name one, such as chat, 0.5/0.05 or 0.5/0.05@0.995.")
    if times.endswith("%"):
        raise NotAcceptedError(f"{times!r} is a target alone: it follows TTFT/ITL, as in 0.5/0.05@0.99.")
    if len(parts) != len(MAX_SECONDS):
        raise NotAcceptedError(hint="" if len(parts) > 1 else _suggest(value, PROFILES))
    limits = {name: limit * 1_000 for name, limit in MAX_SECONDS.items()}  # `SLO` knows what milliseconds are
    ttft, itl = (_parse_time(part, name, limits[name]) for part, name in zip(parts, limits, strict=True))
    try:
        return SLO(ttft=ttft, itl=itl, target=_parse_target(target) if at else 0.99)
    except MillisecondsError as error:
        raise NotAcceptedError(error.reason) from None


def _parse_time(text: str, name: str, limit: float) -> float | None:
    """Parse the TTFT or the ITL of an objective; None: it has none."""
    if not text.strip():
        return None
    with suppress(ValueError):
        seconds = parse_seconds(text)
        if 0 < seconds < limit:
            return seconds
    accepted = f"above 0 and below {MAX_SECONDS[name]:g} s, such as 0.5 or 50ms"
    raise NotAcceptedError(f"its {name.upper()} {text.strip()!r} is no time {accepted}.")


def _parse_target(text: str) -> float:
    """Parse the target of an objective."""
    with suppress(ValueError):
        target = float(text)
        if 0 < target < 1:
            return target
    raise NotAcceptedError(f"its target {text.strip()!r} is no share between 0 and 1, such as 0.99.")


def parse_file(value: Any) -> str | None:
    """Return the absolute path of a file that may be written; None: no file is written."""
    try:
        return None if _is_off(value) else str(resolve_file_path(value))
    except ValueError as error:
        raise NotAcceptedError(f"{error}; it takes {FILE.accepted}." if str(error) else "") from None


def parse_switch(value: Any) -> bool:
    """Parse true or false, or 1 or 0 as text."""
    text = str(value).strip().lower() if isinstance(value, (bool, str)) else ""
    if text not in _SWITCHES:
        raise NotAcceptedError
    return _SWITCHES[text]


def parse_session_from(value: Any) -> SessionFrom | None:
    """Parse where a request names its session: a field, `header:NAME`, or a function."""
    if _is_off(value):
        return None
    if not isinstance(value, str):
        check_callback(value, "the body", "the headers")
        return cast("SessionFrom", value)
    place, colon, name = value.strip().partition(":")
    if place == "header" and name:
        return Header(name.strip().lower())
    if not colon and all(place.split(".")):
        return BodyField(tuple(place.split(".")))
    raise NotAcceptedError


def _split_pairs(value: str) -> list[tuple[str, str]]:
    """Split `a=1, b=2` into pairs; a part without `=` is the value of an empty name."""
    parts = [part.strip().rpartition("=") for part in value.split(",")]
    return [(name.strip(), text.strip()) for name, _, text in parts]


def _is_off(value: Any) -> bool:
    return value is None or (isinstance(value, str) and value.strip().lower() in OFF)


def _suggest(value: Any, known: Iterable[str]) -> str:
    return did_you_mean(value, known) if isinstance(value, str) else ""


_STALL_TEXT: Final = (
    "first_token=10,reasoning=10,next_token=500ms,relative=20,abort_after=60 (above 0, in seconds without a unit, or "
    "off), or off"
)
_SLO_TEXT: Final = f"{', '.join(PROFILES)}, TTFT/ITL such as 0.5/0.05 (seconds), 500ms/50ms or 0.5/0.05@0.995"
_SESSION_TEXT: Final = "a field of the request such as user, safety_identifier or metadata.session_id, header:NAME"

POSITIVE: Final = Form("a whole number from 1", parse_positive)
NAMES: Final = Form("names, as a list or separated by commas", parse_names, "names, separated by commas")
STALL: Final = Form(f"a StallPolicy, or its values as {_STALL_TEXT}", parse_stall, f"values such as {_STALL_TEXT}")
OBJECTIVES: Final = Form(
    f"{_SLO_TEXT}, an SLO, or off; each may be given for models, as {{'gpt-4o*': 'chat'}} or gpt-4o*=chat,*=batch",
    parse_objectives,
    f"{_SLO_TEXT}, or off; each may be given for models, as gpt-4o*=chat,*=batch",
)
SESSION_FROM: Final = Form(
    f"{_SESSION_TEXT}, or a function of its body and headers", parse_session_from, f"{_SESSION_TEXT}, or off"
)
FILE: Final = Form("the path of a file that may be written, or off", parse_file)
SWITCH: Final = Form("true or false", parse_switch, "true or false, or 1 or 0")
PROGRESS: Final = Form(f"seconds from {MIN_PROGRESS_SECONDS:g} to {MAX_PROGRESS_SECONDS:g}, or off", parse_progress)
